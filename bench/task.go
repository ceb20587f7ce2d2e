package bench

import (
	"fmt"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
)

// Tasks are Traffic's work on its connections. They count as flows do: started,
// ended, under way, and the time from when one should have started to its end. The
// connections count the bytes that they carry.

func (m *measurement) taskBegun(t *workload.Task, now units.Time) {
	m.groupsOf(t.Label, t.Class, func(l *label) {
		l.running++
		if t.Start >= m.warmup {
			l.started++
		}
	})
	m.begins(t.Label, t.Class, now)
}

func (m *measurement) taskEnded(t *workload.Task, now units.Time) {
	m.groupsOf(t.Label, t.Class, func(l *label) { l.running-- })
	m.ends(t.Label, t.Class, now)
	fct, ideal := now-t.Start, units.Time(0)
	switch {
	case t.Single:
		ideal = m.sim.idealFCT(&workload.Flow{Src: t.Src, Dst: t.Dst, Size: t.Size, Operation: t.Operation})
	case t.Answered:
		ideal = m.sim.idealAnswer(t)
	}
	if m.log != nil {
		if err := m.log.task(m, t, fct, ideal); err != nil {
			m.sim.fail(fmt.Errorf("flow log: %w", err))
		}
	}
	if t.Start < m.warmup {
		return
	}
	m.completed(t.Label, t.Class, t.Size, fct, ideal)
	if t.Collective > 0 {
		m.groupsOf(t.Label, t.Class, func(l *label) {
			l.together.took += fct
			l.together.alg += float64(t.Collective)
			l.together.bus += float64(float64(t.Collective) * t.BusFactor)
		})
	}
}

// task writes the record of a task that has ended: its Flow is -1, and what was
// measured of packets is in the records of the connections.
func (l *flowLog) task(m *measurement, t *workload.Task, fct, ideal units.Time) error {
	l.fct = fct.Microseconds()
	r := &l.record
	*r = results.FlowRecord{
		Scenario: r.Scenario, System: r.System, Flow: -1, Label: m.labels[t.Label].name, Src: m.sim.name(t.Src), Dst: m.sim.name(t.Dst),
		Operation: t.What, SizeBytes: int64(t.Size), StartUs: t.Start.Microseconds(), Counted: t.Start >= m.warmup, FCTUs: &l.fct,
	}
	if ideal > 0 {
		l.ideal, l.slowdown = ideal.Microseconds(), float64(fct)/float64(ideal)
		r.IdealUs, r.Slowdown = &l.ideal, &l.slowdown
	}
	return l.write(r)
}

// connectionCloses compensates for the subtraction when a flow is settled: a
// connection was never among the flows under way.
func (m *measurement) connectionCloses(f *flow) {
	m.groups(f, func(l *label) { l.running++ })
}
