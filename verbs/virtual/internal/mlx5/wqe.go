package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

const (
	maxBlocks = (connectx.MaxOctowords*connectx.Octoword + connectx.BlockBytes - 1) / connectx.BlockBytes
	maxPieces = connectx.MaxOctowords - 1 // data segments of a WQE
)

// avBytes is the part of a datagram segment that says where it goes: from stat_rate_sl on.
const avBytes = connectx.DatagramBytes - 12

// request is a decoded send WQE.
type request struct {
	opcode uint8
	blocks int // of 64 bytes
	wr     verbs.SendWR
	av     [avBytes]byte // UD
	// inline has a bit for each element of wr.SGL that is inline data, whose Addr is the
	// offset in the WQE: where it goes with pointers, or is in several pieces.
	inline uint64
	// piece is that element where wr.Inline is all data.
	piece []verbs.SGE
}

// Reasons why a WQE is not carried out.
var (
	errSize     = errors.New("the WQE's size does not fit what was posted")
	errOpcode   = errors.New("the opcode is not supported")
	errQPN      = errors.New("the WQE names another queue pair")
	errSegments = errors.New("the WQE's segments don't fit its size")
	errAV       = errors.New("the address vector is not a RoCE one")
)

// blocksOf returns how many blocks the WQE at the start of b takes, at least 1.
func blocksOf(b []byte) int {
	octowords := int(b[7] & connectx.MaxOctowords)
	return max((octowords*connectx.Octoword+connectx.BlockBytes-1)/connectx.BlockBytes, 1)
}

// decodeSend decodes the WQE at the start of b, all of whose blocks b has, into r. The
// SGL is made of the elements of pieces, which has maxPieces; inline data stays in b.
func decodeSend(b []byte, qpn uint32, typ ib.QPType, pieces []verbs.SGE, r *request) error {
	be := binary.BigEndian
	idx, size := be.Uint32(b), be.Uint32(b[4:])
	r.opcode, r.blocks, r.inline = uint8(idx), blocksOf(b), 0
	wr := &r.wr
	*wr = verbs.SendWR{}
	end := int(size&connectx.MaxOctowords) * connectx.Octoword
	switch {
	case end == 0 || end > len(b):
		return errSize
	case size>>8 != qpn:
		return errQPN
	case idx>>24 != 0: // opcode modifier
		return errOpcode
	}
	b = b[:end]
	flags := b[connectx.CtrlFlags]
	if flags&connectx.CEMask >= connectx.CEAlways {
		wr.Flags |= verbs.SendSignaled
	}
	if flags&connectx.Solicited != 0 {
		wr.Flags |= verbs.SendSolicited
	}
	if flags&connectx.FMMask >= connectx.FMStrong {
		wr.Flags |= verbs.SendFence
	}
	at := connectx.CtrlBytes
	var err error
	if typ == ib.UD {
		at, err = r.datagram(b, at)
	} else {
		at, err = r.connected(b, at)
	}
	if err != nil {
		return err
	}
	if r.opcode == connectx.OpNOP {
		return nil
	}
	wr.Imm = be.Uint32(b[connectx.CtrlImm:])
	return r.data(b, at, pieces)
}

// datagram decodes what comes before the data of a WQE of a UD queue pair.
func (r *request) datagram(b []byte, at int) (int, error) {
	switch r.opcode {
	case connectx.OpSend:
		r.wr.Opcode = ib.WRSend
	case connectx.OpSendImm:
		r.wr.Opcode = ib.WRSendWithImm
	default:
		return 0, errOpcode
	}
	if len(b)-at < connectx.DatagramBytes {
		return 0, errSegments
	}
	be := binary.BigEndian
	dqp := be.Uint32(b[at+8:])
	if dqp&connectx.ExtendedAV == 0 {
		return 0, errAV
	}
	r.wr.RemoteQKey, r.wr.RemoteQPN = be.Uint32(b[at:]), dqp&0xffffff
	copy(r.av[:], b[at+12:])
	return at + connectx.DatagramBytes, nil
}

// addressVector returns where a datagram goes.
func addressVector(b *[avBytes]byte) verbs.AddressVector {
	gid := binary.BigEndian.Uint32(b[16:])
	return verbs.AddressVector{
		GID: netip.AddrFrom16([16]byte(b[20:])).Unmap(), SGIDIndex: int(gid >> 20 & 0xff), FlowLabel: gid & 0xfffff,
		SL: b[0] >> 1 & 7, TrafficClass: b[14], HopLimit: b[15],
	}
}

// connected decodes what comes before the data of a WQE of a connection. A NOP goes over
// the connection as a WRITE of no bytes: so it completes in its turn.
func (r *request) connected(b []byte, at int) (int, error) {
	wr := &r.wr
	bytes := connectx.RaddrBytes
	switch r.opcode {
	case connectx.OpSend:
		wr.Opcode, bytes = ib.WRSend, 0
	case connectx.OpSendImm:
		wr.Opcode, bytes = ib.WRSendWithImm, 0
	case connectx.OpSendInval:
		wr.Opcode, bytes = ib.WRSendWithInv, 0
	case connectx.OpNOP:
		wr.Opcode, bytes = ib.WRRDMAWrite, 0
	case connectx.OpWrite:
		wr.Opcode = ib.WRRDMAWrite
	case connectx.OpWriteImm:
		wr.Opcode = ib.WRRDMAWriteWithImm
	case connectx.OpRead:
		wr.Opcode = ib.WRRDMARead
	case connectx.OpAtomicCS:
		wr.Opcode, bytes = ib.WRAtomicCmpAndSwp, connectx.RaddrBytes+connectx.AtomicBytes
	case connectx.OpAtomicFA:
		wr.Opcode, bytes = ib.WRAtomicFetchAndAdd, connectx.RaddrBytes+connectx.AtomicBytes
	default:
		return 0, errOpcode
	}
	if len(b)-at < bytes {
		return 0, errSegments
	}
	be := binary.BigEndian
	if bytes >= connectx.RaddrBytes {
		wr.RemoteAddr, wr.RKey = be.Uint64(b[at:]), be.Uint32(b[at+8:])
	}
	if bytes > connectx.RaddrBytes {
		swapAdd, compare := be.Uint64(b[at+16:]), be.Uint64(b[at+24:])
		if wr.Opcode == ib.WRAtomicCmpAndSwp {
			wr.Swap, wr.CompareAdd = swapAdd, compare
		} else {
			wr.CompareAdd = swapAdd
		}
	}
	return at + bytes, nil
}

// data decodes the data segments from at on. Pointers to no bytes are left out.
func (r *request) data(b []byte, at int, pieces []verbs.SGE) error {
	be := binary.BigEndian
	n, inline := 0, uint64(0)
	for at < len(b) {
		word := be.Uint32(b[at:])
		if word&connectx.InlineBit != 0 {
			length := int(word &^ connectx.InlineBit)
			if length > len(b)-at-4 {
				return errSegments
			}
			pieces[n] = verbs.SGE{Addr: uint64(at + 4), Length: uint32(length)}
			inline |= 1 << n
			n++
			at += (4 + length + connectx.Octoword - 1) &^ (connectx.Octoword - 1)
			continue
		}
		if word != 0 {
			pieces[n] = verbs.SGE{Length: word, LKey: be.Uint32(b[at+4:]), Addr: be.Uint64(b[at+8:])}
			n++
		}
		at += connectx.DataBytes
	}
	switch {
	case inline == 0:
		r.wr.SGL = pieces[:n]
	case r.opcode == connectx.OpRead || r.wr.Opcode.IsAtomic():
		return errSegments // data comes back: there is nothing to be inline
	case n == 1:
		r.wr.Flags |= verbs.SendInline
		r.wr.Inline = b[pieces[0].Addr:][:pieces[0].Length]
		r.piece = pieces[:n]
	default:
		r.wr.SGL, r.inline = pieces[:n], inline
	}
	return nil
}

// decodeList decodes the list of a receive WQE into the elements of pieces, and returns
// those in use. It ends at the first invalid key. Entries of no bytes are left out.
func decodeList(b []byte, pieces []verbs.SGE) []verbs.SGE {
	be := binary.BigEndian
	n := 0
	for at := 0; at < len(b); at += connectx.DataBytes {
		length, lkey := be.Uint32(b[at:]), be.Uint32(b[at+4:])
		if lkey == connectx.InvalidLKey {
			break
		}
		if length != 0 {
			pieces[n] = verbs.SGE{Length: length, LKey: lkey, Addr: be.Uint64(b[at+8:])}
			n++
		}
	}
	return pieces[:n]
}

// powerOfTwo returns an error that names what if n is not a power of two from low to high.
func powerOfTwo(what string, n, low, high int) error {
	if n < low || n > high || n&(n-1) != 0 {
		return fmt.Errorf("mlx5: %s %d, expected a power of two from %d to %d", what, n, low, high)
	}
	return nil
}
