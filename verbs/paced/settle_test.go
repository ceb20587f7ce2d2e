package paced_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// gate is a device whose completion channels tell a test of each sleep.
type gate struct {
	*fakenic.Device
	onWait func(timeout time.Duration)
	last   verbs.CQ // that was made with a channel
	busy   bool     // it has an event of last at any time
}

type gateChannel struct {
	verbs.CompChannel
	gate *gate
}

func (g *gate) CreateCompChannel() (verbs.CompChannel, error) {
	inner, err := g.Device.CreateCompChannel()
	return &gateChannel{inner, g}, err
}

func (g *gate) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	ch, ok := a.Channel.(*gateChannel)
	if !ok {
		return g.Device.CreateCQ(a)
	}
	a.Channel = ch.CompChannel
	cq, err := g.Device.CreateCQ(a)
	g.last = cq
	return cq, err
}

func (c *gateChannel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	c.gate.onWait(timeout)
	if c.gate.busy {
		return c.gate.last, nil
	}
	return c.CompChannel.Wait(ctx, timeout)
}

// One goroutine polls the provider's queue. Meanwhile another one fetches the event of
// the completion in it, arms the queue again and sleeps. The poll then takes the
// completion, which makes no further event: the sleeper has to look again by itself.
func TestASleeperAwaitsAPollInProgress(t *testing.T) {
	w := fakenic.New()
	dev := &gate{Device: w.NewDevice("a", line, latency), onWait: func(time.Duration) {}}
	p := &bench{t: t, w: w, a: dev.Device, b: w.NewDevice("b", line, latency)}
	p.shim = must(paced.Wrap(dev, uncalibrated()))(t)
	ch := must(p.shim.CreateCompChannel())(t)
	p.pdA, p.pdB = must(p.shim.AllocPD())(t), must(p.b.AllocPD())(t)
	p.cq = must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
	p.cqB = must(p.b.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	const all = ib.AccessLocalWrite | ib.AccessRemoteWrite
	p.bufA, p.bufB = make([]byte, 4096), make([]byte, 4096)
	p.mrA, p.mrB = must(p.pdA.RegMR(p.bufA, all))(t), must(p.pdB.RegMR(p.bufB, all))(t)
	q, _ := p.connect(defaultCap())
	p.arm(p.cq, false)
	p.post(q, p.write(1, 100))
	w.RunUntil(latency * 2) // the provider's queue has the completion, its channel the event

	type woken struct {
		cq  verbs.CQ
		err error
	}
	asleep, polled, result := make(chan struct{}), make(chan struct{}), make(chan woken, 1)
	sleeps, polling := 0, false
	dev.onWait = func(time.Duration) {
		if sleeps++; sleeps == 2 { // the first fetches the event
			asleep <- struct{}{}
			<-polled
		}
	}
	p.a.OnPoll = func() {
		if polling {
			return
		}
		polling = true
		go func() {
			cq, err := ch.Wait(t.Context(), -1)
			result <- woken{cq, err}
		}()
		<-asleep
	}
	if err := p.shim.Progress(w.Now().Long()); err != nil {
		t.Fatal(err)
	}
	close(polled)
	if r := <-result; r.err != nil || r.cq != p.cq {
		t.Fatalf("the sleeper got %v, %v, expected the event of the completion that the other goroutine took", r.cq, r.err)
	}
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].WRID != 1 {
		t.Errorf("completions %+v, expected that of request 1", wcs)
	}
}

// A wait that is over finds the event of the program's that stands behind one of the shim's own at the
// provider. Who is armed for any completion stays so when it is armed for solicited ones, too.
func TestAWaitFindsWhatStandsBehind(t *testing.T) {
	for _, c := range []struct {
		name             string
		any, comes, want bool // armed for any before; a solicited message comes
	}{
		{"a message", false, true, true},
		{"armed for any before", true, false, true},
		{"nothing solicited", false, false, false},
	} {
		w := fakenic.New()
		p := &bench{t: t, w: w, a: w.NewDevice("a", line, latency), b: w.NewDevice("b", line, latency)}
		p.shim = must(paced.Wrap(p.a, uncalibrated()))(t)
		ch := must(p.shim.CreateCompChannel())(t)
		p.pdA, p.pdB = must(p.shim.AllocPD())(t), must(p.b.AllocPD())(t)
		p.cq = must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
		p.cqB = must(p.b.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
		const all = ib.AccessLocalWrite | ib.AccessRemoteWrite
		p.bufA, p.bufB = make([]byte, 4096), make([]byte, 4096)
		p.mrA, p.mrB = must(p.pdA.RegMR(p.bufA, all))(t), must(p.pdB.RegMR(p.bufB, all))(t)
		q, far := p.connect(defaultCap())
		if _, err := q.PostRecv([]verbs.RecvWR{{WRID: 2, SGL: []verbs.SGE{verbs.SGEOf(p.mrA, 0, 64)}}}); err != nil {
			t.Fatal(err)
		}
		if c.any {
			p.arm(p.cq, false)
		}
		p.arm(p.cq, true)
		p.post(q, p.write(1, 100))
		w.RunUntil(4 * latency)
		if c.comes {
			if _, err := far.PostSend([]verbs.SendWR{{WRID: 3, Opcode: ib.WRSend, Flags: verbs.SendSolicited, SGL: []verbs.SGE{verbs.SGEOf(p.mrB, 0, 8)}}}); err != nil {
				t.Fatal(err)
			}
			w.RunUntil(8 * latency)
		}
		if got, err := ch.Wait(t.Context(), 0); (err == nil) != c.want || err == nil && got != p.cq || err != nil && !errors.Is(err, verbs.ErrTimeout) {
			t.Errorf("%s: %v, expected an event: %v", c.name, err, c.want)
		}
	}
}

// A Wait ends with its time also where segments complete all the time, each with an event of the shim's own.
func TestAWaitEndsBesideTraffic(t *testing.T) {
	w := fakenic.New()
	g := &gate{Device: w.NewDevice("a", line, latency)}
	waits := 0
	g.onWait = func(time.Duration) {
		waits++
		g.busy = waits < 100
	}
	p := &bench{t: t, w: w, a: g.Device, b: w.NewDevice("b", line, latency)}
	p.shim = must(paced.Wrap(g, uncalibrated()))(t)
	ch := must(p.shim.CreateCompChannel())(t)
	p.pdA, p.pdB = must(p.shim.AllocPD())(t), must(p.b.AllocPD())(t)
	p.cq = must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
	p.cqB = must(p.b.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	p.connect(defaultCap())
	if _, err := ch.Wait(t.Context(), 0); !errors.Is(err, verbs.ErrTimeout) {
		t.Error(err)
	}
	if waits > 10 {
		t.Errorf("%d events were taken before it ended", waits)
	}
}
