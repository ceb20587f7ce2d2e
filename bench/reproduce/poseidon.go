package reproduce

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
)

// The rows of Poseidon (Wang et al., NSDI 2023).

func poseidon() []*Row {
	return []*Row{
		poseidonMultihop(),
		poseidonMultihopSwift(),
		poseidonTestbed(),
		poseidonReverse(),
		poseidonStepInOut(),
		poseidonRampup(),
		poseidonStability(),
		poseidonRTT(),
		poseidonUR(),
		poseidonURRI(),
		poseidonBrownfield(),
		poseidonAblation(),
		poseidonParams(),
		poseidonRatioVsDistance(),
		poseidonRateVsCwnd(),
	}
}

// hops are the numbers of flows at the two hops of figure 14.
type hops struct{ m, n int }

func (h hops) name() string  { return fmt.Sprintf("%d_%d", h.m, h.n) }
func (h hops) fair() float64 { return 200 / float64(max(h.m, h.n)+1) } // Gbps
func (h hops) sets() []string {
	return []string{fmt.Sprintf("params.m=%d", h.m), fmt.Sprintf("params.n=%d", h.n)}
}

var figure14 = []hops{{2, 2}, {2, 9}, {5, 9}, {9, 9}}

const wireNote = "rates are those on the wire, headers and gaps included, which is what the flows share"

func poseidonMultihop() *Row {
	r := &Row{
		ID: "poseidon-multihop", seconds: 3,
		quick: &quick{Sets: []string{"duration=6ms", "warmup=3ms"}, Seconds: 2},
		read: func(s *seed, f *figureSet) {
			for _, h := range figure14 {
				f.add("victim_"+h.name()+"_gbps", float64(s.system(h.name(), "Poseidon").label("victim").WireGbps))
			}
			for _, h := range figure14 {
				f.add("victim_"+h.name()+"_rtt_us", float64(s.system(h.name(), "Poseidon").label("victim").RTTAvgUs))
			}
		},
		charts: func(s *seed, _ *figureSet) []chart {
			c := chart{Title: "The victim's rate", X: axisMs, Y: axisGbps}
			for _, h := range figure14 {
				c.Lines = append(c.Lines, s.system(h.name(), "Poseidon").Series(results.SeriesWire, "victim").scale(1e-3, 1).line(fmt.Sprintf("M = %d, N = %d", h.m, h.n)))
			}
			return []chart{c}
		},
		note: wireNote,
	}
	for _, h := range figure14 {
		r.runs = append(r.runs, rowRun{name: h.name(), sets: h.sets()})
		r.checks = append(r.checks, value("victim_"+h.name()+"_gbps"))
	}
	return r
}

func poseidonMultihopSwift() *Row {
	one := hops{0, 2} // one congested hop
	r := &Row{
		ID: "poseidon-multihop-swift", seconds: 4,
		runs:  []rowRun{{name: one.name(), sets: one.sets()}},
		quick: &quick{Sets: []string{"duration=6ms", "warmup=3ms"}, Seconds: 2.5},
		read: func(s *seed, f *figureSet) {
			for _, name := range []string{"Swift", "HPCC"} {
				for _, h := range append([]hops{one}, figure14...) {
					f.add(fmt.Sprintf("%s_victim_%s_of_fair", lower(name), h.name()), float64(s.system(h.name(), name).label("victim").WireGbps)/h.fair())
				}
			}
		},
		checks: []check{
			holds("Swift: with two congested hops the victim gets less than a quarter of its fair share, whatever their flows", func(f *figureSet) bool {
				for _, h := range figure14 {
					if f.get("swift_victim_"+h.name()+"_of_fair") >= 0.25 {
						return false
					}
				}
				return true
			}),
			holds("Swift: with one it gets three quarters or more", func(f *figureSet) bool { return f.get("swift_victim_0_2_of_fair") >= 0.75 }),
			holds("HPCC: with as many flows at both it gets less than half", func(f *figureSet) bool {
				return f.get("hpcc_victim_2_2_of_fair") < 0.5 && f.get("hpcc_victim_9_9_of_fair") < 0.5
			}),
		},
		note: wireNote,
	}
	for _, h := range figure14 {
		r.runs = append(r.runs, rowRun{name: h.name(), sets: h.sets()})
	}
	return r
}

func poseidonTestbed() *Row {
	return &Row{
		ID: "poseidon-multihop-testbed", runs: []rowRun{{}}, seconds: 1,
		quick: &quick{Seconds: 1},
		read: func(s *seed, f *figureSet) {
			f.add("poseidon_gbps", float64(s.system("", "Poseidon").label("victim").WireGbps))
			f.add("swift_gbps", float64(s.system("", "Swift").label("victim").WireGbps))
		},
		checks: []check{value("poseidon_gbps"), value("swift_gbps")},
		charts: func(s *seed, _ *figureSet) []chart {
			c := chart{Title: "The victim's rate", X: axisMs, Y: axisGbps}
			for _, name := range []string{"Poseidon", "Swift"} {
				c.Lines = append(c.Lines, s.system("", name).Series(results.SeriesWire, "victim").scale(1e-3, 1).line(name))
			}
			return []chart{c}
		},
		note: wireNote + ". The testbed's hosts run a software stack whose delays, parameters and MTU are not given: here 1024 bytes, as in all rows whose paper gives none. With the simulations' 4096 Swift's victim has 0.53 Gbps",
	}
}

func poseidonReverse() *Row {
	flows := []int{0, 2, 5, 9}
	run := func(n int) string { return fmt.Sprintf("n%d", n) }
	r := &Row{
		ID: "poseidon-reverse", seconds: 5,
		quick: &quick{Sets: []string{"duration=6ms", "warmup=3ms"}, Seconds: 3},
		read: func(s *seed, f *figureSet) {
			least := math.Inf(1)
			for _, name := range []string{"Poseidon", "Swift", "HPCC"} {
				for _, n := range flows {
					v := float64(s.system(run(n), name).label("victim").WireGbps)
					f.add(fmt.Sprintf("%s_%s_gbps", lower(name), run(n)), v)
					if name == "Poseidon" {
						least = min(least, v)
					}
				}
			}
			f.add("poseidon_gbps", least)
		},
		checks: []check{
			{Figure: "poseidon_gbps", Text: "Poseidon: the victim's least rate, of any number of reverse flows"},
			holds("Swift: the victim falls to between half and twice the reverse flows' fair share", func(f *figureSet) bool {
				for _, n := range flows[1:] {
					share := f.get("swift_"+run(n)+"_gbps") * float64(n) / 200
					if share < 0.5 || share > 2 {
						return false
					}
				}
				return true
			}),
		},
		charts: func(_ *seed, f *figureSet) []chart {
			c := chart{Title: "The victim's rate by the number of reverse flows", X: "flows", Y: axisGbps}
			for _, name := range []string{"Poseidon", "Swift", "HPCC"} {
				c.Lines = append(c.Lines, over(name, f, floats(flows), func(i int) string { return fmt.Sprintf("%s_%s_gbps", lower(name), run(flows[i])) }))
			}
			return []chart{c}
		},
		note: wireNote + ". The acknowledgements of the reverse flows take some two percent of the victim's way",
	}
	for _, n := range flows {
		r.runs = append(r.runs, rowRun{name: run(n), sets: []string{fmt.Sprintf("params.n=%d", n)}})
	}
	return r
}

func poseidonStepInOut() *Row {
	const step, flows = 5e3, 5 // us
	// In each phase, from 2 ms after its change on: how fair the means are, and how much each rate varies.
	phases := func(x *system) (jain, variation float64) {
		jain = 1
		n, sum := 0, 0.0
		for k := range 2*flows - 1 {
			from, to := float64(k)*step+2e3, float64(k+1)*step
			var means []float64
			for i := range flows {
				if i > k || k-i >= flows {
					continue // not there
				}
				rate := x.Series(results.SeriesWire, fmt.Sprintf("flow %d", i+1)).between(from, to)
				means = append(means, rate.mean())
				n++
				sum += rate.deviation() / rate.mean()
			}
			jain = min(jain, float64(stats.Jain(means)))
		}
		return jain, sum / float64(n)
	}
	return &Row{
		ID: "poseidon-stepinout", runs: []rowRun{{}}, seconds: 2,
		quick: &quick{Seconds: 2},
		read: func(s *seed, f *figureSet) {
			for _, name := range []string{"Poseidon", "Swift"} {
				jain, variation := phases(s.system("", name))
				f.add(lower(name)+"_least_jain", jain)
				f.add(lower(name)+"_variation", variation)
			}
		},
		checks: []check{
			holds("Poseidon is fair in every phase: Jain's index of the means is 0.98 or more", func(f *figureSet) bool { return f.get("poseidon_least_jain") >= 0.98 }),
			holds("rates over 50us vary less than with Swift", func(f *figureSet) bool { return f.get("poseidon_variation") < f.get("swift_variation") }),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			var charts []chart
			for _, name := range []string{"Swift", "Poseidon"} {
				c := chart{Title: name, X: axisMs, Y: axisGbps}
				for i := range flows {
					label := fmt.Sprintf("flow %d", i+1)
					c.Lines = append(c.Lines, s.system("", name).Series(results.SeriesWire, label).scale(1e-3, 1).line(label))
				}
				charts = append(charts, c)
			}
			return charts
		},
		note: "the paper gives neither the number of flows nor the steps: here five flows in steps of 5 ms",
	}
}

// rampsUp is the time in us from when the flows of the first hop are gone until the
// second flow first has 90 percent of its half of 200 Gbps; the rest of the run if it
// does not come to that.
func rampsUp(x *system) float64 {
	gone := x.Series(results.SeriesFlows, "leaving").between(5e3, math.Inf(1)).scale(1, -1).first(0, 0)
	rate := x.Series(results.SeriesWire, "second").between(gone, math.Inf(1))
	if at := rate.first(90, 0); !math.IsNaN(at) {
		return at - gone
	}
	return rate.X[len(rate.X)-1] - gone
}

func poseidonRampup() *Row {
	systems := []string{"Poseidon", "Swift", "HPCC"}
	return &Row{
		ID: "poseidon-rampup", runs: []rowRun{{}}, Seeds: 5, seconds: 15,
		quick: &quick{Sets: []string{"duration=12ms"}, Seconds: 4},
		read: func(s *seed, f *figureSet) {
			for _, name := range systems {
				x := s.system("", name)
				f.add(lower(name)+"_before_gbps", x.Series(results.SeriesWire, "second").between(3e3, 5e3).mean())
				f.add(lower(name)+"_converges_us", rampsUp(x))
				f.add(lower(name)+"_end_gbps", x.Series(results.SeriesWire, "second").between(10e3, math.Inf(1)).mean())
			}
		},
		checks: []check{
			above("time to 90 percent of the fair share: Swift over Poseidon", "swift_converges_us", "poseidon_converges_us", 12),
			above("time to 90 percent of the fair share: HPCC over Poseidon", "hpcc_converges_us", "poseidon_converges_us", 12),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			c := chart{Title: "The second flow's rate", X: axisMs, Y: axisGbps}
			for _, name := range systems {
				c.Lines = append(c.Lines, s.system("", name).Series(results.SeriesWire, "second").between(4e3, 12e3).scale(1e-3, 1).line(name))
			}
			return []chart{c}
		},
		note: "the paper does not say from which rate the flow ramps up: here from a 37th of its first hop, which the others leave at 5 ms. A flow that has not converged at the end counts with the time that was left, 25 ms",
	}
}

func poseidonAblation() *Row {
	systems := []struct{ name, key string }{
		{"Poseidon", "poseidon"}, {"AIMD", "aimd"}, {"RTT", "rtt"}, {"fixed target", "fixed"}, {"fixed target and AIMD", "fixed_aimd"},
	}
	cases := []hops{{2, 2}, {2, 9}, {5, 9}, {9, 9}}
	victim := func(key string, h hops) string { return fmt.Sprintf("%s_victim_%s_of_fair", key, h.name()) }
	fair := func(f *figureSet, key string) bool {
		for _, h := range cases {
			if math.Abs(f.get(victim(key, h))-1) > 0.15 {
				return false
			}
		}
		return true
	}
	starved := func(f *figureSet, key string) bool {
		for _, h := range cases {
			if f.get(victim(key, h)) > 0.5 {
				return false
			}
		}
		return true
	}
	r := &Row{
		ID: "poseidon-ablation", seconds: 8, varies: []string{"signal", "target", "update"},
		quick: &quick{Seconds: 8},
		read: func(s *seed, f *figureSet) {
			for _, x := range systems {
				for _, h := range cases {
					f.add(victim(x.key, h), float64(s.system(h.name(), x.name).label("victim").WireGbps)/h.fair())
				}
			}
			f.add("poseidon_converges_us", rampsUp(s.system("ramp", "Poseidon")))
			f.add("aimd_converges_us", rampsUp(s.system("ramp", "AIMD")))
		},
		checks: []check{
			holds("the victim has its fair share give or take 15 percent with Poseidon", func(f *figureSet) bool { return fair(f, "poseidon") }),
			holds("and with AIMD in place of adaptive steps", func(f *figureSet) bool { return fair(f, "aimd") }),
			holds("which ramp up slower", func(f *figureSet) bool { return f.get("aimd_converges_us") > f.get("poseidon_converges_us") }),
			holds("it has less than half of it by the round trip", func(f *figureSet) bool { return starved(f, "rtt") }),
			holds("with a fixed target", func(f *figureSet) bool { return starved(f, "fixed") }),
			holds("and with both AIMD and a fixed target", func(f *figureSet) bool { return starved(f, "fixed_aimd") }),
		},
		note: wireNote + ". The ramp is that of figure 17a, to which the paper points",
	}
	for _, h := range cases {
		r.runs = append(r.runs, rowRun{name: h.name(), sets: h.sets()})
	}
	r.runs = append(r.runs, rowRun{name: "ramp", scenario: "poseidon-ablation-rampup", sets: []string{"duration=15ms", "warmup=0"}})
	return r
}

func poseidonRateVsCwnd() *Row {
	cases := []hops{{0, 9}, {9, 9}} // one congested hop, then a second one
	r := &Row{
		ID: "poseidon-rate-vs-cwnd", seconds: 2, varies: []string{"scaling"},
		quick: &quick{Sets: []string{"duration=6ms", "warmup=3ms"}, Seconds: 1.5},
		read: func(s *seed, f *figureSet) {
			for _, name := range []string{"Poseidon", "cwnd"} {
				for _, h := range cases {
					f.add(lower(name)+"_victim_"+h.name()+"_gbps", float64(s.system(h.name(), name).label("victim").WireGbps))
				}
			}
		},
		checks: []check{
			holds("by rate, the victim keeps its share within 15 percent as a second hop congests", func(f *figureSet) bool {
				return math.Abs(f.get("poseidon_victim_9_9_gbps")/f.get("poseidon_victim_0_9_gbps")-1) <= 0.15
			}),
			holds("by window, it loses more than that", func(f *figureSet) bool {
				return f.get("cwnd_victim_9_9_gbps") < 0.85*f.get("cwnd_victim_0_9_gbps")
			}),
		},
		note: wireNote,
	}
	for _, h := range cases {
		r.runs = append(r.runs, rowRun{name: h.name(), sets: h.sets()})
	}
	return r
}
