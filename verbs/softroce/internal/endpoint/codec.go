package endpoint

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

const (
	bthBytes  = 12
	dethBytes = 8
	immBytes  = 4
	icrcBytes = 4
	pkey      = 0xffff
)

// inbound is the headers of a received packet.
type inbound struct {
	rc.Header
	destQPN uint32
	pkey    uint16
	becn    bool
	qkey    uint32
	srcQPN  uint32
	payload []byte
}

func encodeBTH(b []byte, op ib.Opcode, solicited, ackReq bool, pad int, qpn uint32, psn units.PSN) {
	b[0] = uint8(op)
	b[1] = 1<<6 | uint8(pad)<<4
	if solicited {
		b[1] |= 1 << 7
	}
	binary.BigEndian.PutUint16(b[2:], pkey)
	binary.BigEndian.PutUint32(b[4:], qpn)
	binary.BigEndian.PutUint32(b[8:], uint32(psn))
	if ackReq {
		b[8] |= 1 << 7
	}
}

func setBECN(b []byte) { b[4] |= 1 << 6 }

// encode writes the headers of a connection's packet with n bytes of payload. It
// returns the packet's length and where its payload goes; the padding is zero.
func encode(b []byte, h *rc.Header, qpn uint32, n int) (total int, payload []byte) {
	pad := -n & 3
	encodeBTH(b, h.Opcode, h.Solicited, h.AckReq, pad, qpn, h.PSN)
	at := bthBytes
	switch h.Opcode {
	case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm, ib.ReadRequest:
		binary.BigEndian.PutUint64(b[at:], h.VA)
		binary.BigEndian.PutUint32(b[at+8:], h.RKey)
		binary.BigEndian.PutUint32(b[at+12:], h.DMALen)
		at += 16
	case ib.CompareSwap, ib.FetchAdd:
		binary.BigEndian.PutUint64(b[at:], h.VA)
		binary.BigEndian.PutUint32(b[at+8:], h.RKey)
		binary.BigEndian.PutUint64(b[at+12:], h.Swap)
		binary.BigEndian.PutUint64(b[at+20:], h.Compare)
		at += 28
	case ib.ReadResponseFirst, ib.ReadResponseLast, ib.ReadResponseOnly, ib.Acknowledge, ib.AtomicAcknowledge:
		binary.BigEndian.PutUint32(b[at:], uint32(h.Syndrome)<<24|h.MSN&maxPSN)
		at += 4
		if h.Opcode == ib.AtomicAcknowledge {
			binary.BigEndian.PutUint64(b[at:], h.Orig)
			at += 8
		}
	}
	switch h.Opcode {
	case ib.SendLastImm, ib.SendOnlyImm, ib.WriteLastImm, ib.WriteOnlyImm, ib.SendLastInv, ib.SendOnlyInv:
		binary.BigEndian.PutUint32(b[at:], h.Imm)
		at += 4
	}
	end := at + n
	clear(b[end : end+pad])
	return end + pad + icrcBytes, b[at:end]
}

// encodeUD writes the headers of a datagram with n bytes of payload, like encode.
func encodeUD(b []byte, op ib.Opcode, qpn, qkey, src uint32, psn units.PSN, imm uint32, solicited bool, n int) (total int, payload []byte) {
	pad := -n & 3
	encodeBTH(b, op, solicited, false, pad, qpn, psn)
	binary.BigEndian.PutUint32(b[bthBytes:], qkey)
	binary.BigEndian.PutUint32(b[bthBytes+4:], src)
	at := bthBytes + dethBytes
	if op.Operation() == ib.SendOnlyImm {
		binary.BigEndian.PutUint32(b[at:], imm)
		at += immBytes
	}
	end := at + n
	clear(b[end : end+pad])
	return end + pad + icrcBytes, b[at:end]
}

// decode reads the headers of a packet, which comes without its ICRC.
func decode(b []byte, in *inbound) bool {
	if len(b) < bthBytes || b[1]&0xf != 0 {
		return false
	}
	op := ib.Opcode(b[0])
	in.Header = rc.Header{Opcode: op, Solicited: b[1]&(1<<7) != 0, AckReq: b[8]&(1<<7) != 0}
	in.pkey = binary.BigEndian.Uint16(b[2:])
	in.becn = b[4]&(1<<6) != 0
	in.destQPN = binary.BigEndian.Uint32(b[4:]) & maxPSN
	in.PSN = units.MakePSN(binary.BigEndian.Uint32(b[8:]))
	in.qkey, in.srcQPN = 0, 0
	pad := int(b[1] >> 4 & 3)
	at := bthBytes
	switch op.Service() {
	case ib.ServiceRC:
		at = rc.HeaderBytes(op)
	case ib.ServiceUD:
		at += dethBytes
		if op.Operation() == ib.SendOnlyImm {
			at += immBytes
		}
	default:
		if op != ib.CNP {
			return false
		}
	}
	if at == 0 || len(b) < at+pad {
		return false
	}
	in.payload = b[at : len(b)-pad]
	h := b[bthBytes:at]
	if op.Service() == ib.ServiceUD {
		in.qkey = binary.BigEndian.Uint32(h)
		in.srcQPN = binary.BigEndian.Uint32(h[4:]) & maxPSN
		if len(h) > dethBytes {
			in.Imm = binary.BigEndian.Uint32(h[dethBytes:])
		}
		return true
	}
	switch op {
	case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm, ib.ReadRequest:
		in.VA, in.RKey, in.DMALen = binary.BigEndian.Uint64(h), binary.BigEndian.Uint32(h[8:]), binary.BigEndian.Uint32(h[12:])
		h = h[16:]
	case ib.CompareSwap, ib.FetchAdd:
		in.VA, in.RKey = binary.BigEndian.Uint64(h), binary.BigEndian.Uint32(h[8:])
		in.Swap, in.Compare = binary.BigEndian.Uint64(h[12:]), binary.BigEndian.Uint64(h[20:])
	case ib.ReadResponseFirst, ib.ReadResponseLast, ib.ReadResponseOnly, ib.Acknowledge, ib.AtomicAcknowledge:
		in.Syndrome, in.MSN = h[0], binary.BigEndian.Uint32(h)&maxPSN
		if op == ib.AtomicAcknowledge {
			in.Orig = binary.BigEndian.Uint64(h[4:])
		}
	}
	switch op {
	case ib.SendLastImm, ib.SendOnlyImm, ib.WriteLastImm, ib.WriteOnlyImm, ib.SendLastInv, ib.SendOnlyInv:
		in.Imm = binary.BigEndian.Uint32(h)
	}
	return true
}
