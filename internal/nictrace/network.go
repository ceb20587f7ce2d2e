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

	spans []func(host int, span *nicmodel.Span)
	ends  []func(now units.Time)
}

// onSpan calls f with the spans of all NICs. host is the one whose NIC it is.
func (n *Network) onSpan(f func(host int, span *nicmodel.Span)) {
	n.spans = append(n.spans, f)
	if len(n.spans) > 1 {
		return
	}
	for host, nic := range n.NICs {
		nic.OnSpan(func(span *nicmodel.Span) {
			for _, f := range n.spans {
				f(host, span)
			}
		})
	}
}

// End ends the run at an instant.
func (n *Network) End(now units.Time) {
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
