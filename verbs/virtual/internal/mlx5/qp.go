package mlx5

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// QPConfig describes a queue pair.
type QPConfig struct {
	Type       ib.QPType
	UserIndex  uint32 // 24 bits; what CQEs name the queue pair by
	Page       *Page  // that the send doorbell is on
	Record     uint64 // address of the doorbell record: receive counter, send counter
	SendBuffer uint64 // address of the send ring
	SendBlocks int    // basic blocks of 64 bytes: 0, or a power of two up to 1<<15
	RecvBuffer uint64 // address of the receive ring
	RecvCount  int    // receives: 0, or a power of two up to 1<<15
	RecvStride int    // bytes of a receive WQE: a power of two, 16 to 2048
	SendCQ     *CQ
	RecvCQ     *CQ
	SRQ        *SRQ // nil for a receive ring of its own
	SigAll     bool // every request gives a completion
	// ScatterSent puts little data that comes back for a request of RC into the CQE, if
	// there is one, and ScatterRecv little data that is received into a ring of the queue
	// pair's own.
	ScatterSent, ScatterRecv bool

	PD      verbs.PD // of Backend; its memory regions hold inline data that goes with pointers
	Backend verbs.QP // in RESET, and made without SigAll; its Num is the queue pair's
	// MaxInline is the most inline data that Backend takes, 0 for all that a WQE holds: libmlx5 posts
	// more than the queue pair was made for.
	MaxInline int
	// AH makes the address handle of a datagram's address vector, in the back end's PD.
	// The Engine keeps and destroys it. nil for connections.
	AH func(verbs.AddressVector) (verbs.AH, error)
	// Failed is called once between two RESETs, when the queue pair's rings or records
	// can't be read (IBV_EVENT_QP_FATAL). The queue pair is then in ERR.
	Failed func()
}

// QP is a queue pair.
type QP struct {
	e     *Engine
	cfg   QPConfig
	num   uint32
	slot  int
	state ib.QPState
	gone  bool

	send   sendRing
	recv   recvRing
	queued bool // in Engine.todo
	failed bool // its memory can't be read

	handles map[[avBytes]byte]verbs.AH
	lastAV  [avBytes]byte
	lastAH  verbs.AH // of lastAV
}

// maxHandles is the number of address handles a queue pair keeps.
const maxHandles = 1024

// CreateQP adds a queue pair in RESET. The back end's has to be a verbs.SourcedRecv if it
// has a receive ring of its own.
func (e *Engine) CreateQP(c QPConfig) (*QP, error) {
	if c.SendBlocks != 0 {
		if err := powerOfTwo("send ring blocks", c.SendBlocks, 1, 1<<15); err != nil {
			return nil, err
		}
	}
	if c.RecvCount != 0 {
		if err := powerOfTwo("receive ring entries", c.RecvCount, 1, 1<<15); err != nil {
			return nil, err
		}
		if err := powerOfTwo("receive ring stride", c.RecvStride, connectx.Octoword, fetchBytes); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Type != ib.RC && c.Type != ib.UC && c.Type != ib.UD:
		return nil, fmt.Errorf("mlx5: a queue pair of type %v, expected RC, UC or UD", c.Type)
	case c.UserIndex > connectx.IndexMask:
		return nil, fmt.Errorf("mlx5: user index %#x, expected up to %#x", c.UserIndex, connectx.IndexMask)
	case c.Page == nil || c.SendCQ == nil || c.RecvCQ == nil:
		return nil, errors.New("mlx5: a queue pair requires a UAR page, a send and a receive CQ")
	case c.SRQ != nil && c.RecvCount != 0:
		return nil, errors.New("mlx5: a queue pair has an SRQ or a receive ring of its own, not both")
	case c.Type == ib.UD && c.AH == nil:
		return nil, errors.New("mlx5: a UD queue pair requires AH")
	}
	q := &QP{e: e, cfg: c, num: c.Backend.Num(), handles: map[[avBytes]byte]verbs.AH{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.slot = e.freeSlot(); q.slot == len(e.qps) {
		e.qps = append(e.qps, nil)
	}
	id := uint64(q.slot) << slotShift
	q.send.init(id, c.SendBlocks)
	if c.RecvCount > 0 {
		to, ok := c.Backend.(verbs.SourcedRecv)
		if !ok {
			return nil, errNoSource
		}
		q.recv.init(e, recvBit|id, c.RecvBuffer, c.Record, c.RecvCount, c.RecvStride)
		if c.ScatterRecv && c.Type != ib.UD {
			if err := q.recv.small.init(c.PD, c.RecvCount, c.RecvCQ.cfg.EntrySize); err != nil {
				return nil, err
			}
		}
		to.SetRecvSource(&q.recv)
	}
	if c.ScatterSent && c.Type == ib.RC && c.SendBlocks > 0 {
		if err := q.send.small.init(c.PD, c.SendBlocks, c.SendCQ.cfg.EntrySize); err != nil {
			q.recv.small.release()
			return nil, err
		}
	}
	e.qps[q.slot], e.byNum[q.num] = q, q
	c.Page.qps = append(c.Page.qps, q)
	c.SendCQ.users++
	c.RecvCQ.users++
	return q, nil
}

func (e *Engine) freeSlot() int {
	for i, q := range e.qps {
		if q == nil {
			return i
		}
	}
	return len(e.qps)
}

// Modify modifies the back end's queue pair. A change of state takes effect here as well:
// doorbells count from RTS on, RESET sets both counters to 0, ERR flushes.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if q.gone {
		return verbs.ErrClosed
	}
	if err := q.cfg.Backend.Modify(a, mask); err != nil {
		return err
	}
	if mask&verbs.AttrState != 0 {
		q.onState(a.State)
	}
	return nil
}

// OnError is to be called when the back end has brought the queue pair to ERR by itself
// (ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr).
func (q *QP) OnError() {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if !q.gone {
		q.onFailure()
	}
}

// onFailure follows the back end's state after an error.
func (q *QP) onFailure() {
	if q.state == ib.Err {
		return
	}
	if a, err := q.cfg.Backend.Query(); err == nil && (a.State == ib.Err || a.State == ib.SQE) {
		q.onState(a.State)
	}
}

// onState takes notice of the back end's state.
func (q *QP) onState(s ib.QPState) {
	if q.state == s {
		return
	}
	e := q.e
	if q.state == ib.Err {
		e.erring = without(e.erring, q)
	}
	q.state = s
	switch s {
	case ib.Reset:
		q.send.reset()
		q.recv.reset()
		q.failed = false
	case ib.RTS:
		q.rings()
		e.cfg.Wake()
	case ib.Err:
		e.erring = append(e.erring, q)
		q.rings()
		e.cfg.Wake()
	}
}

// rings has the next Scan read the send doorbell's record.
func (q *QP) rings() {
	if !q.queued && !q.failed && q.cfg.SendBlocks > 0 && q.mayPost() {
		q.queued = true
		q.e.todo = append(q.e.todo, q)
	}
}

// mayPost reports whether doorbells count.
func (q *QP) mayPost() bool {
	switch q.state {
	case ib.RTS, ib.SQD, ib.SQE, ib.Err:
		return true
	}
	return false
}

// fails brings the queue pair to ERR because its memory can't be read.
func (q *QP) fails() {
	if q.failed {
		return
	}
	q.failed = true
	q.toError()
	if q.cfg.Failed != nil {
		q.cfg.Failed()
	}
}

// toError brings the queue pair to ERR, from any state but RESET.
func (q *QP) toError() {
	if err := q.cfg.Backend.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err == nil {
		q.onState(ib.Err)
	}
}

// onBroken takes notice of a receive ring that gives no receives any more.
func (q *QP) onBroken() {
	if q.cfg.RecvCount > 0 && q.recv.isBroken() {
		q.fails()
	}
}

// onRecv makes a CQE of a receive that has ended.
func (q *QP) onRecv(c *CQ, wc *verbs.WC, x *entry) {
	if q.cfg.SRQ != nil {
		q.cfg.SRQ.completed++
	}
	if wc.Status != ib.WCSuccess {
		x.opcode, x.syndrome, x.vendor = connectx.CQERespErr, connectx.Syndrome(wc.Status), uint8(wc.VendorErr)
		c.add(x, nil)
		if q.cfg.SRQ == nil || wc.Status != ib.WCWRFlushErr {
			q.onFailure()
		}
		return
	}
	switch {
	case wc.Opcode == ib.WCRecvRDMAWithImm:
		x.opcode = connectx.CQERespWrImm
	case wc.Flags&verbs.WCWithImm != 0:
		x.opcode = connectx.CQERespSendImm
	case wc.Flags&verbs.WCWithInv != 0:
		x.opcode = connectx.CQERespSendInv
	default:
		x.opcode = connectx.CQERespSend
	}
	x.solicited = wc.Flags&verbs.WCSolicited != 0
	x.imm, x.bytes, x.flagsRQPN = wc.Imm, wc.ByteLen, wc.SrcQP
	if wc.Flags&verbs.WCGRH != 0 {
		x.flagsRQPN |= grhInBuffer | overUDP
		if wc.Flags&verbs.WCIPv4 != 0 {
			x.flagsRQPN |= overIPv4
		} else {
			x.flagsRQPN |= overIPv6
		}
	}
	var data []byte
	if s := &q.recv.small; x.opcode != connectx.CQERespWrImm && wc.ByteLen > 0 && wc.ByteLen <= s.limit {
		data, x.scatter = s.data(int(x.counter), wc.ByteLen)
	}
	c.add(x, data)
}

// onSent makes a CQE of a request that has ended.
func (q *QP) onSent(c *CQ, wc *verbs.WC, x *entry) {
	w := q.send.at(x.counter)
	x.wqeOpcode = w.opcode
	if wc.Status == ib.WCSuccess {
		x.opcode, x.bytes = connectx.CQEReq, wc.ByteLen
		var data []byte
		if w.scattered {
			data, x.scatter = q.send.small.data(int(x.counter)&(len(q.send.wqes)-1), wc.ByteLen)
		}
		c.add(x, data)
		return
	}
	x.opcode, x.syndrome, x.vendor = connectx.CQEReqErr, connectx.Syndrome(wc.Status), uint8(wc.VendorErr)
	if w.refused != ib.WCSuccess && wc.Status != ib.WCWRFlushErr {
		x.fail(w.refused)
	}
	c.add(x, nil)
	q.onFailure()
}

// handle returns the address handle of an address vector.
func (q *QP) handle(av *[avBytes]byte) (verbs.AH, error) {
	if q.lastAH != nil && q.lastAV == *av {
		return q.lastAH, nil
	}
	ah, ok := q.handles[*av]
	if !ok {
		if len(q.handles) >= maxHandles {
			q.dropHandles()
		}
		var err error
		if ah, err = q.cfg.AH(addressVector(av)); err != nil {
			return nil, err
		}
		q.handles[*av] = ah
	}
	q.lastAV, q.lastAH = *av, ah
	return ah, nil
}

// dropHandles destroys the address handles. Requests that were posted with them go on.
func (q *QP) dropHandles() {
	for av, ah := range q.handles {
		_ = ah.Close()
		delete(q.handles, av)
	}
	q.lastAH = nil
}

// Close destroys the back end's queue pair. When it returns, no CQE of it will be
// written.
func (q *QP) Close() error {
	e := q.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.gone {
		return verbs.ErrClosed
	}
	if err := q.cfg.Backend.Close(); err != nil {
		return err
	}
	q.gone = true
	q.dropHandles()
	q.send.release()
	q.recv.small.release()
	e.qps[q.slot] = nil
	delete(e.byNum, q.num)
	if e.last == q {
		e.last = nil
	}
	q.cfg.Page.qps = without(q.cfg.Page.qps, q)
	e.todo, e.erring = without(e.todo, q), without(e.erring, q)
	q.cfg.SendCQ.users--
	q.cfg.RecvCQ.users--
	return nil
}
