package sweep

import "strings"

// unitOf is the unit of a figure, which its name ends with; empty for pure numbers and
// counts.
func unitOf(figure string) string {
	for _, e := range [...]struct{ ending, unit string }{
		{"_gbytes_per_s", "GB/s"}, {"_gbps", "Gbit/s"}, {"_us", "us"}, {"_ns", "ns"}, {"_bytes", "B"}, {"bytes", "B"}, {"_s", "s"}, {"_ppm", "ppm"},
	} {
		if strings.HasSuffix(figure, e.ending) {
			return e.unit
		}
	}
	return ""
}
