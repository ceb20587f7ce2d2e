package wirestamp

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/match"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
)

// qp is a reliable connection of a Device. Beside what the queue pair below is, it is a
// verbs.SentTimestampQP and a Stamper.
type qp struct {
	*overlay.QP[*qp, match.Stamps]
	src source
}

// Stamper is a QP that knows all stamps of a completed request.
type Stamper interface {
	// Stamps returns the times of a successful completion of a send request that the
	// last Poll of the QP's send CQ returned. Only the goroutine that polls may call
	// it. It reports false for any other completion.
	Stamps(wc *verbs.WC) (match.Stamps, bool)
}

func (d *Device) cover(q *overlay.QP[*qp, match.Stamps], _ verbs.QPInitAttr) *qp {
	return &qp{q, d.src}
}

// Begins implements overlay.Conn: stamps need the first PSN.
func (q *qp) Begins(a *verbs.QPAttr, mask verbs.QPAttrMask) bool {
	return a.State == ib.RTS && mask&verbs.AttrSQPSN != 0 && q.Sends.Watched()
}

// Start implements overlay.Conn.
func (q *qp) Start() error { return q.Register(q.src.Register) }

// End implements overlay.Conn.
func (q *qp) End() {}

// Stamps implements Stamper.
func (q *qp) Stamps(wc *verbs.WC) (match.Stamps, bool) {
	if s := q.Sends.Find(wc); s != nil {
		return *s, true
	}
	return match.Stamps{}, false
}

// SentTimestamps implements verbs.SentTimestampQP.
func (q *qp) SentTimestamps(wc *verbs.WC) (first, last uint64, ok bool) {
	s := q.Sends.Find(wc)
	if s == nil || !s.Whole() {
		return 0, 0, false
	}
	return s.First, s.Last, true
}
