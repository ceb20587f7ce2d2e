package perf

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// account is what was counted in a stretch of a run: an interval, or all of a row.
type account struct {
	from, to units.Time
	messages uint64       // that completed, and of tests with sends arrived
	engine   *engineTally // nil where nothing paces
	repaired repaired
	gaps     *stats.Recorder // between looks for completions, each as often as it has nanoseconds; nil if nobody polls
}

// empty reports whether nothing completed in it.
func (a *account) empty() bool {
	return a.messages == 0 && (a.engine == nil || a.engine.rtt.Count() == 0)
}

// add adds a stretch that follows.
func (a *account) add(b *account) {
	a.to = b.to
	a.messages += b.messages
	a.repaired.add(&b.repaired)
	if a.engine != nil {
		a.engine.add(b.engine)
	}
	if a.gaps != nil {
		a.gaps.Merge(b.gaps)
	}
}

// books are an end's accounts of what it is running.
type books struct {
	size      int
	row       *account // what is closed of it
	open      *account // of the interval, or the row
	intervals []Interval
	start     units.Time // of the row
	next      units.Time // when the interval ends
	looked    units.Time // last, for completions
	completed units.Time // when the last message was; at first when the row began
	outage    outage
	renewed   uint64   // connections made anew
	before    repaired // the queue pairs' counters when the account was opened
}

// openBooks begins a row of messages of a size.
func (e *end) openBooks(size int, now units.Time) {
	b := &e.books
	*b = books{size: size, row: e.newAccount(now), start: now, next: units.Never, looked: now, completed: now, before: e.repairs()}
	if i := e.cfg.Interval; i > 0 {
		b.next = now + units.FromDuration(i)
	}
	b.open = e.newAccount(now)
	e.watch(nil, b.open.engine)
}

func (e *end) newAccount(now units.Time) *account {
	a := &account{from: now, to: now, engine: e.newEngineTally()}
	if !e.cfg.Events && !e.simulated {
		a.gaps = stats.NewRecorder()
	}
	return a
}

// count takes note of messages that have completed by now.
func (b *books) count(n uint64, now units.Time) {
	if b.open == nil || n == 0 {
		return
	}
	b.open.messages += n
	b.outage.extend(b.completed, now)
	b.completed = now
}

// look takes note that completions were looked for. What this look found is not
// counted yet.
func (e *end) look(now units.Time) {
	b := &e.books
	if b.open == nil {
		return // between rows
	}
	if gap := now - b.looked; gap >= units.Nanosecond && b.open.gaps != nil {
		b.open.gaps.RecordN(gap, int64(gap/units.Nanosecond))
	}
	b.looked = now
	if now >= b.next {
		// Of several that passed in one look, in which nothing was seen, one is made.
		span := units.FromDuration(e.cfg.Interval)
		at := b.start + (now-b.start)/span*span
		e.turn(at, true)
		b.next = at + span
	}
}

// turn closes the open account at an instant and, unless it is the row's last, opens
// the next one.
func (e *end) turn(now units.Time, more bool) {
	b := &e.books
	done := b.open
	b.open = nil
	var next *engineTally
	if more {
		b.open = e.newAccount(now)
		next = b.open.engine
	}
	e.watch(done.engine, next)
	done.to = now
	after := e.repairs()
	done.repaired = after.since(&b.before)
	b.before = after
	b.row.add(done)
	if e.cfg.Interval > 0 && done.to > done.from && (more || !done.empty()) {
		i := b.interval(done)
		b.intervals = append(b.intervals, i)
		if e.cfg.OnInterval != nil {
			e.cfg.OnInterval(&i)
		}
	}
}

// closeBooks ends a row and writes into it what is in the books.
func (e *end) closeBooks(row *Row, now units.Time) *Row {
	e.turn(now, false)
	b := &e.books
	row.Engine, row.Repairs, row.Intervals = b.row.engine.report(), b.row.repaired.report(), b.intervals
	if e.cfg.Outage {
		b.outage.extend(b.completed, now)
		row.Outage = b.outage.report(b.start)
		row.Reconnects = b.renewed
	}
	if g := b.row.gaps; g != nil {
		row.Host = &Host{PollGapP99Us: g.PercentileUs(99), PollGapMaxUs: stats.Float(g.Max().Microseconds()), Timestamps: e.dev.Attr().CoreClockHz > 0}
	}
	return row
}

// Host is how the host kept up with its completions.
type Host struct {
	// PollGapP99Us is how long, at 99 of 100 instants, the host's present absence from
	// its completion queues lasts at the most; PollGapMaxUs is the longest one.
	PollGapP99Us stats.Float `json:"poll_gap_p99_us"`
	PollGapMaxUs stats.Float `json:"poll_gap_max_us"`
	// Timestamps says that completions have the device's timestamps: round trips then
	// end when an acknowledgement arrived, not when its completion was polled.
	Timestamps bool `json:"completion_timestamps"`
}
