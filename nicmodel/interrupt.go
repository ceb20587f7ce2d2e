package nicmodel

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// An armed completion queue raises an event: the NIC writes an element to its event
// queue, behind the completion, and interrupts a processor, which is a write too
// (MSI-X). Arming is a store into the NIC. Sizes are mlx5's and PCI's.
const (
	eqeBytes   = 64
	msixBytes  = 4
	armBytes   = 8
	eqElements = 1 << 10 // of the event queue
)

// armed takes an arming that has reached the NIC.
func (cs *completions) armed(now units.Time, num uint32) {
	v := &cs.all[num].events
	if v.requested == disarmed {
		return // an earlier event was for both
	}
	before := v.armed
	v.armed, v.requested = max(v.armed, v.requested), disarmed
	if v.armed == before {
		return // completions were counted as they were written
	}
	if since := v.written - v.from; since > 0 {
		cs.countArmed(now, num, int(since), v.solicited > v.from)
	}
}

// countWritten counts completions that the NIC writes at a time.
func (cs *completions) countWritten(at units.Time, num uint32, c *cq, count int, solicited bool) {
	v := &c.events
	v.written += uint64(count)
	if solicited {
		v.solicited = v.written
	}
	if v.armed != disarmed {
		cs.countArmed(at, num, count, solicited)
	}
}

// interrupt raises an armed queue's event.
func (cs *completions) interrupt(at units.Time, num uint32) {
	v := &cs.all[num].events
	v.armed, v.waiting, v.until = disarmed, 0, units.Never
	done, at := cs.make(at)
	cs.Link.Write(at, cs.eqAddr+cs.eqes%eqElements*eqeBytes, eqeBytes, pcie.ForEvent)
	cs.eqes++
	// The address to which interrupts are written is not translated as memory is: it
	// counts as the event queue's page, which is always translated.
	sent, there := cs.Link.Write(at, cs.eqAddr, msixBytes, pcie.ForEvent)
	there = cs.sent(sent, there, done)
	cs.Schedule(there+cs.Config.Interrupt.Latency, chip.EvInterrupt, uint64(num))
}

// interrupted handles an interrupt that has got to the host.
func (cs *completions) interrupted(now units.Time, num uint32) {
	if h := cs.all[num].events.handler; h != nil {
		h(now)
	}
}

// countArmed takes completions of an armed queue into account.
func (cs *completions) countArmed(at units.Time, num uint32, count int, solicited bool) {
	v := &cs.all[num].events
	if v.armed == armedSolicited && !solicited {
		return
	}
	v.waiting += count
	switch {
	case v.count == 0 && v.period == 0, v.count > 0 && v.waiting >= v.count:
		cs.interrupt(at, num)
	case v.period > 0 && v.until == units.Never:
		v.until = at + v.period
		cs.Schedule(v.until, chip.EvModeration, uint64(num))
	}
}

// moderationTimeout is the end of a wait by time.
func (cs *completions) moderationTimeout(now units.Time, num uint32) {
	if v := &cs.all[num].events; v.armed != disarmed && v.until == now {
		cs.interrupt(now, num)
	}
}
