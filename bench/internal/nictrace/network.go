package nictrace

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Network is the NICs of a network as it runs, for those who watch them.
type Network struct {
	System   string // the name of what runs
	Topology *fabric.Topology
	NICs     []*nicmodel.NIC // by host; none where they have no stages
	Lanes    int             // of the network

	spans []func(host int, span *nicmodel.Span)
	wants []func(host int) bool // whose spans they are for
	ends  []func(now units.Time)
	lanes []reports  // since the last Settle
	order [2][]place // scratch of Settle
	runs  []int
}

// reports are what NICs have reported within a window of a divided network, by the lane
// that ran them.
type reports struct {
	spans []nicmodel.Span
	works []work
	order [2][]place // of spans and of works
	_     [64]byte   // two workers share no cache line
}

// work is what a part of a NIC did, or how long a queue of it became.
type work struct {
	take       func(*work) // who it is for
	part       int
	begin, end units.Time
	why        nicmodel.Stall
	level      int
}

// place is where a report is, and when it was made.
type place struct {
	at          units.Time
	host        int32
	lane, index uint32
}

func (p *place) before(q *place) bool { return p.at < q.at || p.at == q.at && p.host < q.host }

// work takes work of the NIC of a host: at once, or in a divided network when the window is
// over, in the order of time.
func (n *Network) work(host int, w work) {
	if !n.NICs[host].Lane().Concurrent() {
		w.take(&w)
		return
	}
	x, p := n.report(host)
	p.index = uint32(len(x.works))
	x.works, x.order[1] = append(x.works, w), append(x.order[1], p)
}

// span takes a span likewise.
func (n *Network) span(host int, s *nicmodel.Span) {
	if !n.NICs[host].Lane().Concurrent() {
		n.takeSpan(host, s)
		return
	}
	for _, wants := range n.wants {
		if wants(s.Host) {
			x, p := n.report(host)
			p.index = uint32(len(x.spans))
			x.spans, x.order[0] = append(x.spans, *s), append(x.order[0], p)
			return
		}
	}
}

func (n *Network) takeSpan(host int, s *nicmodel.Span) {
	for i, f := range n.spans {
		if n.wants[i](s.Host) {
			f(host, s)
		}
	}
}

func (n *Network) report(host int) (*reports, place) {
	nic := n.NICs[host]
	lane := nic.Lane().Index()
	return &n.lanes[lane], place{at: nic.Now(), host: int32(host), lane: uint32(lane)}
}

// Settle hands on what NICs have reported. Call it when no host is at work.
func (n *Network) Settle() {
	if len(n.lanes) == 0 {
		return // nobody watches
	}
	for _, p := range n.sorted(0) {
		n.takeSpan(int(p.host), &n.lanes[p.lane].spans[p.index])
	}
	for _, p := range n.sorted(1) {
		w := &n.lanes[p.lane].works[p.index]
		w.take(w)
	}
	for i := range n.lanes {
		x := &n.lanes[i]
		x.spans, x.works = x.spans[:0], x.works[:0]
	}
}

// sorted is the reports of a kind in the order in which they were made. Those of a host
// are in order already, so that runs are merged.
func (n *Network) sorted(kind int) []place {
	all, other, runs := n.order[0][:0], n.order[1], n.runs[:0]
	for i := range n.lanes {
		x := &n.lanes[i]
		all = append(all, x.order[kind]...)
		x.order[kind] = x.order[kind][:0]
	}
	for i := range all {
		if i == 0 || all[i].before(&all[i-1]) {
			runs = append(runs, i)
		}
	}
	for len(runs) > 1 {
		other = other[:0]
		kept := 0
		for i := 0; i < len(runs); i += 2 {
			middle, end := len(all), len(all)
			if i+1 < len(runs) {
				middle = runs[i+1]
			}
			if i+2 < len(runs) {
				end = runs[i+2]
			}
			a, b := all[runs[i]:middle], all[middle:end]
			runs[kept] = len(other)
			kept++
			for len(a) > 0 && len(b) > 0 {
				if b[0].before(&a[0]) {
					other, b = append(other, b[0]), b[1:]
				} else {
					other, a = append(other, a[0]), a[1:]
				}
			}
			other = append(append(other, a...), b...)
		}
		runs = runs[:kept]
		all, other = other, all
	}
	n.order, n.runs = [2][]place{all, other}, runs
	return all
}

// watched makes room for reports.
func (n *Network) watched() {
	if len(n.lanes) < n.Lanes {
		n.lanes = make([]reports, n.Lanes)
	}
}

// onSpan calls f with the spans of all NICs that belong to requests of hosts that it wants.
// host is the one whose NIC it is.
func (n *Network) onSpan(wants func(host int) bool, f func(host int, span *nicmodel.Span)) {
	n.watched()
	n.spans, n.wants = append(n.spans, f), append(n.wants, wants)
	if len(n.spans) > 1 {
		return
	}
	for host, nic := range n.NICs {
		nic.OnSpan(func(span *nicmodel.Span) { n.span(host, span) })
	}
}

// End ends the run at an instant.
func (n *Network) End(now units.Time) {
	n.Settle()
	for _, f := range n.ends {
		f(now)
	}
}

// queuePairs returns, for each host that a filter names, the queue pairs that it
// names; 0 means all of a host's.
func (n *Network) queuePairs(f *Filter) (map[int][]uint32, error) {
	if len(n.NICs) == 0 {
		return nil, errors.New("reduced NICs have no stages to trace: set nic.model to staged, or leave the trace out")
	}
	all := map[int][]uint32{}
	for _, of := range f.Of {
		h, err := n.Topology.Host(of.Host)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		all[h] = append(all[h], of.QPN)
	}
	return all, nil
}
