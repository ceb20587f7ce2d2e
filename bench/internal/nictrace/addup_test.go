package nictrace_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/nictrace"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// The parts of a request follow each other without a gap and add up to its latency; they
// pass through both hosts; and the one that is shown is of the percentile that it is said
// to be of, which the trace of all requests knows too.
func TestOperationsAddUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		sets  []string
		parts []string
	}{
		{"nic-small-writes", []string{"workloads[0].connections=2", "warmup=0", "duration=40us"}, []string{"doorbell store", "wqe", "payload fetch", "wire", "network", "receive at the peer", "answer of the peer", "network back", "cqe write"}},
		{"quickstart", []string{"measure.nic=[h0]", "warmup=0", "workloads[0].message=64KiB"}, []string{"packets before the last"}},
		{"quickstart", []string{"measure.nic=all", "warmup=0", "workloads[0].operation=read", "nic.mode=offload", "systems=[{engine: none}]"}, []string{"answer of the peer"}},
	} {
		events, r := traceOf(t, nictrace.Filter{To: units.Second}, c.name, c.sets...)
		latencies := map[string][]float64{} // by host
		hosts := map[int]string{}
		for _, e := range events {
			if e.Ph == "M" && e.Name == "process_name" {
				_, hosts[e.Pid], _ = strings.Cut(e.Args["name"].(string), ": ")
			}
			if e.Cat == "request" {
				latencies[hosts[e.Pid]] = append(latencies[hosts[e.Pid]], e.Dur)
			}
		}
		shown := 0
		seen := map[string]bool{}
		for _, sys := range r.Systems {
			for _, u := range sys.NICs {
				all := latencies[u.NIC]
				slices.Sort(all)
				for _, o := range u.Operations {
					shown++
					at, sum := stats.Float(0), stats.Float(0)
					where := map[string]bool{}
					for _, p := range o.Parts {
						if math.Abs(float64(p.FromUs-at)) > 1e-6 || p.Us <= 0 {
							t.Errorf("%s: %s begins at %v us and takes %v, behind a part that ends at %v", c.name, p.Part, p.FromUs, p.Us, at)
						}
						at += p.Us
						sum += p.Us
						where[p.Where], seen[p.Part] = true, true
					}
					if math.Abs(float64(sum-o.LatencyUs)) > 1e-6 || len(where) != 3 {
						t.Errorf("%s: the parts take %v us of %v, in %v", c.name, sum, o.LatencyUs, where)
					}
					if len(r.Systems) > 1 {
						continue // the trace has them all in one
					}
					want := all[min(int(float64(o.Percentile)/100*float64(len(all))), len(all)-1)]
					if o.Requests != uint64(len(all)) || math.Abs(float64(o.LatencyUs)-want) > 0.02*want+2*(all[len(all)-1]-all[max(len(all)-2, 0)]) {
						t.Errorf("%s: percentile %v of %d requests is %v us, in the trace %v of %d", c.name, o.Percentile, o.Requests, o.LatencyUs, want, len(all))
					}
				}
			}
		}
		for _, part := range c.parts {
			if !seen[part] {
				t.Errorf("%s: no part %q", c.name, part)
			}
		}
		if shown == 0 {
			t.Errorf("%s: no request is shown", c.name)
		}
	}
}
