package reproduce

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/bench/results"
)

// The rows of PowerTCP (Addanki et al., NSDI 2022).

func powertcp() []*Row {
	return []*Row{
		powertcpIncast10("98 percent", 0.98),
		inArtefact(powertcpIncast10("94 percent, as its eta of 0.95 leaves", 0.94)),
		powertcpIncast255(),
		powertcpFairness(),
		powertcpShort("powertcp-fig6-20", 20, webText),
		inArtefactsWeb(powertcpShort("powertcp-fig6-20", 20, webArtefact), 100),
		powertcpShort("powertcp-fig6-60", 60, webText),
		inArtefactsWeb(powertcpShort("powertcp-fig6-60", 60, webArtefact), 140),
		powertcpMedium(webText),
		inArtefactsWeb(powertcpMedium(webArtefact), 100),
		powertcpLong(),
		powertcpBuffer(webText),
		inArtefactsWeb(powertcpBuffer(webArtefact), 100),
		powertcpBursts(webText),
		inArtefactsWeb(powertcpBursts(webArtefact), 330),
		powertcpRDCN(),
	}
}

// inArtefact is a row in the set-up of the paper's public simulation.
func inArtefact(r *Row) *Row {
	r.ID += "-artefact"
	for i := range r.runs {
		if r.runs[i].scenario != "" {
			r.runs[i].scenario += "-artefact"
		}
	}
	r.note = "the set-up and the engines' parameters are those of the paper's public simulation (inet-tub/ns3-datacenter, commit 6ddb4a4), which differ from the text's; docs/artefact.md holds its own figures against these engines'"
	return r
}

// keyed is a system, and what its figures' names begin with.
type keyed struct{ key, name string }

// queueAndUse draws the queue of a link and how much of the link is used, by system.
func queueAndUse(link string, systems []keyed) func(*seed, *figureSet) []chart {
	return func(s *seed, _ *figureSet) []chart {
		queue := chart{Title: "Queue at the receiver's switch", X: axisMs, Y: "queue [KB]"}
		busy := chart{Title: "Use of its link", X: axisMs, Y: "share"}
		for _, x := range systems {
			sys := s.system("", x.name)
			queue.Lines = append(queue.Lines, sys.Series(results.SeriesQueue, link).scale(1e-3, 1e-3).line(x.name))
			busy.Lines = append(busy.Lines, sys.Series(results.SeriesBusy, link).scale(1e-3, 1).line(x.name))
		}
		return []chart{queue, busy}
	}
}

// powertcpIncast10 takes how much of the link is to be busy for no throughput to be lost.
func powertcpIncast10(percent string, share float64) *Row {
	const link, start = "tor0->h0", 1000.0 // us
	systems := []keyed{{"powertcp", "PowerTCP"}, {"theta", "theta-PowerTCP"}, {"hpcc", "HPCC"}, {"timely", "TIMELY"}}
	return &Row{
		ID: "powertcp-fig4-10to1", runs: []rowRun{{}}, seconds: 3,
		quick: &quick{Seconds: 3},
		read: func(s *seed, f *figureSet) {
			for _, x := range systems {
				sys := s.system("", x.name)
				queue, busy := sys.Series(results.SeriesQueue, link), sys.Series(results.SeriesBusy, link)
				f.add(x.key+"_peak_kb", sys.most(results.SeriesQueue, link).between(start, math.Inf(1)).max()/1e3)
				// From when the queue has had time to drain: 0.6 MB take 200us, three times that.
				f.add(x.key+"_later_queue_kb", queue.between(start+2000, math.Inf(1)).mean()/1e3)
				f.add(x.key+"_least_busy", busy.between(start+100, math.Inf(1)).min())
			}
		},
		checks: []check{
			holds("PowerTCP: the queue comes back to less than a twentieth of its peak", func(f *figureSet) bool {
				return f.get("powertcp_later_queue_kb") < f.get("powertcp_peak_kb")/20
			}),
			holds("theta-PowerTCP: the same", func(f *figureSet) bool { return f.get("theta_later_queue_kb") < f.get("theta_peak_kb")/20 }),
			holds("neither loses throughput: the link is busy in every window after the onset to "+percent, func(f *figureSet) bool {
				return f.get("powertcp_least_busy") >= share && f.get("theta_least_busy") >= share
			}),
			holds("HPCC peaks at 1.5 times PowerTCP's queue or more", func(f *figureSet) bool { return f.get("hpcc_peak_kb") >= 1.5*f.get("powertcp_peak_kb") }),
			holds("HPCC loses throughput afterwards, more than its target leaves free", func(f *figureSet) bool { return f.get("hpcc_least_busy") < 0.94 }),
			holds("TIMELY does not control the queue: ten times PowerTCP's, later on", func(f *figureSet) bool {
				return f.get("timely_later_queue_kb") > 10*f.get("powertcp_later_queue_kb")
			}),
			holds("TIMELY loses throughput afterwards", func(f *figureSet) bool { return f.get("timely_least_busy") < 0.9 }),
		},
		charts: queueAndUse(link, systems),
		note:   "what the paper says of HOMA here is not held against anything: its set-up's HOMA is disputed",
	}
}

func powertcpIncast255() *Row {
	const link, start = "tor0->h0", 1000.0 // us
	const drained = start + 2000           // 255 answers of 8 KB and eleven first windows take a millisecond
	systems := []keyed{{"powertcp", "PowerTCP"}, {"theta", "theta-PowerTCP"}, {"hpcc", "HPCC"}, {"timely", "TIMELY"}, {"homa", "HOMA"}}
	return &Row{
		ID: "powertcp-fig4-255to1", runs: []rowRun{{}}, seconds: 3,
		quick: &quick{Seconds: 3},
		read: func(s *seed, f *figureSet) {
			for _, x := range systems {
				sys := s.system("", x.name)
				queue, busy := sys.Series(results.SeriesQueue, link), sys.Series(results.SeriesBusy, link)
				f.add(x.key+"_peak_kb", sys.most(results.SeriesQueue, link).between(start, math.Inf(1)).max()/1e3)
				f.add(x.key+"_later_queue_kb", queue.between(drained, math.Inf(1)).mean()/1e3)
				f.add(x.key+"_least_busy", busy.between(start+100, math.Inf(1)).min())
			}
			f.add("homa_over_powertcp_queue_kb", f.get("homa_peak_kb")-f.get("powertcp_peak_kb"))
		},
		checks: []check{
			holds("PowerTCP: the queue comes back to less than a twentieth of its peak", func(f *figureSet) bool {
				return f.get("powertcp_later_queue_kb") < f.get("powertcp_peak_kb")/20
			}),
			holds("theta-PowerTCP: the same", func(f *figureSet) bool { return f.get("theta_later_queue_kb") < f.get("theta_peak_kb")/20 }),
			holds("neither loses throughput: the link is 98 percent busy in every window after the onset", func(f *figureSet) bool {
				return f.get("powertcp_least_busy") >= 0.98 && f.get("theta_least_busy") >= 0.98
			}),
			holds("HPCC loses throughput afterwards, more than its target leaves free", func(f *figureSet) bool { return f.get("hpcc_least_busy") < 0.94 }),
			holds("TIMELY loses throughput afterwards", func(f *figureSet) bool { return f.get("timely_least_busy") < 0.9 }),
			reported(holds("HOMA's queue peaks above PowerTCP's", func(f *figureSet) bool { return f.get("homa_over_powertcp_queue_kb") > 0 })),
		},
		charts: queueAndUse(link, systems),
		note:   "the paper does not say how long the answers are: here a file of 2 MB comes from all 255 hosts. HOMA, whose queue ends about 500 KB higher there, is disputed and not counted",
	}
}

func powertcpFairness() *Row {
	systems := []keyed{{"powertcp", "PowerTCP"}, {"theta", "theta-PowerTCP"}, {"hpcc", "HPCC"}, {"timely", "TIMELY"}}
	// The least index of the windows of 100 us that begin 200 us or more after a change, and
	// the least use of the link in them.
	settled := func(x *system) (jain, busy float64) {
		jain, busy = 1, 1
		for k := range 7 {
			from, to := float64(k)*1000+300, float64(k+1)*1000
			jain = min(jain, x.Series(results.SeriesJain, "all").between(from, to).min())
			busy = min(busy, x.Series(results.SeriesBusy, "tor0->h4").between(from, to).min())
		}
		return jain, busy
	}
	return &Row{
		ID: "powertcp-fig5", runs: []rowRun{{}}, seconds: 1,
		quick: &quick{Seconds: 1},
		read: func(s *seed, f *figureSet) {
			for _, x := range systems {
				sys := s.system("", x.name)
				jain, busy := settled(sys)
				f.add(x.key+"_least_jain", jain)
				f.add(x.key+"_least_busy", busy)
				f.add(x.key+"_mean_jain", float64(sys.JainWindow))
			}
		},
		checks: []check{
			holds("PowerTCP: from 200us after each arrival and departure on, Jain's index over 100us is 0.95 or more", func(f *figureSet) bool { return f.get("powertcp_least_jain") >= 0.95 }),
			holds("and the link is 95 percent busy", func(f *figureSet) bool { return f.get("powertcp_least_busy") >= 0.95 }),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			var charts []chart
			for _, x := range systems {
				c := chart{Title: x.name, X: axisMs, Y: axisGbps}
				for i := range 4 {
					label := fmt.Sprintf("flow %d", i+1)
					c.Lines = append(c.Lines, s.system("", x.name).Series(results.SeriesWire, label).scale(1e-3, 1).line(label))
				}
				charts = append(charts, c)
			}
			return charts
		},
		note: "the paper gives neither the number of flows nor the steps: here four flows, a millisecond apart",
	}
}
