package cli

import (
	"testing"

	"github.com/spf13/cobra"

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
		var flags perfFlags
		var config perf.Config
		cmd := &cobra.Command{}
		addFlags(cmd, &config)
		flags.pacing.add(cmd)
		for name, value := range map[string]string{
			"size": size, "duration": duration, "margin": margin, "connection": conn, "atomic-type": atomic,
			"rate-limit": rate, "rate-units": unit, "segment": segment, "base-rtt": base,
		} {
			_ = cmd.Flags().Set(name, value) // a flag that is refused is as if it were not there
		}
		if p, err := flags.pacing.pacing(); err == nil && (p.Rate < 0 || flags.pacing.Fixed != "" && p.Rate == 0) {
			t.Errorf("--rate-limit %q --rate-units %q: %v", rate, unit, p.Rate)
		}
		parsed, err := perf.ParseTest(test)
		if err != nil {
			return
		}
		c, err := flags.settle(&config, parsed, cmd)
		if err != nil {
			return
		}
		if c.Size < 0 || units.Bytes(c.Size) > units.TiB || c.Duration < 0 || c.Margin < 0 || cmd.Flags().Changed("duration") && c.Duration == 0 {
			t.Errorf("-s %q -D %q -f %q: %+v", size, duration, margin, c)
		}
	})
}
