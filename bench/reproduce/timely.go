package reproduce

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/bench/results"
)

// The rows of TIMELY (Mittal et al., SIGCOMM 2015).

// gbps, us and so on are names of the axes of charts.
const (
	axisMs   = "time [ms]"
	axisGbps = "throughput [Gbps]"
	axisUs   = "RTT [us]"
	axisCDF  = "share of samples"
)

func timely() []*Row {
	return []*Row{
		timelyTable1("timely-table1-timely", "TIMELY", 3),
		timelyTable1("timely-table1-pfc", "PFC only", 3),
		timelyTable1("timely-table1-dctcp", "DCTCP", 3),
		timelyTable1("timely-table1-fast10", "FAST* 10M", 2),
		timelyTable1("timely-table1-fast50", "FAST* 50M", 2),
		timelyTable1("timely-table1-fast100", "FAST* 100M", 3),
		timelyJain(),
		timelyFig2(),
		timelyFig5(),
		timelyFig9(),
		timelyFig11(),
		timelyFig12(),
		timelyFig15Values(),
		timelyFig15Tipping(),
		timelyFig16(),
		timelyFig17(),
		timelyFig18(),
		timelyFig19(),
	}
}

// short600 is table 1's incast in small.
func short600() []string { return []string{"duration=150ms", "warmup=100ms"} }

// timelyTable1 is a column of table 1.
func timelyTable1(id, system string, seconds float64) *Row {
	return &Row{
		ID: id, runs: []rowRun{{}}, seconds: seconds,
		quick: &quick{Sets: short600(), Seconds: seconds / 4},
		read: func(s *seed, f *figureSet) {
			x := s.system("", system)
			f.add("throughput_gbps", float64(x.ThroughputGbps))
			f.add("wire_gbps", float64(x.WireGbps))
			f.add("rtt_avg_us", float64(x.RTTAvgUs))
			f.add("rtt_p99_us", float64(x.RTTP99Us))
			f.add("drops", float64(x.Drops))
			f.add("pause_us", float64(x.PauseUs))
		},
		checks: []check{value("throughput_gbps"), value("rtt_avg_us"), value("rtt_p99_us")},
		charts: func(s *seed, _ *figureSet) []chart {
			x := s.system("", system)
			return []chart{
				{Title: "Distribution of round trips (figure 14)", X: axisUs, Y: axisCDF, Lines: []chartLine{x.cdf("rtt", "all").line(system)}},
				{Title: "Throughput over time", X: axisMs, Y: axisGbps, Lines: []chartLine{x.Series(results.SeriesRate, "all").scale(1e-3, 1).line(system)}},
			}
		},
		note: "throughput is of payload, which at a 1024-byte MTU tops out at 18.5 of 20 Gbps; the paper gives no MTU. Its cap on outstanding data is not given: here it is three segments of 16 KiB a connection",
	}
}

func timelyJain() *Row {
	spans := []string{"1ms", "10ms", "100ms"}
	r := &Row{
		ID: "timely-jain", seconds: 9,
		quick: &quick{Sets: []string{"duration=300ms", "warmup=100ms"}, Seconds: 4},
		read: func(s *seed, f *figureSet) {
			timely, pfc := s.system(spans[0], "TIMELY"), s.system(spans[0], "PFC only")
			f.add("jain_timely", float64(timely.JainWindow))
			f.add("jain_pfc", float64(pfc.JainWindow))
			for _, span := range spans[1:] {
				f.add("jain_"+span+"_timely", float64(s.system(span, "TIMELY").JainWindow))
				f.add("jain_"+span+"_pfc", float64(s.system(span, "PFC only").JainWindow))
			}
			f.add("jain_whole_timely", float64(timely.Jain))
			f.add("jain_whole_pfc", float64(pfc.Jain))
		},
		checks: []check{value("jain_timely"), value("jain_pfc")},
		charts: func(s *seed, _ *figureSet) []chart {
			c := chart{Title: "Jain's index within a millisecond", X: axisMs, Y: "index"}
			for _, name := range []string{"TIMELY", "PFC only"} {
				c.Lines = append(c.Lines, s.system(spans[0], name).Series(results.SeriesJain, "all").scale(1e-3, 1).line(name))
			}
			return []chart{c}
		},
		note: "the paper does not say over which span its index is taken. Four are shown: single milliseconds, each of 10 and of 100, by the mean of their indices, and the whole measurement, 400 ms. The first one counts, being the only one that gives both of the paper's figures; over longer spans flow control shares the links exactly, which the paper's index of 0.909 excludes",
	}
	for _, span := range spans {
		r.runs = append(r.runs, rowRun{name: span, sets: []string{"measure.window=" + span}})
	}
	return r
}

func timelyFig2() *Row {
	const line = 10e9
	queue := func(x *system) curve { // its distribution, in us at 10 Gbps
		return x.queueTimes("tor0->h10").scale(8/line*1e6, 1)
	}
	percents := []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95}
	return &Row{
		ID: "timely-fig2", runs: []rowRun{{}}, seconds: 2, varies: []string{"min_rate"},
		quick: &quick{Seconds: 2},
		read: func(s *seed, f *figureSet) {
			x := s.system("", "TIMELY")
			q, rtt := queue(x), x.cdf("rtt", "all")
			worst := 0.0
			for _, p := range percents {
				f.add(fmt.Sprintf("queue_p%.0f_us", p*100), q.at(p))
				f.add(fmt.Sprintf("rtt_p%.0f_us", p*100), rtt.at(p))
				worst = max(worst, math.Abs(rtt.at(p)-q.at(p)))
			}
			f.add("worst_distance_us", worst)
			f.add("queue_spread_us", q.at(0.95)-q.at(0.1))
		},
		checks: []check{
			holds("from the 10th to the 95th percentile the two lie within a tenth of the queue's spread of each other", func(f *figureSet) bool {
				return f.get("worst_distance_us") <= f.get("queue_spread_us")/10
			}),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			x := s.system("", "TIMELY")
			return []chart{{Title: "Round trips and the queue", X: "us", Y: axisCDF,
				Lines: []chartLine{x.cdf("rtt", "all").line("RTT"), queue(x).line("queue")}}}
		},
		note: "the paper does not say what controlled the rates of these flows; here TIMELY does, with a least rate of 10 Mbps. The queue is looked at all the time, over a second, where the paper does every microsecond over a time it does not give",
	}
}

func timelyFig5() *Row {
	const same, first = "one priority", "acknowledgements first"
	percents := []float64{0.25, 0.5, 0.75, 0.95, 0.99}
	name := func(what string, p float64) string { return fmt.Sprintf("%s_rtt_p%.0f_us", what, p*100) }
	return &Row{
		ID:      "timely-fig5",
		runs:    []rowRun{{name: "none", sets: []string{"params.secondary=0"}, only: []string{same}}, {name: "reverse"}},
		seconds: 2,
		quick:   &quick{Sets: []string{"duration=150ms"}, Seconds: 1.5},
		read: func(s *seed, f *figureSet) {
			for _, x := range []struct {
				name string
				sys  *system
			}{{"none", s.system("none", same)}, {"one_priority", s.system("reverse", same)}, {"acks_first", s.system("reverse", first)}} {
				rtt := x.sys.cdf("rtt", "primary")
				for _, p := range percents {
					f.add(name(x.name, p), rtt.at(p))
				}
				f.add(x.name+"_primary_gbps", float64(x.sys.label("primary").ThroughputGbps))
			}
		},
		checks: []check{
			holds("acknowledgements first: each of five percentiles within 15 percent of that without reverse congestion", func(f *figureSet) bool {
				for _, p := range percents {
					if math.Abs(f.get(name("acks_first", p))/f.get(name("none", p))-1) > 0.15 {
						return false
					}
				}
				return true
			}),
			holds("one priority: each is above that by more than 15 percent", func(f *figureSet) bool {
				for _, p := range percents {
					if f.get(name("one_priority", p))/f.get(name("none", p))-1 <= 0.15 {
						return false
					}
				}
				return true
			}),
			holds("one priority costs the incast throughput, too", func(f *figureSet) bool {
				return f.get("one_priority_primary_gbps") < f.get("none_primary_gbps")
			}),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			return []chart{{Title: "Round trips of the primary incast", X: axisUs, Y: axisCDF, Lines: []chartLine{
				s.system("none", same).cdf("rtt", "primary").line("no reverse congestion"),
				s.system("reverse", same).cdf("rtt", "primary").line("reverse congestion"),
				s.system("reverse", first).cdf("rtt", "primary").line("reverse congestion, acknowledgements first"),
			}}}
		},
		note: "the paper does not give the incasts' sizes: here five clients with four connections each, both ways",
	}
}

func timelyFig9() *Row {
	systems := []struct{ name, key string }{{"gradient", "gradient"}, {"target 50us", "target50"}, {"target 500us", "target500"}}
	const each, once = "each", "once" // completion, and a round trip
	r := &Row{
		ID: "timely-fig9-10", seconds: 10, varies: []string{"t_low", "t_high", "per_rtt"},
		runs:  []rowRun{{name: once, sets: []string{"params.per_rtt=true"}}, {name: each}},
		quick: &quick{Sets: []string{"duration=250ms", "warmup=150ms"}, Seconds: 4},
		read: func(s *seed, f *figureSet) {
			for _, update := range []string{once, each} {
				for _, x := range systems {
					sys := s.system(update, x.name)
					name := update + "_" + x.key
					f.add(name+"_gbps", float64(sys.ThroughputGbps))
					f.add(name+"_rtt_avg_us", float64(sys.RTTAvgUs))
					f.add(name+"_rtt_p99_us", float64(sys.RTTP99Us))
					sum := 0.0
					for i := range 4 {
						rate := sys.Series(results.SeriesRate, fmt.Sprintf("connection %d", i+1)).between(100e3, math.Inf(1))
						sum += rate.deviation() / rate.mean()
					}
					f.add(name+"_rate_variation", sum/4)
				}
			}
		},
		charts: func(s *seed, f *figureSet) []chart {
			rtt := chart{Title: "Round trips", X: axisUs, Y: axisCDF}
			rate := chart{Title: "Rate of one connection", X: axisMs, Y: axisGbps}
			for _, x := range systems {
				sys := s.system(once, x.name)
				rtt.Lines = append(rtt.Lines, sys.cdf("rtt", "all").line(x.name))
				rate.Lines = append(rate.Lines, sys.Series(results.SeriesRate, "connection 1").scale(1e-3, 1).line(x.name))
			}
			return []chart{rtt, rate}
		},
		note: "the equation for the rate assumes at most one completion event a round trip (section 5), and for more of them the paper scales by the least round trip, 20us. With a target of 500us two or three completions of a connection come in one round trip, each of which cuts the rate whole. Both are shown: one update a round trip, as the equation assumes and public simulators have it, which counts; and one at each completion, as in the other rows, whose round trips are short",
	}
	for _, x := range []struct{ update, text string }{{once, "once a round trip: "}, {each, "at each completion: "}} {
		get := func(f *figureSet, name string) float64 { return f.get(x.update + "_" + name) }
		checks := []check{
			holds(x.text+"throughput of the gradient is above that of target 50us", func(f *figureSet) bool { return get(f, "gradient_gbps") > get(f, "target50_gbps") }),
			holds("and within 3 percent of that of target 500us", func(f *figureSet) bool { return get(f, "gradient_gbps") > 0.97*get(f, "target500_gbps") }),
			holds("target 500us gets more throughput than target 50us", func(f *figureSet) bool { return get(f, "target500_gbps") > get(f, "target50_gbps") }),
			holds("the gradient's mean RTT is nearer to that of target 50us than to that of target 500us", func(f *figureSet) bool {
				return get(f, "gradient_rtt_avg_us") < (get(f, "target50_rtt_avg_us")+get(f, "target500_rtt_avg_us"))/2
			}),
			holds("and its rates vary less over time than with target 50us", func(f *figureSet) bool {
				return get(f, "gradient_rate_variation") < get(f, "target50_rate_variation")
			}),
		}
		for _, c := range checks {
			if x.update == each {
				c = reported(c)
			}
			r.checks = append(r.checks, c)
		}
	}
	return r
}

func timelyFig11() *Row {
	loads := []string{"0%", "25%", "50%"}
	key := func(clock, load, figure string) string {
		return fmt.Sprintf("%s_%s_%s_us", lower(clock), load[:len(load)-1], figure)
	}
	return &Row{
		ID: "timely-fig11", runs: []rowRun{{}}, seconds: 8,
		quick: &quick{Sets: []string{"duration=60ms"}, Seconds: 3},
		read: func(s *seed, f *figureSet) {
			for _, load := range loads {
				for _, clock := range []string{"NIC", "calibrated", "software"} {
					x := s.system("", clock+" "+load)
					f.add(key(clock, load, "p50"), float64(x.RTTP50Us))
					f.add(key(clock, load, "p99"), float64(x.RTTP99Us))
					f.add(key(clock, load, "spread"), float64(x.RTTSpreadUs))
				}
			}
		},
		checks: []check{
			holds("calibrated round trips have the NIC's spread give or take 5 percent, whatever the load", func(f *figureSet) bool {
				for _, load := range loads {
					if math.Abs(f.get(key("calibrated", load, "spread"))/f.get(key("NIC", load, "spread"))-1) > 0.05 {
						return false
					}
				}
				return true
			}),
			holds("software's spread grows with the load", func(f *figureSet) bool {
				return f.get(key("software", "0%", "spread")) < f.get(key("software", "25%", "spread")) &&
					f.get(key("software", "25%", "spread")) < f.get(key("software", "50%", "spread"))
			}),
			holds("and is more than twice the NIC's on loaded hosts", func(f *figureSet) bool {
				return f.get(key("software", "25%", "spread")) > 2*f.get(key("NIC", "25%", "spread")) &&
					f.get(key("software", "50%", "spread")) > 2*f.get(key("NIC", "50%", "spread"))
			}),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			c := chart{Title: "Round trips on hosts that are busy half of the time", X: axisUs, Y: axisCDF}
			for _, clock := range []string{"NIC", "calibrated", "software"} {
				c.Lines = append(c.Lines, s.system("", clock+" 50%").cdf("rtt", "all").line(clock))
			}
			return []chart{c}
		},
		note: "the paper gives no load of its hosts and no times of theirs; spread is from the 1st to the 99th percentile",
	}
}

func timelyFig12() *Row {
	noises, lows := []int{0, 50, 100, 150, 200}, []int{50, 20}
	run := func(low, noise int) string { return fmt.Sprintf("tlow%d_noise%d", low, noise) }
	r := &Row{
		ID: "timely-fig12", seconds: 15, varies: []string{"t_low"},
		quick: &quick{Sets: []string{"duration=300ms", "warmup=200ms"}, Seconds: 8},
		read: func(s *seed, f *figureSet) {
			for _, low := range lows {
				for _, noise := range noises {
					f.add(run(low, noise)+"_gbps", float64(s.system(run(low, noise), "TIMELY").ThroughputGbps))
				}
			}
		},
		checks: []check{
			holds("noise of 50us on average costs 5 percent of throughput or more", func(f *figureSet) bool {
				return f.get("tlow50_noise100_gbps") < 0.95*f.get("tlow50_noise0_gbps")
			}),
			holds("more noise costs more", func(f *figureSet) bool {
				for i := 1; i < len(noises); i++ {
					if f.get(run(50, noises[i])+"_gbps") >= f.get(run(50, noises[i-1])+"_gbps") {
						return false
					}
				}
				return true
			}),
			holds("a lower T_low tolerates less: with 20us every noise leaves a smaller share of the throughput", func(f *figureSet) bool {
				for _, noise := range noises[1:] {
					share := func(low int) float64 { return f.get(run(low, noise)+"_gbps") / f.get(run(low, 0)+"_gbps") }
					if share(20) >= share(50) {
						return false
					}
				}
				return true
			}),
		},
		charts: func(_ *seed, f *figureSet) []chart {
			c := chart{Title: "Throughput by noise", X: "most noise [us]", Y: axisGbps}
			for _, low := range lows {
				c.Lines = append(c.Lines, over(fmt.Sprintf("T_low %dus", low), f, floats(noises), func(i int) string { return run(low, noises[i]) + "_gbps" }))
			}
			return []chart{c}
		},
	}
	for _, low := range lows {
		for _, noise := range noises {
			r.runs = append(r.runs, rowRun{name: run(low, noise), sets: []string{fmt.Sprintf("params.t_low=%dus", low), fmt.Sprintf("params.noise=%dus", noise)}})
		}
	}
	return r
}

// segmentSets returns the overrides for segments of kb KB: the cap on outstanding data is
// three segments.
func segmentSets(kb int) []string {
	return []string{fmt.Sprintf("params.segment=%dKiB", kb), fmt.Sprintf("params.outstanding=%dKiB", 3*kb)}
}

func timelyFig15Values() *Row {
	return &Row{
		ID: "timely-fig15-16k", seconds: 3, varies: []string{"t_low"},
		runs:  []rowRun{{name: "50", sets: []string{"params.t_low=50us"}}, {name: "0", sets: []string{"params.t_low=0"}}},
		quick: &quick{Sets: short600(), Seconds: 1},
		read: func(s *seed, f *figureSet) {
			for _, low := range []string{"50", "0"} {
				x := s.system(low, "TIMELY")
				f.add("tlow"+low+"_gbps", float64(x.ThroughputGbps))
				f.add("tlow"+low+"_wire_gbps", float64(x.WireGbps))
				f.add("tlow"+low+"_rtt_p99_us", float64(x.RTTP99Us))
			}
		},
		checks: []check{value("tlow50_gbps"), value("tlow0_gbps")},
	}
}

func timelyFig15Tipping() *Row {
	segments, lows := []int{16, 32, 64}, []int{0, 10, 25, 50, 100, 200, 300, 500}
	run := func(kb, low int) string { return fmt.Sprintf("%dk_tlow%d", kb, low) }
	r := &Row{
		ID: "timely-fig15-tipping", seconds: 30, varies: []string{"t_low"},
		quick: &quick{Sets: short600(), Seconds: 8},
		read: func(s *seed, f *figureSet) {
			for _, kb := range segments {
				best, at, tip := 0.0, 0, math.NaN()
				for i, low := range lows {
					x := s.system(run(kb, low), "TIMELY")
					f.add(run(kb, low)+"_gbps", float64(x.ThroughputGbps))
					f.add(run(kb, low)+"_rtt_p99_us", float64(x.RTTP99Us))
					if v := float64(x.ThroughputGbps); v > best {
						best, at = v, i
					}
				}
				// From the best T_low down to where throughput falls off by 3 percent.
				for i := at; i >= 0 && f.get(run(kb, lows[i])+"_gbps") >= 0.97*best; i-- {
					tip = float64(lows[i])
				}
				f.add(fmt.Sprintf("%dk_tipping_us", kb), tip)
			}
		},
		checks: []check{
			holds("the larger the segment, the higher the T_low below which throughput falls off by 3 percent", func(f *figureSet) bool {
				return f.get("16k_tipping_us") < f.get("32k_tipping_us") && f.get("32k_tipping_us") < f.get("64k_tipping_us")
			}),
			holds("that is at most 50us for 16 KB", func(f *figureSet) bool { return f.get("16k_tipping_us") <= 50 }),
			holds("between 50 and 200us for 32 KB", func(f *figureSet) bool { return f.get("32k_tipping_us") >= 50 && f.get("32k_tipping_us") <= 200 }),
			holds("between 200 and 500us for 64 KB", func(f *figureSet) bool { return f.get("64k_tipping_us") >= 200 && f.get("64k_tipping_us") <= 500 }),
			holds("without T_low, larger segments get less", func(f *figureSet) bool {
				return f.get("16k_tlow0_gbps") > f.get("32k_tlow0_gbps") && f.get("32k_tlow0_gbps") > f.get("64k_tlow0_gbps")
			}),
		},
		charts: func(_ *seed, f *figureSet) []chart {
			rate := chart{Title: "Throughput by T_low", X: "T_low [us]", Y: axisGbps}
			rtt := chart{Title: "99th percentile of round trips by T_low", X: "T_low [us]", Y: axisUs}
			for _, kb := range segments {
				name := fmt.Sprintf("%d KB", kb)
				rate.Lines = append(rate.Lines, over(name, f, floats(lows), func(i int) string { return run(kb, lows[i]) + "_gbps" }))
				rtt.Lines = append(rtt.Lines, over(name, f, floats(lows), func(i int) string { return run(kb, lows[i]) + "_rtt_p99_us" }))
			}
			return []chart{rate, rtt}
		},
	}
	for _, kb := range segments {
		for _, low := range lows {
			r.runs = append(r.runs, rowRun{name: run(kb, low), sets: append(segmentSets(kb), fmt.Sprintf("params.t_low=%dus", low))})
		}
	}
	return r
}

func timelyFig16() *Row {
	paces := []int{0, 200, 300, 400, 500, 700, 1000, 2000, 5000}
	run := func(low, pace int) string { return fmt.Sprintf("tlow%d_pace%d", low, pace) }
	r := &Row{
		ID: "timely-fig16", seconds: 20, varies: []string{"t_low"},
		quick: &quick{Sets: short600(), Seconds: 5},
		read: func(s *seed, f *figureSet) {
			for _, low := range []int{50, 0} {
				for _, pace := range paces {
					x := s.system(run(low, pace), "TIMELY")
					name := run(low, pace) + "_gbps"
					switch pace { // as papers.yaml calls them
					case 700:
						name = fmt.Sprintf("tlow%d_gbps", low)
					case 0:
						name = fmt.Sprintf("unpaced_tlow%d_gbps", low)
					}
					f.add(name, float64(x.ThroughputGbps))
				}
			}
		},
		checks: []check{value("tlow50_gbps"), value("tlow0_gbps"), value("unpaced_tlow50_gbps"), value("unpaced_tlow0_gbps")},
		charts: func(_ *seed, f *figureSet) []chart {
			c := chart{Title: "Throughput by the NIC's pacing rate; 10000 is not paced", X: "rate [Mbps]", Y: axisGbps, LogX: true}
			for _, low := range []int{50, 0} {
				xs := floats(paces)
				xs[0] = 10000
				c.Lines = append(c.Lines, over(fmt.Sprintf("T_low %dus", low), f, xs, func(i int) string {
					switch paces[i] {
					case 700:
						return fmt.Sprintf("tlow%d_gbps", low)
					case 0:
						return fmt.Sprintf("unpaced_tlow%d_gbps", low)
					}
					return run(low, paces[i]) + "_gbps"
				}))
			}
			return []chart{c}
		},
	}
	for _, low := range []int{50, 0} {
		for _, pace := range paces {
			r.runs = append(r.runs, rowRun{name: run(low, pace), sets: []string{fmt.Sprintf("params.t_low=%dus", low), fmt.Sprintf("params.nic_rate=%dMbps", pace)}})
		}
	}
	return r
}

func timelyFig17() *Row {
	connections, highs := []int{4, 7, 10}, []int{50, 100, 200, 300, 500, 1000}
	run := func(c, high int) string { return fmt.Sprintf("%dconn_thigh%d", c, high) }
	r := &Row{
		ID: "timely-fig17", seconds: 30, varies: []string{"t_high"},
		quick: &quick{Sets: []string{"duration=250ms", "warmup=150ms"}, Seconds: 11},
		read: func(s *seed, f *figureSet) {
			for _, c := range connections {
				for _, high := range highs {
					x := s.system(run(c, high), "TIMELY")
					f.add(run(c, high)+"_gbps", float64(x.ThroughputGbps))
					f.add(run(c, high)+"_rtt_p99_us", float64(x.RTTP99Us))
				}
			}
		},
		checks: []check{
			holds("T_high 200us costs less than 2 percent of throughput at 4, 7 and 10 connections", func(f *figureSet) bool {
				for _, c := range connections {
					if f.get(run(c, 200)+"_gbps") < 0.98*f.get(run(c, 1000)+"_gbps") {
						return false
					}
				}
				return true
			}),
			holds("at 10 connections it lowers the 99th percentile", func(f *figureSet) bool {
				return f.get("10conn_thigh200_rtt_p99_us") < f.get("10conn_thigh1000_rtt_p99_us")
			}),
			holds("at 7 connections, T_high 100us does", func(f *figureSet) bool {
				return f.get("7conn_thigh100_rtt_p99_us") < f.get("7conn_thigh1000_rtt_p99_us")
			}),
			holds("50us costs throughput at each", func(f *figureSet) bool {
				for _, c := range connections {
					if f.get(run(c, 50)+"_gbps") >= f.get(run(c, 200)+"_gbps") {
						return false
					}
				}
				return true
			}),
			holds("more connections, longer tail, at T_high 500us", func(f *figureSet) bool {
				return f.get("4conn_thigh500_rtt_p99_us") < f.get("7conn_thigh500_rtt_p99_us") && f.get("7conn_thigh500_rtt_p99_us") < f.get("10conn_thigh500_rtt_p99_us")
			}),
		},
		charts: func(_ *seed, f *figureSet) []chart {
			rate := chart{Title: "Throughput by T_high", X: "T_high [us]", Y: axisGbps}
			rtt := chart{Title: "99th percentile of round trips by T_high", X: "T_high [us]", Y: axisUs}
			for _, c := range connections {
				name := fmt.Sprintf("%d connections a client", c)
				rate.Lines = append(rate.Lines, over(name, f, floats(highs), func(i int) string { return run(c, highs[i]) + "_gbps" }))
				rtt.Lines = append(rtt.Lines, over(name, f, floats(highs), func(i int) string { return run(c, highs[i]) + "_rtt_p99_us" }))
			}
			return []chart{rate, rtt}
		},
	}
	for _, c := range connections {
		for _, high := range highs {
			r.runs = append(r.runs, rowRun{name: run(c, high), sets: []string{fmt.Sprintf("params.t_high=%dus", high)}})
			last := &r.runs[len(r.runs)-1]
			if c%2 == 0 {
				last.sets = append(last.sets, fmt.Sprintf("params.connections=%d", c/2))
			} else {
				// Four of each client's to one port, three to the other.
				last.sets = append(last.sets, fmt.Sprintf("params.connections=%d", c/2), fmt.Sprintf("workloads[0].connections=%d", c-c/2))
			}
		}
	}
	return r
}

func timelyFig18() *Row {
	const stop = 300e3 // us
	// The change is when half of the leaving flows are gone.
	change := func(x *system) float64 {
		left := x.Series(results.SeriesFlows, "leaving").between(stop, math.Inf(1))
		return left.scale(1, -1).first(-45, 0)
	}
	to := func(x *system, mbps float64) float64 {
		from := change(x)
		mean := x.Series(results.SeriesRate, "staying").between(from, math.Inf(1)).scale(1, 1000.0/10) // Mbps a connection
		return (mean.first(mbps, 2e3) - from) / 1e3
	}
	return &Row{
		ID: "timely-fig18", runs: []rowRun{{}}, seconds: 4, varies: []string{"hai_steps"},
		quick: &quick{Seconds: 4},
		read: func(s *seed, f *figureSet) {
			hai, plain := s.system("", "with HAI"), s.system("", "without HAI")
			f.add("before_mbps", hai.Series(results.SeriesRate, "staying").between(200e3, stop).mean()*100)
			f.add("hai_to_1500mbps_ms", to(hai, 1500))
			// 95 percent of the payload that 2 Gbps carry, 1.85.
			f.add("hai_to_2gbps_ms", to(hai, 1850*0.95))
			f.add("plain_to_1500mbps_ms", to(plain, 1500))
			f.add("plain_to_2gbps_ms", to(plain, 1850*0.95))
		},
		checks: []check{
			value("hai_to_1500mbps_ms"), value("hai_to_2gbps_ms"), value("plain_to_1500mbps_ms"),
			holds("hyperactive increase is faster", func(f *figureSet) bool { return f.get("hai_to_1500mbps_ms") < f.get("plain_to_1500mbps_ms") }),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			c := chart{Title: "Mean rate of the connections that stay", X: axisMs, Y: "rate [Mbps]"}
			for _, name := range []string{"with HAI", "without HAI"} {
				c.Lines = append(c.Lines, s.system("", name).Series(results.SeriesRate, "staying").scale(1e-3, 100).line(name))
			}
			return []chart{c}
		},
		note: "after the departures the RTT lies below T_low, where Algorithm 1 adds a plain step at each completion and does not look at the count. Time counts from when half of those that leave are gone: they stop posting together and still send what they have posted, 256 KiB each. 2 Gbps stands for 95 percent of the payload that 2 Gbps carry",
	}
}

func floats(ints []int) []float64 {
	var out []float64
	for _, i := range ints {
		out = append(out, float64(i))
	}
	return out
}
