//go:build linux

package virtual

import (
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

func (c *context) modifyQP(m *uverbs.Message) guest.Reply {
	var req uverbs.ModifyQPReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	if req.AttrMask >= uverbs.QPRateLimit { // what comes later is the extended command's
		return failed(syscall.EOPNOTSUPP)
	}
	return failed(c.modify(&req))
}

// modifyQPEx changes a queue pair, its rate too: ConnectX limits raw packets' only, which
// the device has not.
func (c *context) modifyQPEx(m *uverbs.Message) guest.Reply {
	var req uverbs.ModifyQPExReq
	var driver uverbs.Mlx5ModifyQPReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	if errno := m.Driver(&driver); errno != 0 {
		return failed(errno)
	}
	if req.Reserved != 0 || driver.CompMask != 0 || driver.Reserved != 0 {
		return failed(syscall.EINVAL)
	}
	if errno := c.modify(&req.Base); errno != 0 {
		return failed(errno)
	}
	core, out := uverbs.ModifyQPExResp{}, uverbs.Mlx5ModifyQPResp{}
	core.ResponseLength = uint32(min(m.CoreOut(), uverbs.Sizeof(core)))
	out.ResponseLength = uint32(min(m.DriverOut(), uverbs.Sizeof(out)))
	return done(m, core, out)
}

// modify checks the change as the kernel does, has the back end and the engine make it,
// and keeps what ibv_query_qp asks for.
func (c *context) modify(req *uverbs.ModifyQPReq) syscall.Errno {
	q, errno := lookup[*queuePair](&c.handles, req.Handle)
	if errno != 0 {
		return errno
	}
	now, err := q.backend.Query()
	if err != nil {
		return errnoOf(err)
	}
	mask := req.AttrMask
	from, to := now.State, now.State
	if mask&uverbs.QPCurState != 0 {
		from = ib.QPState(req.CurState)
	}
	if mask&uverbs.QPState != 0 {
		to = ib.QPState(req.State)
	}
	if from > ib.Err || to > ib.Err || !allowed(q.backend.Type(), from, to, mask) {
		return syscall.EINVAL
	}
	a, errno := c.node.dev.attributes(req)
	if errno != 0 {
		return errno
	}
	if translated := translate(mask); translated != verbs.AttrState || from != to || from == ib.Reset {
		a.State = to
		if err := q.engine.Modify(a, translated|verbs.AttrState); err != nil {
			return errnoOf(err)
		}
	}
	q.keep(req, to)
	c.loop.wake()
	return 0
}

// masksOf says which attribute of the verbs API an attribute of the ABI is.
var masksOf = []struct {
	abi   uint32
	verbs verbs.QPAttrMask
}{
	{uverbs.QPState, verbs.AttrState}, {uverbs.QPAccessFlags, verbs.AttrAccess}, {uverbs.QPPort, verbs.AttrPort}, {uverbs.QPQKey, verbs.AttrQKey},
	{uverbs.QPAV, verbs.AttrAV}, {uverbs.QPPathMTU, verbs.AttrPathMTU}, {uverbs.QPTimeout, verbs.AttrTimeout}, {uverbs.QPRetryCnt, verbs.AttrRetryCnt},
	{uverbs.QPRNRRetry, verbs.AttrRNRRetry}, {uverbs.QPRQPSN, verbs.AttrRQPSN}, {uverbs.QPMaxQPRdAtomic, verbs.AttrMaxQPRdAtomic},
	{uverbs.QPMinRNRTimer, verbs.AttrMinRNRTimer}, {uverbs.QPSQPSN, verbs.AttrSQPSN}, {uverbs.QPMaxDestRdAtomic, verbs.AttrMaxDestRdAtomic},
	{uverbs.QPDestQPN, verbs.AttrDestQPN},
}

func translate(mask uint32) verbs.QPAttrMask {
	var out verbs.QPAttrMask
	for _, m := range masksOf {
		if mask&m.abi != 0 {
			out |= m.verbs
		}
	}
	return out
}

// attributes translates the attributes that the mask names, and refuses what the kernel
// and mlx5 refuse.
func (d *Device) attributes(req *uverbs.ModifyQPReq) (verbs.QPAttr, syscall.Errno) {
	has := func(m uint32) bool { return req.AttrMask&m != 0 }
	switch {
	case has(uverbs.QPPort) && req.PortNum != 1, has(uverbs.QPPKeyIndex) && req.PKeyIndex != 0,
		has(uverbs.QPPathMTU) && mtuOf(req.PathMTU) == 0,
		has(uverbs.QPMaxQPRdAtomic) && int(req.MaxRdAtomic) > min(d.model.maxRdAtom, d.attr.MaxQPInitRdAtom), has(uverbs.QPMaxDestRdAtomic) && int(req.MaxDestRdAtomic) > min(d.model.maxRdAtom, d.attr.MaxQPRdAtom),
		has(uverbs.QPAV) && (req.Dest.IsGlobal == 0 || req.Dest.PortNum != 1),
		has(uverbs.QPPathMigState) && req.PathMigState > 2, has(uverbs.QPAltPath):
		return verbs.QPAttr{}, syscall.EINVAL
	}
	a := verbs.QPAttr{
		State: ib.QPState(req.State), Access: ib.AccessFlags(req.AccessFlags) & accessOfBackend, Port: int(req.PortNum), PathMTU: mtuOf(req.PathMTU),
		DestQPN: req.DestQPN & 0xffffff, RQPSN: req.RQPSN & 0xffffff, SQPSN: req.SQPSN & 0xffffff, QKey: req.QKey,
		Timeout: req.Timeout & 31, RetryCnt: req.RetryCnt & 7, RNRRetry: req.RNRRetry & 7, MinRNRTimer: req.MinRNRTimer & 31,
		MaxRdAtomic: req.MaxRdAtomic, MaxDestRdAtomic: req.MaxDestRdAtomic,
	}
	if has(uverbs.QPAV) {
		var errno syscall.Errno
		if a.AV, errno = d.addressVector(req.Dest.DGID, req.Dest.SGIDIndex); errno != 0 {
			return verbs.QPAttr{}, errno
		}
		a.AV.TrafficClass, a.AV.HopLimit, a.AV.FlowLabel, a.AV.SL = req.Dest.TrafficClass, req.Dest.HopLimit, req.Dest.FlowLabel&0xfffff, req.Dest.SL&7
		if d.clock.simulated { // other back ends have no limit; the attribute is kept, as where a card does not heed it
			a.AV.StaticRate = ib.StaticRate(req.Dest.StaticRate).BitsPerSecond()
		}
	}
	return a, 0
}

// keep notes what was set, for ibv_query_qp.
func (q *queuePair) keep(req *uverbs.ModifyQPReq, to ib.QPState) {
	a := &q.attr
	if to == ib.Reset {
		*a = uverbs.QueryQPResp{
			MaxSendWR: a.MaxSendWR, MaxRecvWR: a.MaxRecvWR, MaxSendSGE: a.MaxSendSGE, MaxRecvSGE: a.MaxRecvSGE, MaxInlineData: a.MaxInlineData, SQSigAll: a.SQSigAll,
		}
		return
	}
	set8 := func(m uint32, to *uint8, v uint8) {
		if req.AttrMask&m != 0 {
			*to = v
		}
	}
	set32 := func(m uint32, to *uint32, v uint32) {
		if req.AttrMask&m != 0 {
			*to = v
		}
	}
	set32(uverbs.QPAccessFlags, &a.AccessFlags, req.AccessFlags)
	set32(uverbs.QPQKey, &a.QKey, req.QKey)
	set32(uverbs.QPRQPSN, &a.RQPSN, req.RQPSN&0xffffff)
	set32(uverbs.QPSQPSN, &a.SQPSN, req.SQPSN&0xffffff)
	set32(uverbs.QPDestQPN, &a.DestQPN, req.DestQPN)
	set8(uverbs.QPPort, &a.PortNum, req.PortNum)
	set8(uverbs.QPPathMTU, &a.PathMTU, req.PathMTU)
	set8(uverbs.QPTimeout, &a.Timeout, req.Timeout)
	set8(uverbs.QPRetryCnt, &a.RetryCnt, req.RetryCnt)
	set8(uverbs.QPRNRRetry, &a.RNRRetry, req.RNRRetry)
	set8(uverbs.QPMinRNRTimer, &a.MinRNRTimer, req.MinRNRTimer)
	set8(uverbs.QPMaxQPRdAtomic, &a.MaxRdAtomic, req.MaxRdAtomic)
	set8(uverbs.QPMaxDestRdAtomic, &a.MaxDestRdAtomic, req.MaxDestRdAtomic)
	set8(uverbs.QPPathMigState, &a.PathMigState, req.PathMigState)
	if req.AttrMask&uverbs.QPAV != 0 {
		a.Dest = req.Dest
	}
}
