package paced_test

import (
	"context"
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
	if ch, ok := a.Channel.(*gateChannel); ok {
		a.Channel = ch.CompChannel
	}
	return g.Device.CreateCQ(a)
}

func (c *gateChannel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	c.gate.onWait(timeout)
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
