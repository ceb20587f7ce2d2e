package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// Vector is an address vector, as an address handle of libmlx5's has it: all of a datagram
// segment but the Q_Key and the queue pair's number.
type Vector [connectx.DatagramBytes]byte

// ErrUnsupported is the error of a request that only libmlx5 posts.
var ErrUnsupported = errors.New("this operation is libmlx5's: open the device with direct=off")

// sendRing is a ring of send WQEs. Counters count requests, or blocks of 64 bytes, and wrap.
type sendRing struct {
	ring     []byte
	record   *uint32
	doorbell *uint64
	num      uint32
	always   byte // flags of each WQE
	limits   verbs.SendLimits
	most     int    // blocks of a WQE
	max      uint32 // requests
	slots    []sendSlot

	put    uint32 // requests in the ring
	blocks uint32 // theirs
	last   uint32 // where the last one begins, in blocks

	rung atomic.Uint32 // requests that the device was told of
	done atomic.Uint32 // and that have completed
}

// sendSlot is the state of a WQE until it completes.
type sendSlot struct {
	id  uint64
	end uint32 // requests in the ring with this one
}

func (s *sendRing) init(c *QPConfig) error {
	s.ring, s.record, s.doorbell, s.num = c.Memory.Send, &c.Memory.Record[connectx.RecordSend], c.Memory.Doorbell, c.Num
	if len(s.ring) == 0 {
		return nil
	}
	n := len(s.ring) / connectx.BlockBytes
	if err := powerOfTwo("blocks of a send ring", n, 1<<15); err != nil {
		return err
	}
	s.max = uint32(min(c.Cap.MaxSendWR, n))
	s.most = min(n/max(int(s.max), 1), (connectx.MaxOctowords*connectx.Octoword+connectx.BlockBytes-1)/connectx.BlockBytes)
	if c.SigAll {
		s.always = connectx.CEAlways
	}
	s.limits = verbs.SendLimits{Type: c.Type, Cap: c.Cap, Datagram: math.MaxInt}
	s.slots = make([]sendSlot, n)
	return nil
}

func (s *sendRing) reset() {
	s.put, s.blocks, s.last = 0, 0, 0
	s.rung.Store(0)
	s.done.Store(0)
}

// opcodes has a WQE's opcode for each operation, and how long what is before its data is,
// in octowords. 0 octowords are for operations that it does not have.
var opcodes = [16]struct{ opcode, octowords uint8 }{
	ib.WRSend:              {connectx.OpSend, 1},
	ib.WRSendWithImm:       {connectx.OpSendImm, 1},
	ib.WRSendWithInv:       {connectx.OpSendInval, 1},
	ib.WRRDMAWrite:         {connectx.OpWrite, 2},
	ib.WRRDMAWriteWithImm:  {connectx.OpWriteImm, 2},
	ib.WRRDMARead:          {connectx.OpRead, 2},
	ib.WRAtomicCmpAndSwp:   {connectx.OpAtomicCS, 3},
	ib.WRAtomicFetchAndAdd: {connectx.OpAtomicFA, 3},
}

// PutSend writes a request to the ring. The device hears of it by RingSend. to is where a
// datagram goes, nil for connections. It fails with verbs.ErrQueueFull, ErrUnsupported or
// what is wrong with the request, and then the ring is as it was.
func (q *QP) PutSend(wr *verbs.SendWR, to *Vector) error {
	s := &q.send
	if err := verbs.CheckSend(&s.limits, wr); err != nil {
		return err
	}
	op := opcodes[wr.Opcode]
	if op.octowords == 0 {
		return ErrUnsupported
	}
	if s.put-s.done.Load() >= s.max {
		return verbs.ErrQueueFull
	}
	be := binary.BigEndian
	mask := uint32(len(s.slots) - 1)
	index := s.blocks & mask
	at := int(index) * connectx.BlockBytes
	b := s.ring[at : at+connectx.BlockBytes : at+connectx.BlockBytes]
	size := int(op.octowords)
	switch size {
	case 2:
		putRemote(b, wr)
	case 3:
		putRemote(b, wr)
		if wr.Opcode == ib.WRAtomicCmpAndSwp {
			be.PutUint64(b[32:], wr.Swap)
			be.PutUint64(b[40:], wr.CompareAdd)
		} else {
			be.PutUint64(b[32:], wr.CompareAdd)
		}
	}
	if s.limits.Type == ib.UD {
		copy(b[connectx.CtrlBytes:], to[:])
		be.PutUint32(b[connectx.CtrlBytes:], wr.RemoteQKey)
		be.PutUint32(b[connectx.CtrlBytes+8:], wr.RemoteQPN|connectx.ExtendedAV)
		size += connectx.DatagramBytes / connectx.Octoword
	}
	var err error
	if wr.Flags&verbs.SendInline != 0 {
		size, err = s.putInline(at, size, wr.Inline)
	} else {
		size, err = s.putList(at, size, wr.SGL)
	}
	if err != nil {
		return err
	}

	be.PutUint32(b, s.blocks<<16>>8|uint32(op.opcode))
	be.PutUint32(b[4:], s.num<<8|uint32(size))
	flags := uint32(s.always)
	if wr.Flags&verbs.SendSignaled != 0 {
		flags |= connectx.CEAlways
	}
	if wr.Flags&(verbs.SendFence|verbs.SendSolicited) != 0 {
		if wr.Flags&verbs.SendFence != 0 {
			flags |= connectx.FMFence
		}
		if wr.Flags&verbs.SendSolicited != 0 {
			flags |= connectx.Solicited
		}
	}
	be.PutUint32(b[8:], flags)
	imm := uint32(0)
	switch wr.Opcode {
	case ib.WRRDMAWriteWithImm, ib.WRSendWithImm, ib.WRSendWithInv:
		imm = wr.Imm
	}
	be.PutUint32(b[connectx.CtrlImm:], imm)

	s.put++
	s.slots[index] = sendSlot{wr.WRID, s.put}
	s.last = index
	s.blocks += uint32(size*connectx.Octoword+connectx.BlockBytes-1) / connectx.BlockBytes
	return nil
}

// putRemote writes a remote address segment behind the control segment.
func putRemote(b []byte, wr *verbs.SendWR) {
	binary.BigEndian.PutUint64(b[16:], wr.RemoteAddr)
	binary.BigEndian.PutUint64(b[24:], uint64(wr.RKey)<<32)
}

// putList writes data segments behind the first size octowords of the WQE at an offset, and
// returns the size with them. Pieces of no bytes have none.
func (s *sendRing) putList(at, size int, sgl []verbs.SGE) (int, error) {
	if size+len(sgl) > s.most*connectx.BlockBytes/connectx.Octoword || size+len(sgl) > connectx.MaxOctowords {
		return 0, tooLong(len(sgl))
	}
	be := binary.BigEndian
	for i := range sgl {
		sge := &sgl[i]
		if sge.Length == 0 {
			continue
		}
		from := (at + size*connectx.Octoword) & (len(s.ring) - 1)
		b := s.ring[from : from+connectx.DataBytes]
		be.PutUint64(b, uint64(sge.Length)<<32|uint64(sge.LKey))
		be.PutUint64(b[8:], sge.Addr)
		size++
	}
	return size, nil
}

func tooLong(pieces int) error {
	return fmt.Errorf("%d pieces of memory do not fit a request of this ring", pieces)
}

// putInline is putList for inline data. No bytes have no segment.
func (s *sendRing) putInline(at, size int, data []byte) (int, error) {
	if len(data) == 0 {
		return size, nil
	}
	octowords := (4 + len(data) + connectx.Octoword - 1) / connectx.Octoword
	if size+octowords > s.most*connectx.BlockBytes/connectx.Octoword || size+octowords > connectx.MaxOctowords {
		return 0, fmt.Errorf("%d bytes inline do not fit a request of this ring", len(data))
	}
	from := (at + size*connectx.Octoword) & (len(s.ring) - 1)
	binary.BigEndian.PutUint32(s.ring[from:], uint32(len(data))|connectx.InlineBit)
	n := copy(s.ring[from+4:], data)
	copy(s.ring, data[n:])
	return size + octowords, nil
}

// RingSend tells the device of the requests in the ring, if there are new ones.
func (q *QP) RingSend() {
	s := &q.send
	if s.rung.Load() == s.put {
		return
	}
	s.rung.Store(s.put)
	ring(s.record, bits.ReverseBytes32(s.blocks&0xffff), s.doorbell, binary.NativeEndian.Uint64(s.ring[s.last*connectx.BlockBytes:]))
}
