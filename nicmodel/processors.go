package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// engineEvent is a processor's unit of work.
type engineEvent struct {
	kind   engineEventKind
	resets uint8 // of the queue pair
	qpn    uint32
	size   units.Bytes // that the newest READ asks for
	ack    cc.Ack
	report Report
}

type engineEventKind uint8

const (
	eventAck engineEventKind = iota
	eventRead
	eventCNP
)

// merged is acknowledgements that found the queue full.
type merged struct {
	bytes    units.Bytes
	packets  int32
	ecn, ein bool
}

// take adds what was merged to the acknowledgement that comes next.
func (m *merged) take(a *cc.Ack) {
	a.Bytes += m.bytes
	a.Packets += m.packets
	a.ECN, a.EIN = a.ECN || m.ecn, a.EIN || m.ein
	*m = merged{}
}

func (m *merged) add(a *cc.Ack) {
	m.bytes += a.Bytes
	m.packets += a.Packets
	m.ecn, m.ein = m.ecn || a.ECN, m.ein || a.EIN
}

// processors are those of the engines. Events are in pending from their arrival to their
// end, and wait in the order of arrival.
type processors struct {
	*chip.Chip
	taken   stage.Inflight // until when each is
	pending []engineEvent
	idle    []uint32
	queued  stage.Gauge // events that wait or are handled
	busy    units.Time
	waited  units.Time
	served  uint64
	merged  uint64
	dropped uint64
	watch   func(begin, end units.Time, why stage.Stall)
}

func newProcessors(on *chip.Chip) *processors {
	c := &on.Config.Offload
	if c.Processors == 0 {
		return nil
	}
	p := &processors{Chip: on, taken: stage.NewInflight(c.Processors), pending: make([]engineEvent, c.Processors+c.Queue)}
	for i := range p.pending {
		p.idle = append(p.idle, uint32(i))
	}
	return p
}

func (p *processors) SetWatch(f func(begin, end units.Time, why stage.Stall)) { p.watch = f }

// Account reports where the picoseconds of all processors until now went.
func (p *processors) Account(now units.Time) stage.Account {
	return p.taken.Account(now, "processors", stage.Picoseconds, p.served, int64(p.busy))
}

// add gives a processor an event, and returns the event for the caller to fill in, or nil
// if the queue is full.
func (p *processors) add(now units.Time) *engineEvent {
	k := len(p.idle)
	if k == 0 {
		return nil
	}
	i := p.idle[k-1]
	p.idle = p.idle[:k-1]
	begin := p.taken.Free(now)
	end := begin + p.Config.Offload.Cost
	p.taken.Hold(end)
	p.busy += p.Config.Offload.Cost
	p.waited += begin - now
	p.served++
	if p.watch != nil {
		p.watch(begin, end, stage.StallNone)
	}
	p.queued.Add(now, 1)
	p.Schedule(end, chip.EvEngine, uint64(i))
	return &p.pending[i]
}

// submit passes an event to the engine of a queue pair: at once, or by a processor. The
// acknowledgement of eventAck and eventRead is in o.ack.
func (o *offload) submit(now units.Time, q *qp, kind engineEventKind) {
	s := &q.steering
	size := units.Bytes(0)
	if kind == eventRead {
		s, size = &q.pull.steering, q.pull.size
	}
	p := o.processors
	if p == nil {
		o.perform(now, q, s, kind, &o.ack, &q.report, size)
		return
	}
	ev := p.add(now)
	switch {
	case ev == nil && kind == eventCNP:
		p.dropped++
	case ev == nil:
		p.merged++
		s.merged.add(&o.ack)
	default:
		ev.kind, ev.resets, ev.qpn, ev.size = kind, q.resets, q.num, size
		if kind != eventCNP {
			ev.ack, ev.report = o.ack, q.report
			s.merged.take(&ev.ack)
		}
	}
}

// finish handles the end of an event at a processor.
func (o *offload) finish(now units.Time, i uint32) {
	p := o.processors
	ev := &p.pending[i]
	p.idle = append(p.idle, i)
	p.queued.Add(now, -1)
	q := o.pairs.find(ev.qpn)
	if q == nil || q.rc == nil || q.resets != ev.resets || !q.hasFlow {
		return // destroyed or reset meanwhile
	}
	s := &q.steering
	if ev.kind == eventRead {
		if q.pull == nil {
			return
		}
		s = &q.pull.steering
	}
	if s.Engine() == nil {
		return
	}
	ev.ack.Now = now
	o.perform(now, q, s, ev.kind, &ev.ack, &ev.report, ev.size)
	o.scheduler.file(now, q)
	o.scheduler.choose(now)
}

// perform has the engine handle an event, and applies what it says.
func (o *offload) perform(now units.Time, q *qp, s *steering, kind engineEventKind, a *cc.Ack, r *Report, size units.Bytes) {
	if kind == eventCNP {
		o.steer(q, s, s.Engine().OnCNP(now))
		return
	}
	c := o.inform(q, s, a, r)
	if kind == eventRead {
		if r.ECN && q.cong.CNPInterval > 0 && now >= q.cnpAfter {
			// Notification and reaction point are one.
			q.cnpAfter = now + q.cong.CNPInterval
			c = s.Engine().OnCNP(now)
		}
		if size > c.Window {
			c.Rate = max(min(c.Rate, units.RateOf(c.Window, now-a.SentAt)), 1)
		}
	}
	o.steer(q, s, c)
}

// EngineEvents counts what the processors of the engines did: events handled, and of those
// that found the queue full, merged and dropped ones. It is zero without processors.
type EngineEvents struct{ Handled, Merged, Dropped uint64 }

// engineEvents returns those counts.
func (o *offload) engineEvents() EngineEvents {
	p := o.processors
	if p == nil {
		return EngineEvents{}
	}
	return EngineEvents{p.served, p.merged, p.dropped}
}

// waitsUntil reports how long events have waited.
func (p *processors) waitsUntil(units.Time) []stage.Wait {
	return []stage.Wait{{Where: "processors", For: "a processor", Total: p.waited}}
}
