package perf

import (
	"errors"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
)

// connect swaps addresses and connects the queue pairs, in the order of the test's
// program. Programs with an extra swap have it once before and once after, or
// between. Each swap is also a barrier.
func (e *end) connect() error {
	t := e.cfg.Test
	if e.connectCM != nil {
		if err := e.connectAllCM(); err != nil {
			return err
		}
	}
	if err := e.renewal.begin(e.conn); err != nil {
		return err
	}
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
	if e.connectCM == nil {
		if err := exchange.CheckFamilies(e.local[0], e.remote[0]); err != nil {
			return err
		}
		for i, qp := range e.qps {
			if err := e.connectQP(qp, e.local[i], e.remote[i]); err != nil {
				return err
			}
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
	for {
		_, err := e.conn.Swap(e.local[0])
		if !errors.Is(err, exchange.ErrRenewal) {
			return err
		}
		if err := e.renew(); err != nil {
			return err
		}
	}
}

// qkey is the Q_Key of perftest's datagrams.
const qkey = 0x11111111

// postSend posts requests on queue pair k.
func (e *end) postSend(k int, wrs []verbs.SendWR) error {
	if e.cfg.Service == ib.UD {
		for i := range wrs {
			wrs[i].AH, wrs[i].RemoteQPN, wrs[i].RemoteQKey = e.handles[k], e.remote[k].QPN, qkey
		}
	}
	_, err := e.qps[k].PostSend(wrs)
	return err
}

func (e *end) addressVector(remote exchange.Dest) verbs.AddressVector {
	return verbs.AddressVector{GID: remote.GID, SGIDIndex: e.from.Index, HopLimit: 64, SL: e.cfg.SL, TrafficClass: e.cfg.TClass}
}

// connectUD takes a UD queue pair from RESET to RTS, and makes the handle of its
// peer's address.
func (e *end) connectUD(qp verbs.QP, local, remote exchange.Dest) error {
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: ib.Init, Port: e.cfg.Port, QKey: qkey}, verbs.ResetToInitUD},
		{verbs.QPAttr{State: ib.RTR}, verbs.InitToRTRUD},
		{verbs.QPAttr{State: ib.RTS, SQPSN: local.PSN}, verbs.RTRToRTSUD},
	} {
		if err := qp.Modify(step.attr, step.mask); err != nil {
			return err
		}
	}
	ah, err := e.pd.CreateAH(e.addressVector(remote))
	if err != nil {
		return err
	}
	e.handles = append(e.handles, ah)
	return nil
}

// connectQP takes a queue pair from RESET to RTS, with perftest's attributes.
func (e *end) connectQP(qp verbs.QP, local, remote exchange.Dest) error {
	c := &e.cfg
	if c.Service == ib.UD {
		return e.connectUD(qp, local, remote)
	}
	access := c.Test.access()
	rtr := verbs.QPAttr{
		State: ib.RTR, PathMTU: e.greeting.MTU, DestQPN: remote.QPN, RQPSN: remote.PSN,
		AV:              e.addressVector(remote),
		MaxDestRdAtomic: uint8(local.OutReads), MinRNRTimer: 12, // 0.64 ms
	}
	rts := verbs.QPAttr{
		State: ib.RTS, SQPSN: local.PSN, Timeout: c.QPTimeout, RetryCnt: 7, RNRRetry: 7,
		MaxRdAtomic: uint8(max(1, min(int(remote.OutReads), e.dev.Attr().MaxQPInitRdAtom, 255))),
	}
	initMask, rtrMask, rtsMask := verbs.ResetToInitRC, verbs.InitToRTRRC, verbs.RTRToRTSRC
	if c.Service == ib.UC {
		initMask, rtrMask, rtsMask = verbs.ResetToInitUC, verbs.InitToRTRUC, verbs.RTRToRTSUC
	}
	if err := qp.Modify(verbs.QPAttr{State: ib.Init, Port: c.Port, Access: access}, initMask); err != nil {
		return err
	}
	if err := qp.Modify(rtr, rtrMask); err != nil {
		return err
	}
	return qp.Modify(rts, rtsMask)
}
