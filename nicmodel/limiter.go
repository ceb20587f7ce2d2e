package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
)

// rateTable is the current limits.
type rateTable struct {
	entries []config.RateLimit
	users   []int // of each; 0 is free
	used    int
}

// limit is a queue pair's own state.
type limit struct {
	entry int // of the table, from 1; 0 for no limit
	rate  units.Rate
	burst units.Bytes

	// The newest burst: when it was due, what has left of it and what still may. The
	// next one is due when what has left has taken its time at the rate, or when there
	// is something to send if that is later.
	due          units.Time
	sent, left   units.Bytes
	rem, nextRem uint64 // below a picosecond
	next         units.Time
	waits        bool       // for its time, with something to send
	wake         units.Time // of the EvLimit that it waits for, or 0
}

// catchUp bounds the time that is made up when a burst waits longer than its tick.
const catchUp = units.Microsecond

// ModifyRateLimit paces a queue pair's packets (ibv_modify_qp_rate_limit). It fails,
// and changes nothing, if the limiter can't hold the limit, and for queue pairs with
// an engine in the NIC. Going to RESET takes the limit off.
func (n *NIC) ModifyRateLimit(now units.Time, num uint32, l RateLimit) error {
	return n.scheduler.limitRate(now, n.pairs.find(num), l)
}

func (s *scheduler) limitRate(now units.Time, q *qp, l config.RateLimit) error {
	if q.cong.Engine != nil || q.cong.ReadEngine != nil {
		return fmt.Errorf("the rate of queue pair %d belongs to its engine", q.num)
	}
	if l.Rate == 0 {
		s.unlimit(q)
	} else {
		l = s.Config.Limiter.Round(l)
		if err := s.Config.Limiter.Holds(l); err != nil {
			return err
		}
		entry, ok := s.rates.take(l, s.Config.Limiter.Rates, q.limit.entry)
		if !ok {
			return fmt.Errorf("the NIC's rate limiter holds %d different limits, and all are in use: share the rate, burst and packet size of one of them, or take limits off (nic.with.limiter.rates)", s.Config.Limiter.Rates)
		}
		s.rates.release(q.limit.entry)
		q.limit.change(entry, l)
	}
	held := cc.Control{Rate: l.Rate, Window: q.Control().Window}
	if l.Rate == 0 {
		held.Rate = ratelimiter.Unpaced
	}
	q.Hold(held)
	if q.hasFlow {
		q.ring.limiter.Withdraw(q.flow)
		s.file(now, q)
		s.choose(now)
	}
	return nil
}

// take returns the entry for a limit: one that has it, or a free one, of most entries at
// the most (0 for any number). The entry that it replaces is free if it has one user.
func (t *rateTable) take(l config.RateLimit, most, old int) (entry int, ok bool) {
	free := 0
	for i := range t.entries {
		switch {
		case t.users[i] > 0 && t.entries[i] == l:
			t.users[i]++
			return i + 1, true
		case free == 0 && (t.users[i] == 0 || i+1 == old && t.users[i] == 1 && t.used == most):
			free = i + 1
		}
	}
	if free == 0 {
		if most > 0 && len(t.entries) == most {
			return 0, false
		}
		t.entries, t.users = append(t.entries, config.RateLimit{}), append(t.users, 0)
		free = len(t.entries)
	}
	if t.users[free-1] == 0 {
		t.used++
	}
	t.entries[free-1] = l
	t.users[free-1]++
	return free, true
}

func (t *rateTable) release(entry int) {
	if entry == 0 {
		return
	}
	if t.users[entry-1]--; t.users[entry-1] == 0 {
		t.used--
	}
}

// unlimit takes a queue pair's limit off.
func (s *scheduler) unlimit(q *qp) {
	s.rates.release(q.limit.entry)
	q.limit = limit{}
}

// withinLimit reports whether a packet of a limited queue pair may leave now. If not, the
// queue pair is looked at again when it may.
func (s *scheduler) withinLimit(now units.Time, q *qp, bytes units.Bytes) bool {
	l := &q.limit
	if l.left >= bytes && l.next > now {
		return true // of the current burst
	}
	l.left = 0
	if !l.waits {
		l.waits = true
		if l.next < now {
			l.next, l.nextRem = now, 0
		}
	}
	at := l.next
	if tick := s.Config.Limiter.Tick; tick > 0 && at < units.Never-tick {
		at = (at + tick - 1) / tick * tick
	}
	if at <= now {
		l.wake = 0
		return true
	}
	if at != l.wake {
		if l.wake = at; at != units.Never {
			s.Schedule(at, chip.EvLimit, uint64(q.num))
		}
	}
	return false
}

// change takes another entry of the table.
func (l *limit) change(entry int, to config.RateLimit) {
	l.entry, l.rate, l.burst = entry, to.Rate, to.MaxBurst
	if l.sent > 0 {
		l.left = min(l.left, max(l.burst-l.sent, 0))
		l.goesOn() // what has left counts by the new rate
	}
}

// charge counts a packet that leaves now.
func (l *limit) charge(now, tick units.Time, bytes units.Bytes) {
	if l.left == 0 {
		l.due, l.rem, l.sent = l.next, l.nextRem, 0
		if least := now - tick - catchUp; l.due < least {
			l.due, l.rem = least, 0
		}
		l.left = max(l.burst, bytes)
	}
	l.left -= min(bytes, l.left)
	l.sent += bytes
	l.goesOn()
}

// goesOn says when the next burst is due.
func (l *limit) goesOn() {
	if l.rem >= uint64(l.rate) {
		l.rem = 0 // from a higher rate
	}
	gap, rem := l.rate.SerializeRem(l.sent, l.rem)
	if gap >= units.Never-l.due {
		l.next, l.nextRem = units.Never, 0
		return
	}
	l.next, l.nextRem = l.due+gap, rem
}

// burstDue is a tick of the table at which a burst of a queue pair is due.
func (s *scheduler) burstDue(now units.Time, q *qp) {
	if q != nil && q.limit.wake == now {
		q.limit.wake = 0
		s.file(now, q)
		s.choose(now)
	}
}
