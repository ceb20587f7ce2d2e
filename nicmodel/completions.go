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
	Solicited bool
	Timestamp uint64     // the counter when the NIC had finished the operation
	Visible   units.Time // when the host can see it

	made units.Time // when the stage was done with it, in a session
	// Polling it frees the places of its queue pair's requests before upTo, if frees.
	frees bool
	upTo  uint32
}

// completions is the stage cqe.
//
// State: for each completion queue its ring in host memory, a session of
// compression (compression.go), and what events wait for
// (interrupt.go). Cost: CQECycles a completion and an event, and on PCIe CQEBytes a
// completion. It stalls while as many completions wait for PCIe as may (StallPCIe).
type completions struct {
	*chip.Chip
	stage.Stage
	pairs    *queuePairs
	regions  *memory.Regions
	landings *memory.Landings
	async    *asyncEvents
	buffer   *receiveBuffer

	waiting  stage.Inflight // completions before PCIe, until each has left
	queues   []*cq
	unpolled stage.Gauge
	eqAddr   uint64 // of the event queue
	eqes     uint64 // written to it
}

// complete gives the host a completion, once its data are available, at ready.
func (cs *completions) complete(now, ready units.Time, num uint32, e CQE) {
	c := cs.queues[num]
	done, at := cs.make(now)
	cs.buffer.hold(done)
	e.Timestamp = cs.Config.Counter.Read(now)
	if cs.Spans.Report != nil {
		cs.Spans.Completion(e.QPN, e.Slot, e.Opcode, chip.AtCQE, cs.Began(cs.Config.CQECycles), done)
	}
	compress := cs.Config.Compression.MaxNum > 0 && !c.stamped
	if compress {
		cs.endUnlike(at, num, c, &e)
	}
	if c.n == len(c.ring) {
		if !c.overrun {
			c.overrun = true
			cs.async.raise(now, AsyncEvent{Type: ib.EventCQErr, CQ: num})
		}
		return
	}
	place := c.head + c.n
	if place >= len(c.ring) {
		place -= len(c.ring)
	}
	c.ring[place] = e
	c.n++
	cs.unpolled.Add(now, 1)
	if compress {
		cs.keep(at, done, ready, num, c)
		return
	}
	visible := cs.write(at, done, c, 0)
	c.written++
	// Others go meanwhile to other queues; in one queue they are seen in order.
	visible = max(visible+ready-now, c.visible)
	c.visible = visible
	c.ring[place].Visible = visible
	if cs.Spans.Report != nil {
		cs.Spans.Completion(e.QPN, e.Slot, e.Opcode, chip.AtCQEWrite, done, visible)
	}
	cs.announce(at, visible, num, c, 1)
}

// make makes a completion or an event, when there is room for it. What waits for room takes its place on the link as it
// comes, at, and not once it is made: credits that it waits for do not keep the link.
func (cs *completions) make(now units.Time) (done, at units.Time) {
	room := cs.waiting.Free(now)
	done = cs.Serve(now, room, stage.StallPCIe, cs.Config.CQECycles)
	if room > now {
		return done, min(done, max(now, cs.Link.Free(pcie.Upstream)))
	}
	return done, done
}

// sent says that something was written that is made at done, and has left at sent if it was made before. It returns
// when the host sees it.
func (cs *completions) sent(sent, visible, done units.Time) units.Time {
	if done > sent {
		sent, visible = done, cs.Link.Left(done)
	}
	cs.waiting.Hold(sent)
	cs.buffer.hold(sent)
	return visible
}

// write writes an element of the queue, so many behind those that have been
// written, and returns when the host can see it. It takes its place on the link at a time, and is made at done.
func (cs *completions) write(at, done units.Time, c *cq, ahead uint32) (visible units.Time) {
	place := (c.written + ahead) % uint32(len(c.ring))
	sent, visible := cs.Link.Write(at, c.addr+uint64(place)*uint64(cs.Config.CQEBytes), cs.Config.CQEBytes, pcie.ForCQE)
	if ahead > 0 { // of a session, the title that comes last stands for all
		return visible
	}
	return cs.sent(sent, visible, done)
}

// announce reports a queue's newest completions to its observer. They are alike, are
// written at a time and then become visible.
func (cs *completions) announce(at, visible units.Time, num uint32, c *cq, count int) {
	e := c.newest(1)
	solicited := e.Solicited || e.Status != ib.WCSuccess
	cs.countWritten(at, num, c, count, solicited)
	if c.handler == nil {
		return
	}
	cs.Schedule(visible, chip.EvCompletion, chip.Completion{CQ: num, Solicited: solicited}.Pack())
}

// becameVisible handles that the host can see a completion, and the data before it.
func (cs *completions) becameVisible(now units.Time, e chip.Completion) {
	cs.landings.BringDown(now)
	if h := cs.queues[e.CQ].handler; h != nil {
		h(now, e.Solicited)
	}
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

// CreateCQ returns the number of a new completion queue of at least so many
// entries.
func (n *NIC) CreateCQ(entries int) (uint32, error) { return n.completions.create(entries) }

const mostCQE = 1 << 22

func (cs *completions) create(entries int) (uint32, error) {
	if entries < 1 || entries > mostCQE {
		return 0, fmt.Errorf("a completion queue of %d entries can't be: 1 to %d", entries, mostCQE)
	}
	cs.queues = append(cs.queues, &cq{
		ring: make([]CQE, entries), addr: cs.regions.Reserve(uint64(entries) * uint64(cs.Config.CQEBytes)),
		events: notifier{moderation: moderation{until: units.Never}},
	})
	if cs.eqAddr == 0 {
		cs.eqAddr = cs.regions.Reserve(eqElements * eqeBytes)
	}
	return uint32(len(cs.queues) - 1), nil
}

// ResizeCQ has a completion queue hold so many entries; those that wait stay. It fails if
// they are more.
func (n *NIC) ResizeCQ(num uint32, entries int) error { return n.completions.resize(num, entries) }

func (cs *completions) resize(num uint32, entries int) error {
	c := cs.queues[num]
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
	c.ring, c.head, c.addr = ring, 0, cs.regions.Reserve(uint64(entries)*uint64(cs.Config.CQEBytes))
	return nil
}

// DestroyCQ frees a completion queue. It fails while queue pairs use it.
func (n *NIC) DestroyCQ(num uint32) error { return n.completions.destroy(num) }

func (cs *completions) destroy(num uint32) error {
	c := cs.queues[num]
	if c.users > 0 {
		return fmt.Errorf("%d queue pairs still use the completion queue", c.users)
	}
	cs.unpolled.Add(cs.Now(), -c.n)
	*c = cq{}
	return nil
}

// OnCompletion calls f whenever a completion has become visible in the queue, as an
// event of the simulation: the next turn of a polling loop. See OnEvent for
// interrupts. solicited says that the completion was solicited or has failed. A nil
// f removes the callback.
func (n *NIC) OnCompletion(num uint32, f func(now units.Time, solicited bool)) {
	n.completions.queues[num].handler = f
}

// PollCQ moves visible completions to out and returns how many.
func (n *NIC) PollCQ(now units.Time, num uint32, out []CQE) int {
	return n.completions.poll(now, num, out)
}

func (cs *completions) poll(now units.Time, num uint32, out []CQE) int {
	cs.landings.BringDown(now) // no completion is seen before its data
	c := cs.queues[num]
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

// drop takes the completions of a queue pair out of a queue.
func (cs *completions) drop(num, qpn uint32) {
	c := cs.queues[num]
	if c.session.n > 0 && c.newest(1).QPN == qpn {
		cs.writeSession(cs.Now(), num, c)
	}
	kept := 0
	for i := range c.n {
		e := &c.ring[(c.head+i)%len(c.ring)]
		if e.QPN != qpn {
			c.ring[(c.head+kept)%len(c.ring)] = *e
			kept++
		}
	}
	cs.unpolled.Add(cs.Now(), kept-c.n)
	c.n = kept
}

// Overrun reports whether a completion was lost because the queue was full.
func (n *NIC) Overrun(num uint32) bool { return n.completions.queues[num].overrun }

// newest returns the completion of a queue that is the i-th from its end, from 1.
func (c *cq) newest(i int) *CQE {
	at := c.head + c.n - i
	if at >= len(c.ring) {
		at -= len(c.ring)
	}
	return &c.ring[at]
}
