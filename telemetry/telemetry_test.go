package telemetry

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func TestStackKeepsTheFirstHopsAndSaysWhatIsMissing(t *testing.T) {
	var s Stack
	for i := range MaxHops + 2 {
		s.Push(Hop{QLen: units.Bytes(i)})
	}
	for i, h := range s.Path() {
		if h.QLen != units.Bytes(i) {
			t.Errorf("hop %d is that of switch %d", i, h.QLen)
		}
	}
	if len(s.Path()) != MaxHops || !s.Overflow {
		t.Errorf("%d hops, overflow %v", len(s.Path()), s.Overflow)
	}
}

func TestWireBytes(t *testing.T) {
	for _, c := range []struct {
		k    Kind
		hops int
		want int
	}{{None, 5, 0}, {MaxDelay, 5, 8}, {PerHop, 0, 4}, {PerHop, 5, 44}} {
		if got := c.k.WireBytes(INT64, c.hops); int(got) != c.want {
			t.Errorf("%v over %d hops takes %d bytes, want %d", c.k, c.hops, got, c.want)
		}
	}
}
