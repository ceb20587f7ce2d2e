package results

import (
	"fmt"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"strconv"
	"strings"
)

// clockCalibrated is RTTClock where round trips are taken by calibration.
const clockCalibrated = "calibrated"

// comparesClocks reports whether a result is about clocks: a system takes round trips
// otherwise than by calibration, or has busy hosts.
func (r *Result) comparesClocks() bool {
	for _, s := range r.Systems {
		if s.RTTClock != "" && (s.RTTClock != clockCalibrated || s.HostLoad > 0) {
			return true
		}
	}
	return false
}

// clockColumns are a page's columns about clocks, besides those of a result.
var clockColumns = []column{
	{key: "host_load", title: "host load", digits: 2},
	{key: "rtt_p1_us", title: "RTT p1", unit: "us", digits: 1},
	{key: "rtt_spread_us", title: "RTT p1 to p99", unit: "us", digits: 1},
	{key: "rtt_polled", title: "RTTs polled"},
	{key: "calibration_bound_p99_ns", title: "calibration bound p99", unit: "ns", digits: 0},
	{key: "calibration_error_p99_ns", title: "calibration error p99", unit: "ns", digits: 0},
	{key: "calibration_error_max_ns", title: "calibration error max", unit: "ns", digits: 0},
}

// clocks writes a table of the clocks by which round trips were taken.
func (r *Result) clocks(b *strings.Builder) {
	if !r.comparesClocks() {
		return
	}
	b.WriteString("\nclocks: RTT from the 1st to the 99th percentile; bound and error of the calibration: median / 99th percentile / most\n")
	grid := [][]string{{"system", "clock", "host load", "RTT p1[us]", "RTT spread[us]", "polled", "bound[ns]", "error[ns]", "generations"}}
	for _, s := range r.Systems {
		if s.RTTClock != "" {
			grid = append(grid, append([]string{s.Name}, s.clockCells()...))
		}
	}
	writeGrid(b, grid)
}

func (s *System) clockCells() []string {
	return []string{
		s.RTTClock, strconv.FormatFloat(s.HostLoad, 'f', -1, 64), fixed(s.RTTP1Us), fixed(s.RTTSpreadUs), strconv.FormatUint(s.RTTPolled, 10),
		fixedThree(s.CalibrationBoundP50Ns, s.CalibrationBoundP99Ns, s.CalibrationBoundMaxNs),
		fixedThree(s.CalibrationErrorP50Ns, s.CalibrationErrorP99Ns, s.CalibrationErrorMaxNs),
		strconv.FormatUint(s.CalibrationGenerations, 10),
	}
}

func fixed(v stats.Float) string {
	if !v.Measured() {
		return "-"
	}
	return strconv.FormatFloat(float64(v), 'f', 1, 64)
}

func fixedThree(a, b, c stats.Float) string {
	if !a.Measured() {
		return "-"
	}
	return fmt.Sprintf("%.0f / %.0f / %.0f", float64(a), float64(b), float64(c))
}
