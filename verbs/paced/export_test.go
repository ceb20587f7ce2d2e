package paced

import (
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Below returns the provider's CQ, of receives.
func (c *CQ) Below() verbs.CQ { return c.recv }

// BelowSends returns the provider's CQ on which the segments of q complete.
func (q *QP) BelowSends() verbs.CQ { return q.sends.cq }

// Nap is for how long a goroutine may sleep on a channel of a Shim.
func Nap(ch verbs.CompChannel) units.Time {
	nap, _ := ch.(*channel).look()
	return nap
}
