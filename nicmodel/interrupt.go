package nicmodel

import (
	"github.com/sluice-rdma/sluice/units"
)

// InterruptConfig describes the way from the NIC's interrupt to the host's software.
type InterruptConfig struct {
	// Latency is from the arrival of the message that interrupts a processor to when
	// the event's owner has it: a property of the host, up to 1 s. 0 for none.
	Latency units.Time `yaml:"latency"`
}

// An armed completion queue raises an event: the NIC writes an element to its event
// queue, behind the completion, and interrupts a processor, which is a write too
// (MSI-X). Arming is a store into the NIC. Sizes are mlx5's and PCI's.
const (
	eqeBytes   = 64
	msixBytes  = 4
	armBytes   = 8
	eqElements = 1 << 10 // of the event queue
)

// arming is what a completion queue's owner wants to be told.
type arming uint8

const (
	disarmed arming = iota
	armedSolicited
	armedAny
)

// notifier is what a completion queue has for its events.
type notifier struct {
	handler func(now units.Time)
	armed   arming
	asked   arming // by a store that is on its way
	from    uint64 // completions that were visible when it was asked, which do not count
	written uint64 // completions in all
	// Behind the newest solicited one, counted likewise.
	solicited uint64

	moderation
}

// OnEvent calls f when an event that ReqNotify has asked for has got to the host. A nil
// f takes it off.
func (n *NIC) OnEvent(num uint32, f func(now units.Time)) { n.cqs[num].events.handler = f }

// ReqNotify arms a completion queue: the next completion to become visible, or the
// next that is solicited or has failed, raises an event, and that is all it does. A
// completion that comes while the arming is on its way to the NIC counts.
func (n *NIC) ReqNotify(now units.Time, num uint32, solicitedOnly bool) {
	c := n.cqs[num]
	v := &c.events
	if v.asked == disarmed {
		v.from = v.written
		for i := c.session.n + 1; i <= c.n && c.newest(i).Visible > now; i++ {
			v.from--
		}
	}
	if solicitedOnly {
		v.asked = max(v.asked, armedSolicited)
	} else {
		v.asked = armedAny
	}
	n.engine.Schedule(n.pcie.MMIO(now, armBytes, ForEvent), &n.src, n.id, evArm, uint64(num))
}

// armed takes an arming that has reached the NIC.
func (n *NIC) armed(now units.Time, num uint32) {
	v := &n.cqs[num].events
	if v.asked == disarmed {
		return // one that came earlier was for both
	}
	before := v.armed
	v.armed, v.asked = max(v.armed, v.asked), disarmed
	if v.armed == before {
		return // what has come was counted as it came
	}
	if came := v.written - v.from; came > 0 {
		n.counts(now, num, int(came), v.solicited > v.from)
	}
}

// tells counts completions that the NIC writes at a time.
func (n *NIC) tells(at units.Time, num uint32, c *cq, count int, solicited bool) {
	v := &c.events
	v.written += uint64(count)
	if solicited {
		v.solicited = v.written
	}
	if v.armed != disarmed {
		n.counts(at, num, count, solicited)
	}
}

// interrupt raises an armed queue's event.
func (n *NIC) interrupt(at units.Time, num uint32) {
	v := &n.cqs[num].events
	v.armed, v.waiting, v.until = disarmed, 0, units.Never
	at = n.cqe.Serve(at, at, StallNone, n.cfg.CQECycles)
	n.pcie.Write(at, n.eqAddr+n.eqes%eqElements*eqeBytes, eqeBytes, ForEvent)
	n.eqes++
	// Where interrupts are written to is not translated as memory is: the event
	// queue's page, which is at hand, stands for it.
	_, there := n.pcie.Write(at, n.eqAddr, msixBytes, ForEvent)
	n.engine.Schedule(there+n.cfg.Interrupt.Latency, &n.src, n.id, evEvent, uint64(num))
}
