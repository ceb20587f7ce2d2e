package cc

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// script is an engine that says what the test has it say, with a choice of path.
type script struct {
	Fixed
	path  uint32
	limit Grant
}

func (s *script) Path() uint32 { return s.path }

func (s *script) OnGrant(_ units.Time, _ units.Bytes, g Grant) Control {
	s.limit = g
	return Control{Rate: 1, Window: g.Limit}
}

const (
	testLine = 10 * units.Gbps
	testUnit = 16 * units.KiB
	testRTT  = 20 * units.Microsecond
)

func driverOf(c Control) *Driver {
	d := new(Driver)
	d.Start(Fixed{c}, testLine, testUnit, testRTT)
	return d
}

// What limits a flow, after TIMELY section 5: more than 80 percent of the rate, or a
// window that is full, is the engine's doing, and all else is not.
func TestDriverAppLimited(t *testing.T) {
	gap := testLine.Serialize(testUnit) // 13.1 us
	for name, c := range map[string]struct {
		control Control
		pause   units.Time // from a send to the next one
		rtt     units.Time // from a send to its acknowledgement, which is before the next one
		out     units.Bytes
		refused bool // the window refuses the next unit at once
		once    bool // it refused one unit, long before the last
		limited bool
	}{
		"at the rate":                     {Control{Rate: testLine, Window: Unlimited}, gap, gap / 2, 0, false, false, false},
		"above the line's rate":           {Control{Rate: 10 * testLine, Window: Unlimited}, gap, gap / 2, 0, false, false, false},
		"at half of the rate":             {Control{Rate: testLine, Window: Unlimited}, 2 * gap, gap / 2, 0, false, false, true},
		"a backlog that something holds":  {Control{Rate: testLine, Window: Unlimited}, 2 * gap, gap / 2, 8 * testUnit, false, false, true},
		"the window is used":              {Control{Rate: testLine, Window: 5 * testUnit}, 2 * gap, gap / 2, 3 * testUnit, false, false, false},
		"three quarters of it":            {Control{Rate: testLine, Window: 8 * testUnit}, 2 * gap, gap / 2, 5 * testUnit, false, false, true},
		"the window refuses":              {Control{Rate: testLine, Window: 3 * testUnit / 2}, 2 * gap, gap / 2, 0, true, false, false},
		"it refused once, long ago":       {Control{Rate: testLine, Window: 3 * testUnit / 2}, 4 * gap, gap / 2, 0, false, true, true},
		"a window of one unit, slow path": {Control{Rate: testLine, Window: 3 * testUnit / 2}, 100 * gap, 99 * gap, 0, true, false, false},
	} {
		d, now, limited := driverOf(c.control), units.Time(0), false
		for i := range 40 {
			d.Sent(now, testUnit)
			if c.refused || c.once && i == 0 {
				d.Shut()
			}
			a := Ack{Now: now + c.rtt, Bytes: testUnit}
			d.Complete(&a, c.out)
			limited = a.AppLimited
			now += c.pause
		}
		if limited != c.limited {
			t.Errorf("%s: limited by the application %v, expected %v", name, limited, c.limited)
		}
	}
}

// A window that refused counts for two spans after what it refused has left.
func TestDriverWindowThatRefused(t *testing.T) {
	d := driverOf(Control{Rate: testLine, Window: 8 * testUnit})
	gap := testLine.Serialize(testUnit)
	span, now := 8*gap, units.Time(0)
	send := func() {
		now += 2 * gap
		d.Sent(now, testUnit)
	}
	limited := func() bool {
		a := Ack{Now: now, Bytes: testUnit}
		d.Complete(&a, 0)
		return a.AppLimited
	}
	for range 20 {
		send()
	}
	if !limited() {
		t.Fatal("half of the rate is not limited by the application")
	}
	d.Shut()
	if now += units.Second; limited() {
		t.Error("limited by the application while the window refuses")
	}
	send()
	opened := now
	for now-opened < 4*span {
		if got, expected := limited(), now-opened > 2*span; got != expected {
			t.Errorf("%v after the window opened: %v, expected %v", now-opened, got, expected)
		}
		send()
	}
}

func TestDriverApply(t *testing.T) {
	const w = 100 * units.KiB
	for _, c := range []struct {
		from, to Control
		change   Change
	}{
		{Control{Rate: 5, Window: w}, Control{Rate: 5, Window: w}, 0},
		{Control{Rate: 5, Window: w}, Control{Rate: 5, Window: w, Class: 3}, 0},
		{Control{Rate: 5, Window: w}, Control{Rate: 6, Window: w}, ChangedRate},
		{Control{Rate: 5, Window: w}, Control{Rate: 4, Window: w + 1}, ChangedRate | ChangedDown},
		{Control{Rate: 5, Window: w}, Control{Rate: 5, Window: w - 1}, ChangedWindow | ChangedDown},
		{Control{Rate: 3 * testLine, Window: w}, Control{Rate: 2 * testLine, Window: w}, ChangedRate},
		{Control{Rate: 3 * testLine, Window: w}, Control{Rate: testLine - 1, Window: w}, ChangedRate | ChangedDown},
	} {
		d := driverOf(c.from)
		if got := d.Apply(c.to); got != c.change || d.Control() != c.to {
			t.Errorf("%+v to %+v: changed %b, expected %b; in force %+v", c.from, c.to, got, c.change, d.Control())
		}
		if gap := min(c.to.Rate, testLine).Serialize(testUnit); d.Gap() != min(gap, longestGap) {
			t.Errorf("%+v: a gap of %v, expected %v", c.to, d.Gap(), gap)
		}
	}
}

func TestDriverPath(t *testing.T) {
	e := &script{Fixed: Fixed{Control{Rate: testLine, Window: Unlimited}}}
	var d Driver
	d.Start(e, testLine, testUnit, testRTT)
	e.path = 7
	if d.Turns() {
		t.Error("waits for an acknowledgement that nothing asked for")
	}
	if p := d.Path(0, true); p != 7 {
		t.Errorf("the first unit goes by path %d, expected 7", p)
	}
	e.path = 8
	if p := d.Path(testUnit, false); p != 7 || d.Turns() {
		t.Errorf("with one under way: path %d, turns %v", p, d.Turns())
	}
	if p := d.Path(testUnit, true); p != 7 || !d.Turns() {
		t.Errorf("when an acknowledgement is asked for: path %d, turns %v", p, d.Turns())
	}
	if p := d.Path(0, true); p != 8 || d.Turns() {
		t.Errorf("with nothing under way: path %d, turns %v", p, d.Turns())
	}
}

func TestDriverWithoutEngine(t *testing.T) {
	var d Driver
	d.Hold(Control{Rate: 5, Window: 100})
	d.Sent(0, 10)
	a := Ack{Now: 10, Bytes: 10}
	d.Complete(&a, 0)
	if d.Engine() != nil || d.Turns() || d.Path(0, true) != 0 || a.AppLimited || d.OnGrant(0, 0, Grant{Limit: 9}) != d.Control() || d.Control().Window != 100 {
		t.Errorf("%+v, %+v", d, a)
	}
}

func TestDriverGrantAndCNPs(t *testing.T) {
	e := new(script)
	var d Driver
	d.Start(e, testLine, testUnit, testRTT)
	if c := d.OnGrant(1, 2, Grant{Limit: 9, Class: 4}); c.Window != 9 || e.limit != (Grant{Limit: 9, Class: 4}) {
		t.Errorf("the engine was given %+v and the driver %+v", e.limit, c)
	}
	d.CNPs(5)
	for _, c := range []struct{ total, fresh uint64 }{{5, 0}, {8, 3}, {8, 0}, {9, 1}} {
		if n := d.CNPs(c.total); n != c.fresh {
			t.Errorf("%d so far: %d are fresh, expected %d", c.total, n, c.fresh)
		}
	}
}

// A unit fits an empty window unless that is 0, and else where there is room.
func TestDriverFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := func(name string) units.Bytes { return units.Bytes(rapid.IntRange(0, 10).Draw(t, name)) }
		window, out, n := bytes("window"), bytes("outstanding"), bytes("bytes")
		d := driverOf(Control{Rate: 1, Window: window})
		expected := window-out >= n
		if out == 0 && window > 0 {
			expected = true
		}
		if d.Fits(out, n) != expected {
			t.Errorf("a window of %d with %d outstanding takes %d more: %v", window, out, n, !expected)
		}
		if d.MayAsk() != (window > 0) {
			t.Errorf("a window of %d lets a unit ask: %v", window, d.MayAsk())
		}
	})
}

func TestDriverAllocatesNothing(t *testing.T) {
	d, a, now := driverOf(Control{Rate: testLine / 2, Window: 4 * testUnit}), Ack{Bytes: testUnit}, units.Time(0)
	if n := testing.AllocsPerRun(1000, func() { now = turn(d, &a, now) }); n != 0 {
		t.Errorf("%v allocations a unit", n)
	}
}

// turn sends a unit and takes its acknowledgement.
func turn(d *Driver, a *Ack, now units.Time) units.Time {
	if !d.Fits(0, testUnit) || d.Turns() {
		d.Shut()
	}
	d.Sent(now, testUnit)
	a.Now = now + testRTT
	d.Complete(a, testUnit)
	d.Apply(d.Engine().OnAck(a))
	return now + 2*testRTT
}

func BenchmarkDriver(b *testing.B) {
	d, a, now := driverOf(Control{Rate: testLine / 2, Window: 4 * testUnit}), Ack{Bytes: testUnit}, units.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		now = turn(d, &a, now)
	}
}

func TestSchemeLacks(t *testing.T) {
	all := Signals{Path: true, MaxDelay: true, ECN: true, EIN: true}
	for _, c := range []struct {
		scheme   Scheme
		without  func(*Signals)
		expected string
	}{
		{Scheme{}, func(s *Signals) { *s = Signals{} }, ""},
		{Scheme{Telemetry: telemetry.PerHop, ECN: true, EIN: true}, func(*Signals) {}, ""},
		{Scheme{Telemetry: telemetry.PerHop}, func(s *Signals) { s.Path = false }, "per-hop telemetry"},
		{Scheme{Telemetry: telemetry.MaxDelay}, func(s *Signals) { s.MaxDelay = false }, "max-delay telemetry"},
		{Scheme{EIN: true}, func(s *Signals) { s.EIN = false }, "explicit incast notifications"},
		{Scheme{ECN: true}, func(s *Signals) { s.ECN = false }, "ECN marks"},
	} {
		has := all
		c.without(&has)
		if got := c.scheme.Lacks(has); got != c.expected {
			t.Errorf("%+v without %+v lacks %q, expected %q", c.scheme, has, got, c.expected)
		}
	}
}

// A cap holds below and above what the engine allows, and is gone with the next engine.
func TestDriverCap(t *testing.T) {
	var d Driver
	d.Cap(units.Gbps)
	if !d.Free() {
		t.Error("a driver without an engine is capped")
	}
	start := func(rate units.Rate) {
		d.Start(Fixed{Keep: Control{Rate: rate, Window: Unlimited}}, 100*units.Gbps, 4096, 10*units.Microsecond)
	}
	start(100 * units.Gbps)
	if !d.Free() || !d.AtLine() {
		t.Error("at the line rate something holds back")
	}
	d.Cap(10 * units.Gbps)
	if d.Free() || !d.AtLine() || d.Rate() != 10*units.Gbps || d.Gap() != (10*units.Gbps).Serialize(4096) {
		t.Errorf("capped at 10 Gbps it sends at %v with gaps of %v", d.Rate(), d.Gap())
	}
	d.Apply(Control{Rate: 3 * units.Gbps, Window: Unlimited})
	if d.Rate() != 3*units.Gbps || d.Control().Rate != 3*units.Gbps {
		t.Errorf("at 3 Gbps it sends at %v", d.Rate())
	}
	start(40 * units.Gbps)
	if d.Free() || d.Rate() != 40*units.Gbps {
		t.Errorf("anew at 40 Gbps it sends at %v", d.Rate())
	}
}
