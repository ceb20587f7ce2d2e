package virtual_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// simulated is a simulation of hosts around a switch, as the network of sim: devices is.
type simulated struct {
	*virtual.Simulation
	t *testing.T
}

func newSimulated(t *testing.T, hosts int) *simulated {
	t.Helper()
	preset, err := nicmodel.Preset("cx6dx")
	if err != nil {
		t.Fatal(err)
	}
	cfg := fabric.Default()
	for i := range cfg.Switch.Classes {
		cfg.Switch.Classes[i].PFC.Lossless = true
	}
	e := des.New()
	const rate = 100 * units.Gbps
	net, err := fabric.New(e, fabric.Star(hosts, fabric.Link{Rate: rate, Delay: 500 * units.Nanosecond}), cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	world, frames := simverbs.NewWorld(e, net), nicmodel.NewFrames(net)
	c := virtual.SimulationConfig{Engine: e, PollCost: simverbs.PollCost, Lookahead: units.Microsecond, Library: virtualLibrary(t)}
	for i := range hosts {
		nic, err := nicmodel.New(e, net, frames, i, rate, preset)
		if err != nil {
			t.Fatal(err)
		}
		d, err := virtual.Open(virtual.Config{Model: "cx6dx", Name: "mlx5_0", Backend: world.AddDevice(fmt.Sprintf("h%d", i), nic, nil), Simulated: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Hosts = append(c.Hosts, virtual.SimulatedHost{Name: fmt.Sprintf("h%d", i), Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), Device: d})
	}
	s, err := virtual.NewSimulation(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &simulated{s, t}
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
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
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

func TestSimulatedReadLatency(t *testing.T) {
	s := newSimulated(t, 2)
	for _, out := range s.run("ib_read_lat -d mlx5_0 -F -n 100", "ib_read_lat -d mlx5_0 -F -n 100 10.0.0.1") {
		t.Log(out)
	}
}

func TestSimulatedX(t *testing.T) {
	for _, c := range []string{"ib_send_lat -n 1000", "ib_write_bw -n 1000", "ib_write_lat -n 1000", "ib_send_bw -n 1000", "ib_read_bw"} {
		t.Run(c, func(t *testing.T) {
			s := newSimulated(t, 2)
			w := strings.SplitN(c+" ", " ", 2)
			c := w[0] + " -d mlx5_0 -F " + w[1]
			start := time.Now()
			out := s.run(c, c+" 10.0.0.1")
			t.Log(time.Since(start), out[1][len(out[1])-300:])
		})
	}
}
