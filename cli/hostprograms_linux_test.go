package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cli/internal/capture"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/scenario"
)

// incastNetwork joins five programs and five flows that send to h5.
const incastNetwork = `
duration: 10s
topology: {kind: star, hosts: 6}
fabric: {buffer: 64MiB}
nic: {mtu: 4096}
systems: [{engine: none}]
measure: {sample: 0, window: 100ms}
`

// TestIncastOfPrograms has five unmodified ib_write_bw send to one host at once: each gets
// the rate of the model's own flows of as many bytes, within 1 percent.
func TestIncastOfPrograms(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: ten programs take half a minute on a loaded machine")
	}
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	if _, err := exec.LookPath("ib_write_bw"); err != nil {
		t.Skipf("perftest is missing: %v", err)
	}
	t.Setenv("SLUICE_VIRTUAL_LIB", virtualLib(t))
	const senders, messages = 5, 300
	text := incastNetwork + "programs:\n"
	for i := range senders {
		test := fmt.Sprintf("run: [ib_write_bw, -d, mlx5_0, -F, -n, '%d', -p, '%d'", messages, 18515+i)
		text += fmt.Sprintf("  - {host: h5, %s]}\n  - {host: h%d, %s, h5], start: 1ms}\n", test, i, test)
	}
	ran := runIncast(t, text, bench.Options{Programs: hostPrograms(t.Context())})
	var flows []float64
	runIncast(t, incastNetwork+fmt.Sprintf("workloads: [{kind: incast, receiver: h5, senders: %d, size: %dKiB, message: 64KiB}]\n", senders, messages*64),
		bench.Options{Flows: func(f *results.FlowRecord) error {
			flows = append(flows, *f.ThroughputGbps)
			return nil
		}})
	programs := ran.Systems[0].Programs
	if len(programs) != 2*senders || len(flows) != senders {
		t.Fatalf("%d programs and %d flows", len(programs), len(flows))
	}
	for i, want := range flows {
		p := &programs[2*i+1]
		_, row, ok := strings.Cut(p.Output, "\n 65536 ")
		fields := strings.Fields(row)
		if p.Status != 0 || !ok || len(fields) < 4 {
			t.Fatalf("%s ended with %d:\n%s", p.Host, p.Status, p.Output)
		}
		rate, err := strconv.ParseFloat(fields[3], 64) // millions of messages a second
		if err != nil {
			t.Fatal(err)
		}
		got := rate * 8 * 65.536
		t.Logf("%s: ib_write_bw %.3f Gbit/s, a flow %.3f", p.Host, got, want)
		if math.Abs(got-want) > want/100 {
			t.Errorf("%s: ib_write_bw got %.3f Gbit/s, expected a flow's %.3f within 1 percent", p.Host, got, want)
		}
	}
}

func runIncast(t *testing.T, text string, o bench.Options) *results.Result {
	t.Helper()
	s, err := scenario.Parse("incast.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Run(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What a program prints is kept up to a limit, and the output says so.
func TestProgramOutput(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	line := strings.Repeat("x", 1023) + "\n"
	for _, kib := range []int{0, 1, 1024, 1025, 100 << 10} {
		if err := os.WriteFile(name, []byte(strings.Repeat(line, kib)), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var text string
		used := infile.Allocated(func() {
			var err error
			if text, err = programOutput(f); err != nil {
				t.Fatal(err)
			}
		})
		want := fmt.Sprintf("[the first 1048576 of %d bytes that the program printed]\n", kib<<10)
		if cut := kib > 1024; strings.HasSuffix(text, want) != cut || !cut && len(text) != kib<<10 || len(text) > 1<<20+100 {
			t.Errorf("%d KiB: %d bytes, which end in %q", kib, len(text), text[max(0, len(text)-100):])
		}
		if used > 16<<20 {
			t.Errorf("%d KiB: took %d bytes", kib, used)
		}
	}
}

// smallNetwork joins programs that end soon.
const smallNetwork = `
duration: 20ms
topology: {kind: star, hosts: 2}
systems: [{engine: none}]
measure: {sample: 0}
programs:
`

// needsSimulatedPrograms skips where programs do not run in simulated time, or one is missing. Under
// the race detector they do not run again: verbs/virtual, whose devices and scheduler they have,
// simulates programs there, too.
func needsSimulatedPrograms(t *testing.T, names ...string) {
	t.Helper()
	oneGoroutine(t)
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is missing: %v", name, err)
		}
	}
	t.Setenv("SLUICE_VIRTUAL_LIB", virtualLib(t))
}

// A program that waits for ever is ended with the run, beside one that ends, and what both printed is kept.
func TestProgramThatNeverEnds(t *testing.T) {
	needsSimulatedPrograms(t, "ibv_asyncwatch", "echo")
	ran := runIncast(t, smallNetwork+"  - {host: h0, run: [ibv_asyncwatch]}\n  - {host: h1, run: [echo, hello]}\n", bench.Options{Programs: hostPrograms(t.Context())})
	watch, echo := &ran.Systems[0].Programs[0], &ran.Systems[0].Programs[1]
	if watch.Status != -1 || watch.EndUs == watch.EndUs || !strings.Contains(watch.Output, "async event FD") || !strings.HasPrefix(watch.WaitsFor, "descriptor ") {
		t.Errorf("ibv_asyncwatch: %+v, expected that it runs to the end, waits for a descriptor and has said of which", watch)
	}
	if echo.Status != 0 || echo.Output != "hello\n" {
		t.Errorf("echo: %+v", echo)
	}
	if ran.Systems[0].SimS != 0.02 {
		t.Errorf("the run took %v s, expected its duration", ran.Systems[0].SimS)
	}
}

// Connections by rdma_cm are in captures, over IPv4 and IPv6: equal in two runs, with every ICRC good.
func TestCapturesOfConnections(t *testing.T) {
	needsSimulatedPrograms(t, "rping")
	for _, addr := range []string{"h0", "fd00::a00:1"} {
		var packets [2]bytes.Buffer
		for i := range packets {
			ran := runIncast(t, smallNetwork+fmt.Sprintf("  - {host: h0, run: [rping, -s, -a, '::', -C, '2']}\n  - {host: h1, run: [rping, -c, -a, %q, -C, '2'], start: 1ms}\n", addr),
				bench.Options{Programs: hostPrograms(t.Context()), Packets: &packets[i]})
			for _, p := range ran.Systems[0].Programs {
				if p.Status != 0 {
					t.Errorf("rping at %s ended with %d, waiting for %s:\n%s", p.Host, p.Status, p.WaitsFor, p.Output)
				}
			}
		}
		if !bytes.Equal(packets[0].Bytes(), packets[1].Bytes()) {
			t.Errorf("rping to %s: two runs have different captures, of %d and %d bytes", addr, packets[0].Len(), packets[1].Len())
		}
		r, err := capture.Summarize(&packets[0])
		if err != nil {
			t.Fatal(err)
		}
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		if r.RoCE == 0 || r.GoodICRCs != r.Frames || !strings.Contains(table.String(), "1 REQ, 1 RTU") || !strings.Contains(table.String(), "1 REP") {
			t.Errorf("rping to %s: %d of %d ICRCs are good, expected all, and REQ, REP and RTU in\n%s", addr, r.GoodICRCs, r.Frames, &table)
		}
	}
}

// What programs printed is shown beside the error of one that can't be simulated.
func TestOutputsBesideAnError(t *testing.T) {
	needsSimulatedPrograms(t, "cc", "echo")
	dir := t.TempDir()
	source, program, scenarioFile, out := filepath.Join(dir, "timer.c"), filepath.Join(dir, "timer"), filepath.Join(dir, "two.yaml"), filepath.Join(dir, "out.json")
	const text = "#include <stdio.h>\n#include <sys/syscall.h>\n#include <unistd.h>\nint main(void) { puts(\"before\"); usleep(1000); return syscall(SYS_io_uring_setup, 1, 0) < 0; }\n"
	if err := errors.Join(os.WriteFile(source, []byte(text), 0o600),
		os.WriteFile(scenarioFile, []byte(smallNetwork+"  - {host: h0, run: ["+program+"]}\n  - {host: h1, run: [echo, hello]}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("cc", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var stdout, stderr bytes.Buffer
	if status := run([]string{"run", "--json", out, scenarioFile}, &stdout, &stderr); status != exitFailed || !strings.Contains(stderr.String(), "io_uring_setup") {
		t.Errorf("exit status %d, standard error:\n%s", status, &stderr)
	}
	for _, want := range []string{"  | before\n", "  | hello\n", "none: h1: echo hello (0.000 us to "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the command printed\n%s\nexpected %q in it", &stdout, want)
		}
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var doc results.Document
	if err := json.Unmarshal(written, &doc); err != nil {
		t.Fatal(err)
	}
	if m := doc.Missing; len(m) != 1 || len(m[0].Programs) != 2 || m[0].Programs[1].Output != "hello\n" {
		t.Errorf("the JSON has %+v", m)
	}
}

// Programs see a port that flaps, a queue pair that fails in the middle of a test, and a device that dies,
// as an mlx5 shows them; the timeline has what failed and what that set off.
func TestFailuresSeenByPrograms(t *testing.T) {
	needsSimulatedPrograms(t, "ibv_asyncwatch", "ib_write_bw", "ibv_devinfo")
	ran := runIncast(t, `
duration: 1100ms
topology: {kind: star, hosts: 2}
systems: [{engine: none}]
measure: {sample: 0}
fabric:
  failures:
    - {port: h0, at: 10ms, for: 5ms, every: 20ms, times: 2, down: true}
    - {nic: h1, qp: 1, packet: 500}
    - {nic: h0, at: 1050ms, dies: true}
programs:
  - {host: h0, run: [ibv_asyncwatch]}
  - {host: h0, run: [ib_write_bw, -d, mlx5_0, -F, -n, '1000']}
  - {host: h1, run: [ib_write_bw, -d, mlx5_0, -F, -n, '1000', h0], start: 1ms}
  - {host: h0, run: [sh, -c, 'cat /sys/class/infiniband/mlx5_0/ports/1/state; sleep 1.05; ibv_devinfo || true'], start: 11ms}
`, bench.Options{Programs: hostPrograms(t.Context())})
	sys := ran.Systems[0]
	watch, client, state := &sys.Programs[0], &sys.Programs[2], &sys.Programs[3]
	const flap = "  event_type IBV_EVENT_PORT_ERR (10), port 1\n  event_type IBV_EVENT_PORT_ACTIVE (9), port 1\n"
	if want := flap + flap + "  event_type IBV_EVENT_DEVICE_FATAL (8), port 1\n"; !strings.HasSuffix(watch.Output, want) {
		t.Errorf("ibv_asyncwatch printed\n%sexpected at its end\n%s", watch.Output, want)
	}
	// IBV_WC_WR_FLUSH_ERR with the vendor's byte of a flush.
	if client.Status != 1 || !strings.Contains(client.Output, "Failed status 5:") || !strings.Contains(client.Output, "syndrom 0xf9") {
		t.Errorf("ib_write_bw ended with %d:\n%s", client.Status, client.Output)
	}
	if want := "1: DOWN\nFailed to open device\n"; state.Output != want {
		t.Errorf("of the port and the device programs saw\n%sexpected\n%s", state.Output, want)
	}
	var all []string
	for _, e := range sys.Timeline.Events {
		all = append(all, e.What)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"h0->tor0: down\nh0: event: port error\ntor0->h0: down\n", "h1: its queue pair 1 fails\nh1: queue pair 0x10: event: local work queue catastrophic error\n", "h0: its device dies\nh0: event: local catastrophic error"} {
		if !strings.Contains(text, want) {
			t.Errorf("the timeline is\n%s\nexpected %q in it", text, want)
		}
	}
}

// Programs see the status and the vendor's byte that a scenario chose for a completion, flushes behind it, and a
// change of addresses.
func TestChosenCompletionSeenByPrograms(t *testing.T) {
	needsSimulatedPrograms(t, "ibv_asyncwatch", "ib_write_bw")
	ran := runIncast(t, `
duration: 1100ms
topology: {kind: star, hosts: 2}
systems: [{engine: none}]
measure: {sample: 0}
fabric:
  failures:
    - {nic: h1, qp: 1, packet: 500, status: REM_ACCESS_ERR, vendor_err: 0x77}
    - {nic: h0, at: 10ms, gid_change: true}
programs:
  - {host: h0, run: [ibv_asyncwatch]}
  - {host: h0, run: [ib_write_bw, -d, mlx5_0, -F, -n, '1000']}
  - {host: h1, run: [ib_write_bw, -d, mlx5_0, -F, -n, '1000', h0], start: 1ms}
  - {host: h0, run: [sh, -c, 'd=/sys/class/infiniband/mlx5_0/ports/1/hw_counters; cat $d/rx_write_requests $d/roce_adp_retrans; sleep 1.09; cat $d/rx_write_requests $d/roce_adp_retrans']}
`, bench.Options{Programs: hostPrograms(t.Context())})
	sys := ran.Systems[0]
	watch, client := &sys.Programs[0], &sys.Programs[2]
	var before, after, adaptive int
	if n, err := fmt.Sscan(sys.Programs[3].Output, &before, &adaptive, &after, &adaptive); n != 4 || before != 0 || after == 0 || adaptive != 0 {
		t.Errorf("of hw_counters programs saw\n%s(%v)", sys.Programs[3].Output, err)
	}
	if want := "  event_type IBV_EVENT_GID_CHANGE (18), port 1\n"; !strings.HasSuffix(watch.Output, want) {
		t.Errorf("ibv_asyncwatch printed\n%sexpected at its end\n%s", watch.Output, want)
	}
	if client.Status != 1 || !strings.Contains(client.Output, "Failed status 10:") || !strings.Contains(client.Output, "syndrom 0x77") {
		t.Errorf("ib_write_bw ended with %d:\n%s", client.Status, client.Output)
	}
}
