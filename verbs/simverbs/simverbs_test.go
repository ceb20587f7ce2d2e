package simverbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

// host is one end of a connection with its resources.
type host struct {
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
	me  verbs.Endpoint
}

func open(t testing.TB, name string) *host {
	t.Helper()
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return newHost(t, dev)
}

func newHost(t testing.TB, dev verbs.Device) *host {
	t.Helper()
	h := &host{dev: dev}
	var err error
	if h.pd, err = h.dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if h.cq, err = h.dev.CreateCQ(verbs.CQInitAttr{CQE: 64, Timestamps: true}); err != nil {
		t.Fatal(err)
	}
	h.qp, err = h.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: h.cq, RecvCQ: h.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}})
	if err != nil {
		t.Fatal(err)
	}
	gid, err := h.dev.GID(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	h.me = verbs.Endpoint{GID: gid, QPN: h.qp.Num(), PSN: 7}
	return h
}

func pair(t testing.TB, network string) (a, b *host) {
	t.Helper()
	return pairWith(t, network, "")
}

// pairWith is pair on a network with options.
func pairWith(t testing.TB, network, options string) (a, b *host) {
	t.Helper()
	a, b = open(t, "sim:"+network+"/h0"+options), open(t, "sim:"+network+"/h1"+options)
	if err := verbs.ConnectRC(a.qp, a.me, b.me, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	if err := verbs.ConnectRC(b.qp, b.me, a.me, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// Two actors play ping-pong; the trace of instants is the same every time.
func TestActorsAreDeterministic(t *testing.T) {
	play := func(network string) string {
		a, b := pair(t, network)
		trace := ""
		side := func(h *host, first bool) func() error {
			buf := make([]byte, 256)
			mr, err := h.pd.RegMR(buf, ib.AccessLocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			return func() error {
				wc := make([]verbs.WC, 4)
				for i := range 20 {
					if _, err := h.qp.PostRecv([]verbs.RecvWR{{WRID: 1000, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 128)}}}); err != nil {
						return err
					}
					send := func() error {
						_, err := h.qp.PostSend([]verbs.SendWR{{WRID: uint64(i), Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mr, 128, 100)}}})
						return err
					}
					if first {
						verbs.Sleep(h.dev, time.Microsecond) // the other side posts its receive
						if err := send(); err != nil {
							return err
						}
					}
					for got := 0; got == 0; {
						n, err := h.cq.Poll(wc)
						if err != nil {
							return err
						}
						for _, c := range wc[:n] {
							if c.Status != ib.WCSuccess {
								return &verbs.StatusError{WC: c}
							}
							if c.WRID == 1000 {
								got++
							}
						}
					}
					if !first {
						if err := send(); err != nil {
							return err
						}
					}
					trace += fmt.Sprintf("%v %v\n", h.dev.Now(), first)
				}
				return nil
			}
		}
		if err := verbs.Run(a.dev, side(a, true), side(b, false)); err != nil {
			t.Fatal(err)
		}
		return trace
	}
	first := play("pingpong1")
	if second := play("pingpong2"); first != second {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
}

func TestEventChannelAndReadBack(t *testing.T) {
	a, b := pair(t, "channel")
	ch, err := a.dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := a.dev.CreateCQ(verbs.CQInitAttr{CQE: 16, Channel: ch})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}, SigAll: true})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := b.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: b.cq, RecvCQ: b.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	x, y := verbs.Endpoint{GID: a.me.GID, QPN: qp.Num()}, verbs.Endpoint{GID: b.me.GID, QPN: peer.Num()}
	if err := errors.Join(verbs.ConnectRC(qp, x, y, verbs.DefaultRC()), verbs.ConnectRC(peer, y, x, verbs.DefaultRC())); err != nil {
		t.Fatal(err)
	}
	src, dst, back := bytes.Repeat([]byte("sluice"), 1000), make([]byte, 6000), make([]byte, 6000)
	all := ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite
	ms, _ := a.pd.RegMR(src, 0)
	mb, _ := a.pd.RegMR(back, all)
	md, err := b.pd.RegMR(dst, all)
	if err != nil {
		t.Fatal(err)
	}
	err = verbs.Run(a.dev, func() error {
		wc := make([]verbs.WC, 1)
		for _, wr := range []verbs.SendWR{
			{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, 6000)}, RemoteAddr: md.Addr(), RKey: md.RKey()},
			{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{verbs.SGEOf(mb, 0, 6000)}, RemoteAddr: md.Addr(), RKey: md.RKey()},
		} {
			if err := cq.ReqNotify(false); err != nil {
				return err
			}
			if _, err := qp.PostSend([]verbs.SendWR{wr}); err != nil {
				return err
			}
			got, err := ch.Wait(t.Context(), time.Millisecond)
			if err != nil {
				return err
			}
			if n, err := got.Poll(wc); n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
				return fmt.Errorf("%d completions, %v, %w", n, wc[0].Status, err)
			}
		}
		_, err := ch.Wait(t.Context(), time.Microsecond)
		if !errors.Is(err, verbs.ErrTimeout) {
			return fmt.Errorf("a wait for nothing gave %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(src, dst) || !bytes.Equal(src, back) {
		t.Error("the bytes differ")
	}
}

func TestWrongUseIsAnError(t *testing.T) {
	a, _ := pair(t, "wrong")
	fresh, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	write := []verbs.SendWR{{Opcode: ib.WRRDMAWrite}}
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"post_send in RESET":  {func() error { _, err := fresh.PostSend(write); return err }, verbs.ErrState},
		"post_recv in RESET":  {func() error { _, err := fresh.PostRecv([]verbs.RecvWR{{}}); return err }, verbs.ErrState},
		"RESET to RTS":        {func() error { return fresh.Modify(verbs.QPAttr{State: ib.RTS}, verbs.AttrState) }, verbs.ErrState},
		"INIT without a port": {func() error { return fresh.Modify(verbs.QPAttr{State: ib.Init}, verbs.AttrState) }, verbs.ErrInvalid},
		"raw packets": {func() error {
			_, err := a.pd.CreateQP(verbs.QPInitAttr{Type: 8, SendCQ: a.cq, RecvCQ: a.cq})
			return err
		}, verbs.ErrNotSupported},
		"remote write only": {func() error { _, err := a.pd.RegMR(make([]byte, 1), ib.AccessRemoteWrite); return err }, verbs.ErrInvalid},
		"empty region":      {func() error { _, err := a.pd.RegMR(nil, 0); return err }, verbs.ErrInvalid},
		"too many pieces": {func() error {
			_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: make([]verbs.SGE, 5)}})
			return err
		}, verbs.ErrInvalid},
		"misaligned atomic": {func() error {
			_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRAtomicFetchAndAdd, RemoteAddr: 1, SGL: []verbs.SGE{{Length: 8}}}})
			return err
		}, verbs.ErrInvalid},
		"busy CQ":               {func() error { return a.cq.Close() }, verbs.ErrBusy},
		"busy PD":               {func() error { return a.pd.Close() }, verbs.ErrBusy},
		"busy device":           {func() error { return a.dev.Close() }, verbs.ErrBusy},
		"unknown host":          {func() error { _, err := verbs.Open("sim:wrong/h99"); return err }, verbs.ErrNoDevice},
		"unknown provider":      {func() error { _, err := verbs.Open("mlx:0"); return err }, verbs.ErrNoDevice},
		"no provider":           {func() error { _, err := verbs.Open("h0"); return err }, verbs.ErrNoDevice},
		"unknown option":        {func() error { _, err := verbs.Open("sim:other/h0?speed=1"); return err }, verbs.ErrInvalid},
		"option without a unit": {func() error { _, err := verbs.Open("sim:other/h0?rate=100"); return err }, verbs.ErrInvalid},
		"other options":         {func() error { _, err := verbs.Open("sim:wrong/h0?hosts=3"); return err }, verbs.ErrInvalid},
		"arm without a channel": {func() error { return a.cq.ReqNotify(false) }, verbs.ErrInvalid},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	for i := range 17 {
		_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendInline}})
		if i < 16 && err != nil || i == 16 && !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("post %d on a queue of 16: %v", i, err)
		}
	}
}

func TestEndlessWaitIsAnError(t *testing.T) {
	a, _ := pair(t, "idle")
	ch, err := a.dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	if err := verbs.Run(a.dev, func() error {
		_, err := ch.Wait(t.Context(), -1)
		if err == nil {
			return errors.New("the wait ended")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestBlockingLetsOthersRun(t *testing.T) {
	a, _ := pair(t, "blocking")
	ch := make(chan int)
	if err := verbs.Run(a.dev,
		func() error {
			verbs.Blocking(a.dev, func() { <-ch })
			return nil
		},
		func() error {
			verbs.Sleep(a.dev, time.Millisecond)
			ch <- 1
			return nil
		},
	); err != nil {
		t.Error(err)
	}
}
