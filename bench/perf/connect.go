package perf

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
)

// connect swaps addresses and connects the queue pairs, in the order of the
// test's program: those with an extra swap have it once before and once after,
// or between, and each swap is also a barrier.
func (e *end) connect() error {
	t := e.cfg.Test
	if t.Latency && t.Verb != Send {
		if err := e.barrier(); err != nil {
			return err
		}
	}
	for i := range e.local {
		remote, err := e.conn.Swap(e.local[i])
		if err != nil {
			return err
		}
		e.remote[i] = remote
	}
	if err := exchange.CheckFamilies(e.local[0], e.remote[0]); err != nil {
		return err
	}
	for i, qp := range e.qps {
		if err := e.connectQP(qp, e.local[i], e.remote[i]); err != nil {
			return err
		}
	}
	if t.Verb == Send {
		if err := e.barrier(); err != nil {
			return err
		}
	}
	for i := range e.local {
		if _, err := e.conn.Swap(e.local[i]); err != nil {
			return err
		}
	}
	if t.Verb != Send {
		return e.barrier()
	}
	return nil
}

// barrier waits until the other end has come as far.
func (e *end) barrier() error {
	_, err := e.conn.Swap(e.local[0])
	return err
}

// The attributes that each step to RTS of a UC queue pair must set
// (ibv_modify_qp(3)); the numbers of verbs.ResetToInitRC hold for it too.
const (
	initToRTRUC = verbs.AttrState | verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN
	rtrToRTSUC  = verbs.AttrState | verbs.AttrSQPSN
)

// connectQP takes a queue pair from RESET to RTS, with perftest's attributes.
func (e *end) connectQP(qp verbs.QP, local, remote exchange.Dest) error {
	c := &e.cfg
	access := c.Test.access()
	if err := qp.Modify(verbs.QPAttr{State: ib.Init, Port: c.Port, Access: access}, verbs.ResetToInitRC); err != nil {
		return err
	}
	rtr := verbs.QPAttr{
		State: ib.RTR, PathMTU: e.greeting.MTU, DestQPN: remote.QPN, RQPSN: remote.PSN,
		AV:              verbs.AddressVector{GID: remote.GID, SGIDIndex: e.gidIndex, HopLimit: 64, SL: c.SL, TrafficClass: c.TClass},
		MaxDestRdAtomic: uint8(local.OutReads), MinRNRTimer: 12, // 0.64 ms
	}
	rts := verbs.QPAttr{
		State: ib.RTS, SQPSN: local.PSN, Timeout: c.QPTimeout, RetryCnt: 7, RNRRetry: 7,
		MaxRdAtomic: uint8(max(1, min(int(remote.OutReads), e.dev.Attr().MaxQPInitRdAtom, 255))),
	}
	rtrMask, rtsMask := verbs.InitToRTRRC, verbs.RTRToRTSRC
	if c.Service == ib.UC {
		rtrMask, rtsMask = initToRTRUC, rtrToRTSUC
	}
	if err := qp.Modify(rtr, rtrMask); err != nil {
		return err
	}
	return qp.Modify(rts, rtsMask)
}
