package paced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
)

// Cause is what an engine answered with a lower rate or window, as far as a host can
// tell. Losses and timeouts are none: a host hears of them as long round trips.
type Cause uint8

// Causes of cuts.
const (
	ByRTT       Cause = iota // a round trip
	ByECN                    // marks, of an engine that lives on them
	ByCNP                    // a congestion notification packet
	ByEIN                    // an early incast notice
	ByTelemetry              // what switches reported
	Causes      = iota
)

var causeNames = [Causes]string{"RTT", "ECN", "CNP", "EIN", "telemetry"}

func (c Cause) String() string { return causeNames[c] }

// Cuts counts an engine's answers that lowered rate or window, by Cause.
type Cuts [Causes]uint64

// answer counts and applies what the engine says to something.
func (q *QP) answer(by Cause, c cc.Control) {
	if c.Rate < q.control.Rate || c.Window < q.control.Window {
		q.tally.cuts[by]++
	}
	q.obey(c)
}

// causeOf says what of an acknowledgement an engine goes by.
func (q *QP) causeOf(a *cc.Ack) Cause {
	switch scheme := q.shim.scheme; {
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
