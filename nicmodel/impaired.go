package nicmodel

import (
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
)

// impaired is a NIC at a port whose wire is at fault.
type impaired struct {
	*NIC
	wire fault.Wire
	src  des.Source
	id   des.NodeID
}

// Impair makes packets to the NIC go by a fault.Wire, which is asked as they arrive. A
// corrupt packet is dropped, as its ICRC would have it dropped. Undivided networks only.
func (n *NIC) Impair(w fault.Wire) {
	m := &impaired{NIC: n, wire: w, src: n.engine.NewSource()}
	m.id = n.engine.AddHandler(m)
	n.net.Attach(n.host, m)
}

// Arrive implements fabric.Endpoint.
func (m *impaired) Arrive(x *fabric.Lane, now units.Time, h fabric.Handle, w *fabric.Frame) {
	f := m.wire.Carry(now, int(m.net.Packet(h).Src), int(w.Dst))
	switch {
	case f.Drop || f.Corrupt:
		m.release(h)
		return
	case f.Mark && w.Flags&fabric.ECT != 0:
		w.Flags |= fabric.CE
	}
	m.frames.at(h).wire = *w
	switch {
	case f.Duplicate:
		m.engine.Schedule(now+f.Delay, &m.src, m.id, 0, uint64(m.copy(h)))
	case f.Delay > 0:
		m.engine.Schedule(now+f.Delay, &m.src, m.id, 0, uint64(h))
		return
	}
	m.NIC.Arrive(x, now, h, w)
}

// Handle implements des.Handler: a packet comes late.
func (m *impaired) Handle(ev des.Event) {
	h := fabric.Handle(ev.Arg)
	m.NIC.Arrive(m.net.Lane(0), ev.At, h, &m.frames.at(h).wire)
}

// copy returns another packet like h, without records of switches.
func (c *chip) copy(h fabric.Handle) fabric.Handle {
	h2, to := c.alloc()
	from := *c.frames.at(h)
	*to = from
	w := &from.wire
	to.wire = fabric.Frame{
		MaxDelay: w.MaxDelay, Size: w.Size, Dst: w.Dst, FlowHash: w.FlowHash, Priority: w.Priority, Flags: w.Flags, Hops: w.Hops,
	}
	to.next, to.buffer = 0, 0
	if from.buffer != 0 {
		data := c.frames.bytes(from.buffer)
		var room []byte
		to.buffer, room = c.frames.payload(len(data))
		copy(room, data)
	}
	*c.net.Packet(h2) = *c.net.Packet(h)
	return h2
}
