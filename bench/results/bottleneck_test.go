package results

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// Every way in which a NIC may be limited has its sentence.
func TestBottleneck(t *testing.T) {
	stage := func(name string, busy int64, why string, stalled int64) NICStage {
		s := NICStage{Stage: name, ClockHz: 1e9, Served: 10, Elapsed: 1000, Busy: busy, Idle: 1000 - busy - stalled}
		if why != "" {
			s.Stalled = map[string]int64{why: stalled}
		}
		return s
	}
	pcie := func(direction string, busy stats.Float, purposes map[string]int64) NICPCIe {
		return NICPCIe{Direction: direction, Busy: busy, Bytes: 1000, ByPurpose: purposes, PerRequest: 100}
	}
	quiet := []NICPCIe{pcie(ToHost, 0.1, map[string]int64{"cqe": 1000}), pcie(FromHost, 0.2, map[string]int64{"payload": 1000})}
	for _, c := range []struct {
		u    NICUse
		want string
	}{
		{NICUse{Stages: []NICStage{stage("mac", 998, "", 0)}, PCIe: quiet}, "h0's NIC: the wire is busy 99.8 %; next is PCIe from the host, 20.0 %"},
		{
			NICUse{Stages: []NICStage{stage("mac", 500, "", 0)}, PCIe: []NICPCIe{pcie(ToHost, 0.97, map[string]int64{"payload": 800, "cqe": 200}), quiet[1]}},
			"h0's NIC: PCIe to the host is busy 97.0 %, 100.0 bytes a request, 80.0 % of them payload; next is the wire, 50.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 100, "", 0)}, PCIe: []NICPCIe{quiet[0], pcie(FromHost, 0.95, map[string]int64{"doorbell": 900, "payload": 100})}},
			"h0's NIC: PCIe from the host is busy 95.0 %, 100.0 bytes a request, 90.0 % of them doorbell; next is the wire, 10.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("wqe", 700, "", 0)}, PCIe: quiet},
			"h0's NIC: stage wqe is busy 70.0 %, 70 cycles for each of 10; next is PCIe from the host, 20.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("scheduler", 50, "tx_buffer", 900), stage("packetiser", 100, "pcie", 890)}, PCIe: quiet},
			"h0's NIC: stage scheduler waits 90.0 % of its time for room before the wire, stage packetiser waits 89.0 % of its time for data over PCIe, and nothing is busy for more than 20.0 % (PCIe from the host): latency limits, not a rate",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "requests", Came: 9, Mean: 4, WaitUs: 5.5}, {Queue: "queue pairs", Came: 1, Mean: 1, WaitUs: 5}}},
			"h0's NIC: no stage above 60.0 %; the busiest is the wire, 30.0 %. 4.0 requests are under way on average, 5.50 us each: that latency limits, and how many the workload keeps under way",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "requests", Came: 9, Mean: 0.1, WaitUs: 5.5}, {Queue: "queue pairs", Came: 1, Mean: 0.05, WaitUs: 5}}},
			"h0's NIC: no stage above 60.0 %; the busiest is the wire, 30.0 %. 0.10 requests are under way on average, 5.50 us each: the workload asks for no more",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "requests", Came: 9, Mean: 4, WaitUs: 5.5}, {Queue: "completions", Came: 9, Mean: 40, WaitUs: 55}}},
			"h0's NIC: the host limits, which has 40.0 completions to poll on average, 55.00 us each, of requests that take 5.50 us; the busiest is the wire, 30.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet},
			"h0's NIC: no stage above 60.0 %; the busiest is the wire, 30.0 %. It answers others, who limit, or the network does",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "pause", 650), stage("scheduler", 50, "tx_buffer", 640)}, PCIe: quiet},
			"h0's NIC: the wire waits 65.0 % of its time for the end of a pause, stage scheduler waits 64.0 % of its time for room before the wire: the network limits; the busiest is the wire, 30.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "queue pairs", Mean: 4}}, Waits: []NICWait{{Where: "queue pairs", For: "the window", Mean: 0.2}, {Where: "queue pairs", For: "the pace", Mean: 3.6}}},
			"h0's NIC: the rate of the engine, or the one that was set, limits, for which 3.6 of 4.0 queue pairs with requests wait on average; the busiest is the wire, 30.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0), stage("scheduler", 50, "tx_buffer", 940)}, PCIe: quiet, Waits: []NICWait{{Where: "pcie", For: "a tag", Mean: 2.5, Taken: true}}},
			"h0's NIC: the number of PCIe reads at a time (tags) limits, for which 2.5 wait on average; the busiest is the wire, 30.0 %",
		},
	} {
		c.u.NIC = "h0"
		if got := c.u.limit(nil); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// A sender that is paused names the NICs that pause.
func TestPausedBy(t *testing.T) {
	paused := NICStage{Stage: "mac", ClockHz: 1e9, Served: 10, Elapsed: 1000, Busy: 100, Stalled: map[string]int64{"pause": 900}}
	full := &NICBuffer{Pauses: 3}
	for _, c := range []struct {
		pausing int // of the other NICs
		want    string
	}{
		{0, "the network limits; "},
		{1, "the network limits, which h1's NIC pauses; "},
		{3, "the network limits, which the NICs of h1, h2 and h3 pause; "},
	} {
		nics := make([]NICUse, 4)
		for i := range nics {
			nics[i].NIC = fmt.Sprintf("h%d", i)
			nics[i].Stages = []NICStage{paused, {Stage: "wqe", ClockHz: 1e9, Elapsed: 1000}}
			if i <= c.pausing {
				nics[i].Buffer = full // its own, too
			}
		}
		Explain(nics)
		if got := nics[0].Bottleneck; !strings.Contains(got, c.want) {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
