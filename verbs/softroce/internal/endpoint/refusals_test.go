package endpoint

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
)

var errNoRoute = errors.New("no route")

// A device takes what lies within its limits, and nothing beyond.
func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		ok     bool
	}{
		"as it is":             {func(*Config) {}, true},
		"the smallest":         {func(c *Config) { c.MaxQPs, c.MTU = 1, 256 }, true},
		"the most queue pairs": {func(c *Config) { c.MaxQPs = MaxQP }, true},
		"one too many":         {func(c *Config) { c.MaxQPs = MaxQP + 1 }, false},
		"no queue pair":        {func(c *Config) { c.MaxQPs = 0 }, false},
		"no address":           {func(c *Config) { c.GIDs = nil }, false},
		"no MTU":               {func(c *Config) { c.MTU = 0 }, false},
		"no random source":     {func(c *Config) { c.Rand = nil }, false},
		"no Resolve":           {func(c *Config) { c.Resolve = nil }, false},
		"no Window":            {func(c *Config) { c.Window = nil }, false},
	} {
		cfg := Config{
			GIDs: []netip.Addr{netip.IPv6Loopback()}, MTU: 4096, Rand: seeded(1, 1), MaxQPs: 8, Window: func(ib.MTU) int { return 1 },
			Resolve: func(verbs.AddressVector) (Route, error) { return Route{}, nil },
		}
		c.change(&cfg)
		if e, err := New(cfg); (err == nil) != c.ok || (e != nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counts are what a device counts of its objects.
func (h *host) counts() [7]int {
	return [7]int{h.e.pds, h.e.cqs, h.e.srqs, h.e.qps.n, h.e.regions.n, h.pd.users, h.cq.users}
}

// What an object is made with lies within the limits of its device, and belongs to it. What is
// refused leaves nothing behind.
func TestMakingRefuses(t *testing.T) {
	w := newWorld(t, 1, 2)
	h, other := w.hosts[0], w.hosts[1]
	h.e.cfg.Resolve = func(av verbs.AddressVector) (Route, error) {
		switch av.FlowLabel {
		case 1:
			return Route{}, errNoRoute
		case 2:
			return Route{}, verbs.ErrNotSupported
		}
		return Route{Dst: netip.AddrPortFrom(av.GID, 4791)}, nil
	}
	gonePD, foreignPD := newPD(h.e), newPD(h.e)
	srq := func(p *PD) *RecvQueue {
		s, err := p.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	own, foreign, goneSRQ := srq(h.pd), srq(foreignPD), srq(h.pd)
	goneCQ, err := h.e.CreateCQ(1, nil)
	if err := errors.Join(err, goneCQ.Close(), goneSRQ.Close(), gonePD.Close()); err != nil {
		t.Fatal(err)
	}
	qp := func(p *PD, change func(*QPInit)) func() (io.Closer, error) {
		return func() (io.Closer, error) {
			a := QPInit{Type: ib.RC, SendCQ: h.cq, RecvCQ: h.cq, Cap: verbs.QPCap{MaxSendWR: 1}}
			change(&a)
			return p.CreateQP(a)
		}
	}
	recvs := func(p *PD, wr, sge int) func() (io.Closer, error) {
		return func() (io.Closer, error) { return p.CreateSRQ(verbs.SRQInitAttr{MaxWR: wr, MaxSGE: sge}) }
	}
	cq := func(n int) func() (io.Closer, error) {
		return func() (io.Closer, error) { return h.e.CreateCQ(n, nil) }
	}
	region := func(p *PD, n int, access ib.AccessFlags) func() (io.Closer, error) {
		return func() (io.Closer, error) { return p.RegMR(make([]byte, n), access) }
	}
	window := func(p *PD, typ ib.MWType) func() (io.Closer, error) {
		return func() (io.Closer, error) { return p.AllocMW(typ) }
	}
	handle := func(p *PD, label uint32) func() (io.Closer, error) {
		return func() (io.Closer, error) {
			return p.CreateAH(verbs.AddressVector{GID: other.addr.Addr(), FlowLabel: label})
		}
	}
	for _, c := range []struct {
		name string
		make func() (io.Closer, error)
		want error // nil: it is made
	}{
		{"RC", qp(h.pd, func(*QPInit) {}), nil},
		{"UC", qp(h.pd, func(a *QPInit) { a.Type = ib.UC }), nil},
		{"UD", qp(h.pd, func(a *QPInit) { a.Type = ib.UD }), nil},
		{"another type", qp(h.pd, func(a *QPInit) { a.Type = ib.QPType(9) }), verbs.ErrNotSupported},
		{"a domain that is gone", qp(gonePD, func(*QPInit) {}), verbs.ErrClosed},
		{"no send queue", qp(h.pd, func(a *QPInit) { a.SendCQ = nil }), verbs.ErrInvalid},
		{"no receive queue", qp(h.pd, func(a *QPInit) { a.RecvCQ = nil }), verbs.ErrInvalid},
		{"a send CQ that is gone", qp(h.pd, func(a *QPInit) { a.SendCQ = goneCQ }), verbs.ErrInvalid},
		{"a receive CQ that is gone", qp(h.pd, func(a *QPInit) { a.RecvCQ = goneCQ }), verbs.ErrInvalid},
		{"another device's send CQ", qp(h.pd, func(a *QPInit) { a.SendCQ = other.cq }), verbs.ErrInvalid},
		{"another device's receive CQ", qp(h.pd, func(a *QPInit) { a.RecvCQ = other.cq }), verbs.ErrInvalid},
		{"no send", qp(h.pd, func(a *QPInit) { a.Cap.MaxSendWR = 0 }), verbs.ErrInvalid},
		{"the most sends", qp(h.pd, func(a *QPInit) { a.Cap.MaxSendWR = MaxQPWR }), nil},
		{"too many sends", qp(h.pd, func(a *QPInit) { a.Cap.MaxSendWR = MaxQPWR + 1 }), verbs.ErrInvalid},
		{"fewer receives than none", qp(h.pd, func(a *QPInit) { a.Cap.MaxRecvWR = -1 }), verbs.ErrInvalid},
		{"the most receives", qp(h.pd, func(a *QPInit) { a.Cap.MaxRecvWR = MaxQPWR }), nil},
		{"too many receives", qp(h.pd, func(a *QPInit) { a.Cap.MaxRecvWR = MaxQPWR + 1 }), verbs.ErrInvalid},
		{"the most pieces", qp(h.pd, func(a *QPInit) { a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE = MaxSGE, MaxSGE }), nil},
		{"too many pieces of sends", qp(h.pd, func(a *QPInit) { a.Cap.MaxSendSGE = MaxSGE + 1 }), verbs.ErrInvalid},
		{"too many pieces of receives", qp(h.pd, func(a *QPInit) { a.Cap.MaxRecvSGE = MaxSGE + 1 }), verbs.ErrInvalid},
		{"fewer pieces of sends than none", qp(h.pd, func(a *QPInit) { a.Cap.MaxSendSGE = -1 }), verbs.ErrInvalid},
		{"fewer pieces of receives than none", qp(h.pd, func(a *QPInit) { a.Cap.MaxRecvSGE = -1 }), verbs.ErrInvalid},
		{"the most inline", qp(h.pd, func(a *QPInit) { a.Cap.MaxInlineData = MaxInline }), nil},
		{"too much inline", qp(h.pd, func(a *QPInit) { a.Cap.MaxInlineData = MaxInline + 1 }), verbs.ErrInvalid},
		{"less inline than none", qp(h.pd, func(a *QPInit) { a.Cap.MaxInlineData = -1 }), verbs.ErrInvalid},
		{"an SRQ", qp(h.pd, func(a *QPInit) { a.SRQ = own }), nil},
		{"another domain's SRQ", qp(h.pd, func(a *QPInit) { a.SRQ = foreign }), verbs.ErrInvalid},
		{"an SRQ that is gone", qp(h.pd, func(a *QPInit) { a.SRQ = goneSRQ }), verbs.ErrInvalid},

		{"an SRQ of one", recvs(h.pd, 1, 0), nil},
		{"the largest SRQ", recvs(h.pd, MaxQPWR, MaxSGE), nil},
		{"an SRQ of none", recvs(h.pd, 0, 1), verbs.ErrInvalid},
		{"too large an SRQ", recvs(h.pd, MaxQPWR+1, 1), verbs.ErrInvalid},
		{"an SRQ of fewer pieces than none", recvs(h.pd, 1, -1), verbs.ErrInvalid},
		{"an SRQ of too many pieces", recvs(h.pd, 1, MaxSGE+1), verbs.ErrInvalid},
		{"an SRQ of a domain that is gone", recvs(gonePD, 1, 1), verbs.ErrClosed},

		{"a CQ of one", cq(1), nil},
		{"a CQ of none", cq(0), verbs.ErrInvalid},
		{"the largest CQ", cq(MaxCQE), nil},
		{"too large a CQ", cq(MaxCQE + 1), verbs.ErrInvalid},

		{"a byte", region(h.pd, 1, 0), nil},
		{"no byte", region(h.pd, 0, 0), verbs.ErrInvalid},
		{"a region of a domain that is gone", region(gonePD, 1, 0), verbs.ErrClosed},
		{"every access", region(h.pd, 1, allAccess|ib.AccessRemoteInvalidate|ib.AccessMWBind|ib.AccessHugeTLB), nil},
		{"unknown access", region(h.pd, 1, 1<<30), verbs.ErrInvalid},
		{"remote writes only", region(h.pd, 1, ib.AccessRemoteWrite), verbs.ErrInvalid},
		{"remote atomics only", region(h.pd, 1, ib.AccessRemoteAtomic), verbs.ErrInvalid},
		{"remote reads only", region(h.pd, 1, ib.AccessRemoteRead), nil},

		{"a window of type 1", window(h.pd, ib.MWType1), nil},
		{"a window of type 2", window(h.pd, ib.MWType2), nil},
		{"a window of no type", window(h.pd, ib.MWType(0)), verbs.ErrInvalid},
		{"a window of a domain that is gone", window(gonePD, ib.MWType1), verbs.ErrClosed},

		{"an address", handle(h.pd, 0), nil},
		{"an address without a route", handle(h.pd, 1), verbs.ErrInvalid},
		{"an address that the device has no way for", handle(h.pd, 2), verbs.ErrNotSupported},
		{"an address of a domain that is gone", handle(gonePD, 0), verbs.ErrClosed},
	} {
		before := h.counts()
		made, err := c.make()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if err == nil {
			if err := made.Close(); err != nil {
				t.Errorf("%s: closed: %v", c.name, err)
			}
			if err := made.Close(); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("%s: closed twice: %v", c.name, err)
			}
		}
		if after := h.counts(); after != before {
			t.Errorf("%s: the device counts %v of its objects, and %v before", c.name, after, before)
		}
	}
	if own.users != 0 || foreign.users != 0 || goneSRQ.users != 0 {
		t.Error("an SRQ counts queue pairs that are gone")
	}

	// A device with as many queue pairs as it takes.
	h.e.cfg.MaxQPs = 2
	for i, want := range []error{nil, nil, verbs.ErrBusy} {
		if _, err := qp(h.pd, func(*QPInit) {})(); !errors.Is(err, want) {
			t.Errorf("queue pair %d of 2: %v, want %v", i+1, err, want)
		}
	}
}

// What other objects are made of can't go before them.
func TestClosingRefuses(t *testing.T) {
	w := newWorld(t, 1, 1)
	h := w.hosts[0]
	recv, err := h.e.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	pd := newPD(h.e)
	srq, err := pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	q, err := pd.CreateQP(QPInit{Type: ib.RC, SendCQ: h.cq, RecvCQ: recv, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{h.cq, recv, srq, pd} {
		if err := c.Close(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("%T in use: %v", c, err)
		}
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := pd.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a domain with an SRQ: %v", err)
	}
	if err := errors.Join(h.cq.Close(), recv.Close(), srq.Close(), pd.Close()); err != nil {
		t.Error(err)
	}
	if h.e.Objects() != 1 {
		t.Errorf("%d objects are left, want the host's domain", h.e.Objects())
	}
}

// Nothing can be done with what is gone.
func TestWhatIsGoneRefuses(t *testing.T) {
	w := newWorld(t, 1, 1)
	h := w.hosts[0]
	m, _ := h.reg(1, 0)
	srq, err := h.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	q := w.newQP(h, ib.RC, nil)
	cq, err := h.e.CreateCQ(1, func() {})
	if err := errors.Join(err, m.Close(), srq.Close(), q.Close(), cq.Close()); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"rereg_mr":       func() error { return m.SetAccess(0) },
		"modify_srq":     func() error { return srq.SetLimit(0) },
		"post_srq_recv":  func() error { _, err := srq.PostRecv([]verbs.RecvWR{{}}); return err },
		"resize_cq":      func() error { return cq.Resize(2) },
		"query_qp":       func() error { _, err := q.Query(); return err },
		"modify_qp":      func() error { return q.Modify(0, verbs.QPAttr{State: ib.Reset}, verbs.AttrState) },
		"post_send":      func() error { _, err := q.PostSend(0, []verbs.SendWR{{Opcode: ib.WRSend}}); return err },
		"post_recv":      func() error { _, err := q.PostRecv(0, []verbs.RecvWR{{}}); return err },
		"modify_qp ERR":  func() error { return q.Modify(0, verbs.QPAttr{State: ib.Err}, verbs.AttrState) },
		"post_recv none": func() error { _, err := q.PostRecv(0, nil); return err },
	} {
		if err := call(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s: %v, want %v", name, err, verbs.ErrClosed)
		}
	}
}

// A source of random numbers that fails makes nothing: neither a key nor a number is 0 then.
func TestNoRandomNumbers(t *testing.T) {
	w := newWorld(t, 1, 1)
	h := w.hosts[0]
	before := h.counts()
	failing := func(draws int) { h.e.cfg.Rand = io.LimitReader(seeded(1, 1), int64(8*draws)) }
	for name, c := range map[string]struct {
		draws int
		make  func() error
	}{
		"a queue pair": {0, func() error {
			_, err := h.pd.CreateQP(QPInit{Type: ib.RC, SendCQ: h.cq, RecvCQ: h.cq, Cap: verbs.QPCap{MaxSendWR: 1}})
			return err
		}},
		"a region's key":     {0, func() error { _, err := h.pd.RegMR(make([]byte, 1), 0); return err }},
		"a region's address": {1, func() error { _, err := h.pd.RegMR(make([]byte, 1), 0); return err }},
		"a window":           {0, func() error { _, err := h.pd.AllocMW(ib.MWType1); return err }},
	} {
		if failing(c.draws); !errors.Is(c.make(), io.EOF) {
			t.Errorf("%s: made without a random number", name)
		}
		if after := h.counts(); after != before {
			t.Errorf("%s: the device counts %v of its objects, and %v before", name, after, before)
		}
	}
}

// Numbers that mean something, and those in use, are drawn again: a queue pair's are 0 and 1
// of the management's and the multicast's (IBA 3.5.1); a key is not 0, and no window's key has
// the upper 24 bits of another key.
func TestNumbersAreNobodyElses(t *testing.T) {
	w := newWorld(t, 1, 1)
	h := w.hosts[0]
	draws := func(numbers ...uint32) {
		var b bytes.Buffer
		for _, n := range numbers {
			b.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 0xaa, 0xaa, 0xaa, 0xaa})
		}
		h.e.cfg.Rand = &b
	}
	draws(0, 1, 0xffffff, 2, 0x55000002, 0, 0xfffffe, 0xfffffe, 3)
	for _, want := range []uint32{2, 0xfffffe, 3} {
		if q := w.newQP(h, ib.RC, nil); q.Num() != want {
			t.Errorf("queue pair %#x, want %#x", q.Num(), want)
		}
	}
	// A region's key and its address in turns.
	draws(0, 0x100, 0, 0x100, 0x1ff, 0)
	for _, want := range []uint32{0x100, 0x1ff} {
		if m, _ := h.reg(1, 0); m.Key() != want {
			t.Errorf("a region's key is %#x, want %#x", m.Key(), want)
		}
	}
	draws(0x7f, 0x100, 0x1ff, 0x133, 0x2ff, 0x200, 0x345)
	for _, want := range []uint32{0x2ff, 0x345} {
		m, err := h.pd.AllocMW(ib.MWType1)
		if err != nil {
			t.Fatal(err)
		}
		if m.Key() != want {
			t.Errorf("a window's key is %#x, want %#x", m.Key(), want)
		}
	}
	draws(0x2ff, 0x200, 0x3aa, 0x444, 0)
	if m, _ := h.reg(1, 0); m.Key() != 0x444 {
		t.Errorf("a region's key is %#x, want one that no window has", m.Key())
	}
}

// Every state takes what ibv_modify_qp(3) allows, with the attributes that it lists, and
// refuses everything else; what is refused changes neither state nor attributes.
func TestModify(t *testing.T) {
	states := []ib.QPState{ib.Reset, ib.Init, ib.RTR, ib.RTS, ib.SQD, ib.SQE, ib.Err}
	full := func(w *world, typ ib.QPType, to ib.QPState) (verbs.QPAttr, verbs.QPAttrMask) {
		a := verbs.QPAttr{
			State: to, Port: 1, QKey: 5, PathMTU: 1024, DestQPN: 7, AV: verbs.AddressVector{GID: w.hosts[1].addr.Addr()},
			MaxRdAtomic: MaxRdAtomic, MaxDestRdAtomic: MaxRdAtomic,
		}
		switch to {
		case ib.Init:
			return a, steps[typ][0]
		case ib.RTR:
			return a, steps[typ][1]
		case ib.RTS:
			return a, steps[typ][2]
		}
		return a, verbs.AttrState
	}
	// path is how a queue pair gets to a state.
	path := map[ib.QPState][]ib.QPState{
		ib.Reset: {}, ib.Init: {ib.Init}, ib.RTR: {ib.Init, ib.RTR}, ib.RTS: {ib.Init, ib.RTR, ib.RTS},
		ib.SQD: {ib.Init, ib.RTR, ib.RTS, ib.SQD}, ib.Err: {ib.Err}, ib.SQE: {ib.Init, ib.RTR, ib.RTS},
	}
	for _, typ := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
		for _, from := range states {
			if from == ib.SQE && typ == ib.RC {
				continue // a connection that is reliable goes to ERR
			}
			for _, to := range states {
				w := newWorld(t, 1, 2)
				q := w.newQP(w.hosts[0], typ, nil)
				for _, s := range path[from] {
					if a, mask := full(w, typ, s); q.Modify(0, a, mask) != nil {
						t.Fatalf("%v: to %v: %v", typ, s, q.Modify(0, a, mask))
					}
				}
				if from == ib.SQE {
					ah, err := w.hosts[0].pd.CreateAH(verbs.AddressVector{GID: w.hosts[1].addr.Addr()})
					if err != nil {
						t.Fatal(err)
					}
					wr := verbs.SendWR{Opcode: ib.WRSend, SGL: []verbs.SGE{{Length: 1, LKey: 1}}}
					if typ == ib.UD {
						wr.AH = ah
					}
					w.hosts[0].post(q, wr)
				}
				if q.State() != from {
					t.Fatalf("%v: in %v instead of %v", typ, q.State(), from)
				}
				before, _ := q.Query()
				a, mask := full(w, typ, to)
				want := error(nil)
				switch {
				case !from.CanBecome(to), to == ib.SQE:
					want = verbs.ErrState
				case from == ib.RTS && to == ib.RTS && typ != ib.UD:
					want = verbs.ErrNotSupported
				case from == ib.Init && to == ib.Init, from == ib.SQD && to == ib.SQD:
				}
				err := q.Modify(0, a, mask)
				if !errors.Is(err, want) {
					t.Errorf("%v from %v to %v: %v, want %v", typ, from, to, err, want)
				}
				if after, _ := q.Query(); err != nil && after != before {
					t.Errorf("%v from %v to %v: refused, and now %+v", typ, from, to, after)
				}
				if err == nil && q.State() != to {
					t.Errorf("%v from %v to %v: in %v", typ, from, to, q.State())
				}
			}
		}
	}
}

// Attributes beyond what the device has, or a connection can have, are refused; those at the
// bounds are taken, and Query has them.
func TestModifyBounds(t *testing.T) {
	w := newWorld(t, 1, 2)
	h := w.hosts[0]
	h.e.cfg.MTU = 2048
	h.e.cfg.Resolve = func(av verbs.AddressVector) (Route, error) {
		switch av.FlowLabel {
		case 1:
			return Route{}, errNoRoute
		case 2:
			return Route{}, verbs.ErrNotSupported
		}
		return Route{Dst: netip.AddrPortFrom(av.GID, 4791)}, nil
	}
	init := verbs.QPAttr{State: ib.Init, Port: 1, Access: ib.AccessRemoteRead}
	rtr := verbs.QPAttr{
		State: ib.RTR, PathMTU: 2048, DestQPN: maxPSN, RQPSN: maxPSN, AV: verbs.AddressVector{GID: w.hosts[1].addr.Addr()},
		MaxDestRdAtomic: MaxRdAtomic, MinRNRTimer: 31,
	}
	rts := verbs.QPAttr{State: ib.RTS, SQPSN: maxPSN, Timeout: 31, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: MaxRdAtomic}
	type step struct {
		name   string
		change func(*verbs.QPAttr)
		want   error
	}
	for to, c := range map[ib.QPState]struct {
		a     verbs.QPAttr
		mask  verbs.QPAttrMask
		steps []step
	}{
		ib.Init: {init, verbs.ResetToInitRC | verbs.AttrPKeyIndex, []step{
			{"port 2", func(a *verbs.QPAttr) { a.Port = 2 }, verbs.ErrInvalid},
			{"port 0", func(a *verbs.QPAttr) { a.Port = 0 }, verbs.ErrInvalid},
			{"P_Key index 1", func(a *verbs.QPAttr) { a.PKeyIndex = 1 }, verbs.ErrInvalid},
		}},
		ib.RTR: {rtr, verbs.InitToRTRRC | verbs.AttrAccess, []step{
			{"no route", func(a *verbs.QPAttr) { a.AV.FlowLabel = 1 }, verbs.ErrInvalid},
			{"no way for it", func(a *verbs.QPAttr) { a.AV.FlowLabel = 2 }, verbs.ErrNotSupported},
			{"an MTU that is none", func(a *verbs.QPAttr) { a.PathMTU = 2047 }, verbs.ErrInvalid},
			{"an MTU above the port's", func(a *verbs.QPAttr) { a.PathMTU = 4096 }, verbs.ErrInvalid},
			{"a peer of 25 bits", func(a *verbs.QPAttr) { a.DestQPN = maxPSN + 1 }, verbs.ErrInvalid},
			{"too many responder resources", func(a *verbs.QPAttr) { a.MaxDestRdAtomic = MaxRdAtomic + 1 }, verbs.ErrInvalid},
			{"an RNR timer of 6 bits", func(a *verbs.QPAttr) { a.MinRNRTimer = 32 }, verbs.ErrInvalid},
		}},
		ib.RTS: {rts, verbs.RTRToRTSRC, []step{
			{"a timeout of 6 bits", func(a *verbs.QPAttr) { a.Timeout = 32 }, verbs.ErrInvalid},
			{"8 retries", func(a *verbs.QPAttr) { a.RetryCnt = 8 }, verbs.ErrInvalid},
			{"8 RNR retries", func(a *verbs.QPAttr) { a.RNRRetry = 8 }, verbs.ErrInvalid},
			{"too many reads", func(a *verbs.QPAttr) { a.MaxRdAtomic = MaxRdAtomic + 1 }, verbs.ErrInvalid},
		}},
	} {
		q := w.newQP(h, ib.RC, nil)
		for _, s := range []struct {
			a    verbs.QPAttr
			mask verbs.QPAttrMask
		}{{init, verbs.ResetToInitRC}, {rtr, verbs.InitToRTRRC}} {
			if s.a.State < to {
				if err := q.Modify(0, s.a, s.mask); err != nil {
					t.Fatal(err)
				}
			}
		}
		before, _ := q.Query()
		for _, s := range c.steps {
			a := c.a
			s.change(&a)
			if err := q.Modify(0, a, c.mask); !errors.Is(err, s.want) {
				t.Errorf("%v: %s: %v, want %v", to, s.name, err, s.want)
			}
			if got, _ := q.Query(); got != before {
				t.Errorf("%v: %s: refused, and now %+v", to, s.name, got)
			}
		}
		for bit := verbs.QPAttrMask(1); bit <= c.mask; bit <<= 1 {
			if optional := bit == verbs.AttrPKeyIndex || to == ib.RTR && bit == verbs.AttrAccess; c.mask&bit != 0 && bit != verbs.AttrState && !optional && !errors.Is(q.Modify(0, c.a, c.mask&^bit), verbs.ErrInvalid) {
				t.Errorf("%v: taken without attribute %#x", to, uint32(bit))
			}
		}
		if err := q.Modify(0, c.a, c.mask); err != nil {
			t.Errorf("%v: %v", to, err)
		}
	}
	q := w.newQP(h, ib.RC, nil)
	for _, s := range []struct {
		a    verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{init, verbs.ResetToInitRC}, {verbs.QPAttr{State: ib.Init, Access: ib.AccessRemoteWrite}, verbs.AttrState | verbs.AttrAccess},
		{withAccess(rtr, ib.AccessRemoteAtomic), verbs.InitToRTRRC | verbs.AttrAccess}, {rts, verbs.RTRToRTSRC},
	} {
		if err := q.Modify(0, s.a, s.mask); err != nil {
			t.Fatal(err)
		}
		if got, _ := q.Query(); got.Access != s.a.Access && s.mask&verbs.AttrAccess != 0 {
			t.Errorf("%v: access is %v, want %v", s.a.State, got.Access, s.a.Access)
		}
	}
	want := rtr
	want.State, want.Cap, want.Port, want.Access = ib.RTS, q.init.Cap, 1, ib.AccessRemoteAtomic
	want.SQPSN, want.Timeout, want.RetryCnt, want.RNRRetry, want.MaxRdAtomic = maxPSN, 31, 7, 7, MaxRdAtomic
	if got, err := q.Query(); err != nil || got != want {
		t.Errorf("Query has\n%+v, %v, want\n%+v", got, err, want)
	}
	if err := q.Modify(0, verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if got, _ := q.Query(); got != (verbs.QPAttr{Cap: q.init.Cap}) {
		t.Errorf("after RESET Query has %+v", got)
	}
	if err := q.Modify(0, verbs.QPAttr{Port: 1}, verbs.AttrPort); !errors.Is(err, verbs.ErrState) {
		t.Errorf("attributes in RESET: %v", err)
	}
}

func withAccess(a verbs.QPAttr, access ib.AccessFlags) verbs.QPAttr {
	a.Access = access
	return a
}

// What arrives for a queue pair that is not there for it is counted by the first reason found,
// and nothing else happens.
func TestArrivalsThatAreDropped(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w := l.w
	idle := w.newQP(l.b, ib.RC, nil) // in RESET
	ud := w.newQP(l.b, ib.UD, nil)
	ready := w.readyUD(w.newQP(l.b, ib.UD, nil), testQKey)
	if err := ready.Modify(0, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	mads := 0
	l.b.e.OnMAD(func(netip.Addr, netip.AddrPort, uint32, []byte) bool { mads++; return mads > 1 })
	type header = roce.Packet
	packet := func(op ib.Opcode, qpn uint32, change func(*header), payload int) []byte {
		p := roce.Packet{DestQP: qpn, PKey: roce.DefaultPKey}
		p.Opcode, p.PSN = op, l.y.rcExpected()
		if change != nil {
			change(&p)
		}
		b := make([]byte, MaxPacket)
		n := p.Put(b)
		return b[:n+payload+roce.ICRCBytes]
	}
	key := func(k uint32) func(*header) { return func(p *header) { p.QKey, p.SrcQP = k, 1 } }
	for _, c := range []struct {
		name   string
		packet []byte
		count  func(*Counters) *uint64
	}{
		{"another partition", packet(ib.SendOnly, l.y.Num(), func(p *header) { p.PKey = 0x8001 }, 0), func(c *Counters) *uint64 { return &c.BadPKey }},
		{"no queue pair", packet(ib.SendOnly, l.y.Num()^1, nil, 0), func(c *Counters) *uint64 { return &c.NoQP }},
		{"a queue pair in RESET", packet(ib.SendOnly, idle.Num(), nil, 0), func(c *Counters) *uint64 { return &c.NoQP }},
		{"a datagram to a queue pair in RESET", packet(ib.ServiceUD|ib.SendOnly, ud.Num(), key(0), 0), func(c *Counters) *uint64 { return &c.NoQP }},
		{"a datagram to a queue pair in ERR", packet(ib.ServiceUD|ib.SendOnly, ready.Num(), key(testQKey), 0), func(c *Counters) *uint64 { return &c.NoQP }},
		{"a connection's packet to datagrams", packet(ib.SendOnly, ready.Num(), nil, 0), func(c *Counters) *uint64 { return &c.WrongService }},
		{"a datagram to a connection", packet(ib.ServiceUD|ib.SendOnly, l.y.Num(), key(0), 0), func(c *Counters) *uint64 { return &c.WrongService }},
		{"an unreliable one to a reliable one", packet(ib.ServiceUC|ib.SendOnly, l.y.Num(), nil, 0), func(c *Counters) *uint64 { return &c.WrongService }},
		{"no MAD", packet(ib.SendOnly, 1, nil, roce.MADBytes), func(c *Counters) *uint64 { return &c.WrongService }},
		{"a MAD that nobody wants", packet(ib.ServiceUD|ib.SendOnly, 1, key(roce.GSIQKey), roce.MADBytes), func(c *Counters) *uint64 { return &c.MADsDropped }},
		{"a MAD that is too short", packet(ib.ServiceUD|ib.SendOnly, 1, key(roce.GSIQKey), roce.MADBytes-4), func(c *Counters) *uint64 { return &c.MADsDropped }},
		{"a MAD with another key", packet(ib.ServiceUD|ib.SendOnly, 1, key(1), roce.MADBytes), func(c *Counters) *uint64 { return &c.BadQKey }},
		{"a MAD", packet(ib.ServiceUD|ib.SendOnly, 1, key(roce.GSIQKey), roce.MADBytes), nil},
		{"a limited member of the partition", packet(ib.SendOnly, l.y.Num()^1, func(p *header) { p.PKey = 0x7fff }, 0), func(c *Counters) *uint64 { return &c.NoQP }},
	} {
		want := l.b.e.Counters
		want.RxPackets++
		want.RxBytes += uint64(len(c.packet))
		if c.count != nil {
			*c.count(&want)++
		}
		w.inject(l.a.addr, l.b, c.packet)
		w.settle()
		if l.b.e.Counters != want {
			t.Errorf("%s:\n%+v, want\n%+v", c.name, l.b.e.Counters, want)
		}
	}
	if mads != 2 || len(l.b.poll()) != 0 || l.y.Transport().SentNaks != 0 {
		t.Errorf("%d management datagrams, want 2; or something else has happened", mads)
	}
	if err := l.a.e.SendMAD(verbs.AddressVector{}, 1, make([]byte, roce.MADBytes-1)); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a short management datagram: %v", err)
	}
	l.a.pump()
	l.a.e.cfg.Resolve = func(verbs.AddressVector) (Route, error) { return Route{}, errNoRoute }
	if err := l.a.e.SendMAD(verbs.AddressVector{}, 1, make([]byte, roce.MADBytes)); !errors.Is(err, verbs.ErrInvalid) || l.a.e.Pending() {
		t.Errorf("a management datagram without a route: %v", err)
	}
}
