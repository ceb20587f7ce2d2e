package nicmodel

import (
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// accounted are all such parts of the NIC.
func (n *NIC) accounted() []stage.Accounted {
	all := []stage.Accounted{
		&n.doorbell.Stage, &n.elements.Stage, stage.Awaited{Stage: &n.scheduler.Stage, Waits: n.scheduler.waits}, &n.packetiser.Stage,
		&n.mac.Stage, &n.receiver.parse, &n.receiver.transport, &n.completions.Stage,
	}
	if u := n.receiver.units; u != nil {
		all = append(all, u)
	}
	if n.atomics.InFlight > 0 {
		all = append(all, &n.atomics)
	}
	if p := n.offload.processors; p != nil {
		all = append(all, p)
	}
	return append(all, n.chip.Link.Directions()...)
}

// Accounts reports where each stage's cycles went until now. Processing units have
// one account for all units. The atomics unit, for all operations that it can have
// under way, the processors of the engines, and the two directions of PCIe count picoseconds.
func (n *NIC) Accounts(now units.Time) []stage.Account {
	var all []stage.Account
	for _, a := range n.accounted() {
		all = append(all, a.Account(now))
	}
	return all
}

// OnWork calls f with every span of time in which a part of the NIC is at work, or
// stalled for the reason why, which is StallNone for work. stage is its index in the
// result of Accounts. f is called as soon as the span is known: work may lie in the
// future, and a stall is reported when it is over. Spans of one stage do not overlap;
// units have one span at a time each. Each account that Accounts returns is the sum of
// its spans. What a second port shares with the first one calls the first one's f only. nil ends the calls.
func (n *NIC) OnWork(f func(stage int, begin, end units.Time, why stage.Stall)) {
	for i, a := range n.accounted() {
		if n.first != nil && n.first.has(a) {
			continue
		}
		if f == nil {
			a.SetWatch(nil)
			continue
		}
		a.SetWatch(func(begin, end units.Time, why stage.Stall) { f(i, begin, end, why) })
	}
}

// has reports whether a part is one of those that ports share, and the NIC's.
func (n *NIC) has(a stage.Accounted) bool {
	return a == stage.Accounted(n.receiver.units) || slices.Contains(n.chip.Link.Directions(), a)
}

// OpenStalls calls f as OnWork does with the stalls that are not over now.
func (n *NIC) OpenStalls(now units.Time, f func(stage int, begin, end units.Time, why stage.Stall)) {
	for i, a := range n.accounted() {
		w, ok := a.(stage.Awaited)
		if !ok {
			continue
		}
		if since, why := w.Waits(); since < now {
			begin, end := max(w.FreeAt(), w.Clock.Begin(w.Clock.CycleAfter(since))), w.Clock.Begin(w.Clock.CycleAfter(now))
			if begin < end {
				f(i, begin, end, why)
			}
		}
	}
}

// Waits reports such waits until now, in the order in which work meets them, for
// the parts that the NIC has.
func (n *NIC) Waits(now units.Time) []stage.Wait {
	all := n.scheduler.holdWaits(now)
	if n.chip.Config.SendTime.Tick > 0 {
		all = append(all, stage.Wait{Where: "wqe", For: "their send time", Total: n.elements.waitedFor(now)})
	}
	if u := n.receiver.units; u != nil {
		all = append(all, stage.Wait{Where: "units", For: "a unit", Total: u.waits.Units, Taken: true}, stage.Wait{Where: "units", For: "the packet before of the queue pair", Total: u.waits.Queue})
	}
	if n.chip.Config.Receives.Prefetch > 0 {
		all = append(all, stage.Wait{Where: "receives", For: "a receive over PCIe", Total: n.receives.waited})
	}
	if n.atomics.InFlight > 0 {
		all = append(all, stage.Wait{Where: "atomics", For: "room in the unit", Total: n.atomics.waits.Unit, Taken: true}, stage.Wait{Where: "atomics", For: "the lock of the address", Total: n.atomics.waits.Lock, Taken: true})
	}
	if p := n.offload.processors; p != nil {
		all = append(all, stage.Wait{Where: "processors", For: "a processor", Total: p.waited})
	}
	if n.chip.Config.State.Bytes > 0 {
		all = append(all, n.state.Waits()...)
	}
	return append(all, n.chip.Link.Waits()...)
}

// Caches reports the use until now of the caches that the NIC has. The memory on the
// chip is not looked up, and so counts nothing, as long as all that there is fits.
func (n *NIC) Caches() []stage.CacheUse {
	var all []stage.CacheUse
	if n.chip.Config.State.Bytes > 0 {
		all = append(all, n.state.CacheUse()...)
	}
	return append(all, n.chip.Link.Caches()...)
}

// namedGauge is a queue of the NIC.
type namedGauge struct {
	name string
	*stage.Gauge
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
func (n *NIC) Queues(now units.Time) []stage.QueueUse {
	var all []stage.QueueUse
	for _, g := range n.gauges() {
		all = append(all, g.Use(g.name, now))
	}
	return all
}

// OnLevel calls f with a queue's length whenever that changes; queue is its index in
// the result of Queues. nil ends the calls.
func (n *NIC) OnLevel(f func(queue int, now units.Time, level int)) {
	for i, g := range n.gauges() {
		if f == nil {
			g.SetWatch(nil)
			continue
		}
		g.SetWatch(func(now units.Time, level int) { f(i, now, level) })
	}
}

// PCIeBytes reports the bytes that crossed the link to the host and from it, by
// purpose.
func (n *NIC) PCIeBytes() (toHost, fromHost map[string]units.Bytes) {
	return n.chip.Link.Crossed(pcie.Upstream), n.chip.Link.Crossed(pcie.Downstream)
}

// RegisterRequest is a processor's read of a register at begin: it returns when
// that reaches the NIC. The call's time is now, no later than begin.
func (n *NIC) RegisterRequest(now, begin units.Time) units.Time {
	return n.chip.Link.RequestRegister(now, begin)
}

// RegisterAnswer returns when the processor has the register's value that the NIC reads
// at begin. The call's time is now, no later than begin.
func (n *NIC) RegisterAnswer(now, begin units.Time) units.Time {
	return n.chip.Link.AnswerRegister(now, begin)
}

// OnSpan calls f with every span as soon as its end is known, which may lie in the
// future; nil ends the calls. The span is valid during the call. f must not change
// the NIC.
func (n *NIC) OnSpan(f func(*chip.Span)) { n.chip.Spans.Report = f }
