package ccore

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/sluice-rdma/sluice/internal/ctest"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
)

// calls of testdata/limiter.c.
const (
	callAdd = iota
	callRemove
	callEnqueue
	callOffer
	callDequeue
	callDequeueAt
	callNextDue
	callSetRate
	callWithdraw
	callSetBack
	callDue
	callNext
	callStart
)

var callNames = []string{"add", "remove", "enqueue", "offer", "dequeue", "dequeue at", "next due", "set rate", "withdraw", "set back", "due", "next", "start"}

// conversation is calls, and what Go's side answers, on their way to a C program.
type conversation struct {
	names   []string
	program *ctest.Program
	calls   [][4]int64
	want    [][2]int64
	total   int
}

const conversationBlock = 1 << 14

func converse(t testing.TB, program string, names []string) *conversation {
	t.Helper()
	return &conversation{names: names, program: ctest.Start(t, program)}
}

func (c *conversation) call(t testing.TB, what int, id, a, b int64, want ...int64) {
	t.Helper()
	var w [2]int64
	copy(w[:], want)
	c.calls, c.want = append(c.calls, [4]int64{int64(what), id, a, b}), append(c.want, w)
	if len(c.calls) == conversationBlock {
		c.flush(t)
	}
}

func (c *conversation) flush(t testing.TB) {
	t.Helper()
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(c.calls)))
	for i := range c.calls {
		for _, v := range c.calls[i] {
			text = binary.LittleEndian.AppendUint64(text, uint64(v))
		}
	}
	got := make([]byte, 16*len(c.calls))
	c.program.Exchange(t, text, got)
	for i, want := range c.want {
		a, b := int64(binary.LittleEndian.Uint64(got[16*i:])), int64(binary.LittleEndian.Uint64(got[16*i+8:]))
		if want != [2]int64{a, b} {
			t.Fatalf("call %d, %s %v: C says %d and %d, Go %d and %d", c.total+i, c.names[c.calls[i][0]], c.calls[i][1:], a, b, want[0], want[1])
		}
	}
	c.total += len(c.calls)
	c.calls, c.want = c.calls[:0], c.want[:0]
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// C's scheduler, in memory of its caller's, does what Go's does over 10^7 calls: rates
// from a bit per second to none, times that go back, far ahead, and to their end.
func TestTheLimiterIsGoBitForBit(t *testing.T) {
	n := 10_000_000
	if testing.Short() {
		n = 300_000
		t.Logf("%d calls, not 10000000: -short", n)
	}
	for _, options := range [][]string{{"-O2"}, {"-O3", "-march=native", "-DSLUICE_PORTABLE"}} {
		program := filepath.Join(t.TempDir(), "limiter")
		ctest.Compile(t, append(options, "-Isrc", "-o", program, "testdata/limiter.c", core(t, options...))...)
		c := converse(t, program, callNames)
		for round := 0; c.total < n/2; round++ {
			limiter(t, c, round, min(n/2, 250_000))
		}
	}
}

// limiter is one life of a scheduler, of that many calls.
func limiter(t testing.TB, c *conversation, round, calls int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(21, uint64(round)))
	cfg := ratelimiter.DefaultConfig()
	cfg.LineRate = []units.Rate{0, 100 * units.Gbps}[round%2]
	cfg.Burst = []units.Bytes{0, 64 * units.KiB, units.GiB}[round%3]
	cfg.CatchUp = []units.Time{10 * us, 0, units.Second}[round/2%3]
	s, err := ratelimiter.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.call(t, callStart, int64(cfg.LineRate), int64(cfg.Burst), int64(cfg.CatchUp), 0)
	most := []int{1, 5, 60, 1000}[round%4]
	var ids []ratelimiter.FlowID
	now := units.Time(rng.Int64N(1e12) - 5e11)
	for range calls {
		if len(ids) == 0 || len(ids) < most && rng.IntN(20) == 0 {
			r := rate(rng)
			id, err := s.AddFlow(r)
			c.call(t, callAdd, 0, int64(r), 0, int64(id), number(err == nil))
			if err == nil {
				ids = append(ids, id)
			}
			continue
		}
		i := rng.IntN(len(ids))
		id := ids[i]
		switch what := rng.IntN(100); {
		case what < 40:
			if s.Queued(id) {
				continue
			}
			size := []units.Bytes{4096, 16384, 65536, units.Bytes(rng.Int64N(1 << 20)), 0, math.MaxUint32}[rng.IntN(6)]
			if what < 20 {
				s.Enqueue(now, id, size)
				c.call(t, callEnqueue, int64(id), int64(now), int64(size))
			} else {
				c.call(t, callOffer, int64(id), int64(now), int64(size), number(s.Offer(now, id, size)))
			}
		case what < 65:
			got, ok := s.Dequeue(now)
			c.call(t, callDequeue, 0, int64(now), 0, int64(got), number(ok))
		case what < 72:
			at := now - units.Time(rng.Int64N(int64(50*us)))
			got, ok := s.DequeueAt(at, now)
			c.call(t, callDequeueAt, 0, int64(at), int64(now), int64(got), number(ok))
		case what < 80:
			due := s.NextDue()
			c.call(t, callNextDue, 0, 0, 0, int64(due), int64(s.Len()))
			if due != units.Never && rng.IntN(2) == 0 {
				now = max(now, due)
			}
		case what < 88:
			r := rate(rng)
			c.call(t, callSetRate, int64(id), int64(r), 0, number(s.SetRate(id, r) == nil))
		case what < 91:
			c.call(t, callWithdraw, int64(id), 0, 0, number(s.Withdraw(id)))
		case what < 92:
			s.RemoveFlow(id)
			c.call(t, callRemove, int64(id), 0, 0)
			ids[i] = ids[len(ids)-1]
			ids = ids[:len(ids)-1]
		case what < 94:
			c.call(t, callDue, int64(id), 0, 0, int64(s.Due(id)), number(s.Queued(id)))
		case what < 96:
			c.call(t, callNext, int64(id), 0, 0, int64(s.Next(id)), int64(s.Rate(id)))
		case what == 96 && rng.IntN(500) == 0:
			by := units.Time(rng.Int64N(int64(20 * units.Second)))
			s.SetBack(by)
			c.call(t, callSetBack, 0, int64(by), 0)
			now -= by
		case what == 97 && rng.IntN(2000) == 0:
			now += units.Never / 1000
		default:
			now += units.Time(rng.Int64N(int64(20 * us)))
		}
		if now > units.Never-units.Never/16 {
			break
		}
	}
	c.flush(t)
}

func rate(rng *rand.Rand) units.Rate {
	switch rng.IntN(8) {
	case 0:
		return ratelimiter.Unpaced
	case 1:
		return units.Rate(1 + rng.Int64N(1000))
	case 2:
		return []units.Rate{0, -1, 1, math.MaxInt64 - 1, 100 * units.Gbps}[rng.IntN(5)]
	}
	return units.Rate(rng.Int64N(int64(100 * units.Gbps)))
}
