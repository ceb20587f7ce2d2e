package fabric

import (
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// notice decides whether a packet gets EIN: all that leave a queue in an incast do.
func (n *Network) notice(now units.Time, at uint32, k *kind, prio uint32, queue int32) bool {
	cold := &n.cold[at]
	var on bool
	if k.report != nil {
		left := k.report.queue(int64(queue), int64(n.queues[at*n.prios+prio].count))
		if cold.incast == nil {
			cold.incast = &telemetry.Incast{}
		}
		on = cold.incast.Dequeue(&k.incast, uint64(now/k.report.Clock.Tick), uint64(left))
	} else {
		if cold.incasts == nil {
			cold.incasts = make([]incast, n.prios)
		}
		c, s := &k.class[prio], &cold.incasts[prio]
		if s.gradients == nil {
			s.gradients = make([]int64, c.ein.window)
		}
		on = s.dequeue(&c.ein, now, queue)
	}
	return on
}
