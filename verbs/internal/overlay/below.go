package overlay

import (
	"fmt"

	"github.com/sluice-rdma/sluice/verbs"
)

// below is a queue pair of the device below, with its optional interfaces, nil where it
// has none.
type below struct {
	verbs.QP
	dev     verbs.Device
	num     uint32
	limiter verbs.RateLimitQP
	weights verbs.WeightQP
	cnps    verbs.CNPQP
	departs verbs.SentTimestampQP
	paths   verbs.TelemetryQP
}

func belowOf(qp verbs.QP, dev verbs.Device) below {
	b := below{QP: qp, dev: dev, num: qp.Num()}
	b.limiter, _ = qp.(verbs.RateLimitQP)
	b.weights, _ = qp.(verbs.WeightQP)
	b.cnps, _ = qp.(verbs.CNPQP)
	b.departs, _ = qp.(verbs.SentTimestampQP)
	b.paths, _ = qp.(verbs.TelemetryQP)
	return b
}

// Unwrap returns the queue pair of the device below.
func (b *below) Unwrap() verbs.QP { return b.QP }

// object returns the queue pair's name in errors.
func (b *below) object() string { return fmt.Sprintf("qp %d of %s", b.num, b.dev.Name()) }

// CompletionTelemetry implements verbs.TelemetryQP.
func (b *below) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	return b.paths != nil && b.paths.CompletionTelemetry(wc, t)
}

// TelemetryKinds implements verbs.TelemetryQP.
func (b *below) TelemetryKinds() verbs.TelemetryKinds {
	if b.paths == nil {
		return 0
	}
	return b.paths.TelemetryKinds()
}

// SentTimestamps implements verbs.SentTimestampQP: it reports false if the queue pair
// below does not know.
func (b *below) SentTimestamps(wc *verbs.WC) (first, last uint64, ok bool) {
	if b.departs == nil {
		return 0, 0, false
	}
	return b.departs.SentTimestamps(wc)
}

// CNPs implements verbs.CNPQP: 0 if the queue pair below does not count them.
func (b *below) CNPs() uint64 {
	if b.cnps == nil {
		return 0
	}
	return b.cnps.CNPs()
}

// SetRateLimit implements verbs.RateLimitQP.
func (b *below) SetRateLimit(bps int64) error {
	if b.limiter == nil {
		return verbs.Errorf("modify_qp_rate_limit", b.object(), verbs.ErrNotSupported, "the device has no rate limiter for queue pairs")
	}
	return b.limiter.SetRateLimit(bps)
}

// SetWeight implements verbs.WeightQP.
func (b *below) SetWeight(w int) error {
	if b.weights == nil {
		return verbs.Errorf("modify_qp_sched_elem", b.object(), verbs.ErrNotSupported, "the device has no weights for queue pairs")
	}
	return b.weights.SetWeight(w)
}
