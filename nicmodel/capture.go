package nicmodel

import (
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Sent is a packet as it goes on the wire.
type Sent struct {
	Header       *rc.Header // read-only
	SrcQP, DstQP uint32
	QKey         uint32        // of a datagram
	Bytes        int           // of payload
	Payload      []byte        // nil where it is a phantom's, which are zeros; read-only
	Src          int32         // the host that sends it
	Frame        *fabric.Frame // read-only
}

// OnTransmit calls f with each packet of which the NIC puts the first bit on the wire,
// valid during the call. nil removes the callback.
func (n *NIC) OnTransmit(f func(now units.Time, p *Sent)) {
	if f == nil {
		n.mac.capture = nil
		return
	}
	n.mac.capture = func(now units.Time, h fabric.Handle) {
		x := n.chip.Frames.At(h)
		p := Sent{
			Header: &x.Desc.Header, SrcQP: x.SrcQPN, DstQP: x.DstQPN, QKey: x.QKey, Bytes: x.Desc.Payload, Src: n.chip.Net.Packet(h).Src, Frame: &x.Wire,
		}
		if x.Buffer != 0 {
			p.Payload = n.chip.Frames.Bytes(x.Buffer)[:p.Bytes]
		}
		f(now, &p)
	}
}
