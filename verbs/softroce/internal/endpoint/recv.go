package endpoint

import (
	"errors"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/verbs"
)

// RecvQueue is a receive queue with its scatter lists: of one queue pair, or
// shared by several (an SRQ).
type RecvQueue struct {
	Owner any // what the driver likes to find here

	e      *Endpoint
	pd     *PD
	queue  *rc.RecvQueue
	sgls   [][]verbs.SGE // by slot
	sges   int
	users  int
	gone   bool
	object string

	source  verbs.RecvSource // nil if all receives are posted
	smalls  []verbs.SGE      // by slot, with a source: verbs.RecvWR.Small
	fetched [fetches]verbs.RecvWR
}

// fetches is how many receives a queue takes from its source at a time.
const fetches = 16

// CreateSRQ makes a shared receive queue.
func (p *PD) CreateSRQ(a verbs.SRQInitAttr) (*RecvQueue, error) {
	if p.gone {
		return nil, verbs.Errorf("create_srq", p.e.cfg.Name, verbs.ErrClosed, "the protection domain is deallocated")
	}
	switch {
	case a.MaxWR < 1 || a.MaxWR > MaxQPWR:
		return nil, verbs.Errorf("create_srq", p.e.cfg.Name, verbs.ErrInvalid, "a queue of %d receives: 1 to %d", a.MaxWR, MaxQPWR)
	case a.MaxSGE < 0 || a.MaxSGE > MaxSGE:
		return nil, verbs.Errorf("create_srq", p.e.cfg.Name, verbs.ErrInvalid, "%d pieces a receive: 0 to %d", a.MaxSGE, MaxSGE)
	case p.e.srqs >= MaxSRQ:
		return nil, p.e.full("create_srq", "shared receive queues", MaxSRQ)
	}
	r, err := p.recvQueue("srq of "+p.e.cfg.Name, a.MaxWR, a.MaxSGE)
	if err != nil {
		return nil, verbs.Errorf("create_srq", p.e.cfg.Name, verbs.ErrInvalid, "%v", err)
	}
	p.users++
	p.e.srqs++
	return r, nil
}

func (p *PD) recvQueue(object string, depth, sges int) (*RecvQueue, error) {
	q, err := rc.NewRecvQueue(depth)
	if err != nil {
		return nil, err
	}
	return &RecvQueue{e: p.e, pd: p, queue: q, sgls: make([][]verbs.SGE, depth), sges: max(sges, 1), object: object}, nil
}

// consumesRecv reports whether a packet takes a receive.
func consumesRecv(o ib.Opcode) bool {
	const takes = 1<<ib.SendFirst | 1<<ib.SendOnly | 1<<ib.SendOnlyImm | 1<<ib.SendOnlyInv | 1<<ib.WriteLastImm | 1<<ib.WriteOnlyImm
	return takes>>o.Operation()&1 != 0
}

// SetSource sets where receives come from when none is left.
func (r *RecvQueue) SetSource(s verbs.RecvSource) {
	r.source = s
	if r.smalls == nil {
		r.smalls = make([]verbs.SGE, len(r.sgls))
	}
}

// list returns where the message of a packet goes that is received into a slot. A message
// of several packets is longer than any that goes elsewhere.
func (r *RecvQueue) list(slot uint32, o ib.Opcode, n uint32) []verbs.SGE {
	const only = 1<<ib.SendOnly | 1<<ib.SendOnlyImm | 1<<ib.SendOnlyInv
	if r.smalls != nil && only>>o.Operation()&1 != 0 && n <= r.smalls[slot].Length {
		return r.smalls[slot : slot+1]
	}
	return r.sgls[slot]
}

// fetch gets receives from the source if none is left. One that the queue does not take,
// because of its SGL, holds no bytes.
func (r *RecvQueue) fetch() {
	if r.queue.Len() > 0 {
		return
	}
	wrs := r.fetched[:min(r.queue.Room(), fetches)]
	for wrs = wrs[:r.source.FetchRecv(wrs)]; len(wrs) > 0; {
		n, err := r.PostRecv(wrs)
		if wrs = wrs[n:]; err != nil {
			wrs[0].SGL = nil
		}
	}
}

// PostRecv adds receives and returns how many were taken.
func (r *RecvQueue) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if r.gone {
		return 0, verbs.Errorf("post_recv", r.object, verbs.ErrClosed, "")
	}
	for i := range wrs {
		wr := &wrs[i]
		if err := verbs.CheckRecv(r.sges, wr); err != nil {
			return i, verbs.Errorf("post_recv", r.object, verbs.ErrInvalid, "%v", err)
		}
		slot, err := r.queue.Post(rc.Recv{ID: wr.WRID, Length: uint32(wr.Length())})
		if err != nil {
			cause := verbs.ErrInvalid
			if errors.Is(err, rc.ErrFull) {
				cause = verbs.ErrQueueFull
			}
			return i, verbs.Errorf("post_recv", r.object, cause, "it holds %d receives", len(r.sgls))
		}
		r.sgls[slot] = append(r.sgls[slot][:0], wr.SGL...)
		if r.smalls != nil {
			r.smalls[slot] = wr.Small
		}
	}
	return len(wrs), nil
}

// SetLimit has EventSRQLimit raised when fewer than n receives are left.
func (r *RecvQueue) SetLimit(n int) error {
	switch {
	case r.gone:
		return verbs.Errorf("modify_srq", r.object, verbs.ErrClosed, "")
	case n < 0 || n > len(r.sgls):
		return verbs.Errorf("modify_srq", r.object, verbs.ErrInvalid, "a limit of %d receives: 0 to %d, which it holds", n, len(r.sgls))
	}
	r.queue.SetLimit(n)
	return nil
}

// Close frees a shared receive queue.
func (r *RecvQueue) Close() error {
	if r.gone {
		return verbs.Errorf("destroy_srq", r.object, verbs.ErrClosed, "")
	}
	if r.users > 0 {
		return verbs.Errorf("destroy_srq", r.object, verbs.ErrBusy, "%d queue pairs draw on it", r.users)
	}
	r.gone = true
	r.pd.users--
	r.e.srqs--
	return nil
}
