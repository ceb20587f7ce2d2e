package dcqcn

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const (
	us = units.Microsecond
	gb = 1e9
)

var testEnv = cc.Env{LineRate: 40 * units.Gbps, BaseRTT: 5 * us, MTU: 1000}

func mustNew(t testing.TB, c Config) *engine {
	t.Helper()
	e, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*engine)
}

func TestConforms(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":       func(*Config) {},
		"with a window": func(c *Config) { c.Window = true },
		"artefact":      func(c *Config) { *c = ArtefactConfig() },
		"other stages":  func(c *Config) { c.FastRecovery, c.ByteCounter, c.IncreaseTimer = 0, units.KB, 300*us },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New:     func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				MinRate: func(cc.Env) units.Rate { return c.MinRate },
			})
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b)+1 }

// Equation 1: the first notification takes half of the line rate, further ones what
// alpha makes of them.
func TestNotifications(t *testing.T) {
	e := mustNew(t, DefaultConfig())
	if got := e.Control(); got.Rate != 40*units.Gbps || got.Window != cc.Unlimited {
		t.Fatalf("a flow starts with %+v", got)
	}
	rate, alpha := 40*gb, 1.0
	for i := range 20 {
		e.OnCNP(units.Time(i+1) * 50 * us)
		target := rate
		rate *= 1 - alpha/2
		alpha = (1-1.0/256)*alpha + 1.0/256
		if !near(e.s.rate, max(rate, 10e6)) || !near(e.s.target, max(target, 10e6)) || !near(e.s.alpha, alpha) {
			t.Fatalf("after notification %d: %+v, want a rate of %v, a target of %v", i+1, e.s, rate, target)
		}
		if rate = max(rate, 10e6); e.Control().Rate != units.Rate(rate) {
			t.Fatalf("the control is %+v, the rate %v", e.Control(), rate)
		}
	}
}

// Equation 2: alpha falls by 255/256 each 55 us without a notification; by how much
// does not hang on how often the engine is asked.
func TestAlphaDecays(t *testing.T) {
	for name, step := range map[string]units.Time{"each microsecond": us, "each 77 us": 77 * us, "once": 5500 * us} {
		e := mustNew(t, DefaultConfig())
		e.OnCNP(0)
		a := cc.Ack{RTT: 5 * us}
		for a.Now < 5500*us {
			a.Now = min(a.Now+step, 5500*us)
			e.OnAck(&a)
		}
		if want := math.Pow(255.0/256, 100); math.Abs(e.s.alpha-want) > 1e-9 {
			t.Errorf("%s: alpha is %v after 100 timers, want %v", name, e.s.alpha, want)
		}
	}
}

// Five rises by the timer go half the way back each; then the target rises by R_AI.
func TestStagesOfTheTimer(t *testing.T) {
	e := mustNew(t, DefaultConfig())
	e.OnCNP(0)
	e.OnCNP(0) // 40, 20, 10 Gbps: the target is 20
	rate, target := e.s.rate, e.s.target
	for i := range 20 {
		if e.OnAck(&cc.Ack{Now: units.Time(i+1)*55*us - 1, RTT: 5 * us}); !near(e.s.rate, rate) {
			t.Fatalf("before rise %d the rate is %v, want %v", i+1, e.s.rate, rate)
		}
		if i >= 5 {
			target += 40e6
		}
		rate = (rate + target) / 2
		if e.OnAck(&cc.Ack{Now: units.Time(i+1) * 55 * us, RTT: 5 * us}); !near(e.s.rate, rate) || !near(e.s.target, target) {
			t.Fatalf("rise %d: rate %v and target %v, want %v and %v", i+1, e.s.rate, e.s.target, rate, target)
		}
	}
}

// The byte counter rises as the timer does, and when both are past fast recovery the
// steps are R_HAI.
func TestByteCounterAndHyperIncrease(t *testing.T) {
	c := DefaultConfig()
	c.IncreaseTimer = units.Second
	e := mustNew(t, c)
	e.OnCNP(0)
	e.OnCNP(0)
	a := cc.Ack{Now: us, RTT: 5 * us}
	for i := range 7 {
		a.Sent += 10*units.MB - 1
		before := e.s
		if e.OnAck(&a); e.s.rate != before.rate {
			t.Fatalf("before 10 MB were sent the rate rises")
		}
		a.Sent++
		e.OnAck(&a)
		want := before.target
		if i >= 5 {
			want += 40e6
		}
		if !near(e.s.target, want) || !near(e.s.rate, (before.rate+want)/2) {
			t.Fatalf("rise %d: %+v after %+v", i+1, e.s, before)
		}
	}
	// Seven by bytes; the timer's first six still are additive, its seventh is hyper.
	for i := range 8 {
		before := e.s
		a.Now = units.Time(i+1) * units.Second
		e.OnAck(&a)
		want := before.target + 40e6
		if i >= 6 {
			want = before.target + 400e6
		}
		if !near(e.s.target, want) {
			t.Fatalf("rise %d by the timer: target %v after %v", i+1, e.s.target, before.target)
		}
	}
	// A notification begins everything again.
	e.OnCNP(a.Now)
	if e.s.timed != 0 || e.s.counted != 0 || e.s.bytes != 0 || e.s.increaseAt != a.Now+units.Second {
		t.Errorf("after a notification %+v", e.s)
	}
}

// What is caught up with after a pause is what each step alone would have come to.
func TestCatchingUpIsStepByStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		c.FastRecovery = rapid.IntRange(0, 8).Draw(t, "fast recovery")
		c.AdditiveIncrease = units.Rate(rapid.Int64Range(1e6, 20e9).Draw(t, "additive"))
		c.HyperIncrease = units.Rate(rapid.Int64Range(1e6, 80e9).Draw(t, "hyper"))
		made, err := New(c, testEnv)
		if err != nil {
			t.Fatal(err)
		}
		p := &made.(*engine).p
		s := state{target: rapid.Float64Range(10e6, 40e9).Draw(t, "target")}
		s.rate = s.target * rapid.Float64Range(0.5, 1).Draw(t, "rate")
		other := rapid.IntRange(0, 12).Draw(t, "the other counter")
		n := rapid.IntRange(1, 3000).Draw(t, "rises")
		rate, target := s.rate, s.target
		for i := range n {
			switch {
			case max(i, other) < c.FastRecovery:
			case min(i, other) > c.FastRecovery:
				target += float64(c.HyperIncrease)
			default:
				target += float64(c.AdditiveIncrease)
			}
			target = min(target, 40e9)
			rate = (rate + target) / 2
		}
		mine := 0
		p.rise(&s, &mine, other, int64(n))
		if math.Abs(s.rate-rate) > 2 || math.Abs(s.target-target) > 2 || s.rate > 40e9 {
			t.Fatalf("%d rises give %v and a target of %v; step by step %v and %v", n, s.rate, s.target, rate, target)
		}
	})
}

// A flow that was silent for hours is where it would be, at once.
func TestLongPause(t *testing.T) {
	e := mustNew(t, DefaultConfig())
	for i := range 30 {
		e.OnCNP(units.Time(i))
	}
	got := e.OnAck(&cc.Ack{Now: 1000 * 3600 * units.Second, RTT: 5 * us, Sent: 1 << 50})
	if got.Rate != testEnv.LineRate || e.s.alpha > 1e-9 || e.s.alpha < 0 {
		t.Errorf("after a pause the control is %+v, alpha %v", got, e.s.alpha)
	}
}

// Rises that fall into a time for which the flow may not have them are lost.
func TestHeld(t *testing.T) {
	for name, a := range map[string]cc.Ack{
		"application-limited": {Now: 550 * us, RTT: 5 * us, Sent: 1 << 30, AppLimited: true},
		"no signal":           {Now: 550 * us, Sent: 1 << 30},
	} {
		e := mustNew(t, DefaultConfig())
		e.OnCNP(0)
		before := e.Control()
		if got := e.OnAck(&a); got != before {
			t.Errorf("%s: %+v after %+v", name, got, before)
		}
		a = cc.Ack{Now: 551 * us, RTT: 5 * us, Sent: 1 << 30}
		if got := e.OnAck(&a); got != before {
			t.Errorf("%s: then what was lost comes after all: %+v", name, got)
		}
	}
	e := mustNew(t, DefaultConfig())
	e.OnCNP(0)
	if before := e.Control(); e.OnLoss(units.Second) != before || e.OnTimeout(units.Second) != before {
		t.Error("a loss or a timeout changed the control")
	}
}

func TestWindow(t *testing.T) {
	c := DefaultConfig()
	c.Window = true
	if got := mustNew(t, c).Control().Window; got != 25_000 {
		t.Errorf("the window is %v, 40 Gbps fill 25000 bytes in 5 us", got)
	}
}

// The form of HPCC's and PowerTCP's simulations: marks on acknowledgements count; a cut comes
// at the end of a span of 4 us in which there was one, alpha moves at the end of each
// microsecond by whether there was one, and a cut that follows another without a rise keeps
// the target.
func TestCutsAndAlphaByTheirTimers(t *testing.T) {
	c := ArtefactConfig()
	c.G = 0.25
	e := mustNew(t, c)
	ack := func(now units.Time, ecn bool) float64 {
		return float64(e.OnAck(&cc.Ack{Now: now, RTT: 5 * us, ECN: ecn}).Rate)
	}
	const start = 100 * us
	if e.OnCNP(us); e.Control().Rate != 40*units.Gbps {
		t.Fatalf("a notification counts: %v", e.Control().Rate)
	}
	if got := ack(start, true); got != 40e9 {
		t.Fatalf("the first mark cuts at once, to %v", got)
	}
	if got := ack(start+4*us-1, false); got != 40e9 {
		t.Fatalf("the rate is %v before the span ends", got)
	}
	// The first mark sets alpha to 1 and does not raise it: it falls four times.
	alpha := math.Pow(0.75, 4)
	rate := 40e9 * (1 - alpha/2)
	if got := ack(start+4*us, false); !near(got, rate) || e.s.target != 40e9 {
		t.Fatalf("the rate is %v, want %v; the target %v", got, rate, e.s.target)
	}
	// No mark, no cut. Then one in the third span, seen late, and alpha rises once.
	ack(start+8*us, false)
	ack(start+9*us+us/2, true)
	alpha *= math.Pow(0.75, 5)                // to 9 us
	alpha = (0.75*alpha + 0.25) * 0.75 * 0.75 // to 12
	rate *= 1 - alpha/2
	if got := ack(start+30*us, false); !near(got, rate) || e.s.target != 40e9 {
		t.Fatalf("the rate is %v, want %v; the target %v, which no rise has come before", got, rate, e.s.target)
	}
	// The timer of 900 us began with that cut, at 12 us: half of the way, then 50 Mbps more,
	// then 100, the timer alone deciding.
	rate = (rate + 40e9) / 2
	if got := ack(start+912*us, false); !near(got, rate) {
		t.Fatalf("after a rise the rate is %v, want %v", got, rate)
	}
	e.s.target, e.s.rate = 10e9, 8e9
	ack(start+1812*us, false)
	if e.s.target != 10.05e9 {
		t.Errorf("the second rise aims at %v", e.s.target)
	}
	ack(start+2712*us, false)
	if e.s.target != 10.15e9 {
		t.Errorf("the third rise aims at %v", e.s.target)
	}
	// A cut after a rise takes the rate before it for target.
	ack(start+2713*us, true)
	before := e.s.rate
	if ack(start+2720*us, false); e.s.target != before || e.s.rate >= before {
		t.Errorf("after a cut of %v the target is %v", before, e.s.target)
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig, func(c *Config) { c.G, c.FastRecovery, c.Window = 1, 0, true })
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	refuses("dcqcn: g is .* choose", func(c *Config) { c.G = 0 }, func(c *Config) { c.G = 1.1 }, func(c *Config) { c.G = math.NaN() })
	refuses("dcqcn: alpha_timer is .* choose", func(c *Config) { c.AlphaTimer = 0 }, func(c *Config) { c.AlphaTimer = units.Never })
	refuses("dcqcn: increase_timer is .* choose", func(c *Config) { c.IncreaseTimer = 0 }, func(c *Config) { c.IncreaseTimer = units.Never })
	refuses("dcqcn: cut_interval is .* choose", func(c *Config) { c.CutInterval = 1 }, func(c *Config) { c.CutInterval = units.Never })
	refuses("dcqcn: byte_counter is .* choose", func(c *Config) { c.ByteCounter = 1 })
	refuses("dcqcn: fast_recovery is .* choose", func(c *Config) { c.FastRecovery = -1 }, func(c *Config) { c.FastRecovery = 1001 })
	refuses("dcqcn: additive_increase is .* choose", func(c *Config) { c.AdditiveIncrease = 0 })
	refuses("dcqcn: hyper_increase is .* choose", func(c *Config) { c.HyperIncrease = -1 })
	refuses("dcqcn: min_rate is .* choose", func(c *Config) { c.MinRate = 0 })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
	c := DefaultConfig()
	c.MinRate = 41 * units.Gbps
	if _, err := New(c, testEnv); err == nil {
		t.Error("New accepted a min_rate above the line rate")
	}
}

func ExampleNew() {
	e, err := New(DefaultConfig(), testEnv)
	if err != nil {
		panic(err)
	}
	fmt.Println("start:", e.Control().Rate)
	fmt.Println("a notification:", e.OnCNP(0).Rate)
	for i := range units.Time(3) {
		c := e.OnAck(&cc.Ack{Now: (i + 1) * 55 * us, RTT: 5 * us})
		fmt.Println("a timer:", c.Rate)
	}
	// Output:
	// start: 40Gbps
	// a notification: 20Gbps
	// a timer: 30Gbps
	// a timer: 35Gbps
	// a timer: 37.5Gbps
}
