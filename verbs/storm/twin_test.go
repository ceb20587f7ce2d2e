package storm

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// twinScript is a queue pair of host 0, connected to one of host 1, and what its device does.
type twinScript struct {
	*observer
	t   *twin
	now units.Time
}

func newTwinScript() *twinScript {
	o := newObserver(&run{cfg: Default(), engine: des.New()})
	t := &twin{host: 0, qpn: 10, service: ib.RC, depth: 8, receives: &receives{}, access: ib.AccessRemoteWrite}
	o.add(t)
	t.toRTR(&verbs.QPAttr{PathMTU: 256, DestQPN: 11, RQPSN: 50, AV: verbs.AddressVector{GID: netip.MustParseAddr("10.0.0.2")}, MaxDestRdAtomic: 2, MinRNRTimer: 1})
	o.link(t)
	t.toRTS(&verbs.QPAttr{SQPSN: 100, Timeout: 8, RetryCnt: 1, RNRRetry: 7, MaxRdAtomic: 1})
	return &twinScript{o, t, units.Microsecond}
}

// write posts a WRITE without bytes, and has its packet leave.
func (s *twinScript) write(id uint64, psn int32) {
	s.t.taken(s.t.post([]verbs.SendWR{{WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}}), 1)
	s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, units.PSN(100+psn), true })
}

func (s *twinScript) bytes(to uint32, change func(h *roce.Packet)) []byte {
	h := roce.Packet{DestQP: to, PKey: roce.DefaultPKey}
	change(&h)
	b := make([]byte, roce.MaxHeaderBytes+roce.ICRCBytes)
	return b[:h.Put(b)+roce.ICRCBytes]
}

func (s *twinScript) sends(change func(h *roce.Packet)) {
	s.leaves(s.now, 0, 1, s.bytes(11, change))
}

func (s *twinScript) gets(change func(h *roce.Packet)) {
	s.arrives(s.now, 0, 1, 0, 0, s.bytes(10, change))
}

func (s *twinScript) acknowledged(psn int32, syndrome uint8) {
	s.gets(func(h *roce.Packet) { h.Opcode, h.PSN, h.Syndrome = ib.Acknowledge, units.PSN(100+psn), syndrome })
}

func (s *twinScript) completes(id uint64, status ib.WCStatus) {
	s.polled(s.now, 0, nil, []verbs.WC{{WRID: id, Status: status, Opcode: ib.WCRDMAWrite, QPN: 10, VendorErr: vendorErrs[status]}}, true, nil)
}

// A twin finds what a queue pair does that it must not, and what it does not and must.
func TestTwin(t *testing.T) {
	for _, c := range []struct {
		name   string
		rule   int // 0: all is well
		script func(s *twinScript)
	}{
		{"a WRITE", 0, func(s *twinScript) {
			s.write(1, 0)
			s.acknowledged(0, 0x1f)
			s.completes(1, ib.WCSuccess)
			s.polled(s.now, 0, nil, nil, false, nil)
		}},
		{"a packet that nobody asked for", 11, func(s *twinScript) {
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 100, true })
		}},
		{"a packet to a stranger", 11, func(s *twinScript) {
			s.leaves(s.now, 0, 2, s.bytes(11, func(h *roce.Packet) { h.Opcode = ib.WriteOnly }))
		}},
		{"another address", 11, func(s *twinScript) {
			s.t.post([]verbs.SendWR{{Opcode: ib.WRRDMAWrite}})
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq, h.VA = ib.WriteOnly, 100, true, 8 })
		}},
		{"a request that does not leave", 12, func(s *twinScript) {
			s.t.post([]verbs.SendWR{{Opcode: ib.WRRDMAWrite}})
			s.quiet(s.now, 0)
		}},
		{"an answer that does not leave", 12, func(s *twinScript) {
			s.gets(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 50, true })
			s.quiet(s.now, 0)
		}},
		{"what is acknowledged is not completed", 13, func(s *twinScript) {
			s.write(1, 0)
			s.acknowledged(0, 0x1f)
			s.polled(s.now, 0, nil, nil, false, nil)
		}},
		{"what is not acknowledged is completed", 13, func(s *twinScript) {
			s.write(1, 0)
			s.completes(1, ib.WCSuccess)
		}},
		{"a mark that is not told of", 13, func(s *twinScript) {
			s.write(1, 0)
			s.gets(func(h *roce.Packet) { h.Opcode, h.PSN, h.Syndrome, h.BECN = ib.Acknowledge, 100, 0x1f, true })
			wc := verbs.WC{WRID: 1, Opcode: ib.WCRDMAWrite, QPN: 10}
			s.polled(s.now, 0, nil, []verbs.WC{wc}, true, func(*verbs.WC) signals { return signals{} })
		}},
		{"the wrong status", 13, func(s *twinScript) {
			s.write(1, 0)
			s.acknowledged(0, rc.SyndromeAccess)
			s.completes(1, ib.WCRemOpErr)
		}},
		{"no retry", 3, func(s *twinScript) {
			s.write(1, 0)
			s.now += rc.TimeoutTime(8) + 3*units.Nanosecond
			s.quiet(s.now, 0)
		}},
		{"retries, and then none", 0, func(s *twinScript) {
			s.write(1, 0)
			s.now += rc.TimeoutTime(8)
			s.rings(s.now, 0)
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 100, true })
			s.now += rc.TimeoutTime(8)
			s.rings(s.now, 0)
			s.completes(1, ib.WCRetryExcErr)
		}},
		{"an RNR wait is kept", 0, func(s *twinScript) {
			s.write(1, 0)
			s.acknowledged(0, 0x21)
			s.quiet(s.now, 0)
			s.now += rc.RNRTime(1)
			s.rings(s.now, 0)
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 100, true })
		}},
		{"an RNR wait is not kept", 11, func(s *twinScript) {
			s.write(1, 0)
			s.acknowledged(0, 0x21)
			s.now += rc.RNRTime(1) - 1
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 100, true })
		}},
		{"an RNR wait without end", 12, func(s *twinScript) {
			s.write(1, 0)
			s.acknowledged(0, 0x21)
			s.now += rc.RNRTime(1)
			s.rings(s.now, 0)
			s.quiet(s.now, 0)
		}},
		{"a NAK is not heard", 12, func(s *twinScript) {
			s.write(1, 0)
			s.acknowledged(0, rc.SyndromeSequence)
			s.quiet(s.now, 0)
		}},
		{"again without a cause", 11, func(s *twinScript) {
			s.write(1, 0)
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 100, true })
		}},
		{"a number is left out", 11, func(s *twinScript) {
			s.t.post([]verbs.SendWR{{Opcode: ib.WRRDMAWrite}, {Opcode: ib.WRRDMAWrite}})
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 101, true })
		}},
		{"a request begins in SQD", 11, func(s *twinScript) {
			s.t.drain()
			s.t.post([]verbs.SendWR{{Opcode: ib.WRRDMAWrite}})
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 100, true })
		}},
		{"one READ too many", 11, func(s *twinScript) {
			s.t.post([]verbs.SendWR{{Opcode: ib.WRRDMARead}, {Opcode: ib.WRRDMARead}})
			for psn := range units.PSN(2) {
				s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.ReadRequest, 100+psn, true })
			}
		}},
		{"what has not arrived is acknowledged", 11, func(s *twinScript) {
			s.gets(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 51, true })
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.Syndrome, h.MSN = ib.Acknowledge, 51, 0x1f, 1 })
		}},
		{"a gap is reported", 0, func(s *twinScript) {
			s.gets(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq = ib.WriteOnly, 51, true })
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.Syndrome = ib.Acknowledge, 50, rc.SyndromeSequence })
			s.quiet(s.now, 0)
		}},
		{"a misfit is acknowledged", 11, func(s *twinScript) {
			s.gets(func(h *roce.Packet) { h.Opcode, h.PSN, h.AckReq, h.DMALen = ib.WriteOnly, 50, true, 1 })
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.Syndrome, h.MSN = ib.Acknowledge, 50, 0x1f, 1 })
		}},
		{"an event without a reason", 14, func(s *twinScript) {
			s.happened(s.now, 0, &verbs.AsyncEvent{Type: ib.EventQPFatal, QP: &wardQP{QP: numbered{qpn: 10}}})
		}},
		{"no event, and a reason", 14, func(s *twinScript) {
			s.gets(func(h *roce.Packet) { h.Opcode, h.PSN, h.RKey, h.DMALen = ib.WriteOnly, 50, 1, 1 })
			s.sends(func(h *roce.Packet) { h.Opcode, h.PSN, h.Syndrome = ib.Acknowledge, 50, rc.SyndromeInvalid })
			s.noEvent(s.now, 0)
		}},
		{"a counter", 14, func(s *twinScript) { s.t.compare(verbs.Repairs{Timeouts: 1}, 0) }},
	} {
		s := newTwinScript()
		c.script(s)
		got, want := s.run.result.Failure, fmt.Sprintf("rule %d:", c.rule)
		if c.rule == 0 && got != "" || c.rule > 0 && !strings.Contains(got, want) {
			t.Errorf("%s: %q, expected rule %d", c.name, got, c.rule)
		}
	}
}

// numbered is a queue pair that has a number.
type numbered struct {
	verbs.QP
	qpn uint32
}

func (n numbered) Num() uint32 { return n.qpn }
