package storm

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// limits asks a process's device for what lies at each limit that it states, and one beyond, and
// holds what it answers against that (rule 20).
func (w *peer) limits() (err error) {
	bad := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf("rule 20: "+format, args...)
		}
	}
	if w.p.run.cfg.Shim != "" {
		w.shimLimits(bad)
		return err
	}
	if w.p.run.cfg.Provider != "soft" {
		return nil
	}
	w.managerLimits(bad)
	pd, fail := w.dev.AllocPD()
	if fail != nil {
		return fail
	}
	cq, fail := w.dev.CreateCQ(verbs.CQInitAttr{CQE: 64})
	if fail != nil {
		return fail
	}
	w.objectLimits(pd, cq, bad)
	for _, t := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
		w.attributeLimits(pd, cq, t, bad)
	}
	w.queueLimits(pd, cq, bad)
	return errors.Join(err, cq.Close(), pd.Close())
}

// refused reports whether an error is of that cause, or there is none where there must be none.
func refused(err, cause error) bool {
	if cause == nil {
		return err == nil
	}
	return errors.Is(err, cause)
}

func (w *peer) objectLimits(pd verbs.PD, cq verbs.CQ, bad func(string, ...any)) {
	a := w.dev.Attr()
	usual := verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	for _, c := range []struct {
		change func(c *verbs.QPCap)
		want   error
	}{
		{func(c *verbs.QPCap) { c.MaxSendWR = 0 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxSendWR = a.MaxQPWR }, nil},
		{func(c *verbs.QPCap) { c.MaxSendWR = a.MaxQPWR + 1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxRecvWR = -1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxRecvWR = 0 }, nil},
		{func(c *verbs.QPCap) { c.MaxRecvWR = a.MaxQPWR }, nil},
		{func(c *verbs.QPCap) { c.MaxRecvWR = a.MaxQPWR + 1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxSendSGE = -1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxSendSGE, c.MaxRecvSGE = 0, 0 }, nil},
		{func(c *verbs.QPCap) { c.MaxSendSGE, c.MaxRecvSGE = a.MaxSGE, a.MaxSGE }, nil},
		{func(c *verbs.QPCap) { c.MaxSendSGE = a.MaxSGE + 1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxRecvSGE = -1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxRecvSGE = a.MaxSGE + 1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxInlineData = -1 }, verbs.ErrInvalid},
		{func(c *verbs.QPCap) { c.MaxInlineData = a.MaxInlineData }, nil},
		{func(c *verbs.QPCap) { c.MaxInlineData = a.MaxInlineData + 1 }, verbs.ErrInvalid},
	} {
		caps := usual
		c.change(&caps)
		q, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: caps})
		if !refused(err, c.want) {
			bad("a queue pair of %+v: %v, expected %v", caps, err, c.want)
		}
		if err == nil {
			if got, err := q.Query(); err != nil || got.Cap != caps || got.State != ib.Reset {
				bad("a queue pair of %+v says that it is %+v (%v)", caps, got, err)
			}
			if err := q.Close(); err != nil {
				bad("%v", err)
			}
		}
	}
	for n, want := range map[int]error{-1: verbs.ErrInvalid, 0: verbs.ErrInvalid, 1: nil, 33: nil, a.MaxCQE + 1: verbs.ErrInvalid} {
		c, err := w.dev.CreateCQ(verbs.CQInitAttr{CQE: n})
		if !refused(err, want) {
			bad("a completion queue of %d: %v, expected %v", n, err, want)
		}
		if err == nil && (c.Cap() < n || c.Close() != nil) {
			bad("a completion queue of %d holds %d", n, c.Cap())
		}
	}
	for _, s := range []struct {
		a    verbs.SRQInitAttr
		want error
	}{
		{verbs.SRQInitAttr{MaxWR: 0, MaxSGE: 1}, verbs.ErrInvalid}, {verbs.SRQInitAttr{MaxWR: 1}, nil},
		{verbs.SRQInitAttr{MaxWR: a.MaxSRQWR, MaxSGE: a.MaxSGE}, nil}, {verbs.SRQInitAttr{MaxWR: a.MaxSRQWR + 1, MaxSGE: 1}, verbs.ErrInvalid},
		{verbs.SRQInitAttr{MaxWR: 1, MaxSGE: a.MaxSGE + 1}, verbs.ErrInvalid}, {verbs.SRQInitAttr{MaxWR: 1, MaxSGE: -1}, verbs.ErrInvalid},
	} {
		q, err := pd.CreateSRQ(s.a)
		if !refused(err, s.want) {
			bad("a shared receive queue of %+v: %v, expected %v", s.a, err, s.want)
		}
		if err == nil && q.Close() != nil {
			bad("a shared receive queue can't be closed")
		}
	}
	buf := make([]byte, 8)
	for _, m := range []struct {
		buf    []byte
		access ib.AccessFlags
		want   error
	}{
		{nil, 0, verbs.ErrInvalid}, {buf, 0, nil}, {buf, ib.AccessRemoteRead, nil}, {buf, ib.AccessRemoteWrite, verbs.ErrInvalid},
		{buf, ib.AccessRemoteAtomic, verbs.ErrInvalid}, {buf, ib.AccessRemoteAtomic | ib.AccessLocalWrite, nil}, {buf, 1 << 30, verbs.ErrInvalid},
	} {
		mr, err := pd.RegMR(m.buf, m.access)
		if !refused(err, m.want) {
			bad("%d bytes of memory for %v: %v, expected %v", len(m.buf), m.access, err, m.want)
		}
		if err == nil && (mr.Length() != len(m.buf) || mr.Access() != m.access || mr.LKey() != mr.RKey() || mr.Close() != nil || mr.Close() == nil) {
			bad("%d bytes of memory for %v are %d for %v, or can be given back once or twice", len(m.buf), m.access, mr.Length(), mr.Access())
		}
	}
}

// limit is a value of an attribute, and whether the device takes it.
type limit struct {
	set  func(a *verbs.QPAttr)
	want error
}

func (w *peer) attributeLimits(pd verbs.PD, cq verbs.CQ, t ib.QPType, bad func(string, ...any)) {
	peer := w.p.Address((w.p.ID + 1) % w.p.Processes)
	usual := verbs.QPAttr{
		Port: 1, Access: ib.AccessRemoteRead, PathMTU: 1024, DestQPN: 77, RQPSN: 5, AV: verbs.AddressVector{GID: peer, HopLimit: 9}, MaxDestRdAtomic: 1,
		MinRNRTimer: 1, Timeout: 1, RetryCnt: 1, RNRRetry: 1, SQPSN: 6, MaxRdAtomic: 1, QKey: 8,
	}
	steps := map[ib.QPType][3]verbs.QPAttrMask{
		ib.RC: {verbs.ResetToInitRC, verbs.InitToRTRRC, verbs.RTRToRTSRC},
		ib.UC: {verbs.ResetToInitUC, verbs.InitToRTRUC, verbs.RTRToRTSUC},
		ib.UD: {verbs.ResetToInitUD, verbs.InitToRTRUD, verbs.RTRToRTSUD},
	}[t]
	most := uint8(w.dev.Attr().MaxQPRdAtom)
	values := [3][]limit{{
		{func(a *verbs.QPAttr) { a.Port = 0 }, verbs.ErrInvalid}, {func(a *verbs.QPAttr) { a.Port = 2 }, verbs.ErrInvalid},
		{func(a *verbs.QPAttr) { a.PKeyIndex = 1 }, verbs.ErrInvalid},
	}, {
		{func(a *verbs.QPAttr) { a.PathMTU = 256 }, nil}, {func(a *verbs.QPAttr) { a.PathMTU = 257 }, verbs.ErrInvalid},
		{func(a *verbs.QPAttr) { a.PathMTU = 2048 }, verbs.ErrInvalid}, {func(a *verbs.QPAttr) { a.DestQPN = 1<<24 - 1 }, nil},
		{func(a *verbs.QPAttr) { a.DestQPN = 1 << 24 }, verbs.ErrInvalid}, {func(a *verbs.QPAttr) { a.RQPSN = 1<<24 - 1 }, nil},
		{func(a *verbs.QPAttr) { a.AV.GID = netip.Addr{} }, verbs.ErrInvalid}, {func(a *verbs.QPAttr) { a.AV.SGIDIndex = 1 }, verbs.ErrInvalid},
	}, {
		{func(a *verbs.QPAttr) { a.SQPSN = 1<<24 - 1 }, nil},
	}}
	if t == ib.RC {
		values[1] = append(values[1], limit{func(a *verbs.QPAttr) { a.MaxDestRdAtomic = most }, nil}, limit{func(a *verbs.QPAttr) { a.MaxDestRdAtomic = most + 1 }, verbs.ErrInvalid},
			limit{func(a *verbs.QPAttr) { a.MinRNRTimer = 31 }, nil}, limit{func(a *verbs.QPAttr) { a.MinRNRTimer = 32 }, verbs.ErrInvalid})
		values[2] = append(values[2], limit{func(a *verbs.QPAttr) { a.Timeout = 31 }, nil}, limit{func(a *verbs.QPAttr) { a.Timeout = 32 }, verbs.ErrInvalid},
			limit{func(a *verbs.QPAttr) { a.RetryCnt = 7 }, nil}, limit{func(a *verbs.QPAttr) { a.RetryCnt = 8 }, verbs.ErrInvalid},
			limit{func(a *verbs.QPAttr) { a.RNRRetry = 7 }, nil}, limit{func(a *verbs.QPAttr) { a.RNRRetry = 8 }, verbs.ErrInvalid},
			limit{func(a *verbs.QPAttr) { a.MaxRdAtomic = most }, nil}, limit{func(a *verbs.QPAttr) { a.MaxRdAtomic = most + 1 }, verbs.ErrInvalid})
	}
	if t == ib.UD {
		values[1] = nil
	}
	states := []ib.QPState{ib.Reset, ib.Init, ib.RTR, ib.RTS}
	for step := range states {
		q, err := pd.CreateQP(verbs.QPInitAttr{Type: t, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		if err != nil {
			bad("%v", err)
			return
		}
		go1 := func(to int, a verbs.QPAttr, mask verbs.QPAttrMask) error {
			a.State = states[to]
			return q.Modify(a, mask)
		}
		for to := 1; to <= step; to++ {
			if err := go1(to, usual, steps[to-1]); err != nil {
				bad("%v to %v: %v", t, states[to], err)
			}
		}
		for to := ib.Init; to <= ib.SQE; to++ { // none of which may be
			if states[step].CanBecome(to) {
				continue
			}
			if err := q.Modify(verbs.QPAttr{State: to, Port: 1, PathMTU: 256, AV: usual.AV}, ^verbs.QPAttrMask(0)); !errors.Is(err, verbs.ErrState) {
				bad("%v from %v to %v: %v", t, states[step], to, err)
			}
		}
		if step < 3 {
			for bit := verbs.AttrAccess; bit <= verbs.AttrPKeyIndex; bit <<= 1 {
				if steps[step]&bit == 0 {
					continue
				}
				if err := go1(step+1, usual, steps[step]&^bit); !errors.Is(err, verbs.ErrInvalid) {
					bad("%v to %v without attribute %#x: %v", t, states[step+1], uint32(bit), err)
				}
			}
			for i, v := range values[step] {
				a := usual
				v.set(&a)
				mask := steps[step]
				if step == 0 {
					mask |= verbs.AttrPKeyIndex
				}
				err := go1(step+1, a, mask)
				if !refused(err, v.want) {
					bad("%v to %v, value %d, %+v: %v, expected %v", t, states[step+1], i, a, err, v.want)
				}
				if err == nil {
					w.readBack(q, t, step+1, &a, bad)
					if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
						bad("%v", err)
					}
					for to := 1; to <= step; to++ {
						if err := go1(to, usual, steps[to-1]); err != nil {
							bad("%v to %v once more: %v", t, states[to], err)
						}
					}
				}
			}
			if err := go1(step+1, usual, steps[step]); err != nil {
				bad("%v to %v after values that are refused: %v", t, states[step+1], err)
			}
			w.readBack(q, t, step+1, &usual, bad)
		} else {
			w.inRTS(q, t, bad)
		}
		if err := q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
			bad("%v", err)
		}
		if a, err := q.Query(); err != nil || a.State != ib.Err {
			bad("%v is in %v, expected ERR (%v)", t, a.State, err)
		}
		if err := q.Close(); err != nil {
			bad("%v", err)
		}
		if q.Close() == nil {
			bad("%v can be destroyed twice", t)
		}
	}
}

// inRTS changes what may be changed in RTS, and what may not.
func (w *peer) inRTS(q verbs.QP, t ib.QPType, bad func(string, ...any)) {
	var allowed error
	switch t {
	case ib.RC:
		if err := q.Modify(verbs.QPAttr{MinRNRTimer: 32}, verbs.AttrMinRNRTimer); !errors.Is(err, verbs.ErrInvalid) {
			bad("an RNR timer of 32 in RTS: %v", err)
		}
		allowed = q.Modify(verbs.QPAttr{MinRNRTimer: 31}, verbs.AttrMinRNRTimer)
		if a, err := q.Query(); err != nil || a.MinRNRTimer != 31 {
			bad("an RNR timer of 31 is %d", a.MinRNRTimer)
		}
	case ib.UD:
		allowed = q.Modify(verbs.QPAttr{QKey: 99}, verbs.AttrQKey)
		if a, err := q.Query(); err != nil || a.QKey != 99 {
			bad("a Q_Key of 99 is %d", a.QKey)
		}
	}
	if allowed != nil {
		bad("%v in RTS: %v", t, allowed)
	}
	if err := q.Modify(verbs.QPAttr{PathMTU: 256}, verbs.AttrPathMTU); t == ib.RC && !errors.Is(err, verbs.ErrNotSupported) {
		bad("another path MTU in RTS: %v", err)
	}
}

// readBack holds what a queue pair says of itself against what it was given, up to a step.
func (w *peer) readBack(q verbs.QP, t ib.QPType, step int, a *verbs.QPAttr, bad func(string, ...any)) {
	got, err := q.Query()
	want := verbs.QPAttr{State: []ib.QPState{ib.Reset, ib.Init, ib.RTR, ib.RTS}[step], Port: 1, Cap: got.Cap}
	if t == ib.UD {
		want.QKey = a.QKey
	} else {
		want.Access = a.Access
	}
	if step >= 2 && t != ib.UD {
		want.PathMTU, want.DestQPN, want.RQPSN, want.AV = a.PathMTU, a.DestQPN, a.RQPSN, a.AV
		if t == ib.RC {
			want.MaxDestRdAtomic, want.MinRNRTimer = a.MaxDestRdAtomic, a.MinRNRTimer
		}
	}
	if step >= 3 {
		want.SQPSN = a.SQPSN
		if t == ib.RC {
			want.Timeout, want.RetryCnt, want.RNRRetry, want.MaxRdAtomic = a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRdAtomic
		}
	}
	if err != nil || got != want {
		bad("%v says that it is %+v, expected %+v (%v)", t, got, want, err)
	}
}

// queueLimits fills queues, and one more.
func (w *peer) queueLimits(pd verbs.PD, cq verbs.CQ, bad func(string, ...any)) {
	q, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 3, MaxRecvWR: 3, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 8}})
	if err != nil {
		bad("%v", err)
		return
	}
	recv := func(n int) (int, error) {
		wrs := make([]verbs.RecvWR, n)
		for i := range wrs {
			wrs[i].WRID = recvID
		}
		return q.PostRecv(wrs)
	}
	send := func(n int) (int, error) { return q.PostSend(make([]verbs.SendWR, n)) }
	if _, err := recv(1); !errors.Is(err, verbs.ErrState) {
		bad("a receive in RESET: %v", err)
	}
	if _, err := send(1); !errors.Is(err, verbs.ErrState) {
		bad("a request in RESET: %v", err)
	}
	if err := q.Modify(verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC); err != nil {
		bad("%v", err)
	}
	if _, err := q.PostRecv([]verbs.RecvWR{{SGL: make([]verbs.SGE, 3)}}); !errors.Is(err, verbs.ErrInvalid) {
		bad("a receive of 3 pieces: %v", err)
	}
	if n, err := recv(4); n != 3 || !errors.Is(err, verbs.ErrQueueFull) {
		bad("of 4 receives %d were taken, expected 3 (%v)", n, err)
	}
	if err := q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		bad("%v", err)
	}
	if n, err := send(4); n != 3 || !errors.Is(err, verbs.ErrQueueFull) {
		bad("of 4 requests in ERR %d were taken, expected 3 (%v)", n, err)
	}
	wc := make([]verbs.WC, 16)
	if n, err := cq.Poll(wc); n != 6 || err != nil {
		bad("%d completions of 3 receives and 3 requests in ERR (%v)", n, err)
	}
	if n, err := send(1); n != 1 || err != nil {
		bad("a request after completions: %v", err)
	}
	if n, err := recv(1); n != 1 || err != nil {
		bad("a receive after completions: %v", err)
	}
	for _, wr := range []verbs.SendWR{
		{Opcode: ib.WRSend, SGL: make([]verbs.SGE, 3)}, {Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 9)},
		{Opcode: ib.WRRDMARead, Flags: verbs.SendInline}, {Opcode: 15}, {Opcode: ib.WRAtomicFetchAndAdd, SGL: []verbs.SGE{{Length: 7}}},
	} {
		if _, err := q.PostSend([]verbs.SendWR{wr}); !errors.Is(err, verbs.ErrInvalid) {
			bad("%+v: %v", wr, err)
		}
	}
	if err := q.Close(); err != nil {
		bad("%v", err)
	}
	if n, err := cq.Poll(wc); n != 0 || err != nil {
		bad("%d completions of a queue pair that is destroyed (%v)", n, err)
	}
}

// managerLimits asks the connection manager.
func (w *peer) managerLimits(bad func(string, ...any)) {
	good := func() cm.Config {
		c := cm.DefaultConfig()
		c.Rand = randomBytes{w.p.Rand}
		return c
	}
	for i, v := range []struct {
		set func(c *cm.Config)
		ok  bool
	}{
		{func(*cm.Config) {}, true}, {func(c *cm.Config) { c.Rand = nil }, false}, {func(c *cm.Config) { c.MTU = 300 }, false},
		{func(c *cm.Config) { c.MaxConnections = 0 }, false}, {func(c *cm.Config) { c.MaxConnections = 1 }, true},
		{func(c *cm.Config) { c.AckDelay = 31 }, true}, {func(c *cm.Config) { c.AckDelay = 32 }, false},
		{func(c *cm.Config) { c.MaxRetries = 15 }, true}, {func(c *cm.Config) { c.MaxRetries = 16 }, false},
	} {
		c := good()
		v.set(&c)
		if _, err := cm.New(c); (err == nil) != v.ok {
			bad("connection manager %d: %v", i, err)
		}
	}
	m, err := cm.New(good())
	if err != nil {
		bad("%v", err)
		return
	}
	usual := cm.Request{
		Path:     cm.Path{Local: w.p.Address(w.p.ID), Remote: w.p.Address((w.p.ID + 1) % w.p.Processes)},
		Endpoint: cm.Endpoint{QPN: 2, RNRRetryCount: 7}, PathMTU: 256, RetryCount: 7,
	}
	for i, v := range []struct {
		set func(r *cm.Request)
		ok  bool
	}{
		{func(*cm.Request) {}, true}, {func(r *cm.Request) { r.Path.Local = netip.Addr{} }, false}, {func(r *cm.Request) { r.Path.Remote = netip.IPv6Loopback() }, false},
		{func(r *cm.Request) { r.PathMTU = 300 }, false}, {func(r *cm.Request) { r.RetryCount = 8 }, false}, {func(r *cm.Request) { r.QPN = 1 }, false},
		{func(r *cm.Request) { r.QPN = 1<<24 - 1 }, true}, {func(r *cm.Request) { r.QPN = 1 << 24 }, false}, {func(r *cm.Request) { r.StartingPSN = 1<<24 - 1 }, true},
		{func(r *cm.Request) { r.StartingPSN = 1 << 24 }, false}, {func(r *cm.Request) { r.RNRRetryCount = 8 }, false},
		{func(r *cm.Request) { r.Private = make([]byte, roce.REQPrivateBytes) }, true}, {func(r *cm.Request) { r.Private = make([]byte, roce.REQPrivateBytes+1) }, false},
	} {
		r := usual
		v.set(&r)
		before := m.Connections()
		id, err := m.Connect(0, r)
		switch {
		case (err == nil) != v.ok:
			bad("connection request %d: %v", i, err)
		case err != nil && m.Connections() != before:
			bad("connection request %d is refused, and there is a connection of it", i)
		case err == nil && m.State(id) != cm.REQSent:
			bad("connection request %d is in state %v", i, m.State(id))
		}
	}
	if err := m.Listen(7, 1); err != nil || !m.Listening(7) || !errors.Is(m.Listen(7, 1), cm.ErrInUse) {
		bad("listening: %v", err)
	}
	if m.Unlisten(7); m.Listening(7) {
		bad("it listens, and must not")
	}
}

// shimLimits asks the shim.
func (w *peer) shimLimits(bad func(string, ...any)) {
	for i, v := range []struct {
		set func(c *paced.Config)
		ok  bool
	}{
		{func(*paced.Config) {}, true}, {func(c *paced.Config) { c.Segment = 4 * units.KiB }, true}, {func(c *paced.Config) { c.Segment = 4*units.KiB - 1 }, false},
		{func(c *paced.Config) { c.Segment = 64 * units.KiB }, true}, {func(c *paced.Config) { c.Segment = 64*units.KiB + 1 }, false},
		{func(c *paced.Config) { c.MaxOutstanding = c.Segment }, true}, {func(c *paced.Config) { c.MaxOutstanding = c.Segment - 1 }, false},
		{func(c *paced.Config) { c.MaxOutstanding = units.GiB }, true}, {func(c *paced.Config) { c.MaxOutstanding = units.GiB + 1 }, false},
		{func(c *paced.Config) { c.SchemeConfig = 1 }, false}, {func(c *paced.Config) { c.LineRate = -1 }, false}, {func(c *paced.Config) { c.BaseRTT = 0 }, false},
		{func(c *paced.Config) { c.BaseRTT = units.Second }, true}, {func(c *paced.Config) { c.BaseRTT = units.Second + 1 }, false},
		{func(c *paced.Config) { c.NICRate = -1 }, false}, {func(c *paced.Config) { c.LineRate, c.NICRate = 10, 9 }, true}, {func(c *paced.Config) { c.LineRate, c.NICRate = 10, 10 }, false},
		{func(c *paced.Config) { c.CalibrateEvery = -1 }, false}, {func(c *paced.Config) { c.CalibrateEvery = 60 * units.Second }, true},
		{func(c *paced.Config) { c.CalibrateEvery = 60*units.Second + 1 }, false}, {func(c *paced.Config) { c.Clock = paced.SoftwareClock }, true},
		{func(c *paced.Config) { c.Clock = paced.SoftwareClock + 1 }, false}, {func(c *paced.Config) { c.CatchUp = -1 }, false},
		{func(c *paced.Config) { c.CatchUp = units.Second }, true}, {func(c *paced.Config) { c.CatchUp = units.Second + 1 }, false},
		{func(c *paced.Config) { c.Batch = 0 }, false}, {func(c *paced.Config) { c.Batch = 1 }, true}, {func(c *paced.Config) { c.Batch = 256 }, true}, {func(c *paced.Config) { c.Batch = 257 }, false},
		{func(c *paced.Config) { c.Engine, c.Scheme = w.p.ward.shim.Engine, "timely" }, w.p.ward.shim.Engine == nil},
	} {
		c := paced.DefaultConfig()
		v.set(&c)
		if err := c.Validate(); (err == nil) != v.ok {
			bad("shim %d: %v", i, err)
		}
	}
	for line, want := range map[units.Rate]units.Bytes{units.Gbps: 64 * units.KiB, 100 * units.Gbps: 496 * units.KiB} {
		if c := paced.DefaultConfig(); c.Outstanding(line) != want {
			bad("the bound at %v is %v, expected %v", line, c.Outstanding(line), want)
		}
	}
	if _, err := w.pd.CreateQP(verbs.QPInitAttr{Type: ib.UD, SendCQ: w.send, RecvCQ: w.recv, Cap: verbs.QPCap{MaxSendWR: 1}}); !errors.Is(err, verbs.ErrNotSupported) {
		bad("a datagram queue pair of the shim: %v", err)
	}
	for most, want := range map[int]error{-1: verbs.ErrInvalid, w.dev.Attr().MaxQPWR + 1: verbs.ErrInvalid, 0: nil} {
		q, err := w.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: w.send, RecvCQ: w.recv, Cap: verbs.QPCap{MaxSendWR: most, MaxRecvWR: 1}})
		if !refused(err, want) {
			bad("a queue pair of the shim of %d requests: %v, expected %v", most, err, want)
		}
		if err == nil {
			if a, err := q.Query(); err != nil || a.Cap.MaxSendWR != 1 || a.Cap.MaxSendSGE != 1 {
				bad("a queue pair of no requests is of %+v (%v)", a.Cap, err)
			}
			if _, err := q.PostSend(make([]verbs.SendWR, 1)); !errors.Is(err, verbs.ErrState) {
				bad("a request in RESET: %v", err)
			}
			if err := q.Close(); err != nil || q.Close() == nil {
				bad("a queue pair can be destroyed not at all (%v), or twice", err)
			}
		}
	}
}

// grasp tries to destroy what is in use: that must be refused.
func (w *peer) grasp() {
	type object struct {
		name string
		free func() error
		used bool
	}
	for _, o := range []object{
		{"the protection domain", w.pd.Close, true},
		{"the completion channel", w.channel.Close, true},
		{"the send queue's completion queue", w.send.Close, len(w.ends) > 0},
		{"the device", w.dev.Close, w.p.run.cfg.Shim != ""},
	} {
		if !o.used {
			continue
		}
		if err := o.free(); !errors.Is(err, verbs.ErrBusy) {
			w.p.Failf("rule 20: %s is in use, and destroying it gives %v", o.name, err)
			return
		}
	}
	if w.srq != nil && len(w.ends) > 0 {
		if err := w.srq.srq.Close(); !errors.Is(err, verbs.ErrBusy) {
			w.p.Failf("rule 20: the shared receive queue is in use, and destroying it gives %v", err)
		}
	}
}
