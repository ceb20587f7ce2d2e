package connectx

import "github.com/sluice-rdma/sluice/ib"

// Opcodes of CQEs (MLX5_CQE_*).
const (
	CQEReq         = 0
	CQERespWrImm   = 1
	CQERespSend    = 2
	CQERespSendImm = 3
	CQERespSendInv = 4
	CQEResize      = 5
	CQEReqErr      = 13
	CQERespErr     = 14
	CQEInvalid     = 15
)

// CQEBytes is the size of a CQE. In a queue whose entries have 128 bytes, it is their second
// half.
const CQEBytes = 64

// Offsets of a CQE's fields.
const (
	CQEFlagsRQPN = 24 // a datagram's source queue pair, with GRHMask
	CQEUserIndex = 32
	CQEImm       = 36 // or the key that was invalidated
	CQECount     = 44 // bytes
	CQETimestamp = 48 // 8 bytes
	CQEVendor    = 54 // of an error
	CQESyndrome  = 55 // of an error
	CQEOpcodeQPN = 56 // a request's opcode in the upper 8 bits
	CQECounter   = 60 // of the WQE, 16 bits
	CQEOpOwn     = 63 // the CQE's opcode in the upper 4 bits, and the bits below
)

// Bits of a CQE's last byte.
const (
	OwnerBit     = 1 << 0
	SolicitedCQE = 1 << 1
	FormatMask   = 3 << 2
	Scatter32    = 1 << 2 // the data is in the CQE's first 32 bytes
	Scatter64    = 2 << 2 // the data is in the 64 bytes before it
	Compressed   = 3 << 2 // the CQE stands for several
)

// GRHMask is the bits of CQEFlagsRQPN that say whether received data begins with a GRH.
const GRHMask = 3 << 28

// syndromes has a CQE's syndrome (MLX5_CQE_SYNDROME_*) for each status that has one.
// libmlx5 makes a general error of every other.
var syndromes = [...]uint8{
	ib.WCLocLenErr: 0x01, ib.WCLocQPOpErr: 0x02, ib.WCLocProtErr: 0x04, ib.WCWRFlushErr: 0x05, ib.WCMWBindErr: 0x06,
	ib.WCBadRespErr: 0x10, ib.WCLocAccessErr: 0x11, ib.WCRemInvReqErr: 0x12, ib.WCRemAccessErr: 0x13, ib.WCRemOpErr: 0x14,
	ib.WCRetryExcErr: 0x15, ib.WCRNRRetryExcErr: 0x16, ib.WCRemAbortErr: 0x22,
}

// Syndrome returns the syndrome of a status other than success.
func Syndrome(s ib.WCStatus) uint8 {
	if int(s) < len(syndromes) && syndromes[s] != 0 {
		return syndromes[s]
	}
	return 0xff
}

// vendorErrs has the vendor's byte (vendor_err_synd) for each status of a request for which
// public logs of ConnectX-4 and later show one; no document lists them. docs/failures.md names the logs.
var vendorErrs = [...]uint8{
	ib.WCLocQPOpErr: 0x68, ib.WCLocProtErr: 0x52, ib.WCWRFlushErr: flushed,
	ib.WCRemInvReqErr: 0x8a, ib.WCRemAccessErr: 0x88, ib.WCRemOpErr: 0x89, ib.WCRetryExcErr: 0x81,
}

// flushed is the vendor's byte of a flush, of requests and receives.
const flushed = 0xf9

// VendorErr returns the vendor's byte beside the status of a request, or of a receive; 0
// where it is unknown, and for success.
func VendorErr(s ib.WCStatus, receive bool) uint32 {
	switch {
	case s == ib.WCWRFlushErr:
		return flushed
	case receive || int(s) >= len(vendorErrs):
		return 0
	}
	return uint32(vendorErrs[s])
}

// Status returns the status of a syndrome: a general error for one that has no other.
func Status(syndrome uint8) ib.WCStatus {
	for s, x := range syndromes {
		if x == syndrome && x != 0 {
			return ib.WCStatus(s)
		}
	}
	return ib.WCGeneralErr
}

// Words of a completion queue's doorbell record.
const (
	RecordConsumer = 0 // index of the next CQE that the program takes
	RecordArm      = 1
)

// IndexMask masks the indices in doorbell records.
const IndexMask = 1<<24 - 1

// The arm word: a sequence number, which the program counts up with each event it has
// taken, what it arms for, and its consumer index.
const (
	ArmSequence      = 3 << ArmSequenceShift
	ArmSequenceShift = 28
	ArmSolicited     = 1 << 24
)

// CQDoorbell is the offset of the completion queues' doorbell on a UAR page. It takes the arm
// word and the queue's number.
const CQDoorbell = 0x20
