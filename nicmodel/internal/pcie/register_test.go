package pcie

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// A load from a register waits for the link's earlier packets, and takes room on it, but holds
// up nobody until it begins.
func TestRegisterLoad(t *testing.T) {
	cfg := Gen3x8()
	link := func() *Link {
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	request := cfg.Rate.Serialize(units.Bytes(cfg.Headers.Request()))
	answer := cfg.Rate.Serialize(units.Bytes(cfg.Headers.Completion() + registerBytes))

	idle := link()
	there := idle.ahead(Downstream, 0, 0, MemRd, 0, ForClock)
	back := idle.ahead(Upstream, there, there, CplD, registerBytes, ForClock)
	if want := request + cfg.WriteLatency; there != want || back-there != answer+cfg.WriteLatency {
		t.Errorf("on an idle link it is there after %v and back %v later; %v and %v are wanted", there, back-there, want, answer+cfg.WriteLatency)
	}
	if n := idle.Traffic(Downstream, MemRd, ForClock); n.Packets != 1 || n.Bytes != 24 {
		t.Errorf("the request is %+v on the link", n)
	}
	if n := idle.Traffic(Upstream, CplD, ForClock); n.Packets != 1 || n.Bytes != 28 {
		t.Errorf("the answer is %+v on the link", n)
	}

	busy := link()
	busy.Store(0, 4096, ForDoorbell)
	queued := busy.Free(Downstream)
	if got, want := busy.ahead(Downstream, 0, 0, MemRd, 0, ForClock), queued+request+cfg.WriteLatency; got != want {
		t.Errorf("behind what is on the link it is there after %v, not %v", got, want)
	}

	ahead := link()
	if got, want := ahead.ahead(Downstream, 0, units.Microsecond, MemRd, 0, ForClock), units.Microsecond+request+cfg.WriteLatency; got != want {
		t.Errorf("begun in a microsecond it is there at %v, not %v", got, want)
	}
	if free := ahead.Free(Downstream); free != request {
		t.Errorf("meanwhile others wait until %v; it takes %v of the link", free, request)
	}
}
