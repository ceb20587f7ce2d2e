package turns

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// script is a simulation of events that end waits.
type script struct {
	now    units.Time
	events []event // by time
}

type event struct {
	at   units.Time
	ends int // the position of a wait
}

func (s *script) Now() units.Time { return s.now }

func (s *script) Next() units.Time {
	if len(s.events) == 0 {
		return units.Never
	}
	return s.events[0].at
}

func (s *script) Step() bool {
	if len(s.events) == 0 {
		return false
	}
	s.now, s.events = s.events[0].at, s.events[1:]
	return true
}

func (s *script) RunUntil(end units.Time) {
	for s.Next() <= end && s.Step() {
	}
	s.now = end
}

// drawn is a simulation and waits for its events, for times, and for both.
func drawn(t *rapid.T) (*script, []*wait, []event) {
	at := rapid.Int64Range(0, 20)
	s := &script{now: 5}
	var waits []*wait
	for range rapid.IntRange(1, 5).Draw(t, "waits") {
		if rapid.Bool().Draw(t, "none") {
			waits = append(waits, nil)
			continue
		}
		w := &wait{until: units.Never, later: units.Time(rapid.Int64Range(0, 4).Draw(t, "later"))}
		if rapid.Bool().Draw(t, "timed") {
			w.until = units.Time(at.Draw(t, "until"))
		}
		waits = append(waits, w)
	}
	for range rapid.IntRange(0, 5).Draw(t, "events") {
		s.events = append(s.events, event{6 + units.Time(at.Draw(t, "at")), rapid.IntRange(0, len(waits)-1).Draw(t, "ends")})
	}
	slices.SortStableFunc(s.events, func(a, b event) int { return int(a.at - b.at) })
	// Of events at one instant the first may end a wait, and its thread then runs before the others.
	s.events = slices.CompactFunc(s.events, func(a, b event) bool { return a.at == b.at })
	events := slices.Clone(s.events)
	for i, w := range waits {
		if w != nil {
			w.ready = func() bool {
				taken := events[:len(events)-len(s.events)]
				return slices.ContainsFunc(taken, func(e event) bool { return e.ends == i })
			}
		}
	}
	return s, waits, events
}

// ends returns when a wait ends by itself or by an event, from now on.
func ends(i int, w *wait, now units.Time, events []event) units.Time {
	at := w.until
	for _, e := range events {
		if e.ends == i {
			at = min(at, e.at)
		}
	}
	return max(at, now)
}

// TestNext compares next with the least of all ends.
func TestNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, waits, events := drawn(t)
		want, at := -1, units.Never
		for i, w := range waits {
			if w == nil {
				continue
			}
			if end := ends(i, w, s.now, events); end < at {
				want, at = i, end
			}
		}
		fired := units.Time(-1)
		got, ready := next(s, waits, func(now units.Time) units.Time {
			if now < fired {
				t.Errorf("timers at %d, after %d", now, fired)
			}
			fired = now
			return units.Never
		})
		if got != want {
			t.Fatalf("wait %d ended, expected %d", got, want)
		}
		if want < 0 {
			return
		}
		if s.now != at {
			t.Errorf("at %d, expected %d", s.now, at)
		}
		if byEvent := waits[want].ready(); ready != byEvent {
			t.Errorf("ended by what it was for: %v, expected %v", ready, byEvent)
		}
	})
}

// TestTimers has a timer end waits.
func TestTimers(t *testing.T) {
	s, due := &script{}, units.Time(7)
	w := &wait{until: units.Never, ready: func() bool { return s.now >= due }}
	which, ready := next(s, []*wait{nil, w}, func(units.Time) units.Time { return due })
	if which != 1 || !ready || s.now != due {
		t.Errorf("wait %d (%v) at %d, expected 1 (true) at %d", which, ready, s.now, due)
	}
}

// TestHorizon checks that nothing ends before it, and that another one may end before the
// horizon by later at most.
func TestHorizon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, waits, events := drawn(t)
		again := units.Time(rapid.Int64Range(5, 30).Draw(t, "again"))
		alone, ahead := horizon(s, waits, again)
		if alone < s.now || ahead < alone || ahead > max(again, s.now) || len(events) > 0 && ahead > events[0].at {
			t.Fatalf("alone to %d and ahead to %d at %d with timers at %d and events %v", alone, ahead, s.now, again, events)
		}
		for i, w := range waits {
			if w == nil {
				continue
			}
			if end := ends(i, w, s.now, events); end < alone || end < ahead-w.later {
				t.Errorf("alone to %d and ahead to %d, but wait %d ends at %d", alone, ahead, i, end)
			}
		}
		if want := max(min(again, s.Next()), s.now); alone > want {
			t.Errorf("alone to %d, expected at most %d", alone, want)
		}
	})
}
