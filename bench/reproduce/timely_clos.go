package reproduce

import "fmt"

// timelyFig19 is TIMELY's large experiment, in small.
func timelyFig19() *Row {
	loads := []int{40, 70, 90, 110} // percent of what leaves a rack
	// The paper's background loads are shares of its largest offered load.
	backgrounds := []struct {
		name    string
		percent int
	}{{"low", 18}, {"medium", 33}, {"high", 55}}
	systems := []struct{ key, name string }{{"pfc", "PFC only"}, {"timely", "TIMELY"}}
	rate := func(percent int) string { return fmt.Sprintf("params.rate=%d", 95*percent) }
	r := &Row{
		ID: "timely-fig19-22", Seeds: 5, seconds: 300,
		quick: &quick{Sets: []string{"duration=40ms", "warmup=20ms"}, Seconds: 30},
		read: func(s *seed, f *figureSet) {
			for _, x := range systems {
				for _, load := range loads {
					sys := s.system(fmt.Sprint(load), x.name)
					add := func(what string, v float64) { f.add(fmt.Sprintf("load%d_%s_%s", load, x.key, what), v) }
					add("accepted_gbps", float64(sys.ThroughputGbps))
					add("rtt_p50_us", float64(sys.RTTP50Us))
					add("rtt_p99_us", float64(sys.RTTP99Us))
					add("rpc_p50_us", float64(sys.FCTP50Us))
					add("rpc_p99_us", float64(sys.FCTP99Us))
				}
				for _, b := range backgrounds {
					without, with := s.system(b.name, x.name), s.system(b.name+"+incast", x.name)
					f.add(fmt.Sprintf("%s_%s_alone_gbps", b.name, x.key), float64(without.ThroughputGbps))
					f.add(fmt.Sprintf("%s_%s_with_incast_gbps", b.name, x.key), float64(with.label("rpc").ThroughputGbps))
					f.add(fmt.Sprintf("%s_%s_rtt_p99_us", b.name, x.key), float64(with.label("rpc").RTTP99Us))
				}
			}
		},
		charts: func(_ *seed, f *figureSet) []chart {
			var charts []chart
			for _, c := range []struct{ title, y, what string }{
				{"Accepted load (figure 19)", "payload [Gbps]", "accepted_gbps"}, {"99th percentile of round trips (figure 20)", axisUs, "rtt_p99_us"}, {"Median RPC (figure 21)", "latency [us]", "rpc_p50_us"},
			} {
				chart := chart{Title: c.title, X: "offered load [percent]", Y: c.y}
				for _, x := range systems {
					chart.Lines = append(chart.Lines, over(x.name, f, floats(loads), func(i int) string { return fmt.Sprintf("load%d_%s_%s", loads[i], x.key, c.what) }))
				}
				charts = append(charts, chart)
			}
			return charts
		},
		scaling: "32 hosts in four racks with a 2:1 oversubscription and buffers in proportion to the ports, where the paper has a few hundred machines in a Clos network of unstated proportions: what a core simulates in seconds. The 40-to-1 incast is of 20 hosts with two connections each.",
		note:    "round trips are those of the segments themselves, where the paper has pingers; its topology, buffers, cap on outstanding data and connections a pair are not given",
	}
	for _, load := range loads {
		r.runs = append(r.runs, rowRun{name: fmt.Sprint(load), sets: []string{rate(load)}})
	}
	for _, b := range backgrounds {
		r.runs = append(r.runs, rowRun{name: b.name, sets: []string{rate(b.percent)}}, rowRun{name: b.name + "+incast", sets: []string{rate(b.percent), "params.incast=20"}})
	}
	r.checks = []check{
		above("accepted at 110 percent: TIMELY over PFC", "load110_timely_accepted_gbps", "load110_pfc_accepted_gbps", none64),
		above("median RTT at 90 percent: PFC over TIMELY", "load90_pfc_rtt_p50_us", "load90_timely_rtt_p50_us", 2),
		above("99th percentile of RTT at 90 percent: PFC over TIMELY", "load90_pfc_rtt_p99_us", "load90_timely_rtt_p99_us", 5),
		above("median RPC at 90 percent: PFC over TIMELY", "load90_pfc_rpc_p50_us", "load90_timely_rpc_p50_us", 2),
		below("PFC, low background: with incast over without", "low_pfc_with_incast_gbps", "low_pfc_alone_gbps", 0.87),
		below("PFC, high background: with incast over without", "high_pfc_with_incast_gbps", "high_pfc_alone_gbps", 0.46),
		holds("TIMELY keeps 95 percent of each background's throughput", func(f *figureSet) bool {
			for _, b := range backgrounds {
				if f.get(b.name+"_timely_with_incast_gbps") < 0.95*f.get(b.name+"_timely_alone_gbps") {
					return false
				}
			}
			return true
		}),
	}
	return r
}
