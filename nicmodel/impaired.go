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
	m := &impaired{NIC: n, wire: w, src: n.chip.Engine.NewSource()}
	m.id = n.chip.Engine.AddHandler(m)
	n.chip.Net.Attach(n.chip.Host, m)
}

// Arrive implements fabric.Endpoint.
func (m *impaired) Arrive(x *fabric.Lane, now units.Time, h fabric.Handle, w *fabric.Frame) {
	f := m.wire.Carry(now, int(m.chip.Net.Packet(h).Src), int(w.Dst))
	switch {
	case f.Drop || f.Corrupt:
		m.chip.Release(h)
		return
	case f.Mark && w.Flags&fabric.ECT != 0:
		w.Flags |= fabric.CE
	}
	m.chip.Frames.At(h).Wire = *w
	switch {
	case f.Duplicate:
		m.chip.Engine.Schedule(now+f.Delay, &m.src, m.id, 0, uint64(m.chip.Copy(h)))
	case f.Delay > 0:
		m.chip.Engine.Schedule(now+f.Delay, &m.src, m.id, 0, uint64(h))
		return
	}
	m.NIC.Arrive(x, now, h, w)
}

// Handle implements des.Handler: a packet comes late.
func (m *impaired) Handle(ev des.Event) {
	h := fabric.Handle(ev.Arg)
	m.NIC.Arrive(m.chip.Net.Lane(0), ev.At, h, &m.chip.Frames.At(h).Wire)
}
