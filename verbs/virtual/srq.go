//go:build linux

package virtual

import (
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// sharedQueue is a program's SRQ.
type sharedQueue struct {
	context    *context
	user       uint64
	pd         *domain
	backend    verbs.SRQ
	engine     *mlx5.SRQ
	maxWR, sge uint32

	users int // queue pairs
	async counter
}

func (c *context) createSRQ(m *uverbs.Message) guest.Reply {
	var req uverbs.CreateSRQReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	return c.newSRQ(m, req)
}

// createXSRQ makes a plain queue: those of extended connections and of tag matching the
// device has not.
func (c *context) createXSRQ(m *uverbs.Message) guest.Reply {
	var req uverbs.CreateXSRQReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	if req.Type != uverbs.SRQBasic {
		return failed(syscall.EOPNOTSUPP)
	}
	return c.newSRQ(m, uverbs.CreateSRQReq{UserHandle: req.UserHandle, PDHandle: req.PDHandle, MaxWR: req.MaxWR, MaxSGE: req.MaxSGE, SRQLimit: req.SRQLimit})
}

// srqStride is the length of a shared queue's receive WQE: a header and its pieces.
func srqStride(sges uint32) int {
	const header, piece, least = 16, 16, 32
	stride := least
	for stride < header+piece*int(sges) {
		stride <<= 1
	}
	return stride
}

func (c *context) newSRQ(m *uverbs.Message, req uverbs.CreateSRQReq) guest.Reply {
	var ring uverbs.Mlx5CreateSRQReq
	if errno := m.Driver(&ring); errno != 0 {
		return failed(errno)
	}
	d := c.node.dev
	pd, errno := lookup[*domain](&c.handles, req.PDHandle)
	entries := ringSize(req.MaxWR)
	stride := 0
	switch {
	case errno != 0:
		return failed(errno)
	case req.MaxWR > smaller(d.model.maxSRQWR, d.attr.MaxSRQWR), req.MaxSGE > uint32(d.attr.MaxSGE), ring.Reserved0 != 0, ring.Reserved1 != 0:
		return failed(syscall.EINVAL)
	case ring.Flags != 0: // signatures
		return failed(syscall.EINVAL)
	}
	if stride = srqStride(req.MaxSGE); stride > maxRecvWQE {
		return failed(syscall.EINVAL)
	}
	if errno := c.pinned(ring.BufAddr, uint64(entries)*uint64(stride), ring.DBAddr); errno != 0 {
		return failed(errno)
	}
	if errno := d.reserve(sharedQueues); errno != 0 {
		return failed(errno)
	}
	backend, err := pd.backend.CreateSRQ(verbs.SRQInitAttr{MaxWR: min(entries, d.attr.MaxSRQWR), MaxSGE: max(1, min(stride/16-1, d.attr.MaxSGE))})
	if err != nil {
		d.release(sharedQueues)
		return failedBy(err)
	}
	s := &sharedQueue{context: c, user: req.UserHandle, pd: pd, backend: backend, maxWR: req.MaxWR, sge: req.MaxSGE}
	number := d.nextNumber()
	s.engine, err = c.engine.CreateSRQ(mlx5.SRQConfig{
		Buffer: ring.BufAddr, Record: ring.DBAddr, Entries: entries, Stride: stride, Backend: backend,
		Limit:  func() { s.async.raise(c, s.user, ib.EventSRQLimit) },
		Failed: func() { s.async.raise(c, s.user, ib.EventSRQErr) },
	})
	if err != nil {
		_ = backend.Close()
		d.release(sharedQueues)
		return failedBy(err)
	}
	if req.SRQLimit > 0 {
		s.engine.SetLimit(int(req.SRQLimit))
	}
	pd.users++
	return done(m, uverbs.CreateSRQResp{Handle: c.add(s), MaxWR: req.MaxWR, MaxSGE: req.MaxSGE, SRQN: number}, uverbs.Mlx5CreateSRQResp{SRQN: number})
}

func (c *context) modifySRQ(m *uverbs.Message) guest.Reply {
	var req uverbs.ModifySRQReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	s, errno := lookup[*sharedQueue](&c.handles, req.Handle)
	switch {
	case errno != 0:
		return failed(errno)
	case req.AttrMask&^(uverbs.SRQMaxWR|uverbs.SRQLimit) != 0, req.AttrMask&uverbs.SRQMaxWR != 0: // mlx5 does not resize
		return failed(syscall.EINVAL)
	}
	if req.AttrMask&uverbs.SRQLimit != 0 {
		if req.SRQLimit >= uint32(ringSize(s.maxWR)) {
			return failed(syscall.EINVAL)
		}
		s.engine.SetLimit(int(req.SRQLimit))
	}
	return guest.Reply{}
}

func (c *context) querySRQ(m *uverbs.Message) guest.Reply {
	var req uverbs.QuerySRQReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	s, errno := lookup[*sharedQueue](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	return done(m, uverbs.QuerySRQResp{MaxWR: s.maxWR, MaxSGE: s.sge, SRQLimit: uint32(s.engine.Limit())}, nil)
}

func (c *context) destroySRQ(m *uverbs.Message) guest.Reply {
	var req uverbs.DestroyReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	s, errno := doomed[*sharedQueue](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	if s.users > 0 {
		return failed(syscall.EBUSY)
	}
	if err := s.engine.Close(); err != nil {
		return failedBy(err)
	}
	s.pd.users--
	c.node.dev.release(sharedQueues)
	c.remove(req.Handle)
	return done(m, uverbs.DestroyResp{EventsReported: s.async.read(c.async, s.user)}, nil)
}
