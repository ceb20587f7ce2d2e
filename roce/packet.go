package roce

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// MaxHeaderBytes is the most that BTH and extended headers take, in bytes.
const MaxHeaderBytes = BTHBytes + AtomicETHBytes

// cnpReserved is the length of the zero bytes that follow a CNP's BTH.
const cnpReserved = 16

// Packet is the transport headers of one packet: what the state machines of
// roce/rc exchange, and what their drivers own. Fields of headers that the
// opcode does not have are ignored by Put and zero after Decode.
type Packet struct {
	rc.Header
	DestQP     uint32 // 24 bits
	PKey       uint16
	FECN, BECN bool
	Migrated   bool
	Pad        uint8  // 0 to 3; Pad gives the right one
	Reserved6  uint8  // six bits next to FECN and BECN, free to use: the ICRC does not cover them
	QKey       uint32 // DETH
	SrcQP      uint32 // DETH, 24 bits
}

// Pad returns the pad count of n bytes of payload.
func Pad(n int) uint8 { return uint8(-n & 3) }

// PutPad writes n zero bytes, n as Pad gives it, and returns n. IBA leaves their
// value to the sender.
func PutPad(b []byte, n uint8) int {
	clear(b[:n])
	return int(n)
}

// Decode reads b, which reaches from the BTH to the ICRC: the payload of a UDP datagram.
// It returns the payload, which shares b's memory and is without the pad. The error is a
// Malformed; the fields are those read so far. Decode does not check the ICRC; the
// transport checks whether the packet fits its queue pair.
func (p *Packet) Decode(b []byte) (payload []byte, err error) {
	n, err := p.DecodeHeaders(b)
	if err != nil {
		return nil, err
	}
	room := len(b) - n - ICRCBytes
	switch {
	case len(b)&3 != 0:
		return nil, BadPacketLength
	case room < 0:
		return nil, TooShort
	case !HasPayload(p.Opcode) && (room != 0 || p.Pad != 0) && !(p.tells(room) && p.Pad == 0):
		return nil, UnexpectedPayload
	case room < int(p.Pad):
		return nil, BadPad
	}
	return b[n : n+room-int(p.Pad)], nil
}

// DecodeHeaders is the part of Decode that reads the headers, for packets without
// the rest. It returns their length.
func (p *Packet) DecodeHeaders(b []byte) (int, error) {
	*p = Packet{}
	if len(b) < BTHBytes {
		return 0, TooShort
	}
	h := BTH(b)
	p.Opcode = h.Opcode()
	p.Solicited, p.Migrated, p.Pad = h.Solicited(), h.Migrated(), h.Pad()
	p.PKey, p.FECN, p.BECN, p.Reserved6 = h.PKey(), h.FECN(), h.BECN(), h.Reserved6()
	p.DestQP, p.AckReq, p.PSN = h.DestQP(), h.AckReq(), h.PSN()
	if h.Version() != 0 {
		return 0, BadTransportVersion
	}
	form := forms[p.Opcode]
	n := int(form.bytes)
	if n == 0 {
		return 0, UnknownOpcode
	}
	if len(b) < n {
		return 0, TooShort
	}
	rest := b[BTHBytes:n]
	if form.layout&hasDETH != 0 {
		p.QKey, p.SrcQP = DETH(rest).QKey(), DETH(rest).SrcQP()
		rest = rest[DETHBytes:]
	}
	if form.layout&hasRETH != 0 {
		p.VA, p.RKey, p.DMALen = RETH(rest).VA(), RETH(rest).RKey(), RETH(rest).DMALen()
		rest = rest[RETHBytes:]
	}
	if form.layout&hasAtomic != 0 {
		p.VA, p.RKey = AtomicETH(rest).VA(), AtomicETH(rest).RKey()
		p.Swap, p.Compare = AtomicETH(rest).Swap(), AtomicETH(rest).Compare()
	}
	if form.layout&hasAETH != 0 {
		p.Syndrome, p.MSN = AETH(rest).Syndrome(), AETH(rest).MSN()
		rest = rest[AETHBytes:]
	}
	if form.layout&hasAtomicAck != 0 {
		p.Orig = AtomicAckETH(rest).Orig()
	}
	if form.layout&hasImm != 0 {
		p.Imm = ImmDt(rest).Data()
	}
	return n, nil
}

// Put writes the headers to b and returns their length, HeaderBytes(p.Opcode), for
// which b must have room. Payload, PutPad and the ICRC follow. Put returns 0 and
// writes nothing if the opcode is unknown.
func (p *Packet) Put(b []byte) int {
	form := forms[p.Opcode]
	n := int(form.bytes)
	if n == 0 {
		return 0
	}
	b = b[:n]
	b[0] = byte(p.Opcode)
	b[1] = bit(bthSolicited, p.Solicited) | bit(bthMigrated, p.Migrated) | p.Pad&3<<4
	binary.BigEndian.PutUint16(b[2:], p.PKey)
	binary.BigEndian.PutUint32(b[4:], p.DestQP&0xffffff)
	b[4] = bit(bthFECN, p.FECN) | bit(bthBECN, p.BECN) | p.Reserved6&bthReserved6
	binary.BigEndian.PutUint32(b[8:], uint32(p.PSN)&0xffffff)
	b[8] = bit(bthAckReq, p.AckReq)
	rest := b[BTHBytes:]
	if form.layout&hasDETH != 0 {
		binary.BigEndian.PutUint32(rest, p.QKey)
		binary.BigEndian.PutUint32(rest[4:], p.SrcQP&0xffffff)
		rest = rest[DETHBytes:]
	}
	if form.layout&hasRETH != 0 {
		binary.BigEndian.PutUint64(rest, p.VA)
		binary.BigEndian.PutUint32(rest[8:], p.RKey)
		binary.BigEndian.PutUint32(rest[12:], p.DMALen)
		rest = rest[RETHBytes:]
	}
	if form.layout&hasAtomic != 0 {
		binary.BigEndian.PutUint64(rest, p.VA)
		binary.BigEndian.PutUint32(rest[8:], p.RKey)
		binary.BigEndian.PutUint64(rest[12:], p.Swap)
		binary.BigEndian.PutUint64(rest[20:], p.Compare)
	}
	if form.layout&hasAETH != 0 {
		binary.BigEndian.PutUint32(rest, uint32(p.Syndrome)<<24|p.MSN&0xffffff)
		rest = rest[AETHBytes:]
	}
	if form.layout&hasAtomicAck != 0 {
		binary.BigEndian.PutUint64(rest, p.Orig)
	}
	if form.layout&hasImm != 0 {
		binary.BigEndian.PutUint32(rest, p.Imm)
	}
	if form.layout&isCNP != 0 {
		clear(rest)
	}
	return n
}

// CNP returns a congestion notification packet (IBA annex A17) that tells the
// queue pair destQP to slow down. It carries no payload; what a CNP's 16
// reserved bytes hold on arrival is ignored.
func CNP(destQP uint32, pkey uint16) Packet {
	return Packet{Header: rc.Header{Opcode: ib.CNP}, DestQP: destQP, PKey: pkey, BECN: true}
}

// GSI returns a packet that carries a management datagram of MADBytes bytes from
// one general services interface to the other (IBA chapter 13): QP 1 to QP 1.
func GSI(psn units.PSN, pkey uint16) Packet {
	return Packet{
		Header: rc.Header{Opcode: ib.ServiceUD | ib.SendOnly, PSN: psn},
		DestQP: GSIQP, PKey: pkey, QKey: GSIQKey, SrcQP: GSIQP,
	}
}

// IsGSI reports whether p is a datagram for the general services interface with
// the right Q_Key.
func (p *Packet) IsGSI() bool {
	return p.Opcode == ib.ServiceUD|ib.SendOnly && p.DestQP == GSIQP && p.QKey == GSIQKey
}
