// Package wire writes the packets of a simulation's NICs as they stand on a RoCEv2 wire.
package wire

import (
	"cmp"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Capture writes packets to a pcapng file, with an interface for each system. Times are
// those of the simulation, as if it began in 1970; telemetry that switches write is left out.
// A nil Capture has nothing to settle.
type Capture struct {
	to    io.Writer
	ng    *pcapgo.NgWriter
	at    int    // the interface of the present system
	lanes []lane // of its network, since the last Settle
	held  []held // scratch of Settle
	err   error
}

// lane holds the packets sent by the NICs that a lane of the network runs.
type lane struct {
	frame []byte
	zeros []byte
	held  []held
	bytes []byte // theirs
	_     [64]byte
}

// held is a packet that is not written yet.
type held struct {
	at       units.Time
	host     int
	lane     *lane
	from, to int // in the lane's bytes
}

// NewCapture returns a capture that writes to w.
func NewCapture(w io.Writer) *Capture { return &Capture{to: w} }

// Begin has the packets that follow be a system's.
func (c *Capture) Begin(system string) error {
	link := pcapgo.DefaultNgInterface
	link.Name, link.LinkType = system, layers.LinkTypeEthernet
	var err error
	if c.ng == nil {
		c.ng, err = pcapgo.NewNgWriterInterface(c.to, link, pcapgo.DefaultNgWriterOptions)
		return err
	}
	c.at, err = c.ng.AddInterface(link)
	return err
}

// Watch writes the packets of the NICs of a network with that number of lanes as they are
// put on the wire: at once, or in a window of a divided network by Settle.
func (c *Capture) Watch(nics []*nicmodel.NIC, lanes int) {
	c.lanes = make([]lane, lanes)
	for host, nic := range nics {
		nic.OnTransmit(func(now units.Time, p *nicmodel.Sent) {
			x := &c.lanes[nic.Lane().Index()]
			b := x.build(p)
			if !nic.Lane().Concurrent() {
				c.write(now, b)
				return
			}
			x.held = append(x.held, held{now, host, x, len(x.bytes), len(x.bytes) + len(b)})
			x.bytes = append(x.bytes, b...)
		})
	}
}

// Settle writes what NICs have sent within a window of a divided network, in the order of
// time. Call it when no host is at work.
func (c *Capture) Settle() {
	if c == nil {
		return
	}
	all := c.held[:0]
	for i := range c.lanes {
		all = append(all, c.lanes[i].held...)
	}
	slices.SortStableFunc(all, func(a, b held) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.host, b.host)) })
	for i := range all {
		h := &all[i]
		c.write(h.at, h.lane.bytes[h.from:h.to])
	}
	for i := range c.lanes {
		x := &c.lanes[i]
		x.held, x.bytes = x.held[:0], x.bytes[:0]
	}
	c.held = all
}

// write writes a packet.
func (c *Capture) write(now units.Time, b []byte) {
	if c.err != nil {
		return
	}
	c.err = c.ng.WritePacket(gopacket.CaptureInfo{
		Timestamp: time.Unix(0, int64(now/units.Nanosecond)), CaptureLength: len(b), Length: len(b), InterfaceIndex: c.at,
	}, b)
}

// Close writes what is not written yet, and returns the first error.
func (c *Capture) Close() error {
	if c.err == nil && c.ng != nil {
		c.err = c.ng.Flush()
	}
	return c.err
}

// build puts a packet into bytes, without FCS.
func (x *lane) build(p *nicmodel.Sent) []byte {
	const overhead = roce.EthernetBytes + roce.IPv6Bytes + roce.UDPBytes + roce.MaxHeaderBytes + 3 + roce.ICRCBytes
	if need := overhead + p.Bytes; len(x.frame) < need {
		x.frame, x.zeros = make([]byte, need), make([]byte, p.Bytes)
	}
	t := roce.Packet{Header: *p.Header, DestQP: p.DstQP, PKey: roce.DefaultPKey, Pad: roce.Pad(p.Bytes), QKey: p.QKey, SrcQP: p.SrcQP}
	if t.Opcode == ib.CNP {
		t = roce.CNP(p.DstQP, roce.DefaultPKey)
	}
	b := x.frame
	ipBytes, etherType := roce.IPv4Bytes, uint16(roce.EtherTypeIPv4)
	if p.IPv6 {
		ipBytes, etherType = roce.IPv6Bytes, roce.EtherTypeIPv6
	}
	n := roce.EthernetBytes + ipBytes + roce.UDPBytes
	n += t.Put(b[n:])
	payload := p.Payload
	if payload == nil {
		payload = x.zeros[:p.Bytes]
	}
	n += copy(b[n:], payload)
	n += roce.PutPad(b[n:], t.Pad)
	n += roce.ICRCBytes
	ipLen := n - roce.EthernetBytes
	eth := roce.EthernetFields{Dst: mac(p.Frame.Dst), Src: mac(p.Src), EtherType: etherType}
	eth.Put(b)
	tos := p.Frame.Priority << 5
	if p.Frame.Flags&fabric.ECT != 0 {
		tos |= roce.ECNECT0
	}
	if p.IPv6 {
		ip := roce.IPv6Fields{TrafficClass: tos, PayloadLen: ipLen - ipBytes, HopLimit: 64, Src: addr6(p.Src), Dst: addr6(p.Frame.Dst)}
		ip.Put(b[roce.EthernetBytes:])
	} else {
		ip := roce.IPv4Fields{TOS: tos, TotalLen: ipLen, TTL: 64, DontFragment: true, Src: addr(p.Src), Dst: addr(p.Frame.Dst)}
		ip.Put(b[roce.EthernetBytes:])
	}
	udp := roce.UDPFields{SrcPort: 0xc000 | uint16(p.Frame.FlowHash&0x3fff), DstPort: roce.Port, Len: ipLen - ipBytes}
	udp.Put(b[roce.EthernetBytes+ipBytes:])
	roce.PutICRC(b[roce.EthernetBytes:n])
	return b[:n]
}

// addr is a host's address: 10.0.0.1 is the first's.
func addr(host int32) netip.Addr {
	n := uint32(host) + 1
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// addr6 is a host's IPv6 address: fd00::a00:1 is the first's.
func addr6(host int32) netip.Addr {
	a := [16]byte{0: 0xfd}
	v4 := addr(host).As4()
	copy(a[12:], v4[:])
	return netip.AddrFrom16(a)
}

// mac is a host's, locally administered.
func mac(host int32) roce.MAC {
	a := addr(host).As4()
	return roce.MAC{0x02, 0, a[0], a[1], a[2], a[3]}
}
