package enginetest

import (
	"math"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Subject is an engine under test.
type Subject struct {
	New func(cc.Env) (cc.Engine, error)
	// MinRate is the least rate that the engine may answer with; nil is any above
	// zero.
	MinRate func(cc.Env) units.Rate
	// Share is the share of a free path that a flow must end with; zero is 0.95. An
	// engine that leaves some of each link unused on purpose states less.
	Share float64
}

// Conform checks what package cc promises of every engine. For any input, its
// answers stay within bounds. An acknowledgement of an application-limited flow, or
// one without any signal, raises nothing. Once the path is free the engine returns
// to the line rate. Setting its clock back (cc.Timed) changes no answer. No event
// allocates.
func Conform(t *testing.T, s Subject) {
	t.Run("refuses an empty environment", func(t *testing.T) {
		if _, err := s.New(cc.Env{}); err == nil {
			t.Error("an engine was made for an environment without line rate, RTT and MTU")
		}
	})
	t.Run("stays within bounds", func(t *testing.T) { rapid.Check(t, s.bounds) })
	t.Run("finds back to the line rate", func(t *testing.T) { rapid.Check(t, s.recovers) })
	t.Run("allocates nothing", s.allocates)
}

func (s Subject) make(t failer, env cc.Env) cc.Engine {
	e, err := s.New(env)
	if err != nil {
		t.Fatalf("no engine for %+v: %v", env, err)
	}
	return e
}

type failer interface{ Fatalf(string, ...any) }

// history feeds an engine events that no path would produce, and checks each
// answer. Clocks and byte counts move forward, as package cc promises engines.
type history struct {
	s     Subject
	e     cc.Engine
	env   cc.Env
	now   units.Time
	acked units.Bytes
	sent  units.Bytes
	path  telemetry.Stack
	hops  [telemetry.MaxHops]telemetry.Hop

	// twin gets the same events by a clock that is behind now and then, and has to
	// decide alike.
	twin   cc.Engine
	behind units.Time
}

var (
	spans = rapid.OneOf(
		rapid.Just(units.Time(0)),
		rapid.Map(rapid.Int64Range(1, 10_000), func(n int64) units.Time { return units.Time(n) * units.Nanosecond }),
		rapid.Map(rapid.Int64Range(1, 1000), func(n int64) units.Time { return units.Time(n) * units.Microsecond }),
		rapid.Map(rapid.Int64Range(1, 1000), func(n int64) units.Time { return units.Time(n) * units.Second }),
		rapid.Just(units.Never/4),
	)
	sizes = rapid.OneOf(
		rapid.Just(units.Bytes(0)),
		rapid.Map(rapid.Int64Range(1, 1<<20), func(n int64) units.Bytes { return units.Bytes(n) }),
		rapid.Just(units.Bytes(1<<50)),
	)
	counters = rapid.OneOf(sizes, rapid.Map(sizes, func(n units.Bytes) units.Bytes { return -n }))
)

func (h *history) step(t *rapid.T) {
	before := h.e.Control()
	// A second at most: the clock must last.
	h.now += min(spans.Draw(t, "gap"), units.Second)
	if rapid.IntRange(0, 3).Draw(t, "set back") == 0 {
		h.setBack(rapid.OneOf(rapid.Just(h.now-h.behind), rapid.Map(rapid.Int64Range(0, int64(units.Second)), func(n int64) units.Time { return units.Time(n) })).Draw(t, "by"))
	}
	var got cc.Control
	held := false
	var alike cc.Control
	then := h.now - h.behind
	switch kind := rapid.IntRange(0, 9).Draw(t, "event"); kind {
	case 0:
		got, alike = h.e.OnLoss(h.now), h.twin.OnLoss(then)
	case 1:
		got, alike = h.e.OnTimeout(h.now), h.twin.OnTimeout(then)
	case 2:
		got, alike = h.e.OnCNP(h.now), h.twin.OnCNP(then)
	default:
		a := h.ack(t)
		held = a.AppLimited || a.RTT == 0 && a.Path == nil && !a.HasMaxDelay
		got = h.e.OnAck(&a)
		a.Now, a.SentAt = a.Now-h.behind, a.SentAt-h.behind
		alike = h.twin.OnAck(&a)
	}
	if got != alike {
		t.Fatalf("the event answered %+v, and %+v by a clock that was set back by %v", got, alike, h.behind)
	}
	if got != h.e.Control() {
		t.Fatalf("the event answered %+v, Control %+v", got, h.e.Control())
	}
	h.check(t, got)
	if held && (got.Rate > before.Rate || got.Window > before.Window) {
		t.Fatalf("an acknowledgement that says nothing, or of an application-limited flow, raised %+v to %+v", before, got)
	}
}

// setBack sets back the clock of the twin.
func (h *history) setBack(by units.Time) {
	h.behind += by
	if e, ok := h.twin.(cc.Timed); ok {
		e.SetBack(by)
	}
}

func (h *history) ack(t *rapid.T) cc.Ack {
	n := min(sizes.Draw(t, "bytes"), 1<<30)
	h.sent += n
	h.acked += min(min(sizes.Draw(t, "acked"), 1<<30), h.sent-h.acked)
	a := cc.Ack{
		Now:                h.now,
		RTT:                spans.Draw(t, "rtt"),
		Bytes:              n,
		Packets:            int32(rapid.IntRange(1, math.MaxInt32).Draw(t, "packets")),
		Acked:              h.acked,
		Sent:               h.sent,
		Held:               spans.Draw(t, "held"),
		Hops:               rapid.Byte().Draw(t, "switches"),
		ECN:                rapid.Bool().Draw(t, "ecn"),
		EIN:                rapid.Bool().Draw(t, "ein"),
		HasMaxDelay:        rapid.Bool().Draw(t, "has max delay"),
		MaxHopDelay:        spans.Draw(t, "max hop delay"),
		ReverseMaxHopDelay: spans.Draw(t, "reverse max hop delay"),
		AppLimited:         rapid.IntRange(0, 3).Draw(t, "application-limited") == 0,
		Scale:              rapid.Float64Range(1.0/1024, 1).Draw(t, "scale"),
	}
	a.SentAt = a.Now - a.RTT
	a.NetRTT = a.RTT - min(a.RTT, h.env.LineRate.Serialize(n))
	if rapid.IntRange(0, 5).Draw(t, "silent") == 0 {
		a.RTT, a.NetRTT, a.HasMaxDelay = 0, 0, false
		return a
	}
	if rapid.Bool().Draw(t, "has path") {
		h.path = telemetry.Stack{}
		for i := range rapid.IntRange(0, telemetry.MaxHops).Draw(t, "hops") {
			hop := &h.hops[i]
			hop.Time += spans.Draw(t, "hop time") / 4096
			hop.TxBytes += counters.Draw(t, "sent by the hop") / 4096
			hop.QLen = sizes.Draw(t, "queue")
			hop.Rate = h.env.LineRate
			h.path.Push(*hop)
		}
		a.Path = &h.path
	}
	return a
}

func (h *history) check(t failer, got cc.Control) {
	least := units.Rate(1)
	if h.s.MinRate != nil {
		least = h.s.MinRate(h.env)
	}
	if got.Rate < least || got.Rate > h.env.LineRate {
		t.Fatalf("the rate is %v, not within %v and the line rate %v", got.Rate, least, h.env.LineRate)
	}
	if b, ok := h.e.(cc.Bounded); ok {
		if floor, ceiling := b.Bounds(); got.Rate < floor || got.Rate > ceiling {
			t.Fatalf("the rate is %v, not within the engine's own bounds %v and %v", got.Rate, floor, ceiling)
		}
	}
	if got.Window < 1 {
		t.Fatalf("the window is %v", got.Window)
	}
	if e, ok := h.e.(cc.Inspector); ok {
		e.Inspect(func(name string, value float64) {
			if !variableName.MatchString(name) || math.IsNaN(value) || math.IsInf(value, 0) {
				t.Fatalf("the variable %q is %v", name, value)
			}
		})
	}
}

var variableName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func (s Subject) bounds(t *rapid.T) {
	env := cc.Env{
		LineRate: units.Rate(rapid.Int64Range(1, 800).Draw(t, "line rate")) * units.Gbps,
		BaseRTT:  units.Time(rapid.Int64Range(1000, 500_000).Draw(t, "base RTT")) * units.Nanosecond,
		MTU:      units.Bytes(256 << rapid.IntRange(0, 4).Draw(t, "MTU")),
	}
	h := history{s: s, e: s.make(t, env), twin: s.make(t, env), env: env}
	h.check(t, h.e.Control())
	for range rapid.IntRange(1, 50).Draw(t, "events") {
		h.step(t)
	}
}

// recovers runs an engine through a random history and then gives it a path of its
// own, as fast as its port: a flow must not stay at its least rate when congestion
// is over.
func (s Subject) recovers(t *rapid.T) {
	const settle, window = 60 * units.Millisecond, 2 * units.Millisecond
	env := cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 4096}
	h := history{s: s, e: s.make(t, env), twin: s.make(t, env), env: env}
	for range rapid.IntRange(1, 20).Draw(t, "events") {
		h.step(t)
	}
	l := Link{Rate: env.LineRate, Env: env}
	f := l.resume(h.e, h.now, h.sent)
	l.Run(h.now + settle)
	before := f.Acked
	l.Run(h.now + settle + window)
	share := s.Share
	if share == 0 {
		share = 0.95
	}
	if got := units.RateOf(f.Acked-before, window); got.Gbps() < share*env.LineRate.Gbps() {
		t.Fatalf("%v after the path became free the flow has %v of %v (%+v)", settle, got, env.LineRate, h.e.Control())
	}
}

func (s Subject) allocates(t *testing.T) {
	env := cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 10 * units.Microsecond, MTU: 4096}
	e := s.make(t, env)
	var path telemetry.Stack
	for range 5 {
		path.Push(telemetry.Hop{Rate: env.LineRate})
	}
	a := cc.Ack{Bytes: env.MTU, Packets: 1, HasMaxDelay: true, Path: &path, Scale: 1}
	n := testing.AllocsPerRun(1000, func() {
		a.Now += units.Microsecond
		a.RTT = env.BaseRTT + a.Now%(40*units.Microsecond)
		a.NetRTT, a.MaxHopDelay = a.RTT, a.RTT-env.BaseRTT
		a.Acked += env.MTU
		a.Sent = a.Acked + 30*env.MTU
		for i := range path.Path() {
			path.Hops[i].Time += units.Microsecond
			path.Hops[i].TxBytes += env.MTU
		}
		e.OnAck(&a)
		e.OnLoss(a.Now)
		e.OnTimeout(a.Now)
		e.OnCNP(a.Now)
	})
	if n != 0 {
		t.Errorf("an acknowledgement, a loss, a timeout and a CNP allocate %v times", n)
	}
}
