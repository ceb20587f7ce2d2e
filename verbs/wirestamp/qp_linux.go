package wirestamp

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/wirestamp/match"
)

// qp is a reliable connection of a Device. Beside verbs.QP it is a
// verbs.SentTimestampQP and a Stamper, and as far as the queue pair below is, a
// verbs.TelemetryQP, verbs.CNPQP and verbs.RateLimitQP.
type qp struct {
	verbs.QP
	dev     *Device
	num     uint32
	sends   *cq
	sigAll  bool
	limiter verbs.RateLimitQP // nil where the queue pair below is none, as the next two
	cnps    verbs.CNPQP
	paths   verbs.TelemetryQP

	// Guarded by dev.mu.
	queue   *match.Queue
	conn    connection // as it is registered
	id      uint32
	stamped bool
	failed  bool // what is posted comes back flushed
	dest    connection
	mtu     ib.MTU
}

// Stamper is a QP that knows all stamps of a completed request.
type Stamper interface {
	// Stamps returns what is known of a successful completion of a send request
	// that the last Poll of the QP's send CQ returned; it belongs to whoever polls.
	// It reports false of any other completion.
	Stamps(wc *verbs.WC) (match.Stamps, bool)
}

type pd struct {
	verbs.PD
	dev *Device
}

// Unwrap returns the protection domain of the device below.
func (p *pd) Unwrap() verbs.PD { return p.PD }

// CreateQP implements verbs.PD.
func (p *pd) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	d := p.dev
	below := func(c verbs.CQ) (verbs.CQ, *cq, error) {
		if c == nil {
			return nil, nil, nil
		}
		own, ok := c.(*cq)
		if !ok || own.dev != d {
			return nil, nil, verbs.Errorf("create_qp", d.Name(), verbs.ErrInvalid, "SendCQ and RecvCQ must be made by this device")
		}
		return own.CQ, own, nil
	}
	q := &qp{dev: d, sigAll: a.SigAll, mtu: 1024}
	var err error
	if a.SendCQ, q.sends, err = below(a.SendCQ); err != nil {
		return nil, err
	}
	if a.RecvCQ, _, err = below(a.RecvCQ); err != nil {
		return nil, err
	}
	if q.QP, err = p.PD.CreateQP(a); err != nil {
		return nil, err
	}
	if a.Type != ib.RC || q.sends == nil {
		return q.QP, nil // no acknowledgements
	}
	q.num = q.Num()
	q.limiter, _ = q.QP.(verbs.RateLimitQP)
	q.cnps, _ = q.QP.(verbs.CNPQP)
	q.paths, _ = q.QP.(verbs.TelemetryQP)
	q.queue = match.New(a.Cap.MaxSendWR)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inner[q.QP] = q
	q.sends.insert(q)
	return q, nil
}

// Unwrap returns the queue pair of the device below.
func (q *qp) Unwrap() verbs.QP { return q.QP }

// PostSend implements verbs.QP.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	d := q.dev
	d.mu.Lock()
	known := q.stamped && !q.failed
	if known { // before they can leave
		for i := range wrs {
			w := &wrs[i]
			q.queue.Post(w.WRID, w.Opcode, uint32(w.Length()), q.sigAll || w.Flags&verbs.SendSignaled != 0)
		}
	}
	d.mu.Unlock()
	n, err := q.QP.PostSend(wrs)
	if n < len(wrs) && known {
		d.mu.Lock()
		q.queue.Unpost(len(wrs) - n)
		d.mu.Unlock()
	}
	return n, err
}

// Modify implements verbs.QP. On the way to RTS the connection is registered with
// the program; on the way to RESET it is forgotten.
func (q *qp) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	d := q.dev
	state := mask&verbs.AttrState != 0
	d.mu.Lock()
	if mask&verbs.AttrAV != 0 {
		q.dest.peer = a.AV.GID
	}
	if mask&verbs.AttrDestQPN != 0 {
		q.dest.peerQPN = a.DestQPN
	}
	if mask&verbs.AttrPathMTU != 0 && a.PathMTU > 0 {
		q.mtu = a.PathMTU
	}
	start := state && a.State == ib.RTS && mask&verbs.AttrSQPSN != 0 && q.sends.timestamps
	if start {
		if err := q.start(units.MakePSN(a.SQPSN)); err != nil {
			d.mu.Unlock()
			return verbs.Errorf("modify_qp", fmt.Sprintf("qp %d of %s", q.num, d.Name()), err, "its packets can't be stamped")
		}
	}
	d.mu.Unlock()
	err := q.QP.Modify(a, mask)
	if !state || err == nil && a.State != ib.Reset && a.State != ib.Err || err != nil && !start {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.State == ib.Err {
		q.failed = true
		return nil
	}
	if e := d.remove(q); err == nil {
		err = e
	}
	return err
}

// start has the connection stamped, its requests from psn on. The lock is held.
func (q *qp) start(psn units.PSN) error {
	if err := q.dev.remove(q); err != nil {
		return err
	}
	c := q.dest
	c.peer, c.localQPN = c.peer.WithZone(""), q.num
	q.failed = false
	q.queue.Reset(psn, q.mtu)
	return q.dev.add(q, c)
}

// Destroy implements verbs.QP.
func (q *qp) Destroy() error {
	if err := q.QP.Destroy(); err != nil {
		return err
	}
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	delete(q.dev.inner, q.QP)
	q.sends.drop(q)
	return q.dev.remove(q)
}

// Stamps implements Stamper.
func (q *qp) Stamps(wc *verbs.WC) (match.Stamps, bool) {
	if s := q.sends.find(wc); s != nil {
		return *s, true
	}
	return match.Stamps{}, false
}

// SentTimestamps implements verbs.SentTimestampQP.
func (q *qp) SentTimestamps(wc *verbs.WC) (first, last uint64, ok bool) {
	s := q.sends.find(wc)
	if s == nil || !s.Whole() {
		return 0, 0, false
	}
	return s.First, s.Last, true
}

// CompletionTelemetry implements verbs.TelemetryQP.
func (q *qp) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	return q.paths != nil && q.paths.CompletionTelemetry(wc, t)
}

// TelemetryKinds implements verbs.TelemetryQP.
func (q *qp) TelemetryKinds() verbs.TelemetryKinds {
	if q.paths == nil {
		return 0
	}
	return q.paths.TelemetryKinds()
}

// CNPs implements verbs.CNPQP: 0 if the queue pair below does not count them.
func (q *qp) CNPs() uint64 {
	if q.cnps == nil {
		return 0
	}
	return q.cnps.CNPs()
}

// SetRateLimit implements verbs.RateLimitQP.
func (q *qp) SetRateLimit(bps int64) error {
	if q.limiter == nil {
		return verbs.Errorf("modify_qp_rate_limit", fmt.Sprintf("qp %d of %s", q.num, q.dev.Name()), verbs.ErrNotSupported, "the device has no rate limiter for queue pairs")
	}
	return q.limiter.SetRateLimit(bps)
}
