package swift

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

// 62.5 packets in flight at line rate. The defaults make the target of a large
// window 25 us and five hops, 30 us.
var testEnv = cc.Env{LineRate: 25 * units.Gbps, BaseRTT: 20 * us, MTU: 1000}

func mustNew(t testing.TB, c Config, env cc.Env) *engine {
	t.Helper()
	e, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*engine)
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Abs(want) }

func at(t testing.TB, cwnd float64) *engine {
	c := DefaultConfig()
	c.InitialCwnd = cwnd
	return mustNew(t, c, testEnv)
}

func TestConforms(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":         func(*Config) {},
		"no flow scaling": func(c *Config) { c.FSRange = 0 },
		"bolder steps":    func(c *Config) { c.AI, c.Beta, c.MaxMDF = 8, 2, 0.9 },
		"PLB":             func(c *Config) { c.PLB = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New: func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				// min_cwnd packets in the largest target.
				MinRate: func(env cc.Env) units.Rate {
					span := max(25*us, env.BaseRTT*5/4) + 5*us + c.FSRange
					return units.Rate(0.001*float64(8*env.MTU)/span.Seconds()) - 1
				},
			})
		})
	}
}

// want is the target of the defaults, in microseconds, as section 3.5 writes it.
func want(cwnd float64, hops int) float64 {
	alpha := 100 / (1/math.Sqrt(0.1) - 1/math.Sqrt(100))
	beta := -alpha / math.Sqrt(100)
	return 25 + float64(hops)*1 + max(0, min(alpha/math.Sqrt(cwnd)+beta, 100))
}

func TestTargetDelay(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	for _, c := range []struct {
		name string
		cwnd float64
		hops int
		want float64
	}{
		{"a large window", 1000, 5, 30},
		{"where flow scaling ends", 100, 5, 30},
		{"ten packets", 10, 5, 30 + 32.65*(0.31623-0.1)},
		{"one packet", 1, 5, 30 + 32.65*0.9},
		{"where it is all of fs_range", 0.1, 5, 130},
		{"a smaller window yet", 0.01, 5, 130},
		{"one hop", 1000, 1, 26},
		{"no hop", 100, 0, 25},
	} {
		got := e.p.targetDelay(c.cwnd, c.hops) / 1e6
		if math.Abs(got-c.want) > 0.01 || !near(got, want(c.cwnd, c.hops)) {
			t.Errorf("%s: %v us, want %v", c.name, got, c.want)
		}
	}
	c := DefaultConfig()
	c.FSRange = 0
	if got := mustNew(t, c, testEnv).p.targetDelay(0.1, 5); got != 30e6 {
		t.Errorf("without flow scaling the target of a small window is %v ps", got)
	}
}

// The target never falls as the window shrinks, and stays within its range.
func TestTargetDelayIsMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(1e-3, 10).Draw(t, "fs_min_cwnd")
		hi := lo * rapid.Float64Range(1.001, 1e6).Draw(t, "fs_max_cwnd in fs_min_cwnd")
		f := newTarget(25e6, 1e6, 100e6, lo, hi)
		a := rapid.Float64Range(1e-4, 1e6).Draw(t, "a")
		b := a * rapid.Float64Range(1, 1e3).Draw(t, "b in a")
		if f.targetDelay(b, 3) > f.targetDelay(a, 3)+1 {
			t.Fatalf("%v packets have a target of %v, %v have %v", a, f.targetDelay(a, 3), b, f.targetDelay(b, 3))
		}
		if got := f.targetDelay(a, 3); got < 28e6 || got > 128e6 {
			t.Fatalf("%v packets have a target of %v", a, got)
		}
	})
}

// Algorithm 1, line by line, from sixteen packets, whose target is
// 30 + 32.65 (1/4 - 1/10) = 34.9 us.
func TestReceiveACK(t *testing.T) {
	target := 30 + 32.653*0.15
	if math.Abs(target-want(16, 5)) > 0.001 {
		t.Fatalf("the target of 16 packets is %v", want(16, 5))
	}
	target = want(16, 5)
	var three telemetry.Stack
	for range 3 {
		three.Push(telemetry.Hop{Rate: units.Gbps})
	}
	const packet = 320 * units.Nanosecond
	for _, c := range []struct {
		name string
		cwnd float64
		a    cc.Ack
		want float64
	}{
		{"below the target: ai/cwnd for a packet", 16, cc.Ack{RTT: 34 * us, Packets: 1}, 16 + 1.0/16},
		{"and for three", 16, cc.Ack{RTT: 34 * us, Packets: 3}, 16 + 3.0/16},
		{"no more than a window's", 16, cc.Ack{RTT: 34 * us, Packets: 100}, 17},
		{"above it: beta of the excess", 16, cc.Ack{RTT: 50 * us, Packets: 1}, 16 * (1 - 0.8*(50-target)/50)},
		{"far above: max_mdf", 16, cc.Ack{RTT: 500 * us, Packets: 1}, 8},
		{"fewer hops, a lower target", 16, cc.Ack{RTT: 34 * us, Packets: 1, Path: &three}, 16 * (1 - 0.8*(34-target+2)/34)},
		{"the driver's own count goes before the records'", 16, cc.Ack{RTT: 34 * us, Packets: 1, Path: &three, Hops: 5}, 16 + 1.0/16},
		{"what the receiver held is not the fabric's", 16, cc.Ack{RTT: 54 * us, Held: 20 * us, Packets: 1}, 16 + 1.0/16},
		{"an empty path says nothing of hops", 16, cc.Ack{RTT: 34 * us, Packets: 1, Path: &telemetry.Stack{}}, 16 + 1.0/16},
		{"a burst's own time is no delay", 16, cc.Ack{RTT: 50 * us, NetRTT: 34*us - packet, Packets: 16}, 17},
		{"application-limited, below", 16, cc.Ack{RTT: 34 * us, Packets: 1, AppLimited: true}, 16},
		{"application-limited, above", 16, cc.Ack{RTT: 500 * us, Packets: 1, AppLimited: true}, 8},
		{"no RTT", 16, cc.Ack{Packets: 1}, 16},
		{"marks and hop delays do not count", 16, cc.Ack{RTT: 34 * us, Packets: 1, ECN: true, HasMaxDelay: true, MaxHopDelay: units.Second}, 16 + 1.0/16},
		{"below one packet: ai for a packet", 0.5, cc.Ack{RTT: 40 * us, Packets: 1}, 1.5},
		{"the same above its target", 0.5, cc.Ack{RTT: 100 * us, Packets: 1}, 0.5 * (1 - 0.8*(100-want(0.5, 5))/100)},
	} {
		e := at(t, c.cwnd)
		c.a.Now = units.Millisecond
		got := e.OnAck(&c.a)
		if !near(e.Cwnd, c.want) {
			t.Errorf("%s: the window is %v, want %v", c.name, e.Cwnd, c.want)
		}
		if e.Cwnd >= 1 && (got.Rate != testEnv.LineRate || got.Window != units.Bytes(e.Cwnd*1000)) {
			t.Errorf("%s: %v packets are %+v, want them without pacing", c.name, e.Cwnd, got)
		}
	}
	// On the target itself the window does not grow (line 7: below).
	e := at(t, 16)
	exact := units.Time(e.p.targetDelay(16, 5)) + 1 // a picosecond more than its fraction
	if e.OnAck(&cc.Ack{RTT: exact, Packets: 1}); e.Cwnd > 16 {
		t.Errorf("on its target the window grew to %v", e.Cwnd)
	}
}

// Section 3.3: two windows, of which the smaller holds. What the receiving end holds a
// packet for moves the second one against its own target, by the same law.
func TestEndpointWindow(t *testing.T) {
	c := DefaultConfig()
	c.InitialCwnd, c.EndpointTarget = 16, 10*us
	e := mustNew(t, c, testEnv)
	// On the target; the fabric's 20 us are below its.
	got := e.OnAck(&cc.Ack{Now: units.Millisecond, RTT: 30 * us, Held: 10 * us, Packets: 1, Hops: 5})
	if !near(e.Cwnd, 16+1.0/16) || e.endpoint.Cwnd != 16 || got.Window != 16*1000 {
		t.Errorf("on the target the windows are %v and %v, of which %v holds", e.Cwnd, e.endpoint.Cwnd, got.Window)
	}
	got = e.OnAck(&cc.Ack{Now: 2 * units.Millisecond, RTT: 35 * us, Held: 15 * us, Packets: 1, Hops: 5})
	if want := 16 * (1 - 0.8*5/15.0); !near(e.endpoint.Cwnd, want) || got.Window != units.Bytes(want*1000) || e.Cwnd < 16.1 {
		t.Errorf("above it they are %v and %v, of which %v holds, expected %v", e.Cwnd, e.endpoint.Cwnd, got.Window, want)
	}
	// A loss is the fabric's; its window is then the smaller one.
	if got := e.OnLoss(3 * units.Millisecond); got.Window != units.Bytes(e.Cwnd*1000) || e.Cwnd > 8.1 || e.endpoint.Cwnd < 10 {
		t.Errorf("after a loss the windows are %v and %v, of which %v holds", e.Cwnd, e.endpoint.Cwnd, got.Window)
	}
	// More held than the whole round trip can't be, and leaves no delay for the fabric.
	if e.OnAck(&cc.Ack{Now: 4 * units.Millisecond, RTT: 10 * us, Held: units.Second, Packets: 1}); e.delay != 1 || e.held != 10*us {
		t.Errorf("the fabric's delay is %v, what is held %v", e.delay, e.held)
	}
}

// Without a word of the receiver's end the fabric's window is the smaller one, always.
func TestEndpointWindowIsNoBoundWhereNothingIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		c.InitialCwnd = rapid.Float64Range(0.01, 70).Draw(t, "initial")
		e, err := New(c, testEnv)
		if err != nil {
			t.Fatal(err)
		}
		s, now := e.(*engine), units.Time(0)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now += units.Time(rapid.Int64Range(0, int64(100*us)).Draw(t, "gap"))
			a := cc.Ack{Now: now, RTT: units.Time(rapid.Int64Range(0, int64(200*us)).Draw(t, "rtt")), Packets: rapid.Int32Range(1, 100).Draw(t, "packets")}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				e.OnLoss(now)
			case 1:
				e.OnTimeout(now)
			default:
				e.OnAck(&a)
			}
			if s.endpoint.Cwnd < s.Cwnd || e.Control() != s.Packets.Control() {
				t.Fatalf("the endpoint's window is %v, the fabric's %v", s.endpoint.Cwnd, s.Cwnd)
			}
		}
	})
}

// Line 3: decreases at most once a round trip, counted from the last one, by
// whatever cause. Acknowledgements in between do not put the next one off.
func TestDecreasesOnceARoundTrip(t *testing.T) {
	e := at(t, 30)
	above := func(now units.Time) float64 {
		e.OnAck(&cc.Ack{Now: now, RTT: 50 * us, Packets: 1})
		return e.Cwnd
	}
	first := above(1000 * us)
	if first >= 30 {
		t.Fatal("the first did not decrease")
	}
	for now := 1001 * us; now < 1050*us; now += us {
		if got := above(now); got != first {
			t.Fatalf("%v after a decrease there is another", now-1000*us)
		}
	}
	second := above(1050 * us)
	if second >= first {
		t.Fatal("a round trip later there is no decrease")
	}
	e.OnLoss(1100 * us)
	if e.Cwnd != second/2 {
		t.Errorf("a loss a round trip later gives %v, want max_mdf of %v", e.Cwnd, second)
	}
	for range DefaultConfig().RetxResetThreshold {
		e.OnTimeout(1200 * us)
	}
	if e.Cwnd != e.Least {
		t.Errorf("retx_reset_threshold timeouts leave %v, want min_cwnd", e.Cwnd)
	}
}

// Below one packet, rtt/cwnd between packets.
func TestPacing(t *testing.T) {
	e := at(t, 0.25)
	// A longer round trip slows it down; a shorter one may not speed it up when
	// the application holds the flow.
	slow := e.OnAck(&cc.Ack{RTT: 70 * us, Packets: 1, AppLimited: true})
	if want := 0.25 * 8000 / 70e-6 / 1e6; !near(float64(slow.Rate)/1e6, want) && math.Abs(float64(slow.Rate)/1e6-want) > 1e-5 {
		t.Errorf("in 70 us it is %v, want %v Mbps", slow.Rate, want)
	}
	if got := e.OnAck(&cc.Ack{RTT: 20 * us, Packets: 1, AppLimited: true}); got != slow {
		t.Errorf("application-limited, the control went from %+v to %+v", slow, got)
	}
	if got := e.OnAck(&cc.Ack{Packets: 1}); got != slow {
		t.Errorf("without a signal the control went from %+v to %+v", slow, got)
	}
	// A round trip of seconds leaves min_cwnd in the largest target: 8 bits in
	// 130 us.
	if got := e.OnAck(&cc.Ack{RTT: units.Second, Packets: 1}); got.Rate != units.Rate(61538) {
		t.Errorf("after a round trip of a second the rate is %v", got.Rate)
	}
}

// settled runs n flows on one link of testEnv's rate, and returns the mean delay
// that acknowledgements met, in us, the use of the link, and each flow's share of
// what it carried.
func settled(t *testing.T, n int, env cc.Env) (delay, use float64, shares []float64) {
	l := &enginetest.Link{Rate: env.LineRate, Env: env, Blind: true}
	for i := range n {
		c := DefaultConfig()
		c.InitialCwnd = []float64{0, 1, 40}[i%3]
		l.Add(mustNew(t, c, env), units.Time(i)*us/10)
	}
	const settle, span = 20 * units.Millisecond, 10 * units.Millisecond
	l.Run(settle)
	acked := make([]units.Bytes, n)
	for i, f := range l.Flows {
		acked[i] = f.Acked
	}
	busy, samples := l.Sent(), 0
	for l.Now() < settle+span {
		l.Run(l.Now() + 10*us)
		for _, f := range l.Flows {
			delay += f.LastRTT.Microseconds()
			samples++
		}
	}
	carried := l.Sent() - busy
	for i, f := range l.Flows {
		shares = append(shares, float64(f.Acked-acked[i])/float64(carried))
	}
	return delay / float64(samples), units.RateOf(carried, span).Gbps() / env.LineRate.Gbps(), shares
}

// n flows on one link settle where the delay is the target of the window that is
// their share in that delay.
func TestHoldsTheDelayAtItsTarget(t *testing.T) {
	for _, n := range []int{2, 5, 20, 200} {
		delay, use, shares := settled(t, n, testEnv)
		target := 30.0
		for range 100 {
			target = want(25e9/8*target*1e-6/1000/float64(n), 5)
		}
		if math.Abs(delay-target) > 0.06*target {
			t.Errorf("%d flows: the delay is %.1f us, the target of their share %.1f", n, delay, target)
		}
		if use < 0.99 {
			t.Errorf("%d flows: the link is used %.3f", n, use)
		}
		for i, s := range shares {
			if math.Abs(s*float64(n)-1) > 0.06 {
				t.Errorf("%d flows: flow %d has %.3f of its share", n, i, s*float64(n))
			}
		}
	}
}

// What the way back adds counts as if the flow met it on its own way (the
// weakness that Poseidon's section 2.1.3 shows): the window shrinks until flow
// scaling makes up for it.
func TestReverseCongestion(t *testing.T) {
	l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv, Extra: 25 * us, Blind: true}
	f := l.Add(mustNew(t, DefaultConfig(), testEnv), 0)
	l.Run(5 * units.Millisecond)
	before := f.Acked
	l.Run(15 * units.Millisecond)
	got := units.RateOf(f.Acked-before, 10*units.Millisecond).Gbps()
	// 30 + 32.65 (1/sqrt(cwnd) - 1/10) = 45 us.
	cwnd := math.Pow(1/(15/32.653+0.1), 2)
	if want := cwnd * 8000 / 45e-6 / 1e9; math.Abs(got-want) > 0.1*want {
		t.Errorf("with 25 us on the way back the flow has %v Gbps of 25, want what %.1f packets in 45 us are, %v", got, cwnd, want)
	}
}

func TestDefaultsOfTheEnvironment(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	if got := e.Control(); got.Rate != testEnv.LineRate || got.Window != 62_500 {
		t.Errorf("a flow starts with %+v, want the line rate and 62,500 bytes", got)
	}
	if want := 25e9 * 30e-6 / 8000; !near(e.Most, want) {
		t.Errorf("max_cwnd is %v, want what the line rate fills in 30 us, %v", e.Most, want)
	}
	for rtt, base := range map[units.Time]units.Time{us: 25 * us, 20 * us: 25 * us, 24 * us: 30 * us, 400 * us: 500 * us} {
		env := testEnv
		env.BaseRTT = rtt
		if got := mustNew(t, DefaultConfig(), env).p.base; got != float64(base) {
			t.Errorf("for a base RTT of %v the base target is %v, want %v", rtt, units.Time(got), base)
		}
	}
	c := DefaultConfig()
	c.BaseTarget = 10 * us
	if got := mustNew(t, c, testEnv).p.base; got != float64(10*us) {
		t.Errorf("a base target of 10us is taken as %v", units.Time(got))
	}
	// A window is at least a packet where neither the configuration nor
	// congestion asks for less.
	env := cc.Env{LineRate: units.Gbps, BaseRTT: us, MTU: 4096}
	if got := mustNew(t, DefaultConfig(), env); got.Cwnd != 1 || got.Most != 1 {
		t.Errorf("at 1 Gbps a flow starts with %v packets of at most %v", got.Cwnd, got.Most)
	}
	c = DefaultConfig()
	c.MinCwnd = 1e6
	if _, err := New(c, testEnv); err == nil {
		t.Error("a min_cwnd above the derived max_cwnd was accepted")
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig,
		func(c *Config) { c.BaseTarget, c.HopScale, c.Hops, c.FSRange = us, 0, 0, 0 },
		func(c *Config) { c.MinCwnd, c.MaxCwnd, c.InitialCwnd = 0.001, 100, 10 },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	nan, inf := math.NaN(), math.Inf(1)
	refuses("swift: base_target is .* choose", func(c *Config) { c.BaseTarget = -1 })
	refuses("swift: hop_scale is .* choose", func(c *Config) { c.HopScale = -1 })
	refuses("swift: hops is .* choose", func(c *Config) { c.Hops = -1 }, func(c *Config) { c.Hops = 256 })
	refuses("swift: fs_range is .* choose", func(c *Config) { c.FSRange = -1 })
	refuses("swift: endpoint_target is .* choose", func(c *Config) { c.EndpointTarget = -1 })
	refuses("swift: (base_target|endpoint_target|hop_scale|fs_range) is never: choose a positive span up to 1s", func(c *Config) { c.EndpointTarget = units.Never }, func(c *Config) { c.BaseTarget = units.Never }, func(c *Config) { c.HopScale = units.Never }, func(c *Config) { c.FSRange = units.Never })
	refuses("swift: fs_min_cwnd is .* choose", func(c *Config) { c.FSMinCwnd = 0 }, func(c *Config) { c.FSMinCwnd = nan }, func(c *Config) { c.FSMinCwnd = inf })
	refuses("swift: fs_max_cwnd .* choose more than fs_min_cwnd", func(c *Config) { c.FSMaxCwnd = 0.1 }, func(c *Config) { c.FSMaxCwnd = math.Nextafter(0.1, 1) })
	refuses("swift: fs_max_cwnd is .* choose", func(c *Config) { c.FSMaxCwnd = nan }, func(c *Config) { c.FSMaxCwnd = inf })
	refuses("swift: ai is .* choose", func(c *Config) { c.AI = 0 }, func(c *Config) { c.AI = nan }, func(c *Config) { c.AI = inf })
	refuses("swift: beta is .* choose", func(c *Config) { c.Beta = 0 }, func(c *Config) { c.Beta = nan }, func(c *Config) { c.Beta = inf })
	refuses("swift: max_mdf is .* choose", func(c *Config) { c.MaxMDF = 0 }, func(c *Config) { c.MaxMDF = 1 }, func(c *Config) { c.MaxMDF = nan })
	refuses("swift: min_cwnd is .* choose", func(c *Config) { c.MinCwnd = 0 }, func(c *Config) { c.MinCwnd = nan }, func(c *Config) { c.MinCwnd = inf })
	refuses("swift: max_cwnd is .* choose", func(c *Config) { c.MaxCwnd = -1 }, func(c *Config) { c.MaxCwnd = 2e9 })
	refuses("swift: max_cwnd .* choose at least min_cwnd", func(c *Config) { c.MinCwnd, c.MaxCwnd = 2, 1 })
	refuses("swift: initial_cwnd is .* choose", func(c *Config) { c.InitialCwnd = -1 }, func(c *Config) { c.InitialCwnd = inf })
	refuses("swift: retx_reset_threshold is .* choose", func(c *Config) { c.RetxResetThreshold = 0 })
	refuses("swift: plb_share is .* choose", func(c *Config) { c.PLBShare = 0 }, func(c *Config) { c.PLBShare = 1.1 }, func(c *Config) { c.PLBShare = nan })
	refuses("swift: plb_idle_rounds is .* choose", func(c *Config) { c.PLBIdleRounds = -1 }, func(c *Config) { c.PLBIdleRounds = 2 << 20 })
	refuses("swift: plb_rounds is .* choose", func(c *Config) { c.PLBRounds = -1 }, func(c *Config) { c.PLBRounds = 2 << 20 })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

func ExampleNew() {
	e, err := New(DefaultConfig(), cc.Env{
		LineRate: 200 * units.Gbps, BaseRTT: 6 * units.Microsecond, MTU: 4096,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("start:", e.Control().Window)
	// No queue; then more than the target, once acted on in a round trip; then
	// none again.
	now := units.Time(0)
	for _, rtt := range []units.Time{6 * us, 60 * us, 60 * us, 6 * us} {
		now += 30 * us
		c := e.OnAck(&cc.Ack{Now: now, RTT: rtt, Packets: 1})
		fmt.Printf("delay %v: %v\n", rtt, c.Window)
	}
	// Output:
	// start: 150KB
	// delay 6us: 150111B
	// delay 60us: 94327B
	// delay 60us: 94327B
	// delay 6us: 94505B
}
