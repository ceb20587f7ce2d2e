package paced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// QPStats counts a queue pair's work since it was made, and has its present state.
type QPStats struct {
	QPN    uint32
	State  ib.QPState
	Engine string // its scheme; empty without congestion control

	Rate        units.Rate  // that the engine allows; the line rate without one
	Window      units.Bytes // that the engine allows; 0 if it sets none
	Outstanding units.Bytes // with the NIC
	// Floor and Ceiling are the engine's own bounds of Rate; 0 if it is no cc.Bounded.
	Floor, Ceiling units.Rate

	Messages, Failed uint64 // requests that completed; requests that did not succeed
	Segments         uint64 // taken by the provider
	SegmentBytes     units.Bytes
	CNPs             uint64 // passed to the engine
	Cuts             Cuts
	Held             Held

	// RTT counts the round trips of segments, serialisation included.
	RTT RTTHistogram
	// Variables are the values that a cc.Inspector reports.
	Variables []Variable
}

// Variable is one of an engine's, with its unit at the end of the name.
type Variable struct {
	Name  string
	Value float64
}

// tally is the part of QPStats that a queue pair counts.
type tally struct {
	segments     uint64
	segmentBytes units.Bytes
	rtt          RTTHistogram
	cnps         uint64
	cuts         Cuts
}

// QPs returns the queue pairs that exist, in no particular order.
func (s *Shim) QPs() (qps []*QP) {
	for _, x := range *s.shards.Load() {
		x.mu.Lock()
		for _, q := range x.qps {
			if q != nil {
				qps = append(qps, q)
			}
		}
		x.mu.Unlock()
	}
	return qps
}

// Stats fills out, reusing its Variables. It may be called at any time, also on
// a queue pair that is destroyed.
func (q *QP) Stats(out *QPStats) {
	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	all, failed := q.core.Finished()
	q.tally.rtt.total()
	*out = QPStats{
		QPN: q.inner.Num(), State: q.core.State(),
		Rate: q.core.Control().Rate, Outstanding: q.core.Outstanding(),
		Messages: all, Failed: failed,
		Segments: q.tally.segments, SegmentBytes: q.tally.segmentBytes, CNPs: q.tally.cnps,
		Cuts: q.tally.cuts, Held: heldOf(q.core.Held(s.instant())),
		RTT:       q.tally.rtt,
		Variables: out.Variables[:0],
	}
	if q.core.Control().Window != cc.Unlimited {
		out.Window = q.core.Control().Window
	}
	if q.core.Engine() == nil {
		return
	}
	out.Engine = s.cfg.Scheme
	if out.Engine == "" {
		out.Engine = "custom"
	}
	if e, ok := q.core.Engine().(cc.Bounded); ok {
		out.Floor, out.Ceiling = e.Bounds()
	}
	if e, ok := q.core.Engine().(cc.Inspector); ok {
		e.Inspect(func(name string, value float64) {
			out.Variables = append(out.Variables, Variable{name, value})
		})
	}
}
