package fast

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

var testEnv = cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 20 * us, MTU: 1000}

func mustNew(t testing.TB, c Config) *engine {
	t.Helper()
	e, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*engine)
}

// The defaults believe the shortest round trip for ten seconds, and one that no
// path has is the shortest: engines that are told such things forget it earlier here.
func TestConforms(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"a short memory": func(c *Config) { c.BaseWindow = 5 * units.Millisecond },
		"a known base":   func(c *Config) { c.BaseRTT = 20 * us },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Alpha = 400 * units.Mbps
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New:     func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				MinRate: func(cc.Env) units.Rate { return c.MinRate },
			})
		})
	}
}

// FAST TCP's equation 2, with the rate for the window.
func TestEquation(t *testing.T) {
	for _, c := range []struct {
		name string
		rate float64
		a    cc.Ack
		want float64
	}{
		{"an empty path: gamma alpha more", 1e9, cc.Ack{RTT: 21 * us, NetRTT: 20 * us, Scale: 1}, 1e9 + 25e6},
		{"half of the round trip in queues", 1e9, cc.Ack{RTT: 41 * us, NetRTT: 40 * us, Scale: 1}, 0.5e9 + 0.5*(0.5e9+50e6)},
		{"a quarter of an update", 1e9, cc.Ack{RTT: 41 * us, NetRTT: 40 * us, Scale: 0.25}, 1e9 - 0.25*(0.5*0.5e9-25e6)},
		{"in balance", 1e9, cc.Ack{RTT: 22 * us, NetRTT: 20 * us * 100 / 95, Scale: 1}, 1e9},
		{"at most twice", 12e6, cc.Ack{RTT: 21 * us, NetRTT: 20 * us, Scale: 1}, 24e6},
		{"application-limited, and it would rise", 1e9, cc.Ack{RTT: 21 * us, NetRTT: 20 * us, Scale: 1, AppLimited: true}, 1e9},
		{"application-limited, and it falls", 1e9, cc.Ack{RTT: 41 * us, NetRTT: 40 * us, Scale: 1, AppLimited: true}, 0.5e9 + 0.5*(0.5e9+50e6)},
		{"no sample", 1e9, cc.Ack{Scale: 1}, 1e9},
		{"the line rate bounds it", 9.99e9, cc.Ack{RTT: 21 * us, NetRTT: 20 * us, Scale: 1}, 10e9},
		{"and min_rate", 10e6, cc.Ack{RTT: units.Second, NetRTT: units.Second, Scale: 1}, 20e6},
	} {
		config := DefaultConfig()
		config.BaseRTT = 20 * us
		e := mustNew(t, config)
		e.s.rate = c.rate
		got := e.OnAck(&c.a)
		if math.Abs(e.s.rate-c.want) > 1e-6*c.want || got.Window != cc.Unlimited {
			t.Errorf("%s: the rate is %v, want %v; %+v", c.name, e.s.rate, c.want, got)
		}
	}
	e := mustNew(t, DefaultConfig())
	if before := e.Control(); before.Rate != testEnv.LineRate || e.OnLoss(us) != before || e.OnTimeout(us) != before || e.OnCNP(us) != before {
		t.Error("a loss, a timeout or a CNP changed the control")
	}
	c := DefaultConfig()
	c.InitialRate = units.Gbps
	if got := mustNew(t, c).Control().Rate; got != units.Gbps {
		t.Errorf("an initial rate of 1 Gbps is %v", got)
	}
}

// The shortest round trip counts for one to two windows of time.
func TestShortest(t *testing.T) {
	var m shortest
	const window = 100 * us
	for _, c := range []struct{ at, rtt, want units.Time }{
		{0, 30, 30}, {10, 40, 30}, {50, 20, 20}, {99, 35, 20},
		{100, 50, 20}, {199, 25, 20}, // the window before
		{200, 60, 25}, {210, 55, 25},
		{1000, 70, 70}, // all of it was long ago
	} {
		if got := m.see(c.at*us, c.rtt*us, window); got != c.want*us {
			t.Errorf("at %d us a round trip of %d us makes %v the shortest, want %d us", c.at, c.rtt, got, c.want)
		}
	}
}

// n flows settle where alpha of each one's rate is in the queue: C (1 - base/RTT) =
// n alpha.
func TestBalance(t *testing.T) {
	for _, n := range []int{1, 5, 20} {
		c := DefaultConfig()
		c.Alpha, c.InitialRate = 100*units.Mbps, 300*units.Mbps
		c.BaseRTT = testEnv.BaseRTT - testEnv.LineRate.Serialize(testEnv.MTU)
		l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv}
		for i := range n {
			l.Add(mustNew(t, c), units.Time(i)*3*us)
		}
		l.Run(60 * units.Millisecond)
		sum, samples := 0.0, 0
		acked := make([]units.Bytes, n)
		for i, f := range l.Flows {
			acked[i] = f.Acked
		}
		for l.Now() < 80*units.Millisecond {
			l.Run(l.Now() + 11*us)
			for _, f := range l.Flows {
				sum += f.LastRTT.Microseconds() - 0.8
				samples++
			}
		}
		base := c.BaseRTT.Microseconds()
		if got, want := sum/float64(samples), base/(1-float64(n)*0.1/10); n > 1 && math.Abs(got-want) > 0.15*want {
			t.Errorf("%d flows: the round trip is %.2f us, want %.2f", n, got, want)
		}
		for i, f := range l.Flows {
			if got := units.RateOf(f.Acked-acked[i], 20*units.Millisecond).Gbps() * float64(n) / 10; got < 0.8 || got > 1.2 {
				t.Errorf("%d flows: flow %d has %.2f of its share", n, i, got)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig, func(c *Config) { c.Gamma, c.BaseRTT, c.BaseWindow, c.InitialRate = 1, us, units.Never, units.Gbps })
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	refuses("fast: alpha is .* choose", func(c *Config) { c.Alpha = 0 })
	refuses("fast: gamma is .* choose", func(c *Config) { c.Gamma = 0 }, func(c *Config) { c.Gamma = 1.1 }, func(c *Config) { c.Gamma = math.NaN() })
	refuses("fast: base_rtt is .* choose", func(c *Config) { c.BaseRTT = -1 })
	refuses("fast: base_window is .* choose", func(c *Config) { c.BaseWindow = 0 })
	refuses("fast: initial_rate is .* choose", func(c *Config) { c.InitialRate = -1 })
	refuses("fast: min_rate is .* choose", func(c *Config) { c.MinRate = 0 })
	refuses("fast: initial_rate .* choose at least min_rate", func(c *Config) { c.InitialRate = units.Mbps })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
	c := DefaultConfig()
	c.MinRate = 11 * units.Gbps
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
	for i, rtt := range []units.Time{20 * us, 40 * us, 40 * us} {
		c := e.OnAck(&cc.Ack{Now: units.Time(i) * 50 * us, RTT: rtt + us, NetRTT: rtt, Scale: 1})
		fmt.Println("a round trip of", rtt, c.Rate)
	}
	// Output:
	// start: 10Gbps
	// a round trip of 20us 10Gbps
	// a round trip of 40us 7.525Gbps
	// a round trip of 40us 5.66875Gbps
}

// A clock that was set back has instants before 0; the window of the shortest round
// trip ends as long after them as after others.
func TestTheWindowOfANegativeInstant(t *testing.T) {
	for _, at := range []units.Time{0, -units.Second, units.LongAgo} {
		var m shortest
		m.see(at, 10*us, units.Millisecond)
		if got := m.until - at; got != units.Millisecond {
			t.Errorf("a window that begins at %v lasts %v, expected 1ms", at, got)
		}
	}
}
