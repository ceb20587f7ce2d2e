package verbstest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// apiTests need no traffic.
var apiTests = []test{
	{"device", func(r *rig) error {
		a := r.A.Attr()
		if min(a.MaxQP, a.MaxQPWR, a.MaxSGE, a.MaxCQ, a.MaxCQE, a.MaxMR, a.MaxPD, a.PhysPorts) < 1 || a.MaxMRSize == 0 {
			return fmt.Errorf("it can't have anything: %+v", a)
		}
		p, err := r.A.Port(r.Port)
		if err != nil {
			return err
		}
		if p.State != verbs.PortActive || !p.ActiveMTU.Valid() || p.ActiveMTU > p.MaxMTU || p.GIDs < 1 {
			return fmt.Errorf("port %d can't be used: %+v", r.Port, p)
		}
		_, err0 := r.A.Port(0)
		_, err9 := r.A.Port(a.PhysPorts + 1)
		_, errG := r.A.GID(r.Port, -1)
		_, errH := r.A.GID(r.Port, p.GIDs)
		for _, err := range []error{err0, err9, errG, errH} {
			if err == nil {
				return errors.New("a port or a GID that is not there gave no error")
			}
		}
		if first := r.A.Now(); r.A.Now() < first {
			return errors.New("its clock goes back")
		}
		return nil
	}},
	{"objects in use", func(r *rig) error {
		if _, err := r.newQP(&r.a, ib.RC, nil); err != nil {
			return err
		}
		return errors.Join(
			expect("destroy_cq", r.a.cq.Close(), verbs.ErrBusy),
			expect("dealloc_pd", r.a.pd.Close(), verbs.ErrBusy),
			expect("close_device", r.A.Close(), verbs.ErrBusy),
		)
	}},
	{"objects that are gone", func(r *rig) error {
		pd, err := r.A.AllocPD()
		if err != nil {
			return err
		}
		cq, err := r.A.CreateCQ(verbs.CQInitAttr{CQE: 16})
		if err != nil {
			return err
		}
		mr, err := pd.RegMR(make([]byte, 64), 0)
		if err != nil {
			return err
		}
		qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: usualCap})
		if err != nil {
			return err
		}
		if err := errors.Join(qp.Close(), mr.Close(), cq.Close(), pd.Close()); err != nil {
			return err
		}
		_, errPost := qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend}})
		_, errRecv := qp.PostRecv([]verbs.RecvWR{{}})
		if n, _ := cq.Poll(make([]verbs.WC, 1)); n != 0 {
			return errors.New("poll_cq of a queue that is gone found a completion")
		}
		_, errReg := pd.RegMR(make([]byte, 1), 0)
		for what, err := range map[string]error{
			"post_send": errPost, "post_recv": errRecv, "reg_mr": errReg,
			"destroy_qp": qp.Close(), "destroy_cq": cq.Close(), "dereg_mr": mr.Close(), "dealloc_pd": pd.Close(),
		} {
			if err == nil {
				return fmt.Errorf("%s of an object that is gone gave no error", what)
			}
		}
		return nil
	}},
	{"arguments", func(r *rig) error {
		q, err := r.newQP(&r.a, ib.RC, nil)
		if err != nil {
			return err
		}
		_, errEmpty := r.a.pd.RegMR(nil, everything)
		_, errCQ := r.A.CreateCQ(verbs.CQInitAttr{CQE: 0})
		_, errMany := r.A.CreateCQ(verbs.CQInitAttr{CQE: r.A.Attr().MaxCQE + 1})
		_, errNone := r.a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, Cap: usualCap})
		huge := usualCap
		huge.MaxSendWR = r.A.Attr().MaxQPWR + 1
		_, errHuge := r.a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: r.a.cq, RecvCQ: r.a.cq, Cap: huge})
		return errors.Join(
			expect("reg_mr of nothing", errEmpty, verbs.ErrInvalid),
			expect("create_cq of 0 entries", errCQ, verbs.ErrInvalid),
			expect("create_cq of too many entries", errMany, verbs.ErrInvalid),
			expect("create_qp without CQs", errNone, verbs.ErrInvalid),
			expect("create_qp of too many requests", errHuge, verbs.ErrInvalid),
			expect("RESET to RTS", q.Modify(verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSRC), verbs.ErrState),
			expect("port 0", q.Modify(verbs.QPAttr{State: ib.Init}, verbs.ResetToInitRC), verbs.ErrInvalid),
		)
	}},
	{"states", func(r *rig) error {
		q, err := r.newQP(&r.a, ib.RC, nil)
		if err != nil {
			return err
		}
		_, errReset := q.PostRecv([]verbs.RecvWR{{}})
		if err := q.Modify(verbs.QPAttr{State: ib.Init, Port: r.Port, Access: everything}, verbs.ResetToInitRC); err != nil {
			return err
		}
		a, err := q.Query()
		switch {
		case err != nil:
			return err
		case a.State != ib.Init || a.Port != r.Port:
			return fmt.Errorf("after RESET to INIT it is in %v, port %d", a.State, a.Port)
		case a.Cap.MaxSendWR < usualCap.MaxSendWR || a.Cap.MaxRecvSGE < usualCap.MaxRecvSGE:
			return fmt.Errorf("it has less than it was made with: %+v", a.Cap)
		}
		return expect("post_recv in RESET", errReset, verbs.ErrState)
	}},
	{"too many pieces of memory", func(r *rig) error {
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		a, err := qa.Query()
		if err != nil {
			return err
		}
		_, mr, err := r.register(&r.a, 64, 1)
		if err != nil {
			return err
		}
		many := slices.Repeat([]verbs.SGE{verbs.SGEOf(mr, 0, 1)}, max(a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE)+1)
		_, errSend := qa.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: many}})
		_, errRecv := qa.PostRecv([]verbs.RecvWR{{SGL: many}})
		_, errOp := qa.PostSend([]verbs.SendWR{{Opcode: 200}})
		return errors.Join(expect("post_send", errSend, verbs.ErrInvalid), expect("post_recv", errRecv, verbs.ErrInvalid),
			expect("an operation that does not exist", errOp, verbs.ErrInvalid))
	}},
}
