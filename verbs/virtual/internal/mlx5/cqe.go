package mlx5

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// Bits of flags_rqpn above the source queue pair: what would be the service level on
// InfiniBand says how a RoCE datagram came (UCX's ud_iface.h has that of the PRM).
const (
	grhInBuffer = 1 << 28 // the received data begins with a GRH
	overUDP     = 1 << 27 // RoCEv2
	overIPv6    = 1 << 24
	overIPv4    = 2 << 24
)

// entry holds the fields of a CQE.
type entry struct {
	opcode    uint8 // of the CQE
	solicited bool
	scatter   uint8 // connectx.Scatter32 or connectx.Scatter64, or 0
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

// fail gives the CQE of a request the error of a status that the device finds by itself.
func (e *entry) fail(s ib.WCStatus) {
	e.syndrome, e.vendor = connectx.Syndrome(s), uint8(connectx.VendorErr(s, false))
}

// put writes the CQE with owner bit owner to b, whose 64 bytes are 0 but for scattered
// data.
func (e *entry) put(b []byte, owner uint8) {
	be := binary.BigEndian
	if e.scatter != connectx.Scatter32 {
		be.PutUint32(b[connectx.CQEFlagsRQPN:], e.flagsRQPN)
	}
	be.PutUint32(b[connectx.CQEUserIndex:], e.userIndex)
	if e.opcode == connectx.CQEReqErr || e.opcode == connectx.CQERespErr {
		b[connectx.CQEVendor], b[connectx.CQESyndrome] = e.vendor, e.syndrome
	} else {
		be.PutUint32(b[connectx.CQEImm:], e.imm)
		be.PutUint32(b[connectx.CQECount:], e.bytes)
		be.PutUint64(b[connectx.CQETimestamp:], e.timestamp)
	}
	be.PutUint32(b[connectx.CQEOpcodeQPN:], uint32(e.wqeOpcode)<<24|e.qpn)
	be.PutUint16(b[connectx.CQECounter:], e.counter)
	b[connectx.CQEOpOwn] = e.opcode<<4 | e.scatter | owner
	if e.solicited {
		b[connectx.CQEOpOwn] |= connectx.SolicitedCQE
	}
}
