package reproduce

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rdma/sluice/bench/results"
)

// The rows of PowerTCP's section 4 with web search traffic, on 256 servers.

// webSystem is a system of these rows and what its figures are called.
type webSystem struct{ key, name string }

var (
	webAll   = []webSystem{{"powertcp", "PowerTCP"}, {"theta", "theta-PowerTCP"}, {"hpcc", "HPCC"}, {"timely", "TIMELY"}, {"dcqcn", "DCQCN"}, {"homa", "HOMA"}}
	webThree = webAll[:3]
)

// web is a set-up of these rows.
type web struct {
	systems []webSystem
	racks   int // whose switches' buffers are looked at
	// Of the rows at 80 percent: from when to when they look at buffers, in us: from the
	// end of the warm-up to the last arrivals. In small there is less, and what follows is
	// empty.
	from, until float64
}

var (
	webText = web{webAll, 8, 5000, 35000}
	// The artefact has no HOMA.
	webArtefact = web{webAll[:5], 2, 5000, 105000}
)

// inArtefactsWeb is a row of webArtefact's in the set-up of the paper's public simulation,
// and how long it takes.
func inArtefactsWeb(r *Row, seconds float64) *Row {
	r = inArtefact(r)
	r.seconds = seconds
	r.checks = slices.DeleteFunc(r.checks, func(c check) bool { return c.To == "homa_p999_us" })
	r.scaling = "in time: 100 or 200 ms of arrivals a seed, of the artefact's nine seconds. So that the tail of short flows rests on thousands, more of them are sent than there are among web search flows, by 0.4 percent of the hosts' links"
	r.note += ". It sends from one rack to the pod and from the other to itself; here hosts of both send to any of the pod's"
	return r
}

// Ranges of sizes, as the scenarios have them.
var (
	webShort  = results.SizeRange(0, 10_000)
	webMedium = results.SizeRange(100_000, 1_000_000)
	webLong   = results.SizeRange(1_000_000, math.MaxInt64)
)

const (
	webScaling = "in time, not in topology: 30 to 200 ms of arrivals a seed. So that the tail of short flows rests on thousands, more of them are sent than there are among web search flows, by 0.4 percent of the uplinks"
	webNote    = "the paper does not say what a load counts: here headers and telemetry are in it, as 90 percent would be overload else; nor to whom flows go: here to another rack; nor whether its fabric is lossless: here it is, but for HOMA"
)

// webQuick is such a row in small.
func webQuick(seconds float64) *quick {
	return &quick{
		Sets: []string{"duration=60ms", "warmup=2ms", "params.until=6ms"}, Seconds: seconds,
		Unlike: "in some milliseconds the tails are single flows",
	}
}

// tail is the 99.9th percentile of the completion times of a range of sizes, in us.
func tail(x *system, sizes string) float64 { return x.completion(sizes).at(0.999) }

// bufferOf returns what was taken of the leaf switches' buffers, in KB: a percentile over
// all of them and the means of all steps.
func (w *web) bufferOf(x *system, share float64) float64 {
	var all []weighted
	for i := range w.racks {
		for _, v := range x.Series(results.SeriesBuffer, fmt.Sprintf("tor%d", i)).between(w.from, w.until).Y {
			all = append(all, weighted{v, 1})
		}
	}
	return percentileOf(all, share) / 1e3
}

// powertcpShort is the row of short flows' completion times at a load in percent.
func powertcpShort(id string, load int, w web) *Row {
	r := &Row{
		ID: id, runs: []rowRun{{}}, Seeds: 5,
		read: func(s *seed, f *figureSet) {
			for _, x := range w.systems {
				sys := s.system("", x.name)
				f.add(x.key+"_p50_us", sys.completion(webShort).at(0.5))
				f.add(x.key+"_p99_us", sys.completion(webShort).at(0.99))
				f.add(x.key+"_p999_us", tail(sys, webShort))
				f.add(x.key+"_medium_p999_us", tail(sys, webMedium))
			}
		},
		charts:  sizesChart(w),
		scaling: webScaling, note: webNote + ". HOMA is disputed and not counted",
	}
	less := func(text, of, to string, paper float64) check {
		return below(text, of+"_p999_us", to+"_p999_us", paper)
	}
	if load == 20 {
		r.seconds, r.quick = 720, webQuick(10)
		r.checks = []check{
			less("PowerTCP over HPCC", "powertcp", "hpcc", 0.91),
			less("PowerTCP over TIMELY", "powertcp", "timely", 0.20),
			less("PowerTCP over DCQCN", "powertcp", "dcqcn", 0.20),
			reported(less("PowerTCP over HOMA", "powertcp", "homa", 0.20)),
		}
		return r
	}
	r.seconds, r.quick = 440, webQuick(15)
	r.checks = []check{
		less("PowerTCP over HPCC", "powertcp", "hpcc", 0.67),
		less("PowerTCP over TIMELY", "powertcp", "timely", 0.26),
		less("PowerTCP over DCQCN", "powertcp", "dcqcn", 0.26),
		less("theta-PowerTCP over HPCC", "theta", "hpcc", 0.64),
		less("theta-PowerTCP over TIMELY", "theta", "timely", 0.18),
		less("theta-PowerTCP over DCQCN", "theta", "dcqcn", 0.18),
		reported(less("PowerTCP over HOMA", "powertcp", "homa", 0.01)),
	}
	return r
}

// reported is a check that does not count.
func reported(c check) check {
	c.Reported = true
	return c
}

// sizesChart draws completion times by size, with one seed.
func sizesChart(w web) func(*seed, *figureSet) []chart {
	return func(s *seed, _ *figureSet) []chart { return bySize(s, w.systems) }
}

func bySize(s *seed, systems []webSystem) []chart {
	ranges := []string{webShort, results.SizeRange(10_000, 100_000), webMedium, webLong}
	var charts []chart
	for i, what := range []string{"up to 10 KB", "10 to 100 KB", "100 KB to 1 MB", "above 1 MB"} {
		c := chart{Title: "Completion of flows of " + what, X: axisUs, Y: "share of flows"}
		for _, x := range systems {
			c.Lines = append(c.Lines, s.system("", x.name).completion(ranges[i]).line(x.name))
		}
		charts = append(charts, c)
	}
	return charts
}

func powertcpMedium(w web) *Row {
	return &Row{
		ID: "powertcp-fig6-medium", Seeds: 5, seconds: 880, quick: webQuick(15),
		runs: []rowRun{{}, {name: "60", scenario: "powertcp-fig6-60", only: []string{"PowerTCP", "theta-PowerTCP"}}},
		read: func(s *seed, f *figureSet) {
			for _, x := range w.systems {
				sys := s.system("", x.name)
				f.add(x.key+"_p50_us", sys.completion(webMedium).at(0.5))
				f.add(x.key+"_p99_us", sys.completion(webMedium).at(0.99))
				f.add(x.key+"_p999_us", tail(sys, webMedium))
			}
			for _, x := range webAll[:2] {
				at60 := tail(s.system("60", x.name), webMedium)
				f.add("load60_"+x.key+"_p999_us", at60)
				f.add(x.key+"_p999_mean_us", math.Sqrt(f.get(x.key+"_p999_us")*at60))
			}
		},
		checks: []check{
			below("PowerTCP over HPCC", "powertcp_p999_us", "hpcc_p999_us", 0.67),
			below("PowerTCP over TIMELY", "powertcp_p999_us", "timely_p999_us", 0.38),
			below("PowerTCP over DCQCN", "powertcp_p999_us", "dcqcn_p999_us", 0.50),
			above("mean of 20 and 60 percent: theta-PowerTCP over PowerTCP", "theta_p999_mean_us", "powertcp_p999_mean_us", 1.60),
			reported(below("PowerTCP over HOMA", "powertcp_p999_us", "homa_p999_us", 0.24)),
		},
		scaling: webScaling + ". Of medium flows there are some 650 a seed, whose 99.9th percentile is the slowest",
		note:    webNote + ". That theta-PowerTCP's medium flows take 60 percent longer the paper says on average, of figures 6a and 6b; all else of 6a. HOMA is disputed and not counted",
	}
}

// powertcpLong is long flows at 90 percent, and at the loads of figure 6, whose runs it
// shares.
func powertcpLong() *Row {
	names := []string{"PowerTCP", "theta-PowerTCP", "HPCC"}
	runs := []struct {
		load     int
		scenario string
	}{{20, "powertcp-fig6-20"}, {60, "powertcp-fig6-60"}, {90, "powertcp-fig7ab"}}
	r := &Row{
		ID: "powertcp-fig7ab", Seeds: 5, seconds: 900, quick: webQuick(25),
		read: func(s *seed, f *figureSet) {
			for _, run := range runs {
				for _, x := range webThree {
					sys := s.system(fmt.Sprint(run.load), x.name)
					f.add(fmt.Sprintf("load%d_%s_long_p999_us", run.load, x.key), tail(sys, webLong))
					f.add(fmt.Sprintf("load%d_%s_long_p50_us", run.load, x.key), sys.completion(webLong).at(0.5))
					f.add(fmt.Sprintf("load%d_%s_short_p999_us", run.load, x.key), tail(sys, webShort))
				}
			}
			for _, x := range webThree {
				f.add(x.key+"_long_p999_mean_us", math.Cbrt(f.get("load20_"+x.key+"_long_p999_us")*f.get("load60_"+x.key+"_long_p999_us")*f.get("load90_"+x.key+"_long_p999_us")))
			}
		},
		checks: []check{
			below("long flows at 90 percent: PowerTCP over HPCC", "load90_powertcp_long_p999_us", "load90_hpcc_long_p999_us", 0.91),
			above("long flows, mean over loads: theta-PowerTCP over PowerTCP", "theta_long_p999_mean_us", "powertcp_long_p999_mean_us", 1.35),
		},
		charts: func(_ *seed, f *figureSet) []chart {
			var charts []chart
			for _, c := range []struct{ title, what string }{{"Short flows, 99.9th percentile (figure 7a)", "short"}, {"Long flows, 99.9th percentile (figure 7b)", "long"}} {
				chart := chart{Title: c.title, X: "load [percent]", Y: "completion [us]"}
				for _, x := range webThree {
					chart.Lines = append(chart.Lines, over(x.name, f, []float64{20, 60, 90}, func(i int) string {
						return fmt.Sprintf("load%d_%s_%s_p999_us", runs[i].load, x.key, c.what)
					}))
				}
				charts = append(charts, chart)
			}
			return charts
		},
		scaling: webScaling + ". Of long flows there are some 1100 a seed: the 99.9th percentile is one of the slowest two",
		note:    webNote,
	}
	for _, run := range runs {
		r.runs = append(r.runs, rowRun{name: fmt.Sprint(run.load), scenario: run.scenario, only: names})
	}
	return r
}

func powertcpBuffer(w web) *Row {
	return &Row{
		ID: "powertcp-fig7g", runs: []rowRun{{}}, Seeds: 5, seconds: 220, quick: webQuick(10),
		read: func(s *seed, f *figureSet) {
			for _, x := range webThree {
				sys := s.system("", x.name)
				for _, p := range []struct {
					name  string
					share float64
				}{{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}} {
					f.add(x.key+"_buffer_"+p.name+"_kb", w.bufferOf(sys, p.share))
				}
			}
		},
		checks: []check{
			below("99th percentile of the buffer: PowerTCP over HPCC", "powertcp_buffer_p99_kb", "hpcc_buffer_p99_kb", 0.50),
		},
		charts:  buffersChart("", w),
		scaling: webScaling, note: webNote + "; nor which buffers it samples, nor how far out the tail is: here the shared buffers of the eight leaf switches, in means over 10us, and the 99th percentile",
	}
}

// buffersChart draws the distribution of the buffers' use in a run, with one seed.
func buffersChart(run string, w web) func(*seed, *figureSet) []chart {
	return func(s *seed, _ *figureSet) []chart {
		c := chart{Title: "Shared buffer taken at leaf switches", X: "taken [KB]", Y: "share of the time"}
		for _, x := range webThree {
			line := curve{}
			for _, share := range []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999} {
				line.X, line.Y = append(line.X, w.bufferOf(s.system(run, x.name), share)), append(line.Y, share)
			}
			c.Lines = append(c.Lines, line.line(x.name))
		}
		return []chart{c}
	}
}

// powertcpBursts is web search traffic with incasts.
func powertcpBursts(w web) *Row {
	runs := []struct {
		name string
		sets []string
		only []string
	}{
		{"1/s of 2 MB", []string{"params.incasts=0.00256"}, []string{"PowerTCP", "HPCC"}},
		{"4/s of 2 MB", []string{"params.incasts=0.01024"}, []string{"PowerTCP", "HPCC"}},
		{"16/s of 2 MB", nil, nil},
		{"4/s of 8 MB", []string{"params.part=250KB"}, []string{"PowerTCP", "HPCC"}},
	}
	const busiest = "16/s of 2 MB"
	r := &Row{
		ID: "powertcp-fig7cf", Seeds: 5, seconds: 630, quick: webQuick(30),
		read: func(s *seed, f *figureSet) {
			for _, x := range []webSystem{webAll[0], webAll[2]} {
				short, long := 0.0, 0.0
				for i, run := range runs {
					sys := s.system(run.name, x.name)
					f.add(fmt.Sprintf("%s_short_p999_%d_us", x.key, i+1), tail(sys, webShort))
					f.add(fmt.Sprintf("%s_long_p999_%d_us", x.key, i+1), tail(sys, webLong))
					short += math.Log(tail(sys, webShort)) / float64(len(runs))
					long += math.Log(tail(sys, webLong)) / float64(len(runs))
				}
				f.add(x.key+"_short_p999_mean_us", math.Exp(short))
				f.add(x.key+"_long_p999_mean_us", math.Exp(long))
			}
			for _, x := range webThree {
				f.add(x.key+"_buffer_p99_kb", w.bufferOf(s.system(busiest, x.name), 0.99))
			}
		},
		checks: []check{
			below("short flows, mean over the four: PowerTCP over HPCC", "powertcp_short_p999_mean_us", "hpcc_short_p999_mean_us", 0.76),
			below("long flows, mean over the four: PowerTCP over HPCC", "powertcp_long_p999_mean_us", "hpcc_long_p999_mean_us", 0.90),
			below("99th percentile of the buffer with 16/s of 2 MB: PowerTCP over HPCC", "powertcp_buffer_p99_kb", "hpcc_buffer_p99_kb", 0.69),
			below("the same, theta-PowerTCP over HPCC", "theta_buffer_p99_kb", "hpcc_buffer_p99_kb", 0.69),
		},
		charts:  buffersChart(busiest, w),
		scaling: webScaling + ". Of the request rates 1, 4 and 16 a second are run, and of the sizes at four a second 2 and 8 MB",
		note:    webNote + "; nor how many servers send a part of a file: here 32, of any other racks; nor whose the request rate is: here each server's",
	}
	for _, run := range runs {
		r.runs = append(r.runs, rowRun{name: run.name, sets: run.sets, only: run.only})
	}
	return r
}
