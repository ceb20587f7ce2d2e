package results

import (
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// Trouble lists the events of a run that make its figures useless for a comparison.
type Trouble struct {
	// Deadlocks are circles of queues that PFC has paused, and that never send again.
	Deadlocks []Deadlock `json:"deadlocks,omitempty"`
	// Loss counts what priorities dropped that PFC was to keep from loss; nil if
	// nothing.
	Loss *LosslessLoss `json:"lossless_loss,omitempty"`
	// Unfinished is of flows with an end; nil if all have reached it.
	Unfinished *Unfinished `json:"unfinished,omitempty"`
}

// Deadlock is queues of switches of which each waits for the next, and the last for the
// first.
type Deadlock struct {
	SinceUs stats.Float   `json:"since_us"` // when the last of them was paused
	Queues  []PausedQueue `json:"queues"`
	// Stuck counts the queues of switches that never send again in the whole network, in
	// circles or behind them.
	Stuck int `json:"stuck_queues"`
}

// PausedQueue is one of them.
type PausedQueue struct {
	Switch   string      `json:"switch"`
	Link     string      `json:"link"` // that its port feeds
	Priority int         `json:"priority"`
	Bytes    int64       `json:"bytes"` // that wait in it
	SinceUs  stats.Float `json:"since_us"`
}

// LosslessLoss is packets that lossless priorities dropped, faults and watchdogs apart.
type LosslessLoss struct {
	Drops uint64 `json:"drops"`
	// Where most were, the link to which they were to go, and the priority.
	Switch   string `json:"switch"`
	Link     string `json:"link"`
	Priority int    `json:"priority"`
	// Ingress is the link whose headroom lacks most at that switch, HeadroomBytes what is
	// set aside there, and NeededBytes what rate and length of the link ask for.
	Ingress       string `json:"ingress"`
	HeadroomBytes int64  `json:"headroom_bytes"`
	NeededBytes   int64  `json:"needed_bytes"`
}

// Unfinished is flows that had an end and did not reach it, since the warm-up.
type Unfinished struct {
	Ended  uint64          `json:"ended"`
	Of     uint64          `json:"of"`
	Groups []UnfinishedWhy `json:"groups"`
}

// UnfinishedWhy is those for one reason.
type UnfinishedWhy struct {
	Why      string   `json:"why"`
	Never    bool     `json:"never"` // they never could
	Flows    uint64   `json:"flows"`
	Examples []string `json:"examples"` // the first of them
}

// MaxExamples is the number of flows a reason names.
const MaxExamples = 4

func (d *Deadlock) String() string {
	var b strings.Builder
	for i := range d.Queues {
		q := &d.Queues[i]
		fmt.Fprintf(&b, "%s's queue to %s (priority %d, %v) waits for ", q.Switch, q.Link[strings.Index(q.Link, "->")+2:], q.Priority, units.Bytes(q.Bytes))
	}
	return fmt.Sprintf("a PFC deadlock, for ever from %.1f us on: %s%s's", float64(d.SinceUs), b.String(), d.Queues[0].Switch)
}

// String says what was lost, and the mend.
func (l *LosslessLoss) String() string {
	s := fmt.Sprintf("lossless priorities dropped %d packets, most at %s for %s in priority %d", l.Drops, l.Switch, l.Link, l.Priority)
	if l.HeadroomBytes < l.NeededBytes {
		s += fmt.Sprintf(": the headroom of %s is %v, and its rate and length ask for %v: raise fabric.pfc.headroom, or leave it out", l.Ingress, units.Bytes(l.HeadroomBytes), units.Bytes(l.NeededBytes))
	}
	return s
}

func (u *Unfinished) String() string {
	s := fmt.Sprintf("%d of %d flows ended", u.Ended, u.Of)
	for i := range u.Groups {
		g := &u.Groups[i]
		s += fmt.Sprintf("; %d %s", g.Flows, g.Why)
		if len(g.Examples) == 0 {
			continue
		}
		s += ": " + strings.Join(g.Examples, ", ")
		if more := g.Flows - uint64(len(g.Examples)); more > 0 {
			s += fmt.Sprintf(" and %d more", more)
		}
	}
	return s
}

// never counts the flows that never could end.
func (u *Unfinished) never() (n uint64) {
	if u == nil {
		return 0
	}
	for i := range u.Groups {
		if u.Groups[i].Never {
			n += u.Groups[i].Flows
		}
	}
	return n
}

// rules says that trouble ruled: nothing if there was none.
func (t *Trouble) rules() string {
	var parts []string
	for i := range t.Deadlocks {
		parts = append(parts, t.Deadlocks[i].String())
	}
	if n := len(t.Deadlocks); n > 0 {
		parts = append(parts, fmt.Sprintf("%d queues of switches never send again: the deadlock ruled", t.Deadlocks[0].Stuck))
	}
	if t.Loss != nil {
		parts = append(parts, t.Loss.String())
	}
	return strings.Join(parts, "; ")
}
