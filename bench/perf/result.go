package perf

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// Result is what one end, or both, of a run measured. Figures that were not
// measured are stats.Unmeasured.
type Result struct {
	Test    string `json:"test"`
	Role    string `json:"role"` // "client", "server", or "both" in one process
	Device  string `json:"device"`
	Peer    string `json:"peer"` // the other end's GID, or its device if that is in this process
	Service string `json:"service"`

	QPs           int    `json:"qps"`
	MTU           int    `json:"mtu"`
	GIDIndex      int    `json:"gid_index"`
	GID           string `json:"gid"`
	TxDepth       int    `json:"tx_depth"`
	RxDepth       int    `json:"rx_depth,omitempty"`
	PostList      int    `json:"post_list"`
	InlineBytes   int    `json:"inline_bytes"`
	OutReads      int    `json:"out_reads,omitempty"`
	Bidirectional bool   `json:"bidirectional"`
	// Pacing says what paced the requests: an engine's name, a rate; empty for
	// nothing.
	Pacing string `json:"pacing,omitempty"`

	Rows []*Row `json:"rows"`
}

// Row is what was measured with one size.
type Row struct {
	Bytes      int    `json:"bytes"`      // of a message
	Iterations uint64 `json:"iterations"` // messages that count, of all queue pairs
	// Lost is how many messages did not come, of UC and UD, where this end receives.
	Lost uint64 `json:"lost,omitempty"`

	*Bandwidth // nil in a latency test
	*Latency   // nil in a bandwidth test

	// What was paced, repaired, and how the host kept up; nil where it is not known.
	// Of all of the row, also what does not count for its figures.
	Engine  *Engine  `json:"engine,omitempty"`
	Repairs *Repairs `json:"repairs,omitempty"`
	Host    *Host    `json:"host,omitempty"`
	Outage  *Outage  `json:"outage,omitempty"` // with Config.Outage
	// Reconnects is how often the connections were made anew, with Config.Reconnect.
	Reconnects uint64 `json:"reconnects,omitempty"`
	// Intervals follow one another without gaps, of Config.Interval each but the last.
	Intervals []Interval `json:"intervals,omitempty"`

	// Of a bidirectional test, Bandwidth is the sum of these.
	Local  *Bandwidth `json:"local,omitempty"`
	Remote *Bandwidth `json:"remote,omitempty"`
}

// Bandwidth is payload over time.
type Bandwidth struct {
	// PeakGbps is that of the best run of messages, from the first one's post to
	// the last one's completion.
	PeakGbps        stats.Float `json:"peak_gbps"`
	ThroughputGbps  stats.Float `json:"throughput_gbps"`
	MessageRateMpps stats.Float `json:"message_rate_mpps"`
}

// plus is what both ends sent.
func (b *Bandwidth) plus(o *Bandwidth) *Bandwidth {
	return &Bandwidth{b.PeakGbps + o.PeakGbps, b.ThroughputGbps + o.ThroughputGbps, b.MessageRateMpps + o.MessageRateMpps}
}

// Latency is one way of a ping-pong, or a whole read or atomic, in microseconds.
type Latency struct {
	MinUs     stats.Float `json:"t_min_us"`
	MaxUs     stats.Float `json:"t_max_us"`
	TypicalUs stats.Float `json:"t_typical_us"` // the median
	AvgUs     stats.Float `json:"t_avg_us"`
	StdevUs   stats.Float `json:"t_stdev_us"`
	P99Us     stats.Float `json:"t_p99_us"`
	P999Us    stats.Float `json:"t_p999_us"`
}
