package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// The network's telemetry in acknowledgements: a responder notes the marks and delays of
// a request's packets, and its next acknowledgement carries them. The requester reports
// them to its engine and to the host.

// attachEcho gives an acknowledgement what the packets since the last one met,
// and returns how many bytes that takes.
func (q *qp) attachEcho(now units.Time, c *chip.Chip, h fabric.Handle, f *frames.Frame) units.Bytes {
	f.Echo = q.echo
	f.Echo.Held = now - q.echo.Arrived
	q.echo = frames.Echo{SentAt: q.echo.SentAt, Arrived: q.echo.Arrived}
	var size units.Bytes
	switch q.cong.Telemetry {
	case telemetry.MaxDelay:
		f.Wire.Telemetry = telemetry.MaxDelay // for the way back
		size = frames.ReflectedDelayBytes
	case telemetry.PerHop:
		if q.echoPacket != 0 {
			from := &c.Frames.At(q.echoPacket).Wire
			if path := c.Lane.INT(q.echoPacket, from); path != nil {
				size = c.Net.TelemetryBytes(telemetry.PerHop, int(path.N))
				c.Net.MoveINT(q.echoPacket, from, h, &f.Wire)
			}
		}
	}
	q.dropEcho(c)
	return size
}

func (q *qp) dropEcho(c *chip.Chip) {
	if q.echoPacket != 0 {
		c.Release(q.echoPacket)
		q.echoPacket = 0
	}
}

// noteEcho remembers what a request packet met, for the next acknowledgement. It
// reports whether it keeps the packet, for its per-hop records.
func (q *qp) noteEcho(c *chip.Chip, h fabric.Handle, f *frames.Frame) (kept bool) {
	e, w := &q.echo, &f.Wire
	e.SentAt, e.Arrived = f.SentAt, f.Arrived
	e.ECN = e.ECN || w.Flags&fabric.CE != 0
	e.EIN = e.EIN || w.Flags&fabric.EIN != 0
	e.Circuit = w.Flags&fabric.Circuit != 0
	switch w.Telemetry {
	case telemetry.MaxDelay:
		e.HasDelay = true
		e.MaxDelay = max(e.MaxDelay, w.MaxDelay)
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

func (r *Report) fromAck(x *fabric.Lane, h fabric.Handle, f *frames.Frame) {
	r.ECN, r.EIN = f.Echo.ECN, f.Echo.EIN
	r.HasMaxDelay = f.Echo.HasDelay
	r.MaxHopDelay, r.ReverseMaxHopDelay = f.Echo.MaxDelay, f.Wire.MaxDelay
	r.Hops, r.Held = f.Wire.Hops, f.Echo.Held // paths are as long back as forth
	r.copyPath(x, h, &f.Wire)
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
func (p *pairs) Reported(num, slot uint32) *Report {
	q := p.find(num)
	if q == nil || q.reports == nil {
		return nil
	}
	return &q.reports[slot]
}

// read reads the telemetry of an answer, and reports whether a packet is one.
func (r *Report) read(x *fabric.Lane, h fabric.Handle, f *frames.Frame) bool {
	switch f.Desc.Header.Opcode {
	case ib.Acknowledge, ib.AtomicAcknowledge:
		r.fromAck(x, h, f)
	case ib.ReadResponseFirst, ib.ReadResponseMiddle, ib.ReadResponseLast, ib.ReadResponseOnly:
		r.fromData(x, h, &f.Wire)
	default:
		return false
	}
	return true
}
