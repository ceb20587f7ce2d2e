package nicmodel

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// WR is a send work request as the host posts it.
type WR struct {
	Request rc.Request
	SGL     []memory.SGE
	Inline  []byte // instead of an SGL
	// To and QKey are a datagram's destination, and the Q_Key that it carries.
	To   Peer
	QKey uint32
}

// doorbell is the stage that takes stores of the host to the NIC, one a doorbell or a BlueFlame element.
//
// State: for each queue pair, what was posted, rung and doorbelled. Cost: DoorbellCycles a
// doorbell, and on PCIe 8 bytes, or the element's cache lines. It never stalls; stores beyond its room wait in the host (stores). A
// doorbell that needs a context which is not held lets the elements wait, not the stage.
type doorbell struct {
	*chip.Chip
	stage.Stage
	pairs    *pairs
	contexts *contexts
	elements *elements
	stores   stores
}

// Room returns how many send requests a queue pair can still take. A request keeps its
// place until its completion, or that of a later one, is polled, as with the NIC's driver.
func (p *pairs) Room(num uint32) int {
	q := p.find(num)
	return q.cfg.SendDepth - int(q.posted-q.freed)
}

// PostSend writes a request to the send queue in host memory. Ring then signals it
// to the NIC. PostSend returns rc.ErrFull when there is no room.
func (p *pairs) PostSend(num uint32, wr *WR) error {
	q := p.find(num)
	if int(q.posted-q.freed) == q.cfg.SendDepth {
		return rc.ErrFull
	}
	if q.reports == nil && q.cong.Telemetry != telemetry.None {
		q.reports = make([]Report, len(q.sq))
	}
	w := q.wqe(q.posted)
	w.req = wr.Request
	w.req.Signaled = w.req.Signaled || q.cfg.SigAll
	w.waitUntil, q.waitUntil = q.waitUntil, 0
	w.sgl = append(w.sgl[:0], wr.SGL...)
	w.inline = append(w.inline[:0], wr.Inline...)
	if q.to != nil {
		q.to[q.posted&uint32(len(q.to)-1)] = address{wr.To, wr.QKey}
	}
	q.posted++
	return nil
}

func (d *doorbell) ring(now units.Time, num uint32, count int) {
	if count == 0 {
		return
	}
	q := d.pairs.find(num)
	const doorbellBytes = 8
	blue := count == 1 && q.rung == q.fetched && (q.fetching == 0 || d.Config.BlueFlameBusy)
	bytes := doorbellBytes
	if blue {
		bytes = q.wqeBytes(q.wqe(q.posted - 1))
	} else {
		q.rung += uint32(count)
	}
	q.fetching++
	d.elements.queued.Add(now, count)
	d.store(now, store{chip.Stores{QPN: num, Count: count, Resets: q.resets, BlueFlame: blue}, bytes, q.posted - uint32(count), now})
}

// arrived handles a doorbell as it reaches the NIC.
func (d *doorbell) arrived(now units.Time, b chip.Stores) {
	d.stores.onWay--
	d.serveStore(now, b)
	if d.stores.head < len(d.stores.waiting) {
		d.sendWaiting(now)
	}
}

// store is a processor's store into the NIC: a doorbell, or an element.
type store struct {
	chip.Stores
	bytes int
	first uint32     // of the elements
	at    units.Time // when it was made
}

// stores are those of the host that wait for room in the NIC, and what is on its way there.
type stores struct {
	waiting []store
	head    int
	onWay   int
	wakeAt  units.Time // of the pending EvStore, or Never
}

// backlog returns how many stores the stage has to serve yet.
func (d *doorbell) backlog(now units.Time) int64 {
	left := d.Free - d.Clock.CycleAfter(now)
	if left <= 0 {
		return 0
	}
	return (left + d.Config.DoorbellCycles - 1) / d.Config.DoorbellCycles
}

// store puts a store on the link, or has it wait for room: the NIC has given no credit for it.
func (d *doorbell) store(now units.Time, s store) {
	w := &d.stores
	if most := d.Config.Queues.Doorbells; most == 0 || w.head == len(w.waiting) && w.onWay+int(d.backlog(now)) < most {
		d.send(now, &s)
		return
	}
	w.waiting = append(w.waiting, s)
	d.sendWaiting(now)
}

// sendWaiting sends what waits and there is room for, and looks again when there may be more: as the stage is done with one, or
// one arrives.
func (d *doorbell) sendWaiting(now units.Time) {
	w := &d.stores
	for w.head < len(w.waiting) {
		backlog := d.backlog(now)
		if w.onWay+int(backlog) >= d.Config.Queues.Doorbells {
			if at := d.Clock.Begin(d.Free - (backlog-1)*d.Config.DoorbellCycles); backlog > 0 && at < w.wakeAt {
				w.wakeAt = at
				d.Schedule(at, chip.EvStore, 0)
			}
			return
		}
		d.send(now, &w.waiting[w.head])
		w.head++
	}
	w.waiting, w.head = w.waiting[:0], 0
}

func (d *doorbell) send(now units.Time, s *store) {
	d.stores.onWay++
	there := d.Link.Store(now, s.bytes, pcie.ForDoorbell)
	if q := d.pairs.find(s.QPN); d.Spans.Report != nil && q != nil {
		d.Spans.Request(q.num, len(q.sq), chip.AtStore, s.at, there, s.first, s.Count)
	}
	d.Schedule(there, chip.EvDoorbell, s.Pack())
}
