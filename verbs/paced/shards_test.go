package paced_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// While the provider takes its time for a call of one thread's CQ, or of a queue pair that
// sends there, a thread with a CQ of its own does all that it may.
func TestCallsOfOneCQHoldUpNoOther(t *testing.T) {
	write := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 40 << 10}}}}
	post := func(x *gated) error { _, err := x.q.PostSend(write); return err }
	poll := func(cq verbs.CQ) error { _, err := cq.Poll(make([]verbs.WC, 1)); return err }
	for name, c := range map[string]struct {
		call func(x *gated) string
		do   func(x *gated) error
	}{
		"PostSend": {func(x *gated) string {
			if err := post(x); err != nil {
				t.Error(err)
			}
			x.dev.time += units.Millisecond // for which nobody has polled
			return "PostSend"
		}, post},
		"Poll of segments": {
			func(x *gated) string { return x.q.(*paced.QP).BelowSends().(*gatedCQ).poll },
			func(x *gated) error { return errors.Join(post(x), poll(x.cq)) },
		},
		"Poll of receives": {
			func(x *gated) string { return x.cq.(*paced.CQ).Below().(*gatedCQ).poll },
			func(x *gated) error { return poll(x.cq) },
		},
		"ReqNotify": {func(*gated) string { return "ReqNotify" }, func(x *gated) error { return x.cq.ReqNotify(false) }},
		"ReqNotify of segments": {
			func(*gated) string { return "ReqNotify" },
			func(x *gated) error { _, err := x.create(x.channelled); return err },
		},
		"CreateCQ of segments": {
			func(*gated) string { return "CreateCQ" },
			func(x *gated) error { _, err := x.create(x.channelled); return err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newGated(t)
			ch := must(x.shim.CreateCompChannel())(t)
			cq := must(x.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
			q := must(x.create(cq))(t)
			if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
			x.gate.hold(c.call(x))
			done := make(chan error)
			go func() { done <- c.do(x) }()
			wait(t, x.gate.inside, "the provider's call")
			x.gate.hold("")
			free := make(chan error)
			go func() { free <- x.useAll(q, cq, ch, write) }()
			if err := wait(t, free, "another thread, while the provider is in the call,"); err != nil {
				t.Error(err)
			}
			// What the other thread may leave behind in there is looked for.
			if nap := paced.Nap(ch); (nap == 200*units.Microsecond) != (name == "PostSend" || name == "Poll of segments") {
				t.Errorf("may sleep for %v", nap)
			}
			x.gate.leave <- struct{}{}
			if err := wait(t, done, "the call"); err != nil {
				t.Errorf("the call: %v", err)
			}
		})
	}
}

// useAll does with a queue pair and its CQ what a thread may.
func (x *gated) useAll(q verbs.QP, cq verbs.CQ, ch verbs.CompChannel, wrs []verbs.SendWR) error {
	if _, err := q.PostSend(wrs); err != nil {
		return err
	}
	for n := 0; n == 0; {
		var err error
		if n, err = cq.Poll(make([]verbs.WC, 4)); err != nil {
			return err
		}
	}
	if err := cq.ReqNotify(false); err != nil {
		return err
	}
	if _, err := ch.Wait(context.Background(), 0); !errors.Is(err, verbs.ErrTimeout) {
		return err
	}
	for _, state := range []ib.QPState{ib.SQD, ib.RTS, ib.Err} {
		if err := q.Modify(verbs.QPAttr{State: state}, verbs.AttrState); err != nil {
			return err
		}
	}
	if err := q.Close(); err != nil {
		return err
	}
	spare, err := x.create(x.spare)
	if err != nil {
		return err
	}
	return errors.Join(spare.Close(), x.spare.Close())
}

// Threads post and poll, each with a queue pair of its own, over two CQs or over one,
// while others move queue pairs between states, reset them, and make and destroy queue
// pairs and CQs. Each request completes once, and in order where one thread polls.
func TestThreadsAndQueues(t *testing.T) {
	for name, one := range map[string]bool{"two CQs": false, "one CQ": true} {
		t.Run(name, func(t *testing.T) { threadsAndQueues(t, one) })
	}
}

const passing = 1 << 40 // WRIDs of queue pairs that are reset or destroyed

func threadsAndQueues(t *testing.T, oneCQ bool) {
	const n, threads = 300, 2
	c := paced.DefaultConfig()
	c.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: 90 * units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
	}
	dev := &nullDevice{}
	shim := must(paced.Wrap(dev, c))(t)
	pd := must(shim.AllocPD())(t)
	newCQ := func() verbs.CQ { return must(shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t) }
	connect := func(q verbs.QP) error {
		return verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC())
	}
	create := func(cq verbs.CQ) (verbs.QP, error) {
		q, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
		if err != nil {
			return nil, err
		}
		return q, connect(q)
	}
	write := func(id uint64) []verbs.SendWR {
		return []verbs.SendWR{{WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 50_000}}}}
	}

	var completed [threads][n]atomic.Int32
	var left atomic.Int64
	left.Store(threads * n)
	over := func() bool { return left.Load() <= 0 || t.Failed() }
	var wg sync.WaitGroup
	until := func(f func() error) {
		wg.Go(func() {
			for !over() {
				if err := f(); err != nil {
					t.Error(err)
				}
				dev.mu.Lock()
				dev.time += units.Microsecond / 4
				dev.mu.Unlock()
				runtime.Gosched()
			}
		})
	}
	cqs := [threads]verbs.CQ{newCQ(), newCQ()}
	if oneCQ {
		cqs[1] = cqs[0]
	}
	for i := range threads {
		q := must(create(cqs[i]))(t)
		posted, next := uint64(0), uint64(0)
		until(func() error {
			if posted < n {
				if _, err := q.PostSend(write(uint64(i)<<32 | posted)); err == nil {
					posted++
				} else if !errors.Is(err, verbs.ErrQueueFull) {
					return err
				}
			}
			var wc [4]verbs.WC
			k, err := cqs[i].Poll(wc[:])
			for _, w := range wc[:k] {
				if w.WRID&passing != 0 {
					continue
				}
				of, id := w.WRID>>32, w.WRID&(1<<32-1)
				if completed[of][id].Add(1) != 1 || w.Status != ib.WCSuccess || !oneCQ && (of != uint64(i) || id != next) {
					t.Errorf("thread %d polled %+v, expected request %d", i, w, next)
				}
				next++
				left.Add(-1)
			}
			return err
		})
		state := ib.RTS
		until(func() error {
			if state ^= ib.RTS ^ ib.SQD; over() {
				state = ib.RTS
			}
			return q.Modify(verbs.QPAttr{State: state}, verbs.AttrState)
		})
		until(func() error { // is destroyed with work under way
			x, err := create(cqs[i])
			if err == nil {
				_, err = x.PostSend(write(passing))
			}
			if err == nil {
				err = x.Close()
			}
			return err
		})
		moving := must(create(cqs[i]))(t)
		until(func() error {
			_, err := moving.PostSend(write(passing))
			if errors.Is(err, verbs.ErrQueueFull) {
				err = nil
			}
			if err == nil {
				err = moving.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)
			}
			if err == nil {
				err = moving.Modify(verbs.QPAttr{}, verbs.AttrState) // RESET
			}
			if err == nil {
				err = connect(moving)
			}
			return err
		})
	}
	until(func() error { // comes and goes with a CQ of its own
		cq, err := shim.CreateCQ(verbs.CQInitAttr{CQE: 64})
		if err != nil {
			return err
		}
		x, err := create(cq)
		if err == nil {
			_, err = x.PostSend(write(passing))
		}
		if err == nil {
			err = x.Close()
		}
		return errors.Join(err, cq.Close())
	})
	until(func() error { return shim.Progress(shim.Clock()) })
	until(func() error {
		shim.Deadline()
		shim.Rest(units.Microsecond, func() {})
		shim.QPs()
		shim.Stats()
		return nil
	})
	wg.Wait()
	for i := range completed {
		for id := range completed[i] {
			if completed[i][id].Load() != 1 {
				t.Fatalf("request %d of thread %d completed %d times", id, i, completed[i][id].Load())
			}
		}
	}
}

// apart is a shim with queue pairs that send to two CQs, at 1 Gbps.
type apart struct {
	dev  *nullDevice
	shim *paced.Shim
	pd   verbs.PD
	cq   [2]verbs.CQ
	q    [2]verbs.QP
}

func newApart(t *testing.T) *apart {
	c := paced.DefaultConfig()
	c.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
	}
	p := &apart{dev: &nullDevice{}}
	p.shim = must(paced.Wrap(p.dev, c))(t)
	p.pd = must(p.shim.AllocPD())(t)
	for i := range p.cq {
		p.cq[i] = must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
		p.q[i] = p.connect(t, p.cq[i], p.cq[i])
	}
	return p
}

func (p *apart) connect(t *testing.T, send, recv verbs.CQ) verbs.QP {
	q := must(p.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: send, RecvCQ: recv, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}}))(t)
	if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	return q
}

func (p *apart) post(t *testing.T, q verbs.QP, bytes uint32) {
	t.Helper()
	if _, err := q.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: bytes}}}}); err != nil {
		t.Fatal(err)
	}
}

func (p *apart) poll(t *testing.T, cq verbs.CQ) int {
	t.Helper()
	var wc [4]verbs.WC
	return must(cq.Poll(wc[:]))(t)
}

// Polls of one CQ make the progress of another one's queue pairs when nobody else has for
// a while, whether they find something or not.
func TestAPollTendsOtherQueues(t *testing.T) {
	p := newApart(t)
	p.post(t, p.q[0], 48<<10)
	for _, step := range []struct {
		after   units.Time
		samples uint64
	}{{0, 0}, {20 * units.Microsecond, 0}, {80 * units.Microsecond, 1}, {40 * units.Microsecond, 1}, {100 * units.Microsecond, 2}, {40 * units.Microsecond, 2}} {
		p.dev.time += step.after
		if n := p.poll(t, p.cq[1]); n != 0 {
			t.Fatalf("polled %d completions", n)
		}
		if s := p.shim.Stats().Samples; s != step.samples {
			t.Errorf("at %v: %d segments completed, expected %d", p.dev.time, s, step.samples)
		}
	}
	// Each of these finds something.
	p = newApart(t)
	p.post(t, p.q[0], 8<<10)
	p.dev.time += units.Millisecond
	found := 0
	for range 100 {
		p.post(t, p.q[1], 0)
		found += p.poll(t, p.cq[1])
	}
	if s := p.shim.Stats(); found != 100 || s.Samples != 101 {
		t.Errorf("found %d completions, %d segments completed, expected 100 and 101", found, s.Samples)
	}
	if n := p.poll(t, p.cq[0]); n != 1 {
		t.Errorf("polled %d completions, expected 1", n)
	}
}

// A poll of a CQ that only receives makes at once the progress of the queue pairs that
// receive there.
func TestAPollMakesProgressOfItsReceivers(t *testing.T) {
	p := newApart(t)
	recv := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	q := p.connect(t, p.cq[0], recv)
	p.post(t, q, 8<<10)
	p.poll(t, recv)
	if s := p.shim.Stats().Samples; s != 1 {
		t.Errorf("%d segments completed, expected 1", s)
	}
	// And no more when the queue pair is gone.
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	p.post(t, p.q[0], 8<<10)
	p.poll(t, recv)
	if s := p.shim.Stats().Samples; s != 1 {
		t.Errorf("%d segments completed, expected 1", s)
	}
	if err := recv.Close(); err != nil {
		t.Error(err)
	}
}

// An arming makes one event: what completes while the provider carries it out takes it,
// and one that the provider refuses makes none.
func TestAnArmingIsOneEvent(t *testing.T) {
	x := newGated(t)
	cq := x.channelled
	q := must(x.create(cq))(t)
	if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	complete := func() {
		t.Helper()
		if _, err := q.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 10}}}}); err != nil {
			t.Fatal(err)
		}
		if n := must(cq.Poll(make([]verbs.WC, 4)))(t); n != 1 {
			t.Fatalf("polled %d completions, expected 1", n)
		}
	}
	events := func(expected int) {
		t.Helper()
		n := 0
		for ; n < 3; n++ {
			c, err := x.receiveChannel.Wait(context.Background(), 0)
			if errors.Is(err, verbs.ErrTimeout) {
				break
			}
			if c != cq || err != nil {
				t.Fatalf("an event of %v, %v", c, err)
			}
		}
		if n != expected {
			t.Errorf("%d events, expected %d", n, expected)
		}
	}
	x.gate.hold("ReqNotify")
	done := make(chan error)
	go func() { done <- cq.ReqNotify(false) }()
	wait(t, x.gate.inside, "the provider's call")
	x.gate.hold("")
	complete()
	x.gate.leave <- struct{}{}
	if err := wait(t, done, "the arming"); err != nil {
		t.Fatal(err)
	}
	complete()
	events(1)
	refused := errors.New("refused")
	cq.(*paced.CQ).Below().(*gatedCQ).refuse = refused
	if err := cq.ReqNotify(false); !errors.Is(err, refused) {
		t.Errorf("ReqNotify: %v", err)
	}
	complete()
	events(0)
}

// What the provider does not destroy is destroyed by the next Close.
func TestCloseTriesAgain(t *testing.T) {
	x := newGated(t)
	own := x.q.(*paced.QP).BelowSends().(*gatedCQ)
	for _, free := range []func() error{
		x.q.Close, x.other.Close, x.fresh.Close, x.cq.Close, x.spare.Close, x.channelled.Close,
		x.ch.Close, x.receiveChannel.Close, x.pd.Close,
	} {
		if err := free(); err != nil {
			t.Fatal(err)
		}
	}
	for _, refused := range []error{errors.New("refused"), errors.New("again"), nil} {
		own.refuse = refused
		if err := x.shim.Close(); !errors.Is(err, refused) {
			t.Errorf("Close: %v, expected %v", err, refused)
		}
	}
}

// Two CQs have an event by what one thread polls, while another one sleeps on their
// channel. A third one that takes the first event wakes the sleeper for the second.
func TestASleeperIsRemindedOfASecondEvent(t *testing.T) {
	x := newGated(t)
	cqs := [2]verbs.CQ{x.channelled, must(x.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: x.receiveChannel}))(t)}
	var qs [2]verbs.QP
	for i, cq := range cqs {
		qs[i] = must(x.create(cq))(t)
		if err := verbs.ConnectRC(qs[i], verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
		if err := cq.ReqNotify(false); err != nil {
			t.Fatal(err)
		}
	}
	events, failed := make(chan verbs.CQ, 2), make(chan error, 2)
	sleep := func() {
		c, err := x.receiveChannel.Wait(context.Background(), -1)
		events <- c
		failed <- err
	}
	x.gate.hold("Wait")
	go sleep()
	wait(t, x.gate.inside, "the sleeper")
	x.gate.hold("PostRecv") // to the queue pair that wakes it
	for i, cq := range cqs {
		if _, err := qs[i].PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 10}}}}); err != nil {
			t.Fatal(err)
		}
		if n := must(cq.Poll(make([]verbs.WC, 1)))(t); n != 1 {
			t.Fatalf("polled %d completions, expected 1", n)
		}
	}
	go sleep()
	wait(t, x.gate.inside, "the reminder")
	x.gate.hold("")
	x.gate.leave <- struct{}{}
	x.gate.leave <- struct{}{}
	first, second := wait(t, events, "the first event"), wait(t, events, "the second event")
	if first == second || errors.Join(<-failed, <-failed) != nil {
		t.Errorf("events of %v and %v", first, second)
	}
}

// Threads that post lists to one queue pair do not interleave them.
func TestListsDoNotInterleave(t *testing.T) {
	const threads, lists, list, queue = 2, 200, 4, 64
	p := newApart(t)
	q := must(p.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq[0], RecvCQ: p.cq[0], Cap: verbs.QPCap{MaxSendWR: queue, MaxSendSGE: 1}}))(t)
	if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	room := make(chan struct{}, queue/list)
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			for n := range lists {
				wrs := make([]verbs.SendWR, list)
				for k := range wrs {
					wrs[k] = verbs.SendWR{WRID: uint64((n*threads+i)*list + k), Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 1}}}
				}
				room <- struct{}{}
				if k, err := q.PostSend(wrs); k != list || err != nil {
					t.Errorf("posted %d, %v", k, err)
				}
				runtime.Gosched()
			}
		})
	}
	var wc [queue]verbs.WC
	for completed, of := 0, uint64(0); completed < threads*lists*list && !t.Failed(); runtime.Gosched() {
		for _, w := range wc[:must(p.cq[0].Poll(wc[:]))(t)] {
			if completed%list == 0 {
				of = w.WRID
			}
			if w.WRID != of+uint64(completed%list) || of%list != 0 {
				t.Fatalf("request %d completed within the list from %d", w.WRID, of)
			}
			if completed++; completed%list == 0 {
				<-room
			}
		}
		p.dev.mu.Lock()
		p.dev.time += 10 * units.Microsecond
		p.dev.mu.Unlock()
	}
	wg.Wait()
}
