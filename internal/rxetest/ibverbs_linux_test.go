package rxetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/rxeguest"
)

// What buildWithIBVerbs builds: arguments of go, but for -tags and -o DIR/NAME.
var (
	ibvCommand    = ibvProgram{"sluice", []string{"build"}, "cmd/sluice"}
	ibvProvider   = ibvProgram{"verbstest", []string{"test", "-c"}, "verbs/verbstest"}
	ibvConnection = ibvProgram{"librdmacmtest", []string{"test", "-c"}, "verbs/ibverbs/librdmacm"}
)

type ibvProgram struct {
	name string
	args []string
	path string
}

// noLibibverbs is why programs can't be built with verbs/ibverbs, or "".
func noLibibverbs(t *testing.T) string {
	out, err := exec.CommandContext(t.Context(), "pkg-config", "--exists", "libibverbs", "librdmacm").CombinedOutput()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("libibverbs-dev and librdmacm-dev are not installed: pkg-config: %v %s", err, out)
}

// buildWithIBVerbs builds programs with verbs/ibverbs from this checkout, into a folder
// that guests get as their /job. It skips the test where libibverbs' headers or a C
// compiler are missing.
func buildWithIBVerbs(t *testing.T, programs ...ibvProgram) (dir string) {
	t.Helper()
	if missing := noLibibverbs(t); missing != "" {
		t.Skip(missing)
	}
	dir = t.TempDir()
	for _, p := range programs {
		args := append(p.args, "-tags", "ibverbs", "-o", filepath.Join(dir, p.name), "github.com/sluice-rdma/sluice/"+p.path)
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// ibvPairs are the pairs of TestIBVerbs: in the guest sluice runs over the
// kernel's soft-RoCE through libibverbs. It meets Sluice's own RoCEv2 on the host
// side, and perftest in the same guest, whose rxe0 then talks to itself.
func ibvPairs() []pair {
	var all []pair
	const guest = "/job/sluice perf "
	const (
		toSoft = 1 << iota
		fromSoft
		toTool
		fromTool
	)
	add := func(which int, name, test, flags, row string) {
		flags = patient + " " + flags
		host := "sluice perf " + test + " -d SOFT " + flags
		ibv := guest + test + " -d ibv:rxe0 -x GID4 " + flags
		tool := "ib_" + test + " -F -x GID4 " + flags
		for i, p := range []pair{
			{name + ", ibv to soft", host, ibv + " HOST4", row, true, 0},
			{name + ", soft to ibv", ibv, host + " GUEST4", row, true, 0},
			{name + ", ibv to ib_" + test, tool, ibv + " GUEST4", row, true, 0},
			{name + ", ib_" + test + " to ibv", ibv, tool + " GUEST4", row, true, 0},
		} {
			if which&(1<<i) != 0 {
				all = append(all, p)
			}
		}
	}
	add(toSoft|fromSoft|toTool|fromTool, "write_bw", "write_bw", "-s 65536 -n 100", " 65536 +100 ")
	add(toSoft|fromSoft|toTool, "read_bw", "read_bw", "-s 65536 -n 100", " 65536 +100 ")
	add(toSoft|fromSoft|toTool, "send_bw", "send_bw", "-s 65536 -n 100", " 65536 +100 ")
	add(toSoft|fromSoft|toTool, "send_bw, UD", "send_bw", "-c UD -s 1024 -n 100", " 1024 +100 ")
	add(toSoft|fromSoft|toTool, "fetch and add", "atomic_bw", "-n 100", " 8 +100 ")
	add(toSoft, "compare and swap", "atomic_bw", "-A CMP_AND_SWAP -n 100", " 8 +100 ")
	add(toSoft|toTool, "write_lat", "write_lat", "-n 20", " 2 +20 ")
	add(toSoft|toTool, "events", "send_bw", "-e -s 65536 -n 100", " 65536 +100 ")
	for _, test := range []string{"write_bw", "read_bw"} {
		flags := patient + " -s 65536 -n 100"
		for name, stamps := range map[string]string{" paced by TIMELY": "", " paced by TIMELY, round trips from packets": "--timestamps wire "} {
			all = append(all, pair{test + name, "sluice perf " + test + " -d SOFT " + flags,
				guest + test + " -d ibv:rxe0 -x GID4 --cc timely " + stamps + flags + " HOST4", " 65536 +100 ", true, 0})
		}
	}
	return all
}

// TestIBVerbs runs sluice over libibverbs in a guest.
func TestIBVerbs(t *testing.T) {
	whole(t)
	m := newMeeting(t)
	dir := buildWithIBVerbs(t, ibvCommand, ibvProvider, ibvConnection)
	m.boot(t, rxeguest.Options{Dir: dir, CPUs: 2})
	t.Run("sluice devices", func(t *testing.T) {
		r, err := m.at.Run(pairContext(t), "/job/sluice", "devices", "-d", "ibv:rxe0", "-v")
		check(t, err)
		for _, want := range []string{"device: ibv:rxe0", "PORT_ACTIVE", "netdev:      eth0", "192.0.2.2", "2001:db8::2", "completions have no timestamps"} {
			if !strings.Contains(r.Output, want) {
				t.Errorf("no %q in\n%s", want, r.Output)
			}
		}
	})
	t.Run("what a provider promises", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*pairTime)
		defer cancel()
		gid, err := m.at.GIDIndex(ctx, m.guest[0].Addr())
		check(t, err)
		r, err := m.at.Run(ctx, "/job/verbstest", "-test.v", "-test.run", "TestDevice", "-device", "ibv:rxe0", "-keeps-completions", "-gid", strconv.Itoa(gid))
		t.Log(r.Output)
		check(t, err)
		if !strings.Contains(r.Output, "--- PASS: TestDevice/plain/writes_and_reads_of_all_sizes") {
			t.Error("it tested nothing")
		}
	})
	t.Run("librdmacm", func(t *testing.T) { connectByLibrdmacm(t, m) })
	for _, p := range append(ibvPairs(), ibvCMPairs()...) {
		t.Run(p.name, func(t *testing.T) { m.run(t, p) })
	}
	t.Run("paced at a set rate", func(t *testing.T) { pacedRate(t, m) })
	t.Run("telemetry at the host", func(t *testing.T) { hostTelemetry(t, m, dir) })
	tools(t, m, dir)
}

// pacedRate paces writes at a rate far below what the guest can do, and expects
// what arrives within 2 percent of it. A guest whose processor stands still
// misses segments' times and does not make up for them, so being slow is tried again, and
// no failure on a machine that has far more to do than processors; being fast is a failure
// at once.
func pacedRate(t *testing.T, m *meeting) {
	const mbps, tolerance, attempts = 2.0, 0.02, 4
	var got float64
	for range attempts {
		ctx := pairContext(t)
		server := m.start(t, ctx, "sluice perf write_bw -d SOFT "+patient+" -s 65536 -n 30")
		check(t, server.ready(ctx))
		client := m.start(t, ctx, "/job/sluice perf write_bw -d ibv:rxe0 -x GID4 "+patient+" -s 65536 -n 30 --quiet --json --rate_limit "+
			strconv.FormatFloat(mbps, 'f', -1, 64)+"Mbps HOST4")
		for _, end := range []process{client, server} {
			if err := end.wait(ctx); err != nil {
				t.Fatalf("%v\n--- server: %s\n--- client: %s", err, server.output(), client.output())
			}
		}
		got = average(t, client.output())
		t.Logf("%.4g Mbit/s", got)
		if got > mbps*(1+tolerance) {
			break
		}
		if math.Abs(got-mbps) <= mbps*tolerance {
			return
		}
	}
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _ = strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	}
	if got < mbps && load > 2*float64(runtime.NumCPU()) {
		t.Skipf("%.4g Mbit/s, set to %g; the machine's load is %g on %d processors, so the guest's stood still", got, mbps, load, runtime.NumCPU())
	}
	t.Errorf("%.4g Mbit/s, set to %g", got, mbps)
}

// average is the average bandwidth in Mbit/s that a JSON document of sluice perf
// tells.
func average(t *testing.T, output string) float64 {
	t.Helper()
	var doc struct {
		Results []struct {
			Rows []struct {
				Average float64 `json:"throughput_gbps"`
			} `json:"rows"`
		} `json:"results"`
	}
	if err := json.Unmarshal([]byte(output[strings.Index(output, "{"):]), &doc); err != nil || len(doc.Results) != 1 || len(doc.Results[0].Rows) != 1 {
		t.Fatalf("no result (%v) in\n%s", err, output)
	}
	return doc.Results[0].Rows[0].Average * 1000
}
