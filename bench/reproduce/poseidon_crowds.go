package reproduce

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rdma/sluice/bench/results"
)

// crowd is n flows on one link: hosts with a number of connections each, and more hosts
// with one.
type crowd struct{ n, hosts, connections, more int }

func (c crowd) run() rowRun {
	return rowRun{name: fmt.Sprint(c.n), sets: []string{
		fmt.Sprintf("params.hosts=%d", c.hosts), fmt.Sprintf("params.connections=%d", c.connections), fmt.Sprintf("params.more=%d", c.more),
	}}
}

var (
	fewFlows  = []crowd{{2, 2, 1, 0}, {4, 4, 1, 0}, {8, 8, 1, 0}}
	manyFlows = []crowd{{25, 25, 1, 0}, {50, 25, 2, 0}, {100, 25, 4, 0}, {200, 40, 5, 0}}
)

var crowdSystems = []string{"Poseidon", "Swift", "HPCC"}

func crowdRuns(all []crowd, systems ...string) []rowRun {
	var runs []rowRun
	for _, c := range all {
		run := c.run()
		run.only = systems
		runs = append(runs, run)
	}
	return runs
}

func poseidonStability() *Row {
	return &Row{
		ID: "poseidon-stability", runs: crowdRuns(manyFlows, "Poseidon", "Swift"), Seeds: 5, seconds: 60,
		quick: &quick{Sets: []string{"duration=12ms", "warmup=8ms"}, Seconds: 10},
		read: func(s *seed, f *figureSet) {
			var sums [2]float64
			for i, name := range []string{"Poseidon", "Swift"} {
				for _, c := range manyFlows {
					// The deviation of n rates over their mean, from Jain's index.
					v := math.Sqrt(1/float64(s.system(fmt.Sprint(c.n), name).JainWindow) - 1)
					f.add(fmt.Sprintf("%s_deviation_%d", lower(name), c.n), v)
					sums[i] += v / float64(len(manyFlows))
				}
				f.add(lower(name)+"_deviation_mean", sums[i])
			}
		},
		checks: []check{
			above("deviation of the rates at N = 200: Swift over Poseidon", "swift_deviation_200", "poseidon_deviation_200", 24),
			below("mean over four N: Poseidon over Swift", "poseidon_deviation_mean", "swift_deviation_mean", 0.30),
		},
		charts: func(_ *seed, f *figureSet) []chart {
			c := chart{Title: "Deviation of rates over 50us, relative to their mean", X: "flows", Y: "share"}
			xs := []float64{25, 50, 100, 200}
			for _, name := range []string{"Poseidon", "Swift"} {
				c.Lines = append(c.Lines, over(name, f, xs, func(i int) string { return fmt.Sprintf("%s_deviation_%.0f", lower(name), xs[i]) }))
			}
			return []chart{c}
		},
		note: "the paper does not give the other three N: here N is 25, 50, 100 and 200. Rates are over 50us, as its figure 16 has them, in which a flow of 200 sends one packet or two: much of both systems' deviation is that",
	}
}

func poseidonRTT() *Row {
	mean := func(s *seed, name string, all []crowd) float64 {
		sum := 0.0
		for _, c := range all {
			sum += float64(s.system(fmt.Sprint(c.n), name).RTTAvgUs)
		}
		return sum / float64(len(all))
	}
	many := manyFlows[1:]
	return &Row{
		ID: "poseidon-rtt", runs: crowdRuns(slices.Concat(fewFlows, many)), Seeds: 5, seconds: 100,
		quick: &quick{Sets: []string{"duration=12ms", "warmup=8ms"}, Seconds: 15},
		read: func(s *seed, f *figureSet) {
			for _, name := range crowdSystems {
				for _, c := range slices.Concat(fewFlows, many) {
					x := s.system(fmt.Sprint(c.n), name)
					f.add(fmt.Sprintf("%s_rtt_%d_us", lower(name), c.n), float64(x.RTTAvgUs))
					f.add(fmt.Sprintf("%s_busy_%d", lower(name), c.n), float64(x.link("tor0->h40").Busy))
				}
				f.add(lower(name)+"_few_rtt_us", mean(s, name, fewFlows))
				f.add(lower(name)+"_many_rtt_us", mean(s, name, many))
			}
		},
		checks: []check{
			below("large windows, 2 to 8 flows: Poseidon over Swift", "poseidon_few_rtt_us", "swift_few_rtt_us", none64),
			below("small windows, 50 to 200 flows: Poseidon over Swift", "poseidon_many_rtt_us", "swift_many_rtt_us", none64),
			below("large windows: HPCC over Poseidon", "hpcc_few_rtt_us", "poseidon_few_rtt_us", none64),
			below("small windows: HPCC over Poseidon", "hpcc_many_rtt_us", "poseidon_many_rtt_us", none64),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			var charts []chart
			for _, c := range []crowd{fewFlows[2], many[2]} {
				chart := chart{Title: fmt.Sprintf("Round trips of %d flows", c.n), X: axisMs, Y: axisUs}
				for _, name := range crowdSystems {
					chart.Lines = append(chart.Lines, s.system(fmt.Sprint(c.n), name).Series(results.SeriesRTT, "all").scale(1e-3, 1).line(name))
				}
				charts = append(charts, chart)
			}
			return charts
		},
		note: "the paper adds flows while it runs, every 25 ms; here each number of flows has a run of its own",
	}
}
