package nicmodel

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

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
	wakeAt  units.Time // of the pending evStore, or Never
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

// takesAck reports whether there is room for an acknowledgement of a queue pair. One that goes behind READ responses
// takes theirs.
func (m *mac) takesAck(q *qp) bool { return q.responding > 0 || m.takesNotification(q) }

// takesNotification is takesAck for a CNP, which goes behind nothing.
func (m *mac) takesNotification(q *qp) bool {
	most := m.Config.Queues.Acks
	return most == 0 || m.controls[q.cong.AckPriority] < most
}
