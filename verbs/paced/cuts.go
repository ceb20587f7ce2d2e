package paced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
)

// Cause is the reason for which an engine lowered a rate or window, as far as a host can tell. Losses
// are not causes: a host sees them as long round trips.
type Cause uint8

// Causes of cuts.
const (
	ByRTT       Cause = iota // a round trip, or that none ended within the retransmission timeout
	ByECN                    // marks, of an engine that requires ECN
	ByCNP                    // a congestion notification packet
	ByEIN                    // an explicit incast notification
	ByTelemetry              // what switches reported
	Causes      = iota
)

var causeNames = [Causes]string{"RTT", "ECN", "CNP", "EIN", "telemetry"}

func (c Cause) String() string { return causeNames[c] }

// Cuts counts how often an engine lowered its rate, to below the line's, or its window,
// by Cause.
type Cuts [Causes]uint64

// Total is the number of cuts by any cause.
func (c *Cuts) Total() uint64 {
	var n uint64
	for _, by := range c {
		n += by
	}
	return n
}

func (c *Cuts) add(d *Cuts) {
	for by, n := range d {
		c[by] += n
	}
}

// causeOf returns the signal of an acknowledgement that the engine uses.
func (q *QP) causeOf(a *cc.Ack) Cause {
	switch scheme := q.shard.scheme; {
	case scheme == nil:
	case scheme.EIN && a.EIN:
		return ByEIN
	case scheme.Telemetry != telemetry.None:
		return ByTelemetry
	case scheme.ECN && !scheme.CNP:
		return ByECN
	}
	return ByRTT
}
