package nicmodel

import (
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// The network's telemetry in acknowledgements: a responder notes the marks and delays of
// a request's packets, and its next acknowledgement carries them. The requester reports
// them to its engine and to the host.

// echo is what a responder reports back about the packets that it has received
// since it last did.
type echo struct {
	sentAt   units.Time // of the newest
	arrived  units.Time // when the newest did
	held     units.Time // in an acknowledgement: since then
	maxDelay units.Time // of any
	hasDelay bool
	ecn, ein bool
	circuit  bool // the newest
}

// attachEcho gives an acknowledgement what the packets since the last one met,
// and returns how many bytes that takes.
func (q *qp) attachEcho(now units.Time, c *chip, h fabric.Handle, f *frame) units.Bytes {
	f.echo = q.echo
	f.echo.held = now - q.echo.arrived
	q.echo = echo{sentAt: q.echo.sentAt, arrived: q.echo.arrived}
	var size units.Bytes
	switch q.cong.Telemetry {
	case telemetry.MaxDelay:
		f.wire.Telemetry = telemetry.MaxDelay // for the way back
		size = reflectedDelayBytes
	case telemetry.PerHop:
		if q.echoPacket != 0 {
			from := &c.frames.at(q.echoPacket).wire
			if path := c.lane.INT(q.echoPacket, from); path != nil {
				size = telemetry.PerHop.WireBytes(int(path.N))
				c.net.MoveINT(q.echoPacket, from, h, &f.wire)
			}
		}
	}
	q.dropEcho(c)
	return size
}

func (q *qp) dropEcho(c *chip) {
	if q.echoPacket != 0 {
		c.release(q.echoPacket)
		q.echoPacket = 0
	}
}

// noteEcho remembers what a request packet met, for the next acknowledgement. It
// reports whether it keeps the packet, for its per-hop records.
func (q *qp) noteEcho(c *chip, h fabric.Handle, f *frame) (kept bool) {
	e, w := &q.echo, &f.wire
	e.sentAt, e.arrived = f.sentAt, f.arrived
	e.ecn = e.ecn || w.Flags&fabric.CE != 0
	e.ein = e.ein || w.Flags&fabric.EIN != 0
	e.circuit = w.Flags&fabric.Circuit != 0
	switch w.Telemetry {
	case telemetry.MaxDelay:
		e.hasDelay = true
		e.maxDelay = max(e.maxDelay, w.MaxDelay)
	case telemetry.PerHop:
		q.dropEcho(c)
		q.echoPacket = h
		return true
	}
	return false
}

// Report is what the network reported about the packets of a request, at the
// acknowledgement that completed it.
type Report struct {
	MaxHopDelay, ReverseMaxHopDelay units.Time
	HasMaxDelay, ECN, EIN           bool
	Hops                            uint8      // cc.Ack.Hops
	Held                            units.Time // cc.Ack.Held
	Path                            telemetry.Stack
}

func (r *Report) fromAck(x *fabric.Lane, h fabric.Handle, f *frame) {
	r.ECN, r.EIN = f.echo.ecn, f.echo.ein
	r.HasMaxDelay = f.echo.hasDelay
	r.MaxHopDelay, r.ReverseMaxHopDelay = f.echo.maxDelay, f.wire.MaxDelay
	r.Hops, r.Held = f.wire.Hops, f.echo.held // paths are as long back as forth
	r.copyPath(x, h, &f.wire)
}

// fromData reads the telemetry of a READ response, whose way is the one that the
// data takes.
func (r *Report) fromData(x *fabric.Lane, h fabric.Handle, w *fabric.Frame) {
	r.ECN, r.EIN = w.Flags&fabric.CE != 0, w.Flags&fabric.EIN != 0
	r.HasMaxDelay = w.Telemetry == telemetry.MaxDelay
	r.MaxHopDelay, r.ReverseMaxHopDelay = w.MaxDelay, 0
	r.Hops, r.Held = w.Hops, 0
	r.copyPath(x, h, w)
}

func (r *Report) copyPath(x *fabric.Lane, h fabric.Handle, w *fabric.Frame) {
	r.Path.N = 0
	if s := x.INT(h, w); s != nil {
		r.Path.N, r.Path.Overflow = s.N, s.Overflow
		copy(r.Path.Path(), s.Path())
	}
}

// Reported returns what the network reported about a completed send request, on a
// queue pair whose packets collect telemetry. The result is valid until the slot is
// used again.
func (n *NIC) Reported(num, slot uint32) *Report {
	q := n.pairs.find(num)
	if q == nil || q.reports == nil {
		return nil
	}
	return &q.reports[slot]
}
