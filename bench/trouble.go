package bench

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/sim/fabric"
)

// trouble returns the network's failures, and the flows that did not end.
func (m *measurement) trouble() results.Trouble {
	t := results.Trouble{Loss: m.losslessLoss(), Unfinished: m.unfinished}
	for _, c := range m.circles {
		t.Deadlocks = append(t.Deadlocks, deadlock(c, len(m.stuck)))
	}
	return t
}

func deadlock(c fabric.Circle, stuck int) results.Deadlock {
	d := results.Deadlock{SinceUs: stats.Float(c.Since().Microseconds()), Stuck: stuck}
	for _, q := range c {
		d.Queues = append(d.Queues, results.PausedQueue{Switch: q.Switch, Link: q.Link, Priority: q.Priority, Bytes: int64(q.Bytes), SinceUs: stats.Float(q.Since.Microseconds())})
	}
	return d
}

// withDeadlock says of a run that failed that its network is in a deadlock, if it is: that
// is then why.
func (s *simulation) withDeadlock(err error) error {
	if err == nil {
		return nil
	}
	circles, stuck := s.net.Deadlocks()
	for _, c := range circles {
		d := deadlock(c, len(stuck))
		err = fmt.Errorf("%w; %v", err, &d)
	}
	return err
}

// losslessLoss sums what lossless priorities dropped since the warm-up; nil if nothing.
func (m *measurement) losslessLoss() *results.LosslessLoss {
	net := m.sim.net
	topo := net.Topology()
	var loss results.LosslessLoss
	var most uint64
	for i := range m.ports {
		id, base := fabric.LinkID(i), m.ports[i].stats
		s := net.Port(id).Stats()
		if s.Drops-base.Drops == s.WatchdogDrops-base.WatchdogDrops {
			continue // what the watchdog drops it says itself
		}
		rooms, err := net.HeadroomsOf(topo.From(id))
		if err != nil {
			continue // a host drops in its NIC
		}
		storm := s.WatchdogDrops - base.WatchdogDrops
		for p := range rooms {
			h := &rooms[p]
			drops := s.DropsOf[p] - base.DropsOf[p]
			if h.Switch == "" {
				continue
			}
			ended := min(storm, drops)
			storm, drops = storm-ended, drops-ended
			if loss.Drops += drops; drops > most {
				most = drops
				loss.Switch, loss.Link, loss.Priority = h.Switch, topo.LinkName(id), p
				loss.Ingress, loss.HeadroomBytes, loss.NeededBytes = h.Link, int64(h.Set), int64(h.Needed)
			}
		}
	}
	if loss.Drops == 0 {
		return nil
	}
	return &loss
}

// leftOver returns the flows that have not ended at the end of the run, by reason; nil if
// all have.
func (m *measurement) leftOver() *results.Unfinished {
	all := &m.labels[len(m.labels)-1]
	tasks := all.running
	var groups []results.UnfinishedWhy
	add := func(why string, never bool, example string) {
		i := slices.IndexFunc(groups, func(g results.UnfinishedWhy) bool { return g.Why == why })
		if i < 0 {
			i, groups = len(groups), append(groups, results.UnfinishedWhy{Why: why, Never: never})
		}
		g := &groups[i]
		g.Flows++
		if len(g.Examples) < results.MaxExamples {
			g.Examples = append(g.Examples, example)
		}
	}
	u := results.Unfinished{Ended: all.finished, Of: all.finished}
	flows := slices.SortedFunc(slices.Values(m.sim.active), func(a, b *flow) int { return cmp.Compare(a.ID, b.ID) })
	var connections []string
	for _, f := range flows {
		if f.kept == nil {
			tasks--
		}
		why, never := m.keeps(f)
		name := fmt.Sprintf("%s->%s", m.sim.name(f.Src), m.sim.name(f.Dst))
		switch {
		case f.kept != nil:
			if never && f.outstanding > 0 && len(connections) < results.MaxExamples {
				connections = append(connections, name+" "+why)
			}
		case f.Size > 0:
			u.Of++
			add(why, never, fmt.Sprintf("flow %d %s", f.ID, name))
		}
	}
	slices.SortStableFunc(groups, func(a, b results.UnfinishedWhy) int { return cmp.Compare(order(a.Never), order(b.Never)) })
	if tasks > 0 {
		u.Of += uint64(tasks)
		why := "requests or operations of several hosts still under way at the end"
		if len(connections) > 0 {
			why += ", some of them on connections that never could go on"
		}
		groups = append(groups, results.UnfinishedWhy{Why: why, Never: len(connections) > 0, Flows: uint64(tasks), Examples: connections})
	}
	if len(groups) == 0 {
		return nil
	}
	u.Groups = groups
	return &u
}

func order(never bool) int {
	if never {
		return 0
	}
	return 1
}

// keeps returns the reason that keeps a flow from its end, and whether it never could
// reach it.
func (m *measurement) keeps(f *flow) (why string, never bool) {
	net := m.sim.net
	topo := net.Topology()
	hash := f.flowHash()
	for _, way := range [][2]int{{f.Src, f.Dst}, {f.Dst, f.Src}} {
		if l, cut := net.Cut(way[0], way[1], hash); cut {
			other := "no other path was left or found"
			if m.sim.sys.Fabric.Reroute == 0 {
				other = "switches look for no other (fabric.reroute is 0)"
			}
			return fmt.Sprintf("never could: %s is down to the end, and %s", topo.LinkName(l), other), true
		}
	}
	if len(m.stuck) > 0 {
		for _, l := range net.Path(nil, f.Src, f.Dst, hash) {
			name := topo.LinkName(l)
			if slices.ContainsFunc(m.stuck, func(q fabric.PausedQueue) bool { return q.Link == name }) {
				return "never could: their path leads through a PFC deadlock", true
			}
		}
	}
	return "still under way at the end", false
}
