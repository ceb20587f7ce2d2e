package nicmodel

import "github.com/sluice-rdma/sluice/units"

// gauge watches a queue of the NIC: how many are in it, over time.
type gauge struct {
	n, most int
	in      uint64
	since   units.Time // of the last change
	area    int64      // picoseconds in the queue, summed over all that were

	watch func(now units.Time, n int) // see NIC.OnLevel; nil if not set
}

// add counts change pieces that arrived, or left if change is negative. Times must
// not decrease.
func (g *gauge) add(now units.Time, change int) {
	g.area += int64(g.n) * int64(now-g.since)
	g.since = now
	g.n += change
	if change > 0 {
		g.in += uint64(change)
		g.most = max(g.most, g.n)
	}
	if g.watch != nil && change != 0 {
		g.watch(now, g.n)
	}
}

// QueueUse is what a queue of a NIC held up to some instant. Its mean over a span is
// Area over the span. By Little's law the mean wait is Area over the number of
// arrivals, if what the queue holds at the ends of the span is negligible.
type QueueUse struct {
	Queue string
	Now   int    // in it at the instant
	Most  int    // in it at any time
	Came  uint64 // in all
	Area  int64  // picoseconds in the queue, summed over all that were or are in it
}

func (g *gauge) use(name string, now units.Time) QueueUse {
	return QueueUse{Queue: name, Now: g.n, Most: g.most, Came: g.in, Area: g.area + int64(g.n)*int64(now-g.since)}
}

// namedGauge is a queue of the NIC.
type namedGauge struct {
	name string
	*gauge
}

// gauges are all queues of the NIC, in the order in which work passes them.
func (n *NIC) gauges() []namedGauge {
	all := []namedGauge{{"wqe", &n.elements.queued}, {"requests", &n.transport.requests}, {"queue pairs", &n.transport.active}, {"transmit", &n.mac.queued}, {"receive", &n.receiver.queued}, {"no receive", &n.receives.parked}, {"completions", &n.completions.unpolled}}
	if p := n.offload.processors; p != nil {
		all = append(all, namedGauge{"engine events", &p.queued})
	}
	return all
}

// Queues reports what the NIC's queues held until now, in the order in which work
// passes them:
//
//   - wqe: requests whose doorbell has been rung and that the transport does not have yet;
//   - requests: those that it has and that are not over;
//   - queue pairs: those with such requests;
//   - transmit: packets between scheduler and wire, acknowledgements apart;
//   - receive: packets that have arrived and that the transport has not handled;
//   - no receive: packets that wait for their receive to be fetched, and those behind them;
//   - completions: those that the transport has produced and that the host has not polled;
//   - engine events: those that wait for a processor or are handled, where there are processors.
func (n *NIC) Queues(now units.Time) []QueueUse {
	var all []QueueUse
	for _, g := range n.gauges() {
		all = append(all, g.use(g.name, now))
	}
	return all
}

// OnLevel calls f with a queue's length whenever that changes; queue is its index in
// the result of Queues. nil ends the calls.
func (n *NIC) OnLevel(f func(queue int, now units.Time, level int)) {
	for i, g := range n.gauges() {
		g.watch = nil
		if f != nil {
			g.watch = func(now units.Time, level int) { f(i, now, level) }
		}
	}
}

// Since returns the use of a queue since an earlier value; Most covers the whole
// time.
func (u QueueUse) Since(before QueueUse) QueueUse {
	u.Came -= before.Came
	u.Area -= before.Area
	return u
}
