package hpcc

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

var testEnv = cc.Env{LineRate: 25 * units.Gbps, BaseRTT: 20 * us, MTU: 1000} // 62,500 bytes

const bdp = 62_500.0

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
	for name, change := range map[string]func(*Config){
		"default":                   func(*Config) {},
		"without additive stages":   func(c *Config) { c.MaxStage = 0 },
		"a few flows, less to fill": func(c *Config) { c.Flows, c.Eta = 10, 0.9 },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New: func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				// Line 13 never goes below W_AI, whose rate is HostBw (1-eta)/N.
				MinRate: func(env cc.Env) units.Rate {
					return units.Rate(float64(env.LineRate)*(1-c.Eta)/c.Flows) - 1
				},
				// A link is held at eta and W_AI; packets are whole.
				Share: c.Eta - 0.01,
			})
		})
	}
}

// records returns the reports of a port of 25 Gbps before and after a span in
// which it sent at the share use of its rate, with these queues.
func records(dt units.Time, use float64, before, after units.Bytes) (prev, cur telemetry.Hop) {
	prev = telemetry.Hop{TxBytes: 1 << 30, QLen: before, Time: 5 * units.Second, Rate: 25 * units.Gbps}
	cur = prev
	cur.TxBytes += units.Bytes(math.Round(use * 25e9 / 8 * dt.Seconds()))
	cur.QLen, cur.Time = after, prev.Time+dt
	return prev, cur
}

// Lines 4 and 5.
func TestUtilisation(t *testing.T) {
	for _, c := range []struct {
		name          string
		use           float64
		before, after units.Bytes
		want          float64
	}{
		{"an idle port", 0, 0, 0, 0},
		{"half a link", 0.5, 0, 0, 0.5},
		{"a full link, no queue", 1, 0, 0, 1},
		{"a standing queue of one BDP", 1, 62_500, 62_500, 2},
		{"a queue that one packet met", 1, 0, 62_500, 1},
		{"a queue that grows", 1, 62_500, 187_500, 2},
		{"a queue that drains", 1, 187_500, 62_500, 2},
		{"a queue behind a paused port", 0, 62_500, 62_500, 1},
	} {
		prev, cur := records(100*us, c.use, c.before, c.after)
		u, dt, ok := utilisation(&prev, &cur, float64(20*us))
		if !ok || dt != float64(100*us) || math.Abs(u-c.want) > 1e-5 {
			t.Errorf("%s: %v over %v, %v, want %v", c.name, u, dt, ok, c.want)
		}
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
		if _, _, ok := utilisation(&prev, &cur, float64(us)); ok {
			t.Errorf("%s gave a utilisation", name)
		}
	}
}

// Lines 6 to 9: the hop used most, smoothed with the time of that hop, which is
// at most T.
func TestSmoothing(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	first, second := telemetry.Stack{N: 2}, telemetry.Stack{N: 2}
	first.Hops[0], second.Hops[0] = records(10*us, 0.5, 0, 0)
	first.Hops[1], second.Hops[1] = records(5*us, 1, 125_000, 125_000) // U' = 3 over 5 us
	third := second                                                    // no time has passed
	fourth := second
	fourth.Hops[0].Time += units.Second // longer than T
	fourth.Hops[0].TxBytes += 1_562_500_000

	if e.p.measureInflight(&e.state, &first) || e.inflight != 1 {
		t.Errorf("the first records changed U to %v", e.inflight)
	}
	want := (1*(20-5) + 3*5) / 20.0
	if !e.p.measureInflight(&e.state, &second) || !near(e.inflight, want, 1e-6) {
		t.Errorf("U is %v, want %v", e.inflight, want)
	}
	if e.p.measureInflight(&e.state, &third) || !near(e.inflight, want, 1e-6) {
		t.Errorf("records without progress changed U to %v", e.inflight)
	}
	if !e.p.measureInflight(&e.state, &fourth) || !near(e.inflight, 0.5, 1e-6) {
		t.Errorf("after more than T, U is %v, want the new 0.5 alone", e.inflight)
	}
}

// path drives an engine with the records of one port, one T apart.
type path struct {
	e   *engine
	hop telemetry.Hop
}

// ack is an acknowledgement T after the one before, of everything up to acked,
// from a port that sent at the share use of its rate and holds queue throughout.
func (p *path) ack(use float64, queue, acked, sent units.Bytes) cc.Control {
	p.hop.Time += 20 * us
	p.hop.TxBytes += units.Bytes(use * bdp)
	p.hop.QLen, p.hop.Rate = queue, 25*units.Gbps
	var s telemetry.Stack
	s.Push(p.hop)
	return p.e.OnAck(&cc.Ack{Path: &s, Acked: acked, Sent: sent, Scale: 1})
}

// Algorithm 1 by hand. T is 20 us, so that each record alone makes U, W_init
// 62,500 bytes, and with eta 0.95 and ten flows W_AI 312.5 bytes.
func TestAlgorithm1(t *testing.T) {
	c := DefaultConfig()
	c.Flows, c.MaxStage = 10, 2
	p := path{e: mustNew(t, c, testEnv)}
	for i, s := range []struct {
		what            string
		use             float64
		queue           units.Bytes
		acked, sent     units.Bytes
		cwnd, reference float64
		stage           int
	}{
		// The first acknowledgement ends no round trip: that is when the 63,000
		// bytes sent are acknowledged.
		{"first", 1, 62_500, 1000, 63_000, 62_500, 62_500, 0},
		// U = 1 + 62,500/62,500: W = W_c 0.95/2 + W_AI, from the reference.
		{"fast reaction", 1, 62_500, 10_000, 63_000, 62_500*0.95/2 + 312.5, 62_500, 0},
		// The same congestion again: the same window, not half of it.
		{"the same again", 1, 62_500, 20_000, 63_000, 30_000, 62_500, 0},
		// Less of it: up again within the round trip.
		{"half of it", 1, 31_250, 30_000, 63_000, 62_500*0.95/1.5 + 312.5, 62_500, 0},
		// Two packets in a row met at least half of it.
		{"up to the last byte", 1, 62_500, 63_000, 93_000, 62_500*0.95/1.5 + 312.5, 62_500, 0},
		// Beyond what was sent at the last update: the reference follows.
		{"a round trip later", 1, 62_500, 64_000, 94_000, 30_000, 30_000, 0},
		{"within the next", 1, 62_500, 94_000, 120_000, 30_000*0.95/2 + 312.5, 30_000, 0},
		// Below eta: additive increase, from the reference; the stage counts
		// round trips, not acknowledgements.
		{"below eta", 0.5, 0, 94_000, 120_000, 30_312.5, 30_000, 0},
		{"below eta, a round trip later", 0.5, 0, 94_001, 120_000, 30_312.5, 30_312.5, 1},
		{"and another", 0.5, 0, 120_001, 150_000, 30_625, 30_625, 2},
		// After max_stage of them the utilisation decides.
		{"fast reaction after the stages", 0.5, 0, 130_000, 150_000, 30_625*0.95/0.5 + 312.5, 30_625, 2},
		{"multiplicative increase", 0.75, 0, 150_001, 170_000, 30_625*0.95/0.75 + 312.5, 30_625*0.95/0.75 + 312.5, 0},
		{"bounded by W_init", 0.95, 0, 170_001, 240_000, 30_625*0.95/0.75 + 625, 30_625*0.95/0.75 + 625, 0},
	} {
		got := p.ack(s.use, s.queue, s.acked, s.sent)
		if e := p.e; !near(e.Cwnd, s.cwnd, 1e-4) || !near(e.reference, s.reference, 1e-4) || e.stage != s.stage {
			t.Errorf("%d, %s: W %v, W_c %v, stage %d, want %v, %v, %d", i, s.what, e.Cwnd, e.reference, e.stage, s.cwnd, s.reference, s.stage)
		}
		// R = W/T, and whole packets.
		if want := s.cwnd * 8 / 20e-6 / 1e9; !near(got.Rate.Gbps(), want, 1e-4) {
			t.Errorf("%d, %s: rate %v, want %v Gbps", i, s.what, got.Rate, want)
		}
		if got.Window%1000 != 0 || float64(got.Window) < p.e.Cwnd || float64(got.Window) >= p.e.Cwnd+1000 {
			t.Errorf("%d, %s: a window of %v for %v bytes", i, s.what, got.Window, p.e.Cwnd)
		}
	}
}

// The first acknowledgement has no predecessor. An implementation that takes its
// counters for differences sees terabytes and stops the flow.
func TestFirstAcknowledgementChangesNothing(t *testing.T) {
	p := path{e: mustNew(t, DefaultConfig(), testEnv)}
	start := p.e.Control()
	if start.Rate != testEnv.LineRate || start.Window != 63*testEnv.MTU {
		t.Errorf("a flow starts with %+v, want the line rate and 62,500 bytes in whole packets", start)
	}
	p.hop = telemetry.Hop{TxBytes: 1 << 45, Time: units.Second}
	if got := p.ack(0, 1<<20, 1000, 63_000); got != start {
		t.Errorf("the first acknowledgement changed %+v to %+v", start, got)
	}
	if got := p.ack(1, 1<<20, 2000, 64_000); got.Rate >= start.Rate {
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
	for i, path := range []*telemetry.Stack{&long, &short, &long, {}, &long} {
		if got := e.OnAck(&cc.Ack{Path: path, Acked: 1, Sent: 1}); got != start {
			t.Errorf("path %d changed %+v to %+v", i, start, got)
		}
	}
	if got := e.OnAck(&cc.Ack{Acked: 1, Sent: 1}); got != start {
		t.Errorf("an acknowledgement without records changed %+v to %+v", start, got)
	}
}

func TestApplicationLimitedFallsButNeverRises(t *testing.T) {
	e := mustNew(t, DefaultConfig(), testEnv)
	h := telemetry.Hop{Rate: 25 * units.Gbps}
	next := func(queue units.Bytes, limited bool) cc.Control {
		h.Time += 20 * us
		h.TxBytes += 31_250
		h.QLen = queue
		path := telemetry.Stack{}
		path.Push(h)
		return e.OnAck(&cc.Ack{Path: &path, Acked: h.TxBytes, Sent: h.TxBytes, AppLimited: limited})
	}
	next(500_000, false)
	low := next(500_000, true)
	if low.Rate >= testEnv.LineRate {
		t.Fatalf("a queue did not lower the rate of an application-limited flow: %v", low.Rate)
	}
	for range 20 {
		if got := next(0, true); got.Rate > low.Rate || got.Window > low.Window {
			t.Fatalf("an application-limited flow rose from %+v to %+v", low, got)
		}
	}
	if e.stage != 0 {
		t.Errorf("round trips without an increase count as %d stages", e.stage)
	}
	if got := next(0, false); got.Rate <= low.Rate {
		t.Errorf("with data to send it stayed at %v", got.Rate)
	}
}

func TestBoundsOfTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   cc.Control
		wAI    float64
	}{
		"default":           {func(*Config) {}, cc.Control{Rate: 25 * units.Gbps, Window: 63_000}, 62_500 * 0.05 / 100},
		"max_window":        {func(c *Config) { c.MaxWindow = 10_000 }, cc.Control{Rate: 4 * units.Gbps, Window: 10_000}, 31.25},
		"base_rtt":          {func(c *Config) { c.BaseRTT = 40 * us }, cc.Control{Rate: 25 * units.Gbps, Window: 125_000}, 62.5},
		"additive_increase": {func(c *Config) { c.AdditiveIncrease = 80 }, cc.Control{Rate: 25 * units.Gbps, Window: 63_000}, 80},
		"flows":             {func(c *Config) { c.Flows = 1e9 }, cc.Control{Rate: 25 * units.Gbps, Window: 63_000}, 62_500 * 0.05 / 1e9},
	} {
		config := DefaultConfig()
		c.change(&config)
		e := mustNew(t, config, testEnv)
		if e.Control() != c.want || !near(e.p.wAI, c.wAI, 1e-9) {
			t.Errorf("%s: a flow starts with %+v and W_AI %v, want %+v and %v", name, e.Control(), e.p.wAI, c.want, c.wAI)
		}
		// However full the path, W_AI is left, and a packet may be under way.
		p := path{e: e}
		for range 3 {
			p.ack(1, 1<<50, 0, 1)
		}
		if got := e.Control(); e.Cwnd < e.p.wAI || got.Window != 1000 || got.Rate < 1 {
			t.Errorf("%s: a full path leaves a window of %v bytes, %+v", name, e.Cwnd, got)
		}
	}
}

func link(t testing.TB, c Config, n int) *enginetest.Link {
	l := &enginetest.Link{Rate: testEnv.LineRate, Env: testEnv}
	for i := range n {
		l.Add(mustNew(t, c, testEnv), units.Time(i)*100*units.Nanosecond)
	}
	return l
}

// A ten-to-one incast: all start at line rate with a full window, and the queue
// that this makes goes, with the link in use all the while.
func TestIncastDrains(t *testing.T) {
	l := link(t, DefaultConfig(), 10)
	peak := units.Bytes(0)
	for l.Now() < 2*units.Millisecond {
		before := l.Sent()
		most := units.Bytes(0)
		for range 50 {
			l.Run(l.Now() + 4*us)
			most = max(most, l.Queue())
		}
		peak = max(peak, most)
		if got := units.RateOf(l.Sent()-before, 200*us).Gbps() / 25; got < 0.9 {
			t.Errorf("in the 200 us up to %v the link is used %.3f", l.Now(), got)
		}
		if l.Now() > 500*us && float64(most) > 0.1*bdp {
			t.Errorf("in the 200 us up to %v up to %v are queued", l.Now(), most)
		}
	}
	if float64(peak) < 8*bdp {
		t.Errorf("the peak is %v: no incast", peak)
	}
}

// Two flows that start ten to one reach like shares. Each round trip takes
// W_AI/W from the difference, so with ten flows expected it is quick.
func TestTwoFlowsShareFairly(t *testing.T) {
	c := DefaultConfig()
	c.Flows = 10
	l := link(t, c, 2)
	slow := l.Flows[1].Engine.(*engine)
	slow.Cwnd, slow.reference = bdp/10, bdp/10
	l.Run(units.Millisecond)
	first := l.Flows[1].Acked
	if share := float64(first) / float64(l.Sent()); share > 0.35 {
		t.Fatalf("the slow flow has %.2f of the link in the first millisecond: the start is fair, and nothing is shown", share)
	}
	l.Run(10 * units.Millisecond)
	before, all := l.Flows[1].Acked, l.Sent()
	l.Run(12 * units.Millisecond)
	if share := float64(l.Flows[1].Acked-before) / float64(l.Sent()-all); math.Abs(share-0.5) > 0.03 {
		t.Errorf("after 10 ms the slow flow has %.3f of what the link carries", share)
	}
}

// When nine of ten flows leave, the tenth adds W_AI for max_stage round trips and
// then takes the link in one step, which is seen a round trip later.
func TestSpareBandwidthIsTakenAfterTheStages(t *testing.T) {
	for _, c := range []struct{ stages, roundTrips int }{{5, 10}, {0, 5}} {
		config := DefaultConfig()
		config.MaxStage = c.stages
		l := link(t, config, 10)
		for _, f := range l.Flows[1:] {
			f.Stop = 3 * units.Millisecond
		}
		l.Run(3 * units.Millisecond)
		round := func() float64 {
			before := l.Flows[0].Acked
			l.Run(l.Now() + testEnv.BaseRTT)
			return units.RateOf(l.Flows[0].Acked-before, testEnv.BaseRTT).Gbps()
		}
		for i := range c.stages {
			if got := round(); got > 5 {
				t.Errorf("%d stages: in round trip %d the flow has %v Gbps", c.stages, i+1, got)
			}
		}
		for range c.roundTrips - c.stages {
			round()
		}
		if got := round(); got < 0.92*25 {
			t.Errorf("%d stages: after %d round trips the flow has %v Gbps", c.stages, c.roundTrips, got)
		}
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig,
		func(c *Config) { c.MaxStage = 0 },
		func(c *Config) { c.Flows = 1 },
		func(c *Config) { c.AdditiveIncrease, c.MaxWindow, c.BaseRTT = 80, 1000, us },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	nan := math.NaN()
	refuses("hpcc: eta is .* choose", func(c *Config) { c.Eta = 0 }, func(c *Config) { c.Eta = 1 }, func(c *Config) { c.Eta = nan })
	refuses("hpcc: max_stage is .* choose", func(c *Config) { c.MaxStage = -1 })
	refuses("hpcc: flows is .* choose", func(c *Config) { c.Flows = 0.5 }, func(c *Config) { c.Flows = nan }, func(c *Config) { c.Flows = math.Inf(1) })
	refuses("hpcc: additive_increase is .* choose", func(c *Config) { c.AdditiveIncrease = -1 })
	refuses("hpcc: base_rtt is .* choose", func(c *Config) { c.BaseRTT = -1 })
	refuses("hpcc: max_window is .* choose", func(c *Config) { c.MaxWindow = -1 })
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
	// counters alone, then a queue of one bandwidth-delay product that two
	// acknowledgements in a row met, then none.
	var path telemetry.Stack
	path.Push(telemetry.Hop{Rate: 25 * units.Gbps})
	port := &path.Hops[0]
	for i, queue := range []units.Bytes{62_500, 62_500, 0} {
		port.Time += 20 * units.Microsecond
		port.TxBytes += 62_500
		port.QLen = queue
		acked := units.Bytes(i+1) * 62_500
		c := e.OnAck(&cc.Ack{Path: &path, Acked: acked, Sent: acked + 62_500})
		fmt.Printf("queue %v: %.2f Gbps\n", queue, c.Rate.Gbps())
	}
	// Output:
	// start: 25Gbps 63KB
	// queue 62500B: 25.00 Gbps
	// queue 62500B: 11.89 Gbps
	// queue 0B: 23.76 Gbps
}

// With OncePerRTT the window is that which is set as a round trip begins.
func TestOncePerRTT(t *testing.T) {
	c := DefaultConfig()
	c.OncePerRTT = true
	e := mustNew(t, c, testEnv)
	h := telemetry.Hop{Rate: 25 * units.Gbps, QLen: 500_000}
	changes := 0
	for i := range 80 { // ten acknowledgements a round trip
		h.Time += 2 * us
		h.TxBytes += 3125
		path := telemetry.Stack{}
		path.Push(h)
		before := e.Control()
		if e.OnAck(&cc.Ack{Path: &path, Acked: h.TxBytes, Sent: units.Bytes((i/10 + 1) * 31_250)}) != before {
			changes++
		}
	}
	if changes < 3 || changes > 8 {
		t.Errorf("the window changed %d times in eight round trips", changes)
	}
}
