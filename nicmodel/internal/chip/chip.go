package chip

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Chip is shared by the parts of a NIC: where it is, its configuration, the link to the host, the packets
// that it builds and receives, and the events that it schedules for itself.
type Chip struct {
	Engine *des.Engine
	Net    *fabric.Network
	Frames *frames.Slab
	Link   *pcie.Link
	Lane   *fabric.Lane // that the host runs on
	Host   int
	Line   units.Rate
	Tables uint64 // where its tables begin, of those of all ports

	id      des.NodeID
	src     des.Source
	called  units.Time // of what the lane called the NIC for last
	Divided bool       // the network is
	alarmAt units.Time // then, of the first of events that the host's alarm is set for, or Never
	events  agenda

	Spans  Tracer
	Config config.Config
}

// New is of a NIC at a host's port.
func New(e *des.Engine, net *fabric.Network, slab *frames.Slab, host int, line units.Rate, cfg config.Config, link *pcie.Link) Chip {
	return Chip{
		Config: cfg, Host: host, Line: line, Engine: e, Net: net, Frames: slab, Link: link, Spans: Tracer{host: host},
		src: e.NewSource(), Lane: net.Lane(0), Divided: net.Division() != nil, events: newAgenda(), alarmAt: units.Never,
	}
}

// HandledBy has h take the events.
func (c *Chip) HandledBy(h des.Handler) { c.id = c.Engine.AddHandler(h) }

// Enter notes what lane calls the NIC, and when.
func (c *Chip) Enter(x *fabric.Lane, now units.Time) { c.Lane, c.called = x, now }

// Schedule sends the NIC an event. It carries one integer; what has more to say is packed
// and unpacked here.
//
// In a divided network the NIC keeps its events itself: its host's alarm is the earliest.
func (c *Chip) Schedule(at units.Time, kind uint32, arg uint64) {
	if !c.Divided {
		c.Engine.Schedule(at, &c.src, c.id, kind, arg)
		return
	}
	c.events.add(at, kind, arg)
	if at < c.alarmAt {
		c.alarmAt = at
		c.Net.SetAlarm(c.Host, AlarmEvents, at)
	}
}

// Now is the time at the NIC: of what happens to it, or the engine's, which in a divided
// network stands still while hosts are at work.
func (c *Chip) Now() units.Time { return max(c.called, c.Engine.Now()) }

// Take takes out an event of now into ev, in a divided network. If there is none, it sets the host's alarm for the next.
// The event is not returned, since copies of it cost more than all else here.
func (c *Chip) Take(now units.Time, ev *des.Event) bool {
	c.alarmAt = now // what is added meanwhile is seen here
	next := c.events.take(now, ev)
	if next <= now {
		return true
	}
	if c.alarmAt = next; next != units.Never {
		c.Net.SetAlarm(c.Host, AlarmEvents, next)
	}
	return false
}

// Alloc returns a new packet and its frame.
func (c *Chip) Alloc() (fabric.Handle, *frames.Frame) {
	h := c.Lane.Alloc()
	c.Frames.Has(h)
	f := c.Frames.At(h)
	if f.Buffer != 0 { // the fabric dropped the packet, and knows of no payload
		c.Frames.GiveBack(f.Buffer)
	}
	f.Wire, f.Buffer, f.Next, f.Echo = fabric.Frame{}, 0, 0, frames.Echo{}
	return h, f
}

// Release returns a packet and its payload.
func (c *Chip) Release(h fabric.Handle) {
	f := c.Frames.At(h)
	if f.Buffer != 0 {
		c.Frames.GiveBack(f.Buffer)
		f.Buffer = 0
	}
	c.Lane.Free(h)
}

// Copy returns another packet like h, without records of switches.
func (c *Chip) Copy(h fabric.Handle) fabric.Handle {
	h2, to := c.Alloc()
	from := *c.Frames.At(h)
	*to = from
	w := &from.Wire
	to.Wire = fabric.Frame{
		MaxDelay: w.MaxDelay, Size: w.Size, Dst: w.Dst, FlowHash: w.FlowHash, Priority: w.Priority, Flags: w.Flags, Hops: w.Hops,
	}
	to.Next, to.Buffer = 0, 0
	if from.Buffer != 0 {
		data := c.Frames.Bytes(from.Buffer)
		var room []byte
		to.Buffer, room = c.Frames.Payload(len(data))
		copy(room, data)
	}
	*c.Net.Packet(h2) = *c.Net.Packet(h)
	return h2
}

// HasGRH reports whether packets have a global route header: over Ethernet the IP
// header is the route header; packets within an InfiniBand subnet have none (IBA
// 8.3).
func (c *Chip) HasGRH() bool { return c.Config.Framing != fabric.InfiniBand }
