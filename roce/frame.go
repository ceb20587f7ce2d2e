package roce

import (
	"encoding/binary"
	"net/netip"
)

// Frame says where the parts of a RoCEv2 packet lie, and the fields of IP and
// UDP that a receiver acts on. The slices share the memory of what was parsed.
type Frame struct {
	IP []byte // from the IP header to the ICRC
	IB []byte // from the BTH to the ICRC: the payload of the UDP datagram

	Src, Dst netip.Addr
	SrcPort  uint16
	TOS      uint8  // IPv4 TOS or IPv6 traffic class
	TTL      uint8  // or hop limit
	Tag      uint16 // the inner VLAN tag, 0 without one

	// Len is the length of IB that the headers state. It is larger than len(IB)
	// only after the error Cut.
	Len int
}

// ECN returns the ECN codepoint that the packet arrived with.
func (f *Frame) ECN() uint8 { return f.TOS & ecnMask }

// ParseEthernet finds the RoCEv2 packet in an Ethernet frame, tagged or not. The
// frame check sequence may or may not be at the end, and so may padding.
//
// The error is ErrNotRoCE, or a Malformed if UDP port 4791 was named but the rest
// is wrong. After the error Cut, the fields of all headers present are set:
// captures with a short snap length end this way.
func (f *Frame) ParseEthernet(b []byte) error {
	*f = Frame{}
	if len(b) < EthernetBytes {
		return ErrNotRoCE
	}
	etherType, n, tag := Ethernet(b).Payload()
	var version uint8
	switch etherType {
	case EtherTypeIPv4:
		version = 4
	case EtherTypeIPv6:
		version = 6
	default:
		return ErrNotRoCE
	}
	if len(b) <= n || b[n]>>4 != version {
		return ErrNotRoCE
	}
	err := f.ParseIP(b[n:])
	f.Tag = tag
	return err
}

// ParseIP is ParseEthernet for a packet that begins with its IP header.
func (f *Frame) ParseIP(b []byte) error {
	*f = Frame{}
	if len(b) == 0 {
		return ErrNotRoCE
	}
	var header, total int
	switch b[0] >> 4 {
	case 4:
		ip := IPv4(b)
		if len(b) < IPv4Bytes || ip.Protocol() != protocolUDP {
			return ErrNotRoCE
		}
		header, total = ip.HeaderBytes(), ip.TotalLen()
		// The first fragment still shows the port; later fragments can't be recognised.
		if binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 || len(b) < header+UDPBytes || UDP(b[header:]).DstPort() != Port {
			return ErrNotRoCE
		}
		switch {
		case header != IPv4Bytes || total < IPv4Bytes+UDPBytes:
			return BadIPHeader
		case !ip.ChecksumOK():
			return BadIPChecksum
		case ip.IsFragment():
			return IPFragment
		}
		f.Src, f.Dst, f.TOS, f.TTL = ip.Src(), ip.Dst(), ip.TOS(), ip.TTL()
	case 6:
		ip := IPv6(b)
		header = IPv6Bytes
		if len(b) < header+UDPBytes || ip.NextHeader() != protocolUDP || UDP(b[header:]).DstPort() != Port {
			return ErrNotRoCE
		}
		total = header + ip.PayloadLen()
		if total < header+UDPBytes {
			return BadIPHeader
		}
		f.Src, f.Dst, f.TOS, f.TTL = ip.Src(), ip.Dst(), ip.TrafficClass(), ip.HopLimit()
	default:
		return ErrNotRoCE
	}
	udp := UDP(b[header:])
	if udp.Len() != total-header {
		return BadUDPLength
	}
	f.SrcPort = udp.SrcPort()
	f.Len = total - header - UDPBytes
	f.IP = b[:min(total, len(b))]
	f.IB = f.IP[header+UDPBytes:]
	if len(b) < total {
		return Cut
	}
	return nil
}
