package paced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Config says how a Shim works. It is read once, by Wrap. DefaultConfig has
// usable values; a zero field means its default where the field says so. Errors call fields by
// their keys, which the preload library's variables have too.
type Config struct {
	// Segment is the size into which Writes and Reads are cut.
	// TIMELY's is 16 KB in section 6 and 64 KB at most (section 3.3).
	Segment units.Bytes `yaml:"segment" range:"[4KiB,64KiB]" eg:"16KiB"`

	// CutImmediate cuts Writes with immediate data as well. The receiver's completion
	// then counts the bytes of the last segment only, since each segment is a message. By
	// default such a Write is one segment, which is paced by its bytes.
	CutImmediate bool

	// MaxOutstanding bounds the payload bytes that one queue pair has with the
	// NIC and not completed: TIMELY's "static worst-case limit" (section 3.3),
	// to which it gives no value. At least Segment; a request that is not cut and
	// larger than this goes out alone. 0 follows the link, see Outstanding.
	MaxOutstanding units.Bytes `yaml:"max_outstanding" range:"(0,1GiB]" zero:"the default" least:"segment"`

	// Scheme names a rate engine registered with package cc, and SchemeConfig
	// is a pointer to its configuration, as its DefaultConfig returns; nil takes
	// the defaults. Without Scheme and Engine there is no congestion control:
	// segments leave at line rate within MaxOutstanding.
	Scheme       string
	SchemeConfig any
	// Engine makes the rate engine of one queue pair, in place of Scheme.
	Engine func(cc.Env) (cc.Engine, error)
	// Bypass spares an engine that is cc.Bypassed (TIMELY) the acknowledgements of
	// segments that found no queue, while its rate is the line's. Stats.Bypassed counts
	// them. It has no effect on what Observe or Watch watches.
	Bypass bool

	// Group has queue pairs share an engine by what they have in common. GroupOf, if set,
	// names the group of a queue pair that is about to send in its place, and "" for none: it gets
	// the port, the path's MTU and address, and of the shim may call qp.Num only.
	// A Shim with groups has one lock for all of its queue pairs.
	Group   Grouping `yaml:"group" one:"none destination path port"`
	GroupOf func(qp *QP, a verbs.QPAttr) string

	// LineRate is the NIC's line rate; 0 takes the port's.
	LineRate units.Rate `yaml:"line_rate" range:"(0,)" zero:"the port's"`
	// BaseRTT is the round trip of one packet on an idle network: the engine's
	// cc.Env.BaseRTT and the minimum RTT by which updates are scaled.
	BaseRTT units.Time `yaml:"base_rtt" range:"(0,1s]" why:"it is the round trip of the idle network"`

	// NICRate makes the NIC pace each segment's packets at this rate, below the
	// line rate, where the provider's queue pairs take a rate (verbs.RateLimitQP; the
	// hybrid of TIMELY section 5). Where they take none, the path gets the lowest static
	// rate that is no lower, on the way to RTR, unless the program gave one of its own or
	// that is the port's rate or more. 0 leaves the NIC at line rate. Where the provider
	// keeps neither, segments leave at line rate, and Stats.NICRateRefused says so.
	NICRate units.Rate `yaml:"nic_rate" range:"(0,)" zero:"none"`

	// CalibrateEvery is the longest that the NIC's clock goes without a reading
	// against the host's while there is work; package calibration asks for
	// readings earlier, at first every millisecond. 0 never reads it, and
	// completion times are those of polling.
	CalibrateEvery units.Time `yaml:"calibrate_every" range:"(0,60s]" zero:"no calibration"`

	// Clock says by which clocks round trips are taken.
	Clock RTTClock `one:"calibrated nic software"`

	// CatchUp bounds how late progress may come without costing a flow its rate: a
	// segment that leaves later than that counts as sent CatchUp before it did. More
	// holds a rate on a host that wakes late, and lets a flow send as much in a row
	// after a stall. 0 makes up for nothing.
	CatchUp units.Time `range:"(0,1s]" zero:"none"`

	// Batch is the most segments that are sent on one reading of the clock, and
	// posted in one call.
	Batch int `yaml:"batch" range:"[1,256]" of:"segments"`

	// Observe, if set, is called after each engine update with the engine's input and
	// its answer, and with a round trip that a retransmission timeout prolonged, of which the
	// engine is not told. Of the shim it may call qp.Num and qp.Query only, and it must not keep a.
	// For queue pairs that send to
	// different CQs it may be called at the same time.
	Observe func(qp *QP, a *cc.Ack, c cc.Control)
}

// leastOutstanding is the least that MaxOutstanding is by default. The 658 us of
// the PFC row in TIMELY's Table 1 imply 41 KB for each of 40 connections: two to
// three segments of 16 KB.
const leastOutstanding = 64 * units.KiB

// Outstanding returns the bound on a queue pair's outstanding bytes at a line rate:
// MaxOutstanding, or where that is 0 twice what the line rate times BaseRTT asks, in
// whole segments, so that the engine and not this bound decides. It is at least 64 KiB
// and four segments, and at most 1 GiB: 64 KiB at 10 Gbps, 496 KiB at 100 Gbps and 20 us.
func (c *Config) Outstanding(line units.Rate) units.Bytes {
	if c.MaxOutstanding > 0 {
		return c.MaxOutstanding
	}
	segments := max(4, (2*line.BytesIn(c.BaseRTT)+c.Segment-1)/c.Segment)
	return min(max(leastOutstanding, segments*c.Segment), units.GiB)
}

// FixedRateCatchUp is a Config.CatchUp for a fixed rate: a host that wakes late
// still keeps the rate.
const FixedRateCatchUp = 20 * units.Millisecond

// DefaultConfig returns TIMELY's 16 KiB segments, the default MaxOutstanding, a
// base RTT of 20 us, a calibration sample at least every 100 ms, a CatchUp of 10
// us, batches of 16, and no engine.
func DefaultConfig() Config {
	return Config{
		Segment:        16 * units.KiB,
		BaseRTT:        20 * units.Microsecond,
		CalibrateEvery: 100 * units.Millisecond,
		CatchUp:        10 * units.Microsecond,
		Batch:          16,
	}
}

var ranges = field.Of[Config]("paced")

// Validate reports the first field that is out of range.
func (c *Config) Validate() error {
	if err := ranges.Check(c); err != nil {
		return err
	}
	switch {
	case c.Scheme != "" && c.Engine != nil:
		return field.Bad("paced", "Scheme", c.Scheme, "Engine is set too; give one of them")
	case c.Scheme == "" && c.SchemeConfig != nil:
		return field.Bad("paced", "SchemeConfig", c.SchemeConfig, "it needs Scheme, the engine's name")
	case c.LineRate > 0 && c.NICRate >= c.LineRate:
		return field.Bad("paced", "nic_rate", c.NICRate, "choose less than line_rate, %v", c.LineRate)
	}
	return nil
}
