package results

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func TestSizeRange(t *testing.T) {
	for want, r := range map[string][2]units.Bytes{"up to 10KB": {0, 10 * units.KB}, "100KB to 1MB": {100 * units.KB, units.MB}, "above 1MB": {units.MB, math.MaxInt64}} {
		if got := SizeRange(r[0], r[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
