package ictcp

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

// testEnv's line rate fills 50 packets of 1000 bytes in a base RTT.
var testEnv = cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 40 * us, MTU: 1000}

const line = 1.25e9 // bytes a second

func config(change func(*Config)) Config {
	c := DefaultConfig()
	change(&c)
	return c
}

func newSender(t testing.TB, c Config) cc.Granted {
	t.Helper()
	e, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return e.(cc.Granted)
}

func newReceiver(t testing.TB, c Config) *receiver {
	t.Helper()
	r, err := NewReceiver(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return r.(*receiver)
}

func TestConfig(t *testing.T) {
	enginetest.Tags(t, DefaultConfig())
	enginetest.Accepts(t, DefaultConfig,
		func(c *Config) { c.Alpha, c.Beta, c.Gamma1, c.Gamma2, c.FairShare = 1, 0, 0, 0, 0 },
		func(c *Config) { c.MinWindow, c.InitialCwnd, c.Rounds = 1, 10, 1 },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	refuses("^ictcp: alpha .*choose", func(c *Config) { c.Alpha = 0 }, func(c *Config) { c.Alpha = math.NaN() })
	refuses("^ictcp: beta .*choose", func(c *Config) { c.Beta = 1 }, func(c *Config) { c.Beta = -1 })
	refuses("^ictcp: gamma1 .*choose", func(c *Config) { c.Gamma1 = -1 }, func(c *Config) { c.Gamma1 = 2 })
	refuses("^ictcp: gamma2 .*choose", func(c *Config) { c.Gamma2 = 0.05 }, func(c *Config) { c.Gamma2 = 2 })
	refuses("^ictcp: rounds .*choose", func(c *Config) { c.Rounds = 0 }, func(c *Config) { c.Rounds = 101 })
	refuses("^ictcp: fair_share .*choose", func(c *Config) { c.FairShare = 1 }, func(c *Config) { c.FairShare = -1 })
	refuses("^ictcp: min_window .*choose", func(c *Config) { c.MinWindow = 0 }, func(c *Config) { c.MinWindow = 1e7 })
	refuses("^ictcp: initial_cwnd .*choose", func(c *Config) { c.InitialCwnd = 0.5 })
	bad := config(func(c *Config) { c.Rounds = 0 })
	if _, err := New(bad, testEnv); err == nil {
		t.Error("a sender was made of a bad configuration")
	}
	if _, err := NewReceiver(bad, testEnv); err == nil {
		t.Error("a receiver was made of a bad configuration")
	}
	if _, err := New(DefaultConfig(), cc.Env{}); err == nil {
		t.Error("a sender was made for an empty environment")
	}
	if _, err := NewReceiver(DefaultConfig(), cc.Env{}); err == nil {
		t.Error("a receiver was made for an empty environment")
	}
}

// The smaller of the two windows, and a packet at least.
func TestSender(t *testing.T) {
	e := newSender(t, config(func(c *Config) { c.InitialCwnd = 10 }))
	want := func(what string, got cc.Control, window units.Bytes) {
		t.Helper()
		if got != (cc.Control{Rate: testEnv.LineRate, Window: window}) || got != e.Control() {
			t.Errorf("%s: %+v, want a window of %v", what, got, window)
		}
	}
	want("at first two packets", e.Control(), 2000)
	want("the receiver has more", e.OnGrant(us, 2000, cc.Grant{Limit: 8000}), 8000)
	want("an older grant", e.OnGrant(us, 2000, cc.Grant{Limit: 4000}), 8000)
	want("the congestion window", e.OnGrant(us, 2000, cc.Grant{Limit: 80_000}), 10_000)
	// 8 of its 10 packets are out: it doubles, in slow start.
	want("slow start", e.OnAck(&cc.Ack{RTT: us, Bytes: 8000, Packets: 8, Acked: 8000, Sent: 8000, ECN: true}), 18_000)
	want("a loss", e.OnLoss(us), 9000)
	want("a timeout", e.OnTimeout(us), 1000)
	want("a CNP", e.OnCNP(us), 1000)
	want("a closed window", e.OnAck(&cc.Ack{RTT: us, Bytes: 1000, Packets: 1, Acked: 80_000, Sent: 80_000}), 1)
}

func TestSenderAllocatesNothing(t *testing.T) {
	e := newSender(t, DefaultConfig())
	a := cc.Ack{RTT: us, Bytes: 1000, Packets: 1}
	if n := testing.AllocsPerRun(1000, func() {
		a.Acked, a.Sent = a.Acked+1000, a.Sent+1000
		e.OnAck(&a)
		e.OnGrant(a.Now, a.Sent, cc.Grant{Limit: a.Sent + 20_000})
		e.OnLoss(a.Now)
		e.OnTimeout(a.Now)
		e.OnCNP(a.Now)
	}); n != 0 {
		t.Errorf("the events of a packet allocate %v times", n)
	}
}

// feed gives the receiver one flow's packets at even distances, from 0 on.
type feed struct {
	r       *receiver
	flow    uint32
	arrived units.Bytes
}

// until has n packets arrive evenly over the span that begins at from.
func (f *feed) round(from, span units.Time, n int, way units.Time) (limit units.Bytes) {
	for i := range n {
		now := from + span*units.Time(i+1)/units.Time(n)
		f.arrived += 1000
		f.r.OnData(&cc.Data{Now: now, SentAt: now - way, Flow: f.flow, Bytes: 1000, Arrived: f.arrived})
		if _, g, ok := f.r.Next(); ok {
			limit = g.Limit
		}
	}
	return limit
}

// Section 4.3 by hand: a flow that fills its window has it doubled once in two round
// trips, in the second half of a slot, until the quota does not hold that much;
// then it gets a packet at a time, and nothing when the quota is used up.
func TestWindowGrows(t *testing.T) {
	r := newReceiver(t, DefaultConfig())
	f := &feed{r: r}
	r.OnStart(0, 0, 0)
	windows := []float64{r.flows[0].rwnd / 1000}
	limit := units.Bytes(2000)
	for i := range units.Time(60) {
		n := int(r.flows[0].rwnd / 1000)
		if got := f.round(i*testEnv.BaseRTT, testEnv.BaseRTT, n, 10*us); got > 0 {
			if got < limit {
				t.Fatalf("the window moved back from %v to %v", limit, got)
			}
			limit = got
		}
		if w := r.flows[0].rwnd / 1000; w != windows[len(windows)-1] {
			windows = append(windows, w)
		}
	}
	// 45 packets a round trip are alpha of the line. From 32 a doubling would take
	// it to 64: 32 packets a round trip are more than the 13 left.
	want := []float64{2, 4, 8, 16, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45}
	for i, w := range want {
		if i >= len(windows) || windows[i] != w {
			t.Fatalf("the windows are %v, want %v", windows, want)
		}
	}
	if last := windows[len(windows)-1]; last > 46 {
		t.Errorf("the window is %v, alpha of the line 45", last)
	}
	if f.arrived+units.Bytes(r.flows[0].rwnd) != limit {
		t.Errorf("%v arrived, a window of %v, and a limit of %v", f.arrived, r.flows[0].rwnd, limit)
	}
}

// A flow that uses less than half of its window for three round trips loses a
// packet of it, down to the least; one that uses half or more keeps it.
func TestWindowShrinks(t *testing.T) {
	r := newReceiver(t, DefaultConfig())
	r.OnStart(0, 0, 0)
	f := &feed{r: r}
	r.set(&r.flows[0], 20_000)
	now := units.Time(0)
	round := func(n int) float64 {
		f.round(now, testEnv.BaseRTT, n, 10*us)
		now += testEnv.BaseRTT
		return r.flows[0].rwnd / 1000
	}
	for range 20 {
		if got := round(12); got != 20 {
			t.Fatalf("with 12 packets of 20 the window is %v", got)
		}
	}
	r.flows[0].measured = 0 // as if it had been slow for long
	for i, want := range []float64{20, 20, 19, 19, 19, 18} {
		if got := round(5); got != want {
			t.Fatalf("after %d rounds of 5 packets it is %v, want %v", i+1, got, want)
		}
	}
	for range 100 {
		round(1)
	}
	// From two packets, one is half: no less than gamma2 wants.
	if got := r.flows[0].rwnd / 1000; got != 2 {
		t.Errorf("after 100 rounds of a packet it is %v", got)
	}
}

// With less than a fifth of the port available, windows above the average lose a
// packet a slot; others do not.
func TestFairness(t *testing.T) {
	r := newReceiver(t, DefaultConfig())
	a, b := &feed{r: r, flow: 0}, &feed{r: r, flow: 1}
	r.OnStart(0, 0, 0)
	r.OnStart(0, 1, 0)
	r.set(&r.flows[0], 40_000)
	r.set(&r.flows[1], 6000)
	for i := range units.Time(20) {
		now := i * testEnv.BaseRTT
		n, m := int(r.flows[0].rwnd/1000), int(r.flows[1].rwnd/1000)
		a.round(now, testEnv.BaseRTT-us, n, 10*us)
		b.round(now+testEnv.BaseRTT-us, us, m, 10*us)
	}
	big, small := r.flows[0].rwnd/1000, r.flows[1].rwnd/1000
	if big > 32 || small < 6 {
		t.Errorf("after ten slots the windows are %v and %v", big, small)
	}
	if r.sum != r.flows[0].rwnd+r.flows[1].rwnd || r.count != 2 {
		t.Errorf("the sum is %v of %v", r.sum, r.count)
	}
}

// incast has flows of these sizes begin together.
func incast(t testing.TB, c Config, buffer units.Bytes, sizes ...units.Bytes) (*enginetest.Incast, *receiver) {
	t.Helper()
	r := newReceiver(t, c)
	l := &enginetest.Incast{Rate: testEnv.LineRate, Env: testEnv, Receiver: r, Buffer: buffer}
	for _, size := range sizes {
		l.Flows = append(l.Flows, &enginetest.GrantedFlow{Engine: newSender(t, c), Size: size})
	}
	return l, r
}

// A flow alone has what alpha leaves it, without a queue.
func TestOneFlow(t *testing.T) {
	l, _ := incast(t, DefaultConfig(), 0, 0)
	l.Run(10 * units.Millisecond)
	before := l.Flows[0].Arrived
	l.Run(20 * units.Millisecond)
	share := float64(l.Flows[0].Arrived-before) / 0.01 / line
	if share < 0.85 || share > 0.95 {
		t.Errorf("a flow alone has %.3f of the line, alpha is 0.9", share)
	}
	if l.MaxQueue > 3000 {
		t.Errorf("%v queued behind itself", l.MaxQueue)
	}
}

// An incast of flows that all have much to send: the queue is no longer than their
// least windows make it, where the senders' own windows lose packets.
func TestIncast(t *testing.T) {
	sizes := make([]units.Bytes, 40)
	for i := range sizes {
		sizes[i] = 200 * units.KB
	}
	const buffer = 100 * units.KB
	l, r := incast(t, DefaultConfig(), buffer, sizes...)
	l.Run(100 * units.Millisecond)
	for i, f := range l.Flows {
		if f.Done == 0 {
			t.Errorf("flow %d has %v", i, f.Arrived)
		}
	}
	if l.Lost > 0 || r.count != 0 || r.sum != 0 {
		t.Errorf("%d lost, %v flows left with windows of %v", l.Lost, r.count, r.sum)
	}
	open, _ := incast(t, config(func(c *Config) { c.MinWindow = 1000 }), buffer, sizes...)
	open.Run(100 * units.Millisecond)
	if open.Lost == 0 {
		t.Errorf("plain TCP lost nothing, and queued %v: the test shows nothing", open.MaxQueue)
	}
}

// A flow that had the line gives way to others.
func TestLongFlowGivesWay(t *testing.T) {
	l, r := incast(t, DefaultConfig(), 0, make([]units.Bytes, 17)...)
	for i, f := range l.Flows {
		if i > 0 {
			f.Start = 5 * units.Millisecond
		}
	}
	l.Run(5 * units.Millisecond)
	alone := r.flows[0].rwnd
	l.Run(15 * units.Millisecond)
	if now := r.flows[0].rwnd; alone < 40_000 || now > alone/8 {
		t.Errorf("the window was %v alone, and is %v beside sixteen others", alone, now)
	}
	if l.MaxQueue > 17*2000+units.Bytes(alone) {
		t.Errorf("%v queued", l.MaxQueue)
	}
}

// Whatever arrives: limits do not move back and leave a window of at least
// MinWindow; one packet at most doubles its flow's, within the slot's quota; the
// sum is that of the open flows' windows.
func TestReceiverProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, err := NewReceiver(DefaultConfig(), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		r := x.(*receiver)
		type peer struct {
			open           bool
			arrived, limit units.Bytes
		}
		peers := make([]peer, rapid.IntRange(1, 8).Draw(t, "flows"))
		now := units.Time(0)
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			now += units.Time(rapid.IntRange(0, 50_000).Draw(t, "ns")) * units.Nanosecond
			number := uint32(rapid.IntRange(0, len(peers)-1).Draw(t, "flow"))
			p := &peers[number]
			before := r.sum
			switch {
			case !p.open:
				*p = peer{open: true, limit: 2000}
				r.OnStart(now, number, 0)
				before += 2000
			case rapid.IntRange(0, 30).Draw(t, "ends") == 0:
				p.open = false
				before -= r.flows[number].rwnd
				r.OnEnd(now, number)
			default:
				n := units.Bytes(rapid.IntRange(1, 3000).Draw(t, "bytes"))
				p.arrived += n
				way := units.Time(rapid.IntRange(0, 100_000).Draw(t, "way")) * units.Nanosecond
				r.OnData(&cc.Data{Now: now, SentAt: now - way, Flow: number, Bytes: n, Arrived: p.arrived})
			}
			for {
				flow, g, ok := r.Next()
				if !ok {
					break
				}
				if flow != number || g.Limit <= p.limit || g.Limit > p.arrived+units.Bytes(r.flows[number].rwnd) {
					t.Fatalf("flow %d was granted %+v, after %+v", flow, g, *p)
				}
				p.limit = g.Limit
			}
			sum, open := 0.0, 0.0
			for i := range peers {
				if f := &r.flows; i < len(*f) && (*f)[i].open {
					if w := (*f)[i].rwnd; w < 2000 || math.IsNaN(w) || math.IsInf(w, 0) {
						t.Fatalf("the window of flow %d is %v", i, w)
					}
					sum += (*f)[i].rwnd
					open++
				}
			}
			if open != r.count || math.Abs(sum-r.sum) > 1e-6*(1+sum) {
				t.Fatalf("%v flows with windows of %v, counted as %v and %v", open, sum, r.count, r.sum)
			}
			// No more is given out than the slot has, and no window but that of the
			// flow grows, to twice what it was at most.
			if r.slots.quota < 0 || r.sum-before > r.flows[number].rwnd/2+1e-6 {
				t.Fatalf("one packet opened windows by %v, to %v; %v of the quota is left", r.sum-before, r.flows[number].rwnd, r.slots.quota)
			}
		}
		if at := r.Deadline(); at != units.Never {
			t.Fatalf("a timer for %v", at)
		}
	})
}

// thousand has a thousand flows to one host.
func thousand(t testing.TB) func() {
	r := newReceiver(t, DefaultConfig())
	const n = 1000
	arrived := make([]units.Bytes, n)
	for i := range n {
		r.OnStart(0, uint32(i), 0)
	}
	d := cc.Data{Bytes: 1000}
	i := 0
	return func() {
		i = (i + 7) % n
		d.Now += 800 * units.Nanosecond
		d.SentAt = d.Now - 20*us
		arrived[i] += 1000
		if arrived[i]%100_000 == 0 {
			r.OnEnd(d.Now, uint32(i))
			arrived[i] = 1000
			r.OnStart(d.Now, uint32(i), 0)
		}
		d.Flow, d.Arrived = uint32(i), arrived[i]
		r.OnData(&d)
		for {
			if _, _, ok := r.Next(); !ok {
				break
			}
		}
	}
}

func TestReceiverAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(10_000, thousand(t)); n != 0 {
		t.Errorf("a packet allocates %v times", n)
	}
}

func BenchmarkReceiver(b *testing.B) {
	step := thousand(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
