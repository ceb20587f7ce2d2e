package storm

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// pace is what a queue pair of the shim hands to the one below, held against what its engine
// allows and what the shim says of it.
type pace struct {
	*lane
	p     *Process
	qpn   uint32
	cfg   *paced.Config
	line  units.Rate
	wire  units.Rate // at which the NIC sends a segment's packets
	mtu   units.Bytes
	since units.Time // its making

	segments []segment // with the provider
	done     []segment // that have succeeded, of which the engine is to hear
	out      units.Bytes
	acked    units.Bytes // since RESET
	base     units.Bytes // before
	sent     units.Bytes
	taken    uint64 // since its making
	bytes    units.Bytes
	acks     uint64
	zero     int // segments without bytes, since RESET
	failed   bool
	active   units.LongTime // for which it was at work, as it said last
	sends    verbs.CQ
	notices  func() uint64 // congestion notifications that the provider has had for it; nil if it does not say
}

// lane is what one engine steers: a queue pair, or a group of them.
type lane struct {
	name    string // of the group; empty if there is none
	members []*pace

	rate, most, least units.Rate // the engine's, and its bounds since the last segment
	window            units.Bytes
	anchor            units.Time  // from which the rate counts until the next segment
	last, longest     units.Bytes // the shortest and the longest of the last instant
	lastAt            units.Time
	total             units.Bytes // that its members have sent
}

// out is what is with the NIC of all members; known is false if one has failed, of which it is
// not known when the shim takes note of that.
func (l *lane) out() (n units.Bytes, known bool) {
	known = true
	for _, m := range l.members {
		n += m.out
		known = known && !m.failed
	}
	return n, known
}

// idle reports whether nothing of a member is with the NIC.
func (l *lane) idle() bool {
	for _, m := range l.members {
		if len(m.segments) > 0 || m.failed {
			return false
		}
	}
	return true
}

type segment struct {
	wrid  uint64
	bytes units.Bytes
	at    units.Time
}

// drawShim draws what a seed's shim is like.
func drawShim(cfg *Config, c *paced.Config) (erratic bool) {
	r := rand.New(rand.NewPCG(cfg.Seed, 0x5417))
	c.Batch = []int{1, 2, 16, 256}[r.IntN(4)]
	c.CatchUp = []units.Time{0, units.Microsecond, 10 * units.Microsecond}[r.IntN(3)]
	if r.IntN(2) == 0 {
		c.MaxOutstanding = c.Segment * units.Bytes(1+r.IntN(8))
	}
	c.Clock = []paced.RTTClock{paced.CalibratedClock, paced.NICClock, paced.SoftwareClock}[r.IntN(3)]
	if r.IntN(4) == 0 {
		c.CalibrateEvery = 0
	}
	erratic = r.IntN(2) == 0
	switch r.IntN(8) {
	case 0:
		c.Group = paced.ByDestination
	case 1:
		c.Group = paced.ByPath
	case 2:
		c.Group = paced.ByPort
	case 3:
		c.GroupOf = func(q *paced.QP, _ verbs.QPAttr) string { return groupOf(q.Num()) }
	}
	c.Bypass = r.IntN(2) == 0 // everything is observed, so that nothing is
	c.CutImmediate = r.IntN(3) == 0
	if r.IntN(3) == 0 {
		c.LineRate = units.Rate(1+r.IntN(24)) * units.Gbps
	}
	if cfg.Provider == "sim" && r.IntN(3) == 0 {
		if c.NICRate = c.LineRate / 2; c.LineRate == 0 {
			c.NICRate = units.Rate(1+r.IntN(20)) * units.Gbps
		}
	}
	return erratic
}

// cutsImmediate reports whether the shim cuts Writes with immediate data.
func (p *Process) cutsImmediate() bool { return p.ward.shim != nil && p.ward.shim.CutImmediate }

// groupOf names a queue pair's group by its number, where seeds have that.
func groupOf(qpn uint32) string { return []string{"", "even", "third"}[qpn%3] }

// join gives a queue pair that goes to RTS its lane, which is its group's if it has one.
func (w *ward) join(p *pace, av *verbs.AddressVector, c cc.Control) {
	name := ""
	switch {
	case p.cfg.GroupOf != nil:
		name = groupOf(p.qpn)
	case p.cfg.Group == paced.ByPort:
		name = "port 1"
	case p.cfg.Group == paced.ByDestination, p.cfg.Group == paced.ByPath && av.FlowLabel == 0:
		name = av.GID.String()
	case p.cfg.Group == paced.ByPath:
		name = fmt.Sprintf("%v flow %#x", av.GID, av.FlowLabel)
	}
	l := w.lanes[name]
	if l == nil {
		l = &lane{name: name, rate: c.Rate, most: c.Rate, least: c.Rate, window: c.Window, lastAt: w.p.Now()}
		if name != "" {
			w.lanes[name] = l
		} else {
			l.anchor, l.last, l.longest, l.lastAt = p.anchor, p.last, p.longest, p.lastAt // a queue pair's pace goes on after RESET
		}
	}
	l.members = append(l.members, p)
	p.lane = l
}

// leave takes a queue pair that forgets all out of its lane.
func (w *ward) leave(p *pace) {
	l := p.lane
	if l.members = slices.DeleteFunc(l.members, func(m *pace) bool { return m == p }); len(l.members) == 0 && w.lanes[l.name] == l {
		delete(w.lanes, l.name)
	}
	p.lane = &lane{window: cc.Unlimited, anchor: l.anchor, last: l.last, longest: l.longest, lastAt: l.lastAt}
}

// rest is what the thread that makes progress was told when it asked how long it may rest.
type rest struct {
	on, idle bool
	until    units.LongTime
	kicks    int
}

// rests has a thread ask, and holds the answer against what is under way (rule 26).
func (w *ward) rests(s *paced.Shim, look units.Time) {
	w.rest = rest{on: true}
	r := &w.rest
	until := s.Rest(look, func() { r.kicks++ })
	under, known := w.underWay()
	want := s.Deadline()
	if at := s.Clock().Add(look); under && at.Before(want) {
		want = at
	}
	if r.until, r.idle = until, !under; until != want && known {
		w.p.Failf("rule 26: who makes progress may rest until %v, expected %v, with segments at the NIC: %v", until, want, under)
	}
}

// underWay reports whether segments are with the NIC; known is false if a queue pair has failed.
func (w *ward) underWay() (under, known bool) {
	known = true
	for _, p := range w.paces {
		under, known = under || len(p.segments) > 0, known && !p.failed
	}
	return under, known
}

// rested holds what has come since against who rests: there is a kick if the rest is too long, and one.
func (w *ward) rested(s *paced.Shim) {
	if !w.rest.on {
		return
	}
	under, known := w.underWay()
	switch {
	case w.rest.kicks > 1:
		w.p.Failf("rule 26: who rests is woken %d times", w.rest.kicks)
	case w.rest.kicks == 1 || !known:
		w.rest.on = false
		s.Rest(0, nil)
	case s.Deadline().Before(w.rest.until) || w.rest.idle && under:
		w.p.Failf("rule 26: who makes progress rests until %v, and is not woken: something is due at %v, with segments at the NIC: %v", w.rest.until, s.Deadline(), under)
	}
}

// groups holds what the shim says of its groups against what is known.
func (w *ward) groups(s *paced.Shim) {
	all := s.Groups()
	if len(all) != len(w.lanes) {
		w.p.Failf("rule 19: the shim has %d groups, and there are %d", len(all), len(w.lanes))
		return
	}
	for i := range all {
		g := &all[i]
		l := w.lanes[g.Name]
		if l == nil {
			w.p.Failf("rule 19: the shim has a group %q, which no queue pair is of", g.Name)
			return
		}
		window := l.window
		if window == cc.Unlimited {
			window = 0
		}
		if out, known := l.out(); known && (g.Members != len(l.members) || g.Outstanding != out || g.Rate != l.rate || g.Window != window) {
			w.p.Failf("rule 19: the shim says that a group is %+v: %d queue pairs have %v with the NIC, at %v within %v", *g, len(l.members), out, l.rate, window)
		}
		if i > 0 && all[i-1].Name >= g.Name {
			w.p.Failf("rule 19: the shim has group %q after %q", g.Name, all[i-1].Name)
		}
	}
}

// erratic is an engine that allows anything, each time something else.
type erratic struct {
	r *rand.Rand
	c cc.Control
}

func (e *erratic) draw() cc.Control {
	e.c = cc.Control{Rate: units.Rate(1+e.r.IntN(1<<e.r.IntN(16))) * units.Mbps, Window: cc.Unlimited}
	if e.r.IntN(2) == 0 {
		e.c.Window = units.Bytes(1 + e.r.IntN(64<<10))
	}
	if e.r.IntN(8) == 0 {
		e.c.Rate = 1000 * units.Gbps
	}
	return e.c
}

func (e *erratic) OnAck(*cc.Ack) cc.Control        { return e.draw() }
func (e *erratic) OnLoss(units.Time) cc.Control    { return e.c }
func (e *erratic) OnTimeout(units.Time) cc.Control { return e.c }
func (e *erratic) OnCNP(units.Time) cc.Control     { return e.c }
func (e *erratic) Control() cc.Control             { return e.c }

func (p *pace) reset() {
	p.segments, p.done, p.out, p.acked, p.sent, p.zero, p.failed = nil, nil, 0, 0, 0, 0, false
}

// handed takes note of requests that the provider takes now.
func (p *pace) handed(now units.Time, wrs []verbs.SendWR) {
	for i := range wrs {
		n := units.Bytes(wrs[i].Length())
		due := p.earliest(p.line)
		// A group's that leave together are posted queue pair by queue pair: in which order the
		// rate has let them go is not known.
		together := p.name != "" && now == p.lastAt && p.total > 0
		if now+units.Nanosecond < due && !together {
			p.p.Failf("rule 16: queue pair %#x: a segment leaves %v before the rate of %v lets it", p.qpn, due-now, p.most)
		}
		out, known := p.lane.out()
		if n > 0 && out > 0 && out+n > p.window && known {
			p.p.Failf("rule 17: queue pair %#x: %v are with the NIC, %v more leave, and the window is %v", p.qpn, out, n, p.window)
		}
		if bound := p.cfg.Outstanding(p.line); n > 0 && out > 0 && out+n > bound && known {
			p.p.Failf("rule 17: queue pair %#x: %v are with the NIC, %v more leave, and the bound is %v", p.qpn, out, n, bound)
		}
		if together {
			p.anchor, p.last, p.longest = max(p.anchor, now-p.cfg.CatchUp), min(p.last, n), max(p.longest, n)
		} else {
			p.anchor, p.last, p.longest, p.lastAt = max(due, now-p.cfg.CatchUp), n, n, now
		}
		p.most, p.least = p.rate, p.rate
		p.segments = append(p.segments, segment{wrs[i].WRID, n, now})
		p.out += n
		p.sent += n
		p.total += n
		p.taken++
		p.bytes += n
		p.p.ward.bytes += n
		if n == 0 {
			p.zero++
		}
	}
}

// earliest is when the next segment may leave, by the highest rate since the last.
func (l *lane) earliest(line units.Rate) units.Time {
	if l.most >= line {
		return 0
	}
	return l.anchor + min(l.most.Serialize(l.last), units.Second)
}

// allowed takes what the engine allows from now on.
func (l *lane) allowed(c cc.Control) {
	l.rate, l.window, l.most, l.least = c.Rate, c.Window, max(l.most, c.Rate), min(l.least, c.Rate)
}

// completed takes a completion of the provider's, which the shim gets now.
func (p *pace) completed(wc *verbs.WC) {
	for i := range p.segments {
		if p.segments[i].wrid != wc.WRID {
			continue
		}
		for _, s := range p.segments[:i+1] {
			p.out -= s.bytes
		}
		if p.failed = p.failed || wc.Status != ib.WCSuccess; !p.failed {
			p.done = append(p.done, p.segments[i])
		}
		p.segments = p.segments[:copy(p.segments, p.segments[i+1:])]
		return
	}
}

// observed holds what an engine is told against what has happened.
func (p *pace) observed(a *cc.Ack, c cc.Control) {
	if len(p.done) == 0 {
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a segment that has not completed", p.qpn)
		return
	}
	s := p.done[0]
	p.done = p.done[1:]
	p.acked += s.bytes
	p.acks++
	p.p.ward.acks++
	if p.acked == s.bytes {
		p.base = a.Acked - p.acked // what was acknowledged before RESET counts on
	}
	wire, acked, sent := p.wire.Serialize(s.bytes), p.base+p.acked, p.base+p.sent
	if p.name != "" { // of all members
		out, known := p.lane.out()
		for _, m := range p.members {
			for _, d := range m.done {
				out += d.bytes
			}
		}
		if acked, sent = p.total-out, p.total; !known {
			acked, sent = a.Acked, a.Sent
		}
	}
	switch packets := max(1, int32((s.bytes+p.mtu-1)/p.mtu)); {
	case a.Bytes != s.bytes || a.Packets != packets || a.Acked != acked || a.Sent != sent:
		p.p.Failf("rule 18: queue pair %#x: the engine is told of %v in %d packets, %v of %v: it was %v in %d, %v of %v",
			p.qpn, a.Bytes, a.Packets, a.Acked, a.Sent, s.bytes, packets, acked, sent)
	case p.p.run.stamps && p.cfg.Clock != paced.SoftwareClock:
		if late := a.SentAt - s.at; p.p.ward.clock.steady() && (late < -units.Microsecond || a.SentAt > a.Now) {
			p.p.Failf("rule 18: queue pair %#x: the engine is told of a segment of %v that has left at %v, and was posted at %v", p.qpn, a.Now, a.SentAt, s.at)
		}
	case !p.p.ward.later && (a.SentAt > s.at || s.at-a.SentAt > units.Microsecond):
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a segment of %v, which left at %v", p.qpn, a.SentAt, s.at)
	case a.RTT < 0 || a.NetRTT < 0 || a.NetRTT > 0 && a.RTT-a.NetRTT != wire || a.NetRTT == 0 && a.RTT > wire+units.Nanosecond:
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a round trip of %v, %v without the %v on the wire", p.qpn, a.RTT, a.NetRTT, wire)
	case a.Scale < 0 || a.Scale > 1:
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a share of %v", p.qpn, a.Scale)
	}
	p.allowed(c)
}

// holds holds what the shim says of a queue pair against what is known of it. waits says that it
// has requests that are not with the provider, and progressed that it has just made progress.
func (p *pace) holds(now units.Time, q *paced.QP, waits, progressed bool, stats *paced.QPStats) {
	if p.failed || q.Control().Rate == 0 {
		return
	}
	a, err := q.Query()
	if err != nil || a.State != ib.RTS {
		return
	}
	if out := q.Outstanding(); out != p.out {
		p.p.Failf("rule 7: queue pair %#x has %v with the NIC, and says %v", p.qpn, p.out, out)
	}
	if gap := min(max(p.least, 1).Serialize(p.longest), units.Second); progressed && waits && p.idle() && now > p.lastAt+gap+12*units.Microsecond {
		p.p.Failf("rule 16: queue pair %#x: nothing is with the NIC, and no segment leaves %v after the last, at %v", p.qpn, now-p.lastAt, p.least)
	}
	if stats == nil {
		return
	}
	q.Stats(stats)
	held := stats.Held
	for _, h := range []units.LongTime{held.Rate, held.Window, held.Bound, held.Late, held.Other, held.Sent} {
		if h.Before(units.LongTime{}) {
			p.p.Failf("rule 19: queue pair %#x was held for %v", p.qpn, h)
		}
	}
	active := held.Active()
	p.p.ward.held = p.p.ward.held.Plus(active.Minus(p.active))
	p.active = active
	switch {
	case stats.QPN != p.qpn || stats.State != a.State || stats.Outstanding != p.out || stats.Rate != q.Control().Rate:
		p.p.Failf("rule 19: queue pair %#x says that it is %#x, in %v, %v with the NIC, at %v", p.qpn, stats.QPN, stats.State, stats.Outstanding, stats.Rate)
	case stats.Segments != p.taken || stats.SegmentBytes != p.bytes:
		p.p.Failf("rule 19: queue pair %#x counts %d segments of %v, and has sent %d of %v", p.qpn, stats.Segments, stats.SegmentBytes, p.taken, p.bytes)
	case stats.Engine != "" && stats.RTT.Count() > p.acks:
		p.p.Failf("rule 19: queue pair %#x counts %d round trips, and has had %d", p.qpn, stats.RTT.Count(), p.acks)
	case stats.RTT.Count() > 0 && (stats.RTT.Sum < 0 || stats.RTT.Sum == 0 && stats.RTT.Quantile(1) > units.Microsecond*units.Time(stats.RTT.Count()+1)):
		p.p.Failf("rule 19: queue pair %#x counts round trips of %v in all", p.qpn, stats.RTT.Sum)
	case active.Sub(units.LongTime{}) > now-p.since:
		p.p.Failf("rule 19: queue pair %#x was at work for %v, of %v", p.qpn, active, now-p.since)
	case p.notices != nil && stats.CNPs > p.notices():
		p.p.Failf("rule 19: queue pair %#x counts %d congestion notifications, and the provider %d", p.qpn, stats.CNPs, p.notices())
	case stats.Cuts.Total() > p.acks+stats.CNPs:
		p.p.Failf("rule 19: queue pair %#x counts %d cuts, of %d acknowledgements", p.qpn, stats.Cuts.Total(), p.acks)
	}
}

// counted holds what the shim counts against what it has done.
func (w *ward) counted(s *paced.Shim) {
	n := s.Stats()
	turns := n.Turnarounds + n.Coalesced
	switch {
	case n.Segments != w.segments || n.SegmentBytes != w.bytes || n.Posts != w.posts:
		w.p.Failf("rule 19: the shim counts %d segments of %v in %d posts, and has sent %d of %v in %d", n.Segments, n.SegmentBytes, n.Posts, w.segments, w.bytes, w.posts)
	case n.Samples != w.acks || n.NICTime+n.PollTime != n.Samples || n.Bypassed > 0:
		w.p.Failf("rule 19: the shim counts %d samples, %d by the NIC's time and %d by its own, %d bypassed: there were %d", n.Samples, n.NICTime, n.PollTime, n.Bypassed, w.acks)
	case n.Messages > w.accepted || n.Failed > n.Messages:
		w.p.Failf("rule 19: the shim counts %d messages, %d failed, of %d", n.Messages, n.Failed, w.accepted)
	case n.Clamped > n.Samples || n.ProviderFull+n.NICRateRefused+n.ClockErrors > 0, n.SentTime > n.Samples, n.SentTime > 0 && !w.p.run.stamps:
		w.p.Failf("rule 19: the shim counts %+v", n)
	case turns > n.Samples || turns > 0 && (w.watch == nil || !w.watch.turnaround):
		w.p.Failf("rule 19: the shim counts %d answers with a turnaround of %d", turns, n.Samples)
	case w.shim.Clock == paced.SoftwareClock && n.NICTime > 0:
		w.p.Failf("rule 19: the shim counts %d samples by the NIC's time, and does not use it", n.NICTime)
	case n.Held.Active().Before(w.held):
		w.p.Failf("rule 19: the shim counts queue pairs at work for %v, and they have said %v", n.Held.Active(), w.held)
	case len(s.QPs()) > 0:
		w.p.Failf("rule 19: the shim has %d queue pairs, when all are destroyed", len(s.QPs()))
	case s.Deadline() != units.LongNever:
		w.p.Failf("rule 19: the shim has nothing to do, and something at %v", s.Deadline())
	}
}
