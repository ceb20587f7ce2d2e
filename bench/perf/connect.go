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
	if e.connectCM != nil {
		if err := e.connectAllCM(); err != nil {
			return err
		}
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
	_, err := e.conn.Swap(e.local[0])
	return err
}

// The attributes that each step to RTS of a UC queue pair must set
// (ibv_modify_qp(3)); the numbers of verbs.ResetToInitRC hold for it too.
const (
	initToRTRUC = verbs.AttrState | verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN
	rtrToRTSUC  = verbs.AttrState | verbs.AttrSQPSN
)

// datagramQP is a UD queue pair that is told with each post where it goes.
type datagramQP interface {
	PostSendTo(wrs []verbs.SendWR, av verbs.AddressVector, qpn, qkey uint32) (int, error)
}

// qkey is the Q_Key of perftest's datagrams.
const qkey = 0x11111111

// postSend posts requests on queue pair k.
func (e *end) postSend(k int, wrs []verbs.SendWR) error {
	var err error
	if e.cfg.Service == ib.UD {
		// connectQP has seen that it is one.
		_, err = e.qps[k].(datagramQP).PostSendTo(wrs, e.addressVector(e.remote[k]), e.remote[k].QPN, qkey)
	} else {
		_, err = e.qps[k].PostSend(wrs)
	}
	return err
}

func (e *end) addressVector(remote exchange.Dest) verbs.AddressVector {
	return verbs.AddressVector{GID: remote.GID, SGIDIndex: e.gidIndex, HopLimit: 64, SL: e.cfg.SL, TrafficClass: e.cfg.TClass}
}

// connectUD takes a UD queue pair from RESET to RTS.
func (e *end) connectUD(qp verbs.QP, local exchange.Dest) error {
	if _, ok := qp.(datagramQP); !ok {
		return verbs.Errorf("create_ah", e.dev.Name(), verbs.ErrNotSupported, "its UD queue pairs can't be told where to send")
	}
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: ib.Init, Port: e.cfg.Port, QKey: qkey}, verbs.AttrState | verbs.AttrPort | verbs.AttrQKey},
		{verbs.QPAttr{State: ib.RTR}, verbs.AttrState},
		{verbs.QPAttr{State: ib.RTS, SQPSN: local.PSN}, verbs.AttrState | verbs.AttrSQPSN},
	} {
		if err := qp.Modify(step.attr, step.mask); err != nil {
			return err
		}
	}
	return nil
}

// connectQP takes a queue pair from RESET to RTS, with perftest's attributes.
func (e *end) connectQP(qp verbs.QP, local, remote exchange.Dest) error {
	c := &e.cfg
	if c.Service == ib.UD {
		return e.connectUD(qp, local)
	}
	access := c.Test.access()
	if err := qp.Modify(verbs.QPAttr{State: ib.Init, Port: c.Port, Access: access}, verbs.ResetToInitRC); err != nil {
		return err
	}
	rtr := verbs.QPAttr{
		State: ib.RTR, PathMTU: e.greeting.MTU, DestQPN: remote.QPN, RQPSN: remote.PSN,
		AV:              e.addressVector(remote),
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
