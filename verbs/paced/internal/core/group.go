package core

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
)

// Group is queue pairs of a Core that one engine steers. The engine sees the acknowledgements
// of all, and paces and bounds what they send together: the scheduler and the window see one
// flow. Whose segment leaves next is decided as it leaves, by class and weight. The retransmission
// timeout, a bound on what is outstanding, and the segments that a NIC takes stay each queue pair's
// own.
type Group struct {
	core     *Core
	flow     ratelimiter.FlowID
	filed    bool        // a member's segment is with the scheduler
	shut     bool        // the window or limit has held back a member's segment, since shutFrom
	bound    bool        // limit has, and nothing of the engine's
	ready    uint32      // classes that have members in line, by bit
	members  int32       // queue pairs
	line     units.Rate  // of the port
	sent     units.Bytes // payload that all members have sent
	out      units.Bytes // of it with the provider
	quantum  units.Bytes // that a turn of weight 1 has: the longest segment so far
	nextCNP  units.Time  // the engine takes none before
	shutFrom units.Time
	shutSum  units.Time  // for which either held a segment back, before shutFrom
	boundSum units.Time  // of it limit
	limit    units.Bytes // outstanding, besides the engine's window
	lines    [Classes]queue
	loop     loop
}

// Classes are the classes of a Group's members. A higher one goes first.
const Classes = 4

const (
	// MaxWeight is the largest weight of a member.
	MaxWeight = 255

	// floor is the share of a class, in hundredths of what higher classes send, that they
	// leave it while it waits.
	floor = 1

	// leastCost is what a segment counts for at least in its member's turn: its packet's
	// headers.
	leastCost = 64

	// cnpSpacing is the least time between two notifications that the engine gets. A receiver
	// spaces those of a flow so (DCQCN, section 5: N = 50 us), and each member's alone.
	cnpSpacing = 50 * units.Microsecond
)

// queue is the line of the members of one class whose next segment waits for the group.
type queue struct {
	first, last *Member
	owed        units.Bytes // hundredths of what higher classes have left to this one, and it has not sent
}

// Member is a queue pair's place in a Group.
type Member struct {
	qp         *QP
	group      *Group
	next, prev *Member     // in its line
	credit     units.Bytes // of its turn, which ends when none is left
	weight     int32
	class      int32
	cnps       uint64     // Sample.CNPs, the last time
	lastAck    units.Time // the loop's, as of the member's last acknowledgement
	shutSeen   units.Time // the group's shutTime that its times count already
	boundSeen  units.Time // and boundTime
}

// AddGroup makes g a group without members and engine, at a port of that line rate.
func (c *Core) AddGroup(g *Group, line units.Rate) error {
	flow, err := c.sched.AddFlow(ratelimiter.Unpaced)
	if err != nil {
		return err
	}
	for len(c.groups) <= int(flow) {
		c.groups = append(c.groups, nil)
	}
	for len(c.flows) <= int(flow) {
		c.flows = append(c.flows, nil)
	}
	c.addGroup(g, flow, line)
	return nil
}

// addGroup is AddGroup with a flow of the scheduler's that is Unpaced, and a place for it in
// flows and groups.
func (c *Core) addGroup(g *Group, flow ratelimiter.FlowID, line units.Rate) {
	*g = Group{core: c, flow: flow, line: line}
	g.loop.hold(line)
	c.groups[flow] = g
}

// RemoveGroup forgets a group that no queue pair is in.
func (c *Core) RemoveGroup(g *Group) {
	c.sched.RemoveFlow(g.flow)
	c.groups[g.flow] = nil
}

// Start installs the engine of a group that has none, or nil for none. A segment is what most
// requests are cut into. Limit bounds what is outstanding, besides the engine's window.
func (g *Group) Start(now units.Time, engine cc.Engine, segment, limit units.Bytes) {
	g.limit = limit
	g.loop.start(now, engine, g.line, segment, &g.core.cfg)
	g.core.pace(g.flow, &g.loop)
}

// Members is the number of queue pairs in the group.
func (g *Group) Members() int { return int(g.members) }

// Control returns the engine's Control; without an engine, the line rate.
func (g *Group) Control() cc.Control { return g.loop.driver.Control() }

// Outstanding is the payload of all members that the provider has.
func (g *Group) Outstanding() units.Bytes { return g.out }

// Join makes a queue pair that sends nothing a member of g, with a weight of 1 to MaxWeight
// in a class below Classes. m is its place, in memory that lasts until Leave. It is started as
// one without a group, by Start with no engine: the group's steers it. cnps is how many
// congestion notification packets have arrived so far.
func (q *QP) Join(m *Member, g *Group, weight, class int, cnps uint64) {
	*m = Member{qp: q, group: g, weight: int32(weight), class: int32(class), cnps: cnps}
	q.member = m
	g.members++
}

// SetShare gives a member another weight and class.
func (m *Member) SetShare(weight, class int) {
	m.weight = int32(weight)
	if class == int(m.class) {
		return
	}
	inLine := m.qp.filed
	if inLine {
		m.quit()
	}
	m.class = int32(class)
	if inLine {
		m.enter()
	}
}

// Leave takes a queue pair that was cleared out of its group, and returns the group if no
// queue pair is left in it, else nil; nil also without a group.
func (q *QP) Leave() *Group {
	m := q.member
	if m == nil {
		return nil
	}
	q.member = nil
	m.group.members--
	if m.group.members > 0 {
		return nil
	}
	return m.group
}

// Group is the queue pair's, or nil.
func (q *QP) Group() *Group {
	if q.member == nil {
		return nil
	}
	return q.member.group
}

// loopOf is the control loop that steers the queue pair: its own, or its group's.
func (q *QP) loopOf() *loop {
	if q.member != nil {
		return &q.member.group.loop
	}
	return &q.loop
}

// paced is the scheduler's flow of the queue pair's segments.
func (q *QP) paced() ratelimiter.FlowID {
	if q.member != nil {
		return q.member.group.flow
	}
	return q.flow
}

// file puts the member in line if its next segment may leave, and the first in line with the
// scheduler.
func (m *Member) file(now units.Time) {
	if !m.qp.filed {
		m.look(now)
	}
	m.group.file(now)
}

// look puts the member in line if its next segment may leave.
func (m *Member) look(now units.Time) {
	_, why := m.qp.ready()
	if why == HeldNone {
		m.enter()
		m.qp.held(now, HeldFiled)
		m.see(now)
		return
	}
	m.qp.held(now, why)
}

// enter puts the member at the end of its line.
func (m *Member) enter() {
	g := m.group
	m.qp.filed = true
	m.append(&g.lines[m.class])
	g.ready |= 1 << uint(m.class)
}

func (m *Member) append(to *queue) {
	m.next, m.prev = nil, to.last
	if to.last != nil {
		to.last.next = m
	} else {
		to.first = m
	}
	to.last = m
}

// quit takes the member out of its line. What is left of its turn is its next one's, and no
// more is added to it before.
func (m *Member) quit() {
	g := m.group
	m.qp.filed = false
	line := &g.lines[m.class]
	m.unlink(line)
	if line.first == nil {
		g.ready &^= 1 << uint(m.class)
	}
}

func (m *Member) unlink(from *queue) {
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		from.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		from.last = m.prev
	}
}

// withdraw takes a member's segment back.
func (m *Member) withdraw() {
	g := m.group
	if m.qp.filed {
		m.quit()
	}
	if g.ready == 0 && g.filed {
		g.core.sched.Withdraw(g.flow)
		g.filed = false
	}
}

// first returns the member whose segment leaves next. Some member is in line.
func (g *Group) first() *Member {
	class := bits.Len32(g.ready) - 1
	for lower := 0; lower < class; lower++ { // none in most groups
		line := &g.lines[lower]
		if line.first != nil && line.owed >= 100*max(units.Bytes(line.first.qp.next()), leastCost) {
			class = lower
		}
	}
	m := g.lines[class].first
	if m.credit <= 0 {
		g.quantum = max(g.quantum, units.Bytes(m.qp.next()), leastCost)
		m.credit += units.Bytes(m.weight) * g.quantum
	}
	return m
}

// file puts the first in line with the scheduler, if the window takes its segment.
func (g *Group) file(now units.Time) {
	if g.filed || g.ready == 0 {
		return
	}
	n := units.Bytes(g.first().qp.next())
	if g.fits(now, n) {
		g.core.sched.Enqueue(now, g.flow, n)
		g.filed = true
	}
}

// fits reports whether window and limit take n more bytes, and counts the time for which they
// did not.
func (g *Group) fits(now units.Time, n units.Bytes) bool {
	if g.shut {
		g.shutSum, g.boundSum = g.shutTime(now), g.boundTime(now)
	}
	fits := g.loop.driver.Fits(g.out, n)
	g.bound = fits && g.out > 0 && g.out+n > g.limit
	g.shut = !fits || g.bound
	if g.shut {
		g.shutFrom = now
		if !fits {
			g.loop.driver.Shut()
		}
	}
	return !g.shut
}

// shutTime is for how long the window or limit has held a segment back until now.
func (g *Group) shutTime(now units.Time) units.Time {
	if g.shut {
		return g.shutSum + max(now-g.shutFrom, 0)
	}
	return g.shutSum
}

// boundTime is the part of shutTime in which limit did.
func (g *Group) boundTime(now units.Time) units.Time {
	if g.bound {
		return g.boundSum + max(now-g.shutFrom, 0)
	}
	return g.boundSum
}

// see has the member's times count what comes from now on.
func (m *Member) see(now units.Time) {
	m.shutSeen, m.boundSeen = m.group.shutTime(now), m.group.boundTime(now)
}

// due claims the segment that the scheduler released, and what it lets go after that: QP.settle
// and what follows it in Core.Due, for a group. The scheduler holds the size of the segment
// that was first when it was filed.
func (g *Group) due(now, at units.Time) {
	g.filed = false
	m := g.first()
	n := units.Bytes(m.qp.next())
	if !g.fits(now, n) { // the window shrank, or this segment is longer than that one
		g.core.sched.Resize(g.flow, 0)
		return
	}
	g.core.sched.Resize(g.flow, n)
	m.leaves(now, n)
	g.release(now, at)
}

// release is QP.release for the members in line.
func (g *Group) release(now, at units.Time) {
	c := g.core
	if g.filed {
		return
	}
	for g.ready != 0 && c.nClaims < len(c.claims) {
		m := g.first()
		n := units.Bytes(m.qp.next())
		if !g.fits(now, n) {
			return
		}
		by, leaves := c.sched.OfferBy(at, now, g.flow, n)
		if !leaves {
			g.filed = true
			return
		}
		at = max(at, by)
		m.leaves(now, n)
	}
	g.file(at)
}

// leaves claims the member's next segment, of n bytes, and puts the member in line again if it
// has another: at the end if its turn is over.
func (m *Member) leaves(now units.Time, n units.Bytes) {
	q, g := m.qp, m.group
	q.settle(now)
	cost := max(n, leastCost)
	m.credit -= cost
	line := &g.lines[m.class]
	line.owed = max(line.owed-100*cost, 0)
	for lower := range m.class {
		if g.lines[lower].first != nil {
			g.lines[lower].owed += floor * cost
		}
	}
	q.claim(now)
	if _, why := q.ready(); why != HeldNone {
		m.quit()
		q.held(now, why)
		return
	}
	if m.credit <= 0 && line.last != m {
		m.unlink(line)
		m.append(line)
	}
}

// release is QP.release for a member.
func (m *Member) release(now, at units.Time) {
	if !m.qp.filed {
		m.look(now)
	}
	m.group.release(now, at)
}

// sends takes note that n bytes of a member leave.
func (g *Group) sends(n units.Bytes) {
	g.sent += n
	g.out += n
}

// left takes note that the queue pair had before bytes with the provider.
func (q *QP) left(before units.Bytes) {
	if q.member != nil {
		q.member.group.out -= before - q.table.Outstanding()
	}
}

// passOn lets others of the group have what the queue pair no longer uses.
func (q *QP) passOn(now units.Time) {
	if q.member != nil {
		q.member.group.file(now)
	}
}

// freshCNPs takes the number of notifications of the member so far, and returns how many of
// them are new to the engine: none soon after others that were.
func (m *Member) freshCNPs(total uint64) uint64 {
	g := m.group
	fresh := total - m.cnps
	m.cnps = total
	if fresh == 0 || g.loop.lastAck < g.nextCNP {
		return 0
	}
	g.nextCNP = g.loop.lastAck + cnpSpacing
	return fresh
}

func (g *Group) setBack(by units.Time) {
	g.shutSum, g.boundSum, g.shutFrom, g.nextCNP = 0, 0, g.shutFrom.SetBack(by), g.nextCNP.SetBack(by)
	g.loop.setBack(by)
}
