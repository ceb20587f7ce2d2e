package bench

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/scenario"
)

// A flow alone takes as long with reduced NICs as with the staged ones that their
// latencies are from, and so do its round trips.
func TestReducedAsStaged(t *testing.T) {
	for _, preset := range []string{"timely10g", "cx5", "cx6dx", "cx7"} {
		for _, size := range []int{1, 700, 1024, 5000, 60_000} {
			text := fmt.Sprintf(`
topology: {kind: star, hosts: 2, host_rate: 25Gbps}
duration: 1ms
nic: {preset: %s, mtu: 1024, mode: offload}
systems: [{name: alone, engine: timely}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: %dB}]}]
`, preset, size)
			staged, reduced := run(t, parse(t, text)).Systems[0], run(t, parse(t, text, "nic.model="+scenario.ModelReduced)).Systems[0]
			const within = 0.01 // stages begin with a cycle
			for _, x := range []struct {
				what            string
				staged, reduced stats.Float
			}{{"completion time", staged.FCTAvgUs, reduced.FCTAvgUs}, {"round trip", staged.RTTP50Us, reduced.RTTP50Us}} {
				if off := float64(x.reduced/x.staged) - 1; !(math.Abs(off) <= within) {
					t.Errorf("%s, %d bytes, %s: %v us staged and %v us reduced, %+.2f %%", preset, size, x.what, x.staged, x.reduced, 100*off)
				}
			}
		}
	}
}
