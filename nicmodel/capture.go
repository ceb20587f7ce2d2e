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
		x := n.frames.at(h)
		p := Sent{
			Header: &x.desc.Header, SrcQP: x.srcQPN, DstQP: x.dstQPN, QKey: x.qkey, Bytes: x.desc.Payload, Src: n.net.Packet(h).Src, Frame: &x.wire,
		}
		if x.buffer != 0 {
			p.Payload = n.frames.bytes(x.buffer)[:p.Bytes]
		}
		f(now, &p)
	}
}
