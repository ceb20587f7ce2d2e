package ratelimiter

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// A scheduler whose clock is set back lets the same segments go at the same times as
// one whose clock is not.
func TestSettingTheClockBackChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			CatchUp: units.Time(rapid.Int64Range(0, 20_000_000).Draw(t, "catch-up")),
			PullIn:  units.Time(rapid.Int64Range(0, 20_000_000).Draw(t, "pull-in")),
			Burst:   units.Bytes(rapid.Int64Range(0, 100_000).Draw(t, "burst")),
		}
		still, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		moved, _ := New(cfg)
		const flows = 6
		for range flows {
			for _, s := range []*Scheduler{still, moved} {
				if _, err := s.AddFlow(units.Gbps); err != nil {
					t.Fatal(err)
				}
			}
		}
		now := units.Time(rapid.Int64Range(0, int64(units.Second)).Draw(t, "start"))
		behind := units.Time(0)
		equal := func(what string, got, want any) {
			t.Helper()
			if got != want {
				t.Fatalf("%s is %v after the clock was set back by %v, else %v", what, got, behind, want)
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			id := FlowID(rapid.IntRange(0, flows-1).Draw(t, "flow"))
			now += units.Time(rapid.SampledFrom([]int64{0, 1, 1000, 1 << 20, 1 << 26, 1 << 32, 1 << 42}).Draw(t, "step"))
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				n := units.Bytes(rapid.SampledFrom([]int64{0, 1, 64, 1024, 65536}).Draw(t, "bytes"))
				if !still.Queued(id) {
					equal("Offer", moved.Offer(now-behind, id, n), still.Offer(now, id, n))
				}
			case 2, 3:
				wantID, want := still.Dequeue(now)
				gotID, got := moved.Dequeue(now - behind)
				equal("Dequeue's flow", gotID, wantID)
				equal("Dequeue", got, want)
			case 4:
				r := units.Rate(rapid.SampledFrom([]int64{1, 8, 1_000_000, 1_000_000_000, 400_000_000_000, int64(Unpaced)}).Draw(t, "rate"))
				equal("SetRate", moved.SetRate(id, r), still.SetRate(id, r))
			case 5:
				by := units.Time(rapid.SampledFrom([]int64{1, 1 << 10, 1 << 40, 1 << 50, int64(now - behind)}).Draw(t, "by"))
				if now-behind-by > units.LongAgo/2 {
					behind += by
					moved.SetBack(by)
				}
			case 6:
				equal("Withdraw", moved.Withdraw(id), still.Withdraw(id))
			}
			equal("Len", moved.Len(), still.Len())
			want := still.NextDue()
			if want != units.Never && moved.now > units.LongAgo { // before the first event it has no time
				want -= behind
			}
			equal("NextDue", moved.NextDue(), want)
		}
	})
}

// What was due, or filed, before the clock was set back by more than an instant can be
// is due.
func TestSettingTheClockBackByAYear(t *testing.T) {
	s, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	id, _ := s.AddFlow(units.Mbps)
	other, _ := s.AddFlow(1)
	s.Offer(0, id, 1500)
	s.Offer(0, id, 1500)
	s.Offer(0, other, 1<<32-1)
	s.Offer(0, other, 1<<32-1)
	if s.Len() != 2 || s.NextDue() != 12*units.Millisecond {
		t.Fatalf("%d are filed, the first for %v", s.Len(), s.NextDue())
	}
	s.SetBack(units.MostSetBack)
	s.SetBack(units.MostSetBack)
	if got, ok := s.Dequeue(0); !ok || got != id {
		t.Fatalf("Dequeue: %v, %v", got, ok)
	}
	if !s.Offer(units.Second, id, 1500) {
		t.Error("the flow is held long after its gap")
	}
	if s.Offer(units.Second+1, id, 1500) || s.NextDue() != units.Second+12*units.Millisecond {
		t.Errorf("the next is due at %v", s.NextDue())
	}
}

func TestSetBackAllocatesNothing(t *testing.T) {
	s, _ := New(DefaultConfig())
	id, _ := s.AddFlow(units.Mbps)
	s.Offer(0, id, 1500)
	s.Offer(0, id, 1500)
	if n := testing.AllocsPerRun(100, func() { s.SetBack(units.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
