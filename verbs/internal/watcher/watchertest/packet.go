package watchertest

import (
	"encoding/binary"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
)

// The senders and receivers of packets.
var (
	Here4  = netip.MustParseAddr("10.1.2.3")
	There4 = netip.MustParseAddr("10.1.2.4")
	Here6  = netip.MustParseAddr("fd00::3")
	There6 = netip.MustParseAddr("fd00::4")
)

// The queue pairs of a connection.
const (
	PeerQPN  = 0x123456
	LocalQPN = 0xabcdef
)

// Transport is a BTH (IBA 9.2) with what follows it.
func Transport(op ib.Opcode, qpn, psn uint32, more ...byte) []byte {
	b := []byte{byte(op), 0, 0xff, 0xff, 0, byte(qpn >> 16), byte(qpn >> 8), byte(qpn), 0x80, byte(psn >> 16), byte(psn >> 8), byte(psn)}
	return append(append(b, more...), 1, 2, 3, 4) // ICRC
}

// AETHACK is the AETH of an acknowledgement.
var AETHACK = []byte{0x1f, 0, 0, 1}

// AppendIP appends an EtherType and an IP packet with UDP, field by field as the
// standards have them.
func AppendIP(b []byte, src, dst netip.Addr, sport, dport uint16, body []byte) []byte {
	n := uint16(8 + len(body))
	if src.Is4() {
		b = append(b, 8, 0, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, 20+n)
		b = append(b, 0, 0, 0x40, 0, 64, 17, 0, 0)
	} else {
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, n)
		b = append(b, 17, 64)
	}
	b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, sport)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = binary.BigEndian.AppendUint16(b, n)
	return append(append(b, 0, 0), body...)
}
