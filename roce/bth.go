package roce

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Sizes on the wire in bytes (IBA 9.2, 9.3).
const (
	BTHBytes          = 12
	RETHBytes         = 16
	AETHBytes         = 4
	AtomicETHBytes    = 28
	AtomicAckETHBytes = 8
	ImmDtBytes        = 4
	IETHBytes         = 4
	DETHBytes         = 8
	ICRCBytes         = 4
)

// DefaultPKey is the P_Key of the default partition with full membership, the
// only one that most RoCE networks have.
const DefaultPKey = 0xffff

// Bits of the BTH's second and fifth byte.
const (
	bthSolicited = 0x80
	bthMigrated  = 0x40
	bthFECN      = 0x80
	bthBECN      = 0x40
	bthReserved6 = 0x3f
	bthAckReq    = 0x80
)

// BTH is a view over a Base Transport Header (IBA 9.2), at least BTHBytes long.
type BTH []byte

// Opcode returns the transport service and the operation.
func (h BTH) Opcode() ib.Opcode { return ib.Opcode(h[0]) }

// Solicited returns the SE bit: the responder should raise an event.
func (h BTH) Solicited() bool { return h[1]&bthSolicited != 0 }

// Migrated returns the M bit: the path migration state is "migrated".
func (h BTH) Migrated() bool { return h[1]&bthMigrated != 0 }

// Pad returns the number of bytes that align the payload to four, 0 to 3.
func (h BTH) Pad() uint8 { return h[1] >> 4 & 3 }

// Version returns TVer, which is 0.
func (h BTH) Version() uint8 { return h[1] & 0xf }

// PKey returns the partition key.
func (h BTH) PKey() uint16 { return binary.BigEndian.Uint16(h[2:]) }

// FECN returns the forward congestion notification bit.
func (h BTH) FECN() bool { return h[4]&bthFECN != 0 }

// BECN returns the backward congestion notification bit, which a CNP sets.
func (h BTH) BECN() bool { return h[4]&bthBECN != 0 }

// Reserved6 returns the six reserved bits next to FECN and BECN. The ICRC does not
// cover them, so they can change on the way.
func (h BTH) Reserved6() uint8 { return h[4] & bthReserved6 }

// DestQP returns the destination queue pair's number, 24 bits.
func (h BTH) DestQP() uint32 { return binary.BigEndian.Uint32(h[4:]) & 0xffffff }

// AckReq returns the A bit: the requester asks for an acknowledgement.
func (h BTH) AckReq() bool { return h[8]&bthAckReq != 0 }

// PSN returns the packet sequence number.
func (h BTH) PSN() units.PSN { return units.MakePSN(binary.BigEndian.Uint32(h[8:])) }

// SetFECN writes the FECN bit; the ICRC does not change.
func (h BTH) SetFECN(on bool) { setBit(&h[4], bthFECN, on) }

// SetBECN writes the BECN bit; the ICRC does not change.
func (h BTH) SetBECN(on bool) { setBit(&h[4], bthBECN, on) }

func setBit(b *byte, bit byte, on bool) {
	*b &^= bit
	if on {
		*b |= bit
	}
}

func bit(b byte, on bool) byte {
	if on {
		return b
	}
	return 0
}

// RETH is a view over an RDMA Extended Transport Header (IBA 9.3).
type RETH []byte

// VA returns the virtual address at the responder.
func (h RETH) VA() uint64 { return binary.BigEndian.Uint64(h) }

// RKey returns the remote key.
func (h RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// DMALen returns the length of the whole message in bytes.
func (h RETH) DMALen() uint32 { return binary.BigEndian.Uint32(h[12:]) }

// AETH is a view over an ACK Extended Transport Header (IBA 9.3).
type AETH []byte

// Syndrome reports whether this is an ACK, an RNR NAK or a NAK, with credits, timer
// or reason.
func (h AETH) Syndrome() uint8 { return h[0] }

// MSN returns the message sequence number, 24 bits.
func (h AETH) MSN() uint32 { return binary.BigEndian.Uint32(h) & 0xffffff }

// AtomicETH is a view over an Atomic Extended Transport Header (IBA 9.3).
type AtomicETH []byte

// VA returns the virtual address at the responder.
func (h AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h) }

// RKey returns the remote key.
func (h AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// Swap returns the value to swap in, or to add.
func (h AtomicETH) Swap() uint64 { return binary.BigEndian.Uint64(h[12:]) }

// Compare returns the value to compare with.
func (h AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:]) }

// AtomicAckETH is a view over an Atomic ACK Extended Transport Header (IBA 9.3).
type AtomicAckETH []byte

// Orig returns the value before the operation.
func (h AtomicAckETH) Orig() uint64 { return binary.BigEndian.Uint64(h) }

// ImmDt is a view over immediate data (IBA 9.3).
type ImmDt []byte

// Data returns the immediate data.
func (h ImmDt) Data() uint32 { return binary.BigEndian.Uint32(h) }

// IETH is a view over an Invalidate Extended Transport Header (IBA 9.3).
type IETH []byte

// RKey returns the remote key to invalidate.
func (h IETH) RKey() uint32 { return binary.BigEndian.Uint32(h) }

// DETH is a view over a Datagram Extended Transport Header (IBA 9.3).
type DETH []byte

// QKey returns the queue key that must match the destination's.
func (h DETH) QKey() uint32 { return binary.BigEndian.Uint32(h) }

// SrcQP returns the sending queue pair's number, 24 bits.
func (h DETH) SrcQP() uint32 { return binary.BigEndian.Uint32(h[4:]) & 0xffffff }
