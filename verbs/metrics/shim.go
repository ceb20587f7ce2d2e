package metrics

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// describe names a metric of a queue pair or of a shim.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_"+name, help, labels, nil)
}

var qpLabels = []string{"device", "qpn"}

var (
	qpInfo        = describe("qp_info", "A paced queue pair, its rate engine and its state; always 1.", "device", "qpn", "engine", "state")
	qpRate        = describe("qp_rate_bps", "Rate that the engine allows, payload bits per second.", qpLabels...)
	qpFloor       = describe("qp_rate_floor_bps", "Least rate of the engine; absent where it bounds a window instead.", qpLabels...)
	qpCeiling     = describe("qp_rate_ceiling_bps", "Most rate of the engine; absent where it bounds a window instead.", qpLabels...)
	qpCuts        = describe("qp_cuts_total", "Answers of the engine that lowered its rate or window, by what it was told.", "device", "qpn", "cause")
	qpWindow      = describe("qp_window_bytes", "Window that the engine allows; absent where it sets none.", qpLabels...)
	qpOutstanding = describe("qp_outstanding_bytes", "Payload bytes that are with the NIC.", qpLabels...)
	qpMessages    = describe("qp_messages_total", "Requests that completed, however.", qpLabels...)
	qpFailed      = describe("qp_failed_total", "Requests that completed with an error.", qpLabels...)
	qpSegments    = describe("qp_segments_total", "Segments given to the NIC.", qpLabels...)
	qpBytes       = describe("qp_segment_bytes_total", "Payload bytes of the segments given to the NIC.", qpLabels...)
	qpCNPs        = describe("qp_cnps_total", "Congestion notifications that the engine was told of.", qpLabels...)
	qpRTT         = describe("qp_rtt_seconds", "Round trips of segments, serialisation included.", qpLabels...)
	qpEngine      = describe("qp_engine", "A variable of the rate engine, in the unit that its name ends in.", "device", "qpn", "variable")

	shimPosts       = describe("posts_total", "Calls that gave segments to the provider.", "device")
	shimNICTime     = describe("rtt_samples_nic_time_total", "Round trips that ended at a NIC's timestamp.", "device")
	shimPollTime    = describe("rtt_samples_poll_time_total", "Round trips that ended when they were polled, for want of a trusted timestamp.", "device")
	shimClamped     = describe("rtt_samples_clamped_total", "Round trips shorter than their serialisation: a wrong line rate or clock.", "device")
	shimBypassed    = describe("rtt_samples_bypassed_total", "Round trips that the engine was spared, as nothing queued at line rate.", "device")
	shimFull        = describe("provider_full_total", "Segments that the provider had no room for at first.", "device")
	shimStray       = describe("stray_completions_total", "Completions of no segment that was outstanding.", "device")
	shimRefused     = describe("nic_rate_refused_total", "Queue pairs whose NIC took its rate neither as a limit nor as a static rate.", "device")
	shimClockErrors = describe("clock_errors_total", "Readings of the NIC's clock that failed.", "device")

	calibrationTrusted = describe("calibration_trusted", "1 if NIC timestamps are trusted, else 0; the reason says why not.", "device", "reason")
	calibrationError   = describe("calibration_error_seconds", "Bound on the error of a NIC timestamp mapped to the host's clock; absent without samples.", "device")
	calibrationDrift   = describe("calibration_drift_ppm", "How much longer the period of the NIC's clock is than nominal, by the host's clock.", "device")
)

// collectShim tells what a shim and its queue pairs did, and how they stand. A
// queue pair's metrics end with it.
func collectShim(device string, shim *paced.Shim, ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	total := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}

	var q paced.QPStats
	for _, qp := range shim.QPs() {
		qp.Stats(&q)
		qpn := fmt.Sprintf("%#06x", q.QPN)
		gauge(qpInfo, 1, device, qpn, q.Engine, q.State.String())
		gauge(qpRate, float64(q.Rate), device, qpn)
		if q.Ceiling > 0 {
			gauge(qpFloor, float64(q.Floor), device, qpn)
			gauge(qpCeiling, float64(q.Ceiling), device, qpn)
		}
		for cause, n := range q.Cuts {
			total(qpCuts, n, device, qpn, strings.ToLower(paced.Cause(cause).String()))
		}
		if q.Window > 0 {
			gauge(qpWindow, float64(q.Window), device, qpn)
		}
		gauge(qpOutstanding, float64(q.Outstanding), device, qpn)
		total(qpMessages, q.Messages, device, qpn)
		total(qpFailed, q.Failed, device, qpn)
		total(qpSegments, q.Segments, device, qpn)
		total(qpBytes, uint64(q.SegmentBytes), device, qpn)
		total(qpCNPs, q.CNPs, device, qpn)
		ch <- rtts(&q.RTT, device, qpn)
		for _, v := range q.Variables {
			gauge(qpEngine, v.Value, device, qpn, v.Name)
		}
	}

	s := shim.Stats()
	total(shimPosts, s.Posts, device)
	total(shimNICTime, s.NICTime, device)
	total(shimPollTime, s.PollTime, device)
	total(shimClamped, s.Clamped, device)
	total(shimBypassed, s.Bypassed, device)
	total(shimFull, s.ProviderFull, device)
	total(shimStray, s.Stray, device)
	total(shimRefused, s.NICRateRefused, device)
	total(shimClockErrors, s.ClockErrors, device)

	cal := shim.Calibration()
	trusted := 0.0
	if cal.Reason == calibration.Trusted {
		trusted = 1
	}
	gauge(calibrationTrusted, trusted, device, cal.Reason.String())
	if cal.Bound != units.Never {
		gauge(calibrationError, cal.Bound.Seconds(), device)
		gauge(calibrationDrift, cal.DriftPPM, device)
	}
}

// Buckets of the exported histogram: two an octave, 1.6 us to 206 ms.
const (
	firstBound = 9  // of paced.RTTHistogram: 1.57 us
	lastBound  = 77 // 206 ms
)

// rtts is a histogram of round trips with half of its buckets, and those beyond
// the ends together.
func rtts(h *paced.RTTHistogram, labels ...string) prometheus.Metric {
	buckets := map[float64]uint64{}
	var n uint64
	for i, c := range h.Counts {
		n += c
		if i >= firstBound && i <= lastBound && (i-firstBound)%2 == 0 {
			buckets[h.Bound(i).Seconds()] = n
		}
	}
	return prometheus.MustNewConstHistogram(qpRTT, n, h.Sum.Seconds(), buckets, labels...)
}
