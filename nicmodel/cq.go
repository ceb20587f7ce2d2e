package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// queues is the completion queues as the host has them, in its memory. Its exported methods are the NIC's.
type queues struct {
	chip     *chip.Chip
	pairs    *pairs
	regions  *memory.Regions
	landings *memory.Landings

	all      []*cq
	unpolled stage.Gauge
	eqAddr   uint64 // of the event queue
}

// CQE is a completion as the NIC writes it to host memory.
type CQE struct {
	WRID      uint64
	QPN       uint32
	Slot      uint32 // of the send request; see NIC.Reported
	ByteLen   uint32
	Imm       uint32
	SrcQPN    uint32 // of a datagram received
	Status    ib.WCStatus
	Opcode    ib.WCOpcode
	HasImm    bool
	HasInv    bool
	HasGRH    bool // a datagram's global route header lies before it
	IPv6      bool // that is IPv6's
	Solicited bool
	Timestamp uint64     // the counter when the NIC had finished the operation
	Visible   units.Time // when the host can see it

	made units.Time // when the stage was done with it, in a session
	// Polling it frees the places of its queue pair's requests before upTo, if frees.
	frees bool
	upTo  uint32
}

// cq is a completion queue in host memory: a ring that the NIC fills and the
// host empties.
type cq struct {
	ring    []CQE
	head, n int
	addr    uint64 // of the ring
	written uint32
	visible units.Time // of the newest
	handler func(now units.Time, solicited bool)
	overrun bool
	users   int
	stamped bool
	session session
	events  notifier
}

// session is completions of a queue that the NIC keeps back: the newest of its ring.
type session struct {
	n     int
	until units.Time // when it ends
	ready units.Time // when their data are available
}

// arming says which completions the owner of a completion queue wants an event for.
type arming uint8

const (
	disarmed arming = iota
	armedSolicited
	armedAny
)

// notifier is a completion queue's state of events.
type notifier struct {
	handler   func(now units.Time)
	armed     arming
	requested arming // by a store that is on its way
	from      uint64 // completions that were visible at that store, which do not count
	written   uint64 // completions in all
	// One past the newest solicited one, counted in the same way.
	solicited uint64

	moderation
}

// moderation holds the event of an armed completion queue back (ibv_modify_cq,
// IBV_CQ_ATTR_MODERATE) until a number of completions are there, or some time has passed
// since the first of them. Completions can be polled meanwhile. What counts is what the
// arming asks for: with solicited events, the first of these begins the wait.
type moderation struct {
	count   int        // cq_count; 0 or 1 waits for no more
	period  units.Time // cq_period; 0 is without end
	waiting int        // completions since the arming
	until   units.Time // of the pending EvModeration, or Never
}

const mostCQE = 1 << 22

// CreateCQ returns the number of a new completion queue with room for at least entries
// elements.
func (cs *queues) CreateCQ(entries int) (uint32, error) {
	if entries < 1 || entries > mostCQE {
		return 0, fmt.Errorf("a completion queue of %d entries can't be: 1 to %d", entries, mostCQE)
	}
	cs.all = append(cs.all, &cq{
		ring: make([]CQE, entries), addr: cs.regions.Reserve(uint64(entries) * uint64(cs.chip.Config.CQEBytes)),
		events: notifier{moderation: moderation{until: units.Never}},
	})
	if cs.eqAddr == 0 {
		cs.eqAddr = cs.regions.Reserve(eqElements * eqeBytes)
	}
	return uint32(len(cs.all) - 1), nil
}

// ResizeCQ gives a completion queue room for entries elements; waiting ones stay. It
// fails if they are more.
func (cs *queues) ResizeCQ(num uint32, entries int) error {
	c := cs.all[num]
	if entries < 1 || entries > mostCQE {
		return fmt.Errorf("a completion queue of %d entries can't be: 1 to %d", entries, mostCQE)
	}
	if c.n > entries {
		return fmt.Errorf("%d completions wait, and %d would fit: poll first", c.n, entries)
	}
	ring := make([]CQE, entries)
	for i := range c.n {
		ring[i] = c.ring[(c.head+i)%len(c.ring)]
	}
	c.ring, c.head, c.addr = ring, 0, cs.regions.Reserve(uint64(entries)*uint64(cs.chip.Config.CQEBytes))
	return nil
}

// DestroyCQ frees a completion queue. It fails while queue pairs use it.
func (cs *queues) DestroyCQ(num uint32) error {
	c := cs.all[num]
	if c.users > 0 {
		return fmt.Errorf("%d queue pairs still use the completion queue", c.users)
	}
	cs.unpolled.Add(cs.chip.Now(), -c.n)
	*c = cq{}
	return nil
}

// OnCompletion calls f whenever a completion has become visible in the queue, as an
// event of the simulation: the next turn of a polling loop. See OnEvent for
// interrupts. solicited says that the completion was solicited or has failed. A nil
// f removes the callback.
func (cs *queues) OnCompletion(num uint32, f func(now units.Time, solicited bool)) {
	cs.all[num].handler = f
}

// PollCQ moves visible completions to out and returns how many.
func (cs *queues) PollCQ(now units.Time, num uint32, out []CQE) int {
	cs.landings.BringDown(now) // no completion is seen before its data
	c := cs.all[num]
	i := 0
	for i < len(out) && c.n > 0 && c.ring[c.head].Visible <= now {
		out[i] = c.ring[c.head]
		out[i].made = 0
		if e := &out[i]; e.frees {
			if q := cs.pairs.find(e.QPN); q != nil {
				q.freed = e.upTo
			}
			e.frees, e.upTo = false, 0
		}
		i++
		if c.head++; c.head == len(c.ring) {
			c.head = 0
		}
		c.n--
	}
	if i > 0 {
		cs.unpolled.Add(now, -i)
	}
	return i
}

// Overrun reports whether a completion was lost because the queue was full.
func (cs *queues) Overrun(num uint32) bool { return cs.all[num].overrun }

// newest returns the completion of a queue that is the i-th from its end, from 1.
func (c *cq) newest(i int) *CQE {
	at := c.head + c.n - i
	if at >= len(c.ring) {
		at -= len(c.ring)
	}
	return &c.ring[at]
}

// OnEvent calls f when an event that ReqNotify requested has reached the host. A nil f
// removes the callback.
func (cs *queues) OnEvent(num uint32, f func(now units.Time)) {
	cs.all[num].events.handler = f
}

// ReqNotify arms a completion queue: the next completion to become visible, or the
// next that is solicited or has failed, raises one event. A completion that becomes
// visible while the arming is on its way to the NIC counts.
func (cs *queues) ReqNotify(now units.Time, num uint32, solicitedOnly bool) {
	c := cs.all[num]
	v := &c.events
	if v.requested == disarmed {
		v.from = v.written
		for i := c.session.n + 1; i <= c.n && c.newest(i).Visible > now; i++ {
			v.from--
		}
	}
	if solicitedOnly {
		v.requested = max(v.requested, armedSolicited)
	} else {
		v.requested = armedAny
	}
	cs.chip.Schedule(cs.chip.Link.Store(now, armBytes, pcie.ForEvent), chip.EvArm, uint64(num))
}

// ModerateCQ sets the moderation of a queue's events: count completions, or period
// microseconds after the first of them. 0 for one leaves moderation to the other, 0
// for both raises events at once. The setting holds from the next completion on,
// with which a new period begins.
func (cs *queues) ModerateCQ(num uint32, count, period uint16) {
	m := &cs.all[num].events.moderation
	m.count, m.period = int(count), units.Time(period)*units.Microsecond
}

// StampCQ makes a queue's completions whole, with their timestamps: they are not
// compressed.
func (cs *queues) StampCQ(num uint32) { cs.all[num].stamped = true }
