package bench

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/nicmodel"
)

// onSpan has f told of the spans of all NICs, beside others who have asked for that.
// at is the host whose NIC it is.
func (s *simulation) onSpan(f func(at int, span *nicmodel.Span)) {
	s.spans = append(s.spans, f)
	for i, h := range s.hosts {
		h.nic.OnSpan(func(span *nicmodel.Span) {
			for _, f := range s.spans {
				f(i, span)
			}
		})
	}
}

// onEnd has f called when the simulation has ended.
func (s *simulation) onEnd(f func()) { s.ends = append(s.ends, f) }

// hosts returns the queue pairs that a filter names of each host that it names; 0 stands
// for all of a host's.
func (f *NICTraceFilter) hosts(s *simulation) (map[int][]uint32, error) {
	if s.fleet != nil {
		return nil, errors.New("reduced NICs have no stages to trace: set nic.model to staged, or leave the trace out")
	}
	all := map[int][]uint32{}
	for _, of := range f.Of {
		h, err := s.net.Topology().Host(of.Host)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		all[h] = append(all[h], of.QPN)
	}
	return all, nil
}
