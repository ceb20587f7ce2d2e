package uverbs

import (
	"encoding/binary"
	"syscall"
)

// Op is the command of a message, with Extended for those of the second form.
type Op uint32

// Extended marks a command whose header has the second part (IB_USER_VERBS_CMD_FLAG_EXTENDED).
const Extended Op = 0x8000_0000

// Commands (enum ib_uverbs_write_cmds).
const (
	GetContext        Op = 0
	QueryDevice       Op = 1
	QueryPort         Op = 2
	AllocPD           Op = 3
	DeallocPD         Op = 4
	CreateAH          Op = 5
	DestroyAH         Op = 8
	RegMR             Op = 9
	ReregMR           Op = 11
	DeregMR           Op = 13
	AllocMW           Op = 14
	DeallocMW         Op = 16
	CreateCompChannel Op = 17
	CreateCQ          Op = 18
	ResizeCQ          Op = 19
	DestroyCQ         Op = 20
	PollCQ            Op = 21
	ReqNotifyCQ       Op = 23
	CreateQP          Op = 24
	QueryQP           Op = 25
	ModifyQP          Op = 26
	DestroyQP         Op = 27
	PostSend          Op = 28
	PostRecv          Op = 29
	AttachMcast       Op = 30
	DetachMcast       Op = 31
	CreateSRQ         Op = 32
	ModifySRQ         Op = 33
	QuerySRQ          Op = 34
	DestroySRQ        Op = 35
	PostSRQRecv       Op = 36
	OpenXRCD          Op = 37
	CloseXRCD         Op = 38
	CreateXSRQ        Op = 39
	OpenQP            Op = 40

	QueryDeviceEx         = Extended | 1
	CreateCQEx            = Extended | 18
	CreateQPEx            = Extended | 24
	ModifyQPEx            = Extended | 26
	CreateFlowEx          = Extended | 50
	DestroyFlowEx         = Extended | 51
	CreateWQEx            = Extended | 52
	ModifyWQEx            = Extended | 53
	DestroyWQEx           = Extended | 54
	CreateRWQIndTableEx   = Extended | 55
	DestroyRWQIndTableEx  = Extended | 56
	ModifyCQEx            = Extended | 57
	opMask                = 0xff
	headerBytes           = 8
	extendedHeaderBytes   = 16
	lastOp, lastExtension = OpenQP, ModifyCQEx
)

// form is a command's framing: the bytes of its request and of its response
// without the driver's, and whether drivers have a part at all.
type form struct {
	in, out int
	driver  bool
}

// forms are the commands that the kernel has in either form. An extended command
// may be longer than its form, as later headers are; what is behind has to be 0.
var forms = map[Op]form{
	GetContext: {8, 8, true}, QueryDevice: {8, 176, true}, QueryPort: {16, 40, true},
	AllocPD: {8, 4, true}, DeallocPD: {4, 0, false},
	CreateAH: {56, 4, true}, DestroyAH: {4, 0, false},
	RegMR: {40, 12, true}, ReregMR: {48, 8, true}, DeregMR: {4, 0, false},
	AllocMW: {16, 8, true}, DeallocMW: {4, 0, false},
	CreateCompChannel: {8, 4, false},
	CreateCQ:          {32, 8, true}, ResizeCQ: {16, 8, true}, DestroyCQ: {16, 8, false},
	PollCQ: {16, 8, false}, ReqNotifyCQ: {8, 0, false},
	CreateQP: {56, 32, true}, QueryQP: {16, 128, true}, ModifyQP: {112, 0, true}, DestroyQP: {16, 4, false},
	PostSend: {24, 4, false}, PostRecv: {24, 4, false}, PostSRQRecv: {24, 4, false},
	AttachMcast: {24, 0, false}, DetachMcast: {24, 0, false},
	CreateSRQ: {32, 16, true}, CreateXSRQ: {48, 16, true}, ModifySRQ: {16, 0, true}, QuerySRQ: {16, 16, true}, DestroySRQ: {16, 4, false},
	OpenXRCD: {16, 4, true}, CloseXRCD: {4, 0, false}, OpenQP: {32, 32, true},

	QueryDeviceEx: {8, 184, true}, CreateCQEx: {32, 16, true}, CreateQPEx: {64, 40, true},
	ModifyQPEx: {116, 8, true}, ModifyCQEx: {16, 0, false},
	CreateFlowEx: {24, 8, true}, DestroyFlowEx: {8, 0, false},
	CreateWQEx: {40, 24, true}, ModifyWQEx: {24, 0, true}, DestroyWQEx: {8, 12, false},
	CreateRWQIndTableEx: {8, 16, true}, DestroyRWQIndTableEx: {8, 0, false},
}

// Message is a command taken apart.
type Message struct {
	Op     Op
	core   []byte // the request, with the response's address where the form has it
	driver []byte // the driver's part of the request

	To                 uint64 // where the program wants the response
	coreOut, driverOut int    // bytes that the program left for the two parts of the response
}

// Parse takes apart what a program wrote. The message refers to p. It fails as the
// kernel's write does: EINVAL for lengths that contradict each other, ENOSPC for too
// little room, EOPNOTSUPP for a command that there is not.
func Parse(p []byte) (Message, syscall.Errno) {
	if len(p) < headerBytes {
		return Message{}, syscall.EINVAL
	}
	op := Op(binary.LittleEndian.Uint32(p))
	in, out := int(binary.LittleEndian.Uint16(p[4:])), int(binary.LittleEndian.Uint16(p[6:]))
	if op&^(Extended|opMask) != 0 {
		return Message{}, syscall.EINVAL
	}
	f, known := forms[op]
	if !known {
		if op&Extended == 0 && op > lastOp || op > lastExtension {
			return Message{}, syscall.EINVAL
		}
		return Message{}, syscall.EOPNOTSUPP
	}
	m := Message{Op: op}
	if op&Extended == 0 {
		return m.legacy(p, f, in, out)
	}
	return m.extended(p, f, in, out)
}

func (m Message) legacy(p []byte, f form, in, out int) (Message, syscall.Errno) {
	if in*4 != len(p) {
		return Message{}, syscall.EINVAL
	}
	body := p[headerBytes:]
	if len(body) < f.in || out*4 < f.out {
		return Message{}, syscall.ENOSPC
	}
	m.core, m.coreOut = body, out*4
	if f.driver {
		m.core, m.driver = body[:f.in], body[f.in:]
		m.coreOut, m.driverOut = f.out, out*4-f.out
	}
	if f.out > 0 {
		m.To = binary.LittleEndian.Uint64(body)
	} else {
		m.coreOut, m.driverOut = 0, 0
	}
	return m, 0
}

func (m Message) extended(p []byte, f form, in, out int) (Message, syscall.Errno) {
	const headers = headerBytes + extendedHeaderBytes
	if len(p) < headers {
		return Message{}, syscall.EINVAL
	}
	m.To = binary.LittleEndian.Uint64(p[8:])
	driverIn, driverOut := int(binary.LittleEndian.Uint16(p[16:])), int(binary.LittleEndian.Uint16(p[18:]))
	body := p[headers:]
	switch {
	case (in+driverIn)*8 != len(body), binary.LittleEndian.Uint32(p[20:]) != 0, (m.To == 0) != (out+driverOut == 0):
		return Message{}, syscall.EINVAL
	case in*8 < f.in, m.To != 0 && out*8 < f.out:
		return Message{}, syscall.ENOSPC
	}
	m.core, m.driver = body[:in*8], body[in*8:]
	m.coreOut, m.driverOut = out*8, driverOut*8
	return m, 0
}

// Request decodes the request without the driver's part into req, a pointer to the
// command's structure. A longer request has to end in zeros: a part of it that nobody
// reads must not ask for anything (EOPNOTSUPP).
func (m *Message) Request(req any) syscall.Errno { return decode(m.core, req) }

// Driver decodes the driver's part of the request. A shorter one stands for one that
// ends in zeros.
func (m *Message) Driver(req any) syscall.Errno { return decode(m.driver, req) }

// DriverIn is the length of the driver's part of the request.
func (m *Message) DriverIn() int { return len(m.driver) }

// Tail returns the bytes behind the request's fixed part, which is n bytes long.
func (m *Message) Tail(n int) []byte { return m.core[min(n, len(m.core)):] }

func decode(from []byte, to any) syscall.Errno {
	size := binary.Size(to)
	if size < 0 {
		return syscall.EINVAL
	}
	for _, b := range from[min(size, len(from)):] {
		if b != 0 {
			return syscall.EOPNOTSUPP
		}
	}
	whole := make([]byte, size)
	copy(whole, from)
	if _, err := binary.Decode(whole, binary.LittleEndian, to); err != nil {
		return syscall.EINVAL
	}
	return 0
}

// Response lays out a response: the command's structure and behind it the driver's;
// either may be nil. What the program left no room for is cut off, and what it left
// beyond the structures is zero. The bytes go to m.To.
func (m *Message) Response(core, driver any) []byte {
	return append(fit(core, m.coreOut), fit(driver, m.driverOut)...)
}

// CoreOut returns the number of bytes that the program left for the response without the driver's
// part, DriverOut for the driver's part.
func (m *Message) CoreOut() int { return m.coreOut }

// DriverOut returns the number of bytes that the program left for the driver's part of the response.
func (m *Message) DriverOut() int { return m.driverOut }

func fit(v any, room int) []byte {
	out := make([]byte, room)
	if v == nil {
		return out
	}
	if whole, err := binary.Append(nil, binary.LittleEndian, v); err == nil {
		copy(out, whole)
	}
	return out
}

// Sizeof is the length of a structure of this package as it stands in a message.
func Sizeof(v any) int { return binary.Size(v) }
