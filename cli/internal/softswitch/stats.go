package softswitch

import (
	"time"

	"github.com/sluice-rdma/sluice/cli/internal/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/units"
)

// Stats holds a switch's counts since it was opened.
type Stats struct {
	Seconds   float64     `json:"seconds"` // since then
	Ports     []PortStats `json:"ports"`
	TooLong   uint64      `json:"too_long"`  // frames longer than any port's, dropped
	Discarded uint64      `json:"discarded"` // dropped by the program, or by the bridge as not for another port
	NoPort    uint64      `json:"no_port"`   // that the program sent to a port that is not there
	Flooded   uint64      `json:"flooded"`   // that the bridge sent to all ports but one
	Unknown   uint64      `json:"unknown"`   // with an offload that is not known, dropped
}

// PortStats holds a port's counts. Bytes are of frames without their check
// sequence.
type PortStats struct {
	Name      string  `json:"name"`
	RateGbps  float64 `json:"rate_gbps"` // 0 without a bound
	RxPackets uint64  `json:"rx_packets"`
	RxBytes   uint64  `json:"rx_bytes"`
	TxPackets uint64  `json:"tx_packets"`
	TxBytes   uint64  `json:"tx_bytes"`
	Drops     uint64  `json:"drops"`     // that found the queue full
	Missed    uint64  `json:"missed"`    // that the kernel dropped, as they were not taken in time
	TxErrors  uint64  `json:"tx_errors"` // that the kernel did not take
	Marked    uint64  `json:"ecn_marked"`

	QueueBytes      int64 `json:"queue_bytes"` // now
	QueuePackets    int   `json:"queue_packets"`
	MaxQueueBytes   int64 `json:"queue_max_bytes"`
	MaxQueuePackets int   `json:"queue_max_packets"`

	// Of the packets that left: the time in the queue.
	DelayMeanUs float64 `json:"delay_mean_us"`
	DelayP50Us  float64 `json:"delay_p50_us"`
	DelayP99Us  float64 `json:"delay_p99_us"`
	DelayMaxUs  float64 `json:"delay_max_us"`
}

func portStats(name string, rate units.Rate, core *plane.Switch, i int) PortStats {
	c, d := core.Counters(i), core.Delays(i)
	us := func(ns float64) float64 { return ns / float64(time.Microsecond) }
	p := PortStats{
		Name: name, RateGbps: rate.Gbps(),
		RxPackets: c.RxPackets, RxBytes: c.RxBytes, TxPackets: c.TxPackets, TxBytes: c.TxBytes, Drops: c.Drops, Marked: c.Marked,
		QueueBytes: int64(c.Depth.Bytes), QueuePackets: c.Depth.Packets, MaxQueueBytes: int64(c.MaxDepth.Bytes), MaxQueuePackets: c.MaxDepth.Packets,
	}
	if d.TotalCount() > 0 {
		p.DelayMeanUs, p.DelayMaxUs = us(d.Mean()), us(float64(d.Max()))
		p.DelayP50Us, p.DelayP99Us = us(float64(d.ValueAtQuantile(50))), us(float64(d.ValueAtQuantile(99)))
	}
	return p
}
