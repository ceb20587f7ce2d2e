package bench

import (
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/stats"
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

// ruling is what ruled until some instant, summed over hosts.
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
		r.EngineHeld = share(held.Rate+held.Window, active)
		r.ShimHeld, r.HostHeld = share(held.Bound, active), share(held.Late, active)
		r.OtherHeld, r.AllSent = share(held.Other, active), share(held.Sent, active)
	} else {
		r.EngineHeld = share(now.held-m.ruling.held, now.active-m.ruling.active)
	}
	busiest, busy := m.busiest(out.LinkUse)
	r.Explain(busiest, busy)
}

func share(part, whole units.Time) stats.Float {
	if whole <= 0 {
		return stats.Unmeasured
	}
	return stats.Float(float64(part) / float64(whole))
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
