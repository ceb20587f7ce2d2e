//go:build linux

package virtual

import (
	"sync"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// queuePair is a program's queue pair.
type queuePair struct {
	context    *context
	user       uint64
	pd         *domain
	send, recv *completionQueue
	srq        *sharedQueue // nil for receives of its own
	backend    verbs.QP
	engine     *mlx5.QP
	page       *mlx5.Page
	attr       uverbs.QueryQPResp // as it was modified; the back end has the state
	async      counter
	mu         sync.Mutex // for what follows: the back end's events come from elsewhere
	gone       bool
}

func (c *context) createQP(m *uverbs.Message) guest.Reply {
	var req uverbs.CreateQPReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	resp, driver, errno := c.newQP(m, &req.CreateQPBody)
	if errno != 0 {
		return failed(errno)
	}
	return done(m, resp, driver)
}

// blockSelfMulticast is the flag of a UD queue pair that gets no copies of what it sends
// to a multicast group (IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK). The device has no
// multicast, so it never does.
const blockSelfMulticast = 1 << 1

// createQPEx makes a queue pair with flags, of which the device has no others: they are
// for raw packets and receive hashing.
func (c *context) createQPEx(m *uverbs.Message) guest.Reply {
	var req uverbs.CreateQPExReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	switch {
	case req.CompMask&^1 != 0, req.Reserved != 0:
		return failed(syscall.EINVAL)
	case req.CompMask != 0: // an indirection table, of which there is none
		return failed(syscall.EINVAL)
	case !connectedOrUD(req.QPType):
		return failed(syscall.EOPNOTSUPP)
	case req.CreateFlags != 0 && (req.CreateFlags != blockSelfMulticast || req.QPType != uint8(ib.UD)), req.SourceQPN != 0:
		return failed(syscall.EINVAL)
	}
	resp, driver, errno := c.newQP(m, &req.CreateQPBody)
	if errno != 0 {
		return failed(errno)
	}
	ex := uverbs.CreateQPExResp{Base: resp}
	ex.ResponseLength = uint32(min(m.CoreOut(), uverbs.Sizeof(ex)))
	return done(m, ex, driver)
}

// basicBlock is the unit of send rings in bytes (MLX5_SEND_WQE_BB).
const basicBlock = 64

// rings checks how libmlx5 has laid out the queues: errno is what mlx5 says of it.
func (d *Device) rings(req *uverbs.CreateQPBody, r *uverbs.Mlx5CreateQPReq) syscall.Errno {
	const longest, smallestShift, largestShift = 1 << logRing, 4, 11
	powerOfTwo := func(n uint32) bool { return n&(n-1) == 0 }
	switch {
	case r.Flags&^(uverbs.Mlx5QPScatterCQE|uverbs.Mlx5QPAllowScatterCQE) != uverbs.Mlx5QPUARPageIndex:
		return syscall.EINVAL // signatures, registers that the driver gives, and queue pairs of other kinds
	case r.SQWQECount > longest, !powerOfTwo(r.SQWQECount), r.RQWQECount > longest, !powerOfTwo(r.RQWQECount), r.Reserved != 0:
		return syscall.EINVAL
	case r.RQWQECount > 0 && (r.RQWQEShift < smallestShift || r.RQWQEShift > largestShift):
		return syscall.EINVAL
	case req.MaxSendWR > smaller(d.model.maxQPWR, d.attr.MaxQPWR), req.MaxRecvWR > smaller(d.model.maxQPWR, d.attr.MaxQPWR), req.MaxSendSGE > smaller(d.model.maxSGE, d.attr.MaxSGE), req.MaxRecvSGE > smaller(d.model.maxSGE, d.attr.MaxSGE):
		return syscall.EINVAL
	}
	return 0
}

// connectedOrUD reports whether the device has queue pairs of a type.
func connectedOrUD(t uint8) bool {
	return t == uint8(ib.RC) || t == uint8(ib.UC) || t == uint8(ib.UD)
}

func (c *context) newQP(m *uverbs.Message, req *uverbs.CreateQPBody) (resp uverbs.CreateQPResp, driver uverbs.Mlx5CreateQPResp, errno syscall.Errno) {
	var r uverbs.Mlx5CreateQPReq
	if errno := m.Driver(&r); errno != 0 {
		return resp, driver, errno
	}
	if !connectedOrUD(req.QPType) {
		return resp, driver, syscall.EOPNOTSUPP
	}
	q := &queuePair{context: c, user: req.UserHandle}
	var errnos [4]syscall.Errno
	q.pd, errnos[0] = lookup[*domain](&c.handles, req.PDHandle)
	q.send, errnos[1] = lookup[*completionQueue](&c.handles, req.SendCQHandle)
	q.recv, errnos[2] = lookup[*completionQueue](&c.handles, req.RecvCQHandle)
	if req.IsSRQ != 0 {
		q.srq, errnos[3] = lookup[*sharedQueue](&c.handles, req.SRQHandle)
	}
	for _, errno := range append(errnos[:], c.node.dev.rings(req, &r)) {
		if errno != 0 {
			return resp, driver, errno
		}
	}
	if u := c.pages.uarOf(r.BFRegIndex); u != nil {
		q.page = u.page
	} else {
		return resp, driver, syscall.EINVAL
	}
	if errno := c.pinned(r.BufAddr, uint64(r.RQWQECount)<<r.RQWQEShift+uint64(r.SQWQECount)*basicBlock, r.DBAddr); errno != 0 {
		return resp, driver, errno
	}
	if errno := c.node.dev.reserve(queuePairs); errno != 0 {
		return resp, driver, errno
	}
	if err := q.create(req, &r); err != nil {
		c.node.dev.release(queuePairs)
		return resp, driver, errnoOf(err)
	}
	q.attr = uverbs.QueryQPResp{
		MaxSendWR: req.MaxSendWR, MaxSendSGE: req.MaxSendSGE, MaxRecvSGE: req.MaxRecvSGE, MaxInlineData: req.MaxInlineData, SQSigAll: req.SQSigAll,
		MaxRecvWR: r.RQWQECount, // libmlx5 leaves it to the kernel to say how long it made the ring
	}
	c.node.dev.addPair(q)
	q.hold(1)
	c.loop.wake() // another page may have doorbells now
	resp = uverbs.CreateQPResp{
		Handle: c.add(q), QPN: q.backend.Num(), MaxSendWR: req.MaxSendWR, MaxRecvWR: req.MaxRecvWR,
		MaxSendSGE: req.MaxSendSGE, MaxRecvSGE: req.MaxRecvSGE, MaxInlineData: req.MaxInlineData,
	}
	return resp, driver, 0
}

// hold counts the queue pair as a user of what it is made of, or no longer.
func (q *queuePair) hold(n int) {
	q.pd.users += n
	q.send.users += n
	q.recv.users += n
	if q.srq != nil {
		q.srq.users += n
	}
}

// create makes the back end's queue pair and gives it with the rings to the engine.
func (q *queuePair) create(req *uverbs.CreateQPBody, r *uverbs.Mlx5CreateQPReq) error {
	c := q.context
	attr := &c.node.dev.attr
	// Inline data and pointers of one request are pieces as well.
	sges := func(n uint32) int { return max(1, min(int(n)+1, attr.MaxSGE)) }
	init := verbs.QPInitAttr{
		Type: ib.QPType(req.QPType), SendCQ: q.send.backend, RecvCQ: q.recv.backend,
		Cap: verbs.QPCap{
			MaxSendWR: max(1, min(int(r.SQWQECount), attr.MaxQPWR)), MaxSendSGE: sges(req.MaxSendSGE),
			MaxRecvSGE: sges(req.MaxRecvSGE), MaxInlineData: min(attr.MaxInlineData, maxSendWQE),
		},
	}
	config := mlx5.QPConfig{
		Type: init.Type, UserIndex: r.UIDX & 0xffffff, Record: r.DBAddr,
		SendBuffer: r.BufAddr + uint64(r.RQWQECount)<<r.RQWQEShift, SendBlocks: int(r.SQWQECount),
		SendCQ: q.send.engine, RecvCQ: q.recv.engine, SigAll: req.SQSigAll != 0, PD: q.pd.backend,
		// As Linux' driver sets a queue pair's cs_req and cs_res up.
		ScatterSent: r.Flags&uverbs.Mlx5QPScatterCQE != 0 && (req.SQSigAll != 0 || r.Flags&uverbs.Mlx5QPAllowScatterCQE != 0),
		ScatterRecv: r.Flags&uverbs.Mlx5QPScatterCQE != 0 && !c.node.dev.cfg.Simulated, // those back ends have no verbs.RecvWR.Small
		Failed:      q.onFatal,
		MaxInline:   init.Cap.MaxInlineData,
	}
	if q.srq != nil {
		init.SRQ, config.SRQ = q.srq.backend, q.srq.engine
	} else {
		init.Cap.MaxRecvWR = min(int(r.RQWQECount), attr.MaxQPWR)
		config.RecvBuffer, config.RecvCount, config.RecvStride = r.BufAddr, int(r.RQWQECount), 1<<r.RQWQEShift
	}
	if init.Type == ib.UD {
		config.AH = q.resolve
	}
	var err error
	if q.backend, err = q.pd.backend.CreateQP(init); err != nil {
		return err
	}
	config.Page, config.Backend = q.page, q.backend
	if q.engine, err = c.engine.CreateQP(config); err != nil {
		_ = q.backend.Close()
	}
	return err
}

// resolve makes the back end's address handle of a datagram's destination.
func (q *queuePair) resolve(av verbs.AddressVector) (verbs.AH, error) {
	full, errno := q.context.node.dev.addressVector(av.GID.As16(), uint8(av.SGIDIndex))
	if errno != 0 {
		return nil, errno
	}
	av.GID = full.GID
	return q.pd.backend.CreateAH(av)
}

// onFatal says that the queue pair's rings can't be read. The engine calls it.
func (q *queuePair) onFatal() { q.async.raise(q.context, q.user, ib.EventQPFatal) }

// onBackendEvent passes on what the back end says of the queue pair.
func (q *queuePair) onBackendEvent(t ib.EventType) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return
	}
	switch t {
	case ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr:
		q.engine.OnError()
	}
	q.async.raise(q.context, q.user, t)
}

// onLost takes it to the error state after the back end, which is gone.
func (q *queuePair) onLost() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.gone {
		q.engine.OnError()
	}
}

func (c *context) destroyQP(m *uverbs.Message) guest.Reply {
	var req uverbs.DestroyReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	q, errno := doomed[*queuePair](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	q.destroy()
	c.remove(req.Handle)
	return done(m, uverbs.DestroyResp{EventsReported: q.async.read(c.async, q.user)}, nil)
}

func (q *queuePair) destroy() {
	q.context.node.dev.removePair(q)
	q.mu.Lock()
	q.gone = true
	q.mu.Unlock()
	_ = q.engine.Close() // it has nothing that depends on it
	q.context.node.dev.release(queuePairs)
	q.hold(-1)
}

func (c *context) queryQP(m *uverbs.Message) guest.Reply {
	var req uverbs.QueryQPReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	q, errno := lookup[*queuePair](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	now, err := q.backend.Query()
	if err != nil {
		return failedBy(err)
	}
	a := q.attr
	a.State, a.CurState = uint8(now.State), uint8(now.State)
	return done(m, a, nil)
}
