package endpoint

import (
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// ask posts a request of 50000 bytes of the first host, and returns what its
// completion says of the network.
func (l *pair) ask(op ib.WROpcode) (got verbs.Telemetry, any bool) {
	l.w.t.Helper()
	ml, _ := l.a.reg(50000, allAccess)
	mr, _ := l.b.reg(50000, allAccess)
	l.a.post(l.x, verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 50000), RemoteAddr: mr.Addr(), RKey: mr.Key()})
	l.w.settle()
	wc := make([]verbs.WC, 1)
	n, err := l.a.cq.Poll(wc)
	if n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
		l.w.t.Fatal(n, err, wc)
	}
	any = l.a.cq.Telemetry(&wc[0], &got)
	return got, any
}

func newTelemetryPair(t *testing.T, c Collect) *pair {
	w := newWorld(t, 1, 0)
	w.collect = c
	l := &pair{w: w, a: w.add(netip.AddrFrom4([4]byte{10, 0, 0, 1})), b: w.add(netip.AddrFrom4([4]byte{10, 0, 0, 2}))}
	l.x, l.y = w.newQP(l.a, ib.RC, nil), w.newQP(l.b, ib.RC, nil)
	w.connect(l.x, l.y, l.a, l.b, patient(1024), 0)
	return l
}

// The largest delay comes back with the request: that of the way of the data, and of
// the acknowledgement's own where there is one.
func TestMaxDelay(t *testing.T) {
	const us = units.Microsecond
	f := telemetry.DefaultDelayFormat(telemetry.Wide)
	l := newTelemetryPair(t, Collect{Delay: &f})
	if got, any := l.ask(ib.WRRDMAWrite); any {
		t.Errorf("a network without telemetry reports %+v", got)
	}
	n := 0
	l.w.switches = func(from *host, c *Carried, _ []byte) (out Brought) {
		if !c.Collects {
			t.Error("a packet does not ask")
		}
		d := 7 * us
		if from == l.a {
			if n++; n%10 == 5 {
				d = 300 * us
			}
		}
		out.Tags.HasForward, out.Tags.Forward = true, telemetry.DelayTag{Code: f.Quantise(d)}
		out.Tags.HasReflected, out.Tags.Reflected = c.HasReturns, c.Returns
		return out
	}
	if got, _ := l.ask(ib.WRRDMAWrite); !got.HasMaxDelay || got.MaxHopDelay != 300*us || got.ReverseMaxHopDelay != 7*us {
		t.Errorf("a write: %+v", got)
	}
	if got, _ := l.ask(ib.WRRDMARead); !got.HasMaxDelay || got.MaxHopDelay != 7*us || got.ReverseMaxHopDelay != 0 {
		t.Errorf("a read: %+v", got)
	}
}

// Records come back with the request, without wraps; where there was nothing to
// compare with there are none.
func TestPath(t *testing.T) {
	f := telemetry.DefaultINTFormat(telemetry.INT64)
	l := newTelemetryPair(t, Collect{INT: &f})
	sent := units.Bytes(0)
	hop := func(i int) telemetry.Hop {
		return telemetry.Hop{Rate: 10 * units.Gbps, Time: l.w.now + units.Time(i), QLen: units.Bytes(i) * 80, TxBytes: sent}
	}
	l.w.switches = func(from *host, c *Carried, b []byte) (out Brought) {
		if len(c.INT) > 0 {
			if c.Collects {
				t.Error("an acknowledgement that returns records asks for others")
			}
			out.INT = telemetry.INT(b[:telemetry.INT64.PutReflected(b, c.INT, roce.Port)])
			return out
		}
		if !c.Collects {
			return out
		}
		end := telemetry.INT64.Put(b, roce.Port)
		sent += 1024
		for i := range 2 {
			end = telemetry.INT64.Push(b, end, f.Record(hop(i+1)))
		}
		out.INT = telemetry.INT(b[:end])
		return out
	}
	if got, _ := l.ask(ib.WRRDMAWrite); got.Path.N == 0 || l.a.e.Counters.INTUnread != 1 {
		// The request had several acknowledgements: the first told nothing.
		t.Errorf("the first write has %+v, with %d unread", got, l.a.e.Counters.INTUnread)
	}
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRRDMAWrite} {
		l.w.run(10 * units.Second) // hundreds of wraps
		got, _ := l.ask(op)
		if got.Path.N != 2 || got.Path.Hops[0].QLen != 80 || got.Path.Hops[1].QLen != 160 || got.Path.Hops[0].Rate != 10*units.Gbps {
			t.Errorf("%v: %+v", op, got.Path.Path())
		}
		if lag := l.w.now - got.Path.Hops[0].Time; lag < 0 || lag > 10*units.Millisecond {
			t.Errorf("%v: the record is %v old", op, lag)
		}
	}
}

// A notice on the way is echoed, and reported with the completion, once.
func TestEIN(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		l := newPair(t, 1, patient(1024))
		n := 0
		l.w.tap = func(from *host, _ *Route, b []byte) bool {
			if ib.Opcode(b[0]) != ib.Acknowledge {
				if n++; n == 7 {
					telemetry.SetEIN(b, telemetry.EIN)
					putICRC(from.addr, l.b.addr, b)
					if from == l.b {
						putICRC(from.addr, l.a.addr, b)
					}
				}
			}
			return true
		}
		if got, _ := l.ask(op); !got.EIN || got.ECN {
			t.Errorf("%v: %+v", op, got)
		}
		if got, any := l.ask(op); any {
			t.Errorf("%v: the next one too: %+v", op, got)
		}
	}
}

// Whatever packets bring of what a device collects, requests complete.
func TestStrayTelemetry(t *testing.T) {
	f, g := telemetry.DefaultDelayFormat(telemetry.Compact), telemetry.DefaultINTFormat(telemetry.INT64)
	for _, c := range []Collect{{}, {Delay: &f}, {INT: &g}} {
		l := newTelemetryPair(t, c)
		r := l.w.rng
		l.w.switches = func(_ *host, _ *Carried, b []byte) (out Brought) {
			if c.Delay != nil { // the driver reads what the device collects
				t := &out.Tags
				t.HasForward, t.HasReflected = r.IntN(2) == 0, r.IntN(2) == 0
				t.Forward.Code, t.Reflected.Code = r.Uint32(), r.Uint32()
			}
			if c.INT != nil && r.IntN(4) > 0 {
				end := telemetry.INT64.Put(b, 1)
				for range r.IntN(telemetry.MaxHops + 1) {
					end = telemetry.INT64.Push(b, end, telemetry.HopRecord{Low: r.Uint64()})
				}
				out.INT = telemetry.INT(b[:end])
				if r.IntN(2) == 0 {
					telemetry.INT64.PutReflected(b, out.INT, 1)
				}
			}
			return out
		}
		for range 20 {
			for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
				got, _ := l.ask(op)
				if got.HasMaxDelay != (c.Delay != nil) && got.HasMaxDelay || got.Path.N > 0 && c.INT == nil || got.MaxHopDelay < 0 {
					t.Errorf("%v: %+v", op, got)
				}
			}
		}
	}
}
