package cli

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// A rate without a unit is one of --rate-units, or is said to be none: it is never cut short.
func TestRateOfUnits(t *testing.T) {
	for _, c := range []struct {
		rate, unit string
		want       units.Rate
		says       string
	}{
		{"2.5", "g", 2500 * units.Mbps, ""},
		{"9e9", "g", 9e18, ""},
		{"1e10", "g", 0, "--rate-limit 1e10: a rate is at most " + units.Rate(math.MaxInt64).String()},
		{"1e300", "M", 0, "a rate is at most"},
		{"Inf", "g", 0, "a rate is at most"},
		{"NaN", "g", 0, "a rate is at most"},
		{"0", "g", 0, "must be positive"},
		{"-1e300", "g", 0, "must be positive"},
	} {
		p, err := (&pacingFlags{Fixed: c.rate, Unit: c.unit}).pacing()
		if c.says == "" && (err != nil || p.Rate != c.want) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("--rate-limit %s --rate-units %s: %v, %v; want %v, %q", c.rate, c.unit, p.Rate, err, c.want, c.says)
		}
	}
}
