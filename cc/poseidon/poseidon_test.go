package poseidon

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

// 150,000 bytes in flight at line rate: 36.6 packets.
var testEnv = cc.Env{LineRate: 200 * units.Gbps, BaseRTT: 6 * us, MTU: 4096}

func mustNew(t testing.TB, c Config, env cc.Env) *engine {
	t.Helper()
	e, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*engine)
}

func TestConforms(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":     func(*Config) {},
		"brownfield":  func(c *Config) { c.Brownfield = true },
		"other steps": func(c *Config) { c.M = 0.5 },
		"rtt":         func(c *Config) { c.Signal = SignalRTT },
		"aimd":        func(c *Config) { c.Update = UpdateAIMD },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New:     func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				MinRate: func(env cc.Env) units.Rate { return env.LineRate / 10_000 },
			})
		})
	}
}

// u restates equation 4 for the paper's rates (minRate 0.02, maxRate 200 Gbps).
func u(cwnd float64, rtt, delay units.Time) float64 {
	rate := cwnd * 4096 * 8 / rtt.Seconds()
	alpha := math.Log(200e9) - math.Log(0.02e9)
	target := 40*(math.Log(200e9)-math.Log(rate))/alpha + 2
	return math.Exp((target - delay.Microseconds()) / 40 * alpha * 0.25)
}

// at has the paper's rule, without a bound of the gain.
func at(t testing.TB, cwnd float64) *engine {
	c := DefaultConfig()
	c.InitialCwnd, c.MaxGain = cwnd, 0
	return mustNew(t, c, testEnv)
}

// Algorithm 1, line by line.
func TestReceiveACK(t *testing.T) {
	const rtt = 20 * us // ten packets are 16.4 Gbps, whose target is 12.9 us
	ack := cc.Ack{Now: units.Millisecond, RTT: rtt, Packets: 1, HasMaxDelay: true}
	for _, c := range []struct {
		name   string
		change func(*cc.Ack)
		want   float64
	}{
		{"below the target: (U-1) packets for one", func(a *cc.Ack) { a.MaxHopDelay = 10 * us }, 10 + (u(10, rtt, 10*us) - 1)},
		{"and for three", func(a *cc.Ack) { a.MaxHopDelay, a.Packets = 10*us, 3 }, 10 + 3*(u(10, rtt, 10*us)-1)},
		{"no more than a window's", func(a *cc.Ack) { a.MaxHopDelay, a.Packets = 10*us, 100 }, 10 + 10*(u(10, rtt, 10*us)-1)},
		{"above it: times U", func(a *cc.Ack) { a.MaxHopDelay = 15 * us }, 10 * u(10, rtt, 15*us)},
		{"far above: times min_md", func(a *cc.Ack) { a.MaxHopDelay = 100 * us }, 5},
		{"the rate takes the whole RTT", func(a *cc.Ack) { a.MaxHopDelay, a.RTT = 15*us, 200*us }, 10 + (u(10, 200*us, 15*us) - 1)},
		{"application-limited, below", func(a *cc.Ack) { a.AppLimited = true }, 10},
		{"application-limited, above", func(a *cc.Ack) { a.AppLimited, a.MaxHopDelay = true, 15*us }, 10 * u(10, rtt, 15*us)},
		{"the reverse path does not count", func(a *cc.Ack) { a.MaxHopDelay, a.ReverseMaxHopDelay = 10*us, 90*us }, 10 + (u(10, rtt, 10*us) - 1)},
		{"no signal", func(a *cc.Ack) { a.HasMaxDelay = false }, 10},
	} {
		e := at(t, 10)
		a := ack
		c.change(&a)
		got := e.OnAck(&a)
		if !near(e.Cwnd, c.want) {
			t.Errorf("%s: the window is %v, want %v", c.name, e.Cwnd, c.want)
		}
		if got.Rate != testEnv.LineRate || got.Window != units.Bytes(e.Cwnd*4096) {
			t.Errorf("%s: %v packets are %+v, want them without pacing", c.name, e.Cwnd, got)
		}
	}
	// max_mi: a slow flow on an idle path.
	e := at(t, 1)
	e.OnAck(&cc.Ack{RTT: 300 * us, Packets: 1, HasMaxDelay: true})
	if e.Cwnd != 1+(4-1) {
		t.Errorf("from one packet the window went to %v, want max_mi times as much", e.Cwnd)
	}
}

// Up to 17.4 us, where the gain of a round trip is 1, the rule is the paper's; beyond,
// U is exp((T - D)/RTT), to the one as to the other side.
func TestBoundedGain(t *testing.T) {
	from := 40 / (math.Log(200e9/0.02e9) * 0.25) // microseconds
	for _, delay := range []units.Time{5 * us, 20 * us} {
		for _, rtt := range []units.Time{10 * us, 17 * us, 18 * us, 50 * us} {
			want := u(10, rtt, delay)
			if rtt > 17*us {
				want = math.Pow(want, from/rtt.Microseconds())
			}
			if want > 1 {
				want = 1 + (want-1)/10
			}
			c := DefaultConfig()
			c.InitialCwnd = 10
			e := mustNew(t, c, testEnv)
			e.OnAck(&cc.Ack{Now: units.Millisecond, RTT: rtt, Packets: 1, HasMaxDelay: true, MaxHopDelay: delay})
			if !near(e.Cwnd, 10*want) {
				t.Errorf("round trip %v, delay %v: the window is %v, want %v", rtt, delay, e.Cwnd, 10*want)
			}
		}
	}
}

// Line 7: decreases at most once a round trip; line 20: counted from the last
// one, by whatever cause.
func TestDecreasesOnceARoundTrip(t *testing.T) {
	e := at(t, 30)
	above := func(now units.Time) float64 {
		e.OnAck(&cc.Ack{Now: now, RTT: 20 * us, Packets: 1, HasMaxDelay: true, MaxHopDelay: 30 * us})
		return e.Cwnd
	}
	first := above(1000 * us)
	if first >= 30 {
		t.Fatal("the first did not decrease")
	}
	for now := 1001 * us; now <= 1020*us; now += us {
		if got := above(now); got != first {
			t.Fatalf("%v after a decrease there is another", now-1000*us)
		}
	}
	second := above(1021 * us)
	if second >= first {
		t.Fatal("a round trip later there is no decrease")
	}
	e.OnLoss(1042 * us)
	if e.Cwnd != second/2 {
		t.Errorf("a loss a round trip later gives %v, want min_md times %v", e.Cwnd, second)
	}
	for range DefaultConfig().RetxResetThreshold {
		e.OnTimeout(1100 * us)
	}
	if e.Cwnd != e.Least {
		t.Errorf("retx_reset_threshold timeouts leave %v, want min_cwnd", e.Cwnd)
	}
}

// Lines 21 to 23: below one packet, rtt/cwnd between packets.
func TestPacing(t *testing.T) {
	e := at(t, 0.25)
	// A longer round trip slows it down; a shorter one may not speed it up
	// when nothing says that the path is free.
	slow := e.OnAck(&cc.Ack{RTT: 60 * us, Packets: 1})
	if want := 0.25 * 4096 * 8 / 60e-6 / 1e9; !near(slow.Rate.Gbps(), want) {
		t.Errorf("in 60 us it is %v, want %v Gbps", slow.Rate, want)
	}
	if got := e.OnAck(&cc.Ack{RTT: 6 * us, Packets: 1}); got != slow {
		t.Errorf("without a signal the control went from %+v to %+v", slow, got)
	}
	if got := e.OnAck(&cc.Ack{RTT: 6 * us, Packets: 1, HasMaxDelay: true, AppLimited: true}); got != slow {
		t.Errorf("application-limited, the control went from %+v to %+v", slow, got)
	}
	// A round trip of seconds leaves min_rate.
	if got := e.OnAck(&cc.Ack{RTT: units.Second, Packets: 1}); got.Rate != 20*units.Mbps {
		t.Errorf("after a round trip of a second the rate is %v", got.Rate)
	}
}

// Section 4.1. The environment's 6 us are a packet's RTT with empty queues.
func TestBrownfieldSignal(t *testing.T) {
	c := DefaultConfig()
	c.Brownfield = true
	e := mustNew(t, c, testEnv)
	packet := testEnv.LineRate.Serialize(testEnv.MTU)
	for _, s := range []struct {
		name              string
		hop, reverse, rtt units.Time
		has               bool
		want              units.Time
	}{
		{"empty queues", 0, 0, 6 * us, true, 0},
		{"all of it at switches that report", 10 * us, 5 * us, 21 * us, true, 10 * us},
		{"more of it elsewhere", 10 * us, 5 * us, 51 * us, true, 30 * us},
		{"some of it elsewhere", 10 * us, 5 * us, 30 * us, true, 10 * us},
		{"no switch reports", 0, 0, 26 * us, false, 20 * us},
		{"what is not valid is not used", 10 * us, 5 * us, 26 * us, false, 20 * us},
	} {
		// As a packet, and as a segment of sixteen.
		for _, burst := range []units.Time{1, 16} {
			a := cc.Ack{
				RTT: s.rtt + (burst-1)*packet, NetRTT: s.rtt - packet,
				MaxHopDelay: s.hop, ReverseMaxHopDelay: s.reverse, HasMaxDelay: s.has,
			}
			if got, ok := e.p.signal(&a); got != s.want || !ok {
				t.Errorf("%s, %d packets: the signal is %v, %v, want %v", s.name, burst, got, ok, s.want)
			}
		}
	}
	if _, ok := e.p.signal(&cc.Ack{}); ok {
		t.Error("an acknowledgement without RTT and telemetry has a signal")
	}
	c.BaseDelay = 16 * us
	e = mustNew(t, c, testEnv)
	if got, _ := e.p.signal(&cc.Ack{NetRTT: 26*us - packet}); got != 10*us {
		t.Errorf("with a base delay of 16 us an RTT of 26 us has the signal %v", got)
	}
}

// The fixed point of n flows on one link: each has its share, and the delay is
// that share's target (section 3.4, "the delay on a queue will generally remain
// close to the minimum target"); wherever they start.
func TestFairShareOnALink(t *testing.T) {
	for _, n := range []int{2, 5, 10} {
		for _, brownfield := range []bool{false, true} {
			l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv, Blind: brownfield}
			for i := range n {
				c := DefaultConfig()
				c.Brownfield = brownfield
				c.InitialCwnd = []float64{0, 1, 200}[i%3]
				l.Add(mustNew(t, c, testEnv), units.Time(i)*us)
			}
			l.Run(2 * units.Millisecond)
			acked := make([]units.Bytes, n)
			for i, f := range l.Flows {
				acked[i] = f.Acked
			}
			busy, delay, samples := l.Sent(), 0.0, 0
			for range 1000 {
				l.Run(l.Now() + 2*us)
				delay += l.Delay().Microseconds()
				samples++
			}
			share := 200 / float64(n)
			for i, f := range l.Flows {
				if got := units.RateOf(f.Acked-acked[i], 2*units.Millisecond).Gbps(); math.Abs(got-share) > 0.05*share {
					t.Errorf("%d flows, brownfield %v: flow %d has %v Gbps of a share of %v", n, brownfield, i, got, share)
				}
			}
			want := 40*math.Log(float64(n))/math.Log(1e4) + 2
			if got := delay / float64(samples); math.Abs(got-want) > 0.05*want {
				t.Errorf("%d flows, brownfield %v: the delay is %v us, the target of the share %v", n, brownfield, got, want)
			}
			if got := units.RateOf(l.Sent()-busy, 2*units.Millisecond).Gbps(); got < 199 {
				t.Errorf("%d flows, brownfield %v: the link carries %v of 200 Gbps", n, brownfield, got)
			}
		}
	}
}

// Windows below one packet: two hundred flows share a link by pacing.
func TestManyFlowsOnALink(t *testing.T) {
	const n = 200
	l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv}
	for i := range n {
		l.Add(mustNew(t, DefaultConfig(), testEnv), units.Time(i)*100*units.Nanosecond)
	}
	l.Run(5 * units.Millisecond)
	busy := l.Sent()
	acked := make([]units.Bytes, n)
	for i, f := range l.Flows {
		acked[i] = f.Acked
	}
	l.Run(15 * units.Millisecond)
	if got := units.RateOf(l.Sent()-busy, 10*units.Millisecond).Gbps(); got < 0.95*200 {
		t.Errorf("the link carries %v of 200 Gbps", got)
	}
	sum, squares := 0.0, 0.0
	for i, f := range l.Flows {
		r := float64(f.Acked - acked[i])
		sum += r
		squares += r * r
	}
	if jain := sum * sum / squares / n; jain < 0.98 {
		t.Errorf("Jain's index is %v", jain)
	}
}

// Section 2.1.3: queues that acknowledgements meet cost a flow nothing.
func TestReverseCongestion(t *testing.T) {
	l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv, Extra: 25 * us}
	f := l.Add(mustNew(t, DefaultConfig(), testEnv), 0)
	l.Run(units.Millisecond)
	before := f.Acked
	l.Run(2 * units.Millisecond)
	if got := units.RateOf(f.Acked-before, units.Millisecond).Gbps(); got < 199 {
		t.Errorf("with 25 us on the way back the flow has %v of 200 Gbps", got)
	}
}

func TestDefaultsOfTheEnvironment(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	if got := e.Control(); got.Rate != testEnv.LineRate || got.Window != 150_000 {
		t.Errorf("a flow starts with %+v, want the line rate and its 150,000 bytes", got)
	}
	if e.p.maxRate != 200e9 || e.p.minRate != 20e6 {
		t.Errorf("rates from %v to %v, want the paper's", e.p.minRate, e.p.maxRate)
	}
	if want := 20e6 * 6e-6 / 8 / 4096; !near(e.Least, want) {
		t.Errorf("min_cwnd is %v, want what 20 Mbps fill in 6 us, %v", e.Least, want)
	}
	if want := 200e9 * 48e-6 / 8 / 4096; !near(e.Most, want) {
		t.Errorf("max_cwnd is %v, want what the line rate fills in 6 + 42 us, %v", e.Most, want)
	}
	c := DefaultConfig()
	c.MinRate = 300 * units.Gbps
	if _, err := New(c, testEnv); err == nil {
		t.Error("a min_rate above the line rate was accepted")
	}
	c.MaxRate = 400 * units.Gbps
	if _, err := New(c, testEnv); err == nil {
		t.Error("a min_rate above the line rate was accepted with a larger max_rate")
	}
	c = DefaultConfig()
	c.MinCwnd = 1e6
	if _, err := New(c, testEnv); err == nil {
		t.Error("a min_cwnd above the derived max_cwnd was accepted")
	}
	// A fleet of mixed speeds sets max_rate: the target is that of the fleet.
	c = DefaultConfig()
	c.MaxRate = 200 * units.Gbps
	env := testEnv
	env.LineRate = 25 * units.Gbps
	if got := mustNew(t, c, env).p.target(25e9); math.Abs(got-(2e6+40e6*math.Log(8)/math.Log(1e4))) > 1 {
		t.Errorf("at max_rate 200Gbps the target of 25 Gbps is %v ps", got)
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig,
		func(c *Config) { c.MinRate, c.MaxRate = 20*units.Mbps, 200*units.Gbps },
		func(c *Config) { c.MinCwnd, c.MaxCwnd, c.InitialCwnd = 0.01, 100, 10 },
		func(c *Config) { c.Brownfield, c.BaseDelay = true, us },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	nan, inf := math.NaN(), math.Inf(1)
	refuses("poseidon: p is .* choose", func(c *Config) { c.P = 0 })
	refuses("poseidon: k is .* choose", func(c *Config) { c.K = -1 })
	refuses("poseidon: m is .* choose", func(c *Config) { c.M = 0 }, func(c *Config) { c.M = 2 }, func(c *Config) { c.M = nan })
	refuses("poseidon: min_rate is .* choose", func(c *Config) { c.MinRate = -1 })
	refuses("poseidon: max_rate is .* choose", func(c *Config) { c.MaxRate = -1 })
	refuses("poseidon: min_rate .* choose less than max_rate", func(c *Config) { c.MinRate, c.MaxRate = units.Gbps, units.Gbps })
	refuses("poseidon: min_md is .* choose", func(c *Config) { c.MinMD = 0 }, func(c *Config) { c.MinMD = 1 }, func(c *Config) { c.MinMD = nan })
	refuses("poseidon: max_mi is .* choose", func(c *Config) { c.MaxMI = 1 }, func(c *Config) { c.MaxMI = inf }, func(c *Config) { c.MaxMI = nan })
	refuses("poseidon: min_cwnd is .* choose", func(c *Config) { c.MinCwnd = -1 }, func(c *Config) { c.MinCwnd = nan }, func(c *Config) { c.MinCwnd = inf })
	refuses("poseidon: max_cwnd is .* choose", func(c *Config) { c.MaxCwnd = -1 }, func(c *Config) { c.MaxCwnd = 2e9 })
	refuses("poseidon: max_cwnd .* choose at least min_cwnd", func(c *Config) { c.MinCwnd, c.MaxCwnd = 2, 1 })
	refuses("poseidon: initial_cwnd is .* choose", func(c *Config) { c.InitialCwnd = -1 }, func(c *Config) { c.InitialCwnd = inf })
	refuses("poseidon: retx_reset_threshold is .* choose", func(c *Config) { c.RetxResetThreshold = 0 })
	refuses("poseidon: base_delay is .* choose", func(c *Config) { c.BaseDelay = -1 })
	refuses("poseidon: signal is .* choose", func(c *Config) { c.Signal = "" }, func(c *Config) { c.Signal = "MPD" })
	refuses("poseidon: brownfield is true: signal rtt has no use for it", func(c *Config) { c.Signal, c.Brownfield = SignalRTT, true })
	refuses("poseidon: target is .* choose", func(c *Config) { c.Target = "x" })
	refuses("poseidon: scaling is .* choose", func(c *Config) { c.Scaling = "x" })
	refuses("poseidon: q is .* choose", func(c *Config) { c.Q = 0 }, func(c *Config) { c.Q = -2.1 }, func(c *Config) { c.Q = nan })
	refuses("poseidon: fixed_target is .* choose", func(c *Config) { c.FixedTarget = -1 })
	refuses("poseidon: update is .* choose", func(c *Config) { c.Update = "x" })
	refuses("poseidon: ratio_m is .* choose", func(c *Config) { c.RatioM = -1 })
	refuses("poseidon: ai is .* choose", func(c *Config) { c.AI = 0 }, func(c *Config) { c.AI = nan })
	refuses("poseidon: beta is .* choose", func(c *Config) { c.Beta = 0 }, func(c *Config) { c.Beta = inf })
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
	// No queue; then 10 us at one hop, above the target of a flow this fast;
	// then none again.
	now := units.Time(0)
	for _, delay := range []units.Time{0, 10 * us, 10 * us, 0} {
		now += 20 * us
		c := e.OnAck(&cc.Ack{
			Now: now, RTT: 6*us + delay, Packets: 1, HasMaxDelay: true, MaxHopDelay: delay,
		})
		fmt.Printf("hop delay %v: %v\n", delay, c.Window)
	}
	// Output:
	// start: 150KB
	// hop delay 0s: 150499B
	// hop delay 10us: 121245B
	// hop delay 10us: 103101B
	// hop delay 0s: 104052B
}
