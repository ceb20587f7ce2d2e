package timely

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

var testEnv = cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 20 * us, MTU: 1024}

func mustNew(t testing.TB, c Config, env cc.Env) cc.Engine {
	t.Helper()
	e, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// feed gives the engine completions of these RTTs and returns the last rate.
func feed(e cc.Engine, rtts ...units.Time) units.Rate {
	r := e.Control().Rate
	for _, rtt := range rtts {
		r = e.OnAck(&cc.Ack{NetRTT: rtt, Scale: 1}).Rate
	}
	return r
}

func TestConforms(t *testing.T) {
	whole := func(c *Config) { c.MaxDecrease = 1 }
	patched := func(c *Config) { c.Patched = true }
	artefact := func(c *Config) { *c = ArtefactConfig() }
	for name, change := range map[string]func(*Config){"default": func(*Config) {}, "unbounded": whole, "patched": patched, "artefact": artefact} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New:     func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				MinRate: func(cc.Env) units.Rate { return 100 * units.Mbps },
			})
		})
	}
}

// Each row restates a branch of Algorithm 1 on its own: alpha 0.875, beta 0.8,
// delta 10 Mbps, Tlow 50 us, Thigh 500 us, minimum RTT 20 us, from 1 Gbps.
func TestBranches(t *testing.T) {
	const R, d = 1e9, 10e6
	cut := func(gradient float64) float64 { return 1 - 0.8*gradient }
	for _, c := range []struct {
		name   string
		change func(*Config)
		rtts   []units.Time
		want   float64
	}{
		{"below Tlow: additive", nil, []units.Time{49 * us}, R + d},
		{"below Tlow although the RTT rises", nil, []units.Time{20 * us, 49 * us}, R + 2*d},
		{"at Tlow the gradient decides", nil, []units.Time{70 * us, 50 * us}, R + 2*d},
		{"the first completion has no gradient", nil, []units.Time{300 * us}, R + d},
		{"no change of RTT: additive", nil, []units.Time{300 * us, 300 * us}, R + 2*d},
		{"falling RTT: additive", nil, []units.Time{300 * us, 250 * us}, R + 2*d},
		{"rising RTT: by the gradient", nil, []units.Time{300 * us, 302 * us}, (R + d) * cut(0.875*2/20)},
		{
			"the average keeps an eighth of the past", nil, []units.Time{300 * us, 302 * us, 301 * us},
			(R+d)*cut(0.875*2/20) + d,
		},
		{
			"and so may still rise when the RTT no longer does", nil, []units.Time{300 * us, 302 * us, 302 * us},
			(R + d) * cut(0.875*2/20) * cut(0.125*0.875*2/20),
		},
		{"at Thigh the gradient decides", nil, []units.Time{500 * us, 500 * us}, R + 2*d},
		{"just above it the excess does", nil, []units.Time{501 * us}, R * (1 - 0.8*(1-500.0/501))},
		{"above Thigh: by the excess", nil, []units.Time{600 * us}, R * (1 - 0.8*(1-500.0/600))},
		{"above Thigh although the RTT falls", nil, []units.Time{900 * us, 800 * us}, R * (1 - 0.8*(1-500.0/900)) * (1 - 0.8*(1-500.0/800))},
		{"a gradient above 1/beta would go below zero", nil, []units.Time{300 * us, 340 * us}, 100e6},
		{"unless a completion may take half at most", func(c *Config) { c.MaxDecrease = 0.5 }, []units.Time{300 * us, 340 * us}, (R + d) / 2},
		{
			"Tlow = Thigh is the queue-size scheme of section 4.4", func(c *Config) { c.TLow = c.THigh },
			[]units.Time{499 * us, 400 * us, 1000 * us}, (R + 2*d) * (1 - 0.8*(1-500.0/1000)),
		},
		{"the rate ends at the line rate", func(c *Config) { c.Delta = 20 * units.Gbps }, []units.Time{10 * us}, 10e9},
		{"or at max_rate", func(c *Config) { c.MaxRate = 1005 * units.Mbps }, []units.Time{10 * us}, 1005e6},
	} {
		config := DefaultConfig()
		config.InitialRate, config.Alpha, config.MaxDecrease = units.Gbps, 0.875, 1
		if c.change != nil {
			c.change(&config)
		}
		got := feed(mustNew(t, config, testEnv), c.rtts...)
		if math.Abs(float64(got)-c.want) > 2 {
			t.Errorf("%s: %v gives %d, want %.1f", c.name, c.rtts, got, c.want)
		}
	}
}

// Section 4.3: after five negative gradients in a row a step is five times as
// large; one gradient that is not negative ends it.
func TestHyperactiveIncrease(t *testing.T) {
	for _, steps := range []int{5, 1} {
		c := DefaultConfig()
		c.Alpha = 1 // the gradient is the last difference
		c.InitialRate = units.Gbps
		c.HAISteps = steps
		e := mustNew(t, c, testEnv)
		rtt, last := 400*us, c.InitialRate
		step := func(change units.Time, want int) {
			t.Helper()
			rtt += change
			got := feed(e, rtt)
			if want := units.Rate(want) * c.Delta; got-last != want {
				t.Errorf("hai_steps %d: RTT %v (%v) raised the rate by %v, want %v", steps, rtt, change, got-last, want)
			}
			last = got
		}
		step(0, 1)
		for range 4 {
			step(-us, 1)
		}
		step(-us, steps) // the fifth
		step(-us, steps)
		step(0, 1) // a gradient of zero is not negative
		for range 4 {
			step(-us, 1)
		}
		step(-us, steps)
	}
}

// The counter runs on every completion, as the gradient does, though below Tlow
// no branch looks at it.
func TestHyperactiveCountsBelowTLow(t *testing.T) {
	c := DefaultConfig()
	c.Alpha = 0.5
	c.InitialRate = units.Gbps
	e := mustNew(t, c, testEnv)
	// Average differences: 0, -10, -16, -8.5, -4.75, -0.375.
	got := feed(e, 90*us, 70*us, 48*us, 47*us, 46*us)
	if want := units.Gbps + 5*c.Delta; got != want {
		t.Fatalf("four falls, three of them below Tlow, give %v, want %v", got, want)
	}
	if got, want := feed(e, 50*us), units.Gbps+10*c.Delta; got != want {
		t.Errorf("the fifth, back in the zone, gives %v, want a step of five to %v", got, want)
	}
}

// Section 5: completions that share a minimum RTT share an update.
func TestScaledUpdatesAddUp(t *testing.T) {
	c := DefaultConfig()
	c.InitialRate = units.Gbps
	whole, parts := mustNew(t, c, testEnv), mustNew(t, c, testEnv)
	feed(whole, 30*us)
	for range 8 {
		parts.OnAck(&cc.Ack{NetRTT: 30 * us, Scale: 0.125})
	}
	if w, p := whole.Control().Rate, parts.Control().Rate; w != p {
		t.Errorf("a whole update gives %v, eight eighths %v", w, p)
	}
	// A decrease is a product: eighths of it take a little less.
	feed(whole, 1000*us)
	for range 8 {
		parts.OnAck(&cc.Ack{NetRTT: 1000 * us, Scale: 0.125})
	}
	want := 1.01e9 * math.Pow(1-0.8*0.5/8, 8)
	if got := float64(parts.Control().Rate); math.Abs(got-want) > 10 {
		t.Errorf("eight eighths of a decrease give %v, want %v", got, want)
	}
}

func TestApplicationLimitedFallsButNeverRises(t *testing.T) {
	c := DefaultConfig()
	c.InitialRate = units.Gbps
	e := mustNew(t, c, testEnv)
	if got := e.OnAck(&cc.Ack{NetRTT: 10 * us, Scale: 1, AppLimited: true}).Rate; got != units.Gbps {
		t.Errorf("it rose to %v", got)
	}
	if got := e.OnAck(&cc.Ack{NetRTT: 1000 * us, Scale: 1, AppLimited: true}).Rate; got >= units.Gbps {
		t.Errorf("it did not fall: %v", got)
	}
}

// Zhu et al., section 4.3: w is 0 up to -1/4, 1 from 1/4, and 2g + 1/2 between.
func TestPatchedWeight(t *testing.T) {
	for g, want := range map[float64]float64{-5: 0, -0.25: 0, -0.125: 0.25, 0: 0.5, 0.125: 0.75, 0.25: 1, 5: 1} {
		if got := weight(g); got != want {
			t.Errorf("w(%v) = %v, want %v", g, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(-1, 1).Draw(t, "a")
		b := rapid.Float64Range(-1, 1).Draw(t, "b")
		if wa, wb := weight(min(a, b)), weight(max(a, b)); wa > wb || wa < 0 || wb > 1 {
			t.Fatalf("w(%v) = %v and w(%v) = %v", min(a, b), wa, max(a, b), wb)
		}
	})
}

// Zhu et al., Algorithm 2: delta (1-w) + R (1 - beta w (RTT-ref)/ref).
func TestPatchedStep(t *testing.T) {
	c := DefaultConfig()
	c.Patched, c.Alpha, c.InitialRate, c.RTTRef = true, 1, units.Gbps, 100*us
	const R, d, beta = 1e9, 10e6, 0.008
	for _, s := range []struct {
		name string
		rtts []units.Time
		want float64
	}{
		{"no gradient, at the reference", []units.Time{100 * us}, d/2 + R},
		{"no gradient, above it", []units.Time{300 * us}, d/2 + R*(1-beta*0.5*2)},
		{"no gradient, below it", []units.Time{60 * us}, d/2 + R*(1+beta*0.5*0.4)},
		{"falling fast", []units.Time{300 * us, 200 * us}, d + d/2 + R*(1-beta*0.5*2)},
		{"rising fast", []units.Time{100 * us, 200 * us}, (d/2 + R) * (1 - beta)},
		{"below Tlow as before", []units.Time{40 * us}, R + d},
		{"above Thigh as before", []units.Time{1000 * us}, R * (1 - 0.8*0.5)},
	} {
		if got := feed(mustNew(t, c, testEnv), s.rtts...); math.Abs(float64(got)-s.want) > 2 {
			t.Errorf("%s: %v gives %d, want %.1f", s.name, s.rtts, got, s.want)
		}
	}
}

// The fixed point of Zhu et al., from the step above with no gradient: the RTT
// stands delta/(beta R) above its reference, R being the fair share. It holds
// whatever the rates that flows start with.
func TestPatchedHasAFairFixedPoint(t *testing.T) {
	const n = 8
	env := cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 20 * us, MTU: 4096}
	l := enginetest.Link{Rate: 10 * units.Gbps, Env: env}
	for i := range n {
		c := DefaultConfig()
		c.Patched = true
		c.InitialRate = units.Rate(i+1) * 300 * units.Mbps
		l.Add(mustNew(t, c, env), 0)
	}
	l.Run(400 * units.Millisecond)
	share := 10e9 / n
	want := 50 * (1 + 10e6/(0.008*share)) // microseconds
	serial := env.LineRate.Serialize(env.MTU)
	for i, f := range l.Flows {
		if r := float64(f.Engine.Control().Rate); math.Abs(r-share) > 0.05*share {
			t.Errorf("flow %d has %v of a fair share of %v", i, f.Engine.Control().Rate, units.Rate(share))
		}
		if rtt := (f.LastRTT - serial).Microseconds(); math.Abs(rtt-want) > 0.1*want {
			t.Errorf("flow %d has an RTT of %v us, the fixed point is %v", i, rtt, want)
		}
	}
}

// Two runs of plain TIMELY that differ in where flows start: both fill the link
// within bounds. (It has no unique equilibrium, so no queue length is asked
// for.)
func TestFillsTheLinkBelowTHigh(t *testing.T) {
	for _, start := range []units.Rate{0, 100 * units.Mbps} {
		env := cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 20 * us, MTU: 4096}
		l := enginetest.Link{Rate: 10 * units.Gbps, Env: env}
		for i := range 10 {
			c := DefaultConfig()
			c.InitialRate = start
			l.Add(mustNew(t, c, env), units.Time(i)*3*us)
		}
		l.Run(200 * units.Millisecond)
		before := l.Sent()
		l.Run(300 * units.Millisecond)
		if got := units.RateOf(l.Sent()-before, 100*units.Millisecond); got < 8*units.Gbps {
			t.Errorf("from %v: ten flows carry %v of 10Gbps", start, got)
		}
		if d := l.Delay(); d > 500*us {
			t.Errorf("from %v: the queue is %v long", start, d)
		}
	}
}

func TestOtherSignalsChangeNothing(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	want := e.Control()
	if e.OnLoss(us) != want || e.OnTimeout(us) != want || e.OnCNP(us) != want || want.Window != cc.Unlimited {
		t.Error("a loss, a timeout or a CNP changed the control, or there is a window")
	}
}

func TestDefaultsOfTheEnvironment(t *testing.T) {
	c := DefaultConfig()
	c.MinRTT = 0
	c.Alpha = 1
	env := testEnv
	env.BaseRTT = 40 * us
	c.InitialRate = units.Gbps
	got := feed(mustNew(t, c, env), 300*us, 304*us)
	want := 1.01e9 * (1 - 0.8*4/40)
	if math.Abs(float64(got)-want) > 2 {
		t.Errorf("with the base RTT for a minimum the rate is %v, want %v", float64(got), want)
	}
	if r := mustNew(t, DefaultConfig(), testEnv).Control().Rate; r != testEnv.LineRate {
		t.Errorf("a flow starts at %v, want the line rate", r)
	}
	c = DefaultConfig()
	c.InitialRate, c.MaxRate = 400*units.Gbps, 400*units.Gbps
	if r := mustNew(t, c, testEnv).Control().Rate; r != testEnv.LineRate {
		t.Errorf("max_rate above the line rate: a flow starts at %v", r)
	}
	c.MinRate = 20 * units.Gbps
	if _, err := New(c, testEnv); err == nil {
		t.Error("a min_rate above the line rate was accepted")
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig,
		func(c *Config) { c.TLow = 0 },
		func(c *Config) { c.THigh = c.TLow },
		func(c *Config) { c.MinRTT = 0 },
		func(c *Config) { c.HAISteps = 1 },
		func(c *Config) { c.Patched = true },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	for name, field := range map[string]func(*Config) *float64{
		"beta":         func(c *Config) *float64 { return &c.Beta },
		"alpha":        func(c *Config) *float64 { return &c.Alpha },
		"max_decrease": func(c *Config) *float64 { return &c.MaxDecrease },
		"patched_beta": func(c *Config) *float64 { return &c.PatchedBeta },
	} {
		for _, v := range []float64{0, -1, 1.01, math.NaN(), math.Inf(1)} {
			if v == 0 && name == "alpha" {
				continue // takes the default
			}
			refuses("timely: "+name+" is .* choose", func(c *Config) { *field(c) = v })
		}
	}
	refuses("t_low is", func(c *Config) { c.TLow = -1 })
	refuses("t_high is", func(c *Config) { c.THigh = 0 })
	refuses("t_high .* choose at least t_low", func(c *Config) { c.THigh = 40 * us })
	refuses("delta is", func(c *Config) { c.Delta = 0 })
	refuses("min_rtt is", func(c *Config) { c.MinRTT = -1 })
	refuses("hai_count is", func(c *Config) { c.HAICount = 0 })
	refuses("hai_steps is", func(c *Config) { c.HAISteps = 0 })
	refuses("initial_rate is", func(c *Config) { c.InitialRate = -1 })
	refuses("initial_rate .* choose at least min_rate", func(c *Config) { c.InitialRate = units.Mbps })
	refuses("min_rate is", func(c *Config) { c.MinRate = 0 })
	refuses("max_rate is", func(c *Config) { c.MaxRate = -1 })
	refuses("max_rate .* choose at least min_rate", func(c *Config) { c.MaxRate = units.Mbps })
	refuses("rtt_ref is", func(c *Config) { c.RTTRef = -1 })
	refuses("rtt_ref is 0s: .* t_low is 0 too", func(c *Config) { c.Patched, c.TLow = true, 0 })

	c := DefaultConfig()
	c.Beta = 0
	if _, err := New(c, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

func ExampleNew() {
	e, err := New(DefaultConfig(), cc.Env{
		LineRate: 10 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1024,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("start:", e.Control().Rate)
	// RTTs less the segment's own time on the wire.
	for _, rtt := range []units.Time{60 * us, 64 * us, 700 * us, 45 * us} {
		c := e.OnAck(&cc.Ack{NetRTT: rtt, Scale: 1})
		fmt.Printf("%v: %.2f Gbps\n", rtt, c.Rate.Gbps())
	}
	// Output:
	// start: 10Gbps
	// 60us: 10.00 Gbps
	// 64us: 9.95 Gbps
	// 700us: 7.68 Gbps
	// 45us: 7.69 Gbps
}

func benchmark(b *testing.B, c Config) {
	e := mustNew(b, c, testEnv)
	a := cc.Ack{Scale: 0.5}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		// All branches in turn.
		n++
		a.NetRTT = [8]units.Time{40 * us, 60 * us, 61 * us, 59 * us, 600 * us, 60 * us, 62 * us, 62 * us}[n&7]
		e.OnAck(&a)
	}
}

func BenchmarkOnAck(b *testing.B) { benchmark(b, DefaultConfig()) }

func BenchmarkOnAckPatched(b *testing.B) {
	c := DefaultConfig()
	c.Patched = true
	benchmark(b, c)
}

// Round trips that grew once and are constant from then on, between the thresholds:
// the rate finds out of where it is.
func TestConstantRoundTripsLetTheRateRise(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	feed(e, 100*us, 100*us)
	for range 700 { // the average of their one difference fades away
		feed(e, 300*us)
	}
	before := feed(e, 300*us)
	for range 100 {
		feed(e, 300*us)
	}
	if after := feed(e, 300*us); after <= before {
		t.Errorf("after a hundred equal round trips more %v are allowed, and %v before them", after, before)
	}
}

// A rate that changes once a round trip, as in HPCC's and PowerTCP's simulations: by the
// first acknowledgement of what was sent after the change before, and by the whole step; the
// first round trip has nothing to compare with. Increases in a row count whatever their
// reason, and the larger step holds below Tlow, too.
func TestPerRTT(t *testing.T) {
	c := ArtefactConfig()
	c.InitialRate = units.Gbps
	e := mustNew(t, c, testEnv)
	rate := 1e9
	acked, sent := units.Bytes(0), units.Bytes(10_000)
	// round acknowledges ten packets, which the first decides about.
	round := func(rtt units.Time, want float64) {
		t.Helper()
		for range 10 {
			acked += 1000
			got := e.OnAck(&cc.Ack{RTT: rtt, NetRTT: rtt, Scale: 0.1, Bytes: 1000, Acked: acked, Sent: sent})
			sent += 1000
			if math.Abs(float64(got.Rate)-want) > 2 {
				t.Fatalf("at %v of a round trip of %v the rate is %v, want %.0f", acked, rtt, got.Rate, want)
			}
		}
		rate = want
	}
	round(30*us, rate)
	for range 5 {
		round(30*us, rate+50e6)
	}
	round(30*us, rate+100e6)
	round(32*us, rate+100e6) // below Tlow although it rises
	round(62*us, 100e6)      // a gradient of 1.32, above 1/beta: the least rate
}
