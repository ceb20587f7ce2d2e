package bench

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// priority is a priority of the fabric, where more than one is in use.
type priority struct {
	number int
	flows  label             // those whose data have it
	queue  []fabric.Integral // by link, at the warm-up
}

// newPriorities finds the priorities in use: of data, of acknowledgements, and all
// there are if the engine chooses. One alone is not worth a word.
func (m *measurement) newPriorities(s *scenario.Scenario) {
	n := &m.sim.sys.NIC
	var used [fabric.MaxPriorities]bool
	used[n.AckPriority] = true
	for _, w := range s.Workloads {
		if w.Priority != nil {
			used[*w.Priority] = true
		} else {
			used[n.Priority] = true
		}
	}
	if m.sim.sys.Scheme.Classes > 0 {
		for i := range m.sim.sys.FabricConfig().Priorities {
			used[i] = true
		}
	}
	count := 0
	for i, is := range used {
		if !is {
			continue
		}
		count++
		m.ofPriority[i] = &priority{number: i, flows: newLabel("", m.sim.net.Lanes()), queue: make([]fabric.Integral, m.sim.net.Topology().Links())}
	}
	if count < 2 {
		m.ofPriority = [fabric.MaxPriorities]*priority{}
	}
}

// class returns the priority of a flow or connection of that Class, or nil.
func (m *measurement) class(class int) *priority {
	if class > 0 {
		return m.ofPriority[class-1]
	}
	return m.ofPriority[m.sim.sys.NIC.Priority]
}

// warmUpPriorities begins the counting.
func (m *measurement) warmUpPriorities() {
	for _, p := range m.ofPriority {
		if p == nil {
			continue
		}
		for i := range p.queue {
			port := m.sim.net.Port(fabric.LinkID(i))
			port.ResetMaxQueueOf(p.number)
			p.queue[i] = port.QueueIntegralOf(p.number)
		}
	}
}

// priorities returns the measurements of each priority.
func (m *measurement) priorities(span units.Time) []results.Priority {
	var all []results.Priority
	for _, p := range m.ofPriority {
		if p == nil {
			continue
		}
		out := results.Priority{Priority: p.number, Flows: m.flows(&p.flows, span), QueueAvgBytes: stats.Unmeasured}
		var paused units.Time
		for i, before := range p.queue {
			port := m.sim.net.Port(fabric.LinkID(i))
			s, b := port.Stats(), m.ports[i].stats
			out.Drops += s.DropsOf[p.number] - b.DropsOf[p.number]
			out.ECNMarks += s.MarksOf[p.number] - b.MarksOf[p.number]
			paused += s.Paused[p.number] - b.Paused[p.number]
			out.QueueMaxBytes = max(out.QueueMaxBytes, int64(port.MaxQueueOf(p.number)))
			out.QueueAvgBytes = larger(out.QueueAvgBytes, meanOver(port.QueueIntegralOf(p.number).Sub(before), span))
		}
		out.PauseUs = stats.Float(paused.Microseconds())
		all = append(all, out)
	}
	return all
}
