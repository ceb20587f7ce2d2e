package cli

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-rdma/sluice/verbs/metrics"
)

// serving has h served at a port of the loopback until the test ends.
func serving(t *testing.T, h http.Handler, config string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, []net.Listener{l}, h, config) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

var quiet = slog.New(slog.DiscardHandler)

// client is one without kept connections, which would hold up the server's end.
func client(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

func get(t *testing.T, c *http.Client, url string) (status int, body string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// A scrape that is under way when the exporter is told to stop is answered.
func TestServeEndsWithItsRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, []net.Listener{l}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			stop()
			<-ctx.Done()
			_, _ = io.WriteString(w, "whole")
		}), "")
	}()
	if _, body := get(t, client(nil), "http://"+l.Addr().String()); body != "whole" {
		t.Errorf("%q", body)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Connections that ask for nothing more are closed when there are too many; whoever
// asks is answered.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	h, err := exporterHandler(prometheus.NewRegistry(), prometheus.NewRegistry(), "/metrics", quiet)
	if err != nil {
		t.Fatal(err)
	}
	address := serving(t, h, "")
	const more = 20
	all := make([]net.Conn, mostConnections+more)
	for i := range all {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all[i] = c
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v, %v", i, resp, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error, len(all))
	for _, c := range all {
		go func() {
			_, err := c.Read(make([]byte, 1))
			closed <- err
		}()
	}
	enough := time.After(idleTimeout / 4) // so that a failure ends
	for n := range more {
		select {
		case <-closed:
		case <-enough:
			t.Fatalf("%d of %d connections were closed, want %d", n, len(all), more)
		}
	}
	if status, body := get(t, client(nil), "http://"+address+"/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %q", status, body)
	}
}

// What is closed is what has waited for the longest, be it for a first request; a
// request at hand is left alone.
func TestConnectionLimit(t *testing.T) {
	l := newConnLimit(2)
	open := func() (near, far net.Conn) {
		near, far = net.Pipe()
		t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
		l.changed(near, http.StateNew)
		return near, far
	}
	closed := func(far net.Conn) bool {
		_ = far.SetReadDeadline(time.Unix(1, 0)) // past: a pipe that is closed says so first
		_, err := far.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
	a, farA := open()
	b, farB := open()
	l.changed(a, http.StateActive)
	_, farC := open() // b has waited for longer
	if closed(farA) || !closed(farB) || closed(farC) {
		t.Errorf("closed: %v %v %v, want the second", closed(farA), closed(farB), closed(farC))
	}
	l.changed(b, http.StateClosed)
	l.changed(a, http.StateIdle)
	d, farD := open() // c, since a has just been answered
	if closed(farA) || !closed(farC) || closed(farD) {
		t.Errorf("closed: %v %v %v, want the second", closed(farA), closed(farC), closed(farD))
	}
	l.changed(a, http.StateActive)
	l.changed(d, http.StateActive)
	if _, farE := open(); closed(farA) || closed(farD) || !closed(farE) {
		t.Error("one too many is not closed, or a request at hand was broken off")
	}
	l.changed(a, http.StateClosed)
	if _, farF := open(); closed(farF) {
		t.Error("a connection that ended still counts")
	}
}

// blocking is a metric that comes when it is let go.
type blocking struct{ entered, release chan struct{} }

func (b blocking) Describe(chan<- *prometheus.Desc) {}

func (b blocking) Collect(chan<- prometheus.Metric) {
	b.entered <- struct{}{}
	<-b.release
}

func TestScrapesInFlightHaveABound(t *testing.T) {
	b := blocking{make(chan struct{}), make(chan struct{})}
	own := prometheus.NewRegistry()
	own.MustRegister(b)
	h, err := exporterHandler(own, prometheus.NewRegistry(), "/metrics", quiet)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + serving(t, h, "") + "/metrics"
	done := make(chan error, mostScrapes)
	for range mostScrapes {
		go func() {
			resp, err := client(nil).Get(url)
			if err == nil {
				err = resp.Body.Close()
			}
			done <- err
		}()
		<-b.entered
	}
	if status, body := get(t, client(nil), url); status != http.StatusServiceUnavailable {
		t.Errorf("one too many is answered %d %q", status, body)
	}
	close(b.release)
	for range mostScrapes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestExporterPages(t *testing.T) {
	own := prometheus.NewRegistry()
	registerSelf(own)
	h, err := exporterHandler(own, metrics.NewProcesses(t.TempDir(), quiet), "/metrics", quiet)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + serving(t, h, "")
	if status, body := get(t, client(nil), base+"/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d %q", status, body)
	}
	status, page := get(t, client(nil), base+"/")
	for _, want := range []string{`<a href="/metrics">Metrics</a>`, `<a href="/healthz">Health</a>`} {
		if status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("/: %d, no %s in %s", status, want, page)
		}
	}
	if status, _ := get(t, client(nil), base+"/other"); status != http.StatusNotFound {
		t.Errorf("/other: %d", status)
	}
	_, text := get(t, client(nil), base+"/metrics")
	for _, want := range []string{
		`(?m)^sluice_build_info{goarch="\w+",goos="\w+",goversion="go1\.[^"]+",revision="[^"]+",version="[^"]+"} 1$`,
		`(?m)^go_goroutines [1-9]`, `(?m)^process_start_time_seconds [1-9]`, `(?m)^process_open_fds [1-9]`,
		`(?m)^promhttp_metric_handler_requests_in_flight 1$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// certificate writes a certificate for 127.0.0.1 and its key to dir.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "c.pem"), certPEM, 0o600), os.WriteFile(filepath.Join(dir, "k.pem"), keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

// --web.config.file: TLS and a password, for every page.
func TestWebConfig(t *testing.T) {
	dir := t.TempDir()
	roots := certificate(t, dir)
	config := filepath.Join(dir, "web.yaml")
	// The password is "secret".
	const users = "basic_auth_users:\n  watcher: $2a$04$EjjMSMUPrfcTiXwCX53BuOEICQ4R83iY.MjWI3sU071HsOMPqisAm\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n" + users)
	if scheme, err := webScheme(config); err != nil || scheme != "https" {
		t.Fatalf("%s, %v", scheme, err)
	}
	h, err := exporterHandler(prometheus.NewRegistry(), prometheus.NewRegistry(), "/metrics", quiet)
	if err != nil {
		t.Fatal(err)
	}
	address := serving(t, h, config)
	c := client(roots)
	for credentials, want := range map[string]int{"": http.StatusUnauthorized, "watcher:guess@": http.StatusUnauthorized, "watcher:secret@": http.StatusOK} {
		for _, page := range []string{"/metrics", "/healthz", "/"} {
			if status, body := get(t, c, fmt.Sprintf("https://%s%s%s", credentials, address, page)); status != want {
				t.Errorf("%s as %q: %d %q", page, credentials, status, body)
			}
		}
	}
	if status, _ := get(t, client(nil), "http://"+address+"/metrics"); status != http.StatusBadRequest {
		t.Errorf("without TLS: %d", status)
	}

	write(users)
	if scheme, err := webScheme(config); err != nil || scheme != "http" {
		t.Errorf("%s, %v", scheme, err)
	}
	for _, bad := range []string{"tls_server_config: {cert_file: none.pem, key_file: k.pem}\n", "tls_sever_config: {}\n", "basic_auth_users: {a: plain}\n", "\t"} {
		write(bad)
		if _, err := webScheme(config); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A path that no handler can be registered for is refused, and not a panic.
func TestMetricsPath(t *testing.T) {
	for p, good := range map[string]bool{
		"/metrics": true, "/": true, "/a/b.txt": true,
		"": false, "metrics": false, "//x": false, "/x/": false, "/../x": false, "/{x": false, "/{x}": false, "/{$}": false,
		"/a b": false, "/a?b": false, "/a%20b": false, "/healthz": false,
	} {
		if err := checkMetricsPath(p); (err == nil) != good {
			t.Errorf("%q: %v", p, err)
		}
		if good { // the mux panics of a bad one
			if _, err := exporterHandler(prometheus.NewRegistry(), prometheus.NewRegistry(), p, quiet); err != nil {
				t.Error(err)
			}
		}
	}
}
