package storm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// wireScript feeds an observer with the packets of one connection, of which host 0 asks and
// host 1 answers.
type wireScript struct {
	*observer
	now units.Time
}

func newWireScript() *wireScript {
	c := Default()
	r := &run{cfg: c, engine: des.New()}
	o := newObserver(r)
	l := &link{id: linkID{0, 1, 0}}
	for side := range l.ends {
		l.ends[side] = &end{link: l, side: side, p: &Process{ID: side, run: r}, hello: hello{qpn: uint32(10 + side)}}
	}
	o.begin(l.ends[0])
	return &wireScript{observer: o, now: units.Microsecond}
}

func (s *wireScript) flow() *flow { return s.asks[flowKey{0, 10}] }

// packet is one of the connection's, with a number from 0 on.
func packet(to uint32, op ib.Opcode, psn int32, syndrome uint8, length uint32) []byte {
	h := roce.Packet{DestQP: to, PKey: roce.DefaultPKey}
	h.Opcode, h.PSN, h.Syndrome, h.DMALen = op, units.PSN(100).Add(psn), syndrome, length
	b := make([]byte, roce.MaxHeaderBytes+roce.ICRCBytes)
	return b[:h.Put(b)+roce.ICRCBytes]
}

// asks has a request leave, and arrive where lost does not say otherwise.
func (s *wireScript) ask(op ib.Opcode, psn int32, length uint32, lost ...bool) {
	p := packet(11, op, psn, 0, length)
	s.sent(s.now, 0, 1, p)
	if len(lost) == 0 {
		s.observer.delivered(s.now, 0, 1, p)
	}
}

// answer has an answer leave and arrive.
func (s *wireScript) answer(op ib.Opcode, psn int32, syndrome uint8) {
	p := packet(10, op, psn, syndrome, 0)
	s.sent(s.now, 1, 0, p)
	s.observer.delivered(s.now, 1, 0, p)
}

// Each rule finds what breaks it, and nothing in what does not.
func TestRules(t *testing.T) {
	const ack, notReady, sequence = 0x1f, 0x21, 0x60
	timeout := newWireScript().flow().timeout
	for _, c := range []struct {
		name   string
		rule   int // 0: all is well
		script func(s *wireScript)
	}{
		{"in order, and answered", 0, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8)
			s.ask(ib.ReadRequest, 1, 8)
			s.answer(ib.Acknowledge, 0, ack)
			s.answer(ib.ReadResponseOnly, 1, ack)
			s.ask(ib.WriteOnly, 2, 8)
		}},
		{"a number is left out", 1, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8)
			s.ask(ib.WriteOnly, 2, 8)
		}},
		{"an RNR wait is kept", 0, func(s *wireScript) {
			s.ask(ib.SendOnly, 0, 0)
			s.answer(ib.Acknowledge, 0, notReady)
			s.now += rc.RNRTime(notReady & 0x1f)
			s.ask(ib.SendOnly, 0, 0)
		}},
		{"an RNR wait is not kept", 2, func(s *wireScript) {
			s.ask(ib.SendOnly, 0, 0)
			s.answer(ib.Acknowledge, 0, notReady)
			s.now += rc.RNRTime(notReady&0x1f) - 1
			s.ask(ib.SendOnly, 0, 0)
		}},
		{"again after the timeout", 0, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8, true)
			s.now += timeout
			s.ask(ib.WriteOnly, 0, 8)
		}},
		{"again after a NAK", 0, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8, true)
			s.ask(ib.WriteOnly, 1, 8)
			s.answer(ib.Acknowledge, 0, sequence)
			s.ask(ib.WriteOnly, 0, 8)
			s.ask(ib.WriteOnly, 1, 8)
		}},
		{"again too early", 3, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8, true)
			s.now += timeout - 1
			s.ask(ib.WriteOnly, 0, 8)
		}},
		{"again too late", 3, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8, true)
			s.now += 5 * timeout
			s.ask(ib.WriteOnly, 0, 8)
		}},
		{"progress begins the timer anew", 3, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8)
			s.ask(ib.WriteOnly, 1, 8, true)
			s.now += timeout / 2
			s.answer(ib.Acknowledge, 0, ack)
			s.now += timeout/2 + 1
			s.ask(ib.WriteOnly, 1, 8)
		}},
		{"a NAK is not heard", 9, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8, true)
			s.ask(ib.WriteOnly, 1, 8)
			s.answer(ib.Acknowledge, 0, sequence)
			s.now += timeout
			s.ask(ib.WriteOnly, 0, 8)
		}},
		{"what has begun ends in SQD", 0, func(s *wireScript) {
			s.ask(ib.WriteFirst, 0, 8)
			s.pause(s.flow().end, true)
			s.ask(ib.WriteLast, 1, 8)
			s.pause(s.flow().end, false)
			s.ask(ib.WriteOnly, 2, 8)
		}},
		{"a request begins in SQD", 10, func(s *wireScript) {
			s.ask(ib.WriteFirst, 0, 8)
			s.pause(s.flow().end, true)
			s.ask(ib.WriteLast, 1, 8)
			s.ask(ib.WriteOnly, 2, 8)
		}},
		{"as many READs as the peer takes", 0, func(s *wireScript) {
			for i := range int32(s.flow().reads) {
				s.ask(ib.ReadRequest, i, 8)
			}
			s.answer(ib.ReadResponseOnly, 0, ack)
			s.ask(ib.FetchAdd, int32(s.flow().reads), 8)
		}},
		{"one READ too many", 4, func(s *wireScript) {
			for i := range int32(s.flow().reads) + 1 {
				s.ask(ib.ReadRequest, i, 8)
			}
		}},
		{"what has not arrived is acknowledged", 5, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8, true)
			s.answer(ib.Acknowledge, 0, ack)
		}},
		{"what has arrived behind a gap is acknowledged", 5, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8, true)
			s.ask(ib.WriteOnly, 1, 8)
			s.answer(ib.Acknowledge, 1, ack)
		}},
		{"a misfit is acknowledged", 5, func(s *wireScript) {
			p := packet(11, ib.WriteLast, 1, 0, 0)
			s.ask(ib.WriteFirst, 0, 8)
			s.sent(s.now, 0, 1, packet(11, ib.WriteLast, 1, 0, 0))
			s.misfits[string(p)] = true
			s.observer.delivered(s.now, 0, 1, p)
			s.answer(ib.Acknowledge, 1, ack)
		}},
		{"a READ is answered that was not asked for", 5, func(s *wireScript) {
			s.ask(ib.WriteOnly, 0, 8)
			s.answer(ib.ReadResponseOnly, 1, ack)
		}},
	} {
		s := newWireScript()
		c.script(s)
		got, want := s.run.result.Failure, fmt.Sprintf("rule %d:", c.rule)
		if c.rule == 0 && got != "" || c.rule > 0 && !strings.Contains(got, want) {
			t.Errorf("%s: %q, expected rule %d", c.name, got, c.rule)
		}
	}
}
