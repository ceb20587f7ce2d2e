package swift

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// With PLB the window is what it is without; a path is left after twelve round trips on
// the target, three before a pause, and at a timeout. Round trips below the target, and
// acknowledgements without one, let it be.
func TestPLB(t *testing.T) {
	if _, ok := cc.Engine(mustNew(t, DefaultConfig(), testEnv)).(cc.Pathed); ok {
		t.Fatal("without PLB the engine has a say in the choice of path")
	}
	c := DefaultConfig()
	c.PLB = true
	for _, x := range []struct {
		name  string
		rtt   units.Time
		trips int
		pause bool
		want  uint32
	}{
		{"below the target", 26 * us, 100, false, 0},
		{"no round trip", 0, 100, false, 0},
		{"above it", 200 * us, 12, false, 0},
		{"above it for long", 200 * us, 13, false, 1},
		{"above it, with pauses", 200 * us, 3, true, 1},
	} {
		made, err := New(c, testEnv)
		if err != nil {
			t.Fatal(err)
		}
		e := made.(cc.Pathed)
		plain := mustNew(t, DefaultConfig(), testEnv)
		a := cc.Ack{Packets: 1, Bytes: 1000, RTT: x.rtt}
		for range x.trips {
			end := a.Acked + 10_000
			for a.Acked < end {
				a.Now += 20 * us
				a.Acked += 1000
				if a.Sent = end; !x.pause {
					a.Sent = a.Acked + 10_000 // the first round trip has an acknowledgement more
				}
				if got, want := e.OnAck(&a), plain.OnAck(&a); got != want {
					t.Fatalf("%s: %+v with PLB, %+v without", x.name, got, want)
				}
			}
		}
		if got := e.Path(); got != x.want {
			t.Errorf("%s: path %d, want %d", x.name, got, x.want)
		}
		if got, want := e.OnTimeout(a.Now), plain.OnTimeout(a.Now); got != want || e.Path() != x.want+1 {
			t.Errorf("%s: after a timeout path %d and %+v, want %+v", x.name, e.Path(), got, want)
		}
	}
}
