package ib

import "fmt"

// WROpcode says what a send work request asks for (ibv_wr_opcode). The values
// are libibverbs'.
type WROpcode uint8

// Send work requests.
const (
	WRRDMAWrite         WROpcode = 0
	WRRDMAWriteWithImm  WROpcode = 1
	WRSend              WROpcode = 2
	WRSendWithImm       WROpcode = 3
	WRRDMARead          WROpcode = 4
	WRAtomicCmpAndSwp   WROpcode = 5
	WRAtomicFetchAndAdd WROpcode = 6
	WRLocalInv          WROpcode = 7
	WRBindMW            WROpcode = 8
	WRSendWithInv       WROpcode = 9
)

var wrOpcodeNames = map[WROpcode]string{
	WRRDMAWrite: "RDMA_WRITE", WRRDMAWriteWithImm: "RDMA_WRITE_WITH_IMM", WRSend: "SEND",
	WRSendWithImm: "SEND_WITH_IMM", WRRDMARead: "RDMA_READ", WRAtomicCmpAndSwp: "ATOMIC_CMP_AND_SWP",
	WRAtomicFetchAndAdd: "ATOMIC_FETCH_AND_ADD", WRLocalInv: "LOCAL_INV", WRBindMW: "BIND_MW", WRSendWithInv: "SEND_WITH_INV",
}

func (o WROpcode) String() string { return name(wrOpcodeNames, o, "WROpcode") }

// HasImm reports whether the request carries immediate data.
func (o WROpcode) HasImm() bool { return o == WRRDMAWriteWithImm || o == WRSendWithImm }

// IsAtomic reports whether the request is one of the two atomics.
func (o WROpcode) IsAtomic() bool { return o == WRAtomicCmpAndSwp || o == WRAtomicFetchAndAdd }

// ConsumesRecv reports whether the request uses up a receive at the responder.
func (o WROpcode) ConsumesRecv() bool {
	return o == WRSend || o == WRSendWithImm || o == WRSendWithInv || o == WRRDMAWriteWithImm
}

// WCOpcode says which operation a completion belongs to (ibv_wc_opcode).
type WCOpcode uint8

// Completions. The receive side begins at WCRecv, as in libibverbs.
const (
	WCSend            WCOpcode = 0
	WCRDMAWrite       WCOpcode = 1
	WCRDMARead        WCOpcode = 2
	WCCompSwap        WCOpcode = 3
	WCFetchAdd        WCOpcode = 4
	WCBindMW          WCOpcode = 5
	WCLocalInv        WCOpcode = 6
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
)

var wcOpcodeNames = map[WCOpcode]string{
	WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ", WCCompSwap: "COMP_SWAP",
	WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV", WCRecv: "RECV", WCRecvRDMAWithImm: "RECV_RDMA_WITH_IMM",
}

func (o WCOpcode) String() string { return name(wcOpcodeNames, o, "WCOpcode") }

// Completion returns the completion opcode of a send work request.
func (o WROpcode) Completion() WCOpcode {
	switch o {
	case WRRDMAWrite, WRRDMAWriteWithImm:
		return WCRDMAWrite
	case WRRDMARead:
		return WCRDMARead
	case WRAtomicCmpAndSwp:
		return WCCompSwap
	case WRAtomicFetchAndAdd:
		return WCFetchAdd
	case WRLocalInv:
		return WCLocalInv
	case WRBindMW:
		return WCBindMW
	}
	return WCSend
}

// Opcode is the opcode of a Base Transport Header (IBA 9.2.1): the transport
// service in the upper three bits, the operation in the lower five.
type Opcode uint8

// Transport services, the upper three bits of an Opcode.
const (
	ServiceRC  Opcode = 0x00
	ServiceUC  Opcode = 0x20
	ServiceUD  Opcode = 0x60
	ServiceCNP Opcode = 0x80
)

// Operations, the lower five bits of an Opcode; as they stand, the RC opcodes.
const (
	SendFirst          Opcode = 0
	SendMiddle         Opcode = 1
	SendLast           Opcode = 2
	SendLastImm        Opcode = 3
	SendOnly           Opcode = 4
	SendOnlyImm        Opcode = 5
	WriteFirst         Opcode = 6
	WriteMiddle        Opcode = 7
	WriteLast          Opcode = 8
	WriteLastImm       Opcode = 9
	WriteOnly          Opcode = 10
	WriteOnlyImm       Opcode = 11
	ReadRequest        Opcode = 12
	ReadResponseFirst  Opcode = 13
	ReadResponseMiddle Opcode = 14
	ReadResponseLast   Opcode = 15
	ReadResponseOnly   Opcode = 16
	Acknowledge        Opcode = 17
	AtomicAcknowledge  Opcode = 18
	CompareSwap        Opcode = 19
	FetchAdd           Opcode = 20
	SendLastInv        Opcode = 22
	SendOnlyInv        Opcode = 23
	CNP                Opcode = 0x81
)

var opcodeNames = [...]string{
	"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST_IMM", "SEND_ONLY", "SEND_ONLY_IMM",
	"WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_LAST_IMM", "WRITE_ONLY", "WRITE_ONLY_IMM",
	"READ_REQUEST", "READ_RESPONSE_FIRST", "READ_RESPONSE_MIDDLE", "READ_RESPONSE_LAST",
	"READ_RESPONSE_ONLY", "ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "COMPARE_SWAP", "FETCH_ADD",
	"", "SEND_LAST_INV", "SEND_ONLY_INV",
}

// Service returns the transport service of o.
func (o Opcode) Service() Opcode { return o & 0xe0 }

// Operation returns o without its transport service.
func (o Opcode) Operation() Opcode { return o & 0x1f }

func (o Opcode) String() string {
	if o == CNP {
		return "CNP"
	}
	services := map[Opcode]string{ServiceRC: "RC_", ServiceUC: "UC_", ServiceUD: "UD_"}
	service, ok := services[o.Service()]
	if op := int(o.Operation()); ok && op < len(opcodeNames) && opcodeNames[op] != "" {
		return service + opcodeNames[op]
	}
	return fmt.Sprintf("Opcode(%#x)", uint8(o))
}

func name[K ~uint8 | ~uint32](names map[K]string, k K, kind string) string {
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprintf("%s(%d)", kind, k)
}
