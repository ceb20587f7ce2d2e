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
		ID: id, Runs: []Run{{}}, Seconds: seconds,
		Quick: &Quick{Sets: short600(), Seconds: seconds / 4},
		Read: func(s *Seed, f *Figures) {
			x := s.System("", system)
			f.Add("throughput_gbps", float64(x.ThroughputGbps))
			f.Add("wire_gbps", float64(x.WireGbps))
			f.Add("rtt_avg_us", float64(x.RTTAvgUs))
			f.Add("rtt_p99_us", float64(x.RTTP99Us))
			f.Add("drops", float64(x.Drops))
			f.Add("pause_us", float64(x.PauseUs))
		},
		Checks: []Check{value("throughput_gbps"), value("rtt_avg_us"), value("rtt_p99_us")},
		Charts: func(s *Seed, _ *Figures) []Chart {
			x := s.System("", system)
			return []Chart{
				{Title: "Distribution of round trips (figure 14)", X: axisUs, Y: axisCDF, Lines: []Line{x.CDF("rtt", "all").Line(system)}},
				{Title: "Throughput over time", X: axisMs, Y: axisGbps, Lines: []Line{x.Series(results.SeriesRate, "all").Scale(1e-3, 1).Line(system)}},
			}
		},
		Note: "throughput is of payload, which at a 1024-byte MTU tops out at 18.5 of 20 Gbps; the paper gives no MTU. Its cap on outstanding data is not given: here it is three segments of 16 KiB a connection",
	}
}

func timelyJain() *Row {
	return &Row{
		ID: "timely-jain", Runs: []Run{{}}, Seconds: 3,
		Quick: &Quick{Sets: short600(), Seconds: 1},
		Read: func(s *Seed, f *Figures) {
			f.Add("jain_timely", float64(s.System("", "TIMELY").Jain))
			f.Add("jain_pfc", float64(s.System("", "PFC only").Jain))
			f.Add("jain_1ms_timely", float64(s.System("", "TIMELY").JainWindow))
			f.Add("jain_1ms_pfc", float64(s.System("", "PFC only").JainWindow))
		},
		Checks: []Check{value("jain_timely"), value("jain_pfc")},
		Charts: func(s *Seed, _ *Figures) []Chart {
			c := Chart{Title: "Jain's index within a millisecond", X: axisMs, Y: "index"}
			for _, name := range []string{"TIMELY", "PFC only"} {
				c.Lines = append(c.Lines, s.System("", name).Series(results.SeriesJain, "all").Scale(1e-3, 1).Line(name))
			}
			return []Chart{c}
		},
		Note: "the paper does not say over which span its index is taken; here it is the whole measurement, 400 ms, and beside it the mean of those of single milliseconds",
	}
}

func timelyFig2() *Row {
	const line = 10e9
	queue := func(x *System) Curve { // its distribution, in us at 10 Gbps
		return x.QueueTimes("tor0->h10").Scale(8/line*1e6, 1)
	}
	percents := []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95}
	return &Row{
		ID: "timely-fig2", Runs: []Run{{}}, Seconds: 2,
		Quick: &Quick{Seconds: 2},
		Read: func(s *Seed, f *Figures) {
			x := s.System("", "TIMELY")
			q, rtt := queue(x), x.CDF("rtt", "all")
			worst := 0.0
			for _, p := range percents {
				f.Add(fmt.Sprintf("queue_p%.0f_us", p*100), q.At(p))
				f.Add(fmt.Sprintf("rtt_p%.0f_us", p*100), rtt.At(p))
				worst = max(worst, math.Abs(rtt.At(p)-q.At(p)))
			}
			f.Add("worst_distance_us", worst)
			f.Add("queue_spread_us", q.At(0.95)-q.At(0.1))
		},
		Checks: []Check{
			holds("from the 10th to the 95th percentile the two lie within a tenth of the queue's spread of each other", func(f *Figures) bool {
				return f.Get("worst_distance_us") <= f.Get("queue_spread_us")/10
			}),
		},
		Charts: func(s *Seed, _ *Figures) []Chart {
			x := s.System("", "TIMELY")
			return []Chart{{Title: "Round trips and the queue", X: "us", Y: axisCDF,
				Lines: []Line{x.CDF("rtt", "all").Line("RTT"), queue(x).Line("queue")}}}
		},
		Note: "the paper does not say what controlled the rates of these flows; here TIMELY does. The queue is looked at all the time, over a second, where the paper does every microsecond over a time it does not give",
	}
}

func timelyFig5() *Row {
	const same, first = "one priority", "acknowledgements first"
	percents := []float64{0.25, 0.5, 0.75, 0.95, 0.99}
	name := func(what string, p float64) string { return fmt.Sprintf("%s_rtt_p%.0f_us", what, p*100) }
	return &Row{
		ID:      "timely-fig5",
		Runs:    []Run{{Name: "none", Sets: []string{"params.secondary=0"}, Only: []string{same}}, {Name: "reverse"}},
		Seconds: 2,
		Quick:   &Quick{Sets: []string{"duration=150ms"}, Seconds: 1.5},
		Read: func(s *Seed, f *Figures) {
			for _, x := range []struct {
				name string
				sys  *System
			}{{"none", s.System("none", same)}, {"one_priority", s.System("reverse", same)}, {"acks_first", s.System("reverse", first)}} {
				rtt := x.sys.CDF("rtt", "primary")
				for _, p := range percents {
					f.Add(name(x.name, p), rtt.At(p))
				}
				f.Add(x.name+"_primary_gbps", float64(x.sys.Label("primary").ThroughputGbps))
			}
		},
		Checks: []Check{
			holds("acknowledgements first: each of five percentiles within 15 percent of that without reverse congestion", func(f *Figures) bool {
				for _, p := range percents {
					if math.Abs(f.Get(name("acks_first", p))/f.Get(name("none", p))-1) > 0.15 {
						return false
					}
				}
				return true
			}),
			holds("one priority: each is above that by more than 15 percent", func(f *Figures) bool {
				for _, p := range percents {
					if f.Get(name("one_priority", p))/f.Get(name("none", p))-1 <= 0.15 {
						return false
					}
				}
				return true
			}),
			holds("one priority costs the incast throughput, too", func(f *Figures) bool {
				return f.Get("one_priority_primary_gbps") < f.Get("none_primary_gbps")
			}),
		},
		Charts: func(s *Seed, _ *Figures) []Chart {
			return []Chart{{Title: "Round trips of the primary incast", X: axisUs, Y: axisCDF, Lines: []Line{
				s.System("none", same).CDF("rtt", "primary").Line("no reverse congestion"),
				s.System("reverse", same).CDF("rtt", "primary").Line("reverse congestion"),
				s.System("reverse", first).CDF("rtt", "primary").Line("reverse congestion, acknowledgements first"),
			}}}
		},
		Note: "the paper does not give the incasts' sizes: here five clients with four connections each, both ways",
	}
}

func timelyFig9() *Row {
	systems := []struct{ name, key string }{{"gradient", "gradient"}, {"target 50us", "target50"}, {"target 500us", "target500"}}
	return &Row{
		ID: "timely-fig9-10", Runs: []Run{{}}, Seconds: 5, Varies: []string{"t_low", "t_high"},
		Quick: &Quick{Sets: []string{"duration=250ms", "warmup=150ms"}, Seconds: 2},
		Read: func(s *Seed, f *Figures) {
			for _, x := range systems {
				sys := s.System("", x.name)
				f.Add(x.key+"_gbps", float64(sys.ThroughputGbps))
				f.Add(x.key+"_rtt_avg_us", float64(sys.RTTAvgUs))
				f.Add(x.key+"_rtt_p99_us", float64(sys.RTTP99Us))
				sum := 0.0
				for i := range 4 {
					rate := sys.Series(results.SeriesRate, fmt.Sprintf("connection %d", i+1)).Between(100e3, math.Inf(1))
					sum += rate.Deviation() / rate.Mean()
				}
				f.Add(x.key+"_rate_variation", sum/4)
			}
		},
		Checks: []Check{
			holds("throughput of the gradient is above that of target 50us", func(f *Figures) bool { return f.Get("gradient_gbps") > f.Get("target50_gbps") }),
			holds("and within 3 percent of that of target 500us", func(f *Figures) bool { return f.Get("gradient_gbps") > 0.97*f.Get("target500_gbps") }),
			holds("target 500us gets more throughput than target 50us", func(f *Figures) bool { return f.Get("target500_gbps") > f.Get("target50_gbps") }),
			holds("the gradient's mean RTT is nearer to that of target 50us than to that of target 500us", func(f *Figures) bool {
				return f.Get("gradient_rtt_avg_us") < (f.Get("target50_rtt_avg_us")+f.Get("target500_rtt_avg_us"))/2
			}),
			holds("and its rates vary less over time than with target 50us", func(f *Figures) bool {
				return f.Get("gradient_rate_variation") < f.Get("target50_rate_variation")
			}),
		},
		Charts: func(s *Seed, _ *Figures) []Chart {
			rtt := Chart{Title: "Round trips", X: axisUs, Y: axisCDF}
			rate := Chart{Title: "Rate of one connection", X: axisMs, Y: axisGbps}
			for _, x := range systems {
				sys := s.System("", x.name)
				rtt.Lines = append(rtt.Lines, sys.CDF("rtt", "all").Line(x.name))
				rate.Lines = append(rate.Lines, sys.Series(results.SeriesRate, "connection 1").Scale(1e-3, 1).Line(x.name))
			}
			return []Chart{rtt, rate}
		},
	}
}

func timelyFig11() *Row {
	loads := []string{"0%", "25%", "50%"}
	key := func(clock, load, figure string) string {
		return fmt.Sprintf("%s_%s_%s_us", lower(clock), load[:len(load)-1], figure)
	}
	return &Row{
		ID: "timely-fig11", Runs: []Run{{}}, Seconds: 8,
		Quick: &Quick{Sets: []string{"duration=60ms"}, Seconds: 3},
		Read: func(s *Seed, f *Figures) {
			for _, load := range loads {
				for _, clock := range []string{"NIC", "calibrated", "software"} {
					x := s.System("", clock+" "+load)
					f.Add(key(clock, load, "p50"), float64(x.RTTP50Us))
					f.Add(key(clock, load, "p99"), float64(x.RTTP99Us))
					f.Add(key(clock, load, "spread"), float64(x.RTTSpreadUs))
				}
			}
		},
		Checks: []Check{
			holds("calibrated round trips have the NIC's spread give or take 5 percent, whatever the load", func(f *Figures) bool {
				for _, load := range loads {
					if math.Abs(f.Get(key("calibrated", load, "spread"))/f.Get(key("NIC", load, "spread"))-1) > 0.05 {
						return false
					}
				}
				return true
			}),
			holds("software's spread grows with the load", func(f *Figures) bool {
				return f.Get(key("software", "0%", "spread")) < f.Get(key("software", "25%", "spread")) &&
					f.Get(key("software", "25%", "spread")) < f.Get(key("software", "50%", "spread"))
			}),
			holds("and is more than twice the NIC's on loaded hosts", func(f *Figures) bool {
				return f.Get(key("software", "25%", "spread")) > 2*f.Get(key("NIC", "25%", "spread")) &&
					f.Get(key("software", "50%", "spread")) > 2*f.Get(key("NIC", "50%", "spread"))
			}),
		},
		Charts: func(s *Seed, _ *Figures) []Chart {
			c := Chart{Title: "Round trips on hosts that are busy half of the time", X: axisUs, Y: axisCDF}
			for _, clock := range []string{"NIC", "calibrated", "software"} {
				c.Lines = append(c.Lines, s.System("", clock+" 50%").CDF("rtt", "all").Line(clock))
			}
			return []Chart{c}
		},
		Note: "the paper gives no load of its hosts and no times of theirs; spread is from the 1st to the 99th percentile",
	}
}

func timelyFig12() *Row {
	noises, lows := []int{0, 50, 100, 150, 200}, []int{50, 20}
	run := func(low, noise int) string { return fmt.Sprintf("tlow%d_noise%d", low, noise) }
	r := &Row{
		ID: "timely-fig12", Seconds: 15, Varies: []string{"t_low"},
		Quick: &Quick{Sets: []string{"duration=300ms", "warmup=200ms"}, Seconds: 8},
		Read: func(s *Seed, f *Figures) {
			for _, low := range lows {
				for _, noise := range noises {
					f.Add(run(low, noise)+"_gbps", float64(s.System(run(low, noise), "TIMELY").ThroughputGbps))
				}
			}
		},
		Checks: []Check{
			holds("noise of 50us on average costs 5 percent of throughput or more", func(f *Figures) bool {
				return f.Get("tlow50_noise100_gbps") < 0.95*f.Get("tlow50_noise0_gbps")
			}),
			holds("more noise costs more", func(f *Figures) bool {
				for i := 1; i < len(noises); i++ {
					if f.Get(run(50, noises[i])+"_gbps") >= f.Get(run(50, noises[i-1])+"_gbps") {
						return false
					}
				}
				return true
			}),
			holds("a lower T_low tolerates less: with 20us every noise leaves a smaller share of the throughput", func(f *Figures) bool {
				for _, noise := range noises[1:] {
					share := func(low int) float64 { return f.Get(run(low, noise)+"_gbps") / f.Get(run(low, 0)+"_gbps") }
					if share(20) >= share(50) {
						return false
					}
				}
				return true
			}),
		},
		Charts: func(_ *Seed, f *Figures) []Chart {
			c := Chart{Title: "Throughput by noise", X: "most noise [us]", Y: axisGbps}
			for _, low := range lows {
				c.Lines = append(c.Lines, over(fmt.Sprintf("T_low %dus", low), f, floats(noises), func(i int) string { return run(low, noises[i]) + "_gbps" }))
			}
			return []Chart{c}
		},
	}
	for _, low := range lows {
		for _, noise := range noises {
			r.Runs = append(r.Runs, Run{Name: run(low, noise), Sets: []string{fmt.Sprintf("params.t_low=%dus", low), fmt.Sprintf("params.noise=%dus", noise)}})
		}
	}
	return r
}

// segmentSets are the overrides for segments of so many KB: the cap on outstanding
// data is three segments.
func segmentSets(kb int) []string {
	return []string{fmt.Sprintf("params.segment=%dKiB", kb), fmt.Sprintf("params.outstanding=%dKiB", 3*kb)}
}

func timelyFig15Values() *Row {
	return &Row{
		ID: "timely-fig15-16k", Seconds: 3, Varies: []string{"t_low"},
		Runs:  []Run{{Name: "50", Sets: []string{"params.t_low=50us"}}, {Name: "0", Sets: []string{"params.t_low=0"}}},
		Quick: &Quick{Sets: short600(), Seconds: 1},
		Read: func(s *Seed, f *Figures) {
			for _, low := range []string{"50", "0"} {
				x := s.System(low, "TIMELY")
				f.Add("tlow"+low+"_gbps", float64(x.ThroughputGbps))
				f.Add("tlow"+low+"_wire_gbps", float64(x.WireGbps))
				f.Add("tlow"+low+"_rtt_p99_us", float64(x.RTTP99Us))
			}
		},
		Checks: []Check{value("tlow50_gbps"), value("tlow0_gbps")},
	}
}

func timelyFig15Tipping() *Row {
	segments, lows := []int{16, 32, 64}, []int{0, 10, 25, 50, 100, 200, 300, 500}
	run := func(kb, low int) string { return fmt.Sprintf("%dk_tlow%d", kb, low) }
	r := &Row{
		ID: "timely-fig15-tipping", Seconds: 30, Varies: []string{"t_low"},
		Quick: &Quick{Sets: short600(), Seconds: 8},
		Read: func(s *Seed, f *Figures) {
			for _, kb := range segments {
				best, at, tip := 0.0, 0, math.NaN()
				for i, low := range lows {
					x := s.System(run(kb, low), "TIMELY")
					f.Add(run(kb, low)+"_gbps", float64(x.ThroughputGbps))
					f.Add(run(kb, low)+"_rtt_p99_us", float64(x.RTTP99Us))
					if v := float64(x.ThroughputGbps); v > best {
						best, at = v, i
					}
				}
				// From the best T_low down to where throughput falls off by 3 percent.
				for i := at; i >= 0 && f.Get(run(kb, lows[i])+"_gbps") >= 0.97*best; i-- {
					tip = float64(lows[i])
				}
				f.Add(fmt.Sprintf("%dk_tipping_us", kb), tip)
			}
		},
		Checks: []Check{
			holds("the larger the segment, the higher the T_low below which throughput falls off by 3 percent", func(f *Figures) bool {
				return f.Get("16k_tipping_us") < f.Get("32k_tipping_us") && f.Get("32k_tipping_us") < f.Get("64k_tipping_us")
			}),
			holds("that is at most 50us for 16 KB", func(f *Figures) bool { return f.Get("16k_tipping_us") <= 50 }),
			holds("between 50 and 200us for 32 KB", func(f *Figures) bool { return f.Get("32k_tipping_us") >= 50 && f.Get("32k_tipping_us") <= 200 }),
			holds("between 200 and 500us for 64 KB", func(f *Figures) bool { return f.Get("64k_tipping_us") >= 200 && f.Get("64k_tipping_us") <= 500 }),
			holds("without T_low, larger segments get less", func(f *Figures) bool {
				return f.Get("16k_tlow0_gbps") > f.Get("32k_tlow0_gbps") && f.Get("32k_tlow0_gbps") > f.Get("64k_tlow0_gbps")
			}),
		},
		Charts: func(_ *Seed, f *Figures) []Chart {
			rate := Chart{Title: "Throughput by T_low", X: "T_low [us]", Y: axisGbps}
			rtt := Chart{Title: "99th percentile of round trips by T_low", X: "T_low [us]", Y: axisUs}
			for _, kb := range segments {
				name := fmt.Sprintf("%d KB", kb)
				rate.Lines = append(rate.Lines, over(name, f, floats(lows), func(i int) string { return run(kb, lows[i]) + "_gbps" }))
				rtt.Lines = append(rtt.Lines, over(name, f, floats(lows), func(i int) string { return run(kb, lows[i]) + "_rtt_p99_us" }))
			}
			return []Chart{rate, rtt}
		},
	}
	for _, kb := range segments {
		for _, low := range lows {
			r.Runs = append(r.Runs, Run{Name: run(kb, low), Sets: append(segmentSets(kb), fmt.Sprintf("params.t_low=%dus", low))})
		}
	}
	return r
}

func timelyFig16() *Row {
	paces := []int{0, 200, 300, 400, 500, 700, 1000, 2000, 5000}
	run := func(low, pace int) string { return fmt.Sprintf("tlow%d_pace%d", low, pace) }
	r := &Row{
		ID: "timely-fig16", Seconds: 20, Varies: []string{"t_low"},
		Quick: &Quick{Sets: short600(), Seconds: 5},
		Read: func(s *Seed, f *Figures) {
			for _, low := range []int{50, 0} {
				for _, pace := range paces {
					x := s.System(run(low, pace), "TIMELY")
					name := run(low, pace) + "_gbps"
					switch pace { // as papers.yaml calls them
					case 700:
						name = fmt.Sprintf("tlow%d_gbps", low)
					case 0:
						name = fmt.Sprintf("unpaced_tlow%d_gbps", low)
					}
					f.Add(name, float64(x.ThroughputGbps))
				}
			}
		},
		Checks: []Check{value("tlow50_gbps"), value("tlow0_gbps"), value("unpaced_tlow50_gbps"), value("unpaced_tlow0_gbps")},
		Charts: func(_ *Seed, f *Figures) []Chart {
			c := Chart{Title: "Throughput by the NIC's pacing rate; 10000 is not paced", X: "rate [Mbps]", Y: axisGbps, LogX: true}
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
			return []Chart{c}
		},
	}
	for _, low := range []int{50, 0} {
		for _, pace := range paces {
			r.Runs = append(r.Runs, Run{Name: run(low, pace), Sets: []string{fmt.Sprintf("params.t_low=%dus", low), fmt.Sprintf("params.nic_rate=%dMbps", pace)}})
		}
	}
	return r
}

func timelyFig17() *Row {
	connections, highs := []int{4, 7, 10}, []int{50, 100, 200, 300, 500, 1000}
	run := func(c, high int) string { return fmt.Sprintf("%dconn_thigh%d", c, high) }
	r := &Row{
		ID: "timely-fig17", Seconds: 30, Varies: []string{"t_high"},
		Quick: &Quick{Sets: []string{"duration=250ms", "warmup=150ms"}, Seconds: 11},
		Read: func(s *Seed, f *Figures) {
			for _, c := range connections {
				for _, high := range highs {
					x := s.System(run(c, high), "TIMELY")
					f.Add(run(c, high)+"_gbps", float64(x.ThroughputGbps))
					f.Add(run(c, high)+"_rtt_p99_us", float64(x.RTTP99Us))
				}
			}
		},
		Checks: []Check{
			holds("T_high 200us costs less than 2 percent of throughput at 4, 7 and 10 connections", func(f *Figures) bool {
				for _, c := range connections {
					if f.Get(run(c, 200)+"_gbps") < 0.98*f.Get(run(c, 1000)+"_gbps") {
						return false
					}
				}
				return true
			}),
			holds("at 10 connections it lowers the 99th percentile", func(f *Figures) bool {
				return f.Get("10conn_thigh200_rtt_p99_us") < f.Get("10conn_thigh1000_rtt_p99_us")
			}),
			holds("at 7 connections, T_high 100us does", func(f *Figures) bool {
				return f.Get("7conn_thigh100_rtt_p99_us") < f.Get("7conn_thigh1000_rtt_p99_us")
			}),
			holds("50us costs throughput at each", func(f *Figures) bool {
				for _, c := range connections {
					if f.Get(run(c, 50)+"_gbps") >= f.Get(run(c, 200)+"_gbps") {
						return false
					}
				}
				return true
			}),
			holds("more connections, longer tail, at T_high 500us", func(f *Figures) bool {
				return f.Get("4conn_thigh500_rtt_p99_us") < f.Get("7conn_thigh500_rtt_p99_us") && f.Get("7conn_thigh500_rtt_p99_us") < f.Get("10conn_thigh500_rtt_p99_us")
			}),
		},
		Charts: func(_ *Seed, f *Figures) []Chart {
			rate := Chart{Title: "Throughput by T_high", X: "T_high [us]", Y: axisGbps}
			rtt := Chart{Title: "99th percentile of round trips by T_high", X: "T_high [us]", Y: axisUs}
			for _, c := range connections {
				name := fmt.Sprintf("%d connections a client", c)
				rate.Lines = append(rate.Lines, over(name, f, floats(highs), func(i int) string { return run(c, highs[i]) + "_gbps" }))
				rtt.Lines = append(rtt.Lines, over(name, f, floats(highs), func(i int) string { return run(c, highs[i]) + "_rtt_p99_us" }))
			}
			return []Chart{rate, rtt}
		},
	}
	for _, c := range connections {
		for _, high := range highs {
			r.Runs = append(r.Runs, Run{Name: run(c, high), Sets: []string{fmt.Sprintf("params.t_high=%dus", high)}})
			last := &r.Runs[len(r.Runs)-1]
			if c%2 == 0 {
				last.Sets = append(last.Sets, fmt.Sprintf("params.connections=%d", c/2))
			} else {
				// Four of each client's to one port, three to the other.
				last.Sets = append(last.Sets, fmt.Sprintf("params.connections=%d", c/2), fmt.Sprintf("workloads[0].connections=%d", c-c/2))
			}
		}
	}
	return r
}

func timelyFig18() *Row {
	const stop = 300e3 // us
	// The change is when half of those that leave are gone.
	change := func(x *System) float64 {
		left := x.Series(results.SeriesFlows, "leaving").Between(stop, math.Inf(1))
		return left.Scale(1, -1).First(-45, 0)
	}
	to := func(x *System, mbps float64) float64 {
		from := change(x)
		mean := x.Series(results.SeriesRate, "staying").Between(from, math.Inf(1)).Scale(1, 1000.0/10) // Mbps a connection
		return (mean.First(mbps, 2e3) - from) / 1e3
	}
	return &Row{
		ID: "timely-fig18", Runs: []Run{{}}, Seconds: 4, Varies: []string{"hai_steps"},
		Quick: &Quick{Seconds: 4},
		Read: func(s *Seed, f *Figures) {
			hai, plain := s.System("", "with HAI"), s.System("", "without HAI")
			f.Add("before_mbps", hai.Series(results.SeriesRate, "staying").Between(200e3, stop).Mean()*100)
			f.Add("hai_to_1500mbps_ms", to(hai, 1500))
			// 95 percent of the payload that 2 Gbps carry, 1.85.
			f.Add("hai_to_2gbps_ms", to(hai, 1850*0.95))
			f.Add("plain_to_1500mbps_ms", to(plain, 1500))
			f.Add("plain_to_2gbps_ms", to(plain, 1850*0.95))
		},
		Checks: []Check{
			value("hai_to_1500mbps_ms"), value("hai_to_2gbps_ms"), value("plain_to_1500mbps_ms"),
			holds("hyperactive increase is faster", func(f *Figures) bool { return f.Get("hai_to_1500mbps_ms") < f.Get("plain_to_1500mbps_ms") }),
		},
		Charts: func(s *Seed, _ *Figures) []Chart {
			c := Chart{Title: "Mean rate of the connections that stay", X: axisMs, Y: "rate [Mbps]"}
			for _, name := range []string{"with HAI", "without HAI"} {
				c.Lines = append(c.Lines, s.System("", name).Series(results.SeriesRate, "staying").Scale(1e-3, 100).Line(name))
			}
			return []Chart{c}
		},
		Note: "after the departures the RTT lies below T_low, where Algorithm 1 adds a plain step at each completion and does not look at the count. Time counts from when half of those that leave are gone: they stop posting together and still send what they have posted, 256 KiB each. 2 Gbps stands for 95 percent of the payload that 2 Gbps carry",
	}
}

func floats(ints []int) []float64 {
	var out []float64
	for _, i := range ints {
		out = append(out, float64(i))
	}
	return out
}
