package stage

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

func TestStageAccount(t *testing.T) {
	s := Stage{Name: "s", Clock: 300_000_000} // a period of 3333 1/3 ps
	// Idle to 10 ns (3 cycles), then 2 cycles.
	if done := s.Serve(10*units.Nanosecond, 0, StallNone, 2); done != 16666 {
		t.Errorf("done at %d ps; five periods end at 16666 2/3", done)
	}
	// Ready at once, but blocked until 30 ns.
	s.Serve(0, 30*units.Nanosecond, StallPCIe, 1)
	a := s.Account(40 * units.Nanosecond)
	if a.Idle != 3+2 || a.Busy != 3 || a.Stalled[StallPCIe] != 4 || a.Elapsed != 12 || a.Served != 2 {
		t.Errorf("account %+v", a)
	}
}

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		counter Counter
		at      units.Time
		want    uint64
	}{
		{Counter{Hz: 156_250_000, Bits: 41}, units.Second, 156_250_000},
		{Counter{Hz: 156_250_000, PPB: 10_000, Bits: 41}, units.Second, 156_251_562}, // 10 ppm: 1562.5 more
		{Counter{Hz: 1_000_000_000, Bits: 8}, 257 * units.Nanosecond, 1},
		{Counter{Hz: 1_000_000_000, Bits: 48, Phase: units.Second}, 0, 1_000_000_000},
	} {
		if got := c.counter.Read(c.at); got != c.want {
			t.Errorf("%+v at %v reads %d, want %d", c.counter, c.at, got, c.want)
		}
	}
	// It never runs backwards, whatever the drift.
	c := Counter{Hz: 427_000_000, PPB: -123_456, Bits: 48}
	last := uint64(0)
	for at := units.Time(0); at < 100*units.Microsecond; at += 777 {
		now := c.Read(at)
		if now < last {
			t.Fatalf("at %v the counter goes from %d to %d", at, last, now)
		}
		last = now
	}
}

func TestClockKeepsItsRemainder(t *testing.T) {
	c := Clock(300_000_000)
	for _, cycle := range []int64{0, 1, 2, 3, 299_999_999, 300_000_000, 1 << 40} {
		if got := c.CycleAfter(c.Begin(cycle)); got != cycle {
			t.Errorf("cycle %d begins at %v, which is cycle %d", cycle, c.Begin(cycle), got)
		}
	}
	if got := c.Begin(300_000_000); got != units.Second {
		t.Errorf("after 300 million cycles of 300 MHz it is %v", got)
	}
}

func TestClockText(t *testing.T) {
	for text, want := range map[string]Clock{"500MHz": 500_000_000, "156.25 MHz": 156_250_000, "1ghz": 1_000_000_000, "3Hz": 3} {
		if got, err := parseClock(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "500", "MHz", "-1MHz", "1Mbps", "1e30GHz"} {
		if got, err := parseClock(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := Clock(rapid.Int64Min(0).Draw(t, "f"))
		var back Clock
		text, _ := f.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != f {
			t.Fatalf("%d is written %s and read %d, %v", f, text, back, err)
		}
	})
}
