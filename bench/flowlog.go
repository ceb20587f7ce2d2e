package bench

import (
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/units"
)

// flowTally is a flow's state in the measurement.
type flowTally struct {
	started        bool // it is one of the flows under way
	windowed       bool // it was at the last window, with atWindow delivered
	atWindow       units.Bytes
	path           []int // of its data, once requested
	rttSum, rttMax units.Time
	rttCount       uint64
	events         // at its end
}

func (t *flowTally) roundTrip(rtt units.Time) {
	t.rttSum += rtt
	t.rttMax = max(t.rttMax, rtt)
	t.rttCount++
}

// flowLog hands records of a system's flows to Options.Flows.
type flowLog struct {
	write  func(*results.FlowRecord) error
	record results.FlowRecord // reused
	fct, ideal, slowdown,
	throughput, avg, max float64
}

func newFlowLog(write func(*results.FlowRecord) error, scenario, system string) *flowLog {
	if write == nil {
		return nil
	}
	return &flowLog{write: write, record: results.FlowRecord{Scenario: scenario, System: system}}
}

// flow writes the record of a flow that ended now, or that is under way at the
// end of the run.
func (l *flowLog) flow(m *measurement, f *flow, now units.Time, ended bool) error {
	r := &l.record
	r.Flow, r.Label = f.ID, m.labels[f.Label].name
	r.Src, r.Dst, r.Operation = m.sim.name(f.Src), m.sim.name(f.Dst), f.Operation.String()
	r.SizeBytes, r.StartUs, r.Counted = int64(f.Size), f.Start.Microseconds(), f.startedInWindow
	r.DeliveredBytes, r.Packets = int64(f.delivered.Payload), f.delivered.Packets
	r.RTTSamples, r.Retransmissions, r.Timeouts = f.tally.rttCount, f.tally.retrans, f.tally.timeouts
	r.FCTUs, r.IdealUs, r.Slowdown, r.ThroughputGbps, r.RTTAvgUs, r.RTTMaxUs = nil, nil, nil, nil, nil, nil
	if ended && f.Size > 0 {
		ideal := m.sim.idealFCT(&f.Flow)
		l.fct, l.ideal, l.slowdown = (now - f.Start).Microseconds(), ideal.Microseconds(), float64(now-f.Start)/float64(ideal)
		r.FCTUs, r.IdealUs, r.Slowdown = &l.fct, &l.ideal, &l.slowdown
	}
	if span := now - f.Start; span > 0 {
		l.throughput = float64(gbps(f.delivered.Payload, span))
		r.ThroughputGbps = &l.throughput
	}
	if n := f.tally.rttCount; n > 0 {
		l.avg, l.max = (f.tally.rttSum / units.Time(n)).Microseconds(), f.tally.rttMax.Microseconds()
		r.RTTAvgUs, r.RTTMaxUs = &l.avg, &l.max
	}
	return l.write(r)
}
