package bench

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// failures has the scenario's failures happen that are about NICs, tells hosts of those of
// their links, and keeps the timeline.
type failures struct {
	sim      *simulation
	of       []scenario.Failure
	timeline results.Timeline
}

// watchFailures is called once all hosts are there.
func (s *simulation) watchFailures() {
	x := &s.failures
	x.sim, x.of = s, s.sys.Fabric.Failures
	if len(x.of) == 0 {
		return
	}
	s.net.OnFailure(x.onLink)
	for i := range x.of {
		f := &x.of[i]
		switch {
		case !f.OfNIC():
		case f.Packet > 0:
			x.await(uint64(i), f)
		default:
			s.engine.Schedule(f.At, &s.src, s.id, evFailure, uint64(i))
		}
	}
	for _, h := range s.hosts {
		h.dev.OnFailure(func(wc *verbs.WC) {
			x.note(s.engine.Now(), "%s: queue pair %#x: a request or receive ended with %v (vendor_err %#x)", s.name(h.nic.Host()), wc.QPN, wc.Status, wc.VendorErr)
		}, func(e verbs.AsyncEvent) {
			of := ""
			if e.QP != nil {
				of = fmt.Sprintf("queue pair %#x: ", e.QP.Num())
			}
			x.note(s.engine.Now(), "%s: %sevent: %v", s.name(h.nic.Host()), of, e.Type)
		})
	}
}

// await has a failure of a NIC happen once that, or a queue pair of it, has sent so many packets.
func (x *failures) await(i uint64, f *scenario.Failure) {
	s, h, left := x.sim, x.sim.hosts[f.Host], f.Packet
	h.nic.OnTransmit(func(now units.Time, p *nicmodel.Sent) {
		if f.QP > 0 {
			if q := h.dev.QPMade(f.QP); q == nil || q.Num() != p.SrcQP {
				return
			}
		}
		if left--; left == 0 {
			s.engine.Schedule(now, &s.src, s.id, evFailure, i)
		}
	})
}

// happen has a failure of a NIC happen.
func (x *failures) happen(now units.Time, i uint64) {
	f := &x.of[i]
	dev := x.sim.hosts[f.Host].dev
	if f.Dies {
		x.note(now, "%s: its device dies", f.NIC)
		dev.Die()
		return
	}
	x.note(now, "%s: its queue pair %d fails", f.NIC, f.QP)
	if q := dev.QPMade(f.QP); q == nil || !dev.FailQP(q.Num()) {
		x.note(now, "%s: it has no queue pair %d", f.NIC, f.QP)
	}
}

// onLink notes what has become of a link, and has the port of a host go down or up with it.
func (x *failures) onLink(now units.Time, c fabric.LinkChange) {
	s, topo := x.sim, x.sim.net.Topology()
	full := topo.Link(c.Link).Rate
	var is []string
	if c.Down {
		is = append(is, "down")
	}
	if c.Rate < full {
		is = append(is, fmt.Sprintf("slow (%v of %v)", c.Rate, full))
	}
	if c.Loss > 0 {
		is = append(is, fmt.Sprintf("lossy (%.6g)", c.Loss))
	}
	if c.Corrupt > 0 {
		is = append(is, fmt.Sprintf("corrupt (%.6g)", c.Corrupt))
	}
	if len(is) == 0 {
		is = append(is, "whole")
	}
	x.note(now, "%s: %s", topo.LinkName(c.Link), strings.Join(is, ", "))
	for _, l := range []fabric.LinkID{c.Link, c.Link.Reverse()} {
		if h, err := topo.Host(topo.From(l)); err == nil && len(s.hosts) > 0 {
			s.hosts[h].dev.SetPort(!s.net.Down(l) || !s.net.Down(l.Reverse()))
		}
	}
}

func (x *failures) note(now units.Time, format string, args ...any) {
	x.timeline.Add(results.Float(now.Microseconds()), fmt.Sprintf(format, args...))
}

// undividedBy says why a network with failures is not divided, or nil.
func undividedBy(of []scenario.Failure) error {
	for i := range of {
		if of[i].OfNIC() {
			return errors.New("a NIC that fails, whose events are of the whole network")
		}
	}
	return nil
}
