package homa

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const (
	us = units.Microsecond
	mb = 1000 * units.KB
)

// testEnv's line rate fills 20 packets of 1000 bytes in a base RTT.
var testEnv = cc.Env{LineRate: 16 * units.Gbps, BaseRTT: 10 * us, MTU: 1000}

const rttBytes = 20 * units.KB

func config(change func(*Config)) Config {
	c := DefaultConfig()
	change(&c)
	return c
}

func newSender(t testing.TB, c Config, env cc.Env) cc.Granted {
	t.Helper()
	e, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return e.(cc.Granted)
}

func newReceiver(t failer, c Config) *receiver {
	r, err := NewReceiver(c, testEnv)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r.(*receiver)
}

type failer interface{ Fatalf(string, ...any) }

func TestConfig(t *testing.T) {
	enginetest.Tags(t, DefaultConfig())
	enginetest.Accepts(t, DefaultConfig,
		func(c *Config) { c.Overcommit, c.UnscheduledClasses, c.ScheduledClasses = 1, 7, 1 },
		func(c *Config) { c.Overcommit, c.RTTBytes, c.UnscheduledCutoff = 64, 1, 1 },
	)
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	refuses("^homa: rtt_bytes .*choose", func(c *Config) { c.RTTBytes = -1 }, func(c *Config) { c.RTTBytes = 2 * units.GiB })
	refuses("^homa: overcommit .*choose", func(c *Config) { c.Overcommit = 0 }, func(c *Config) { c.Overcommit = 65 })
	refuses("^homa: (un)?scheduled_classes is .*choose 1 to",
		func(c *Config) { c.UnscheduledClasses = 0 }, func(c *Config) { c.ScheduledClasses = 0 }, func(c *Config) { c.ScheduledClasses = 7 })
	refuses("^homa: unscheduled_cutoff .*choose", func(c *Config) { c.UnscheduledCutoff = -1 })
	refuses("^homa: cutoff_step .*choose", func(c *Config) { c.CutoffStep = 1 }, func(c *Config) { c.CutoffStep = math.NaN() })
	refuses("^homa: resend .*choose", func(c *Config) { c.Resend = 0 })
	bad := config(func(c *Config) { c.Overcommit = 0 })
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

func TestRTTBytes(t *testing.T) {
	for _, c := range []struct {
		set  units.Bytes
		env  cc.Env
		want units.Bytes
	}{
		{0, testEnv, 20_000},
		{0, cc.Env{LineRate: 16 * units.Gbps, BaseRTT: 10*us + 1*units.Nanosecond, MTU: 1000}, 21_000},
		{0, cc.Env{LineRate: units.Gbps, BaseRTT: units.Nanosecond, MTU: 4096}, 4096},
		{0, cc.Env{LineRate: 800 * units.Gbps, BaseRTT: 1000 * units.Second, MTU: 4096}, units.GiB},
		{1500, testEnv, 2000},
	} {
		if got := (Config{RTTBytes: c.set}).rttBytes(c.env); got != c.want {
			t.Errorf("%v, %+v: %v, want %v", c.set, c.env, got, c.want)
		}
	}
}

// Short messages above long ones; each more urgent class has a fourth of the size.
func TestUnscheduledClass(t *testing.T) {
	four := config(func(c *Config) { c.UnscheduledClasses, c.ScheduledClasses, c.UnscheduledCutoff = 4, 3, 16_000 })
	for _, c := range []struct {
		config Config
		size   units.Bytes
		want   uint8
	}{
		{DefaultConfig(), 1, 8}, {DefaultConfig(), rttBytes, 8}, {DefaultConfig(), rttBytes + 1, 7}, {DefaultConfig(), 0, 7},
		{four, 1000, 7}, {four, 1001, 6}, {four, 4000, 6}, {four, 4001, 5}, {four, 16_000, 5}, {four, 16_001, 4}, {four, 0, 4},
	} {
		env := testEnv
		env.FlowSize = c.size
		if got := newSender(t, c.config, env).Control().Class; got != c.want {
			t.Errorf("a message of %v begins in class %d, want %d", c.size, got, c.want)
		}
	}
}

// A sender goes as far as RTTBytes, and then as far as it is granted.
func TestSender(t *testing.T) {
	env := testEnv
	env.FlowSize = 100 * units.KB
	e := newSender(t, DefaultConfig(), env)
	want := func(what string, got cc.Control, window units.Bytes, class uint8) {
		t.Helper()
		if got != (cc.Control{Rate: env.LineRate, Window: window, Class: class}) || got != e.Control() {
			t.Errorf("%s: %+v, want a window of %v in class %d", what, got, window, class)
		}
	}
	want("at first", e.Control(), rttBytes, 7)
	want("a grant while unscheduled bytes are left", e.OnGrant(us, 5000, cc.Grant{Limit: 21_000, Class: 3}), 21_000, 7)
	want("an acknowledgement", e.OnAck(&cc.Ack{Now: 2 * us, Acked: 1000, Sent: 6000}), 20_000, 7)
	want("when they have been sent", e.OnAck(&cc.Ack{Now: 3 * us, Acked: 2000, Sent: 20_000}), 19_000, 3)
	want("a grant that was overtaken", e.OnGrant(4*us, 20_000, cc.Grant{Limit: 20_500, Class: 1}), 19_000, 3)
	want("another class", e.OnGrant(5*us, 21_000, cc.Grant{Limit: 22_000, Class: 1}), 20_000, 1)
	want("no class", e.OnGrant(5*us, 21_000, cc.Grant{Limit: 30_000}), 20_000, 1)
	want("nothing granted is left", e.OnAck(&cc.Ack{Now: 6 * us, Acked: 22_000, Sent: 22_000}), 0, 1)
	want("a packet more has arrived", e.OnAck(&cc.Ack{Now: 6 * us, Acked: 23_000, Sent: 23_000}), 0, 1)
	want("losses and the like", e.OnLoss(7*us), 0, 1)
	want("losses and the like", e.OnTimeout(7*us), 0, 1)
	want("losses and the like", e.OnCNP(7*us), 0, 1)
	want("it goes on", e.OnGrant(8*us, 23_000, cc.Grant{Limit: 24_000, Class: 200}), 1000, 8)
}

func TestSenderAllocatesNothing(t *testing.T) {
	e := newSender(t, DefaultConfig(), testEnv)
	a := cc.Ack{Bytes: 1000, Packets: 1}
	if n := testing.AllocsPerRun(1000, func() {
		a.Acked, a.Sent = a.Acked+1000, a.Sent+1000
		e.OnAck(&a)
		e.OnGrant(a.Now, a.Sent, cc.Grant{Limit: a.Sent + 20_000, Class: 1})
		e.OnLoss(a.Now)
		e.OnTimeout(a.Now)
		e.OnCNP(a.Now)
	}); n != 0 {
		t.Errorf("the events of a packet allocate %v times", n)
	}
}

// incast has flows of these sizes begin together.
func incast(t testing.TB, c Config, sizes ...units.Bytes) *enginetest.Incast {
	t.Helper()
	r, err := NewReceiver(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	l := &enginetest.Incast{Rate: testEnv.LineRate, Env: testEnv, Receiver: r}
	for _, size := range sizes {
		env := testEnv
		env.FlowSize = size
		l.Flows = append(l.Flows, &enginetest.GrantedFlow{Engine: newSender(t, c, env), Size: size})
	}
	return l
}

// A flow alone has the line: RTTBytes ahead is what fills it.
func TestOneFlowFillsTheLine(t *testing.T) {
	for _, k := range []int{1, 6} {
		l := incast(t, config(func(c *Config) { c.Overcommit = k }), mb)
		l.Run(units.Second)
		ideal := testEnv.LineRate.Serialize(mb) + testEnv.BaseRTT/2
		if done := l.Flows[0].Done; done == 0 || done > ideal+2*us {
			t.Errorf("overcommit %d: done after %v, ideal is %v", k, done, ideal)
		}
		if l.MaxQueue > 2000 {
			t.Errorf("overcommit %d: it queued %v behind itself", k, l.MaxQueue)
		}
	}
}

// Flows end in the order of their sizes, at the rate of the line, and the queue is
// at most what came unasked and what was granted.
func TestShortestFirst(t *testing.T) {
	for _, k := range []int{1, 2, 6} {
		c := config(func(c *Config) { c.Overcommit = k })
		var sizes []units.Bytes
		total := units.Bytes(0)
		for i := range units.Bytes(10) {
			sizes = append(sizes, 60*units.KB+(i*7%10)*10*units.KB)
			total += sizes[i]
		}
		l := incast(t, c, sizes...)
		l.Run(units.Second)
		for i, f := range l.Flows {
			if f.Done == 0 {
				t.Fatalf("overcommit %d: flow %d never ended", k, i)
			}
			for j, g := range l.Flows {
				if f.Size < g.Size && f.Done > g.Done {
					t.Errorf("overcommit %d: flow %d of %v ended at %v, %d of %v at %v", k, i, f.Size, f.Done, j, g.Size, g.Done)
				}
			}
		}
		last := units.Time(0)
		for _, f := range l.Flows {
			last = max(last, f.Done)
		}
		if ideal := testEnv.LineRate.Serialize(total) + testEnv.BaseRTT/2; last > ideal+testEnv.BaseRTT {
			t.Errorf("overcommit %d: all were there after %v, the line takes %v", k, last, ideal)
		}
		if bound := units.Bytes(len(sizes)+k) * rttBytes; l.MaxQueue > bound {
			t.Errorf("overcommit %d: %v queued, the bound is %v", k, l.MaxQueue, bound)
		}
		if l.Overtaken != 0 {
			t.Errorf("overcommit %d: %d packets overtook others of their flow", k, l.Overtaken)
		}
	}
}

// A short message goes past a long one: its unscheduled part at once, the rest
// when it is the shortest.
func TestShortMessagesPassLongOnes(t *testing.T) {
	for _, k := range []int{1, 3} {
		c := config(func(c *Config) { c.Overcommit = k })
		l := incast(t, c, 10*mb, 10*mb, 15*units.KB, 100*units.KB)
		l.Flows[2].Start, l.Flows[3].Start = units.Millisecond, 2*units.Millisecond
		l.Run(20 * units.Millisecond)
		for _, x := range []struct {
			flow  int
			extra units.Time
		}{{2, 2 * us}, {3, 2 * testEnv.BaseRTT}} {
			f := l.Flows[x.flow]
			ideal := testEnv.LineRate.Serialize(f.Size) + testEnv.BaseRTT/2
			if got := f.Done - f.Start; f.Done == 0 || got > ideal+x.extra {
				t.Errorf("overcommit %d: %v past 10MB took %v, alone %v", k, f.Size, got, ideal)
			}
		}
	}
}

// What a shorter flow has under way is not held up by a longer one that began in a
// high class and is alone when the shorter ones are granted to their end.
func TestLongFlowHoldsUpNobody(t *testing.T) {
	sizes := []units.Bytes{0}
	for range 19 {
		sizes = append(sizes, 39*units.KB)
	}
	for _, k := range []int{1, 2, 6} {
		l := incast(t, config(func(c *Config) { c.Overcommit = k }), sizes...)
		l.Run(10 * units.Millisecond)
		// Alone they take 371 us; of the long one 20 packets come unasked, and the packets
		// that it is granted before it is known that others are shorter.
		for i, f := range l.Flows[1:] {
			if f.Done == 0 || f.Done > 420*us {
				t.Errorf("overcommit %d: flow %d of %v ended at %v", k, i+1, f.Size, f.Done)
			}
		}
	}
}

// A sender that can't send holds up one degree of overcommitment, and no more.
func TestOvercommitmentFillsIn(t *testing.T) {
	const span = units.Millisecond / 2
	share := func(k int) float64 {
		l := incast(t, config(func(c *Config) { c.Overcommit = k }), 500*units.KB, mb)
		slow := l.Flows[0]
		slow.Engine = &slowSender{Granted: slow.Engine, rate: testEnv.LineRate / 10}
		l.Run(span)
		return float64(l.Flows[1].Arrived) / float64(testEnv.LineRate.BytesIn(span))
	}
	if one, two := share(1), share(2); one > 0.2 || two < 0.85 {
		t.Errorf("beside a slow sender the other one has %.2f of the line, with a degree of two %.2f", one, two)
	}
}

// slowSender's host has other things to do.
type slowSender struct {
	cc.Granted
	rate units.Rate
}

func (s *slowSender) slow(c cc.Control) cc.Control { c.Rate = s.rate; return c }
func (s *slowSender) Control() cc.Control          { return s.slow(s.Granted.Control()) }
func (s *slowSender) OnAck(a *cc.Ack) cc.Control   { return s.slow(s.Granted.OnAck(a)) }
func (s *slowSender) OnGrant(now units.Time, sent units.Bytes, g cc.Grant) cc.Control {
	return s.slow(s.Granted.OnGrant(now, sent, g))
}

// Lost grants are sent again: every flow ends, whichever are lost.
func TestLostGrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config(func(c *Config) {
			c.Overcommit = rapid.IntRange(1, 8).Draw(t, "overcommit")
			c.Resend = 100 * us
		})
		r, err := NewReceiver(c, testEnv)
		if err != nil {
			t.Fatal(err)
		}
		l := &enginetest.Incast{Rate: testEnv.LineRate, Env: testEnv, Receiver: r}
		for range rapid.IntRange(1, 8).Draw(t, "flows") {
			env := testEnv
			env.FlowSize = units.Bytes(rapid.IntRange(1, 200_000).Draw(t, "size"))
			e, err := New(c, env)
			if err != nil {
				t.Fatal(err)
			}
			l.Flows = append(l.Flows, &enginetest.GrantedFlow{
				Engine: e.(cc.Granted), Size: env.FlowSize, Start: units.Time(rapid.IntRange(0, 300).Draw(t, "start")) * us,
			})
		}
		period := rapid.IntRange(2, 10).Draw(t, "one arrives of")
		l.LoseGrant = func(n int) bool { return n%period != 0 }
		l.Run(units.Second)
		for i, f := range l.Flows {
			if f.Done == 0 {
				t.Fatalf("flow %d of %v has %v, sent %v: %+v", i, f.Size, f.Arrived, f.Sent, f.Engine.Control())
			}
		}
	})
}

// Of flows whose size nobody knows, the one that came first is served first, and
// all that have an end come before.
func TestUnknownSizes(t *testing.T) {
	l := incast(t, config(func(c *Config) { c.Overcommit = 1 }), 0, 0, 400*units.KB)
	l.Flows[1].Start, l.Flows[2].Start = us, 500*us
	l.Run(units.Millisecond)
	if a, b := l.Flows[0].Arrived, l.Flows[1].Arrived; a < mb || b > 2*rttBytes {
		t.Errorf("the first endless flow has %v, the second %v", a, b)
	}
	if f := l.Flows[2]; f.Done == 0 || f.Done-f.Start > testEnv.LineRate.Serialize(f.Size)+3*testEnv.BaseRTT {
		t.Errorf("a flow with an end took until %v", f.Done)
	}
}

// Hosts of different rates that go by different RTTBytes: nothing hangs.
func TestSenderWithFewerRTTBytes(t *testing.T) {
	l := incast(t, DefaultConfig(), 15*units.KB, 100*units.KB)
	for _, f := range l.Flows {
		env := testEnv
		env.LineRate, env.FlowSize = 4*units.Gbps, f.Size
		f.Engine = newSender(t, DefaultConfig(), env)
	}
	l.Run(10 * units.Millisecond)
	for i, f := range l.Flows {
		if f.Done == 0 {
			t.Errorf("flow %d of %v stays at %v", i, f.Size, f.Arrived)
		}
	}
}
