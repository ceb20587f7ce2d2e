package reproduce

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/bench/results"
)

// The rows of Pulser (Almasi et al., LANMAN 2019).

func pulser() []*Row {
	return []*Row{
		pulserFCT(),
		pulserThroughput(),
		pulserQueue(),
		pulserDegree(),
		pulserTestbed(),
	}
}

// pulserTraffic is what a row's network carries: percent of the load of the uplinks, 30 of
// a hundred in long flows, and incasts of that degree.
type pulserTraffic struct{ load, degree int }

func (x pulserTraffic) name() string { return fmt.Sprintf("load%d_degree%d", x.load, x.degree) }

func (x pulserTraffic) run(systems ...string) rowRun {
	share := float64(x.load) / 100
	return rowRun{name: x.name(), scenario: "pulser-fct", only: systems, sets: []string{
		fmt.Sprintf("params.short=%.3g", 0.7*share), fmt.Sprintf("params.long=%.3g", 0.3*share), fmt.Sprintf("params.degree=%d", x.degree),
	}}
}

// pulserInSmall is half the span, for rows that run that scenario.
var pulserInSmall = []string{"params.stop=3ms", "warmup=1ms"}

const (
	pulserScaling = "flows that start within 4 ms are counted, some 9000 to 18000 short and 75 to 150 long ones a seed, at three of the paper's loads; it does not say for how long its network ran"

	pulserNote = "the paper says neither what the ports' buffers are, nor the retransmission timer, nor the first window, nor how much of the short flows is in incasts: here 100 packets a port, which is a static buffer of DCTCP's paper and a default of ns-3, 8.4 ms next to that paper's 10, RFC 3390's three packets, and all. " +
		"A load is that of the leaves' uplinks, half of the hosts' links, which above 50 percent could not be carried otherwise. Losses are repaired by a NIC's go-back-N, where the paper has TCP"
)

var (
	pulserLoads   = []int{40, 60, 80}
	pulserSystems = []string{"DCTCP", "ICTCP", "Pulser", "Ideal"}
)

// overLoads adds the geometric mean of a figure over the loads.
func overLoads(f *figureSet, name string, of func(load int) float64) {
	sum := 0.0
	for _, load := range pulserLoads {
		sum += math.Log(of(load)) / float64(len(pulserLoads))
	}
	f.add(name, math.Exp(sum))
}

func pulserFCT() *Row {
	r := &Row{
		ID: "pulser-fct", Seeds: 5, seconds: 350,
		quick:   &quick{Sets: pulserInSmall, Seconds: 30},
		scaling: pulserScaling, note: pulserNote,
	}
	for _, load := range pulserLoads {
		r.runs = append(r.runs, pulserTraffic{load, 24}.run())
	}
	r.read = func(s *seed, f *figureSet) {
		for _, name := range pulserSystems {
			for _, load := range pulserLoads {
				sys := s.system(pulserTraffic{load, 24}.name(), name)
				short := sys.label("short")
				add := func(what string, v float64) { f.add(fmt.Sprintf("load%d_%s_%s", load, lower(name), what), v) }
				add("p50_us", float64(short.FCTP50Us))
				add("p99_us", float64(short.FCTP99Us))
				add("drops", float64(sys.Drops))
				add("timeouts_percent", 100*float64(short.Timeouts)/float64(short.FlowsStarted))
			}
			for _, what := range []string{"p50_us", "p99_us"} {
				overLoads(f, fmt.Sprintf("%s_%s", lower(name), what), func(load int) float64 {
					return f.get(fmt.Sprintf("load%d_%s_%s", load, lower(name), what))
				})
			}
		}
	}
	for _, other := range []string{"DCTCP", "ICTCP"} {
		o := lower(other)
		r.checks = append(r.checks,
			below("median of short flows, mean of the loads: Pulser over "+other, "pulser_p50_us", o+"_p50_us", 0.9),
			below("99th percentile, mean of the loads: Pulser over "+other, "pulser_p99_us", o+"_p99_us", 0.5),
			below("median at 80 percent: Pulser over "+other, "load80_pulser_p50_us", "load80_"+o+"_p50_us", 0.75),
			below("99th percentile at 80 percent: Pulser over "+other, "load80_pulser_p99_us", "load80_"+o+"_p99_us", 0.3),
		)
	}
	r.checks = append(r.checks, holds("Ideal has the least 99th percentile at each load", func(f *figureSet) bool {
		for _, load := range pulserLoads {
			for _, name := range pulserSystems[:3] {
				if f.get(fmt.Sprintf("load%d_ideal_p99_us", load)) > f.get(fmt.Sprintf("load%d_%s_p99_us", load, lower(name))) {
					return false
				}
			}
		}
		return true
	}))
	r.charts = func(_ *seed, f *figureSet) []chart {
		return []chart{
			pulserByLoad("Median completion time of short flows (figure 2)", axisUs, "p50_us", f),
			pulserByLoad("99th percentile (figure 3)", axisUs, "p99_us", f),
		}
	}
	return r
}

func pulserByLoad(title, y, what string, f *figureSet) chart {
	c := chart{Title: title, X: "load [percent]", Y: y}
	for _, name := range pulserSystems {
		c.Lines = append(c.Lines, over(name, f, floats(pulserLoads), func(i int) string {
			return fmt.Sprintf("load%d_%s_%s", pulserLoads[i], lower(name), what)
		}))
	}
	return c
}

func pulserThroughput() *Row {
	r := &Row{
		ID: "pulser-throughput", Seeds: 5, seconds: 350,
		quick:   &quick{Sets: pulserInSmall, Seconds: 30},
		scaling: pulserScaling,
		note:    "the paper does not say how it takes the throughput of long flows: here 1 MB over their mean completion time. " + pulserNote,
	}
	for _, load := range pulserLoads {
		r.runs = append(r.runs, pulserTraffic{load, 24}.run())
	}
	r.read = func(s *seed, f *figureSet) {
		for _, name := range pulserSystems {
			for _, load := range pulserLoads {
				long := s.system(pulserTraffic{load, 24}.name(), name).label("long")
				f.add(fmt.Sprintf("load%d_%s_long_gbps", load, lower(name)), 8e3/float64(long.FCTAvgUs))
			}
			overLoads(f, lower(name)+"_long_gbps", func(load int) float64 {
				return f.get(fmt.Sprintf("load%d_%s_long_gbps", load, lower(name)))
			})
		}
	}
	r.checks = []check{
		above("throughput of long flows, mean of the loads: Pulser over ICTCP", "pulser_long_gbps", "ictcp_long_gbps", 1.16),
		above("Pulser over DCTCP", "pulser_long_gbps", "dctcp_long_gbps", 1.22),
	}
	r.charts = func(_ *seed, f *figureSet) []chart {
		return []chart{pulserByLoad("Throughput of long flows (figure 4)", axisGbps, "long_gbps", f)}
	}
	return r
}

func pulserQueue() *Row {
	const link, onset = "tor19->h399", 4000.0 // us
	systems := []string{"DCTCP", "Pulser"}
	return &Row{
		ID: "pulser-queue", runs: []rowRun{{}}, Seeds: 5, seconds: 30,
		quick: &quick{Seconds: 6},
		read: func(s *seed, f *figureSet) {
			for _, name := range systems {
				sys := s.system("", name)
				wire := sys.Series(results.SeriesWire, "watched")
				before := wire.between(onset-1000, onset).mean()
				f.add(lower(name)+"_peak_kb", sys.most(results.SeriesQueue, link).between(onset, math.Inf(1)).max()/1e3)
				f.add(lower(name)+"_before_gbps", before)
				f.add(lower(name)+"_least_gbps", leastOver(wire.between(onset, onset+250), 40))
				f.add(lower(name)+"_through_gbps", wire.between(onset, onset+1000).mean())
			}
		},
		checks: []check{
			below("longest queue at the incast's port: Pulser over DCTCP", "pulser_peak_kb", "dctcp_peak_kb", 0.5),
			holds("in the first 250us of the incast Pulser's long flow falls lower than DCTCP's, over 40us", func(f *figureSet) bool {
				return f.get("pulser_least_gbps") < f.get("dctcp_least_gbps")
			}),
			above("what the long flow gets in the millisecond from the incast's start on: Pulser over DCTCP", "pulser_through_gbps", "dctcp_through_gbps", none64),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			queue := chart{Title: "Queue at the incast's port (figure 5)", X: axisMs, Y: "queue [KB]"}
			rate := chart{Title: "Rate of the long flow", X: axisMs, Y: axisGbps}
			for _, name := range systems {
				sys := s.system("", name)
				queue.Lines = append(queue.Lines, sys.Series(results.SeriesQueue, link).between(onset-500, onset+1500).scale(1e-3, 1e-3).line(name))
				rate.Lines = append(rate.Lines, sys.Series(results.SeriesWire, "watched").between(onset-500, onset+1500).scale(1e-3, 1).line(name))
			}
			return []chart{queue, rate}
		},
		scaling: "one incast, 4 ms after the start",
		note:    "the long flow is seen by its rate, not by its window, and random traffic meets the incast on its way, not at its port, so that what is there is the incast's doing. " + pulserNote,
	}
}

// leastOver returns the least mean of the points of a span of X.
func leastOver(c curve, span float64) float64 {
	least := math.Inf(1)
	for _, x := range c.X {
		if x+span <= c.X[len(c.X)-1] {
			least = min(least, c.between(x, x+span).mean())
		}
	}
	return least
}

func pulserDegree() *Row {
	degrees, loads := []int{24, 32, 40}, []int{60, 80}
	r := &Row{
		ID: "pulser-degree", Seeds: 5, seconds: 400,
		quick:   &quick{Sets: pulserInSmall, Seconds: 35},
		scaling: pulserScaling, note: pulserNote,
	}
	name := func(load, degree int, system string) string {
		return fmt.Sprintf("load%d_degree%d_%s_p99_us", load, degree, lower(system))
	}
	for _, load := range loads {
		for _, degree := range degrees {
			r.runs = append(r.runs, pulserTraffic{load, degree}.run(pulserSystems[:3]...))
			for _, other := range pulserSystems[:2] {
				r.checks = append(r.checks, below(fmt.Sprintf("99th percentile at %d percent and degree %d: Pulser over %s", load, degree, other),
					name(load, degree, "Pulser"), name(load, degree, other), 0.5))
			}
		}
	}
	r.read = func(s *seed, f *figureSet) {
		for _, load := range loads {
			for _, degree := range degrees {
				for _, system := range pulserSystems[:3] {
					f.add(name(load, degree, system), float64(s.system(pulserTraffic{load, degree}.name(), system).label("short").FCTP99Us))
				}
			}
		}
	}
	r.charts = func(_ *seed, f *figureSet) []chart {
		var charts []chart
		for _, load := range loads {
			c := chart{Title: fmt.Sprintf("99th percentile of short flows at %d percent load", load), X: "degree of incasts", Y: axisUs}
			for _, system := range pulserSystems[:3] {
				c.Lines = append(c.Lines, over(system, f, floats(degrees), func(i int) string { return name(load, degrees[i], system) }))
			}
			charts = append(charts, c)
		}
		return charts
	}
	return r
}

func pulserTestbed() *Row {
	return &Row{
		ID: "pulser-testbed", runs: []rowRun{{}}, Seeds: 5, seconds: 35,
		varies: []string{"initial_cwnd"},
		quick:  &quick{Sets: []string{"params.rounds=60", "duration=80s", "warmup=10s"}, Seconds: 2},
		read: func(s *seed, f *figureSet) {
			for _, name := range []string{"DCTCP", "Pulser"} {
				sys := s.system("", name)
				short := sys.label("short")
				f.add(lower(name)+"_fct_avg_s", float64(short.FCTAvgUs)/1e6)
				f.add(lower(name)+"_fct_p99_s", float64(short.FCTP99Us)/1e6)
				f.add(lower(name)+"_long_mbps", float64(sys.label("long").ThroughputGbps)*1e3)
				f.add(lower(name)+"_drops", float64(sys.Drops))
			}
		},
		checks: []check{
			below("mean completion time: Pulser over DCTCP", "pulser_fct_avg_s", "dctcp_fct_avg_s", 1.59/1.99),
			below("99th percentile: Pulser over DCTCP", "pulser_fct_p99_s", "dctcp_fct_p99_s", 9.85/13.32),
			above("throughput of the long flow: Pulser over DCTCP", "pulser_long_mbps", "dctcp_long_mbps", 35.0/28),
		},
		scaling: "8 minutes of the paper's 80 a seed",
		note:    "the paper does not give how often bursts come, their jitter, the software switch's buffer, its ECN threshold and high-water mark, nor the round trip: here once a second, 10 ms, 100 packets, 20 packets as DCTCP's paper has for 1 Gbps, a fifth more, and 300us without a queue. First windows are the ten packets of the kernel it names, and the timer is 268 ms, next to that kernel's least of 200",
	}
}
