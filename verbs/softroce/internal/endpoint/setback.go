package endpoint

import "github.com/sluice-rdma/sluice/units"

// SetBack sets back the driver's clock by by, all instants as units.Time.SetBack
// does: from then on instants count from origin, on the device's counter, whose
// stamps go on.
func (e *Endpoint) SetBack(by units.Time, origin units.LongTime) {
	e.origin = origin
	for _, s := range e.qps.slots {
		if q := s.v; q != nil {
			q.setBack(by)
		}
	}
}

func (q *QP) setBack(by units.Time) {
	q.timerAt = q.timerAt.SetBack(by) // the heap stays one
	c := &q.congestion
	c.cnpAt, c.cnpTakenAt, c.servedAt = c.cnpAt.SetBack(by), c.cnpTakenAt.SetBack(by), c.servedAt.SetBack(by)
	if q.rc != nil {
		q.rc.SetBack(by)
	}
	if q.collected != nil {
		q.collected.reader.SetBack(by)
	}
}
