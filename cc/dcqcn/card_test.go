package dcqcn

import (
	"errors"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

func newCard(t testing.TB, change func(*CardConfig)) *card {
	t.Helper()
	c := DefaultCardConfig()
	if change != nil {
		change(&c)
	}
	e, err := NewCard(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*card)
}

func TestCardConforms(t *testing.T) {
	for name, change := range map[string]func(*CardConfig){
		"default": func(*CardConfig) {},
		// With rises by 2 MB the way back from it is longer than the test.
		"first rate":   func(c *CardConfig) { c.RateToSetOnFirstCNP, c.ByteReset = 500*units.Mbps, 32*units.KB },
		"other clamps": func(c *CardConfig) { c.ClampTgtRate, c.ClampTgtRateATI = true, false },
		"no last clamp": func(c *CardConfig) {
			c.ClampTgtRateATI, c.ByteReset, c.TimeReset, c.Threshold = false, units.MB, 10*us, 5
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultCardConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New:     func(env cc.Env) (cc.Engine, error) { return NewCard(c, env) },
				MinRate: func(cc.Env) units.Rate { return c.MinRate },
			})
		})
	}
}

// Within a monitor period one cut: the first takes 1023/2048 off, and leaves the target. Alpha keeps
// 1019/1024 of itself each microsecond, and gains 5/1024 in one with a notification.
func TestCardCuts(t *testing.T) {
	e := newCard(t, nil)
	a := cc.Ack{RTT: 5 * us}
	e.OnCNP(100 * us)
	if e.s.rate != 40*gb {
		t.Errorf("cut to %v at once", e.s.rate)
	}
	a.Now = 104 * us
	e.OnAck(&a)
	alpha := 1023.0 / 1024 * math.Pow(1019.0/1024, 4) // no notification in the four, but that which began them
	rate := 40 * gb * (1 - alpha/2)
	if !near(e.s.rate, rate) || !near(e.s.target, 40*gb) || math.Abs(e.s.alpha-alpha) > 1e-9 {
		t.Fatalf("after the first period %+v, expected a rate of %v and an alpha of %v", e.s, rate, alpha)
	}
	for range 3 { // three notifications in one period are one cut
		e.OnCNP(105 * us)
	}
	a.Now = 108 * us
	e.OnAck(&a)
	alpha = alpha * 1019 / 1024        // at 105 us
	alpha = alpha*1019/1024 + 5.0/1024 // at 106 us
	alpha *= math.Pow(1019.0/1024, 2)
	rate *= 1 - alpha/2
	if !near(e.s.rate, rate) || math.Abs(e.s.alpha-alpha) > 1e-9 {
		t.Errorf("after the second period %+v, expected a rate of %v and an alpha of %v", e.s, rate, alpha)
	}
}

// rp_min_dec_fac is what a cut leaves at least, rp_gd how deep it is.
func TestCardBoundsCuts(t *testing.T) {
	for _, c := range []struct {
		gd, fac int
		want    float64
	}{
		{10, 25, 40 * gb * 0.25},
		{10, 75, 40 * gb * 0.75},
		{12, 0, 40 * gb * (1 - 1023.0/1024*math.Pow(1019.0/1024, 4)/4)},
	} {
		e := newCard(t, func(x *CardConfig) { x.GD, x.MinDecFac = c.gd, c.fac })
		e.OnCNP(0)
		a := cc.Ack{RTT: 5 * us, Now: 4 * us}
		e.OnAck(&a)
		if !near(e.s.rate, c.want) {
			t.Errorf("rp_gd %d, rp_min_dec_fac %d: a rate of %v, expected %v", c.gd, c.fac, e.s.rate, c.want)
		}
	}
}

// When a cut sets the target to the rate: always with rp_clamp_tgt_rate, after a rise by bytes in any case, and after one
// by time with rp_clamp_tgt_rate_ati.
func TestCardClampsTargets(t *testing.T) {
	for _, c := range []struct {
		name            string
		clamp, ati      bool
		timed, byBytes  bool
		targetIsTheRate bool
	}{
		{"no rise", false, true, false, false, false},
		{"no rise, always", true, false, false, false, true},
		{"by bytes", false, false, false, true, true},
		{"by time", false, true, true, false, true},
		{"by time, which does not count", false, false, true, false, false},
	} {
		e := newCard(t, func(x *CardConfig) {
			x.ClampTgtRate, x.ClampTgtRateATI = c.clamp, c.ati
			x.ByteReset = units.GB
			if c.byBytes {
				x.ByteReset = units.KB
			}
			x.TimeReset = 100000 * us
			if c.timed {
				x.TimeReset = 10 * us
			}
		})
		e.OnCNP(0)
		a := cc.Ack{RTT: 5 * us, Now: 5 * us, Sent: 100}
		e.OnAck(&a)
		a.Now, a.Sent = 16*us, 1200
		e.OnAck(&a)
		before := e.s
		e.OnCNP(16 * us)
		a.Now = 21 * us
		e.OnAck(&a)
		want := 40 * gb
		if c.targetIsTheRate {
			want = before.rate
		}
		if (c.timed || c.byBytes) != (before.timed+before.counted > 0) || !near(e.s.target, want) {
			t.Errorf("%s: the target is %v after %+v, expected %v", c.name, e.s.target, before, want)
		}
	}
}

// The first notification may set a rate.
func TestCardFirstRate(t *testing.T) {
	e := newCard(t, func(c *CardConfig) { c.RateToSetOnFirstCNP = 10 * units.Gbps })
	if got := e.OnCNP(0); got.Rate != 10*units.Gbps || e.s.target != 10*gb {
		t.Errorf("after the first notification %v, target %v", got.Rate, e.s.target)
	}
}

// The driver and firmware count rp_byte_reset in units of 64 bytes: 32767 of them are 2 MB, so that a flow at 50 Gbps rises by bytes
// about as often as by the timer of 300 us, and not a hundred times as often.
func TestCardCountsBytesBy64(t *testing.T) {
	e := newCard(t, nil)
	e.OnCNP(0)
	a := cc.Ack{RTT: 5 * us, Now: 5 * us}
	for _, x := range []struct {
		sent units.Bytes
		rose bool
	}{{0, false}, {32767, false}, {32767*64 - 1, false}, {32767 * 64, true}} {
		before := e.s.rate
		a.Sent = x.sent
		e.OnAck(&a)
		if rose := x.sent > 0 && e.s.rate > before; rose != x.rose {
			t.Errorf("after %v a rate of %v, before %v", x.sent, e.s.rate, before)
		}
	}
}

// Slow restart halves rate and target, once in rp_time_reset.
func TestCardSlowRestart(t *testing.T) {
	e := newCard(t, nil)
	steps := []struct {
		at      units.Time
		rate    float64
		lowered bool
	}{{0, 20 * gb, true}, {200 * us, 20 * gb, false}, {299 * us, 20 * gb, false}, {300 * us, 10 * gb, true}}
	for _, s := range steps {
		c, lowered := e.SlowRestart(s.at)
		if lowered != s.lowered || float64(c.Rate) != s.rate || e.s.target != s.rate {
			t.Errorf("at %v: %v, lowered %t, target %v; expected %v, %t", s.at, c.Rate, lowered, e.s.target, s.rate, s.lowered)
		}
	}
	// A clock that is set back does not lengthen the period.
	e.SetBack(100 * us)
	if _, lowered := e.SlowRestart(500 * us); !lowered {
		t.Error("a loss 300 us later lowers nothing")
	}
	// What notifications have taken off the rate just now does not count for the target.
	e = newCard(t, nil)
	e.OnCNP(0)
	e.OnAck(&cc.Ack{RTT: 5 * us, Now: 5 * us})
	before := e.s
	e.SlowRestart(6 * us)
	if !near(e.s.rate, before.rate/2) || !near(e.s.target, before.target/2) || before.target != 40*gb {
		t.Errorf("after a notification and a loss %+v, before %+v", e.s, before)
	}
}

// After a loss the rate rises by rp_hai_rate each round trip, whatever it is, until it is the line's or a notification comes that no
// loss has brought.
func TestCardClimbsAfterALoss(t *testing.T) {
	climb := func(e *card, from units.Time, rtt units.Time, n int) {
		for i := range n {
			e.OnAck(&cc.Ack{Now: from + units.Time(i+1)*rtt, RTT: rtt})
		}
	}
	for _, c := range []struct {
		name string
		rtt  units.Time
		n    int
		want float64
	}{
		{"a round trip", 10 * us, 20, 20*gb + 20*50e6},
		{"a long one", 20 * us, 10, 20*gb + 10*50e6},
		{"shorter than rp_rate_reduce_monitor_period", us, 20, 20*gb + 5*50e6},
	} {
		e := newCard(t, nil)
		e.OnAck(&cc.Ack{RTT: c.rtt})
		e.SlowRestart(0)
		climb(e, 0, c.rtt, c.n)
		if !near(e.s.rate, c.want) || e.s.target < e.s.rate {
			t.Errorf("%s: after %d answers %v, target %v, expected %v", c.name, c.n, e.s.rate, e.s.target, c.want)
		}
	}
	// What sends little does not rise.
	e := newCard(t, nil)
	e.SlowRestart(0)
	e.OnAck(&cc.Ack{Now: 20 * us, RTT: 10 * us, AppLimited: true})
	if e.s.rate != 20*gb {
		t.Errorf("limited by the application: %v", e.s.rate)
	}
	// At the line rate it ends.
	climb(e, 20*us, 10*us, 500)
	if e.s.rate != 40*gb || e.climbs {
		t.Errorf("after 500 round trips %v, still climbing %t", e.s.rate, e.climbs)
	}
	// A notification that the loss has brought does not end it, a later one does.
	for _, c := range []struct {
		at   units.Time
		ends bool
	}{{10 * us, false}, {299 * us, false}, {300 * us, true}} {
		e := newCard(t, nil)
		e.SlowRestart(0)
		e.OnCNP(c.at)
		if e.climbs == c.ends {
			t.Errorf("a notification at %v: still climbing %t", c.at, e.climbs)
		}
	}
}

// Losses that halve both of two flows, and rises that are equal, bring them together.
func TestCardShares(t *testing.T) {
	a, b := newCard(t, nil), newCard(t, nil)
	a.s.rate, a.s.target = 10*gb, 10*gb
	now := units.Time(0)
	for range 8 {
		a.SlowRestart(now)
		b.SlowRestart(now)
		for range 250 {
			now += 10 * us
			a.OnAck(&cc.Ack{Now: now, RTT: 10 * us})
			b.OnAck(&cc.Ack{Now: now, RTT: 10 * us})
		}
	}
	if share := a.s.rate / (a.s.rate + b.s.rate); share < 0.48 || share > 0.5 {
		t.Errorf("rates of %v and %v", a.s.rate, b.s.rate)
	}
}

// A period is no less than two of the last round trips: over a full buffer these are longer than rp_time_reset. What was coalesced
// has none.
func TestCardSlowRestartOverAQueue(t *testing.T) {
	e := newCard(t, nil)
	for _, s := range []struct {
		rtt, at units.Time
		lowered bool
	}{{400 * us, 0, true}, {400 * us, 310 * us, false}, {0, 799 * us, false}, {400 * us, 800 * us, true}, {5 * us, 1099 * us, false}, {5 * us, 1100 * us, true}} {
		e.OnAck(&cc.Ack{Now: s.at, RTT: s.rtt})
		if _, lowered := e.SlowRestart(s.at); lowered != s.lowered {
			t.Errorf("at %v after a round trip of %v: lowered %t, expected %t", s.at, s.rtt, lowered, s.lowered)
		}
	}
}

func TestCardRefuses(t *testing.T) {
	for key, change := range map[string]func(*CardConfig){
		"rp_min_rate":                 func(c *CardConfig) { c.MinRate = 41 * units.Gbps },
		"rp_rate_to_set_on_first_cnp": func(c *CardConfig) { c.MaxRate, c.RateToSetOnFirstCNP = units.Gbps, 2*units.Gbps },
		"rp_gd":                       func(c *CardConfig) { c.GD = 9 },
	} {
		c := DefaultCardConfig()
		change(&c)
		_, err := NewCard(c, testEnv)
		if bad := (*cc.FieldError)(nil); !errors.As(err, &bad) || bad.Key != key {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestCardAllocatesNothing(t *testing.T) {
	e := newCard(t, nil)
	a := cc.Ack{RTT: 5 * us}
	if n := testing.AllocsPerRun(100, func() {
		a.Now += us
		a.Sent += 5000
		e.OnAck(&a)
		e.OnCNP(a.Now)
		e.SlowRestart(a.Now)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
