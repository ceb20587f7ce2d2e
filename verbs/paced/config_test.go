package paced_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Where nobody sets it, the bound is at least twice rate times round trip: an engine
// that lets a queue of a whole round trip grow is not held by the shim.
func TestOutstandingFollowsTheLink(t *testing.T) {
	const us = units.Microsecond
	for _, c := range []struct {
		line    units.Rate
		rtt     units.Time
		segment units.Bytes
		set     units.Bytes
		want    units.Bytes
	}{
		{line: 10 * units.Gbps, rtt: 20 * us, segment: 16 * units.KiB, want: 64 * units.KiB},    // 50 KB
		{line: 25 * units.Gbps, rtt: 12 * us, segment: 16 * units.KiB, want: 80 * units.KiB},    // 75 KB
		{line: 100 * units.Gbps, rtt: 20 * us, segment: 16 * units.KiB, want: 496 * units.KiB},  // 500 KB
		{line: 100 * units.Gbps, rtt: 2 * us, segment: 64 * units.KiB, want: 256 * units.KiB},   // four segments
		{line: 400 * units.Gbps, rtt: 12 * us, segment: 64 * units.KiB, want: 1216 * units.KiB}, // 1.2 MB: 19 segments
		{line: 0, rtt: 20 * us, segment: 4 * units.KiB, want: 64 * units.KiB},
		{line: 800 * units.Gbps, rtt: units.Second, segment: 64 * units.KiB, want: units.GiB},
		{line: 100 * units.Gbps, rtt: 20 * us, segment: 16 * units.KiB, set: 48 * units.KiB, want: 48 * units.KiB},
	} {
		cfg := paced.DefaultConfig()
		cfg.BaseRTT, cfg.Segment, cfg.MaxOutstanding = c.rtt, c.segment, c.set
		got := cfg.Outstanding(c.line)
		if got != c.want {
			t.Errorf("%v, %v, segments of %v: %v, expected %v", c.line, c.rtt, c.segment, got, c.want)
		}
		if asked := min(2*c.line.BytesIn(c.rtt), units.GiB); c.set == 0 && got < asked {
			t.Errorf("%v is less than %v", got, asked)
		}
	}
}
