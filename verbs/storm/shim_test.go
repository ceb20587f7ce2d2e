package storm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// A pace finds segments that leave too early, or beyond the window, and what engines are told
// that is not so.
func TestPace(t *testing.T) {
	segment := func(id uint64, n uint32) []verbs.SendWR {
		return []verbs.SendWR{{WRID: id, Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: n}}}}
	}
	const us = units.Microsecond
	success := &verbs.WC{WRID: 1}
	told := func(a cc.Ack) func(p *pace) {
		return func(p *pace) {
			p.handed(us, segment(1, 1000))
			p.completed(success)
			p.observed(&a, cc.Control{Rate: units.Gbps, Window: cc.Unlimited})
		}
	}
	good := cc.Ack{Bytes: 1000, Packets: 1, Acked: 1000, Sent: 1000, SentAt: us, RTT: 10 * us, NetRTT: 10*us - (25 * units.Gbps).Serialize(1000)}
	with := func(change func(a *cc.Ack)) cc.Ack {
		a := good
		change(&a)
		return a
	}
	for _, c := range []struct {
		name   string
		rule   int // 0: all is well
		script func(p *pace)
	}{
		{"in time", 0, func(p *pace) { // 1000 bytes take 8 us at 1 Gbps
			p.handed(us, segment(1, 1000))
			p.handed(9*us, segment(2, 1000))
		}},
		{"too early", 16, func(p *pace) {
			p.handed(us, segment(1, 1000))
			p.handed(8*us, segment(2, 1000))
		}},
		{"early by a rate that was higher for a while", 0, func(p *pace) {
			p.handed(us, segment(1, 1000))
			p.allowed(cc.Control{Rate: 10 * units.Gbps, Window: cc.Unlimited})
			p.allowed(cc.Control{Rate: units.Gbps, Window: cc.Unlimited})
			p.handed(2*us, segment(2, 1000))
		}},
		{"within the window", 0, func(p *pace) {
			p.window = 2000
			p.handed(us, segment(1, 1000))
			p.handed(9*us, segment(2, 1000))
		}},
		{"beyond the window", 17, func(p *pace) {
			p.window = 1999
			p.handed(us, segment(1, 1000))
			p.handed(9*us, segment(2, 1000))
		}},
		{"beyond the bound", 17, func(p *pace) {
			p.cfg.MaxOutstanding = 1999
			p.handed(us, segment(1, 1000))
			p.handed(9*us, segment(2, 1000))
		}},
		{"within the window of a group", 0, func(p *pace) {
			other := inGroup(p, 2000)
			p.handed(us, segment(1, 1000))
			other.handed(9*us, segment(2, 1000))
		}},
		{"beyond the window of a group", 17, func(p *pace) {
			other := inGroup(p, 1999)
			p.handed(us, segment(1, 1000))
			other.handed(9*us, segment(2, 1000))
		}},
		{"too early for a group", 16, func(p *pace) {
			other := inGroup(p, 2000)
			p.handed(us, segment(1, 1000))
			other.handed(8*us, segment(2, 1000))
		}},
		{"the engine is told", 0, told(good)},
		{"of a segment that has not completed", 18, func(p *pace) { p.observed(&good, cc.Control{}) }},
		{"of other bytes", 18, told(with(func(a *cc.Ack) { a.Bytes = 999 }))},
		{"of other packets", 18, told(with(func(a *cc.Ack) { a.Packets = 2 }))},
		{"of less that was acknowledged", 18, told(with(func(a *cc.Ack) { a.Acked, a.Sent = 1000, 999 }))},
		{"of another time", 18, told(with(func(a *cc.Ack) { a.SentAt = 3 * us }))},
		{"of a round trip without what the wire takes", 18, told(with(func(a *cc.Ack) { a.NetRTT = a.RTT }))},
	} {
		cfg := paced.DefaultConfig()
		cfg.CatchUp = 0
		r := &run{cfg: Default(), engine: des.New()}
		owner := &Process{run: r, ward: &ward{}}
		p := &pace{p: owner, cfg: &cfg, line: 25 * units.Gbps, wire: 25 * units.Gbps, mtu: 1024, lane: &lane{rate: units.Gbps, most: units.Gbps, least: units.Gbps, window: cc.Unlimited}}
		p.members = []*pace{p}
		c.script(p)
		got, want := r.result.Failure, fmt.Sprintf("rule %d:", c.rule)
		if c.rule == 0 && got != "" || c.rule > 0 && !strings.Contains(got, want) {
			t.Errorf("%s: %q, expected rule %d", c.name, got, c.rule)
		}
	}
}

// inGroup makes a queue pair one of a group of two, with that window, and returns the other.
func inGroup(p *pace, window units.Bytes) *pace {
	other := *p
	p.name, p.window, p.members = "port 1", window, []*pace{p, &other}
	return &other
}
