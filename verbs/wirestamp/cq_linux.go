package wirestamp

import (
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/match"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// cq is a completion queue, with the stamps of what the last Poll returned.
type cq = overlay.CQ[*qp, match.Stamps]

// watches reports whether completions are to have timestamps, which the device below
// may not have.
func watches(a *verbs.CQInitAttr) bool {
	wanted := a.Timestamps
	a.Timestamps = false
	return wanted
}

// stamp sets the timestamps of completions. Their stamps are in the ring: the
// kernel put them there before the packet reached the transport. The lock is held.
func (d *Device) stamp(c *cq, wc []verbs.WC) {
	now := uint64(0) // read at most once
	d.src.Take(d.onEvent)
	for i := range wc {
		w := &wc[i]
		var s match.Stamps
		if q, ok := c.Sender(w); !ok {
			d.stats.Others++
		} else {
			s, ok = q.Queue.Complete(w.WRID)
			d.count(&s, ok)
			c.Put(w, s)
		}
		if s.Acked == 0 {
			if now == 0 {
				now = watcher.ReadClock()
			}
			s.Acked = now
		}
		w.Timestamp = s.Acked
	}
}

func (d *Device) count(s *match.Stamps, ok bool) {
	switch {
	case !ok || s.Acked == 0:
		d.stats.Unstamped++
		return
	case !s.Whole():
		d.stats.Unsent++
	}
	d.stats.Stamped++
	if s.Retransmitted {
		d.stats.Retransmitted++
	}
}
