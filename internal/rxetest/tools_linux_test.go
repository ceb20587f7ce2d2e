package rxetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// buildExample builds a program of examples with verbs/ibverbs into a folder that
// guests get as their /job.
func buildExample(t *testing.T, dir, name string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "ibverbs", "-o", filepath.Join(dir, name), "github.com/sluice-rdma/sluice/examples/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// tools runs what a user would run on a machine with the kernel's soft-RoCE beside
// sluice perf: the doctor, the exporter, a program that links Sluice.
func tools(t *testing.T, m *meeting, dir string) {
	buildExample(t, dir, "kv")
	in := func(t *testing.T, script string, wants ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*pairTime)
		defer cancel()
		gid, err := m.at.GIDIndex(ctx, m.guest[0].Addr())
		check(t, err)
		r, err := m.at.Run(ctx, "sh", "-c", strings.ReplaceAll(script, "GID4", strconv.Itoa(gid)))
		if err != nil {
			t.Fatalf("%v\n%s", err, r.Output)
		}
		t.Log(r.Output)
		for _, want := range wants {
			if !strings.Contains(r.Output, want) {
				t.Errorf("no %q in the output", want)
			}
		}
	}
	t.Run("sluice doctor", func(t *testing.T) {
		// Pacing may come out as a warning: time means nothing here.
		in(t, "/job/sluice doctor -d ibv:rxe0 -x GID4 --duration 4s",
			"  ok    data: 1MiB written, read back and the same", "  ok    the engine timely: ",
			"  note  raw completion timestamps: none", "  note  rate limit: none in hardware", "\n0 failed, ")
	})
	t.Run("sluice exporter", func(t *testing.T) {
		in(t, `export SLUICE_RUN=/tmp/metrics
/job/sluice exporter --web.listen-address 127.0.0.1:9861 &
exporter=$!
SLUICE_METRICS=1 /job/sluice perf write_bw -d ibv:rxe0 --peer ibv:rxe0 -x GID4 --cc timely -n 1000000 >/tmp/perf.out 2>&1 &
perf=$!
tries=0
until wget -q -O /tmp/scraped http://127.0.0.1:9861/metrics && grep -q 'sluice_qp_segments_total.* [1-9]' /tmp/scraped; do
	sleep 0.5
	tries=$((tries + 1))
	[ $tries -lt 100 ] && kill -0 $perf || { cat /tmp/perf.out /tmp/scraped; exit 1; }
done
grep -e '^sluice_qp_' -e '^rdma_' /tmp/scraped
kill $perf
kill $exporter
wait $exporter`,
			`rdma_device_info{device="rxe0",netdev="eth0"} 1`, `rdma_sent_pkts_total{device="rxe0",port="1"}`,
			`sluice_qp_info{device="ibv:rxe0",engine="timely",pid=`, `sluice_qp_rtt_seconds_count{device="ibv:rxe0",`)
	})
	t.Run("examples/kv", func(t *testing.T) {
		in(t, "/job/kv -d ibv:rxe0 -client-device ibv:rxe0 -x GID4 -n 20 try", "20 keys put and got, ")
	})
}
