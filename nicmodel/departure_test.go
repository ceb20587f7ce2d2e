package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// A request leaves when its first packet goes on the wire, and its last one as much
// later as the others take there.
func TestDepartures(t *testing.T) {
	const line = 10 * units.Gbps
	cfg := preset(t, "cx6dx")
	cfg.Counter = stage.Counter{Hz: 1_000_000_000, Bits: 41}
	b := newBed(t, 2, line, cfg, nil)
	b.nics[0].StampSends()
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	rr := y.region(t, pattern(1<<16, 1))
	lr := x.region(t, pattern(1<<16, 2))
	const post = 5 * units.Microsecond
	b.e.RunUntil(post)
	b.post(x,
		WR{Request: rc.Request{ID: 1, Op: ib.WRRDMAWrite, Signaled: true, Length: 4096, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: 4096, Key: lr.Key}}},
		WR{Request: rc.Request{ID: 2, Op: ib.WRRDMARead, Signaled: true, Length: 4096, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: 4096, Key: lr.Key}}},
	)
	b.e.RunUntil(units.Millisecond)
	all := b.poll(x)
	if len(all) != 2 {
		t.Fatalf("%d completions", len(all))
	}
	// Three packets before the last: MAC header and FCS 18, IP and UDP 28, BTH 12,
	// ICRC 4, RETH 16 in the first, preamble and gap 20.
	wire := line.Serialize(3*(1024+82) + 16)
	first, last, ok := x.nic.Departed(x.qpn, all[0].Slot)
	if at := units.Time(first) * units.Nanosecond; !ok || at < post || at > post+3*units.Microsecond {
		t.Errorf("the Write left at %v, %v; it was posted at %v", at, ok, post)
	}
	if took := units.Time(last-first) * units.Nanosecond; took < wire-units.Nanosecond || took > wire+units.Nanosecond {
		t.Errorf("its last packet left %v after its first, want %v", took, wire)
	}
	readFirst, readLast, ok := x.nic.Departed(x.qpn, all[1].Slot)
	if !ok || readFirst <= last || readFirst != readLast || readLast >= all[1].Timestamp {
		t.Errorf("the Read left at %d and %d, %v; the Write at %d, and the Read completed at %d", readFirst, readLast, ok, last, all[1].Timestamp)
	}
	if _, _, ok := y.nic.Departed(y.qpn, 0); ok {
		t.Error("a NIC that was not asked to knows when something left")
	}
}

// Of what is sent again the first time counts.
func TestDepartureIsTheFirst(t *testing.T) {
	var d departure
	for i, p := range []rc.Descriptor{{Offset: 0, Payload: 100}, {Offset: 100, Payload: 100}, {Offset: 0, Payload: 100}, {Offset: 100, Payload: 100}, {Offset: 200, Payload: 50}, {Offset: 200, Payload: 50}} {
		d.leaves(uint64(10+i), &p)
	}
	if d.first != 10 || d.last != 14 {
		t.Errorf("%+v, want 10 and 14", d)
	}
}
