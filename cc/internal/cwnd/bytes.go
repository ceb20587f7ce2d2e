package cwnd

import (
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// Bytes is a window in bytes whose rate is the window over the base round trip
// (HPCC, SIGCOMM 2019, Algorithm 1 line 27; PowerTCP, NSDI 2022, Algorithm 1 line 6).
// The algorithms have no rule for losses: the window keeps bounding what is in
// flight.
type Bytes struct {
	Cwnd        float64 // bytes
	least, most float64 // bytes

	bitsPerSecond float64 // of a byte each base RTT
	mtu, perMTU   float64 // bytes, and one over it
	lineRate      float64 // bits per second
	control       cc.Control
}

// maxBytes is a bound that no sender meets and whose control is a number still: bounds
// of any size are allowed.
const maxBytes = 1 << 62

const byteTime = 8 * float64(units.Second) // bit/s times ps are bytes over this

// BDP returns the bytes that the line rate carries in a base RTT.
func BDP(env cc.Env) float64 {
	return float64(float64(env.LineRate)*float64(env.BaseRTT)) / byteTime
}

// NewBytes returns the initial window of a flow, its port's bandwidth-delay
// product. The window stays within least and most, in bytes; where they cross, most
// applies. A most of 0 means the bandwidth-delay product.
func NewBytes(env cc.Env, least float64, most units.Bytes) Bytes {
	bdp := BDP(env)
	w := Bytes{
		most:          bdp,
		bitsPerSecond: byteTime / float64(env.BaseRTT),
		mtu:           float64(env.MTU), perMTU: 1 / float64(env.MTU),
		lineRate: float64(env.LineRate),
	}
	if most > 0 {
		w.most = float64(most)
	}
	w.most = min(w.most, maxBytes)
	w.least = min(least, w.most)
	w.Cwnd = min(bdp, w.most)
	w.Answer()
	return w
}

// Clamp returns the nearest window within the bounds.
func (w *Bytes) Clamp(cwnd float64) float64 { return min(max(cwnd, w.least), w.most) }

// Answer returns the control of the window as it is now. The window is whole packets,
// rounded up. Pacing carries the fraction; a window that a last packet does not fit
// into would cost up to one packet a round trip.
func (w *Bytes) Answer() cc.Control {
	rate := min(max(float64(w.Cwnd*w.bitsPerSecond)+0.5, 1), w.lineRate)
	packets := max(math.Ceil(float64(w.Cwnd*w.perMTU)-1e-9), 1) // less what rounding adds
	c := cc.Control{Rate: units.Rate(detmath.Int64(rate)), Window: units.Bytes(detmath.Int64(packets * w.mtu))}
	w.control = c
	return c
}

// AnswerOver is Answer with a window for another round trip than the base, share times
// as long: what the rate fills in it.
func (w *Bytes) AnswerOver(share float64) cc.Control {
	c := w.Answer()
	packets := max(math.Ceil(float64(float64(w.Cwnd*share)*w.perMTU)-1e-9), 1)
	c.Window = units.Bytes(detmath.Int64(packets * w.mtu))
	w.control = c
	return c
}

// OnLoss changes nothing.
func (w *Bytes) OnLoss(units.Time) cc.Control { return w.control }

// OnTimeout changes nothing.
func (w *Bytes) OnTimeout(units.Time) cc.Control { return w.control }

// OnCNP changes nothing: these engines take no signal but their own.
func (w *Bytes) OnCNP(units.Time) cc.Control { return w.control }

// Control returns the rate and the window that hold.
func (w *Bytes) Control() cc.Control { return w.control }
