package verbstest_test

import (
	"flag"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
)

var (
	device = flag.String("device", "", "run the tests over this `DEVICE`, such as ibv:mlx5_0")
	peer   = flag.String("peer", "", "the other end's `DEVICE`; the same one if empty")
	port   = flag.Int("port", 1, "port of both")
	gid    = flag.Int("gid", -1, "index of the GID; the first IPv4 one if negative")
	keeps  = flag.Bool("keeps-completions", false, "completions of destroyed queue pairs stay, as with rxe")
)

func open(t *testing.T, name string) verbs.Device {
	t.Helper()
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// plain opens a device until the test ends.
func plain(t *testing.T, name string) verbs.Device {
	t.Helper()
	dev := open(t, name)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// shimmed opens a device with a shim over it.
func shimmed(t *testing.T, name string) verbs.Device {
	t.Helper()
	return verbstest.Shimmed(t, open(t, name))
}

func run(t *testing.T, a, b string, port, gid int) {
	t.Helper()
	type opener func(*testing.T, string) verbs.Device
	for _, c := range []struct {
		name  string
		a, b  opener
		keeps bool
	}{
		{"plain", plain, plain, *keeps},
		{"shim", shimmed, shimmed, false},
		{"shim on one side", shimmed, plain, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a == b && c.name == "shim on one side" {
				t.Skip("both sides are one device")
			}
			e := verbstest.Ends{A: c.a(t, a), Port: port, GIDA: gid, GIDB: gid, KeepsCompletions: c.keeps}
			if e.B = e.A; b != a {
				e.B = c.b(t, b)
			}
			verbstest.Run(t, e)
		})
	}
}

func TestModel(t *testing.T) { run(t, "sim:verbstest/h0", "sim:verbstest/h1", 1, -1) }

func TestSoftRoCE(t *testing.T) { run(t, "soft:127.0.7.1", "soft:127.0.7.2", 1, -1) }

func TestSoftRoCEOverShapedLink(t *testing.T) {
	run(t, "soft:127.0.7.3?shape=5Gbps&delay=20us", "soft:127.0.7.4?shape=1Gbps&delay=300us", 1, -1)
}

// TestDevice tests a device of the machine: make test-hw runs it.
func TestDevice(t *testing.T) {
	if *device == "" {
		t.Skipf("no -device was given")
	}
	other := *peer
	if other == "" {
		other = *device
	}
	run(t, *device, other, *port, *gid)
}
