package mlx5

import (
	"encoding/binary"
	"errors"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// sendRing is a queue pair's knowledge of its ring of send WQEs.
type sendRing struct {
	id    uint64 // the upper bits of the requests' WRID; the lower 16 are the WQE's counter
	next  uint16 // counter of the next WQE, in blocks
	wqes  []sent // by counter
	held  bool   // the back end has no room for the next
	stage verbs.MR
	bytes []byte // of stage: inline data that goes with pointers, or is more than the back end takes, where it is in the ring
	small stage
}

// sent is the state of a WQE until it completes.
type sent struct {
	opcode    uint8
	refused   ib.WCStatus // why it can't be carried out, or WCSuccess
	scattered bool        // what comes back goes into the CQE
}

func (s *sendRing) init(id uint64, blocks int) {
	s.id, s.wqes = id, make([]sent, blocks)
}

func (s *sendRing) reset() { s.next, s.held = 0, false }

func (s *sendRing) at(counter uint16) *sent { return &s.wqes[int(counter)&(len(s.wqes)-1)] }

func (s *sendRing) release() {
	if s.stage != nil {
		_ = s.stage.Close()
	}
	s.small.release()
}

// send reads the doorbell records of the queue pairs in todo and posts what is new. Those
// stay in todo that wait for room in the back end. It reports whether anything was posted.
func (e *Engine) send() (any bool) {
	todo := e.todo
	e.todo, e.spare = e.spare[:0], e.todo
	for len(todo) > 0 {
		some := todo[:min(len(todo), maxRecords)]
		todo = todo[len(some):]
		pieces, ahead := e.recordPieces[:0], 0
		for i, q := range some {
			pieces = append(pieces, verbs.MemoryPiece{Addr: q.cfg.Record + 4, Data: e.records[4*i : 4*i+4]})
		}
		if len(some) == 1 { // the usual case: the record and what is probably new, in this order
			ahead = some[0].send.straight(readAhead)
			pieces = append(pieces, some[0].ringPiece(ahead))
		}
		if !e.readRecords(pieces) {
			ahead = 0
		}
		for i, q := range some {
			q.queued = false
			if q.failed || !q.mayPost() {
				continue
			}
			if pieces[i].Data == nil {
				q.fails()
				continue
			}
			counter := uint16(binary.BigEndian.Uint32(e.records[4*i:]))
			if counter == q.send.next {
				continue
			}
			any = q.post(counter, ahead) || any
			if q.send.held {
				q.rings()
			}
		}
	}
	return any
}

// readAhead is the number of blocks read before it is known that they are new.
const readAhead = 8

// straight returns how many of n blocks from the next on lie before the ring's end.
func (s *sendRing) straight(n int) int { return min(n, len(s.wqes)-int(s.next)&(len(s.wqes)-1)) }

// ringPiece is n blocks of the ring from the next on, which do not wrap.
func (q *QP) ringPiece(n int) verbs.MemoryPiece {
	at := int(q.send.next) & (len(q.send.wqes) - 1) * connectx.BlockBytes
	return verbs.MemoryPiece{Addr: q.cfg.SendBuffer + uint64(at), Data: q.e.ring[:n*connectx.BlockBytes]}
}

// post posts the WQEs up to counter, of which readRing's buffer has ahead blocks or more
// than there are, and reports whether there was room for any. A doorbell beyond the ring
// fails the queue pair.
func (q *QP) post(counter uint16, ahead int) (any bool) {
	s := &q.send
	if int(counter-s.next) > len(s.wqes) {
		q.fails()
		return false
	}
	s.held = false
	for s.next != counter && !s.held && !q.failed {
		from, left := s.next, int(counter-s.next)
		n := min(left, ahead)
		if ahead = 0; n == 0 {
			if n = min(left, batch); !q.readRing(n) {
				q.fails()
				return any
			}
		}
		q.postBatch(n, n < left)
		any = any || s.next != from
	}
	return any
}

// readRing reads n blocks from the next on.
func (q *QP) readRing(n int) bool {
	e := q.e
	straight := q.send.straight(n)
	pieces := append(e.ringPieces[:0], q.ringPiece(straight))
	if straight < n {
		pieces = append(pieces, verbs.MemoryPiece{Addr: q.cfg.SendBuffer, Data: e.ring[straight*connectx.BlockBytes : n*connectx.BlockBytes]})
	}
	return e.mem.readAll(pieces) == nil
}

// postBatch decodes the n blocks that readRing has read, and posts the requests. more says
// that more blocks were posted behind them. A WQE that can't be carried out is the last.
func (q *QP) postBatch(n int, more bool) {
	e, s := q.e, &q.send
	count, at, pieces := 0, 0, 0
	counter := s.next
	var bad bool
	for at < n && count < len(e.wrs) {
		b := e.ring[at*connectx.BlockBytes : n*connectx.BlockBytes]
		blocks := blocksOf(b)
		if blocks > n-at && more {
			break // the rest comes with the next batch
		}
		r := &e.request
		err := decodeSend(b, q.num, q.cfg.Type, e.sges[pieces:], r)
		if err == nil {
			err = q.complete(r, b, counter)
		}
		w := s.at(counter)
		w.opcode, w.refused = b[3], ib.WCSuccess
		switch {
		case err != nil:
			w.refused = ib.WCLocQPOpErr
		case r.wr.Length() > MaxMessage:
			w.refused = ib.WCLocLenErr
		}
		if bad = w.refused != ib.WCSuccess; bad {
			break
		}
		q.scatterSent(r, counter)
		r.wr.WRID = s.id | uint64(counter)
		if q.cfg.SigAll {
			r.wr.Flags |= verbs.SendSignaled
		}
		e.wrs[count], e.blocks[count] = r.wr, uint8(blocks)
		count++
		at += blocks
		pieces += len(r.wr.SGL)
		counter += uint16(blocks)
	}
	var taken int
	var err error
	if count > 0 {
		taken, err = q.cfg.Backend.PostSend(e.wrs[:count])
	}
	for _, blocks := range e.blocks[:taken] {
		s.next += uint16(blocks)
	}
	switch {
	case err == nil && bad:
		q.refuse(min(blocksOf(e.ring[at*connectx.BlockBytes:]), n-at))
	case err == nil:
	case errors.Is(err, verbs.ErrQueueFull):
		s.held = true
	default: // the next one asks for what the queue pair does not do
		s.at(s.next).refused = ib.WCLocQPOpErr
		q.refuse(int(e.blocks[taken]))
	}
}

// complete adds to a request what takes more than its WQE.
func (q *QP) complete(r *request, b []byte, counter uint16) (err error) {
	if q.cfg.Type == ib.UD {
		if r.wr.AH, err = q.handle(&r.av); err != nil {
			return err
		}
	}
	if most := q.cfg.MaxInline; most > 0 && len(r.wr.Inline) > most {
		r.wr.Flags &^= verbs.SendInline
		r.wr.SGL, r.wr.Inline, r.inline = r.piece, nil, 1
	}
	if r.inline == 0 {
		return nil
	}
	s := &q.send
	if s.stage == nil {
		// A WQE that begins in the last block and is longer goes on behind the ring.
		s.bytes = make([]byte, (len(s.wqes)+maxBlocks)*connectx.BlockBytes)
		if s.stage, err = q.cfg.PD.RegMR(s.bytes, 0); err != nil {
			return err
		}
	}
	base := int(counter) & (len(s.wqes) - 1) * connectx.BlockBytes
	for i := range r.wr.SGL {
		if r.inline>>i&1 != 0 {
			p := &r.wr.SGL[i]
			from := int(p.Addr)
			copy(s.bytes[base+from:], b[from:from+int(p.Length)])
			p.Addr, p.LKey = s.stage.Addr()+uint64(base+from), s.stage.LKey()
		}
	}
	return nil
}

// MaxMessage is the bytes of the longest message, which the port states (max_msg_sz). libmlx5
// does not look at the length as it posts; the NIC ends a longer one with a local length
// error (IBA 11.6.2).
const MaxMessage = 1 << 30

// noKey is the key of no region.
const noKey = 0

// refuse ends the WQE at next, of some blocks, with the error for which it was refused, after
// those before it, and brings the queue pair to ERR. A connection gets a request that fails in its turn;
// its completion says then what it was.
func (q *QP) refuse(blocks int) {
	e, s := q.e, &q.send
	x := entry{
		opcode: connectx.CQEReqErr, wqeOpcode: s.at(s.next).opcode, qpn: q.num, userIndex: q.cfg.UserIndex, counter: s.next,
	}
	x.fail(s.at(s.next).refused)
	if q.cfg.Type != ib.UD {
		e.poison[0] = verbs.SGE{Length: 1, LKey: noKey}
		e.wrs[0] = verbs.SendWR{
			WRID: s.id | uint64(s.next), Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: e.poison[:],
		}
		n, err := q.cfg.Backend.PostSend(e.wrs[:1])
		if n == 1 {
			s.next += uint16(blocks)
			return
		}
		if errors.Is(err, verbs.ErrQueueFull) {
			s.held = true
			return
		}
	}
	if q.state == ib.Err || q.state == ib.SQE {
		x.fail(ib.WCWRFlushErr)
	}
	s.next += uint16(blocks)
	c := q.cfg.SendCQ
	e.drain(c)
	q.toError()
	e.drain(c)
	c.add(&x, nil)
	c.flush()
}
