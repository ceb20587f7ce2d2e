package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var withKubernetes = flag.Bool("kubernetes", false, "build a kube-apiserver and have it judge job files (make test-k8s)")

// kubernetes is the apiserver's version, of which its own libraries have another number.
const kubernetes, kubernetesLibraries = "v1.34.1", "v0.34.1"

// TestSweepKubernetes has a real kube-apiserver take the Indexed Jobs of sluice sweep plan
// --k8s, for a volume and for an object store, and refuse one with a misspelt field.
func TestSweepKubernetes(t *testing.T) {
	if !*withKubernetes {
		t.Skip("building a kube-apiserver takes minutes: make test-k8s does it")
	}
	server := newAPIServer(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sluice := filepath.Join(dir, "sluice")
	if err := os.Symlink(exe, sluice); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(dir, "sweep.yaml")
	if err := os.WriteFile(spec, []byte("scenarios: [quickstart]\nseeds: 5\nchunk: 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "it's a sweep") // a name that is no object's
	plan := exec.Command(sluice, "sweep", "plan", spec, "-o", folder, "--k8s", "--image", "example.org/sluice:1", "--claim", "results")
	if out, err := plan.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	job, err := os.ReadFile(filepath.Join(folder, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	status, body := server.create(t, job)
	var made struct {
		Metadata struct{ Name string }
		Spec     struct {
			CompletionMode string
			Completions    int
		}
	}
	if err := json.Unmarshal(body, &made); err != nil || status != http.StatusCreated {
		t.Fatalf("status %d, %v: %s\n%s", status, err, body, job)
	}
	if made.Spec.CompletionMode != "Indexed" || made.Spec.Completions != 3 {
		t.Errorf("it was taken as %+v", made)
	}
	if warned := server.warning; warned != "" {
		t.Errorf("it was taken with the warning %s", warned)
	}
	for _, field := range []string{"completionMode", "backoffLimitPerIndex", "claimName", "restartPolicy"} {
		bad := bytes.Replace(job, []byte(field+":"), []byte(field+"s:"), 1)
		if bytes.Equal(bad, job) {
			t.Errorf("no %s in\n%s", field, job)
			continue
		}
		if status, body := server.create(t, bad); status != http.StatusBadRequest || !bytes.Contains(body, []byte(field+"s")) {
			t.Errorf("%ss: status %d: %s", field, status, body)
		}
	}
}

// apiServer is a kube-apiserver that lets one token do everything.
type apiServer struct {
	url, token string
	client     http.Client
	warning    string // of the last answer
}

// create makes a Job of a manifest and returns the answer; fields that there are not are errors.
func (s *apiServer) create(t *testing.T, manifest []byte) (status int, body []byte) {
	t.Helper()
	return s.ask(t, http.MethodPost, "/apis/batch/v1/namespaces/default/jobs?fieldValidation=Strict", manifest)
}

func (s *apiServer) ask(t *testing.T, method, path string, yaml []byte) (status int, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(yaml))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/yaml")
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = answer.Body.Close() }() // it is read only
	s.warning = answer.Header.Get("Warning")
	if body, err = io.ReadAll(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, body
}

// newAPIServer builds a kube-apiserver and starts it on etcd. It skips the test where one
// of them is not to be had.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("no etcd: install etcd-server")
	}
	dir := t.TempDir()
	exe := buildAPIServer(t, dir)
	ports := freePorts(t, 3)
	store, peers := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	beginServer(t, dir, "etcd", etcd, "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", "http://"+store,
		"--advertise-client-urls", "http://"+store, "--listen-peer-urls", "http://"+peers)

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	account, tokens := filepath.Join(dir, "account.key"), filepath.Join(dir, "tokens.csv")
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(account, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &apiServer{url: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), token: "sweeper-of-floors"}
	// Its certificate is of its own making, in a directory of this test.
	s.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	if err := os.WriteFile(tokens, []byte(s.token+",sweeper,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	beginServer(t, dir, "kube-apiserver", exe, "--etcd-servers", "http://"+store, "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(ports[2]),
		"--cert-dir", filepath.Join(dir, "certificates"), "--token-auth-file", tokens, "--authorization-mode", "AlwaysAllow",
		"--service-account-issuer", s.url, "--service-account-key-file", account, "--service-account-signing-key-file", account,
		"--service-cluster-ip-range", "10.96.0.0/16", "--disable-admission-plugins", "ServiceAccount")
	var last []byte
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) { //nolint:forbidigo // until servers of real time are there
		var status int
		if status, last = s.ask(t, http.MethodGet, "/api/v1/namespaces/default", nil); status == http.StatusOK {
			return s
		}
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		said, _ := os.ReadFile(filepath.Join(dir, name+".log")) // for the message alone
		t.Logf("%s said:\n%s", name, said[max(0, len(said)-4000):])
	}
	t.Fatalf("the apiserver is not there after two minutes: %s", last)
	return nil
}

// beginServer starts a server that ends with the test; what it says is in dir.
func beginServer(t *testing.T, dir, name, exe string, args ...string) {
	t.Helper()
	said, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		_ = said.Close()
	})
}

// buildAPIServer builds a kube-apiserver in a module of its own: what Kubernetes has in its
// own tree as replacements is published by other versions.
func buildAPIServer(t *testing.T, dir string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	run := func(args ...string) []byte {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=mod")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("kube-apiserver %s can't be built: go %s: %v\n%s%s", kubernetes, strings.Join(args, " "), err, out, &said)
		}
		return out
	}
	var module struct{ GoMod string }
	if err := json.Unmarshal(run("mod", "download", "-json", "k8s.io/kubernetes@"+kubernetes), &module); err != nil {
		t.Fatal(err)
	}
	var needs struct {
		Go      string
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(run("mod", "edit", "-json", module.GoMod), &needs); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("module judge\n\ngo %s\n\nrequire k8s.io/kubernetes %s\n", needs.Go, kubernetes)
	for _, r := range needs.Require {
		if r.Version == "v0.0.0" {
			text += fmt.Sprintf("replace %s => %s %s\n", r.Path, r.Path, kubernetesLibraries)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "kube-apiserver")
	run("build", "-o", exe, "k8s.io/kubernetes/cmd/kube-apiserver")
	return exe
}
