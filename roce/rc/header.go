package rc

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Header is the transport headers of one packet in decoded form: the Base
// Transport Header and whichever extended headers its opcode has (IBA 9.2 to
// 9.3). Fields of headers that the opcode does not have are ignored on the way
// in and zero on the way out. Destination QP, partition key, congestion marks
// and padding belong to the driver.
type Header struct {
	Opcode    ib.Opcode
	AckReq    bool // BTH A: the requester asks for an acknowledgement
	Solicited bool // BTH SE
	Syndrome  uint8
	PSN       units.PSN
	MSN       uint32 // AETH, 24 bits; Syndrome is its other half

	VA     uint64 // RETH or AtomicETH
	RKey   uint32 // RETH or AtomicETH
	DMALen uint32 // RETH: length of the whole message in bytes

	Swap    uint64 // AtomicETH: the value to swap in, or to add
	Compare uint64 // AtomicETH
	Orig    uint64 // AtomicAckETH: the value before the operation

	Imm uint32 // ImmDt, or IETH: the R_Key to invalidate
}

// Sizes of the headers on the wire, in bytes (IBA 9.2, 9.3).
const (
	bthBytes       = 12
	rethBytes      = 16
	aethBytes      = 4
	atomicBytes    = 28
	atomicAckBytes = 8
	immBytes       = 4
	dethBytes      = 8
)

var headerBytes = [32]uint8{
	ib.SendFirst: bthBytes, ib.SendMiddle: bthBytes, ib.SendLast: bthBytes, ib.SendOnly: bthBytes,
	ib.SendLastImm: bthBytes + immBytes, ib.SendOnlyImm: bthBytes + immBytes,
	ib.SendLastInv: bthBytes + immBytes, ib.SendOnlyInv: bthBytes + immBytes,
	ib.WriteFirst: bthBytes + rethBytes, ib.WriteMiddle: bthBytes, ib.WriteLast: bthBytes,
	ib.WriteLastImm: bthBytes + immBytes, ib.WriteOnly: bthBytes + rethBytes,
	ib.WriteOnlyImm: bthBytes + rethBytes + immBytes,
	ib.ReadRequest:  bthBytes + rethBytes, ib.ReadResponseFirst: bthBytes + aethBytes,
	ib.ReadResponseMiddle: bthBytes, ib.ReadResponseLast: bthBytes + aethBytes,
	ib.ReadResponseOnly: bthBytes + aethBytes, ib.Acknowledge: bthBytes + aethBytes,
	ib.AtomicAcknowledge: bthBytes + aethBytes + atomicAckBytes,
	ib.CompareSwap:       bthBytes + atomicBytes, ib.FetchAdd: bthBytes + atomicBytes,
}

// HeaderBytes returns the length on the wire of the Base Transport Header and the
// extended headers of an RC, UC or UD opcode, or 0 for any other.
func HeaderBytes(op ib.Opcode) int {
	operation := op.Operation()
	switch s := op.Service(); {
	case s == ib.ServiceRC, s == ib.ServiceUC && 1<<operation&ucOpcodes != 0:
		return int(headerBytes[operation])
	case s == ib.ServiceUD && 1<<operation&udOpcodes != 0:
		return int(headerBytes[operation]) + dethBytes
	}
	return 0
}

// AETH syndromes (IBA 9.7.5.2). The values below SyndromeRNR are
// acknowledgements; their low five bits are an encoded credit count.
const (
	SyndromeUnlimited  = 0x1f // ACK, no end-to-end credits
	SyndromeRNR        = 0x20 // RNR NAK; the low five bits are the timer
	SyndromeSequence   = 0x60 // NAK: PSN sequence error
	SyndromeInvalid    = 0x61 // NAK: invalid request
	SyndromeAccess     = 0x62 // NAK: remote access error
	SyndromeOperation  = 0x63 // NAK: remote operational error
	SyndromeSelective  = 0x65 // NAK: PSN sequence error, and the packet with the PSN in the place of the MSN was kept (selective repeat; a code that is reserved)
	syndromeKind       = 0xe0
	syndromeKindACK    = 0x00
	syndromeKindRNR    = 0x20
	syndromeKindNAK    = 0x60
	syndromeValue      = 0x1f
	maxOutstandingPSNs = 1 << 23 // IBA 9.7.2: half of the PSN space
)
