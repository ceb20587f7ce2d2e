package reproduce

import (
	"math"
	"slices"

	"github.com/sluice-rdma/sluice/bench/results"
)

// The reconfigurable network of PowerTCP's section 5.

const (
	rdcnDay, rdcnWeek = 225.0, 24 * 245.0 // us, and the circuit of the row is up first
	rdcnVOQ           = "tor0->tor1"
	rdcnUplink        = "tor0->core0"
	rdcnCircuit       = 100.0 // Gbps
	rdcnPacket        = 25.0
)

var rdcnSystems = []struct{ key, name string }{
	{"powertcp", "PowerTCP"}, {"hpcc", "HPCC"}, {"retcp600", "reTCP 600us"}, {"retcp1800", "reTCP 1800us"},
}

// rdcnWaits returns the 99th percentile of how long packets wait in a VOQ, in us, of all
// and of packets that leave by day: what stood in it in the mean of each step over the rate at which
// it drained, weighted by what left in that step. And the share of days for which the
// circuit was busy.
func rdcnWaits(x *system) (all, byDay, use float64) {
	queue, circuit, uplink := x.Series(results.SeriesQueue, rdcnVOQ), x.Series(results.SeriesBusy, rdcnVOQ), x.Series(results.SeriesBusy, rdcnUplink)
	var waits, dayWaits []weighted
	var days curve
	for i, at := range queue.X {
		if at <= rdcnWeek || i >= len(circuit.Y) || i >= len(uplink.Y) {
			continue
		}
		// A point is of the step that ends there.
		if math.Mod(at-1, rdcnWeek) < rdcnDay {
			w := weighted{queue.Y[i] * 8 / (rdcnCircuit * 1e3), circuit.Y[i] * rdcnCircuit}
			waits, dayWaits = append(waits, w), append(dayWaits, w)
			days.Y = append(days.Y, circuit.Y[i])
		} else {
			waits = append(waits, weighted{queue.Y[i] * 8 / (rdcnPacket * 1e3), uplink.Y[i] * rdcnPacket})
		}
	}
	return percentileOf(waits, 0.99), percentileOf(dayWaits, 0.99), days.mean()
}

// weighted is a value that stands for so much of the whole.
type weighted struct{ v, weight float64 }

// percentileOf returns the least value up to which lies a share of the weight, NaN if
// there is none. Weights are no counts, so there is no rank that package quantile could
// round.
func percentileOf(all []weighted, share float64) float64 {
	slices.SortFunc(all, func(a, b weighted) int {
		switch {
		case a.v < b.v:
			return -1
		case a.v > b.v:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, w := range all {
		sum += w.weight
	}
	below := 0.0
	for _, w := range all {
		if below += w.weight; below >= float64(share*sum) && sum > 0 {
			return w.v
		}
	}
	return math.NaN()
}

func powertcpRDCN() *Row {
	return &Row{
		ID: "powertcp-rdcn", runs: []rowRun{{}}, seconds: 100, Seeds: 5, varies: []string{"once_per_rtt", "min_current"},
		quick: &quick{Sets: []string{"params.others=0", "params.last=0"}, Seconds: 2,
			Unlike: "where one rack alone sends, reTCP with 600us falls a little short of filling the circuit"},
		read: func(s *seed, f *figureSet) {
			for _, x := range rdcnSystems {
				all, byDay, use := rdcnWaits(s.system("", x.name))
				f.add(x.key+"_circuit_use", use)
				f.add(x.key+"_voq_wait_p99_us", all)
				f.add(x.key+"_voq_wait_by_day_p99_us", byDay)
			}
			over := func(key string) float64 {
				return f.get(key+"_voq_wait_p99_us") / f.get("powertcp_voq_wait_p99_us")
			}
			f.add("retcp1800_queue_over_powertcp", over("retcp1800"))
			f.add("retcp600_queue_over_powertcp", over("retcp600"))
		},
		checks: []check{
			holds("PowerTCP fills 80 percent of the circuit or more", func(f *figureSet) bool { return f.get("powertcp_circuit_use") >= 0.8 }),
			holds("HPCC does not fill it: less than 80 percent, and less than PowerTCP", func(f *figureSet) bool {
				return f.get("hpcc_circuit_use") < min(0.8, f.get("powertcp_circuit_use"))
			}),
			holds("reTCP fills it at once: 95 percent or more, with either prebuffering", func(f *figureSet) bool {
				return f.get("retcp600_circuit_use") >= 0.95 && f.get("retcp1800_circuit_use") >= 0.95
			}),
			above("tail of the wait in the queue, reTCP with 1800us over PowerTCP", "retcp1800_voq_wait_p99_us", "powertcp_voq_wait_p99_us", 5),
			above("reTCP with 600us over PowerTCP", "retcp600_voq_wait_p99_us", "powertcp_voq_wait_p99_us", 2),
		},
		charts: func(s *seed, _ *figureSet) []chart {
			rate := chart{Title: "Throughput from a rack to the next, around a day", X: axisMs, Y: axisGbps}
			voq := chart{Title: "Its virtual output queue", X: axisMs, Y: "queue [KB]"}
			for _, x := range rdcnSystems {
				sys := s.system("", x.name)
				around := func(c curve) curve { return c.between(2*rdcnWeek-2000, 2*rdcnWeek+1000) }
				circuit, uplink := around(sys.Series(results.SeriesBusy, rdcnVOQ)), around(sys.Series(results.SeriesBusy, rdcnUplink))
				sum := curve{X: circuit.X}
				for i := range circuit.Y {
					sum.Y = append(sum.Y, float64(circuit.Y[i]*rdcnCircuit)+float64(uplink.Y[i]*rdcnPacket))
				}
				rate.Lines = append(rate.Lines, sum.scale(1e-3, 1).line(x.name))
				voq.Lines = append(voq.Lines, around(sys.Series(results.SeriesQueue, rdcnVOQ)).scale(1e-3, 1e-3).line(x.name))
			}
			return []chart{rate, voq}
		},
		note: "the paper says neither who sends to whom nor what its tail is of, nor how long VOQs are: here each rack sends to the next, the tail is the 99th percentile of all packets' waits, by day and night, and bounds are those of reTCP's public experiments; of packets that take the circuit the figures by day are",
	}
}
