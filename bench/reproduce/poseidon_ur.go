package reproduce

import (
	"fmt"
	"math"
)

// named is a system and what its figures are called by.
type named struct{ key, system string }

var urSystems = []named{{"poseidon", "Poseidon"}, {"swift", "Swift"}, {"plb", "Swift with PLB"}, {"hpcc", "HPCC"}}

// opLatency adds the op latency of uniform random traffic: the median, and what one of a
// thousand exceeds.
func opLatency(s *seed, f *figureSet, run string, systems []named) {
	for _, x := range systems {
		sys := s.system(run, x.system)
		f.add(x.key+"_p50_us", float64(sys.label("ur").FCTP50Us))
		f.add(x.key+"_p99_us", float64(sys.label("ur").FCTP99Us))
		f.add(x.key+"_p999_us", sys.cdf("fct", "ur").at(0.999))
		f.add(x.key+"_rtt_p50_us", float64(sys.label("ur").RTTP50Us))
	}
}

// opCharts draws the distributions of op latency.
func opCharts(run string, systems []named) func(*seed, *figureSet) []chart {
	return func(s *seed, _ *figureSet) []chart {
		c := chart{Title: "Op latency", X: "latency [us]", Y: "share of ops"}
		for _, x := range systems {
			c.Lines = append(c.Lines, s.system(run, x.system).cdf("fct", "ur").line(x.system))
		}
		return []chart{c}
	}
}

const (
	opNote = "an op is an RDMA Write of 128 KB over a connection that each pair of hosts keeps, with the window that it had; it counts from its arrival at random (Poisson) until its completion is polled. The paper does not say how many flows carry the ops, how they begin, or how they arrive. Switches choose one of eight uplinks by a hash of the connection"
	// racks is what section 5.4 lets one conclude.
	racks = "The racks are those in use alone, of 24 hosts as in section 5.5: 3:1 of eight uplinks, of which 960 Gbps are the paper's 60 percent"
)

// firstWindows are poseidon-ur's first windows, in packets; 0 is a bandwidth-delay
// product, into which a whole op fits.
var firstWindows = []int{1, 2, 4, 10, 0}

func poseidonUR() *Row {
	systems := []named{{"poseidon", "Poseidon"}, {"swift", "Swift"}}
	const ten = "10" // packets, as TCP has it since RFC 6928
	r := &Row{
		ID: "poseidon-ur", Seeds: 5, seconds: 150, varies: []string{"initial_cwnd"},
		quick:  &quick{Sets: []string{"duration=4ms", "warmup=1ms"}, Seconds: 8},
		charts: opCharts(ten, systems),
		read: func(s *seed, f *figureSet) {
			for _, first := range firstWindows {
				for _, x := range systems {
					sys := s.system(fmt.Sprint(first), x.system)
					name := fmt.Sprintf("first%d_%s", first, x.key)
					f.add(name+"_p50_us", float64(sys.label("ur").FCTP50Us))
					f.add(name+"_p999_us", sys.cdf("fct", "ur").at(0.999))
				}
			}
		},
		scaling: "20 ms are measured after 2, and both racks send 960 Gbps, where the paper's second sends 480. " + racks + ".",
		note: "each op is a flow of its own: the paper's section 5.4 and its figure 19 call its latency the flow's completion. They do not give a flow's first window. Five are tried; " + ten + " packets, as RFC 6928 has it, count. " +
			"With a bandwidth-delay product (0) an op is sent before an acknowledgement is back, and the two are alike. Flows arrive at random (Poisson), and switches choose one of eight uplinks by a hash of the flow",
	}
	for _, first := range firstWindows {
		run := fmt.Sprint(first)
		r.runs = append(r.runs, rowRun{name: run, sets: []string{"params.first=" + run}})
		name := func(key, what string) string { return fmt.Sprintf("first%d_%s_%s_us", first, key, what) }
		median := below(fmt.Sprintf("first window %d: median op latency, Poseidon over Swift", first), name("poseidon", "p50"), name("swift", "p50"), 0.39)
		tail := above(fmt.Sprintf("first window %d: 99.9th percentile, Swift over Poseidon", first), name("swift", "p999"), name("poseidon", "p999"), 14.5)
		if run != ten {
			median, tail = reported(median), reported(tail)
		}
		r.checks = append(r.checks, median, tail)
	}
	return r
}

func poseidonURRI() *Row {
	return &Row{
		ID: "poseidon-ur-ri", runs: []rowRun{{}}, Seeds: 5, seconds: 330,
		quick:  &quick{Sets: []string{"duration=8ms", "warmup=4ms"}, Seconds: 12, Unlike: "the incast has not come around yet: connections still have their first windows"},
		read:   func(s *seed, f *figureSet) { opLatency(s, f, "", urSystems) },
		charts: opCharts("", urSystems),
		checks: []check{
			below("median op latency of UR: Poseidon over Swift with PLB", "poseidon_p50_us", "plb_p50_us", 0.44),
			above("99.9th percentile: Swift with PLB over Poseidon", "plb_p999_us", "poseidon_p999_us", 41),
			below("median: Poseidon over HPCC", "poseidon_p50_us", "hpcc_p50_us", 0.49),
			above("99.9th percentile: HPCC over Poseidon", "hpcc_p999_us", "poseidon_p999_us", 6.25),
		},
		scaling: "21 ms are measured after 42. The incast goes around four hosts of the rack, so that connections have met it five times before: with all 24 that would take 250 ms. " + racks + ", and five more from which 100 hosts send.",
		note:    opNote + ". The incast's senders write at one time, 128 KB each, every 2.1 ms; the paper does not say whether they do",
	}
}

func poseidonRatioVsDistance() *Row {
	systems := []named{{"distance", "Poseidon"}, {"ratio", "ratio"}}
	return &Row{
		ID: "poseidon-ratio-vs-distance", runs: []rowRun{{}}, Seeds: 2, seconds: 65, varies: []string{"update"},
		quick:  &quick{Sets: []string{"duration=8ms", "warmup=4ms"}, Seconds: 6, Unlike: "the incast has not come around yet: connections still have their first windows"},
		read:   func(s *seed, f *figureSet) { opLatency(s, f, "", systems) },
		charts: opCharts("", systems),
		checks: []check{
			holds("by distance the 99.9th percentile of op latency is lower", func(f *figureSet) bool { return f.get("distance_p999_us") < f.get("ratio_p999_us") }),
		},
		scaling: "That of poseidon-ur-ri.",
		note:    opNote,
	}
}

func poseidonBrownfield() *Row {
	systems := []named{{"full", "Poseidon"}, {"int4", "INT at 4 ToRs"}, {"int2", "INT at 2 ToRs"}, {"swift", "Swift"}}
	half := func(key, what string) func(*figureSet) bool {
		return func(f *figureSet) bool {
			full := f.get("swift_"+what) - f.get("full_"+what)
			return full > 0 && f.get("swift_"+what)-f.get(key+"_"+what) >= full/2
		}
	}
	without := hops{9, 2}
	with := hops{2, 9}
	return &Row{
		ID: "poseidon-brownfield", Seeds: 5, seconds: 250, varies: []string{"brownfield", "initial_cwnd"},
		runs: []rowRun{
			{},
			{name: "with", scenario: "poseidon-brownfield-fairness", sets: with.sets()},
			{name: "without", scenario: "poseidon-brownfield-fairness", sets: without.sets()},
		},
		quick: &quick{Sets: []string{"duration=4ms", "warmup=2ms"}, Seconds: 10},
		read: func(s *seed, f *figureSet) {
			opLatency(s, f, "", systems)
			f.add("victim_with_int_of_fair", float64(s.system("with", "Poseidon").label("victim").WireGbps)/with.fair())
			f.add("victim_without_int_of_fair", float64(s.system("without", "Poseidon").label("victim").WireGbps)/without.fair())
		},
		charts: opCharts("", systems),
		checks: []check{
			below("median op latency: INT at 4 ToRs over Swift", "int4_p50_us", "swift_p50_us", none64),
			below("median op latency: INT at 2 ToRs over Swift", "int2_p50_us", "swift_p50_us", none64),
			below("99.9th percentile: INT at 4 ToRs over Swift", "int4_p999_us", "swift_p999_us", none64),
			below("99.9th percentile: INT at 2 ToRs over Swift", "int2_p999_us", "swift_p999_us", none64),
			holds("INT at 4 ToRs gives half of the full gain or more, at the median", half("int4", "p50_us")),
			holds("INT at 2 ToRs does", half("int2", "p50_us")),
			holds("where the bottleneck has telemetry, the victim has its share give or take 15 percent", func(f *figureSet) bool { return math.Abs(f.get("victim_with_int_of_fair")-1) <= 0.15 }),
			holds("where it has none, the victim has its share or more, but not twice as much", func(f *figureSet) bool {
				return f.get("victim_without_int_of_fair") >= 0.98 && f.get("victim_without_int_of_fair") < 2
			}),
		},
		scaling: "20 ms are measured after 2, as in poseidon-ur, and both racks of a pair send 960 Gbps. " + racks + ".",
		note:    "flows begin with ten packets, as in poseidon-ur. The two ToRs are one of each pair of racks; the paper does not say which its are, nor who sends to whom among the four racks: here each rack has one that it exchanges with",
	}
}

func poseidonParams() *Row {
	type setting struct {
		key   string
		value float64
	}
	name := func(x setting, what string) string { return fmt.Sprintf("%s%g_%s", x.key, x.value, what) }
	set := func(x setting) string {
		if x.key == "m" {
			return fmt.Sprintf("params.m=%g", x.value)
		}
		return fmt.Sprintf("params.%s=%gus", x.key, x.value)
	}
	var (
		ps   = []setting{{"p", 10}, {"p", 20}, {"p", 40}, {"p", 80}}
		ks   = []setting{{"k", 0.25}, {"k", 0.5}, {"k", 1}, {"k", 2}, {"k", 4}}
		ms   = []setting{{"m", 0.0625}, {"m", 0.125}, {"m", 0.25}, {"m", 0.5}, {"m", 1}}
		many = manyFlows[3]
	)
	const link = "tor0->h40"
	deviationOf := func(x *system) float64 { return math.Sqrt(1/float64(x.JainWindow) - 1) }
	r := &Row{
		ID: "poseidon-params", seconds: 8, varies: []string{"p", "k", "m", "max_gain"},
		quick: &quick{Sets: []string{"duration=12ms"}, Seconds: 6},
		read: func(s *seed, f *figureSet) {
			for _, x := range ps {
				sys := s.system(name(x, "many"), "Poseidon")
				f.add(name(x, "deviation"), deviationOf(sys))
				f.add(name(x, "rtt_us"), float64(sys.RTTAvgUs))
			}
			for _, x := range ks {
				f.add(name(x, "busy_few"), float64(s.system(name(x, "few"), "Poseidon").link(link).Busy))
				f.add(name(x, "rtt_us"), float64(s.system(name(x, "many"), "Poseidon").RTTAvgUs))
			}
			for _, x := range ms {
				f.add(name(x, "deviation"), deviationOf(s.system(name(x, "many"), "Poseidon")))
				f.add(name(x, "converges_us"), rampsUp(s.system(name(x, "ramp"), "Poseidon")))
			}
		},
		charts: func(_ *seed, f *figureSet) []chart {
			line := func(all []setting, what string) chartLine {
				var xs []float64
				for _, x := range all {
					xs = append(xs, x.value)
				}
				return over(what, f, xs, func(i int) string { return name(all[i], what) })
			}
			return []chart{
				{Title: "p, 200 flows", X: "p [us]", Y: "deviation", Lines: []chartLine{line(ps, "deviation")}},
				{Title: "p, 200 flows", X: "p [us]", Y: axisUs, Lines: []chartLine{line(ps, "rtt_us")}},
				{Title: "k, a long flow and ops", X: "k [us]", Y: "busy share of the link", Lines: []chartLine{line(ks, "busy_few")}},
				{Title: "k, 200 flows", X: "k [us]", Y: axisUs, Lines: []chartLine{line(ks, "rtt_us")}},
				{Title: "m, 200 flows", X: "m", Y: "deviation", Lines: []chartLine{line(ms, "deviation")}},
				{Title: "m, the ramp of figure 17a", X: "m", Y: "time [us]", Lines: []chartLine{line(ms, "converges_us")}},
			}
		},
		note: "200 flows and the span of 50us are those of poseidon-stability, the ramp is that of poseidon-rampup; the paper gives none of the values that it tries. The text says that a larger m damps and slows; by equations 4 and 5, which are implemented, m multiplies each step and m = 1 takes one round trip. Both readings are shown, and that of the equations counts. What the few flows of figure 21c are, and why their queueing delay fluctuates, it does not say, but that their rate is close to the largest: here one long flow, and ops of 128 KB at random from other hosts, a tenth of the link. Without those, and with two flows without end, the delay does not move and the link is full with each k",
	}
	rises := func(all []setting, what string) func(*figureSet) bool {
		first, last := all[0], all[len(all)-1]
		return func(f *figureSet) bool { return f.get(name(last, what)) > f.get(name(first, what)) }
	}
	falls := func(all []setting, what string) func(*figureSet) bool {
		first, last := all[0], all[len(all)-1]
		return func(f *figureSet) bool { return f.get(name(last, what)) < f.get(name(first, what)) }
	}
	r.checks = []check{
		holds("the largest p has less variation of rates than the smallest", falls(ps, "deviation")),
		holds("and longer round trips", rises(ps, "rtt_us")),
		holds("the smallest k leaves more of the link idle with a long flow and ops than the largest", rises(ks, "busy_few")),
		holds("the largest k has longer round trips", rises(ks, "rtt_us")),
		holds("by equation 5 the largest m converges faster than the smallest", falls(ms, "converges_us")),
		holds("and has more variation of rates", rises(ms, "deviation")),
		reported(holds("by the text the largest m has less variation of rates than the smallest", falls(ms, "deviation"))),
		reported(holds("and converges more slowly", rises(ms, "converges_us"))),
	}
	stability := func(x setting, what string, c crowd) {
		r.runs = append(r.runs, rowRun{name: name(x, what), sets: append(c.run().sets, set(x))})
	}
	for _, x := range ps {
		stability(x, "many", many)
	}
	for _, x := range ks {
		stability(x, "many", many)
		r.runs = append(r.runs, rowRun{name: name(x, "few"), scenario: "poseidon-params-few", sets: []string{set(x)}})
	}
	for _, x := range ms {
		stability(x, "many", many)
		r.runs = append(r.runs, rowRun{name: name(x, "ramp"), scenario: "poseidon-params-rampup", sets: []string{fmt.Sprintf("params.step=%g", x.value)}})
	}
	return r
}
