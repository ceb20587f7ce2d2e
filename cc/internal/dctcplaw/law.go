// Package dctcplaw is DCTCP's window: TCP's slow start and additive increase, and
// once a window of data a cut in proportion to the share of it that met congestion
// marks. DCTCP is this law; Pulser is this law between incasts.
//
// Source: M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.3;
// what it takes from TCP and leaves unsaid is RFC 8257's, RFC 5681's and RFC 7661's.
//
// Units: windows and counts in bytes.
package dctcplaw

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// Params holds an engine's settings of the law. Windows are in packets of the MTU.
type Params struct {
	G            float64 // weight of a new fraction, in (0, 1]
	InitialAlpha float64 // in [0, 1]
	InitialCwnd  float64 // at least 1; 0 is RFC 3390's
	MinCwnd      float64 // at least 1
}

// MaxPackets bounds the windows that can be configured.
const MaxPackets = 1e9

// Window is the window of one flow.
type Window struct {
	g, mtu, least float64

	Cwnd     float64 // bytes
	ssthresh float64 // bytes
	// Alpha estimates the share of bytes that are marked.
	Alpha float64

	// What is acknowledged, and of that marked, since the latest update of Alpha; the
	// next is when what was sent by then is acknowledged.
	seen, marked float64
	update       units.Bytes
	started      bool
	// Until this much is acknowledged the window neither falls again nor grows.
	recover units.Bytes

	acked, sent units.Bytes // of the latest acknowledgement
	timedOut    bool        // since
}

// New returns the window that a flow starts with.
func New(p Params, mtu units.Bytes) Window {
	m := float64(mtu)
	start := float64(p.InitialCwnd * m)
	if p.InitialCwnd == 0 {
		start = min(4*m, max(2*m, 4380)) // RFC 3390, equation 1
	}
	return Window{
		g: p.G, mtu: m, least: float64(p.MinCwnd * m),
		Cwnd: start, ssthresh: noThreshold, Alpha: p.InitialAlpha,
	}
}

// noThreshold is above any window: slow start goes on until something is amiss.
const noThreshold = 1e18

// Ack handles an acknowledgement. With held the window does not change, but its
// memory does.
func (w *Window) Ack(a *cc.Ack, held bool) {
	w.observe(a)
	if held || a.Acked < w.recover {
		return
	}
	if a.ECN {
		// cwnd <- cwnd (1 - alpha/2), equation 2.
		w.reduce(float64(w.Cwnd * (1 - w.Alpha/2)))
		return
	}
	if a.AppLimited || a.RTT <= 0 {
		return
	}
	// A window that is not used is not known to be right (RFC 7661): what was
	// outstanding until now has to fill it, or in slow start half of it.
	bytes := float64(a.Bytes)
	outstanding := float64(a.Sent-a.Acked) + bytes
	if w.Cwnd < w.ssthresh {
		if 2*outstanding > w.Cwnd {
			w.Cwnd += min(bytes, w.Cwnd)
		}
	} else if outstanding+w.mtu > w.Cwnd {
		w.Cwnd += float64(w.mtu*min(bytes, w.Cwnd)) / w.Cwnd
	}
	w.Cwnd = min(w.Cwnd, MaxPackets*w.mtu)
}

// observe is equation 1, once a window of data: alpha <- (1 - g) alpha + g F.
func (w *Window) observe(a *cc.Ack) {
	w.acked, w.sent, w.timedOut = a.Acked, a.Sent, false
	if !w.started {
		w.started, w.update = true, a.Sent
	}
	w.seen += float64(a.Bytes)
	if a.ECN {
		w.marked += float64(a.Bytes)
	}
	if a.Acked < w.update || w.seen == 0 {
		return
	}
	w.Alpha = float64((1-w.g)*w.Alpha) + float64(w.g*(w.marked/w.seen))
	w.seen, w.marked, w.update = 0, 0, a.Sent
}

// reduce sets the window for the rest of a window of data.
func (w *Window) reduce(to float64) {
	w.Cwnd = min(max(to, w.least), w.Cwnd)
	w.ssthresh, w.recover = w.Cwnd, w.sent
}

// Loss halves the window, once a window of data, as TCP does (RFC 8257 section 3.5).
func (w *Window) Loss() {
	if w.acked >= w.recover {
		w.reduce(w.Cwnd / 2)
	}
}

// Timeout starts again from one packet (RFC 5681 section 3.1); in a row of timeouts
// the first decides how far slow start goes.
func (w *Window) Timeout() {
	if !w.timedOut {
		w.ssthresh = max(w.Cwnd/2, w.least)
	}
	w.Cwnd, w.recover, w.timedOut = w.mtu, w.acked, true
}

// Bytes returns the window as cc.Control has it: one packet at least.
func (w *Window) Bytes() units.Bytes { return units.Bytes(detmath.Int64(max(w.Cwnd, w.mtu))) }

// SlowStart reports whether the window doubles each round trip.
func (w *Window) SlowStart() bool { return w.Cwnd < w.ssthresh }
