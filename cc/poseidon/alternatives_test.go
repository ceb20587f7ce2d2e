package poseidon

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func altered(t testing.TB, cwnd float64, change func(*Config)) *engine {
	t.Helper()
	c := DefaultConfig()
	c.InitialCwnd = cwnd
	change(&c)
	return mustNew(t, c, testEnv)
}

// One acknowledgement of a packet, against the formulas of appendices B.3 and C
// and of section 5.6.1 restated.
func TestAlternatives(t *testing.T) {
	const rtt = 20 * us
	rate := func(cwnd float64, rtt units.Time) float64 { return cwnd * 4096 * 8 / rtt.Seconds() }
	log := func(rate float64) float64 { return 40*math.Log(200e9/rate)/math.Log(1e4) + 2 }
	// a rate^-1/2 + b, 2 us at 200 Gbps and 42 us at 20 Mbps.
	power := func(rate float64) float64 {
		a := 40 / (1/math.Sqrt(0.02e9) - 1/math.Sqrt(200e9))
		return a/math.Sqrt(rate) + 2 - a/math.Sqrt(200e9)
	}
	distance := func(target, delay float64) float64 {
		return math.Exp((target - delay) / 40 * math.Log(1e4) * 0.25)
	}
	for _, c := range []struct {
		name        string
		change      func(*Config)
		cwnd, delay float64 // us
		want        float64
	}{
		{"power, below", func(c *Config) { c.Target = TargetPower }, 10, 1, 10 + distance(power(rate(10, rtt)), 1) - 1},
		{"power, above", func(c *Config) { c.Target = TargetPower }, 10, 10, 10 * distance(power(rate(10, rtt)), 10)},
		{"power, q", func(c *Config) { c.Target, c.Q = TargetPower, -1 }, 10, 10, 10 * distance(40*(200e9/rate(10, rtt)-1)/(1e4-1)+2, 10)},
		{"fixed, below", func(c *Config) { c.Target = TargetFixed }, 10, 15, 10 + distance(22, 15) - 1},
		{"fixed, above", func(c *Config) { c.Target = TargetFixed }, 10, 25, 10 * distance(22, 25)},
		{"fixed, given", func(c *Config) { c.Target, c.FixedTarget = TargetFixed, 10*us }, 10, 15, 10 * distance(10, 15)},
		{"by cwnd", func(c *Config) { c.Scaling = ScalingCwnd }, 10, 15, 10 * distance(log(rate(10, 6*us)), 15)},
		{"ratio, below", func(c *Config) { c.Update = UpdateRatio }, 10, 5, 10 + (log(rate(10, rtt))+1)/(5+1) - 1},
		{"ratio, above", func(c *Config) { c.Update = UpdateRatio }, 10, 15, 10 * (log(rate(10, rtt)) + 1) / (15 + 1)},
		{"ratio, m", func(c *Config) { c.Update, c.RatioM = UpdateRatio, 3*us }, 10, 15, 10 * (log(rate(10, rtt)) + 3) / (15 + 3)},
		{"ratio, no delay", func(c *Config) { c.Update, c.RatioM = UpdateRatio, 0 }, 10, 0, 10 + 4 - 1},
		{"aimd, below", func(c *Config) { c.Update = UpdateAIMD }, 10, 5, 10 + 1./10},
		{"aimd, below one packet", func(c *Config) { c.Update = UpdateAIMD }, 0.5, 5, 0.5 + 1},
		{"aimd, ai", func(c *Config) { c.Update, c.AI = UpdateAIMD, 8 }, 10, 5, 10 + 8./10},
		{"aimd, above", func(c *Config) { c.Update = UpdateAIMD }, 10, 15, 10 * (1 - 0.8*(15-log(rate(10, rtt)))/15)},
		{"aimd, far above", func(c *Config) { c.Update, c.Beta = UpdateAIMD, 2 }, 10, 100, 5},
		{"fixed and aimd", func(c *Config) { c.Target, c.Update = TargetFixed, UpdateAIMD }, 10, 30, 10 * (1 - 0.8*(30-22)/30)},
	} {
		e := altered(t, c.cwnd, c.change)
		e.OnAck(&cc.Ack{Now: units.Millisecond, RTT: rtt, Packets: 1, HasMaxDelay: true, MaxHopDelay: units.Time(c.delay * float64(us))})
		if !near(e.Cwnd, c.want) {
			t.Errorf("%s: the window is %v, want %v", c.name, e.Cwnd, c.want)
		}
	}
}

// What queues add to the round trip, wherever they stand.
func TestSignalRTT(t *testing.T) {
	e := altered(t, 10, func(c *Config) { c.Signal = SignalRTT })
	packet := testEnv.LineRate.Serialize(testEnv.MTU)
	for rtt, want := range map[units.Time]units.Time{5 * us: 0, 6 * us: 0, 31 * us: 25 * us} {
		a := cc.Ack{RTT: rtt, NetRTT: rtt - packet, HasMaxDelay: true, MaxHopDelay: 3 * us, ReverseMaxHopDelay: 4 * us}
		if got, ok := e.p.signal(&a); got != want || !ok {
			t.Errorf("an RTT of %v on a path of 6us: the signal is %v, %v, want %v", rtt, got, ok, want)
		}
	}
	if _, ok := e.p.signal(&cc.Ack{HasMaxDelay: true}); ok {
		t.Error("there is a signal without an RTT")
	}
}

// Equations 1 and 2 for what the appendices allow, with the default parameters:
// of two flows at one delay the faster gains less, and not so much less that they
// change places.
func TestAppendicesKeepEquations1And2(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"power":            func(c *Config) { c.Target = TargetPower },
		"ratio":            func(c *Config) { c.Update = UpdateRatio },
		"power with ratio": func(c *Config) { c.Target, c.Update = TargetPower, UpdateRatio },
	} {
		rapid.Check(t, func(t *rapid.T) {
			c := DefaultConfig()
			change(&c)
			made, err := New(c, testEnv)
			if err != nil {
				t.Fatal(err)
			}
			e := made.(*engine)
			p := &e.p
			delay := rapid.Float64Range(0, 60e6).Draw(t, "delay")
			u := func(rate float64) float64 {
				w := e.Packets
				w.Cwnd, w.RTT = 1, 20*us
				w.Cwnd = rate / w.Rate(w.RTT)
				got := p.anyRatio(&w, delay)
				if d := p.target(rate) - delay; d > 1 && got < 1 || d < -1 && got >= 1 {
					t.Fatalf("%s: at %v with a delay of %v the ratio is %v, the target %v", name, rate, delay, got, p.target(rate))
				}
				return got
			}
			a, b := drawRate(t, &p.law, "a"), drawRate(t, &p.law, "b")
			a, b = min(a, b), max(a, b)
			if b/a < 1+1e-3 {
				t.Skip("equation 2 is about different rates")
			}
			if got := u(b) / u(a); got >= 1 || got <= (a*a)/(b*b) {
				t.Fatalf("%s: U(b)/U(a) = %v for a = %v, b = %v, not within (a/b)^2 and 1", name, got, a, b)
			}
		})
	}
}
