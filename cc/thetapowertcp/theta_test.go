package thetapowertcp

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

var testEnv = cc.Env{LineRate: 25 * units.Gbps, BaseRTT: 20 * us, MTU: 1000} // 62,500 bytes

func mustNew(t testing.TB, c Config, env cc.Env) *engine {
	t.Helper()
	e, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*engine)
}

func near(got, want, within float64) bool { return math.Abs(got-want) <= within*math.Abs(want) }

func TestConforms(t *testing.T) {
	paper := func(c *Config) { c.MinCurrent = 0 }
	for name, change := range map[string]func(*Config){"default": func(*Config) {}, "the paper's": paper} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New: func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				// Equation 7 never goes below beta, whose rate is HostBw / N.
				MinRate: func(env cc.Env) units.Rate { return env.LineRate/100 - 1 },
			})
		})
	}
}

// Section 3.5: with the bottleneck at its full rate, (1 + theta') theta / tau
// is PowerTCP's normalised power, (q' + b)(q + b tau) / (b^2 tau), where theta
// is q/b + tau.
func TestEquation8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.Float64Range(1e9, 1e12).Draw(t, "b")      // bits per second
		tau := rapid.Float64Range(1e-6, 1e-3).Draw(t, "tau") // seconds
		q := rapid.Float64Range(0, 30).Draw(t, "q") * b * tau
		dq := rapid.Float64Range(-1, 30).Draw(t, "q'") * b
		dt := 1e-3 * tau
		theta, before := q/b+tau, (q-dq*dt)/b+tau
		const ps = 1e12
		got := power(theta*ps, before*ps, dt*ps, tau*ps, 0)
		want := (dq + b) * (q + b*tau) / (b * b * tau)
		if math.Abs(got-want) > 1e-6*(1+want) {
			t.Fatalf("power %v, want %v", got, want)
		}
	})
}

func TestPower(t *testing.T) {
	for _, c := range []struct {
		name                      string
		rtt, prevRTT, dt, minimum float64
		want                      float64
	}{
		{"no queue, no change", 20, 20, 5, 0, 1},
		{"a standing queue of one BDP", 40, 40, 5, 0, 2},
		{"one that grows at the link's rate", 40, 35, 5, 0, 4},
		{"one that drains as fast as it can", 40, 45, 5, 0, 0},
		{"faster than it can: other senders' packets came in between", 40, 60, 5, 0, 0},
		{"the same with a floor", 40, 60, 5, 0.5, 1},
	} {
		if got := power(c.rtt, c.prevRTT, c.dt, 20, c.minimum); !near(got, c.want, 1e-12) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// ack acknowledges n packets in all, m being sent, with this RTT at this time.
func (e *engine) ack(now, rtt units.Time, n, m units.Bytes) cc.Control {
	return e.OnAck(&cc.Ack{Now: now, RTT: rtt, Acked: n * 1000, Sent: m * 1000, Packets: 1, Bytes: 1000})
}

// Line 17: the window changes once a round trip; line 15: the power is taken on
// each acknowledgement.
func TestOneUpdateARoundTrip(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	e.ack(0, 40*us, 1, 63)
	start := e.Control()
	for i := range units.Bytes(61) {
		before := e.smooth
		if got := e.ack(units.Time(i+1)*320*units.Nanosecond, 40*us, 2+i, 64+i); got != start {
			t.Fatalf("packet %d of 63 changed the control to %+v", 2+i, got)
		}
		if e.smooth <= before {
			t.Fatalf("packet %d left the power at %v", 2+i, before)
		}
	}
	if got := e.ack(62*320*units.Nanosecond, 40*us, 63, 125); got.Rate >= start.Rate {
		t.Errorf("the packet that was last sent at the previous change left the rate at %v", got.Rate)
	}
}

// Algorithm 2 by hand, over two changes: the first knows no gradient, the
// second divides the window before the first (GETCWND) by the power.
func TestUpdate(t *testing.T) {
	c := DefaultConfig()
	c.MinCurrent = 0
	e := mustNew(t, c, testEnv)
	const bdp, beta = 62_500.0, 625.0
	e.ack(0, 30*us, 1, 63) // power still 1: min(0.9 (bdp + beta) + 0.1 bdp, bdp)
	if e.Cwnd != bdp {
		t.Fatalf("the first acknowledgement gives a window of %v", e.Cwnd)
	}
	e.ack(5*us, 35*us, 63, 70)
	p1 := (1*15 + 2*35.0/20*5) / 20
	w1 := 0.9*(bdp/p1+beta) + 0.1*bdp
	if !near(e.Cwnd, w1, 1e-9) || !near(e.smooth, p1, 1e-9) {
		t.Fatalf("the second change gives %v at power %v, want %v at %v", e.Cwnd, e.smooth, w1, p1)
	}
	e.ack(50*us, 35*us, 70, 80)
	p2 := 1 * 35.0 / 20 // more than tau later the old power has no weight
	w2 := 0.9*(bdp/p2+beta) + 0.1*w1
	if !near(e.Cwnd, w2, 1e-9) || !near(e.smooth, p2, 1e-9) {
		t.Fatalf("the third change gives %v at power %v, want %v at %v", e.Cwnd, e.smooth, w2, p2)
	}
}

// The artefact's rule: a window by each acknowledgement, from the one of a round trip ago,
// by the flow's own least round trip.
func TestEachAck(t *testing.T) {
	c := DefaultConfig()
	c.EachAck, c.LeastRTT, c.Eta = true, true, 1.05
	e := mustNew(t, c, testEnv)
	start := e.Cwnd
	least := testEnv.BaseRTT / 4
	e.ack(units.Millisecond, least, 1000, 100_000)
	if e.tau != float64(least) {
		t.Fatalf("tau is %v after a round trip of %v", units.Time(e.tau), least)
	}
	e.ack(units.Millisecond+least/2, 2*least, 2000, 101_000) // current 3, voltage 2, for half a tau
	smooth := (1*0.5 + 3*2*0.5)
	want := 0.9*(start/(smooth/1.05)+e.p.beta) + 0.1*start
	if !near(e.Cwnd, want, 1e-9) {
		t.Errorf("the window is %v, want %v", e.Cwnd, want)
	}
	e.ack(units.Millisecond+least, 2*least, 3000, 102_000) // current 1
	smooth = smooth*0.5 + 2*0.5
	if want = 0.9*(start/(smooth/1.05)+e.p.beta) + 0.1*start; !near(e.Cwnd, want, 1e-9) {
		t.Errorf("within the round trip the window is %v, want %v, from the same one", e.Cwnd, want)
	}
}

// With the least round trip the window is what the rate fills in that, as the artefact's
// (RdmaQueuePair::GetWin): in the receiver's rack a window of the topology's longest path
// would let a queue stand that the rate alone never built.
func TestLeastRTTBoundsWhatIsInFlight(t *testing.T) {
	c := DefaultConfig()
	c.EachAck, c.LeastRTT = true, true
	e := mustNew(t, c, testEnv)
	full := e.Control()
	got := e.OnAck(&cc.Ack{Now: units.Millisecond, RTT: testEnv.BaseRTT / 4, Acked: 1000, Sent: 100_000})
	if got.Rate != full.Rate || got.Window < full.Window/4 || got.Window > full.Window/4+testEnv.MTU {
		t.Errorf("a quarter of the base RTT: %+v, want the rate and a quarter of the window of %+v", got, full)
	}
	if e.Control() != got || e.OnTimeout(2*units.Millisecond) != got {
		t.Errorf("a timeout gives %+v, want %+v", e.Control(), got)
	}
}

func TestAcknowledgementsAtOneInstant(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	e.ack(us, 30*us, 1, 63)
	e.ack(us, 90*us, 2, 63)
	if e.smooth != 1 || e.prevRTT != 30*us {
		t.Errorf("the second of two acknowledgements at one instant gave a power of %v", e.smooth)
	}
}

// What a burst of packets takes at the sender's own port is no queue: a
// segment's RTT less its serialisation counts as that of one packet.
func TestSegments(t *testing.T) {
	segment := mustNew(t, DefaultConfig(), testEnv)
	packet := mustNew(t, DefaultConfig(), testEnv)
	port := testEnv.LineRate
	for i := range units.Time(5) {
		wire := port.Serialize(16_000)
		rtt := (20 + i) * us
		a := cc.Ack{Now: i * 10 * us, RTT: rtt - port.Serialize(1000) + wire, NetRTT: rtt - port.Serialize(1000)}
		b := cc.Ack{Now: i * 10 * us, RTT: rtt, NetRTT: rtt - port.Serialize(1000)}
		if s, p := segment.OnAck(&a), packet.OnAck(&b); s != p {
			t.Fatalf("a segment's acknowledgement gives %+v, a packet's %+v", s, p)
		}
	}
}

func link(t testing.TB, c Config, n int) *enginetest.Link {
	l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv, Blind: true}
	for i := range n {
		l.Add(mustNew(t, c, testEnv), units.Time(i)*100*units.Nanosecond)
	}
	return l
}

// Without a queue the power is 1 whatever the link carries, so that spare
// bandwidth is filled by addition alone: expected of equation 8 (section 3.5,
// "relies on slow additive increase"). The window before the latest change is
// one step behind, so that w' = gamma (w - step + beta) + (1-gamma) w: a step is
// gamma beta / (1 + gamma).
func TestSpareBandwidthIsFilledSlowly(t *testing.T) {
	l := link(t, DefaultConfig(), 2)
	l.Flows[1].Stop = 4 * units.Millisecond
	l.Run(4*units.Millisecond + 400*us)
	rate := func() float64 { return l.Flows[0].Engine.Control().Rate.Gbps() }
	first := rate()
	const rounds = 20
	l.Run(l.Now() + rounds*testEnv.BaseRTT)
	if got, want := (rate()-first)/rounds, 0.25*0.9/1.9; !near(got, want, 0.1) {
		t.Errorf("the rate rises by %v Gbps a round trip, want %v", got, want)
	}
}

func TestApplicationLimitedFallsButNeverRises(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	now, n := units.Time(0), units.Bytes(0)
	next := func(rtt units.Time, limited bool) cc.Control {
		now += 40 * us
		n += 1000
		return e.OnAck(&cc.Ack{Now: now, RTT: rtt, Acked: n, Sent: n, AppLimited: limited})
	}
	next(20*us, false)
	low := next(200*us, true)
	if low.Rate >= testEnv.LineRate {
		t.Fatalf("a queue did not lower the rate of an application-limited flow: %v", low.Rate)
	}
	for range 20 {
		if got := next(20*us, true); got.Rate > low.Rate || got.Window > low.Window {
			t.Fatalf("an application-limited flow rose from %+v to %+v", low, got)
		}
	}
	next(20*us, false)
	if got := next(20*us, false); got.Rate <= low.Rate {
		t.Errorf("with data to send it stayed at %v", got.Rate)
	}
}

func TestStartAndBounds(t *testing.T) {
	if got := mustNew(t, DefaultConfig(), testEnv).Control(); got.Window != 63*testEnv.MTU || got.Rate != testEnv.LineRate {
		t.Errorf("a flow starts with %+v, want the line rate and 62,500 bytes in whole packets", got)
	}
	c := DefaultConfig()
	c.MaxWindow = 10_000
	if got := mustNew(t, c, testEnv).Control(); got.Window != 10_000 || got.Rate != 4*units.Gbps {
		t.Errorf("max_window 10000: a flow starts with %+v", got)
	}
	c = DefaultConfig()
	c.BaseRTT = 40 * us
	if got := mustNew(t, c, testEnv).Control(); got.Window != 125_000 || got.Rate != testEnv.LineRate {
		t.Errorf("base_rtt 40us: a flow starts with %+v", got)
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig,
		func(c *Config) { c.Gamma = 1 },
		func(c *Config) { c.MinCurrent = 0 },
		func(c *Config) { c.Flows = 1 },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	nan := math.NaN()
	refuses("theta-powertcp: gamma is .* choose", func(c *Config) { c.Gamma = 0 }, func(c *Config) { c.Gamma = 1.1 }, func(c *Config) { c.Gamma = nan })
	refuses("theta-powertcp: flows is .* choose", func(c *Config) { c.Flows = 0 }, func(c *Config) { c.Flows = nan }, func(c *Config) { c.Flows = math.Inf(1) })
	refuses("theta-powertcp: min_current is .* choose", func(c *Config) { c.MinCurrent = -0.1 }, func(c *Config) { c.MinCurrent = 1 }, func(c *Config) { c.MinCurrent = nan })
	refuses("theta-powertcp: base_rtt is .* choose", func(c *Config) { c.BaseRTT = -1 })
	refuses("theta-powertcp: max_window is .* choose", func(c *Config) { c.MaxWindow = -1 })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

func ExampleNew() {
	e, err := New(DefaultConfig(), cc.Env{
		LineRate: 25 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1000,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("start:", e.Control().Rate, e.Control().Window)
	// One acknowledgement a round trip, as a queue comes and goes.
	now := units.Time(0)
	for i, rtt := range []units.Time{20 * us, 40 * us, 40 * us, 20 * us} {
		now += 40 * us
		acked := units.Bytes(i+1) * 62_500
		c := e.OnAck(&cc.Ack{Now: now, RTT: rtt, Acked: acked, Sent: acked})
		fmt.Printf("RTT %v: %.2f Gbps\n", rtt, c.Rate.Gbps())
	}
	// Output:
	// start: 25Gbps 63KB
	// RTT 20us: 25.00 Gbps
	// RTT 40us: 10.22 Gbps
	// RTT 40us: 12.50 Gbps
	// RTT 20us: 19.88 Gbps
}

func BenchmarkOnAck(b *testing.B) {
	e := mustNew(b, DefaultConfig(), testEnv)
	a := cc.Ack{Bytes: 1000, Packets: 1}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		a.Now += 320 * units.Nanosecond
		a.RTT = testEnv.BaseRTT + units.Time(n&7)*us
		a.Acked += 1000
		a.Sent = a.Acked // each acknowledgement changes the window: the slowest case
		e.OnAck(&a)
	}
}
