package perf

import "github.com/sluice-rdma/sluice/bench/internal/stats"

// Interval is a stretch of a row, by the device's clock from the row's first post. It
// counts all that completed, that in the margins of a duration too; where both ends
// send, this end's part.
type Interval struct {
	StartSeconds   stats.Float `json:"start_s"`
	EndSeconds     stats.Float `json:"end_s"`
	Bytes          uint64      `json:"bytes"`
	ThroughputGbps stats.Float `json:"throughput_gbps"`
	Engine         *Engine     `json:"engine,omitempty"`
	Repairs        *Repairs    `json:"repairs,omitempty"`
}

func (b *books) interval(a *account) Interval {
	bytes := a.messages * uint64(b.size)
	return Interval{
		StartSeconds: stats.Float((a.from - b.start).Seconds()), EndSeconds: stats.Float((a.to - b.start).Seconds()),
		Bytes: bytes, ThroughputGbps: stats.Float(float64(bytes) * 8000 / float64(a.to-a.from)),
		Engine: a.engine.report(), Repairs: a.repaired.report(),
	}
}
