package bench

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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
		events, r := traceOf(t, NICTraceFilter{To: units.Second}, c.name, c.sets...)
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
					at, sum := Float(0), Float(0)
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

// Ranges of latencies are in order, and no wider than a 64th.
func TestLatencyRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(0, 1<<50).Draw(t, "a")
		b := a + rapid.Int64Range(0, 1<<40).Draw(t, "more")
		i, j := latencyRange(units.Time(a)), latencyRange(units.Time(b))
		if i > j || i == j && float64(b-a) > float64(a)/64 {
			t.Fatalf("%d is in range %d, %d in %d", a, i, b, j)
		}
	})
}

// Following requests changes nothing, and the page has them as a picture and a table.
func TestOperationsAreShown(t *testing.T) {
	sets := []string{"workloads[0].connections=2", "duration=140us"}
	r := run(t, load(t, "nic-small-writes", sets...))
	without := run(t, load(t, "nic-small-writes", append(sets, "measure.nic=[h1]")...))
	if a, b := r.Systems[0], without.Systems[0]; a.Bytes != b.Bytes || a.Events != b.Events {
		t.Errorf("followed: %d bytes, %d events; not followed: %d and %d", a.Bytes, a.Events, b.Bytes, b.Events)
	}
	var table, page bytes.Buffer
	if err := Table(&table, r); err != nil {
		t.Fatal(err)
	}
	if want := "h0's NIC: the median of "; !strings.Contains(table.String(), want) {
		t.Errorf("no %q in\n%s", want, table.String())
	}
	d := NewDocument(time.Unix(0, 0), nil)
	d.Results = append(d.Results, r)
	if err := WriteHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	o := nicOf(t, r.Systems[0], "h0").operation(50)
	for _, want := range []string{"One request of h0: the median of", "percentile 99 of", `<th scope="row">doorbell store</th>`, `<td class="text">h1</td>`, "in one packet."} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page.String(), `<svg class="bar"`); n < 2*len(o.Parts)-4 {
		t.Errorf("%d bars for parts of two requests of about %d each", n, len(o.Parts))
	}
}
