package wiretag

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
)

// qp is a reliable connection of a Device. Beside what the queue pair below is, it is a
// verbs.TelemetryQP.
type qp struct {
	*overlay.QP[*qp, report]
	dev *Device

	// Guarded by dev.mu.
	reports history // with Tags
	path    *path   // with Probes
}

func (d *Device) cover(q *overlay.QP[*qp, report], a verbs.QPInitAttr) *qp {
	return &qp{QP: q, dev: d, reports: newHistory(a.Cap.MaxSendWR)}
}

// PostSend implements verbs.QP.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	d := q.dev
	if d.mode != Probes {
		return q.QP.PostSend(wrs)
	}
	d.mu.Lock()
	if q.path != nil && !q.Failed() && len(wrs) > 0 {
		d.probe(q.path)
	}
	d.mu.Unlock()
	return q.Unwrap().PostSend(wrs)
}

// Begins implements overlay.Conn: the peer's requests have tags as soon as it may send.
func (q *qp) Begins(a *verbs.QPAttr, mask verbs.QPAttrMask) bool {
	return a.State == ib.RTR && mask&verbs.AttrDestQPN != 0 && mask&verbs.AttrAV != 0
}

// Start implements overlay.Conn: it makes the connection known.
func (q *qp) Start() error {
	d := q.dev
	if d.mode != Probes {
		var flags uint32
		if d.mode == Tags {
			flags = flagTags | flagReports
		}
		return q.Register(func(id uint32, c overlay.Connection) error { return d.src.Register(id, c, flags) })
	}
	from, err := d.GID(q.Port, q.AV.SGIDIndex)
	if err != nil {
		return err
	}
	to := q.AV.GID.Unmap()
	if from = from.Unmap(); from.Is4() != to.Is4() {
		from = unspecified(to) // the routing table knows the right one
	}
	port := d.cfg.SourcePort
	if port == 0 {
		port = sourcePort(q.AV.FlowLabel, q.Num(), q.DestQPN)
	}
	return d.joinPath(q, pathKey{netip.AddrPortFrom(from, port), netip.AddrPortFrom(to, roce.Port), q.AV.TrafficClass})
}

// End implements overlay.Conn.
func (q *qp) End() {
	q.dev.leavePath(q)
	q.reports.reset()
}

// unspecified is the unspecified address, which means any, of the family of like.
func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// CompletionTelemetry implements verbs.TelemetryQP.
func (q *qp) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	has := q.QP.CompletionTelemetry(wc, t)
	r := q.Sends.Find(wc)
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
func (q *qp) TelemetryKinds() verbs.TelemetryKinds {
	k := q.QP.TelemetryKinds()
	if q.dev.mode != Reflect {
		k |= verbs.ReportsMaxDelay
	}
	return k
}
