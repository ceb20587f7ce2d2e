package paced_test

import (
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

// One thread posts, one polls, one makes progress at
// the deadlines, one changes the queue pair, one makes and destroys others. Each
// request completes once, in order. The race detector has an eye on it.
func TestThreadsOnOneQueuePair(t *testing.T) {
	c := paced.DefaultConfig()
	c.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: 90 * units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
	}
	dev := &nullDevice{}
	shim := must(paced.Wrap(dev, c))(t)
	pd, cq := must(shim.AllocPD())(t), must(shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	connect := func() (verbs.QP, error) {
		q, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
		if err != nil {
			return nil, err
		}
		return q, verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC())
	}
	q := must(connect())(t)

	const n = 400
	var over atomic.Bool
	var wg sync.WaitGroup
	until := func(f func() error) {
		wg.Go(func() {
			for !over.Load() {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
				dev.mu.Lock()
				dev.time += units.Microsecond / 4
				dev.mu.Unlock()
				runtime.Gosched()
			}
		})
	}
	until(func() error { return shim.Progress(shim.Clock()) })
	until(func() error { _ = shim.Deadline(); shim.Rest(units.Microsecond, func() {}); return nil })
	state := ib.RTS
	until(func() error {
		if state ^= ib.RTS ^ ib.SQD; over.Load() {
			state = ib.RTS
		}
		return q.Modify(verbs.QPAttr{State: state}, verbs.AttrState)
	})
	until(func() error {
		x, err := connect()
		if err != nil {
			return err
		}
		if _, err := x.PostSend([]verbs.SendWR{{WRID: 1 << 40, Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 40_000}}}}); err != nil {
			return err
		}
		return x.Close()
	})
	wg.Go(func() {
		wr := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Addr: 4096, Length: 50_000, LKey: 1}}}}
		for wr[0].WRID < n && !over.Load() {
			switch _, err := q.PostSend(wr); {
			case err == nil:
				wr[0].WRID++
			case !errors.Is(err, verbs.ErrQueueFull):
				t.Error(err)
				return
			}
			runtime.Gosched()
		}
	})
	for next := uint64(0); next < n && !t.Failed(); runtime.Gosched() {
		var wc [4]verbs.WC
		k, err := cq.Poll(wc[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wc[:k] {
			if w.WRID != next || w.Status != ib.WCSuccess {
				t.Fatalf("completion %+v, want %d", w, next)
			}
			next++
		}
	}
	over.Store(true)
	wg.Wait()
	if s := shim.Stats(); s.Failed != 0 {
		t.Errorf("stats %+v", s)
	}
}
