package cwnd

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

var testEnv = cc.Env{LineRate: 25 * units.Gbps, BaseRTT: 20 * us, MTU: 1000} // 62,500 bytes

// The rate is the window over 20 us, the window whole packets of 1000 bytes.
func TestBytesAnswer(t *testing.T) {
	w := NewBytes(testEnv, 1, 0)
	for _, c := range []struct {
		cwnd float64
		want cc.Control
	}{
		{62_500, cc.Control{Rate: 25 * units.Gbps, Window: 63_000}},
		{10_000, cc.Control{Rate: 4 * units.Gbps, Window: 10_000}},
		{10_000 * (1 + 1e-15), cc.Control{Rate: 4 * units.Gbps, Window: 10_000}}, // rounding adds no packet
		{10_001, cc.Control{Rate: 4*units.Gbps + 400*units.Kbps, Window: 11_000}},
		// Less than a packet a round trip is paced.
		{700, cc.Control{Rate: 280 * units.Mbps, Window: 1000}},
		{1e-6, cc.Control{Rate: 1, Window: 1000}}, // less than rounding can tell
		{1 << 50, cc.Control{Rate: 25 * units.Gbps, Window: (1<<50 + 999) / 1000 * 1000}},
	} {
		w.Cwnd = c.cwnd
		if got := w.Answer(); got != c.want || w.Control() != got {
			t.Errorf("%v bytes are %+v, then %+v, want %+v", c.cwnd, got, w.Control(), c.want)
		}
	}
}

// A largest window far beyond any network's is no bound, and not a rate of nothing.
func TestAHugeWindow(t *testing.T) {
	for _, most := range []units.Bytes{1 << 50, math.MaxInt64} {
		w := NewBytes(testEnv, 1, most)
		w.Cwnd = w.Clamp(math.Inf(1))
		if got := w.Answer(); got.Rate != testEnv.LineRate || got.Window < most/2-1 {
			t.Errorf("at most %v: %+v", most, got)
		}
	}
}

func TestBytesBounds(t *testing.T) {
	for _, c := range []struct {
		least              float64
		most               units.Bytes
		start, low, likely float64 // what Clamp makes of 0 and of 8000
		high               float64 // and of infinity
	}{
		{500, 0, 62_500, 500, 8000, 62_500},
		{500, 10_000, 10_000, 500, 8000, 10_000},
		{500, 100_000, 62_500, 500, 8000, 100_000},
		{9000, 0, 62_500, 9000, 9000, 62_500},
		{9000, 7000, 7000, 7000, 7000, 7000},
	} {
		w := NewBytes(testEnv, c.least, c.most)
		low, likely, high := w.Clamp(0), w.Clamp(8000), w.Clamp(math.Inf(1))
		if w.Cwnd != c.start || low != c.low || likely != c.likely || high != c.high {
			t.Errorf("from %v to %v: it starts with %v and holds 0, 8000 and infinity at %v, %v and %v, want %v",
				c.least, c.most, w.Cwnd, low, likely, high, c)
		}
	}
}

func TestBytesKnowsNoLosses(t *testing.T) {
	w := NewBytes(testEnv, 1, 0)
	w.Cwnd = 10_000
	before := w.Answer()
	for name, got := range map[string]cc.Control{"a loss": w.OnLoss(us), "a timeout": w.OnTimeout(us), "a CNP": w.OnCNP(us)} {
		if got != before || w.Control() != before || w.Cwnd != 10_000 {
			t.Errorf("%s changed %+v to %+v", name, before, got)
		}
	}
}

// Whatever the environment, rate and window stay what cc promises, and what the rate
// sends in a base RTT is the window.
func TestBytesAnswersWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env := cc.Env{
			LineRate: units.Rate(rapid.Int64Range(1e9, 8e11).Draw(t, "line rate")),
			BaseRTT:  units.Time(rapid.Int64Range(1e6, 1e10).Draw(t, "base RTT")),
			MTU:      units.Bytes(256 << rapid.IntRange(0, 4).Draw(t, "MTU")),
		}
		w := NewBytes(env, 0, math.MaxInt64)
		w.Cwnd = math.Exp(rapid.Float64Range(-20, 42).Draw(t, "ln window"))
		c := w.Answer()
		if c.Rate < 1 || c.Rate > env.LineRate || c.Window < env.MTU {
			t.Fatalf("%v bytes are %+v", w.Cwnd, c)
		}
		if got := float64(c.Rate) / 8 * env.BaseRTT.Seconds(); c.Rate > 1 && c.Rate < env.LineRate && math.Abs(got-w.Cwnd) > 1e-9*w.Cwnd+env.BaseRTT.Seconds() {
			t.Fatalf("%v sends %v bytes in %v, want %v", c.Rate, got, env.BaseRTT, w.Cwnd)
		}
		if over := float64(c.Window) - w.Cwnd; over > float64(env.MTU)+1e-9*w.Cwnd || over < -1e-6*w.Cwnd {
			t.Fatalf("a window of %v for %v bytes", c.Window, w.Cwnd)
		}
	})
}
