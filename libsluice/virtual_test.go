package libsluice_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/sluice-rdma/sluice/verbs/metrics"
)

// virtual is a command on an emulated ConnectX, whose libibverbs and libmlx5 are those
// of the system.
func virtual(t *testing.T, preload bool, env []string, argv ...string) *exec.Cmd {
	sluice, lib := sluiceCommand(t)
	dir := filepath.Dir(sluice)
	start := `exec "$@"`
	if preload { // beside what is preloaded for the device
		start = `export LD_PRELOAD="$LD_PRELOAD:` + filepath.Join(lib, "libsluice-preload.so") + `"; ` + start
	}
	args := slices.Concat([]string{"virtual", "--", "sh", "-c", start, "sh", "env"}, env,
		[]string{"LD_LIBRARY_PATH=" + lib, "TEST_DEVICE=mlx5_0", "TEST_GID=0", filepath.Join(dir, argv[0])}, argv[1:])
	cmd := exec.CommandContext(t.Context(), sluice, args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SLUICE_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	return cmd
}

// TestHooksOnMLX5 is TestHooks with the driver that ConnectX NICs have, in place of the
// fake: what the libraries believe of it is what it does.
func TestHooksOnMLX5(t *testing.T) {
	for _, mode := range []struct {
		name    string
		binary  string
		preload bool
		env     []string
	}{
		{"preload, at a rate", "hooks", true, []string{"SLUICE_SEGMENT=4KiB", "SLUICE_RATE=2Gbps"}},
		{"preload, TIMELY", "hooks", true, []string{"SLUICE_SEGMENT=4KiB", "SLUICE_CC=timely"}},
		{"sluice.h, at a rate", "hooks-api", false, []string{"TEST_RATE=2000000000"}},
		{"sluice.h, TIMELY", "hooks-api", false, []string{"TEST_ENGINE=timely"}},
		{"preload, groups", "hooks", true, []string{"SLUICE_SEGMENT=4KiB", "SLUICE_CC=timely", "SLUICE_GROUP=destination"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			for _, test := range names(t, mode.binary) {
				if test == "turns" {
					continue // counts on receives that are there before sends complete
				}
				t.Run(test, func(t *testing.T) { run(t, virtual(t, mode.preload, mode.env, mode.binary, test)) })
			}
		})
	}
}

// What a program of others does is to be seen while it does it: of a preloaded perftest each end
// publishes its queue pairs, and nothing remains of it when both have ended.
func TestMetricsOnMLX5(t *testing.T) {
	perftest, err := exec.LookPath("ib_write_bw")
	if err != nil {
		t.Skipf("perftest is not installed: %v", err)
	}
	dir, _ := build(t)
	script := filepath.Join(dir, "metrics.sh")
	text := "#!/bin/sh\n" +
		perftest + ` -d mlx5_0 -F -D 4 "$@" >"$0.out" 2>&1 &
for try in $(seq 100); do
	kill -0 $! || { cat "$0.out"; exit 1; }
	` + perftest + ` -d mlx5_0 -F -D 4 "$@" 127.0.0.1 && wait $! && exit
	sleep 0.1
done
exit 1
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	published, err := os.MkdirTemp("", "published") // t's is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(published)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := virtual(t, true, []string{"SLUICE_CC=timely", "SLUICE_METRICS=1", "SLUICE_RUN=" + filepath.Join(published, "run")}, "metrics.sh", "-s", "65536", "-q", "3", "-p", port)
	ended := make(chan string, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		ended <- fmt.Sprintf("%v: %s", err, out)
	}()
	processes := metrics.NewProcesses(filepath.Join(published, "run"), slog.New(slog.DiscardHandler))
	seen := ""
	for seen == "" {
		select {
		case out := <-ended:
			t.Fatalf("nothing was published, and it has ended: %s", out)
		case <-time.After(20 * time.Millisecond): // to leave the processors to the test
		}
		families, err := processes.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sent, text := 0.0, new(strings.Builder)
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "sluice_qp_messages_total" {
					sent += m.GetCounter().GetValue()
				}
			}
			if _, err := expfmt.MetricFamilyToText(text, f); err != nil {
				t.Fatal(err)
			}
		}
		if sent > 100 {
			seen = text.String()
		}
	}
	for _, want := range []string{
		`sluice_qp_info\{device="ibv:mlx5_0",qpn="0x[0-9a-f]+",engine="timely",state="RTS",pid="\d+"\} 1`, `sluice_qp_rate_bps\{.*\} \d`,
		`sluice_qp_segments_total\{.*\} [1-9]`, `sluice_qp_segment_bytes_total\{.*\} [1-9]`, `sluice_qp_failed_total\{.*\} 0`, `sluice_qp_outstanding_bytes\{`,
		`sluice_qp_rtt_seconds_bucket\{.*,le="\+Inf"\} [1-9]`, `sluice_qp_rtt_seconds_sum\{.*\} [0-9.e-]*[1-9]`, `sluice_process_up\{pid="\d+"\} 1`,
	} {
		if !regexp.MustCompile(want).MatchString(seen) {
			t.Errorf("no %s in\n%s", want, seen)
		}
	}
	if out := <-ended; !strings.HasPrefix(out, "<nil>") {
		t.Errorf("perftest: %s", out)
	}
	if left, err := os.ReadDir(filepath.Join(published, "run")); err != nil || len(left) > 0 {
		t.Errorf("%v remain, %v", left, err)
	}
}

// The default path of perftest posts by ibv_wr_*, and each state change has libmlx5 write
// its own calls again.
func TestPerftestOnMLX5(t *testing.T) {
	perftest, err := exec.LookPath("ib_write_bw")
	if err != nil {
		t.Skipf("perftest is not installed: %v", err)
	}
	dir, _ := build(t)
	script := filepath.Join(dir, "perftest.sh")
	// The client is refused until the server listens.
	text := "#!/bin/sh\n" +
		perftest + ` -d mlx5_0 -F -n 100 "$@" >"$0.out" 2>&1 &
for try in $(seq 100); do
	kill -0 $! || { cat "$0.out"; exit 1; }
	` + perftest + ` -d mlx5_0 -F -n 100 "$@" 127.0.0.1 && wait $! && exit
	sleep 0.1
done
exit 1
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"", "--use_old_post_send", "-q 4 -l 4", "-c UC"} {
		t.Run(flags, func(t *testing.T) {
			argv := append([]string{"perftest.sh", "-s", "65536"}, strings.Fields(flags)...)
			out := run(t, virtual(t, true, []string{"SLUICE_CC=timely", "SLUICE_SEGMENT=16KiB", "SLUICE_STATS=1"}, argv...))
			all := regexp.MustCompile(`ibv:mlx5_0, engine timely: (\d) queue pairs, (\d+) requests \(0 failed\), (\d+) segments`).FindAllStringSubmatch(out, -1)
			if strings.Contains(flags, "UC") {
				if all != nil {
					t.Errorf("unreliable connections are not paced, but:\n%s", out)
				}
				return
			}
			most := 0
			for _, m := range all {
				requests, _ := strconv.Atoi(m[2])
				segments, _ := strconv.Atoi(m[3])
				if most = max(most, requests); segments != 4*requests {
					t.Errorf("%d requests in %d segments\n%s", requests, segments, out)
				}
			}
			if most < 100 {
				t.Errorf("%d requests were paced, expected 100\n%s", most, out)
			}
		})
	}
}

// Programs that look libibverbs' functions up are paced, and find their libraries where they
// did.
func TestLookUpOnMLX5(t *testing.T) {
	dir, _ := build(t)
	own := filepath.Join(dir, "own")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"cc", "-shared", "-fPIC", "-x", "c", "-o", filepath.Join(own, "libown.so"), "/dev/null"},
		{"cc", "-std=gnu11", "-Wall", "-Wextra", "-o", filepath.Join(dir, "lookup"), "testdata/lookup.c", "-Wl,-rpath,$ORIGIN/own", "-ldl"},
	} {
		if err := command(argv[0], argv[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	for _, preload := range []bool{false, true} {
		out := run(t, virtual(t, preload, []string{"SLUICE_CC=timely", "SLUICE_SEGMENT=4KiB", "SLUICE_STATS=1"}, "lookup", "libown.so"))
		if want := "ibv:mlx5_0, engine timely: 1 queue pairs, 1 requests (0 failed), 8 segments"; strings.Contains(out, want) != preload {
			t.Errorf("preloaded %v: %q", preload, out)
		}
	}
}

// UCX opens its transports, and libibverbs with them, as plugins.
func TestUCXOnMLX5(t *testing.T) {
	ucx, err := exec.LookPath("ucx_perftest")
	if err != nil {
		t.Skipf("UCX is not installed: %v", err)
	}
	dir, _ := build(t)
	script := filepath.Join(dir, "ucx.sh")
	text := "#!/bin/sh\n" + ucx + ` -p "$1" >"$0.out" 2>&1 &
for try in $(seq 100); do
	kill -0 $! || { cat "$0.out"; exit 1; }
	` + ucx + ` -p "$1" -t tag_bw -n 100 -s 65536 127.0.0.1 && wait $! && exit
	sleep 0.1
done
exit 1
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	out := run(t, virtual(t, true, []string{"SLUICE_CC=timely", "SLUICE_STATS=1", "UCX_TLS=rc_verbs,ud_verbs"}, "ucx.sh", port))
	if !strings.Contains(out, "ibv:mlx5_0, engine timely") {
		t.Errorf("nothing was paced:\n%s", out)
	}
}

// libmlx5's queue pairs take no rate, as a ConnectX limits those of raw packets only.
func TestStaticRateOnMLX5(t *testing.T) {
	if out := run(t, virtual(t, true, []string{"SLUICE_NIC_RATE=11.3Gbps"}, "hooks", "static_rate")); !strings.Contains(out, "static rate 11\n") {
		t.Errorf("%q", out)
	}
}
