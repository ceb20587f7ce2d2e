package wiretag

import (
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
)

// attribute finds what was reported of completions. With tags that is in the ring: the
// kernel put it there before the packet reached the transport. The lock is held.
func (d *Device) attribute(c *overlay.CQ[*qp, report], wc []verbs.WC) {
	d.src.Take(d.onEvent)
	for i := range wc {
		w := &wc[i]
		q, ok := c.Sender(w)
		if !ok {
			continue
		}
		var r report
		if q.path != nil {
			r, ok = d.latest(q.path)
			d.probe(q.path)
		} else if s, known := q.Queue.Complete(w.WRID); known && s.Acked != 0 {
			r, ok = q.reports.of(s.Acked)
		} else {
			ok = false
		}
		if !ok {
			d.stats.Unreported++
			continue
		}
		d.stats.Reported++
		c.Put(w, r)
	}
}
