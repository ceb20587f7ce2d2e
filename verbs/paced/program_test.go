package paced_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// programs returns a bench on which polls take time, as programs need.
func programs(t *testing.T, rate units.Rate) *bench {
	e := &fixed{control: cc.Control{Rate: rate, Window: cc.Unlimited}, quiet: true}
	p := newBench(t, steered(e), nil)
	p.w.PollCost = 200 * units.Nanosecond
	return p
}

// A program that knows nothing of the shim and makes progress in Poll alone.
func TestAProgramThatOnlyPolls(t *testing.T) {
	p := programs(t, units.Gbps)
	q, _ := p.connect(defaultCap())
	fill(p.bufA, 9)
	const n = 1 << 20
	p.post(q, p.write(5, n))
	var wc [1]verbs.WC
	if got, err := verbs.Drain(p.shim, p.cq, wc[:], time.Second); got != 1 || err != nil {
		t.Fatalf("%d completions: %v", got, err)
	}
	if wc[0].WRID != 5 || !bytes.Equal(p.bufA, p.bufB) {
		t.Errorf("completion %+v, or other bytes", wc[0])
	}
	// 63 gaps, the last segment and its round trip, to within a few polls.
	want := 63*units.Gbps.Serialize(16*units.KiB) + line.Serialize(16*units.KiB) + latency
	if took := p.w.Now(); took < want || took > want+2*us {
		t.Errorf("it took %v, want %v", took, want)
	}
}

// A program that sleeps on an event channel and arms its CQ by the book.
func TestAProgramThatSleeps(t *testing.T) {
	p := programs(t, units.Gbps)
	ch := must(p.shim.CreateCompChannel())(t)
	cq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
	q, _ := p.connectOn(cq, cq, defaultCap())
	fill(p.bufA, 4)
	p.arm(cq, false)
	const n = 10
	for i := range n {
		p.post(q, p.write(uint64(i), 100_000))
	}
	got := 0
	for got < n {
		polls := 0
		p.a.OnPoll = func() { polls++ }
		c, err := ch.Wait(t.Context(), time.Second)
		if err != nil || c != cq {
			t.Fatalf("after %d completions: %v, %v", got, c, err)
		}
		// 7 segments leave and come back, and no more is done than look after
		// each of these.
		if polls > 60 {
			t.Errorf("the channel polled %d times for one request", polls)
		}
		p.arm(cq, false)
		for {
			var wc [4]verbs.WC
			k, err := cq.Poll(wc[:])
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range wc[:k] {
				if w.WRID != uint64(got) || w.Status != ib.WCSuccess {
					t.Fatalf("completion %+v, want %d", w, got)
				}
				got++
			}
			if k == 0 {
				break
			}
		}
	}
	if want := units.Gbps.Serialize(n * 100_000); p.w.Now() < want-200*us || p.w.Now() > want+100*us {
		t.Errorf("it took %v, want about %v", p.w.Now(), want)
	}
	start := p.w.Now()
	if _, err := ch.Wait(t.Context(), 3*time.Millisecond); !errors.Is(err, verbs.ErrTimeout) {
		t.Errorf("a Wait with nothing to come: %v", err)
	}
	if took := p.w.Now() - start; took < 3*units.Millisecond || took > 3*units.Millisecond+2*us {
		t.Errorf("a Wait of 3 ms took %v", took)
	}
	if _, err := ch.Wait(t.Context(), 0); !errors.Is(err, verbs.ErrTimeout) {
		t.Errorf("a Wait of nothing: %v", err)
	}
	if _, err := ch.Wait(t.Context(), -1); !errors.Is(err, fakenic.ErrStuck) {
		t.Errorf("a Wait without end slept on: %v", err)
	}
}

// Events wait in their order, one for each queue; that of a queue that is destroyed goes with it.
func TestEventsOfQueuesThatGo(t *testing.T) {
	for gone := range 3 {
		p := programs(t, line)
		ch := must(p.shim.CreateCompChannel())(t)
		var cqs []verbs.CQ
		var qps []verbs.QP
		for range 3 {
			cq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
			q, _ := p.connectOn(cq, cq, defaultCap())
			cqs, qps = append(cqs, cq), append(qps, q)
		}
		for range 2 { // two events of a queue are one
			for i, cq := range cqs {
				p.arm(cq, false)
				p.post(qps[i], p.write(uint64(i), 10))
				p.run(units.Never)
				if got := p.poll(cq); len(got) != 1 {
					t.Fatalf("%d completions", len(got))
				}
			}
		}
		if err := errors.Join(qps[gone].Close(), cqs[gone].Close()); err != nil {
			t.Fatal(err)
		}
		for i, cq := range cqs {
			if i == gone {
				continue
			}
			if c, err := ch.Wait(t.Context(), 0); err != nil || c != cq {
				t.Errorf("%d has gone: an event of %v, %v, want that of %d", gone, c, err, i)
			}
		}
		if c, err := ch.Wait(t.Context(), 0); !errors.Is(err, verbs.ErrTimeout) {
			t.Errorf("%d has gone: another event, of %v, %v", gone, c, err)
		}
	}
}

// An armed queue raises one event, for a completion after arming.
func TestEvents(t *testing.T) {
	p := programs(t, line)
	ch := must(p.shim.CreateCompChannel())(t)
	cq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
	q, peer := p.connectOn(cq, cq, defaultCap())
	wait := func() bool {
		c, err := ch.Wait(t.Context(), 100*time.Microsecond)
		if err != nil && !errors.Is(err, verbs.ErrTimeout) {
			t.Fatal(err)
		}
		return c == cq
	}
	send := p.write(1, 10)
	send.Opcode = ib.WRSend
	send.SGL = []verbs.SGE{verbs.SGEOf(p.mrB, 0, 10)}
	recv := func() {
		p.recv(q, verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{verbs.SGEOf(p.mrA, 0, 100)}})
	}

	p.post(q, p.write(1, 10))
	if wait() {
		t.Error("an event without arming")
	}
	p.arm(cq, false)
	if wait() {
		t.Error("an event for a completion before arming")
	}
	p.post(q, p.write(2, 10), p.write(3, 10))
	if !wait() || wait() {
		t.Error("want one event for two completions")
	}
	p.arm(cq, true)
	p.post(q, p.write(4, 10))
	if wait() {
		t.Error("a send that succeeded is not solicited")
	}
	// Receives come through as they are.
	recv()
	p.post(peer, send)
	if wait() {
		t.Error("a receive that was not solicited")
	}
	recv()
	send.Flags |= verbs.SendSolicited
	p.post(peer, send)
	if !wait() {
		t.Error("no event for a solicited receive")
	}
	if wcs := p.poll(cq); len(wcs) != 6 {
		t.Errorf("%d completions, want 4 writes and 2 receives", len(wcs))
	}
	// One arming, one event, also if a receive follows a send.
	p.arm(cq, false)
	recv()
	p.post(q, p.write(5, 10))
	p.w.At(p.w.Now()+8*us, func() { p.post(peer, send) })
	if !wait() || wait() {
		t.Error("want one event for a write and a receive after it")
	}
	p.poll(cq)
	// A failure is always worth an event.
	p.arm(cq, true)
	bad := p.write(8, 10)
	bad.RKey = 99
	p.post(q, bad)
	if !wait() {
		t.Error("no event for a failure")
	}
}

// A program whose send CQ has no channel sleeps until a receive: what it posted
// must go on meanwhile.
func TestSendsGoOnWhileAProgramSleepsForReceives(t *testing.T) {
	for name, sameQP := range map[string]bool{"on the QP's receive CQ": true, "on another CQ": false} {
		t.Run(name, func(t *testing.T) {
			p := programs(t, line)
			ch := must(p.shim.CreateCompChannel())(t)
			rcq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
			other, otherPeer := p.connectOn(rcq, rcq, defaultCap())
			// The answer comes back on the QP itself, or on the other one.
			var q *paced.QP
			replyTo, peer := other, otherPeer
			if sameQP {
				q, peer = p.connectOn(p.cq, rcq, defaultCap())
				replyTo = q
			} else {
				q, _ = p.connectOn(p.cq, p.cq, defaultCap())
			}
			p.recv(replyTo, verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{verbs.SGEOf(p.mrA, 0, 100)}})
			p.arm(rcq, false)
			wr := p.write(1, 500_000)
			wr.Flags = 0
			fill(p.bufA, 1)
			p.post(q, wr)
			// The peer answers when it sees the last byte.
			answered := false
			var look func()
			look = func() {
				if p.bufB[499_999] == p.bufA[499_999] {
					answered = true
					reply := p.write(1, 1)
					reply.Opcode, reply.SGL = ib.WRSend, []verbs.SGE{verbs.SGEOf(p.mrB, 0, 1)}
					p.post(peer, reply)
					return
				}
				if p.w.Now() < units.Second {
					p.w.At(p.w.Now()+10*us, look)
				}
			}
			look()
			c, err := ch.Wait(t.Context(), time.Second)
			if err != nil || c != rcq || !answered {
				t.Fatalf("%v, answered %v", err, answered)
			}
			want := line.Serialize(500_000) + 100*us
			if !sameQP {
				want += 8 * 200 * us // a nap for each 64 KiB
			}
			if p.w.Now() > want {
				t.Errorf("it took %v", p.w.Now())
			}
		})
	}
}

// Neither sends nor receives starve when a program polls for one at a time.
func TestSendsAndReceivesTakeTurns(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, peer := p.connect(defaultCap())
	send := p.write(1, 0)
	send.Opcode, send.SGL = ib.WRSend, nil
	for range 20 {
		p.recv(q, verbs.RecvWR{WRID: 2})
		p.post(q, p.write(1, 1))
		p.post(peer, send)
	}
	p.run(units.Never)
	seen := [3]int{}
	for range 20 {
		var wc [1]verbs.WC
		if n, err := p.cq.Poll(wc[:]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		seen[wc[0].WRID]++
	}
	if seen[1] != 10 || seen[2] != 10 {
		t.Errorf("of 20 completions, %d are of sends and %d of receives", seen[1], seen[2])
	}
}

// What another goroutine does while one sleeps, played at an instant of the
// sleep.
func TestASleeperIsWokenForWhatOthersPost(t *testing.T) {
	setup := func(t *testing.T) (*bench, *paced.QP, verbs.CompChannel, verbs.CQ) {
		p := programs(t, 50*units.Mbps)
		ch := must(p.shim.CreateCompChannel())(t)
		cq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
		q, _ := p.connectOn(cq, cq, defaultCap())
		return p, q, ch, cq
	}
	wait := func(t *testing.T, p *bench, ch verbs.CompChannel, cq verbs.CQ, by units.Time) {
		t.Helper()
		c, err := ch.Wait(t.Context(), -1)
		if err != nil || c != cq {
			t.Fatalf("%v, %v", c, err)
		}
		if p.w.Now() > by {
			t.Errorf("woken at %v, want %v at most", p.w.Now(), by)
		}
	}
	t.Run("a request that leaves at once", func(t *testing.T) {
		p, q, ch, cq := setup(t)
		p.arm(cq, false)
		p.w.At(units.Millisecond, func() { p.post(q, p.write(1, 100)) })
		wait(t, p, ch, cq, units.Millisecond+15*us)
	})
	t.Run("a request within the gap of an earlier one", func(t *testing.T) {
		p, q, ch, cq := setup(t)
		p.post(q, p.write(1, 16<<10)) // a gap of 2.6 ms
		p.arm(cq, false)
		wait(t, p, ch, cq, 100*us)
		p.poll(cq)
		p.arm(cq, false)
		p.w.At(units.Millisecond, func() { p.post(q, p.write(2, 100)) })
		wait(t, p, ch, cq, 2622*us+200*us+15*us)
	})
	t.Run("a request after an error", func(t *testing.T) {
		p, q, ch, cq := setup(t)
		if err := q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		p.arm(cq, true)
		p.w.At(units.Millisecond, func() { p.post(q, p.write(1, 100)) })
		wait(t, p, ch, cq, units.Millisecond+us)
		if wcs := p.poll(cq); len(wcs) != 1 || wcs[0].Status != ib.WCWRFlushErr {
			t.Errorf("completions %+v", wcs)
		}
		if s := p.shim.Stats(); s.Stray != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// On a simulated device another goroutine runs while one polls. It must find
// the shim unlocked.
func TestTheLockIsNotHeldWhileTheProviderIsPolled(t *testing.T) {
	cfg := paced.DefaultConfig()
	p := newBench(t, cfg, func(p *bench) { p.a.ClockHz = 1e9 })
	q, _ := p.connect(defaultCap())
	polls := 0
	p.a.OnPoll = func() {
		polls++
		_ = p.shim.Deadline()
		if polls == 2 {
			p.post(q, p.write(2, 100_000))
			p.poll(p.cq) // as another goroutine's Poll would
		}
	}
	p.post(q, p.write(1, 100_000))
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 2 {
		t.Errorf("%d completions", len(wcs))
	}
}
