package verbs

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/ib"
)

// SendLimits are a queue pair's limits of a send request, in any state.
type SendLimits struct {
	Type ib.QPType
	// NoReads refuses READs and atomics: the queue pair was connected with MaxRdAtomic 0.
	NoReads bool
	// Cap is the queue pair's capacity. Of MaxSendSGE, 0 counts as 1.
	Cap QPCap
	// Datagram is the longest datagram in bytes, the port's MTU. Connections do not use it.
	Datagram int
	// Message is the longest message of a connection in bytes, the port's MaxMsgSize; 0 for
	// ib.MaxMessage.
	Message int
}

// longest is the bytes of the longest message.
func (l *SendLimits) longest() int {
	if l.Message > 0 {
		return l.Message
	}
	return ib.MaxMessage
}

// sendOpcodes are the operations of each transport service, a bit for each
// opcode (IBA 9.2.1, table 38).
var sendOpcodes = [...]uint16{
	ib.RC: anySend,
	ib.UC: 1<<ib.WRSend | 1<<ib.WRSendWithImm | 1<<ib.WRRDMAWrite | 1<<ib.WRRDMAWriteWithImm | 1<<ib.WRLocalInv | 1<<ib.WRBindMW,
	ib.UD: 1<<ib.WRSend | 1<<ib.WRSendWithImm,
}

const anySend = 1<<ib.WRSend | 1<<ib.WRSendWithImm | 1<<ib.WRSendWithInv | 1<<ib.WRRDMAWrite |
	1<<ib.WRRDMAWriteWithImm | 1<<ib.WRRDMARead | 1<<ib.WRAtomicCmpAndSwp | 1<<ib.WRAtomicFetchAndAdd | 1<<ib.WRLocalInv | 1<<ib.WRBindMW

// Operations that return data, operations with checks of their own, and operations that
// send no data.
const (
	reads  = 1<<ib.WRRDMARead | 1<<ib.WRAtomicCmpAndSwp | 1<<ib.WRAtomicFetchAndAdd
	rare   = reads | 1<<ib.WRBindMW
	noData = rare | 1<<ib.WRLocalInv
)

// CheckSend returns the error of a send request that the request and the limits of
// its queue pair show, or nil. The provider still has to check the queue's room,
// keys, addresses in memory and the owner of the address handle. The error is the
// detail of an OpError with ErrInvalid. Without an error nothing is allocated.
// CheckSend keeps neither argument.
func CheckSend(l *SendLimits, wr *SendWR) error {
	op := wr.Opcode
	if op >= 16 || int(l.Type) >= len(sendOpcodes) || sendOpcodes[l.Type]>>op&1 == 0 {
		return wrongOpcode(l, op)
	}
	length := wr.Length()
	// What needs words is elsewhere: most requests need none, and this is on their way.
	if wr.Flags&SendInline != 0 {
		if noData>>op&1 != 0 || length > l.Cap.MaxInlineData || length > l.longest() {
			return wrongInline(l, op, length)
		}
	} else if len(wr.SGL) > max(l.Cap.MaxSendSGE, 1) || length > l.longest() {
		return wrongData(l, wr, length)
	}
	switch {
	case rare>>op&1 != 0:
		if op == ib.WRBindMW {
			return checkBind(wr)
		}
		return checkRead(l, wr, length)
	case l.Type == ib.UD:
		return checkDatagram(l, wr, length)
	case wr.AH != nil:
		return checkHandle(wr)
	}
	return nil
}

// wrongOpcode says that the queue pair does not have an operation.
func wrongOpcode(l *SendLimits, op ib.WROpcode) error {
	if op >= 16 || anySend>>op&1 == 0 {
		return fmt.Errorf("%v is no opcode of a send request", op)
	}
	return fmt.Errorf("%v on a queue pair of type %v, which does not have it", op, l.Type)
}

// wrongInline says why an operation can't be inline.
func wrongInline(l *SendLimits, op ib.WROpcode, length int) error {
	if noData>>op&1 != 0 {
		return fmt.Errorf("%v can't be inline: it sends no data", op)
	}
	if length <= l.Cap.MaxInlineData {
		return tooLong("a message", length, l.longest())
	}
	return fmt.Errorf("%d bytes inline: the queue pair was made for %d", length, l.Cap.MaxInlineData)
}

// wrongData says what is wrong with a scatter/gather list.
func wrongData(l *SendLimits, wr *SendWR, length int) error {
	if most := max(l.Cap.MaxSendSGE, 1); len(wr.SGL) > most {
		return fmt.Errorf("%d SGEs: the queue pair was made for %d", len(wr.SGL), most)
	}
	return tooLong("a message", length, l.longest())
}

// tooLong says that data are longer than a message can be.
func tooLong(what string, length, most int) error {
	if length >= math.MaxUint32 {
		return fmt.Errorf("%s of %d bytes or more: at most %d fit, send several", what, length, most)
	}
	return fmt.Errorf("%s of %d bytes: at most %d fit, send several", what, length, most)
}

// CheckRecv is CheckSend of a receive request to a queue whose requests have up to sges
// pieces; 0 counts as 1.
func CheckRecv(sges int, wr *RecvWR) error {
	if most := max(sges, 1); len(wr.SGL) > most {
		return fmt.Errorf("%d SGEs, expected at most %d", len(wr.SGL), most)
	}
	if length := wr.Length(); length > ib.MaxMessage {
		return tooLong("a receive", length, ib.MaxMessage)
	}
	return nil
}

// checkRead checks a READ or an atomic, which are of connections.
func checkRead(l *SendLimits, wr *SendWR, length int) error {
	if l.NoReads {
		return fmt.Errorf("%v on a queue pair connected with MaxRdAtomic 0", wr.Opcode)
	}
	if wr.Opcode.IsAtomic() {
		if length != 8 {
			return fmt.Errorf("an atomic returns 8 bytes, and the request has room for %d", length)
		}
		if wr.RemoteAddr%8 != 0 {
			return fmt.Errorf("an atomic at %#x: the remote address must be a multiple of 8", wr.RemoteAddr)
		}
	}
	return checkHandle(wr)
}

func checkDatagram(l *SendLimits, wr *SendWR, length int) error {
	if length > l.Datagram {
		return fmt.Errorf("a datagram of %d bytes: the port's MTU is %d", length, l.Datagram)
	}
	if wr.AH == nil {
		return errors.New("a datagram without a destination: set AH to an address handle of the PD's CreateAH")
	}
	if wr.RemoteQPN >= 1<<24 {
		return fmt.Errorf("peer queue pair %#x: a number has 24 bits", wr.RemoteQPN)
	}
	return nil
}

// checkHandle refuses an address handle on a connection.
func checkHandle(wr *SendWR) error {
	if wr.AH != nil {
		return errors.New("an address handle, but a connection sends to its peer only: leave AH nil")
	}
	return nil
}
