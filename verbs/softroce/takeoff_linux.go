package softroce

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// takeOff removes from a received frame, or from a packet without an Ethernet
// header, what c has packets collect. It returns the frame as its sender's NIC sent
// it, and the telemetry removed. It writes to b, which the records share.
func (c *collect) takeOff(b []byte, ethernet bool) ([]byte, endpoint.Brought) {
	var out endpoint.Brought
	if c.tags && ethernet {
		if t, ok := c.delay.Find(b); ok {
			out.Tags = t
			b = t.Remove(b)
		}
	}
	if c.int {
		b, out.INT = c.takeINT(b, ethernet)
	}
	return b, out
}

// takeINT takes shim and records out of a datagram for the INT port, and puts back
// lengths and port: what a sink does (docs/telemetry.md).
func (c *collect) takeINT(b []byte, ethernet bool) ([]byte, telemetry.INT) {
	ip := 0
	if ethernet {
		if len(b) < roce.EthernetBytes {
			return b, nil
		}
		kind, at, _ := roce.Ethernet(b).Payload()
		if kind != roce.EtherTypeIPv4 && kind != roce.EtherTypeIPv6 {
			return b, nil
		}
		ip = at
	}
	const protocolUDP = 17
	h := b[ip:]
	header := 0
	switch {
	case len(h) >= roce.IPv4Bytes && h[0] == 0x45 && roce.IPv4(h).Protocol() == protocolUDP && !roce.IPv4(h).IsFragment():
		header = roce.IPv4Bytes
	case len(h) >= roce.IPv6Bytes && h[0]>>4 == 6 && roce.IPv6(h).NextHeader() == protocolUDP:
		header = roce.IPv6Bytes
	default:
		return b, nil
	}
	if len(h) < header+roce.UDPBytes {
		return b, nil
	}
	udp := roce.UDP(h[header:])
	total := header + udp.Len()
	if udp.DstPort() != c.hops.Port || udp.Len() < roce.UDPBytes || total > len(h) {
		return b, nil
	}
	payload := h[header+roce.UDPBytes : total]
	v, _, err := c.hops.Form.Parse(payload)
	if err != nil || c.hops.Form.Port(v) != roce.Port {
		return b, nil
	}
	if header == roce.IPv4Bytes {
		if roce.IPv4(h).TotalLen() != total {
			return b, nil
		}
	} else if roce.IPv6(h).PayloadLen() != udp.Len() {
		return b, nil
	}
	// The headers move to the records' end, and the records to where they were.
	n := len(v)
	var records [telemetry.MaxINTBytes]byte
	copy(records[:], v)
	headers := ip + header + roce.UDPBytes
	copy(b[n:n+headers], b[:headers])
	v = telemetry.INT(b[:n:n])
	copy(v, records[:])
	b = b[n:]
	h = b[ip:]
	setLengths(h, header, total-n, roce.Port)
	return b, v
}

// setLengths writes the length of an IP packet with a UDP datagram, and the
// datagram's destination port, without a checksum.
func setLengths(p []byte, header, total int, port uint16) {
	be := binary.BigEndian
	if header == roce.IPv4Bytes {
		be.PutUint16(p[2:], uint16(total))
		roce.IPv4(p).SetChecksum()
	} else {
		be.PutUint16(p[4:], uint16(total-header))
	}
	udp := p[header:]
	be.PutUint16(udp[2:], port)
	be.PutUint16(udp[4:], uint16(total-header))
	be.PutUint16(udp[6:], 0)
}

// putINT inserts shim and records behind the UDP header of the IP packet of total
// bytes at offset at in b. It moves the headers towards the front, where there is
// room, and returns the packet's new offset.
func (c *collect) putINT(b []byte, at, header, total int, m *carried) int {
	form := c.hops.Form
	n := form.Bytes(0)
	if len(m.INT) > 0 {
		n = len(m.INT)
	}
	headers := header + roce.UDPBytes
	copy(b[at-n:], b[at:at+headers])
	shim := b[at-n+headers:]
	if len(m.INT) > 0 {
		form.PutReflected(shim, m.INT, roce.Port)
	} else {
		form.Put(shim, roce.Port)
	}
	at -= n
	setLengths(b[at:], header, total+n, c.hops.Port)
	return at
}

// putTags puts an Ethernet header with tags in front of the IP packet at at in b, for
// which there is room, and returns where the frame begins.
func (c *collect) putTags(b []byte, at int, hop *neighbour, six bool, m *carried) int {
	tags := c.delay.Form.Bytes()
	n := tags
	if m.HasReturns {
		n += tags
	}
	begin := at - n - roce.EthernetBytes
	e := roce.EthernetFields{Dst: hop.mac, Src: hop.own, EtherType: roce.EtherTypeIPv4}
	if six {
		e.EtherType = roce.EtherTypeIPv6
	}
	e.Put(b[begin+n:])
	copy(b[begin:], b[begin+n:begin+n+12]) // the addresses
	t := begin + 12
	t += c.delay.Put(b[t:], telemetry.DelayTag{})
	if m.HasReturns {
		r := m.Returns
		r.Reflected = true
		c.delay.Put(b[t:], r)
	}
	return begin
}
