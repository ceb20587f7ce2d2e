package wiretag

import (
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/wirestamp/match"
)

// qp is a reliable connection of a Device. Beside verbs.QP it is a verbs.TelemetryQP,
// and as far as the queue pair below is, a verbs.SentTimestampQP, verbs.CNPQP and
// verbs.RateLimitQP.
type qp struct {
	verbs.QP
	dev     *Device
	num     uint32
	sends   *cq
	sigAll  bool
	limiter verbs.RateLimitQP // nil where the queue pair below is none, as the next ones
	cnps    verbs.CNPQP
	departs verbs.SentTimestampQP
	paths   verbs.TelemetryQP

	// Guarded by dev.mu.
	queue   *match.Queue // with Tags
	reports history
	conn    connection // as it is registered
	id      uint32
	known   bool
	failed  bool // what is posted comes back flushed
	dest    connection
	av      verbs.AddressVector
	port    int
	mtu     ib.MTU
	path    *path // with Probes
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
	q := &qp{dev: d, sigAll: a.SigAll, mtu: 1024, port: 1}
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
	q.departs, _ = q.QP.(verbs.SentTimestampQP)
	q.paths, _ = q.QP.(verbs.TelemetryQP)
	q.queue, q.reports = match.New(a.Cap.MaxSendWR), newHistory(a.Cap.MaxSendWR)
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
	known := q.known && !q.failed && d.mode == Tags
	if known { // before they can leave
		for i := range wrs {
			w := &wrs[i]
			q.queue.Post(w.WRID, w.Opcode, uint32(w.Length()), q.sigAll || w.Flags&verbs.SendSignaled != 0)
		}
	}
	if q.path != nil && !q.failed && len(wrs) > 0 {
		d.probe(q.path)
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

// Modify implements verbs.QP. On the way to RTR the program is told of the connection;
// on the way to RESET it forgets it.
func (q *qp) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	d := q.dev
	state := mask&verbs.AttrState != 0
	d.mu.Lock()
	if mask&verbs.AttrAV != 0 {
		q.dest.peer, q.av = a.AV.GID, a.AV
	}
	if mask&verbs.AttrDestQPN != 0 {
		q.dest.peerQPN = a.DestQPN
	}
	if mask&verbs.AttrPort != 0 {
		q.port = a.Port
	}
	if mask&verbs.AttrPathMTU != 0 && a.PathMTU > 0 {
		q.mtu = a.PathMTU
	}
	begins := state && a.State == ib.RTR && mask&verbs.AttrDestQPN != 0 && mask&verbs.AttrAV != 0
	if begins {
		if err := q.start(); err != nil {
			d.mu.Unlock()
			return verbs.Errorf("modify_qp", fmt.Sprintf("qp %d of %s", q.num, d.Name()), err, "its path can't report telemetry")
		}
	}
	if state && a.State == ib.RTS && mask&verbs.AttrSQPSN != 0 {
		q.queue.Reset(units.MakePSN(a.SQPSN), q.mtu)
	}
	d.mu.Unlock()
	err := q.QP.Modify(a, mask)
	if !state || err == nil && a.State != ib.Reset && a.State != ib.Err || err != nil && !begins {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && a.State == ib.Err {
		q.failed = true
		return nil
	}
	if e := d.remove(q); err == nil {
		err = e
	}
	return err
}

// start makes the connection known. The lock is held.
func (q *qp) start() error {
	d := q.dev
	if err := d.remove(q); err != nil {
		return err
	}
	c := q.dest
	c.peer, c.localQPN = c.peer.Unmap().WithZone(""), q.num
	q.failed = false
	q.queue.Reset(0, q.mtu)
	q.reports.reset()
	if d.mode == Probes {
		from, err := d.GID(q.port, q.av.SGIDIndex)
		if err != nil {
			return err
		}
		to := q.av.GID.Unmap()
		if from = from.Unmap(); from.Is4() != to.Is4() {
			from = unspecified(to) // the routing table knows the right one
		}
		port := d.cfg.SourcePort
		if port == 0 {
			port = SourcePort(q.av.FlowLabel, q.num, q.dest.peerQPN)
		}
		return d.joinPath(q, pathKey{netip.AddrPortFrom(from, port), netip.AddrPortFrom(to, roce.Port), q.av.TrafficClass})
	}
	return d.add(q, c)
}

// unspecified is the address that stands for any, of the other one's family.
func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
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

// CompletionTelemetry implements verbs.TelemetryQP.
func (q *qp) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	has := q.paths != nil && q.paths.CompletionTelemetry(wc, t)
	r := q.sends.find(wc)
	if r == nil {
		return has
	}
	if !has {
		*t = verbs.Telemetry{}
	}
	t.HasMaxDelay, t.MaxHopDelay, t.ReverseMaxHopDelay = true, r.hop, r.reverse
	return true
}

// TelemetryKinds implements verbs.TelemetryQP.
func (q *qp) TelemetryKinds() (k verbs.TelemetryKinds) {
	if q.paths != nil {
		k = q.paths.TelemetryKinds()
	}
	if q.dev.mode != Reflect {
		k |= verbs.ReportsMaxDelay
	}
	return k
}

// SentTimestamps implements verbs.SentTimestampQP: it reports false if the queue pair
// below does not know.
func (q *qp) SentTimestamps(wc *verbs.WC) (first, last uint64, ok bool) {
	if q.departs == nil {
		return 0, 0, false
	}
	return q.departs.SentTimestamps(wc)
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
