package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Mellanox/rdmamap"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-rdma/sluice/verbs/metrics"
)

// nicStandIn is an RDMA device in sysfs with an interface of mlx5's ethtool
// statistics, which count: no machine of the tests has one. softroce's counters
// are there too; metrics' tests hold their names against a device.
func nicStandIn(t *testing.T) (stats func(string) (map[string]uint64, error)) {
	t.Helper()
	root, device := t.TempDir(), t.TempDir()
	files := map[string]string{"gid_attrs/ndevs/0": "eth0\n"}
	for _, name := range []string{"np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets", "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "retransmitted_pkts"} {
		files["hw_counters/"+name] = "5\n"
	}
	for name, text := range files {
		path := filepath.Join(device, "ports/1", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(device, filepath.Join(root, "mlx5_0")); err != nil {
		t.Fatal(err)
	}
	before := rdmamap.RdmaClassDir
	rdmamap.RdmaClassDir = root
	t.Cleanup(func() { rdmamap.RdmaClassDir = before })

	var reads atomic.Uint64
	return func(netdev string) (map[string]uint64, error) {
		if netdev != "eth0" {
			return nil, errors.New("no such device")
		}
		n := reads.Add(1)
		all := map[string]uint64{}
		for _, name := range []string{
			"rx_prio3_pause", "rx_prio3_pause_duration", "tx_prio3_pause", "tx_prio3_pause_duration",
			"rx_prio3_discards", "rx_prio3_buf_discard", "rx_prio3_cong_discard", "rx_discards_phy", "tx_discards_phy",
			"tx_global_pause", "rx_global_pause_duration", "tx_pause_storm_error_events",
		} {
			all[name] = 1000 * n
		}
		return all, nil
	}
}

// paces starts a process that writes over the model's NICs, paced, and publishes.
// The test ends early if the process does.
func paces(ctx context.Context, t *testing.T, broken func(), runDir, engine string) {
	t.Helper()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Args = []string{"sluice", "perf", "write_bw", "-d", "sim:h0", "--peer", "sim:h1", "--cc", engine, "-n", "100000000"}
	c.Env = append(os.Environ(), "SLUICE_METRICS=1", "SLUICE_RUN="+runDir)
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		err := c.Wait()
		if ctx.Err() == nil { // by itself
			ended <- fmt.Sprintf("%v\n%s", err, said.String())
		}
		close(ended)
		broken()
	}()
	t.Cleanup(func() {
		broken()
		if why := <-ended; why != "" {
			t.Errorf("sluice perf with %s ended: %s", engine, why)
		}
	})
}

// startPrometheus has Debian's scrape an exporter each second, and returns its API's
// address.
func startPrometheus(ctx context.Context, t *testing.T, exporter string) (api string) {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skipf("no prometheus (Debian's package prometheus): %v", err)
	}
	rules, err := filepath.Abs("../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	err = os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: sluice
    static_configs: [{targets: [%q]}]
`, rules, exporter), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	log, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	listening := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	found := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines, address, ready := bufio.NewScanner(log), "", false
		for lines.Scan() { // the two lines come in either order
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address = m[1]
			}
			ready = ready || strings.Contains(lines.Text(), "Server is ready to receive web requests")
			if ready && address != "" {
				found <- address
				address = ""
			}
		}
		_ = c.Wait()
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
	})
	select {
	case address := <-found:
		return "http://" + address + "/api/v1/"
	case <-ended:
		t.Fatal("prometheus ended")
	case <-ctx.Done():
		t.Fatal("prometheus listens nowhere")
	}
	return ""
}

// ask gives what the API answers, in data.
func ask(ctx context.Context, url string, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", url, answer.Error)
	}
	return nil
}

// samples counts what a query gives, without what is no number.
func samples(ctx context.Context, api, query string) (n int, err error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := ask(ctx, api+"query?query="+url.QueryEscape(query), &data); err != nil {
		return 0, err
	}
	for _, r := range data.Result {
		if v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64); err == nil && !math.IsNaN(v) {
			n++
		}
	}
	return n, nil
}

// Each panel of the dashboard, its variable, and each metric of the alerts, asked by a
// real Prometheus of the exporter that it scrapes, give data. Grafana is not there:
// what it puts for its variables is put here.
func TestDashboardInPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("short: half a minute, with a Prometheus")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // so that a failure ends
	t.Cleanup(cancel)
	runDir := t.TempDir()
	own := prometheus.NewRegistry()
	own.MustRegister(metrics.NewNetdevs(nicStandIn(t), quiet), metrics.NewKernel(quiet))
	registerSelf(own)
	h, err := exporterHandler(own, metrics.NewProcesses(runDir, quiet), "/metrics", quiet)
	if err != nil {
		t.Fatal(err)
	}
	api := startPrometheus(ctx, t, serving(t, h, ""))
	paces(ctx, t, cancel, runDir, "timely")
	paces(ctx, t, cancel, runDir, "swift") // which has a window

	var board struct {
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("../deploy/grafana/sluice.json")
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	waiting := map[string]string{} // queries, and what asks them
	grafana := strings.NewReplacer("$device", ".+", "$__rate_interval", "4s")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			waiting[grafana.Replace(target.Expr)] = "panel " + p.Title
		}
	}
	alerts, err := os.ReadFile("../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\b(?:(?:sluice|rdma)_[a-z0-9_]+|up)\b[\[{) =]`).FindAllString(string(alerts), -1) {
		waiting[strings.TrimRight(name, "[{) =")] = "an alert"
	}
	if len(waiting) < 40 {
		t.Errorf("%d queries only: %v", len(waiting), slices.Sorted(maps.Keys(waiting)))
	}
	asked := len(waiting)

	variable := regexp.MustCompile(`label_values\((.*), (\w+)\)`)
	variables := 0
	for _, v := range board.Templating.List {
		if m := variable.FindStringSubmatch(fmt.Sprint(v.Query)); m != nil {
			variables++
			waiting[fmt.Sprintf("count by (%s) (%s)", m[2], m[1])] = "variable " + v.Name
		}
	}
	if variables != 1 {
		t.Errorf("%d variables ask for labels", variables)
	}

	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for len(waiting) > 0 {
		for query := range waiting {
			n, err := samples(ctx, api, query)
			if err != nil && ctx.Err() == nil {
				t.Fatalf("%s: %s: %v", waiting[query], query, err)
			}
			if n > 0 {
				delete(waiting, query)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for query, who := range waiting {
				t.Errorf("%s: no data of %s", who, query)
			}
			return
		}
	}
	t.Logf("%d queries gave data", asked+variables)

	// Prometheus has evaluated every rule, and none with an error.
	for rules := 0; rules == 0; {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := ask(ctx, api+"rules", &data); err != nil {
			t.Fatal(err)
		}
		unknown := 0
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				rules++
				switch r.Health {
				case "ok":
				case "unknown":
					unknown++
				default:
					t.Errorf("alert %s is %s: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		if want := strings.Count(string(alerts), "- alert: "); rules != want {
			t.Errorf("Prometheus has %d rules, want %d", rules, want)
		} else if unknown > 0 {
			rules = 0 // not evaluated yet
			<-tick.C
		}
	}
}
