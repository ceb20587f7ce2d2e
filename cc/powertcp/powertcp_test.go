package powertcp

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
	paper := func(c *Config) { c.MinCurrent, c.Remember = 0, 1 }
	round := func(c *Config) { c.FromRound = true }
	for name, change := range map[string]func(*Config){"default": func(*Config) {}, "the paper's": paper, "from round": round} {
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

// records returns the reports of a port of rate b before and after a span dt in
// which lambda (bits per second) arrived and the port sent at mu, leaving q.
func records(b units.Rate, dt units.Time, lambda, mu float64, q units.Bytes) (prev, cur telemetry.Hop) {
	in, out := units.Bytes(lambda/8*dt.Seconds()), units.Bytes(mu/8*dt.Seconds())
	prev = telemetry.Hop{TxBytes: 1 << 30, QLen: q - (in - out), Time: 5 * units.Second, Rate: b}
	cur = telemetry.Hop{TxBytes: prev.TxBytes + out, QLen: q, Time: prev.Time + dt, Rate: b}
	return prev, cur
}

// Property 1: power is the product of bandwidth and window. With a window w and
// a queue q, flows send at w over the round trip q/b + tau (equations 9 and 10).
func TestProperty1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := units.Rate(rapid.IntRange(1, 800).Draw(t, "b")) * units.Gbps
		tau := units.Time(rapid.IntRange(1, 100).Draw(t, "tau")) * us
		bdp := float64(b) / 8 * tau.Seconds()
		w := bdp * rapid.Float64Range(0.05, 20).Draw(t, "w in BDP")
		q := units.Bytes(bdp * rapid.Float64Range(0.01, 20).Draw(t, "q in BDP"))
		theta := float64(q)/(float64(b)/8) + tau.Seconds()
		prev, cur := records(b, units.Second, w*8/theta, float64(b), q)
		norm, dt, ok := power(&prev, &cur, float64(tau), 0)
		if !ok || dt != float64(units.Second) {
			t.Fatalf("no power (%v, %v)", dt, ok)
		}
		// Normalised by b^2 tau, b w is w over the bandwidth-delay product.
		if !near(norm, w/bdp, 1e-4) { // bytes are whole
			t.Fatalf("power %v, window %v BDP", norm, w/bdp)
		}
	})
}

// Algorithm 1, lines 12 to 19, by hand: 25 Gbps and 20 us are 62,500 bytes.
func TestPowerOfAHop(t *testing.T) {
	b, tau := 25*units.Gbps, 20*us
	for _, c := range []struct {
		name       string
		lambda, mu float64
		q          units.Bytes
		want       float64
	}{
		{"equilibrium: full link, no queue", 25e9, 25e9, 0, 1},
		{"half a link", 12.5e9, 12.5e9, 0, 0.5},
		{"a standing queue of one BDP", 25e9, 25e9, 62_500, 2},
		{"ten senders as the queue forms", 250e9, 25e9, 562_500, 10 * 10},
		{"a queue that drains and gets nothing", 0, 25e9, 125_000, 0},
		{"one that drains at half rate", 12.5e9, 25e9, 62_500, 0.5 * 2},
	} {
		prev, cur := records(b, 100*us, c.lambda, c.mu, c.q)
		norm, _, ok := power(&prev, &cur, float64(tau), 0)
		if !ok || math.Abs(norm-c.want) > 1e-4 {
			t.Errorf("%s: %v, want %v", c.name, norm, c.want)
		}
	}
	prev, cur := records(b, 100*us, 0, 25e9, 62_500)
	if norm, _, _ := power(&prev, &cur, float64(tau), 0.5); !near(norm, 1, 1e-9) {
		t.Errorf("with a floor of half the rate, no arrivals and one BDP of queue have a power of %v, want 1", norm)
	}
}

func TestRecordsThatSayNothing(t *testing.T) {
	prev := telemetry.Hop{TxBytes: 1000, Time: us, Rate: units.Gbps}
	for name, cur := range map[string]telemetry.Hop{
		"the same instant":      {TxBytes: 2000, Time: us, Rate: units.Gbps},
		"an earlier one":        {TxBytes: 2000, Time: 0, Rate: units.Gbps},
		"a counter gone back":   {TxBytes: 10, Time: 2 * us, Rate: units.Gbps},
		"a port of other speed": {TxBytes: 2000, Time: 2 * us, Rate: 10 * units.Gbps},
	} {
		if _, _, ok := power(&prev, &cur, float64(us), 0); ok {
			t.Errorf("%s gave a power", name)
		}
	}
}

// Lines 19 to 25: the largest power of any hop, smoothed with the dt of that
// hop, which is at most tau.
func TestSmoothing(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	first, second := telemetry.Stack{N: 2}, telemetry.Stack{N: 2}
	first.Hops[0], second.Hops[0] = records(25*units.Gbps, 10*us, 12.5e9, 12.5e9, 0)    // 0.5 over 10 us
	first.Hops[1], second.Hops[1] = records(25*units.Gbps, 5*us, 25e9, 25e9, 125_000)   // 3 over 5 us
	third, fourth := second, second                                                     //
	_, third.Hops[1] = records(25*units.Gbps, 5*us, 25e9, 25e9, 125_000)                // no time has passed
	fourth.Hops[0].Time, fourth.Hops[0].TxBytes = second.Hops[0].Time+units.Second, 9e9 // longer than tau

	if e.p.normPower(&e.state, &first) || e.smooth != 1 {
		t.Errorf("the first records changed the power to %v", e.smooth)
	}
	want := (1*(20-5) + 3*5) / 20.0
	if !e.p.normPower(&e.state, &second) || !near(e.smooth, want, 1e-3) {
		t.Errorf("the power is %v, want %v", e.smooth, want)
	}
	if e.p.normPower(&e.state, &third) || !near(e.smooth, want, 1e-3) {
		t.Errorf("records without progress changed the power to %v", e.smooth)
	}
	long := float64(fourth.Hops[0].TxBytes-second.Hops[0].TxBytes) * 8 / 25e9
	if !e.p.normPower(&e.state, &fourth) || !near(e.smooth, long, 1e-3) {
		t.Errorf("after more than tau the power is %v, want the new one alone, %v", e.smooth, long)
	}
}

// hop acknowledges everything sent so far with one record.
func (e *engine) hop(h telemetry.Hop, acked, sent units.Bytes) cc.Control {
	path := telemetry.Stack{}
	path.Push(h)
	return e.OnAck(&cc.Ack{Path: &path, Acked: acked, Sent: sent, Scale: 1})
}

// The first acknowledgement has no predecessor. An implementation that takes
// its counters for differences sees terabytes and stops the flow.
func TestFirstAcknowledgementChangesNothing(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	start := e.Control()
	if start.Rate != testEnv.LineRate || start.Window != 63*testEnv.MTU {
		t.Errorf("a flow starts with %+v, want the line rate and 62,500 bytes in whole packets", start)
	}
	got := e.hop(telemetry.Hop{TxBytes: 1 << 45, QLen: 1 << 20, Time: units.Second, Rate: 25 * units.Gbps}, 1000, 63_000)
	if got != start {
		t.Errorf("the first acknowledgement changed %+v to %+v", start, got)
	}
	// The second one has: an empty port at full rate is equilibrium.
	got = e.hop(telemetry.Hop{TxBytes: 1<<45 + 62_500, QLen: 1 << 20, Time: units.Second + 20*us, Rate: 25 * units.Gbps}, 2000, 64_000)
	if got.Rate >= start.Rate {
		t.Errorf("a queue of 1 MiB left the rate at %v", got.Rate)
	}
}

func TestAnotherPathStartsAfresh(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	long := telemetry.Stack{N: 3}
	for i := range long.Hops[:3] {
		long.Hops[i] = telemetry.Hop{Time: us, Rate: 25 * units.Gbps}
	}
	short := telemetry.Stack{N: 1}
	short.Hops[0] = telemetry.Hop{TxBytes: 1 << 40, QLen: 1 << 30, Time: 2 * us, Rate: 25 * units.Gbps}
	start := e.Control()
	for i, path := range []*telemetry.Stack{&long, &short, &long} {
		if got := e.OnAck(&cc.Ack{Path: path, Acked: 1, Sent: 1}); got != start {
			t.Errorf("path %d changed %+v to %+v", i, start, got)
		}
	}
	if got := e.OnAck(&cc.Ack{Acked: 1, Sent: 1}); got != start {
		t.Errorf("an acknowledgement without records changed %+v to %+v", start, got)
	}
}

// Theorems 1, 2 and 3 in the model of appendix A, with the law as this package
// has it: n flows over one bottleneck, power f = b w(t - theta) (equation 13),
// one update of all windows a step.
func TestTheorems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gamma := rapid.Float64Range(0.05, 1).Draw(t, "gamma")
		bdp := rapid.Float64Range(1e3, 1e8).Draw(t, "b tau")
		n := rapid.IntRange(1, 20).Draw(t, "flows")
		flows := make([]float64, n)
		betas := make([]float64, n)
		sumBeta, w := 0.0, 0.0
		for i := range flows {
			betas[i] = bdp * rapid.Float64Range(0.001, 0.1).Draw(t, "beta")
			flows[i] = bdp * rapid.Float64Range(0.001, 30).Draw(t, "w")
			sumBeta += betas[i]
			w += flows[i]
		}
		equilibrium := bdp + sumBeta
		initial := w - equilibrium
		step := func() {
			norm := w / bdp // what the windows in force were, over b tau
			w = 0
			for i := range flows {
				flows[i] = window(flows[i], flows[i], norm, gamma, betas[i])
				w += flows[i]
			}
		}
		// Theorem 2: the error decays at least as fast as with the time
		// constant (update interval)/gamma; 99.3 percent after 5/gamma.
		for k := 1; k <= int(math.Ceil(5/gamma)); k++ {
			step()
			if bound := math.Abs(initial)*math.Exp(-gamma*float64(k)) + 1e-9*equilibrium; math.Abs(w-equilibrium) > bound {
				t.Fatalf("after %d updates the window is %v from %v, bound %v", k, w-equilibrium, equilibrium, bound)
			}
		}
		// Theorem 1: the equilibrium is b tau + sum beta, and the queue, what
		// is in flight beyond b tau, sum beta. Theorem 3: each flow has its
		// beta's share of it.
		for range 100_000 {
			step()
		}
		if !near(w, equilibrium, 1e-6) {
			t.Fatalf("the window settles at %v, want %v", w, equilibrium)
		}
		for i := range flows {
			if want := equilibrium / sumBeta * betas[i]; !near(flows[i], want, 1e-3) {
				t.Fatalf("flow %d settles at %v, want %v", i, flows[i], want)
			}
		}
	})
}

func link(t testing.TB, c Config, n int) *enginetest.Link {
	l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv}
	for i := range n {
		l.Add(mustNew(t, c, testEnv), units.Time(i)*100*units.Nanosecond)
	}
	return l
}

// A ten-to-one incast: all start at line rate with a full window, and the queue
// that this makes is gone, with the link busy all the while.
func TestIncastDrainsWithoutIdling(t *testing.T) {
	for _, floor := range []float64{0, 0.5} {
		c := DefaultConfig()
		c.MinCurrent = floor
		l := link(t, c, 10)
		l.Run(20 * us)
		for l.Now() < 2*units.Millisecond {
			before := l.Sent()
			l.Run(l.Now() + 100*us)
			if got := units.RateOf(l.Sent()-before, 100*us).Gbps(); got < 0.95*25 {
				t.Errorf("floor %v: in the 100 us up to %v the link carries %v Gbps", floor, l.Now(), got)
			}
		}
		if q := l.Queue(); q > 56_250 {
			t.Errorf("floor %v: after 2 ms %v are queued, more than a tenth of the peak of nine windows", floor, q)
		}
	}
}

// Why the defaults are not section 3.3's alone: with the window remembered once
// a round trip two flows leave an eighth of the link unused, and without a floor
// under the current three keep a queue of a bandwidth-delay product, where
// theorem 1 has full use and three hundredths.
func TestDeparturesAreNeeded(t *testing.T) {
	run := func(c Config, n int) (use, queue float64) {
		l := link(t, c, n)
		l.Run(4 * units.Millisecond)
		before := l.Sent()
		const samples = 1000
		for range samples {
			l.Run(l.Now() + 2*us)
			queue += float64(l.Queue()) / 62_500 / samples
		}
		return units.RateOf(l.Sent()-before, samples*2*us).Gbps() / 25, queue
	}
	for name, s := range map[string]struct {
		change  func(*Config)
		flows   int
		settles bool
	}{
		"remember 1":            {func(c *Config) { c.Remember = 1 }, 2, false},
		"min_current 0":         {func(c *Config) { c.MinCurrent = 0 }, 3, false},
		"defaults, two flows":   {func(*Config) {}, 2, true},
		"defaults, three flows": {func(*Config) {}, 3, true},
	} {
		c := DefaultConfig()
		s.change(&c)
		use, queue := run(c, s.flows)
		t.Logf("%s: %d flows use %.3f of the link and queue %.3f BDP", name, s.flows, use, queue)
		if settled := use > 0.98 && queue < 0.1; settled != s.settles {
			t.Errorf("%s: settled %v, want %v", name, settled, s.settles)
		}
	}
}

// When nine of ten flows leave, the tenth has the link within a few round trips.
func TestSpareBandwidthIsTakenAtOnce(t *testing.T) {
	l := link(t, DefaultConfig(), 10)
	for _, f := range l.Flows[1:] {
		f.Stop = 3 * units.Millisecond
	}
	l.Run(3*units.Millisecond + 8*testEnv.BaseRTT)
	before := l.Flows[0].Acked
	l.Run(l.Now() + 100*us)
	if got := units.RateOf(l.Flows[0].Acked-before, 100*us).Gbps(); got < 0.95*25 {
		t.Errorf("eight round trips after the others left the flow has %v Gbps", got)
	}
}

// GETCWND, against a log of every window: what is recalled was the window
// within 1/times of a round trip (and the packets of one acknowledgement)
// before the acknowledged byte was sent.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := units.Bytes(rapid.IntRange(1, maxRemember).Draw(t, "times a round trip"))
		flight := units.Bytes(rapid.IntRange(10, 1000).Draw(t, "packets in flight"))
		m := memory{old: -1}
		var acked units.Bytes
		for i := range units.Bytes(4000) {
			// One packet acknowledged, one sent: the window is the number of
			// the acknowledgement, in force for the packet sent after it.
			acked++
			sent := acked + flight
			got := m.recall(acked)
			m.remember(float64(i), acked, sent, times)
			if acked <= flight+1 {
				continue // sent before the first acknowledgement
			}
			was := float64(acked-1) - float64(flight) - 1 // in force when the last packet went out
			if age := was - got; age < 0 || age > float64(flight/times)+1 {
				t.Fatalf("acknowledgement %d recalls window %v; when its packet was sent it was %v (in flight %d, %d times)", i, got, was, flight, times)
			}
		}
	})
}

// While what is in flight drains, nothing is sent under the windows of that
// time but the last.
func TestMemoryOfASenderThatWaits(t *testing.T) {
	m := memory{old: -1}
	const sent = 100_000
	for acked := units.Bytes(100); acked <= sent; acked += 100 {
		m.remember(float64(acked), acked, sent, maxRemember)
		if got := m.recall(acked); got != -1 {
			t.Fatalf("what was sent at first is recalled with window %v", got)
		}
	}
	if got := m.recall(sent + 1); got != sent {
		t.Errorf("what was sent since is recalled with window %v, want the last", got)
	}
}

// A flight that shrinks makes for more windows in it than the memory holds:
// what is recalled may be older than it should, never newer.
func TestFullMemory(t *testing.T) {
	m := memory{old: -1}
	sentUnder := []units.Bytes{} // sentUnder[w]: bytes sent when window w came
	acked, sent := units.Bytes(0), units.Bytes(100_000)
	full := false
	for acked+10 < sent {
		acked += 10
		sent++
		window := float64(len(sentUnder))
		sentUnder = append(sentUnder, sent)
		got := m.recall(acked)
		m.remember(window, acked, sent, maxRemember)
		full = full || m.n == memorySize
		if m.n > memorySize {
			t.Fatalf("the memory holds %d windows", m.n)
		}
		if got >= 0 && sentUnder[int(got)] >= acked {
			t.Fatalf("byte %d is recalled with window %v, which came when %d were sent", acked, got, sentUnder[int(got)])
		}
	}
	if !full {
		t.Error("the memory was never full: the test tests nothing")
	}
}

func TestApplicationLimitedFallsButNeverRises(t *testing.T) {
	c := DefaultConfig()
	e := mustNew(t, c, testEnv)
	h := telemetry.Hop{Rate: 25 * units.Gbps}
	next := func(queue units.Bytes, limited bool) cc.Control {
		h.Time += 20 * us
		h.TxBytes += 62_500
		h.QLen = queue
		path := telemetry.Stack{}
		path.Push(h)
		return e.OnAck(&cc.Ack{Path: &path, Acked: h.TxBytes, Sent: h.TxBytes, AppLimited: limited})
	}
	next(0, false)
	low := next(500_000, true)
	if low.Rate >= testEnv.LineRate {
		t.Fatalf("a queue did not lower the rate of an application-limited flow: %v", low.Rate)
	}
	for range 20 {
		if got := next(0, true); got.Rate > low.Rate || got.Window > low.Window {
			t.Fatalf("an application-limited flow rose from %+v to %+v", low, got)
		}
	}
	next(0, false)
	if got := next(0, false); got.Rate <= low.Rate {
		t.Errorf("with data to send it stayed at %v", got.Rate)
	}
}

func TestBoundsOfTheWindow(t *testing.T) {
	c := DefaultConfig()
	c.MaxWindow = 10_000
	if got := mustNew(t, c, testEnv).Control(); got.Window != 10_000 || !near(got.Rate.Gbps(), 4, 1e-9) {
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
		func(c *Config) { c.Remember = 1 },
		func(c *Config) { c.Flows = 1 },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	nan := math.NaN()
	refuses("powertcp: gamma is .* choose", func(c *Config) { c.Gamma = 0 }, func(c *Config) { c.Gamma = 1.1 }, func(c *Config) { c.Gamma = nan })
	refuses("powertcp: flows is .* choose", func(c *Config) { c.Flows = 0 }, func(c *Config) { c.Flows = 0.5 }, func(c *Config) { c.Flows = nan }, func(c *Config) { c.Flows = math.Inf(1) })
	refuses("powertcp: remember is .* choose", func(c *Config) { c.Remember = 0 }, func(c *Config) { c.Remember = 9 })
	refuses("powertcp: min_current is .* choose", func(c *Config) { c.MinCurrent = -0.1 }, func(c *Config) { c.MinCurrent = 1 }, func(c *Config) { c.MinCurrent = nan })
	refuses("powertcp: base_rtt is .* choose", func(c *Config) { c.BaseRTT = -1 })
	refuses("powertcp: max_window is .* choose", func(c *Config) { c.MaxWindow = -1 })
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
	// One 25 Gbps port, seen each 20 us by the acknowledgements: first its
	// counters alone, then a queue of one bandwidth-delay product, then none.
	var path telemetry.Stack
	path.Push(telemetry.Hop{Rate: 25 * units.Gbps})
	port := &path.Hops[0]
	for i, queue := range []units.Bytes{0, 62_500, 0} {
		port.Time += 20 * units.Microsecond
		port.TxBytes += 62_500
		port.QLen = queue
		acked := units.Bytes(i+1) * 62_500
		c := e.OnAck(&cc.Ack{Path: &path, Acked: acked, Sent: acked + 62_500})
		fmt.Printf("queue %v: %.2f Gbps\n", queue, c.Rate.Gbps())
	}
	// Output:
	// start: 25Gbps 63KB
	// queue 0B: 25.00 Gbps
	// queue 62500B: 8.35 Gbps
	// queue 0B: 25.00 Gbps
}

// With OncePerRTT the window is set by the first acknowledgement of what was sent since
// it was last set.
func TestOncePerRTT(t *testing.T) {
	c := DefaultConfig()
	c.OncePerRTT = true
	e := mustNew(t, c, testEnv)
	h := telemetry.Hop{Rate: 25 * units.Gbps, QLen: 500_000}
	changes := 0
	for i := range 80 { // ten acknowledgements a round trip
		h.Time += 2 * us
		h.TxBytes += 6250
		path := telemetry.Stack{}
		path.Push(h)
		before := e.Control()
		if e.OnAck(&cc.Ack{Path: &path, Acked: h.TxBytes, Sent: units.Bytes((i/10 + 1) * 62_500)}) != before {
			changes++
		}
	}
	if changes < 3 || changes > 8 {
		t.Errorf("the window changed %d times in eight round trips", changes)
	}
}

// With FromRound each acknowledgement sets the window, all of a round trip from the window
// that the one before ended with: equation 7 has that for both of its windows.
func TestFromRound(t *testing.T) {
	c := ArtefactConfig()
	e := mustNew(t, c, testEnv)
	const bdp = 62_500.0
	beta := bdp / c.Flows
	h := telemetry.Hop{Rate: 25 * units.Gbps, QLen: 62_500}
	smooth, round, ended := 1.0, bdp, units.Bytes(0)
	for i := range 40 { // ten acknowledgements a round trip
		h.Time += 2 * us
		h.TxBytes += 6250
		path := telemetry.Stack{}
		path.Push(h)
		sent := h.TxBytes + 62_500
		got := e.OnAck(&cc.Ack{Path: &path, Acked: h.TxBytes, Sent: sent})
		if i == 0 {
			continue // nothing to compare with
		}
		smooth += (2 - smooth) / 10 // a queue of one more product: a power of two
		want := 0.9*(round/(smooth/0.95)+beta) + 0.1*round
		if h.TxBytes > ended {
			round, ended = want, sent
		}
		if !near(e.Cwnd, want, 1e-3) || got != e.Control() {
			t.Fatalf("acknowledgement %d: a window of %.0f, want %.0f", i, e.Cwnd, want)
		}
	}
}
