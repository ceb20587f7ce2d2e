package paced

import (
	"reflect"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Below returns the provider's CQ, of receives.
func (c *CQ) Below() verbs.CQ { return c.recv }

// BelowSends returns the provider's CQ on which the segments of q complete.
func (q *QP) BelowSends() verbs.CQ { return q.sends.cq }

// Nap returns the most time that a goroutine may sleep on a channel of a Shim.
func Nap(ch verbs.CompChannel) units.Time {
	nap, _ := ch.(*channel).look()
	return nap
}

// Memory is a piece of memory.
type Memory struct{ From, Size uintptr }

// Written returns the memory that a thread writes for a segment of q, by name.
func (q *QP) Written() map[string]Memory {
	of := func(p any) Memory {
		v := reflect.ValueOf(p)
		return Memory{v.Pointer(), v.Type().Elem().Size()}
	}
	return map[string]Memory{
		"queue pair": of(q), "CQ": of(q.cq), "send CQ": of(q.sends), "shard": of(q.shard),
		"core": of(q.shard.core), "engine": of(q.core.Engine()),
	}
}
