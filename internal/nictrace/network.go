package nictrace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Network is the NICs of a network as it runs, for those who watch them.
type Network struct {
	System   string // the name of what runs
	Topology *fabric.Topology
	NICs     []*nicmodel.NIC // by host; none where they have no stages
	Lanes    int             // of a divided network; 0 of one that is not

	spans []func(host int, span *nicmodel.Span)
	ends  []func(now units.Time)
	lanes []reports // since the last Settle
	all   []report  // scratch of Settle
}

// report is something that a NIC has reported within a window of a divided network.
type report struct {
	at   units.Time
	host int
	take func(*report) // who it is for

	span       nicmodel.Span
	index      int // of a stage or a queue
	begin, end units.Time
	why        nicmodel.Stall
	level      int
}

// reports are those of a lane.
type reports struct {
	all []report
	_   [64]byte // two workers share no cache line
}

// report takes one from the NIC of a host: at once, or in a divided network when the
// window is over, in the order of time.
func (n *Network) report(r report) {
	if n.Lanes == 0 {
		r.take(&r)
		return
	}
	nic := n.NICs[r.host]
	r.at = nic.Now()
	list := &n.lanes[nic.Lane().Index()]
	list.all = append(list.all, r)
}

// Settle hands on what NICs have reported. Call it when no host is at work.
func (n *Network) Settle() {
	all := n.all[:0]
	for i := range n.lanes {
		all = append(all, n.lanes[i].all...)
		n.lanes[i].all = n.lanes[i].all[:0]
	}
	slices.SortStableFunc(all, func(a, b report) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.host, b.host)) })
	for i := range all {
		all[i].take(&all[i])
	}
	n.all = all
}

// watched makes room for reports.
func (n *Network) watched() {
	if len(n.lanes) < n.Lanes {
		n.lanes = make([]reports, n.Lanes)
	}
}

// onSpan calls f with the spans of all NICs. host is the one whose NIC it is.
func (n *Network) onSpan(f func(host int, span *nicmodel.Span)) {
	n.watched()
	n.spans = append(n.spans, f)
	if len(n.spans) > 1 {
		return
	}
	take := func(r *report) {
		for _, f := range n.spans {
			f(r.host, &r.span)
		}
	}
	for host, nic := range n.NICs {
		nic.OnSpan(func(span *nicmodel.Span) { n.report(report{host: host, take: take, span: *span}) })
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
