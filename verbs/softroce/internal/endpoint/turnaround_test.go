package endpoint

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// told returns what the completions that are there say, by request.
func (h *host) told() map[uint64]verbs.Telemetry {
	h.w.t.Helper()
	all := map[uint64]verbs.Telemetry{}
	wc := make([]verbs.WC, 64)
	n, err := h.cq.Poll(wc)
	if err != nil {
		h.w.t.Fatal(err)
	}
	for i := range wc[:n] {
		if wc[i].Status != ib.WCSuccess {
			h.w.t.Errorf("request %d: %v", wc[i].WRID, wc[i].Status)
		}
		var t verbs.Telemetry
		h.cq.Telemetry(&wc[i], &t)
		all[wc[i].WRID] = t
	}
	return all
}

// The peer tells how long it kept a packet, to who asks, and of that packet alone.
func TestTurnaround(t *testing.T) {
	const us = units.Microsecond
	for name, c := range map[string]struct{ asks, answers bool }{
		"asked": {true, true}, "not asked": {false, true}, "the peer does not know": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newPair(t, 1, patient(1024))
			l.a.e.cfg.Turnaround = c.asks
			asked, answered, acks := 0, 0, 0
			var last []byte // packet that asked
			l.w.tap = func(from *host, to *Route, b []byte) bool {
				if !c.answers && from == l.a { // as one that ignores what is reserved
					roce.BTH(b)[4] &^= roce.TurnaroundBit
				}
				if ib.Opcode(b[0]) == ib.Acknowledge {
					acks++
				}
				if roce.BTH(b).Reserved6()&roce.TurnaroundBit != 0 {
					if from == l.a {
						asked++
						last = append(last[:0], b...)
						if !roce.BTH(b).AckReq() {
							t.Error("a packet asks that wants no acknowledgement")
						}
					} else {
						answered++
					}
				}
				return true
			}
			ml, _ := l.a.reg(5000, allAccess)
			mr, _ := l.b.reg(5000, allAccess)
			write := func(id uint64) {
				l.a.post(l.x, verbs.SendWR{WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 5000), RemoteAddr: mr.Addr(), RKey: mr.Key()})
			}
			// The peer's thread is away for 700 us after the packets of two requests, 50 us
			// apart, have come.
			l.b.absent = true
			write(1)
			l.w.run(50 * us)
			write(2)
			l.w.run(700 * us)
			l.b.absent = false
			l.b.pump()
			l.w.settle()
			got := l.a.told()
			if len(got) != 2 {
				t.Fatalf("%d completions", len(got))
			}
			if !c.asks || !c.answers {
				if (got[1] != verbs.Telemetry{}) || (got[2] != verbs.Telemetry{}) || answered > 0 {
					t.Errorf("%+v, %+v, %d answers", got[1], got[2], answered)
				}
				return
			}
			if got[1].HasTurnaround || !got[1].Coalesced {
				t.Errorf("the first, which has no acknowledgement of its own: %+v", got[1])
			}
			if got[2].Coalesced || !got[2].HasTurnaround || got[2].Turnaround < 690*us || got[2].Turnaround > 700*us {
				t.Errorf("the second: %+v", got[2])
			}
			if asked != 2 || answered != 1 {
				t.Errorf("%d asked, %d answered", asked, answered)
			}
			// A READ's response does not tell, and what is acknowledged alone is told alone.
			l.a.post(l.x, verbs.SendWR{WRID: 3, Opcode: ib.WRRDMARead, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 5000), RemoteAddr: mr.Addr(), RKey: mr.Key()})
			l.w.settle()
			write(4)
			l.w.settle()
			got = l.a.told()
			if got[3].HasTurnaround || got[3].Coalesced || !got[4].HasTurnaround || got[4].Turnaround != 0 {
				t.Errorf("a read %+v, a write %+v", got[3], got[4])
			}
			// A duplicate of the packet that asked is acknowledged again, and not told again.
			before := acks
			l.w.inject(l.a.addr, l.b, last)
			l.w.settle()
			if asked != 3 || answered != 2 || acks != before+1 {
				t.Errorf("%d asked, %d answered, %d acknowledgements of a duplicate", asked, answered, acks-before)
			}
		})
	}
}
