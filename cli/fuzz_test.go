package cli

import (
	"testing"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/units"
)

// Whatever the flags of sluice perf that have units and names say, they give a
// configuration in its ranges or an error.
func FuzzPerfFlags(f *testing.F) {
	f.Add("write_bw", "65536", "5", "1s", "RC", "FETCH_AND_ADD", "10Gbps", "g", "16KiB", "20us")
	f.Add("send_lat", "1KiB", "10ms", "", "UD", "CMP_AND_SWAP", "2.5", "M", "", "")
	f.Add("atomic_bw", "-1", "never", "0", "uc", "", "1e300", "g", "-4KiB", "never")
	f.Add("read_bw", "9e9TiB", "1e-30s", "106d", "rc", "FETCH_AND_ADD", "NaN", "M", "0", "-1us")
	f.Add("send_lat", "1KiB", "10ps", "", "UD", "CMP_AND_SWAP", "2.5", "M", "", "")
	f.Add("read_lat", "", "", "", "RC", "FETCH_AND_ADD", "Inf", "g", "", "")
	f.Fuzz(func(t *testing.T, test, size, duration, margin, conn, atomic, rate, unit, segment, base string) {
		p, err := (&pacingFlags{rate: rate, unit: unit, segment: segment, base: base}).pacing()
		if err == nil && (p.Rate < 0 || rate != "" && p.Rate == 0) {
			t.Errorf("--rate-limit %q --rate-units %q: %v", rate, unit, p.Rate)
		}
		parsed, err := perf.ParseTest(test)
		if err != nil {
			return
		}
		cmd := newPerf(nil)
		c := perf.DefaultConfig(parsed)
		flags := perfFlags{size: size, dur: duration, margin: margin, conn: conn, atomic: atomic, tcp: 1, timeout: 1}
		if flags.settle(&c, parsed, cmd) != nil {
			return
		}
		if c.Size < 0 || units.Bytes(c.Size) > units.TiB || c.Duration < 0 || c.Margin < 0 || duration != "" && c.Duration == 0 {
			t.Errorf("-s %q -D %q -f %q: %+v", size, duration, margin, c)
		}
	})
}
