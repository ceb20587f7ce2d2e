package paced_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// rig is many queue pairs over the null provider, each with writes of one
// segment posted.
type rig struct {
	dev  *nullDevice
	shim *paced.Shim
	cq   verbs.CQ
	qps  []*paced.QP // by number, from 1
	wr   [1]verbs.SendWR
	wc   [16]verbs.WC
}

// newRig paces each queue pair at rate, with an engine; without one if 0.
func newRig(t testing.TB, n int, rate units.Rate) *rig {
	c := paced.DefaultConfig()
	if rate > 0 {
		c.Engine = func(cc.Env) (cc.Engine, error) {
			return &fixed{control: cc.Control{Rate: rate, Window: cc.Unlimited}, quiet: true}, nil
		}
	}
	r := &rig{dev: &nullDevice{}, qps: []*paced.QP{nil}}
	r.shim = must(paced.Wrap(r.dev, c))(t)
	pd := must(r.shim.AllocPD())(t)
	r.cq = must(r.shim.CreateCQ(verbs.CQInitAttr{CQE: 1 << 14}))(t)
	r.wr[0] = verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Addr: 4096, Length: 16 << 10, LKey: 1}}}
	var apart units.Time // so that segments come due one at a time
	if rate > 0 {
		apart = rate.Serialize(16*units.KiB) / units.Time(n+1)
	}
	for range n {
		q := must(pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: r.cq, RecvCQ: r.cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}}))(t).(*paced.QP)
		if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
		r.qps = append(r.qps, q)
		r.dev.time += apart
		for range 4 {
			if _, err := q.PostSendAt(r.dev.time.Long(), r.wr[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// turn goes to when the next segment is due, releases it, polls what has
// completed and posts as much again. It returns how many completed.
func (r *rig) turn(t testing.TB) int {
	if d := r.shim.Deadline().Time(); d != units.Never {
		r.dev.time = max(r.dev.time, d)
	}
	n, err := r.cq.Poll(r.wc[:])
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := r.qps[r.wc[i].QPN].PostSendAt(r.dev.time.Long(), r.wr[:]); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

var rigs = []struct {
	name string
	qps  int
	rate units.Rate
}{
	{"unpaced/qps=1", 1, 0}, {"unpaced/qps=1000", 1000, 0},
	{"paced/qps=1", 1, 20 * units.Gbps}, {"paced/qps=1000", 1000, 20 * units.Mbps},
}

func TestTheDataPathAllocatesNothing(t *testing.T) {
	for _, c := range rigs {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, min(c.qps, 50), c.rate)
			done := 0
			if n := testing.AllocsPerRun(2000, func() { done += r.turn(t) }); n != 0 {
				t.Errorf("%v allocations a turn", n)
			}
			if done < 1000 {
				t.Errorf("only %d segments completed", done)
			}
		})
	}
}

// A long write in many segments, with several SGEs, and a full queue.
func TestSegmentationAllocatesNothing(t *testing.T) {
	r := newRig(t, 1, 0)
	q := r.qps[1]
	wr := r.wr
	wr[0].SGL = []verbs.SGE{{Addr: 4096, Length: 1 << 20, LKey: 1}}
	for r.turnOnce(t) > 0 {
	}
	n := testing.AllocsPerRun(100, func() {
		for range 9 {
			_, _ = q.PostSendAt(r.dev.time.Long(), wr[:]) // the last finds the queue full
		}
		for r.turnOnce(t) > 0 {
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for 8 writes of 64 segments", n)
	}
	if got := r.shim.Stats().Segments; got < 100*8*64 {
		t.Errorf("%d segments", got)
	}
}

// turnOnce polls without posting anew, until a poll finds nothing three times.
func (r *rig) turnOnce(t testing.TB) int {
	sum := 0
	for quiet := 0; quiet < 3; {
		n, err := r.cq.Poll(r.wc[:])
		if err != nil {
			t.Fatal(err)
		}
		if sum += n; n == 0 {
			quiet++
		}
	}
	return sum
}

// BenchmarkSegment is the whole way of one segment through the shim: posted,
// scheduled, given to the provider, completed, told to the engine and polled.
// The provider's share, which completes at once, is in it.
func BenchmarkSegment(b *testing.B) {
	for _, c := range rigs {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, c.qps, c.rate)
			ahead := 0
			b.ReportAllocs()
			for b.Loop() {
				for ahead <= 0 {
					ahead += r.turn(b)
				}
				ahead--
			}
		})
	}
}

// BenchmarkLongWrite is one segment of a write of 64, unpaced: posts go to the
// provider in batches.
func BenchmarkLongWrite(b *testing.B) {
	r := newRig(b, 1, 0)
	q := r.qps[1]
	r.wr[0].SGL[0].Length = 1 << 20
	ahead := 0
	b.ReportAllocs()
	for b.Loop() {
		for ahead <= 0 {
			n, err := r.cq.Poll(r.wc[:])
			if err != nil {
				b.Fatal(err)
			}
			for range n {
				if _, err := q.PostSendAt(units.LongTime{}, r.wr[:]); err != nil {
					b.Fatal(err)
				}
			}
			ahead += 64 * n
		}
		ahead--
	}
}

// BenchmarkEmptyPoll measures a Poll that finds nothing.
func BenchmarkEmptyPoll(b *testing.B) {
	r := newRig(b, 1, 0)
	r.turnOnce(b)
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := r.cq.Poll(r.wc[:]); n != 0 {
			b.Fatal("a completion")
		}
	}
}

// Goroutines with queue pairs and CQs of their own, as the verbs allow. The race
// detector has an eye on it.
func TestGoroutinesOnOneShim(t *testing.T) {
	c := paced.DefaultConfig()
	c.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: 90 * units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
	}
	dev := &nullDevice{}
	shim := must(paced.Wrap(dev, c))(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			pd, _ := shim.AllocPD()
			cq, _ := shim.CreateCQ(verbs.CQInitAttr{CQE: 64})
			q, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
			if err == nil {
				err = verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC())
			}
			if err != nil {
				t.Error(err)
				return
			}
			wr := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Addr: 4096, Length: 50_000, LKey: 1}}}}
			next := uint64(0)
			for posted := uint64(0); next < 500; {
				wr[0].WRID = uint64(g)<<32 | posted
				if _, err := q.PostSend(wr); err == nil {
					posted++
				}
				var wc [4]verbs.WC
				n, err := cq.Poll(wc[:])
				if err != nil {
					t.Error(err)
					return
				}
				for _, w := range wc[:n] {
					if w.WRID != uint64(g)<<32|next {
						t.Errorf("goroutine %d: completion %#x, want %d", g, w.WRID, next)
						return
					}
					next++
				}
				dev.mu.Lock()
				dev.time += units.Microsecond
				dev.mu.Unlock()
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	if s := shim.Stats(); s.Messages < 2000 || s.Stray != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Two threads on two CQs, and one, with TIMELY run on each segment: each posts 16 segments
// and polls their completions. The time is that of a segment of any thread. What a
// segment takes of a processor, where that can be told, shows what the threads take from
// each other also where the machine does other work.
func BenchmarkTwoThreads(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run("threads="+string(rune('0'+threads)), func(b *testing.B) {
			c := paced.DefaultConfig()
			c.Engine = func(env cc.Env) (cc.Engine, error) {
				steady := timely.DefaultConfig() // at line rate, whatever else the machine does
				steady.TLow, steady.THigh = 100*units.Second, 200*units.Second
				return timely.New(steady, env)
			}
			dev := &nullDevice{start: time.Now(), host: true}
			shim := must(paced.Wrap(dev, c))(b)
			var wg sync.WaitGroup
			begin := make(chan struct{})
			share := (b.N + threads - 1) / threads
			var took atomic.Int64
			for range threads {
				pd := must(shim.AllocPD())(b)
				cq := must(shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(b)
				q := must(pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 64, MaxSendSGE: 1}}))(b)
				if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					<-begin
					before := threadTime()
					runSegments(b, q, cq, share)
					took.Add(int64(threadTime() - before))
				})
			}
			b.ResetTimer()
			close(begin)
			wg.Wait()
			if t := took.Load(); t > 0 {
				b.ReportMetric(float64(t)/float64(threads*share), "cpu-ns/segment")
			}
		})
	}
}

// runSegments posts n requests of a segment each, 16 at a time, and polls their
// completions.
func runSegments(b *testing.B, q verbs.QP, cq verbs.CQ, n int) {
	wrs := make([]verbs.SendWR, 16)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Addr: 4096, Length: 4096, LKey: 1}}}
	}
	var wc [16]verbs.WC
	for completed := 0; completed < n; {
		posted, err := q.PostSend(wrs)
		if err != nil {
			b.Error(err)
			return
		}
		for posted > 0 {
			k, err := cq.Poll(wc[:])
			if err != nil {
				b.Error(err)
				return
			}
			posted -= k
			completed += k
		}
	}
}
