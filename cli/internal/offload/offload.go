// Package offload finishes frames that a sender has left to its network
// interface: checksums that are still to be computed, and segments that are still
// one frame. A virtual interface hands such frames on as they are, and captures have
// them.
package offload

import (
	"encoding/binary"
	"errors"

	"github.com/sluice-rdma/sluice/roce"
)

// HeaderBytes is the length of struct virtio_net_hdr, which a packet socket with
// PACKET_VNET_HDR has in front of each frame.
const HeaderBytes = 10

// Header is a struct virtio_net_hdr (the virtio specification, 5.1.6) in the host's
// byte order.
type Header struct {
	NeedsChecksum bool
	GSO           uint8 // VIRTIO_NET_HDR_GSO_*, without the ECN bit
	Size          int   // of a segment's payload
	Start, Offset int   // where the checksummed part begins, and its checksum lies from there
}

// Kinds of segmentation.
const (
	None  = 0
	TCPv4 = 1
	TCPv6 = 4
	UDP   = 5

	gsoECN = 0x80
)

// ParseHeader reads the first HeaderBytes bytes of b.
func ParseHeader(b []byte) Header {
	const needsChecksum = 1
	_ = b[HeaderBytes-1]
	ne := binary.NativeEndian
	return Header{
		NeedsChecksum: b[0]&needsChecksum != 0, GSO: b[1] &^ gsoECN,
		Size: int(ne.Uint16(b[4:])), Start: int(ne.Uint16(b[6:])), Offset: int(ne.Uint16(b[8:])),
	}
}

// What Finish does not understand.
var (
	ErrShort = errors.New("offload: the frame ends before its headers")
	ErrKind  = errors.New("offload: segmentation of an unknown kind")
)

// Numbering is the rule for segments' identification field of IPv4.
type Numbering int

// Ways to number segments.
const (
	Rising Numbering = iota // one more from segment to segment, as the kernel cuts
	Same                    // the first segment's, as in packets that a receiver put together
)

// Finisher finishes frames. Its memory is used again from frame to frame.
type Finisher struct {
	buf []byte
}

// Finish completes the offloads that h requests for the frame b, and calls emit with each
// finished frame: b itself, its checksum completed in place, or its segments, which are
// valid during the call.
func (f *Finisher) Finish(b []byte, h *Header, emit func([]byte)) error {
	switch {
	case h.GSO == None || h.Size == 0:
		if h.NeedsChecksum {
			if h.Start+h.Offset+2 > len(b) {
				return ErrShort
			}
			complete(b, h.Start, h.Offset)
		}
		emit(b)
		return nil
	case h.GSO != TCPv4 && h.GSO != TCPv6 && h.GSO != UDP:
		return ErrKind
	}
	if len(b) < roce.EthernetBytes {
		return ErrShort
	}
	kind, ip, _ := roce.Ethernet(b).Payload()
	return f.segment(b, ip, kind, h, Rising, emit)
}

// Split hands to emit the UDP packets that an IP packet stands for: each, but the last
// that may have less, has size bytes behind its UDP header.
func (f *Finisher) Split(ip []byte, size int, id Numbering, emit func([]byte)) error {
	if len(ip) == 0 || size <= 0 {
		return ErrShort
	}
	kind, start := uint16(roce.EtherTypeIPv4), int(ip[0]&15)*4
	if ip[0]>>4 == 6 {
		kind, start = roce.EtherTypeIPv6, roce.IPv6Bytes
	}
	return f.segment(ip, 0, kind, &Header{GSO: UDP, Size: size, Start: start}, id, emit)
}

// complete computes a checksum whose field holds the sum of the pseudo header.
func complete(b []byte, start, offset int) {
	at := start + offset
	put(b[at:], ^roce.Fold(roce.Sum(0, b[start:])))
}

func put(b []byte, c uint16) {
	if c == 0 {
		c = 0xffff // UDP takes 0 for none, and in one's complement it is the same
	}
	binary.BigEndian.PutUint16(b, c)
}

// Offsets in the headers.
const (
	tcpSeq      = 4
	tcpData     = 12
	tcpFlags    = 13
	tcpChecksum = 16
	tcpLeast    = 20
	udpLength   = 4
	udpChecksum = 6

	flagFIN = 0x01
	flagPSH = 0x08
	flagCWR = 0x80

	protocolTCP = 6
	protocolUDP = 17
)

// segment cuts b, whose IP header of an EtherType is at ip.
func (f *Finisher) segment(b []byte, ip int, kind uint16, h *Header, id Numbering, emit func([]byte)) error {
	at := h.Start // of the TCP or UDP header
	least := leastIP(kind)
	if least == 0 {
		return ErrKind
	}
	if at < ip+least || len(b) < at+tcpLeast && h.GSO != UDP || len(b) < at+roce.UDPBytes {
		return ErrShort
	}
	headers, protocol, checksum := at+roce.UDPBytes, uint64(protocolUDP), udpChecksum
	if h.GSO != UDP {
		headers, protocol, checksum = at+int(b[at+tcpData]>>4)*4, protocolTCP, tcpChecksum
	}
	if headers > len(b) || headers < at+roce.UDPBytes || h.GSO != UDP && headers < at+tcpLeast {
		return ErrShort
	}
	if need := headers + h.Size; cap(f.buf) < need {
		f.buf = make([]byte, need)
	}
	payload := b[headers:]
	for k := 0; len(payload) > 0; k++ {
		n := min(h.Size, len(payload))
		s := f.buf[:headers+n]
		copy(s, b[:headers])
		copy(s[headers:], payload[:n])
		payload = payload[n:]
		pseudo := uint64(0)
		if kind == roce.EtherTypeIPv4 {
			binary.BigEndian.PutUint16(s[ip+2:], uint16(len(s)-ip))
			if id == Rising {
				binary.BigEndian.PutUint16(s[ip+4:], binary.BigEndian.Uint16(b[ip+4:])+uint16(k))
			}
			binary.BigEndian.PutUint16(s[ip+10:], 0)
			binary.BigEndian.PutUint16(s[ip+10:], ^roce.Fold(roce.Sum(0, s[ip:at])))
			pseudo = roce.Sum(0, s[ip+12:ip+20])
		} else {
			binary.BigEndian.PutUint16(s[ip+4:], uint16(len(s)-ip-roce.IPv6Bytes))
			pseudo = roce.Sum(0, s[ip+8:ip+40])
		}
		l4 := s[at:]
		if h.GSO == UDP {
			binary.BigEndian.PutUint16(l4[udpLength:], uint16(len(l4)))
		} else {
			binary.BigEndian.PutUint32(l4[tcpSeq:], binary.BigEndian.Uint32(l4[tcpSeq:])+uint32(k*h.Size))
			if k > 0 {
				l4[tcpFlags] &^= flagCWR
			}
			if len(payload) > 0 {
				l4[tcpFlags] &^= flagFIN | flagPSH
			}
		}
		if h.NeedsChecksum || h.GSO != UDP || binary.BigEndian.Uint16(l4[checksum:]) != 0 {
			binary.BigEndian.PutUint16(l4[checksum:], 0)
			put(l4[checksum:], ^roce.Fold(roce.Sum(pseudo+protocol+uint64(len(l4)), l4)))
		}
		emit(s)
	}
	return nil
}

// leastIP is the least length of the IP header of an EtherType, 0 for others.
func leastIP(kind uint16) int {
	switch kind {
	case roce.EtherTypeIPv4:
		return roce.IPv4Bytes
	case roce.EtherTypeIPv6:
		return roce.IPv6Bytes
	}
	return 0
}
