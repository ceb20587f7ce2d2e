package bench

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// engineIn says where a system's engine runs.
func engineIn(sys *scenario.System) string {
	switch {
	case sys.Engine == "none":
		return results.EngineNone
	case sys.Offload():
		return results.EngineInNIC
	}
	return results.EngineInHost
}

// ruling sums up over hosts what ruled until some instant.
type ruling struct {
	cuts         uint64
	shims        paced.Held
	held, active units.Time // in NICs, by engines
}

// ruling looks at shims, or at NICs where engines run there.
func (s *simulation) ruling() ruling {
	var r ruling
	if s.fleet != nil {
		r.cuts = s.fleet.Cuts()
	}
	for _, h := range s.hosts {
		if h.shim != nil {
			stats := h.shim.Stats()
			r.cuts += stats.Cuts.Total()
			r.shims.Add(stats.Held)
			continue
		}
		n := h.nic.Steered(s.engine.Now())
		r.cuts += n.Cuts
		r.held += n.Rate + n.Window
		r.active += n.Active
	}
	return r
}

// received counts a receive buffer's dropped and marked packets.
type received struct{ drops, marks uint64 }

// received returns that of each staged NIC.
func (s *simulation) received() []received {
	all := make([]received, len(s.hosts))
	for i, h := range s.hosts {
		st := h.nic.Stats()
		all[i] = received{st.BufferDrops, st.BufferMarks}
	}
	return all
}

// receivers fills in which receiver held the network up most since the warm-up.
func (m *measurement) receivers(o *results.Outside) {
	t, span := m.sim.net.Topology(), m.sim.end-m.warmup
	for i, now := range m.sim.received() {
		if drops := now.drops - m.received[i].drops; drops > o.Drops {
			o.DropsAt, o.Drops = t.HostName(i), drops
		}
		id := t.HostLink(i).Reverse()
		s := m.sim.net.Port(id).Stats()
		for p := range s.Paused {
			if x := share((s.Paused[p] - m.ports[id].stats.Paused[p]).Long(), span.Long()); x.Measured() && x > o.Paused {
				o.PausedLink, o.Paused = t.LinkName(id), x
			}
		}
	}
}

// rules fills in what ruled since the warm-up.
func (m *measurement) rules(out *results.System) {
	now := m.sim.ruling()
	r := &out.Ruling
	r.EngineIn = engineIn(m.sim.sys)
	r.EngineCuts = now.cuts - m.ruling.cuts
	if m.sim.shimmed() {
		held := now.shims.Since(m.ruling.shims)
		active := held.Active()
		r.ShimOutstandingBytes = int64(m.sim.hosts[0].bound)
		r.EngineHeld = share(held.Rate.Plus(held.Window), active)
		r.ShimHeld, r.HostHeld = share(held.Bound, active), share(held.Late, active)
		r.OtherHeld, r.AllSent = share(held.Other, active), share(held.Sent, active)
	} else {
		r.EngineHeld = share((now.held - m.ruling.held).Long(), (now.active - m.ruling.active).Long())
	}
	var outside results.Outside
	outside.Link, outside.Busy = m.busiest(out.LinkUse)
	m.receivers(&outside)
	out.Trouble = m.trouble()
	outside.Trouble = &out.Trouble
	r.Explain(outside)
}

func share(part, whole units.LongTime) stats.Float {
	if whole == (units.LongTime{}) {
		return stats.Unmeasured
	}
	return stats.Float(part.Picoseconds() / whole.Picoseconds())
}

// busiest is the link that was busy most.
func (m *measurement) busiest(use *results.LinkUse) (name string, busy stats.Float) {
	t := m.sim.net.Topology()
	for i := range t.Links() {
		if b := use.Busy[i]; b.Measured() && b > busy {
			name, busy = t.LinkName(fabric.LinkID(i)), b
		}
	}
	return name, busy
}
