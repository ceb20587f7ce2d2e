package results

import "github.com/sluice-rdma/sluice/bench/internal/stats"

// Clocks names the clocks by which round trips were taken where the engine runs in the host,
// and how well the NICs' clocks were known there. The calibration's figures are of
// samples of the NICs' counters at even times from the end of the warm-up on, at each
// host that took a round trip since the last sample. They compare the shim's time of
// a sample with its time in the simulation.
type Clocks struct {
	RTTClock string  `json:"rtt_clock,omitempty"` // shim.clock: "calibrated", "nic" or "software"
	HostLoad float64 `json:"host_load,omitempty"` // host.load

	// RTTPolled is the number of round trips of the whole run that end when the host polled, for
	// want of a timestamp or of a calibration that could be trusted.
	RTTPolled uint64 `json:"rtt_polled"`

	CalibrationBoundP50Ns stats.Float `json:"calibration_bound_p50_ns"`
	CalibrationBoundP99Ns stats.Float `json:"calibration_bound_p99_ns"`
	CalibrationBoundMaxNs stats.Float `json:"calibration_bound_max_ns"`
	CalibrationErrorP50Ns stats.Float `json:"calibration_error_p50_ns"`
	CalibrationErrorP99Ns stats.Float `json:"calibration_error_p99_ns"`
	CalibrationErrorMaxNs stats.Float `json:"calibration_error_max_ns"`

	CalibrationOutside     uint64 `json:"calibration_outside"`     // looks whose error was above their bound
	CalibrationRefused     uint64 `json:"calibration_refused"`     // looks at which it could not be trusted
	CalibrationGenerations uint64 `json:"calibration_generations"` // how often it began, at the host with most
}

// NewClocks returns a Clocks whose measured values are all Unmeasured.
func NewClocks() Clocks {
	u := stats.Unmeasured
	return Clocks{
		CalibrationBoundP50Ns: u, CalibrationBoundP99Ns: u, CalibrationBoundMaxNs: u,
		CalibrationErrorP50Ns: u, CalibrationErrorP99Ns: u, CalibrationErrorMaxNs: u,
	}
}
