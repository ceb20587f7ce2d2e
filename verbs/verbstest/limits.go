package verbstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// limitTests go through what a device and its port state: one below and at a limit must do,
// one above must be ErrInvalid.
var limitTests = []test{
	{"limits of queues", func(r *rig) error {
		if err := r.exact(); err != nil {
			return err
		}
		a := r.A.Attr()
		qp := func(change func(*verbs.QPCap, int)) func(int) error {
			return func(n int) error {
				c := verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
				change(&c, n)
				q, err := r.a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: r.a.cq, RecvCQ: r.a.cq, Cap: c})
				if err != nil {
					return err
				}
				return q.Close()
			}
		}
		srq := func(wr, sge int) error {
			s, err := r.a.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: wr, MaxSGE: sge})
			if err != nil {
				return err
			}
			return s.Close()
		}
		limits := []limit{
			{"MaxQPWR, sends", a.MaxQPWR, qp(func(c *verbs.QPCap, n int) { c.MaxSendWR = n })},
			{"MaxQPWR, receives", a.MaxQPWR, qp(func(c *verbs.QPCap, n int) { c.MaxRecvWR = n })},
			{"MaxSGE, of a send", a.MaxSGE, qp(func(c *verbs.QPCap, n int) { c.MaxSendSGE = n })},
			{"MaxSGE, of a receive", a.MaxSGE, qp(func(c *verbs.QPCap, n int) { c.MaxRecvSGE = n })},
			{"MaxInlineData", a.MaxInlineData, qp(func(c *verbs.QPCap, n int) { c.MaxInlineData = n })},
			{"MaxCQE", a.MaxCQE, func(n int) error {
				q, err := r.A.CreateCQ(verbs.CQInitAttr{CQE: n})
				if err != nil {
					return err
				}
				return q.Close()
			}},
		}
		if a.MaxSRQ > 0 {
			limits = append(limits,
				limit{"MaxSRQWR", a.MaxSRQWR, func(n int) error { return srq(n, 1) }},
				limit{"MaxSGE, of an SRQ", a.MaxSGE, func(n int) error { return srq(1, n) }})
		}
		return edges(limits)
	}},
	{"negative sizes", func(r *rig) error {
		var errs []error
		for i, c := range []verbs.QPCap{{MaxSendWR: -1}, {MaxRecvWR: -1}, {MaxSendSGE: -1}, {MaxRecvSGE: -1}, {MaxInlineData: -1}} {
			if c.MaxSendWR == 0 {
				c.MaxSendWR = 1
			}
			q, err := r.a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: r.a.cq, RecvCQ: r.a.cq, Cap: c})
			if err == nil {
				r.later(q.Close)
			}
			errs = append(errs, expect(fmt.Sprintf("create_qp, case %d", i), err, verbs.ErrInvalid))
		}
		_, err := r.A.CreateCQ(verbs.CQInitAttr{CQE: -1})
		errs = append(errs, expect("create_cq of -1 entries", err, verbs.ErrInvalid))
		if r.A.Attr().MaxSRQ > 0 {
			for _, a := range []verbs.SRQInitAttr{{MaxWR: -1, MaxSGE: 1}, {MaxWR: 0, MaxSGE: 1}, {MaxWR: 1, MaxSGE: -1}} {
				q, err := r.a.pd.CreateSRQ(a)
				if err == nil {
					r.later(q.Close)
				}
				errs = append(errs, expect(fmt.Sprintf("create_srq %+v", a), err, verbs.ErrInvalid))
			}
		}
		return errors.Join(errs...)
	}},
	{"limits of connections", func(r *rig) error {
		a := r.A.Attr()
		port, err := r.A.Port(r.Port)
		if err != nil {
			return err
		}
		connect := func(change func(*verbs.RCParams, int)) func(int) error {
			return func(n int) error {
				p, err := r.params()
				if err != nil {
					return err
				}
				p.SGIDIndex = r.a.index
				change(&p, n)
				q, err := r.a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: r.a.cq, RecvCQ: r.a.cq, Cap: usualCap})
				if err != nil {
					return err
				}
				err = verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{GID: r.b.gid, QPN: 0x1234}, p)
				return errors.Join(err, q.Close())
			}
		}
		limits := []limit{
			{"MaxQPInitRdAtom", a.MaxQPInitRdAtom, connect(func(p *verbs.RCParams, n int) { p.MaxRdAtomic = uint8(n) })},
			{"PhysPorts", a.PhysPorts, connect(func(p *verbs.RCParams, n int) {
				if n > 0 {
					p.Port = n
				}
			})},
			{"PKeys", port.PKeys - 1, connect(func(p *verbs.RCParams, n int) { p.PKeyIndex = max(n, 0) })},
		}
		if r.exact() == nil { // the kernel's rxe takes more than it states
			limits = append(limits, limit{"MaxQPRdAtom", a.MaxQPRdAtom, connect(func(p *verbs.RCParams, n int) { p.MaxDestRdAtomic = uint8(n) })})
		}
		return edges(limits)
	}},
	{"limits of requests", func(r *rig) error {
		if err := r.exact(); err != nil {
			return err
		}
		a := r.A.Attr()
		port, err := r.A.Port(r.Port)
		if err != nil {
			return err
		}
		most := min(a.MaxInlineData, 64)
		qa, _, err := r.connected(func(i *verbs.QPInitAttr, _ *verbs.RCParams) { i.Cap.MaxInlineData = most })
		if err != nil {
			return err
		}
		_, mr, err := r.register(&r.a, 64, 1)
		if err != nil {
			return err
		}
		got, err := qa.Query()
		if err != nil {
			return err
		}
		// Where the port's longest message is shorter than any may be, the device may take a longer
		// request, and end it with an error.
		longest := max(int(port.MaxMsgSize), ib.MaxMessage)
		// The receives name memory that is not there, which no message comes to.
		limits := []limit{
			{"MaxMsgSize, of a receive", longest, func(n int) error {
				return postRecv(qa, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(mr, 0, n)}})
			}},
			{"MaxRecvSGE", got.Cap.MaxRecvSGE, func(n int) error {
				return postRecv(qa, verbs.RecvWR{SGL: slices.Repeat([]verbs.SGE{verbs.SGEOf(mr, 0, 1)}, n)})
			}},
		}
		err = edges(limits)
		for _, n := range []int{longest + 1, 1 << 32, 1<<32 + 8, -1} {
			e := post(qa, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, n)}})
			err = errors.Join(err, expect(fmt.Sprintf("a Write of %d bytes", n), e, verbs.ErrInvalid))
		}
		inline := post(qa, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: make([]byte, got.Cap.MaxInlineData+1)})
		pieces := post(qa, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: slices.Repeat([]verbs.SGE{verbs.SGEOf(mr, 0, 1)}, max(got.Cap.MaxSendSGE, 1)+1)})
		return errors.Join(err, expect("one byte inline too many", inline, verbs.ErrInvalid), expect("one piece too many", pieces, verbs.ErrInvalid))
	}},
}

// exact is an error for devices of libibverbs, whose drivers give other numbers than they state: libmlx5
// rounds inline data up, and refuses the longest send queue where its elements have many blocks.
func (r *rig) exact() error {
	if strings.HasPrefix(r.A.Name(), "ibv:") {
		return verbs.Errorf("query_device", r.A.Name(), verbs.ErrNotSupported, "libibverbs' drivers round")
	}
	return nil
}

// limit is something of which a device takes up to most.
type limit struct {
	name string
	most int
	use  func(n int) error
}

func edges(limits []limit) error {
	var errs []error
	for _, l := range limits {
		for _, n := range []int{l.most - 1, l.most} {
			if n < 0 || n == 0 && l.most != 0 {
				continue
			}
			if err := l.use(n); err != nil {
				errs = append(errs, fmt.Errorf("%s is %d: %d: %w", l.name, l.most, n, err))
			}
		}
		errs = append(errs, expect(fmt.Sprintf("%s is %d: %d", l.name, l.most, l.most+1), l.use(l.most+1), verbs.ErrInvalid))
	}
	return errors.Join(errs...)
}
