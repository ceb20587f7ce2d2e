package bench

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/sluice-rdma/sluice/internal/nictrace"
	"github.com/sluice-rdma/sluice/units"
)

// NICs that are looked into, whose packets and requests are recorded, or whose queue pairs
// have memory of their own, give the same bytes undivided and on one worker to three.
func TestDividedWatched(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	text := func(nic, engine, operation, keys string) string {
		return onTwoRacks(nic, engine, 1, fmt.Sprintf(`
  {kind: poisson, name: web, sizes: websearch, load: 0.5, load_on: hosts, stop: 100us, operation: %s, message: 16KiB},
  {kind: rpc, clients: [h0, h1], servers: [h5], request: 64B, response: 1KB, rate: 200000}
`, operation), keys)
	}
	for _, c := range []struct{ nic, engine, operation, keys string }{
		{"", "host timely", "write", "verbs: {mr_per_qp: true}"},
		{", ports: 2", "offload timely", "read", "verbs: {mr_per_qp: true}"},
		{"", "offload powertcp", "send", ""},
	} {
		s := parse(t, text(c.nic, c.engine, c.operation, c.keys), "measure.nic=all")
		run := func(workers int) string {
			var packets, trace, vcd bytes.Buffer
			filter := nictrace.Filter{From: 20 * units.Microsecond, To: units.Second}
			opt := Options{Workers: workers, smallWindows: true, Packets: &packets, NICTrace: nictrace.NewTrace(&trace, filter), NICVCD: nictrace.NewVCD(&vcd, filter)}
			r, err := Run(s, opt)
			if err != nil {
				t.Fatal(err)
			}
			if err := opt.NICTrace.Close(); err != nil {
				t.Fatal(err)
			}
			if err := opt.NICVCD.Close(); err != nil {
				t.Fatal(err)
			}
			if why := r.Systems[0].Undivided; workers > 0 && why != "" {
				t.Errorf("%v is not divided: %s", c, why)
			}
			return withoutCost(t, r) + packets.String() + trace.String() + vcd.String()
		}
		want := ""
		for i, workers := range runsOf(0, 1, 2, 3) {
			if got := run(workers); i == 0 {
				want = got
			} else if got != want {
				t.Errorf("%v, %d workers: %s", c, workers, firstDifference(got, want))
			}
		}
	}
}
