package workload_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// network16 is two racks of eight 10 Gbps hosts, each with 2 x 20 Gbps upwards.
const network16 = `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 8, host_rate: 10Gbps, trunk_rate: 20Gbps}
systems: [{engine: none}]
`

func parse(t testing.TB, text string, sets ...string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text), sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// take returns at most n flows.
func take(s *scenario.Scenario, seed uint64, n int) []workload.Flow {
	var flows []workload.Flow
	for f := s.Flows(seed); len(flows) < n; {
		flow, ok := f.Next()
		if !ok {
			break
		}
		flows = append(flows, flow)
	}
	return flows
}

func TestIncast(t *testing.T) {
	s := parse(t, network16+`
workloads:
  - {kind: incast, receiver: h3, senders: 5, connections: 2, size: 64KiB, message: 16KiB, start: 5us, operation: read}
`)
	flows := take(s, 1, 1000)
	if len(flows) != 10 {
		t.Fatalf("%d flows, want 10", len(flows))
	}
	var from []int
	for i, f := range flows {
		from = append(from, f.Src)
		want := workload.Flow{ID: int64(i), Src: f.Src, Dst: 3, Size: 64 * units.KiB, Message: 16 * units.KiB, Start: 5 * units.Microsecond, Stop: units.Never, Operation: workload.Read}
		if f != want {
			t.Errorf("flow %d is %+v, want %+v", i, f, want)
		}
	}
	if want := []int{0, 0, 1, 1, 2, 2, 4, 4, 5, 5}; !slices.Equal(from, want) {
		t.Errorf("senders are %v, want %v", from, want)
	}
}

func TestMessages(t *testing.T) {
	cases := []struct {
		keys          string
		size, message units.Bytes
		stop          units.Time
	}{
		{"size: 1MB", units.MB, units.MB, units.Never},
		{"size: 1MB, message: 64KiB", units.MB, 64 * units.KiB, units.Never},
		{"size: 1KB, message: 64KiB", units.KB, units.KB, units.Never},
		{"size: 5GiB", 5 * units.GiB, 2 * units.GiB, units.Never},
		{"size: unlimited", 0, units.MiB, units.Never},
		{"size: unlimited, message: 4KiB, stop: 3ms", 0, 4 * units.KiB, 3 * units.Millisecond},
		{"size: 1MB, stop: 3ms", units.MB, units.MB, units.Never},
	}
	for _, c := range cases {
		s := parse(t, network16+"workloads: [{kind: incast, receiver: h0, senders: 1, "+c.keys+"}]")
		f := take(s, 1, 1)[0]
		if f.Size != c.size || f.Message != c.message || f.Stop != c.stop {
			t.Errorf("%s: size %v, message %v, stop %v", c.keys, f.Size, f.Message, f.Stop)
		}
	}
}

func TestHostSets(t *testing.T) {
	cases := map[string][]int{
		"all":          {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		"3":            {1, 2, 3},
		"[h9, h2..h4]": {9, 2, 3, 4},
		"[h15]":        {15},
	}
	for text, want := range cases {
		s := parse(t, network16+"workloads: [{kind: incast, receiver: h0, size: 1KB, senders: "+text+"}]")
		var got []int
		for _, f := range take(s, 1, 100) {
			got = append(got, f.Src)
		}
		if !slices.Equal(got, want) {
			t.Errorf("senders: %s takes %v, want %v", text, got, want)
		}
	}
}

func TestFlowRows(t *testing.T) {
	s := parse(t, network16+`
workloads:
  - kind: flows
    name: some
    start: 1ms
    flows:
      - {src: h0, dst: h15, size: unlimited, label: victim, stop: 2ms}
      - {src: h1, src_step: 1, dst: h10, dst_step: -1, size: 1KB, count: 3, start: 10us, start_step: 5us, connections: 2}
      - {src: h1, dst: h2, size: 1KB, count: 0, label: none}
`)
	type row struct {
		label, src, dst int
		start, stop     units.Time
	}
	var got []row
	for _, f := range take(s, 1, 100) {
		got = append(got, row{f.Label, f.Src, f.Dst, f.Start, f.Stop})
	}
	const us, ms = units.Microsecond, units.Millisecond
	want := []row{
		{0, 0, 15, ms, 3 * ms},
		{1, 1, 10, ms + 10*us, units.Never}, {1, 1, 10, ms + 10*us, units.Never},
		{1, 2, 9, ms + 15*us, units.Never}, {1, 2, 9, ms + 15*us, units.Never},
		{1, 3, 8, ms + 20*us, units.Never}, {1, 3, 8, ms + 20*us, units.Never},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if want := []string{"victim", "some"}; !slices.Equal(s.Labels(), want) {
		t.Errorf("labels %v, want %v", s.Labels(), want)
	}
}

func TestPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 16).Draw(t, "hosts")
		connections := rapid.IntRange(1, 3).Draw(t, "connections")
		seed := rapid.Uint64().Draw(t, "seed")
		s, err := scenario.Parse("test.yaml", []byte(network16+fmt.Sprintf("workloads: [{kind: permutation, hosts: %d, connections: %d, size: 1MB}]", n, connections)))
		if err != nil {
			t.Fatal(err)
		}
		sent, received := map[int]int{}, map[int]int{}
		to := map[int]int{}
		for _, f := range take(s, seed, 1000) {
			if f.Src == f.Dst {
				t.Fatalf("host %d sends to itself", f.Src)
			}
			if d, ok := to[f.Src]; ok && d != f.Dst {
				t.Fatalf("host %d sends to %d and %d", f.Src, d, f.Dst)
			}
			to[f.Src] = f.Dst
			sent[f.Src]++
			received[f.Dst]++
		}
		for h := range n {
			if sent[h] != connections || received[h] != connections {
				t.Fatalf("host %d sends %d and receives %d flows, want %d", h, sent[h], received[h], connections)
			}
		}
	})
}

// Flows come in order, numbered, the same for the same seed, and one workload's do
// not depend on another's.
func TestFlowsAreOrderedAndRepeatable(t *testing.T) {
	const poisson = "{kind: poisson, name: a, sizes: websearch, load: 0.5}"
	alone := parse(t, network16+"workloads: ["+poisson+"]")
	both := parse(t, network16+"workloads: ["+poisson+", {kind: poisson, name: b, sizes: 10KB, load: 0.1}, {kind: incast, receiver: h0, size: 1KB, jitter: 100us}]")
	flows := take(both, 7, 3000)
	var ofA []workload.Flow
	workloads := map[int]int{}
	for i, f := range flows {
		if f.ID != int64(i) {
			t.Fatalf("flow %d has ID %d", i, f.ID)
		}
		if i > 0 && f.Start < flows[i-1].Start {
			t.Fatalf("flow %d starts at %v, the one before at %v", i, f.Start, flows[i-1].Start)
		}
		workloads[f.Workload]++
		if f.Workload == 0 {
			f.ID = int64(len(ofA))
			ofA = append(ofA, f)
		}
	}
	if len(workloads) != 3 {
		t.Errorf("flows by workload: %v", workloads)
	}
	if !slices.Equal(ofA, take(alone, 7, len(ofA))) {
		t.Error("a second workload changes the flows of the first")
	}
	if !slices.Equal(flows, take(both, 7, 3000)) {
		t.Error("the same seed gives other flows")
	}
	if slices.Equal(flows, take(both, 8, 3000)) {
		t.Error("another seed gives the same flows")
	}
}

// racks returns the switch that each host hangs on.
func racks(g *fabric.Topology) []string {
	var names []string
	for h := range g.Hosts() {
		names = append(names, g.To(g.HostLink(h)))
	}
	return names
}

// offered returns the load that flows put on the links from hosts, and on the
// links from leaves upwards, as shares of their capacity.
func offered(s *scenario.Scenario, flows []workload.Flow) (hosts, uplinks float64) {
	g := s.Graph()
	rack := racks(g)
	var bits, leaving float64
	for _, f := range flows {
		bits += float64(f.Size) * 8
		if rack[f.Src] != rack[f.Dst] {
			leaving += float64(f.Size) * 8
		}
	}
	seconds := flows[len(flows)-1].Start.Seconds()
	var hostCapacity, upCapacity float64
	for l := range fabric.LinkID(g.Links()) {
		switch _, err := g.Host(g.From(l)); {
		case err == nil:
			hostCapacity += float64(g.Link(l).Rate)
		case strings.HasPrefix(g.To(l), "spine"):
			upCapacity += float64(g.Link(l).Rate)
		}
	}
	return bits / seconds / hostCapacity, leaving / seconds / upCapacity
}

func TestPoissonLoad(t *testing.T) {
	cases := []struct {
		keys      string
		onUplinks bool
	}{
		{"load: 0.6", false},
		{"load: 0.6, to: other-rack", false},
		{"load: 0.6, load_on: uplinks", true},
		{"load: 0.6, load_on: uplinks, to: other-rack", true},
		{"load: 0.6, fan_in: 5", false},
		{"load: 0.6, fan_in: 8, load_on: uplinks, to: other-rack", true},
	}
	for _, c := range cases {
		s := parse(t, network16+"workloads: [{kind: poisson, sizes: 20KB, "+c.keys+"}]")
		flows := take(s, 3, 50_000)
		got, uplinks := offered(s, flows)
		if c.onUplinks {
			got = uplinks
		}
		// 50,000 exponential gaps: a standard deviation below half a percent,
		// and the choice of the rack adds no more than that.
		if math.Abs(got-0.6) > 0.02 {
			t.Errorf("%s offers %.3f", c.keys, got)
		}
		for _, f := range flows {
			if f.Src == f.Dst {
				t.Fatalf("%s: host %d sends to itself", c.keys, f.Src)
			}
		}
	}
}

// A gap between flows that is beyond what times hold is said, and is not the shortest of all.
func TestPoissonGaps(t *testing.T) {
	for load, want := range map[string]string{
		"0.01":   "",
		"0.008":  "would start more than 100000s apart",
		"1e-9":   "flows of 1099511627776 bytes would start more than 100000s apart",
		"1e-12":  "would start more than 100000s apart",
		"5e-324": "choose smaller sizes or a higher load",
	} {
		_, err := scenario.Parse("test.yaml", []byte(network16+"workloads: [{kind: poisson, sizes: 1TiB, load: "+load+"}]"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("load %s: error %v, want %q", load, err, want)
		}
	}
}

func TestPoissonBounds(t *testing.T) {
	s := parse(t, network16+"workloads: [{kind: poisson, sizes: hadoop, load: 0.3, flows: 17, hosts: [h2..h5]}]")
	flows := take(s, 1, 100)
	if len(flows) != 17 {
		t.Errorf("%d flows, want 17", len(flows))
	}
	for _, f := range flows {
		if f.Src < 2 || f.Src > 5 || f.Dst < 2 || f.Dst > 5 {
			t.Errorf("a flow from %d to %d", f.Src, f.Dst)
		}
	}
	s = parse(t, network16+"workloads: [{kind: poisson, sizes: hadoop, load: 0.3, start: 1ms, stop: 2ms}]")
	flows = take(s, 1, 1_000_000)
	if first, last := flows[0].Start, flows[len(flows)-1].Start; first < units.Millisecond || last >= 2*units.Millisecond {
		t.Errorf("flows start from %v to %v", first, last)
	}
}

func TestIncastRounds(t *testing.T) {
	s := parse(t, network16+"workloads: [{kind: incast, receiver: h3, senders: 4, connections: 2, size: 1KB, start: 5us, rounds: 3, period: 20us}]")
	flows := take(s, 1, 1000)
	if len(flows) != 24 {
		t.Fatalf("%d flows, want 24", len(flows))
	}
	for i, f := range flows {
		if want := 5*units.Microsecond + units.Time(i/8)*20*units.Microsecond; f.Start != want || f.Dst != 3 {
			t.Errorf("flow %d to %d starts at %v, want %v", i, f.Dst, f.Start, want)
		}
	}
	for keys, want := range map[string]string{
		"size: 1KB, rounds: 0":                    "rounds: is 0: choose 1 or more rounds",
		"size: 1KB, rounds: 2000000, period: 1us": "rounds: is 2000000: choose 1 to ",
		"size: 1KB, rounds: 2":                    "period: is 0s: choose a span above 0",
		"size: 1KB, period: 1ms":                  "period: there is one round",
		"size: unlimited, rounds: 2, period: 1ms": "rounds: flows without end go on",
		"size: 1KB, rounds: 2, period: 2000s":     "period: is 2000s: choose",
	} {
		_, err := scenario.Parse("x.yaml", []byte(network16+"workloads: [{kind: incast, receiver: h3, "+keys+"}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}

// Incasts are of distinct senders that start at once, to each host as often.
func TestPoissonIncasts(t *testing.T) {
	for keys, rack := range map[string]bool{"": false, ", to: other-rack": true} {
		s := parse(t, network16+"workloads: [{kind: poisson, sizes: 8KB..32KB, load: 0.3, fan_in: 7"+keys+"}]")
		flows := take(s, 1, 7*16_000)
		racks := racks(s.Graph())
		to, last := map[int]int{}, units.Time(-1)
		for i := 0; i < len(flows); i += 7 {
			senders := map[int]bool{}
			for _, f := range flows[i : i+7] {
				senders[f.Src] = true
				if f.Dst != flows[i].Dst || f.Start != flows[i].Start || f.Src == f.Dst || f.Size < 8000 || f.Size > 32_000 {
					t.Fatalf("of the incast %+v: %+v", flows[i], f)
				}
				if rack && racks[f.Src] == racks[f.Dst] {
					t.Fatalf("%+v stays in its rack", f)
				}
			}
			if len(senders) != 7 || flows[i].Start <= last {
				t.Fatalf("an incast of %d senders at %v after %v", len(senders), flows[i].Start, last)
			}
			to[flows[i].Dst]++
			last = flows[i].Start
		}
		for h := range 16 {
			if to[h] < 850 || to[h] > 1150 { // a thousand, give or take 32
				t.Errorf("%d of 16000 incasts go to host %d", to[h], h)
			}
		}
	}
	s := parse(t, network16+"workloads: [{kind: poisson, sizes: 8KB..32KB, load: 0.3, fan_in: 15}]")
	f := s.Flows(1)
	take(s, 1, 100)
	for range 100 {
		f.Next()
	}
	if n := testing.AllocsPerRun(1000, func() { f.Next() }); n != 0 {
		t.Errorf("a flow of an incast takes %v allocations", n)
	}
}

// An unequal host starts flows in proportion to its link.
func TestPoissonFollowsTheLink(t *testing.T) {
	s := parse(t, network16+"workloads: [{kind: poisson, sizes: 20KB, load: 0.5}]", "topology.host_rates.h9=40Gbps")
	n := map[int]int{}
	for _, f := range take(s, 1, 19_000) {
		n[f.Src]++
	}
	if n[9] < 3800 || n[9] > 4200 {
		t.Errorf("h9 starts %d of 19000 flows, want some 4000", n[9])
	}
}

func TestFlowsDoNotAllocate(t *testing.T) {
	s := parse(t, network16+"workloads: [{kind: poisson, sizes: websearch, load: 0.5}]")
	f := s.Flows(1)
	if n := testing.AllocsPerRun(1000, func() { f.Next() }); n != 0 {
		t.Errorf("a flow takes %v allocations", n)
	}
}

func BenchmarkPoisson(b *testing.B) {
	s := parse(b, network16+"workloads: [{kind: poisson, sizes: websearch, load: 0.5}]")
	f := s.Flows(1)
	b.ReportAllocs()
	for b.Loop() {
		f.Next()
	}
}
