package cc

import "github.com/sluice-rdma/sluice/units"

// Driver does what every sender does for the engine of one flow, in a host's shim as
// in a NIC. It holds the engine's Control. It measures whether the application or the
// engine limits the flow, and how much of a round trip an acknowledgement covers
// (TIMELY section 5). It gates by window and path, and finds what a new Control
// changes. The sender keeps what it alone knows: clocks, queues, the pace of its
// packets.
//
// A Driver is plain state: the caller passes the time, and nothing allocates. The
// zero value has no engine; Hold gives it a Control. It is not safe for concurrent
// use.
type Driver struct {
	// First what each unit needs, close together.
	engine  Engine // nil for none
	control Control
	rate    units.Rate // control's, and no more than the line's
	line    units.Rate
	unit    units.Bytes // that leaves in one piece: a full packet or segment
	baseRTT units.Time

	gap, span units.Time // of a full unit at rate; over which the rate is measured
	app       appLimit
	scaler    UpdateScaler
	shut      bool // the window has held the flow back, and nothing was sent since
	everShut  bool
	capped    bool
	opened    units.Time // when the window last held nothing back again, if everShut
	cap       units.Rate // if capped

	awaited bool // the newest unit requests an acknowledgement
	path    uint32
	cnps    uint64 // passed to the engine, or received before it

	pathed  Pathed  // the engine, or nil
	granted Granted // the engine, or nil
}

const (
	// spanUnits is the least time over which a flow's rate is measured, in units' times, so
	// that one more or less is not the 20 percent in question.
	spanUnits = 8
	// longestGap keeps sums of spans far from overflow.
	longestGap = 3600 * units.Second
)

// Start installs an engine at a sender whose port has that line rate, which sends
// unit bytes in one piece and whose shortest round trip is baseRTT. It resets all
// earlier state.
func (d *Driver) Start(e Engine, line units.Rate, unit units.Bytes, baseRTT units.Time) {
	*d = Driver{engine: e, line: line, unit: unit, baseRTT: baseRTT}
	d.control.Rate = -1 // which differs from any
	d.pathed, _ = e.(Pathed)
	d.granted, _ = e.(Granted)
	d.Apply(e.Control())
}

// Hold sets a Control that no engine changes.
func (d *Driver) Hold(c Control) { *d = Driver{control: c} }

// Engine returns the engine, or nil if there is none.
func (d *Driver) Engine() Engine { return d.engine }

// Control returns the current Control.
func (d *Driver) Control() Control { return d.control }

// AtLine reports whether the engine's rate is the line's or more.
func (d *Driver) AtLine() bool { return d.control.Rate >= d.line }

// Free reports whether no rate holds anything back: neither the engine's nor a cap.
func (d *Driver) Free() bool { return d.AtLine() && !d.capped }

// Rate returns the rate to send at where it is not Free: the engine's, and no more than the line's
// and the cap.
func (d *Driver) Rate() units.Rate { return d.rate }

// Cap bounds the rate to r, of at least 1 bps, until the next Start, whatever the engine allows.
// It does nothing without an engine.
func (d *Driver) Cap(r units.Rate) {
	if d.engine == nil {
		return
	}
	c := d.control
	d.capped, d.cap = true, r
	d.control.Rate = -1 // which differs from any
	d.Apply(c)
}

// Gap returns the time that a full unit takes at the current rate, an hour at most.
func (d *Driver) Gap() units.Time { return d.gap }

// Sent takes note that n bytes leave now for the first time.
func (d *Driver) Sent(now units.Time, n units.Bytes) {
	if d.engine == nil {
		return
	}
	d.app.sent(now, n, d.rate, d.serialize(d.rate, n), d.gap, d.span)
	if d.shut {
		d.shut = false
		d.opened = now
		d.everShut = true
	}
}

// serialize returns how long n bytes last at a rate, which is the current one. For a full
// unit that is known, which saves a division.
func (d *Driver) serialize(rate units.Rate, n units.Bytes) units.Time {
	if n == d.unit && d.gap < longestGap {
		return d.gap
	}
	return rate.Serialize(n)
}

// Fits reports whether the window lets n more bytes go with out outstanding. One
// unit may always be, unless the window is 0.
func (d *Driver) Fits(out, n units.Bytes) bool {
	return out+n <= d.control.Window || out == 0 && d.control.Window > 0
}

// MayAsk reports whether one more unit may go though it does not fit, where nothing that
// is outstanding asks for an acknowledgement: it is to ask for one. A window that has shrunk
// below what is outstanding would wait for ever, but for the transport's timer.
func (d *Driver) MayAsk() bool { return d.control.Window > 0 }

// Shut takes note that the window holds something back, until the next Sent. A flow
// that fills its window is not limited by the application, however slow it is.
func (d *Driver) Shut() { d.shut = true }

// Complete fills in the fields of an acknowledgement that every sender computes alike,
// a.AppLimited and a.Scale, from a.Now and a.Bytes. out is the bytes outstanding after
// it.
func (d *Driver) Complete(a *Ack, out units.Bytes) {
	a.AppLimited = d.app.limited && d.slack(a.Now, out+a.Bytes)
	a.Scale = d.scaler.Scale(a.Now, d.baseRTT)
}

// slack reports whether the window was not what limited the flow: it has held
// nothing back for two spans, and less than 80 percent of it were used just now.
func (d *Driver) slack(now units.Time, used units.Bytes) bool {
	return !d.shut && (!d.everShut || now-d.opened > 2*d.span) && used/4 < d.control.Window/5
}

// CNPs takes the number of congestion notification packets received so far, and
// returns how many of them are new to the engine. They share an instant and count
// as one: call Engine.OnCNP once for them.
func (d *Driver) CNPs(total uint64) (fresh uint64) {
	fresh, d.cnps = total-d.cnps, total
	return fresh
}

// SetBack sets back the clock by which it is called: see Timed.
func (d *Driver) SetBack(by units.Time) {
	d.app.start, d.app.last = d.app.start.SetBack(by), d.app.last.SetBack(by)
	d.scaler.last, d.opened = d.scaler.last.SetBack(by), d.opened.SetBack(by)
	if e, ok := d.engine.(Timed); ok {
		e.SetBack(by)
	}
}

// OnGrant gives the engine a receiver's grant. If the engine takes no grants, it
// returns the current Control.
func (d *Driver) OnGrant(now units.Time, sent units.Bytes, g Grant) Control {
	if d.granted == nil {
		return d.control
	}
	return d.granted.OnGrant(now, sent, g)
}

// Change is a set of differences between two Controls.
type Change uint8

// Changes.
const (
	ChangedRate   Change = 1 << iota // another rate, or another class
	ChangedWindow                    // a smaller window
	ChangedDown                      // a cut: of the rate, to below the line's, or of the window
)

// Apply makes c the current Control, and returns what that changes.
func (d *Driver) Apply(c Control) (change Change) {
	if c.Window < d.control.Window {
		change = ChangedWindow | ChangedDown
	}
	if c.Rate < d.rate {
		change |= ChangedDown
	}
	before := d.control.Rate
	d.control = c
	if c.Rate == before {
		return change
	}
	rate := max(min(c.Rate, d.line), 1)
	if d.capped {
		rate = min(rate, d.cap)
	}
	gap := min(rate.Serialize(d.unit), longestGap)
	d.rate, d.gap, d.span = rate, gap, max(d.baseRTT, spanUnits*gap)
	if rate < d.app.slowest {
		d.app.slows(rate, d.serialize(rate, d.app.bytes))
	}
	return change | ChangedRate
}

// Turns reports whether the engine has chosen another path (Pathed) while packets
// sent on the present one are still to be acknowledged. Nothing new is sent while
// anything is outstanding.
func (d *Driver) Turns() bool {
	return d.pathed != nil && d.awaited && d.pathed.Path() != d.path
}

// Path returns the number of the path for a unit that leaves with out bytes
// outstanding; awaited says that the unit requests an acknowledgement.
func (d *Driver) Path(out units.Bytes, awaited bool) uint32 {
	d.awaited = awaited
	if d.pathed != nil && out == 0 {
		d.path = d.pathed.Path()
	}
	return d.path
}
