package storm

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// observer stands on the wire between soft devices, and holds what the ends of connections
// send against the rules of docs/storm.md, of which each failure names one. It knows what was
// sent, what has arrived, and which packets are forged.
type observer struct {
	run   *run
	flows map[flowKey]*flow // by who is asked
	asks  map[flowKey]*flow // by who asks, and gets the answers
	// misfits are packets on their way that do not fit what they stand for.
	misfits map[string]bool
	traffic []traffic // by host
	twins
}

// traffic is what a host's device has sent and got.
type traffic struct{ sentPackets, sentBytes, gotPackets, gotBytes uint64 }

// flowKey is a queue pair of a host.
type flowKey struct {
	host int
	qpn  uint32
}

// flow is the requests of one end of a connection. Packet numbers are counted from its first.
type flow struct {
	end     *end
	asks    flowKey
	asked   flowKey
	base    units.PSN // of the first packet
	began   bool      // that was sent
	mtu     int32
	timeout units.Time
	reads   int // the most that may be out

	next     int32                // one behind the last number sent
	una      int32                // the oldest not known, by the requester, to have arrived
	sentAt   map[int32]units.Time // of each number from una on, its last sending
	progress units.Time           // the requester last learned that something arrived
	quiet    units.Time           // anything last left, or came for the requester
	cause    bool                 // since then, something told the requester to go back
	rnr      int32                // the number that found nobody ready, if now < rnrUntil
	rnrUntil units.Time
	waits    bool       // nothing has left since
	owed     units.Time // a NAK asked for the oldest packet then; 0 for none
	again    bool       // the oldest was sent again by a NAK, and nothing has arrived since
	late     bool       // the last that told it to go back was an RNR NAK
	out      []span     // READs and atomics under way

	expected int32           // the next number that the responder can take
	arrived  map[int32]int32 // what came before its turn: numbers that each takes
	paused   bool            // the send queue drains
	ended    bool
}

// span is the packet numbers of a READ or atomic.
type span struct{ first, end int32 }

func newObserver(r *run) *observer {
	return &observer{run: r, flows: map[flowKey]*flow{}, asks: map[flowKey]*flow{}, misfits: map[string]bool{}, traffic: make([]traffic, r.cfg.Processes), twins: newTwins(r.cfg.Processes)}
}

// begin is called when an end's queue pair is connected.
func (o *observer) begin(e *end) {
	if o == nil || e.link.other(e.side) == nil {
		return
	}
	other := e.link.id.client + e.link.id.server - e.p.ID
	w := drawWeather(o.run.cfg.Seed)
	f := &flow{
		end: e, asks: flowKey{e.p.ID, e.hello.qpn}, asked: flowKey{other, e.link.other(e.side).hello.qpn},
		mtu: int32(w.mtu), timeout: rc.TimeoutTime(w.timeout), reads: int(w.rdAtomic),
		sentAt: map[int32]units.Time{}, arrived: map[int32]int32{}, quiet: o.run.engine.Now(),
	}
	o.flows[f.asked], o.asks[f.asks] = f, f
}

// finish is called when the end's queue pair is in error or gone.
func (o *observer) finish(e *end) {
	if o == nil {
		return
	}
	if f := o.asks[flowKey{e.p.ID, e.hello.qpn}]; f != nil && f.end == e {
		f.ended = true
	}
}

// pause is called when the end's send queue drains, and when it goes on.
func (o *observer) pause(e *end, on bool) {
	if o == nil {
		return
	}
	// The shim goes on with what has begun by requests of its own.
	if f := o.asks[flowKey{e.p.ID, e.hello.qpn}]; f != nil && f.end == e && o.run.cfg.Shim == "" {
		f.paused = on
	}
}

// begins reports whether a packet is the first of a request.
func begins(op ib.Opcode) bool {
	switch op {
	case ib.SendMiddle, ib.SendLast, ib.SendLastImm, ib.SendLastInv, ib.WriteMiddle, ib.WriteLast, ib.WriteLastImm:
		return false
	}
	return true
}

// knows reports whether a queue pair of a host is one of a connection.
func (o *observer) knows(host int, qpn uint32) bool {
	k := flowKey{host, qpn}
	return o.flows[k] != nil || o.asks[k] != nil
}

// ahead is a number that a requester has nothing to do with.
func (o *observer) ahead(host int, qpn uint32) units.PSN {
	if f := o.asks[flowKey{host, qpn}]; f != nil {
		return f.base.Add(f.next + far)
	}
	return far
}

// tamper notes that what does not fit comes to a queue pair, as a responder or a requester, by
// which its connection may fail. It reports whether it has one.
func (o *observer) tamper(of map[flowKey]*flow, host int, qpn uint32) bool {
	f := of[flowKey{host, qpn}]
	if f == nil || f.ended {
		return false
	}
	other := f.end.link.other(f.end.side)
	if other == nil || other.isOver {
		return false
	}
	f.end.tampered, other.tampered = true, true
	return true
}

// broken makes the run fail by a rule.
func (o *observer) broken(rule int, f *flow, format string, args ...any) {
	if f.ended {
		return
	}
	o.run.failf("rule %d: connection %v, queue pair %#x: "+format, append([]any{rule, f.end.link.id, f.asks.qpn}, args...)...)
}

// asksFor reports whether an operation asks for something.
func asksFor(op ib.Opcode) bool {
	return op <= ib.ReadRequest || op == ib.CompareSwap || op == ib.FetchAdd || op == ib.SendLastInv || op == ib.SendOnlyInv
}

// numbers is how many packet numbers a request takes.
func (f *flow) numbers(h *roce.Packet) int32 {
	if h.Opcode.Operation() != ib.ReadRequest {
		return 1
	}
	return max(1, (int32(h.DMALen)+f.mtu-1)/f.mtu)
}

// sent looks at a packet that leaves.
func (o *observer) sent(now units.Time, from, to int, p []byte) {
	o.traffic[from].sentPackets++
	o.traffic[from].sentBytes += uint64(len(p))
	var h roce.Packet
	if _, err := h.DecodeHeaders(p); err != nil || h.Opcode.Service() != ib.ServiceRC {
		return
	}
	k := flowKey{to, h.DestQP}
	op := h.Opcode.Operation()
	if asksFor(op) {
		if f := o.flows[k]; f != nil && f.asks.host == from {
			o.requested(now, f, &h)
		}
		return
	}
	if f := o.asks[k]; f != nil && f.asked.host == from && (op == ib.Acknowledge || op == ib.AtomicAcknowledge || op >= ib.ReadResponseFirst && op <= ib.ReadResponseOnly) {
		o.answered(f, &h)
	}
}

// promptly is how long after a NAK a requester may begin to send again: its packets wait for
// those of others.
const promptly = 100 * units.Microsecond

// requested holds a packet of a requester against rules 1 to 4 and 9.
func (o *observer) requested(now units.Time, f *flow, h *roce.Packet) {
	if !f.began {
		f.began, f.base = true, h.PSN
	}
	at, n := h.PSN.Sub(f.base), f.numbers(h)
	told := false // to go back: then the timer may run on
	switch {
	case now < f.rnrUntil && at >= f.rnr && f.una <= f.rnr:
		o.broken(2, f, "packet %d leaves %v before the time is over that an RNR NAK asked for", at, f.rnrUntil-now)
	case at > f.next:
		o.broken(1, f, "packet %d leaves after packet %d", at, f.next-1)
	case at < f.next && at == f.una:
		since := now - max(f.sentAt[at], f.progress)
		if !f.cause && since < f.timeout {
			o.broken(3, f, "packet %d leaves again after %v, without a cause before the timeout of %v", at, since, f.timeout)
		}
		told = f.cause
		f.cause, f.again = false, told && !f.late
		if f.owed > 0 && now-max(f.owed, f.rnrUntil) > promptly {
			o.broken(9, f, "packet %d leaves again %v after a NAK asked for it", at, now-f.owed)
		}
		f.owed = 0
	}
	if quiet := now - max(f.quiet, f.rnrUntil); f.una < f.next && at < f.next && quiet > 4*f.timeout+units.Microsecond {
		o.broken(3, f, "packet %d leaves again after %v without a sign of the peer, the timeout is %v", at, quiet, f.timeout)
	}
	f.quiet, f.waits = now, false
	if f.paused && at >= f.next && begins(h.Opcode.Operation()) {
		o.broken(10, f, "request %d, a %v, begins while the send queue drains", at, h.Opcode)
	}
	if op := h.Opcode.Operation(); at == f.next && (op == ib.ReadRequest || op == ib.CompareSwap || op == ib.FetchAdd) {
		if f.out = append(f.out, span{at, at + n}); len(f.out) > f.reads {
			o.broken(4, f, "%d READs and atomics are under way, of %d that the peer takes", len(f.out), f.reads)
		}
	}
	if at >= f.una && !told {
		f.sentAt[at] = now
	}
	f.next = max(f.next, at+n)
}

// answered holds a packet of a responder against rules 5 and 6.
func (o *observer) answered(f *flow, h *roce.Packet) {
	at := h.PSN.Sub(f.base)
	if at > f.next {
		return // of the queue pair's last connection
	}
	good := h.Opcode.Operation() != ib.Acknowledge || h.Syndrome&0xe0 == 0
	if good && at >= f.expected || at > f.expected {
		o.broken(5, f, "the peer answers packet %d with %v, syndrome %#x, and packets up to %d have arrived in order", at, h.Opcode, h.Syndrome, f.expected-1)
	}
}

// delivered looks at a packet before its device gets it.
func (o *observer) delivered(now units.Time, from, to int, p []byte) {
	o.traffic[to].gotPackets++
	o.traffic[to].gotBytes += uint64(len(p))
	var h roce.Packet
	n, err := h.DecodeHeaders(p)
	if err != nil || h.Opcode.Service() != ib.ServiceRC || h.PKey != 0xffff {
		return
	}
	k := flowKey{to, h.DestQP}
	if len(o.misfits) > 0 && o.misfits[string(p)] {
		delete(o.misfits, string(p))
		return
	}
	if asksFor(h.Opcode.Operation()) {
		if f := o.flows[k]; f != nil && f.asks.host == from {
			f.arrive(&h)
		}
		return
	}
	if f := o.asks[k]; f != nil && f.asked.host == from {
		f.learn(now, &h, len(p)-n-roce.ICRCBytes-int(h.Pad))
	}
}

// arrive is what the responder gets.
func (f *flow) arrive(h *roce.Packet) {
	at := h.PSN.Sub(f.base)
	if at < f.expected || at >= f.next {
		return
	}
	f.arrived[at] = max(f.arrived[at], f.numbers(h))
	for n := f.arrived[f.expected]; n > 0; n = f.arrived[f.expected] {
		delete(f.arrived, f.expected)
		f.expected += n
	}
}

// learn is what the requester gets.
func (f *flow) learn(now units.Time, h *roce.Packet, payload int) {
	at := h.PSN.Sub(f.base)
	if at < f.una || at >= f.next {
		f.cause = f.cause || at >= f.una-1 && at < f.next
		return // of before, or of nothing
	}
	f.quiet = now
	op := h.Opcode.Operation()
	upTo := at + 1
	switch {
	case op == ib.Acknowledge && h.Syndrome&0xe0 != 0:
		// One that comes while the requester recovers, or waits, is the same once more.
		f.late = false
		if h.Syndrome == rc.SyndromeSequence && !f.again && !f.waits && !f.cause && at == f.una && len(f.out) == 0 && now >= f.rnrUntil {
			f.owed = now
		}
		f.cause = true
		upTo = at
		if h.Syndrome&0xe0 == 0x20 && !f.waits && (len(f.out) == 0 || f.out[0].first >= at) {
			f.rnr, f.rnrUntil, f.waits = at, now+rc.RNRTime(h.Syndrome&0x1f), true
			f.again, f.owed, f.late = false, 0, true
		}
	case op == ib.Acknowledge:
	case len(f.out) > 0 && f.out[0].first <= at && (at == f.una || at == f.out[0].first && f.una < at):
	default:
		f.cause = true // an answer is missing before it
		return
	}
	if op == ib.Acknowledge && len(f.out) > 0 && upTo > f.out[0].first {
		// It does not cover READs and atomics, whose answers it stands behind.
		upTo, f.cause = f.out[0].first, true
	}
	if upTo <= f.una {
		return
	}
	for ; f.una < upTo; f.una++ {
		delete(f.sentAt, f.una)
	}
	f.progress, f.again, f.owed = now, false, 0
	for len(f.out) > 0 && f.out[0].end <= f.una {
		f.out = f.out[1:]
	}
}

// stuck says what is wrong with a connection that has not moved for long, if its requester is to
// blame: what it sent was not answered, and it neither sends again nor gives up.
func (o *observer) stuck(e *end) {
	if o == nil {
		return
	}
	f := o.asks[flowKey{e.p.ID, e.hello.qpn}]
	if f == nil || f.end != e || f.ended || f.una >= f.next {
		return
	}
	if quiet := e.p.Now() - max(f.quiet, f.rnrUntil); quiet > 4*f.timeout+units.Millisecond {
		o.broken(3, f, "packet %d is not answered, and nothing is sent for %v, the timeout is %v", f.una, quiet, f.timeout)
	}
}

// counted holds what devices count against what went over the wire.
func (o *observer) counted() {
	if o == nil {
		return
	}
	for host, d := range o.run.devices {
		c, ok := d.(interface{ Counters() map[string]uint64 })
		if !ok {
			continue
		}
		got, w := c.Counters(), o.traffic[host]
		for name, want := range o.twinCounts(host) {
			if got[name] != want {
				o.run.failf("rule 14: process %d's device counts %d %s, and there were %d", host, got[name], name, want)
			}
		}
		for name, want := range map[string]uint64{"sent_pkts": w.sentPackets, "sent_bytes": w.sentBytes, "rcvd_pkts": w.gotPackets, "rcvd_bytes": w.gotBytes} {
			if got[name] != want {
				o.run.failf("rule 8: process %d's device counts %d %s, and the wire %d", host, got[name], name, want)
			}
		}
	}
}
