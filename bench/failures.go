package bench

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/ib"
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
	trained  []bool // by failure: its PCIe link is down to what it says
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
	x.trained = make([]bool, len(x.of))
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
	switch {
	case f.Dies:
		x.note(now, "%s: its device dies", f.NIC)
		dev.Die()
		return
	case f.PCIe != "":
		x.train(now, i)
		return
	case f.GIDChange:
		dev.ChangeGIDs()
		return
	}
	q := dev.QPMade(f.QP)
	switch {
	case q == nil:
		x.note(now, "%s: it has no queue pair %d", f.NIC, f.QP)
	case f.OfCall():
		c, what := callFailure(f)
		c.QP = q.Num()
		if err := dev.FailCall(c); err != nil {
			x.sim.fail(err) // the scenario's checks let none pass
			return
		}
		x.note(now, "%s: of its queue pair %d, after %d more: %s", f.NIC, f.QP, f.After, what)
	default:
		x.note(now, "%s: its queue pair %d fails", f.NIC, f.QP)
		dev.FailQP(q.Num())
	}
}

// train has a PCIe link train down, or end that: it carries what is left by the worst of those that last.
func (x *failures) train(now units.Time, i uint64) {
	f := &x.of[i]
	nic := x.sim.hosts[f.Host].nic
	full := nic.Config().PCIe.Rate
	if x.trained[i] = !x.trained[i]; x.trained[i] && f.For > 0 {
		x.sim.engine.Schedule(now+f.For, &x.sim.src, x.sim.id, evFailure, i)
	}
	rate, by := full, ""
	for k := range x.of {
		if o := &x.of[k]; x.trained[k] && o.Host == f.Host {
			if r, err := o.PCIeRate(); err == nil && r < rate {
				rate, by = r, o.PCIe
			}
		}
	}
	nic.PCIe().Train(rate)
	if by == "" {
		x.note(now, "%s: its PCIe link is whole", f.NIC)
		return
	}
	x.note(now, "%s: its PCIe link trains to %s (%v of %v)", f.NIC, by, rate, full)
}

// callFailure is the failure of a call or completion, and says what it is.
func callFailure(f *scenario.Failure) (verbs.CallFailure, string) {
	name := func(of interface{ MarshalText() ([]byte, error) }) string {
		b, _ := of.MarshalText() // it does not fail
		return string(b)
	}
	c := verbs.CallFailure{Call: verbs.FailCompletion, After: f.After, Status: ib.WCStatus(f.Status), VendorErr: uint32(f.VendorErr)}
	switch {
	case f.PostSend != 0:
		c.Call, c.Errno = verbs.FailPostSend, syscall.Errno(f.PostSend)
		return c, "post_send fails with " + name(f.PostSend)
	case f.PollCQ != 0:
		c.Call, c.Errno = verbs.FailPollCQ, syscall.Errno(f.PollCQ)
		return c, "poll_cq fails with " + name(f.PollCQ)
	}
	return c, "a request completes with " + name(f.Status)
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
	if c.Storm {
		is = append(is, "pause frames without end")
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
