package cc

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// A flow that always has something to send is never limited by the application,
// however its rate moves.
func TestAppLimitWhileTheRateMoves(t *testing.T) {
	const n = 16 * units.KiB
	gap := func(r units.Rate) units.Time { return r.Serialize(n) }
	for name, c := range map[string]struct {
		before, after units.Rate // it changes within each gap
		took          units.Time
		limited       bool
	}{
		"steady":                      {units.Gbps, units.Gbps, gap(units.Gbps), false},
		"an increase counts later":    {units.Gbps, 2 * units.Gbps, gap(units.Gbps), false},
		"a decrease counts at once":   {2 * units.Gbps, units.Gbps, gap(units.Gbps), false},
		"an increase counts at once":  {units.Gbps, 2 * units.Gbps, gap(2 * units.Gbps), false},
		"75 percent":                  {units.Gbps, units.Gbps, gap(units.Gbps) * 4 / 3, true},
		"75 percent of a lower rate":  {2 * units.Gbps, units.Gbps, gap(units.Gbps) * 4 / 3, true},
		"75 percent of the rate once": {units.Gbps, 2 * units.Gbps, gap(units.Gbps) * 4 / 3, true},
	} {
		var l appLimit
		now := units.Time(0)
		for range 100 {
			l.sent(now, n, c.before, gap(c.before), gap(c.before), 8*gap(c.before))
			if c.after < c.before {
				l.slows(c.after, gap(c.after))
			}
			now += c.took
		}
		if l.limited != c.limited {
			t.Errorf("%s: limited %v", name, l.limited)
		}
	}
}

// Polling jitter makes gaps long and short by turns; the rate is kept.
func TestAppLimitUnderJitter(t *testing.T) {
	const n, rate = 16 * units.KiB, 10 * units.Gbps
	gap := rate.Serialize(n) // 13 us
	var l appLimit
	now := units.Time(0)
	for i := range 100 {
		l.sent(now, n, rate, gap, gap, 8*gap)
		if i&1 == 0 {
			now += gap + 9*units.Microsecond
		} else {
			now += gap - 9*units.Microsecond
		}
	}
	if l.limited {
		t.Error("a flow at its rate is limited")
	}
}
