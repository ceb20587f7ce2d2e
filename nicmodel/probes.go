package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// probes observe a NIC at work. Its exported methods are the NIC's. Each part says what there is of it, as the NIC
// is made.
type probes struct {
	chip      *chip.Chip
	accounted []stage.Accounted
	others    map[int]bool // indices of accounted that belong to another port
	gauges    []namedGauge
	receiving *stage.Gauge // of gauges, the one of packets received
	waiters   []func(now units.Time) []stage.Wait
	caches    []func() []stage.CacheUse
	counters  []func(s *Stats)
	offload   *offload
	scheduler *scheduler
	active    *stage.Gauge // queue pairs with requests
}

// namedGauge is a queue of the NIC.
type namedGauge struct {
	name string
	*stage.Gauge
}

// account adds parts whose cycles are accounted for; others says that they are another port's.
func (p *probes) account(others bool, parts ...stage.Accounted) {
	for _, a := range parts {
		if others {
			p.others[len(p.accounted)] = true
		}
		p.accounted = append(p.accounted, a)
	}
}

// watch has the probes see all of a NIC, in the order in which work passes its parts.
func (p *probes) watch(n *NIC) {
	p.chip, p.others = &n.chip, map[int]bool{}
	second := n.first != nil
	p.account(false, &n.doorbell.Stage, &n.elements.Stage, stage.Awaited{Stage: &n.scheduler.Stage, Waits: n.scheduler.waits},
		&n.packetiser.Stage, &n.mac.Stage, &n.receiver.parse, &n.receiver.transport, &n.completions.Stage)
	p.gauges = []namedGauge{
		{"wqe", &n.elements.queued}, {"requests", &n.transport.requests}, {"queue pairs", &n.transport.active}, {"transmit", &n.mac.queued},
		{"receive", &n.receiver.queued}, {"no receive", &n.receives.parked}, {"completions", &n.unpolled},
	}
	p.receiving = &n.receiver.queued
	p.waiters = append(p.waiters, n.scheduler.holdWaits, n.elements.waitsUntil)
	if u := n.receiver.units; u != nil {
		p.account(second, u)
		p.waiters = append(p.waiters, u.waitsUntil)
	}
	p.waiters = append(p.waiters, n.receives.waitsUntil)
	if n.atomics.InFlight > 0 {
		p.account(false, &n.atomics)
		p.waiters = append(p.waiters, n.atomics.waitsUntil)
	}
	if e := n.offload.processors; e != nil {
		p.account(false, e)
		p.waiters = append(p.waiters, e.waitsUntil)
		p.gauges = append(p.gauges, namedGauge{"engine events", &e.queued})
	}
	p.account(second, n.chip.Link.Directions()...)
	if n.chip.Config.State.Bytes > 0 {
		p.waiters = append(p.waiters, func(units.Time) []stage.Wait { return n.state.Waits() })
		p.caches = append(p.caches, n.state.CacheUse)
	}
	p.waiters = append(p.waiters, func(units.Time) []stage.Wait { return n.chip.Link.Waits() })
	p.caches = append(p.caches, n.chip.Link.Caches)
	p.offload, p.scheduler, p.active = &n.offload, &n.scheduler, &n.transport.active
	p.counters = []func(*Stats){n.mac.count, n.transport.count, n.elements.count, n.receiver.buffer.count}
}

// Waits reports the waits until now for which no stage stalled, in the order in which work meets them, for
// the parts that the NIC has.
func (p *probes) Waits(now units.Time) (all []Wait) {
	for _, waits := range p.waiters {
		all = append(all, waits(now)...)
	}
	return all
}

// Caches reports the use until now of the caches that the NIC has. The memory on the
// chip is not looked up, and so counts nothing, as long as all that there is fits.
func (p *probes) Caches() (all []CacheUse) {
	for _, caches := range p.caches {
		all = append(all, caches()...)
	}
	return all
}

// Stats counts what a NIC did.
type Stats struct {
	TxPackets, RxPackets uint64
	TxPayload            units.Bytes // payload sent, retransmissions included
	RxPayload            units.Bytes // payload that arrived for a queue pair
	Requests             uint64      // work queue elements that the transport was given
	BufferDrops          uint64      // packets for which the receive buffer had no room (rx_discards_phy)
	BufferMarks          uint64      // packets that it marked
	BufferMost           units.Bytes // the most that it held at a time
	PausesSent           uint64      // times that it paused the network (tx_pause_ctrl_phy)
	NoQP                 uint64      // packets for a queue pair that does not exist
	BadQKey              uint64      // datagrams with another Q_Key than the queue pair's
	Stale                uint64      // packets built but not sent, since the queue pair went back
}

// Stats returns the counters.
func (p *probes) Stats() (s Stats) {
	for _, count := range p.counters {
		count(&s)
	}
	return s
}

// Accounts reports where each stage's cycles went until now. Processing units have
// one account for all units. The atomics unit, for all operations that it can have
// under way, the processors of the engines, and the two directions of PCIe count picoseconds.
func (p *probes) Accounts(now units.Time) []Account {
	var all []Account
	for _, a := range p.accounted {
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
func (p *probes) OnWork(f func(stage int, begin, end units.Time, why Stall)) {
	for i, a := range p.accounted {
		if p.others[i] {
			continue
		}
		if f == nil {
			a.SetWatch(nil)
			continue
		}
		a.SetWatch(func(begin, end units.Time, why Stall) { f(i, begin, end, why) })
	}
}

// OpenStalls calls f as OnWork does with the stalls that are not over now.
func (p *probes) OpenStalls(now units.Time, f func(stage int, begin, end units.Time, why Stall)) {
	for i, a := range p.accounted {
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

// Queues reports what the NIC's queues held until now, in the order in which work
// passes them:
//
//   - wqe: requests whose doorbell has been rung and that the transport does not have yet;
//   - requests: requests that it has and that are not over;
//   - queue pairs: those with such requests;
//   - transmit: packets between scheduler and wire, acknowledgements apart;
//   - receive: packets that have arrived and that the transport has not handled;
//   - no receive: packets that wait for their receive to be fetched, and those behind them;
//   - completions: produced by the transport and not polled by the host;
//   - engine events: waiting for a processor or being handled, where there are processors.
func (p *probes) Queues(now units.Time) []QueueUse {
	var all []QueueUse
	for _, g := range p.gauges {
		all = append(all, g.Use(g.name, now))
	}
	return all
}

// OnLevel calls f with a queue's length whenever that changes; queue is its index in
// the result of Queues. nil ends the calls.
func (p *probes) OnLevel(f func(queue int, now units.Time, level int)) {
	for i, g := range p.gauges {
		if f == nil {
			g.SetWatch(nil)
			continue
		}
		g.SetWatch(func(now units.Time, level int) { f(i, now, level) })
	}
}

// PCIeBytes reports the bytes that crossed the link to the host and from it, by
// purpose.
func (p *probes) PCIeBytes() (toHost, fromHost map[string]units.Bytes) {
	return p.chip.Link.Crossed(pcie.Upstream), p.chip.Link.Crossed(pcie.Downstream)
}

// RegisterRequest is a processor's read of a register at begin: it returns when
// that reaches the NIC. The call's time is now, no later than begin.
func (p *probes) RegisterRequest(now, begin units.Time) units.Time {
	return p.chip.Link.RequestRegister(now, begin)
}

// RegisterAnswer returns when the processor has the register's value that the NIC reads
// at begin. The call's time is now, no later than begin.
func (p *probes) RegisterAnswer(now, begin units.Time) units.Time {
	return p.chip.Link.AnswerRegister(now, begin)
}

// OnSpan calls f with every span as soon as its end is known, which may lie in the
// future; nil ends the calls. The span is valid during the call. f must not change
// the NIC.
func (p *probes) OnSpan(f func(*Span)) { p.chip.Spans.Report = f }

// Receiving is the number of packets that have arrived and that the transport has not handled yet.
func (p *probes) Receiving() int { return p.receiving.N }

// OnAck calls f with each acknowledgement that an engine inside the NIC is given,
// before the engine: for measurement. a is valid during the call.
func (p *probes) OnAck(f func(qpn uint32, a *cc.Ack)) { p.offload.onAck = f }

// EngineEvents counts what the processors of the engines did.
func (p *probes) EngineEvents() EngineEvents { return p.offload.engineEvents() }

// Steered reports what the engines inside the NIC did until now. A rate limit that was
// set counts as theirs.
func (p *probes) Steered(now units.Time) Steered {
	sums := p.scheduler.holdSums(now)
	return Steered{Cuts: p.offload.cuts, Rate: sums[holdPace], Window: sums[holdWindow], Active: units.Time(p.active.Use("", now).Area)}
}
