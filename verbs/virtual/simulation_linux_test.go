package virtual_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// simulated is a simulation of hosts around a switch, as the network of sim: devices is.
type simulated struct {
	*virtual.Simulation
	t       *testing.T
	packets []string // on the wire
}

func newSimulated(t *testing.T, hosts int) *simulated { return newSimulatedUntil(t, hosts, 0) }

func newSimulatedUntil(t *testing.T, hosts int, end units.Time, failures ...fabric.Failure) *simulated {
	t.Helper()
	preset, err := nicmodel.Preset("cx6dx")
	if err != nil {
		t.Fatal(err)
	}
	cfg := fabric.Default()
	cfg.Failures = failures
	for i := range cfg.Switch.Classes {
		cfg.Switch.Classes[i].PFC.Lossless = true
	}
	e := des.New()
	const rate = 100 * units.Gbps
	net, err := fabric.New(e, fabric.Star(hosts, fabric.Link{Rate: rate, Delay: 500 * units.Nanosecond}), cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	made := &simulated{t: t}
	world, frames := simverbs.NewWorld(e, net), nicmodel.NewFrames(net)
	c := virtual.SimulationConfig{Engine: e, PollCost: simverbs.PollCost, Lookahead: units.Microsecond, End: end, Library: virtualLibrary(t)}
	for i := range hosts {
		nic, err := nicmodel.New(e, net, frames, i, rate, preset)
		if err != nil {
			t.Fatal(err)
		}
		nic.OnTransmit(func(now units.Time, p *nicmodel.Sent) {
			made.packets = append(made.packets, fmt.Sprintf("%v %v %v %d>%d %d>%d %x", now, p.Header, p.IPv6, p.Src, p.Frame.Dst, p.SrcQP, p.DstQP, p.Payload))
		})
		d, err := virtual.Open(virtual.Config{Model: "cx6dx", Name: "mlx5_0", Backend: world.AddDevice(fmt.Sprintf("h%d", i), nic, nil), Simulated: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Hosts = append(c.Hosts, virtual.SimulatedHost{Name: fmt.Sprintf("h%d", i), Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), Device: d})
	}
	if made.Simulation, err = virtual.NewSimulation(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	return made
}

// run runs a program on each host and returns what each printed.
func (s *simulated) run(commands ...string) []string {
	s.t.Helper()
	var programs []*virtual.Program
	var files []*os.File
	for i, command := range commands {
		words := strings.Fields(command)
		if _, err := exec.LookPath(words[0]); err != nil {
			s.t.Skipf("%s is missing: %v", words[0], err)
		}
		out, err := os.Create(filepath.Join(s.t.TempDir(), fmt.Sprint(i)))
		if err != nil {
			s.t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		files = append(files, out)
		programs = append(programs, &virtual.Program{Name: fmt.Sprintf("h%d: %s", i, words[0]), Host: i, Command: cmd, Start: units.Time(i) * units.Millisecond})
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	err := s.Run(ctx, programs...)
	var all []string
	for i, f := range files {
		text, readErr := os.ReadFile(f.Name())
		if readErr != nil {
			s.t.Fatal(readErr)
		}
		all = append(all, string(bytes.TrimSpace(text)))
		if err != nil || !programs[i].Command.ProcessState.Success() {
			s.t.Errorf("%s: %v, ended at %v:\n%s", commands[i], programs[i].Command.ProcessState, programs[i].End, text)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// figures returns the numbers in perftest's row, in the given columns.
func (s *simulated) figures(out string, columns ...int) []float64 {
	s.t.Helper()
	_, after, ok := strings.Cut(out, "#bytes")
	lines := strings.SplitN(after, "\n", 3)
	if !ok || len(lines) < 3 {
		s.t.Fatalf("no row in\n%s", out)
	}
	fields := strings.Fields(lines[1])
	var all []float64
	for _, c := range columns {
		if c >= len(fields) {
			s.t.Fatalf("no column %d in %q", c, lines[1])
		}
		v, err := strconv.ParseFloat(fields[c], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// TestSimulatedLikePerf has perftest's programs print, over the real libmlx5, what `sluice
// perf` measures on the same network, within 1 percent, and the same bytes in two runs.
func TestSimulatedLikePerf(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	for _, c := range []struct {
		program, test string
		iterations    int
		column        int // of the row
		long          bool
		of            func(*perf.Row) float64
	}{
		{"ib_read_lat", "read_lat", 100, 5, false, averageUs},
		{"ib_write_bw", "write_bw", 1000, 4, false, messageRate},
		{"ib_send_lat", "send_lat", 100, 5, true, averageUs},
		{"ib_read_bw", "read_bw", 1000, 4, true, messageRate},
		{"ib_send_bw", "send_bw", 1000, 4, true, messageRate},
	} {
		t.Run(c.program, func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skipf("-short: some seconds each")
			}
			command := fmt.Sprintf("%s -d mlx5_0 -F -n %d", c.program, c.iterations)
			var outs [2][]string
			for i := range outs {
				outs[i] = newSimulated(t, 2).run(command, command+" h0")
			}
			if diff := cmp.Diff(outs[0], outs[1]); diff != "" {
				t.Errorf("two runs differ:\n%s", diff)
			}
			want := c.of(onModel(t, c.test, c.iterations))
			got := (&simulated{t: t}).figures(outs[0][1], c.column)[0]
			t.Logf("%s: %v, sluice perf %s: %v", c.program, got, c.test, want)
			if math.Abs(got-want) > want/100 {
				t.Errorf("%s printed %v, expected sluice perf's %v within 1 percent", c.program, got, want)
			}
		})
	}
}

// TestSimulatedUCX has UCX find the devices of two hosts by itself, connect by datagrams, and measure; twice the same.
func TestSimulatedUCX(t *testing.T) {
	var runs [2][]string
	for i := range runs {
		runs[i] = newSimulated(t, 2).run("ucx_perftest -t tag_lat -n 300 -w 50", "ucx_perftest -t tag_lat -n 300 -w 50 h0")
	}
	if d := cmp.Diff(runs[0], runs[1]); d != "" {
		t.Errorf("two runs differ:\n%s", d)
	}
	_, row, _ := strings.Cut(runs[0][1], "Final:")
	fields := strings.Fields(row)
	if len(fields) < 2 {
		t.Fatalf("no result in\n%s", runs[0][1])
	}
	// Half a round trip of ib_send_lat's is 2.41 us.
	if us, err := strconv.ParseFloat(fields[1], 64); err != nil || us < 2 || us > 3 {
		t.Errorf("a latency of %s us in the median, expected 2 to 3", fields[1])
	}
}

func averageUs(r *perf.Row) float64 { return float64(r.Latency.AvgUs) }

func messageRate(r *perf.Row) float64 { return float64(r.Bandwidth.MessageRateMpps) }

// onModel runs a test of sluice perf on the network of sim: devices.
func onModel(t *testing.T, name string, iterations int) *perf.Row {
	t.Helper()
	test, err := perf.ParseTest(name)
	if err != nil {
		t.Fatal(err)
	}
	c := perf.DefaultConfig(test)
	c.Iterations = iterations
	var devs [2]verbs.Device
	for i := range devs {
		if devs[i], err = verbs.Open(fmt.Sprintf("sim:like-%s/h%d?hosts=2", name, i)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := perf.Pair(devs[0], devs[1], c)
	if err != nil {
		t.Fatal(err)
	}
	return r.Rows[0]
}

// TestSimulatedInline has a program post more inline data than the model's NIC takes in a doorbell, which libmlx5 lets it: it
// asks for 256 bytes, as libfabric does.
func TestSimulatedInline(t *testing.T) {
	const test = "ib_send_lat -F -d mlx5_0 -c UD -n 20 -s 256 -I 256"
	s := newSimulated(t, 2)
	out := s.run(test, test+" h0")
	if size := s.figures(out[1], 0)[0]; size != 256 {
		t.Errorf("%v bytes, expected 256", size)
	}
}

// TestSimulatedFabric has libfabric's datagrams pass. It opens rdma_cm's node for them, too.
func TestSimulatedFabric(t *testing.T) {
	const test = "fi_pingpong -p verbs -e dgram"
	s := newSimulated(t, 2)
	if out := s.run(test, test+" h0"); !strings.Contains(out[1], "4k") {
		t.Errorf("no row of 4 KiB in\n%s", out[1])
	}
}

// TestSimulatedEnd ends programs that still run at the end of the simulation.
func TestSimulatedEnd(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	s := newSimulatedUntil(t, 2, 10*units.Millisecond)
	cmd := exec.Command("sleep", "60")
	p := &virtual.Program{Name: "sleep", Command: cmd}
	if err := s.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.End != 10*units.Millisecond || cmd.ProcessState.Success() {
		t.Errorf("a program ended at %v with %v, expected that it was ended", p.End, cmd.ProcessState)
	}
}
