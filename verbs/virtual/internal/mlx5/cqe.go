package mlx5

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
)

// Opcodes of CQEs (MLX5_CQE_*).
const (
	cqeReq         = 0
	cqeRespWrImm   = 1
	cqeRespSend    = 2
	cqeRespSendImm = 3
	cqeRespSendInv = 4
	cqeResize      = 5
	cqeReqErr      = 13
	cqeRespErr     = 14
	cqeInvalid     = 15
)

// Bits of a CQE's op_own beside the opcode in the upper four.
const (
	ownerBit  = 1 << 0
	scatter32 = 1 << 2 // the data is in the CQE's first 32 bytes
	scatter64 = 2 << 2 // the data is in the 64 bytes before it
)

const cqeBytes = 64

// Bits of flags_rqpn above the source queue pair: what would be the service level on
// InfiniBand says how a RoCE datagram came (UCX's ud_iface.h has that of the PRM).
const (
	grhInBuffer = 1 << 28 // the received data begins with a GRH
	overUDP     = 1 << 27 // RoCEv2
	overIPv6    = 1 << 24
	overIPv4    = 2 << 24
)

// entry is what a CQE says.
type entry struct {
	opcode    uint8 // of the CQE
	solicited bool
	scatter   uint8 // scatter32 or scatter64, or 0
	flagsRQPN uint32
	userIndex uint32
	imm       uint32 // or the key that was invalidated
	bytes     uint32
	timestamp uint64
	wqeOpcode uint8 // of a request
	qpn       uint32
	counter   uint16 // of the WQE
	syndrome  uint8  // of an error
	vendor    uint8  // of an error
}

// put writes the CQE with owner bit owner to b, whose 64 bytes are 0 but for scattered
// data.
func (e *entry) put(b []byte, owner uint8) {
	be := binary.BigEndian
	if e.scatter != scatter32 {
		be.PutUint32(b[24:], e.flagsRQPN)
	}
	be.PutUint32(b[32:], e.userIndex)
	if e.opcode == cqeReqErr || e.opcode == cqeRespErr {
		b[54], b[55] = e.vendor, e.syndrome
	} else {
		be.PutUint32(b[36:], e.imm)
		be.PutUint32(b[44:], e.bytes)
		be.PutUint64(b[48:], e.timestamp)
	}
	be.PutUint32(b[56:], uint32(e.wqeOpcode)<<24|e.qpn)
	be.PutUint16(b[60:], e.counter)
	b[63] = e.opcode<<4 | e.scatter | owner
	if e.solicited {
		b[63] |= 1 << 1
	}
}

// syndromes has a CQE's syndrome (MLX5_CQE_SYNDROME_*) for each status that has one.
// libmlx5 makes a general error of every other.
var syndromes = [...]uint8{
	ib.WCLocLenErr: 0x01, ib.WCLocQPOpErr: 0x02, ib.WCLocProtErr: 0x04, ib.WCWRFlushErr: 0x05, ib.WCMWBindErr: 0x06,
	ib.WCBadRespErr: 0x10, ib.WCLocAccessErr: 0x11, ib.WCRemInvReqErr: 0x12, ib.WCRemAccessErr: 0x13, ib.WCRemOpErr: 0x14,
	ib.WCRetryExcErr: 0x15, ib.WCRNRRetryExcErr: 0x16, ib.WCRemAbortErr: 0x22,
}

// syndrome returns the syndrome of a status other than success.
func syndrome(s ib.WCStatus) uint8 {
	if int(s) < len(syndromes) && syndromes[s] != 0 {
		return syndromes[s]
	}
	return 0xff
}
