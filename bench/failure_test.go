package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
)

// Flows of a network whose links fail deliver every byte once, whatever is lost, and
// two runs are the same.
func TestFlowsSurviveFailures(t *testing.T) {
	text := `
duration: 200ms
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 4, host_rate: 25Gbps}
fabric:
  reroute: 50us
  pfc: {watchdog: 200us}
  ein: {gradient: 0.25, high_water: 50KiB}
  failures:
    - {link: tor0->spine0, at: 100us, for: 300us, down: true}
    - {link: spine1->tor1, at: 300us, for: 400us, down: true, both: false}
    - {link: tor0->h1, at: 200us, for: 500us, rate: 1Gbps}
    - {link: tor1->h5, at: 0s, for: 1ms, loss: 0.02}
nic: {timeout: 5}
systems: [{engine: timely}, {engine: poseidon}]
workloads:
  - {kind: permutation, size: 3MB}
  - {kind: all-reduce, size: 800KB}
  - {kind: storage, block: 16KiB, requests: 20}
`
	document := func() []byte {
		r := run(t, parse(t, text))
		for _, sys := range r.Systems {
			if want := int64(8*3_000_000 + 14*800_000 + 8*20*16384); sys.Bytes != want || sys.FlowsDone != 8+1+160 || sys.FlowsDone != sys.FlowsStarted {
				t.Errorf("%s: %d bytes, want %d; %d of %d flows done", sys.Name, sys.Bytes, want, sys.FlowsDone, sys.FlowsStarted)
			}
			if sys.Drops == 0 || sys.Retransmissions == 0 {
				t.Errorf("%s: nothing was lost, so nothing was tested", sys.Name)
			}
		}
		d := &results.Document{Results: []*results.Result{r}}
		d.ClearWall()
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(document(), document()) {
		t.Error("two runs of one seed differ")
	}
}

// In link-failure the dead link carries nothing, the others what it carried, and
// when it is back it is used again.
func TestLinkFailure(t *testing.T) {
	sys := run(t, load(t, "link-failure")).Systems[1]
	at := func(s *results.Series, us float64) float64 { return float64(s.Values[int(us/float64(s.StepUs))-1]) }
	for i := range sys.Series {
		switch s := &sys.Series[i]; {
		case s.Kind == results.SeriesRate && len(s.Values) > 40:
			if before, during := at(s, 900), at(s, 1800); during < before*0.95 {
				t.Errorf("%s: %.1f Gbps before and %.1f with a path less", s.Name, before, during)
			}
		case s.Kind == results.SeriesBusy && s.Name == "tor0->spine0":
			if before, during, slow, after := at(s, 900), at(s, 1800), at(s, 2900), at(s, 3900); before < 0.2 || during != 0 || slow < 0.95 || after < 0.2 || after > 0.3 {
				t.Errorf("%s is busy for %.2f, %.2f, %.2f, %.2f of the time", s.Name, before, during, slow, after)
			}
		}
	}
}

// Priorities of workloads reach the switches: the more urgent goes first, and
// weights share what is left.
func TestWorkloadPriorities(t *testing.T) {
	share := func(classes string) (urgent, other float64) {
		s := parse(t, `
duration: 2ms
warmup: 500us
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
fabric: {classes: `+classes+`}
nic: {mode: offload, timeout: 0}
systems: [{engine: none}]
workloads:
  - {kind: flows, name: urgent, priority: 2, flows: [{src: h0, dst: h2, size: unlimited}]}
  - {kind: flows, name: other, priority: 1, flows: [{src: h1, dst: h2, size: unlimited}]}
`)
		labels := run(t, s).Systems[0].Labels
		return float64(labels[0].ThroughputGbps), float64(labels[1].ThroughputGbps)
	}
	if urgent, other := share("[]"); urgent < 20 || other > 2.5 {
		t.Errorf("strict: %.1f and %.1f Gbps", urgent, other)
	}
	urgent, other := share("[{priority: 1, weight: 1}, {priority: 2, weight: 1}]")
	if urgent < 8 || other < 8 {
		t.Errorf("even weights: %.1f and %.1f Gbps", urgent, other)
	}
}

// A broken queue pair of a flow ends the run, and the error names the mend.
func TestBrokenFlowSaysWhatToDo(t *testing.T) {
	for _, model := range []string{"staged", "reduced"} {
		s := parse(t, `duration: 1ms
topology: {kind: star, hosts: 2, host_rate: 100Gbps}
fabric: {failures: [{link: h0->tor0, at: 10us, for: 900us, down: true}]}
nic: {timeout: 1, retry_cnt: 2}
systems: [{engine: none}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 1MB}]}]
`, "nic.mode=offload", "nic.model="+model)
		_, err := Run(s, Options{})
		if want := "flow 0 from h0 to h1: transport retry counter exceeded (2, with timers of 4.096 us * 2^1): raise nic.timeout or nic.retry_cnt, or have less lost"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", model, err, want)
		}
	}
}

// What fails, and what that sets off, is a timeline: ports of hosts go down with their links, one
// direction alone or a silent failure takes none down.
func TestTimeline(t *testing.T) {
	for _, model := range []string{"staged", "reduced"} {
		s := parse(t, `
duration: 30ms
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
fabric:
  failures:
    - {port: h0, at: 100us, for: 50us, every: 200us, times: 2, down: true}
    - {link: tor0->h1, at: 120us, for: 50us, both: false, down: true}
    - {port: h2, packet: 100, for: 100us, silent: true, both: false}
    - {port: h2, at: 400us, for: 100us, corrupt: 0.25, rate: 1Gbps}
nic: {timeout: 5, mode: offload}
systems: [{engine: none}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 1MB}, {src: h2, dst: h1, size: 1MB}]}]
`, "nic.model="+model)
		sys := run(t, s).Systems[0]
		var got []string
		for _, e := range sys.Timeline.Events {
			if !strings.HasPrefix(e.What, "h2->tor0: lossy") { // whose time is its packet's
				got = append(got, fmt.Sprintf("%v %s", e.AtUs, e.What))
			}
		}
		text := strings.Join(got, "\n")
		ports := map[bool][2]string{true: {"100 h0: event: port error\n", "150 h0: event: port active\n"}}[model == "staged"]
		for _, want := range []string{
			"100 h0->tor0: down\n" + ports[0], "100 tor0->h0: down\n120 tor0->h1: down\n", "150 h0->tor0: whole\n" + ports[1], "170 tor0->h1: whole\n",
			"300 h0->tor0: down\n", "350 tor0->h0: whole\n", "400 h2->tor0: slow (1Gbps of 25Gbps), corrupt (0.25)\n", "500 tor0->h2: whole",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the timeline is\n%s\nexpected %q in it", model, text, want)
			}
		}
		if n := strings.Count(text, "port error"); model == "staged" && n != 2 {
			t.Errorf("%d ports went down in\n%s", n, text)
		}
		if i := slices.IndexFunc(sys.Timeline.Events, func(e results.Occurrence) bool { return e.What == "h2->tor0: lossy (1)" }); i < 0 {
			t.Errorf("%s: h2's link was never silent:\n%s", model, text)
		}
		if sys.FlowsDone != 2 {
			t.Errorf("%s: %d of 2 flows ended", model, sys.FlowsDone)
		}
	}
}

// A NIC that dies, or a queue pair that fails, ends a run of flows with an error that says so.
func TestNICFailures(t *testing.T) {
	for _, c := range []struct{ failure, want string }{
		{"{nic: h0, at: 10us, dies: true}", "flow 0 from h0 to h1: work request flushed"},
		{"{nic: h0, qp: 1, packet: 20}", "flow 0 from h0 to h1: work request flushed"},
		{"{nic: h0, qp: 1, packet: 1, status: REM_ACCESS_ERR}", "flow 0 from h0 to h1: remote access error"},
		{"{nic: h0, qp: 1, at: 10us, post_send: ENOMEM}", "cannot allocate memory: as was asked of the device"},
		{"{nic: h0, qp: 1, at: 10us, poll_cq: EIO}", "poll_cq sim:h0: input/output error: as was asked of the device"},
	} {
		s := parse(t, `duration: 10ms
topology: {kind: star, hosts: 2, host_rate: 100Gbps}
fabric: {failures: [`+c.failure+`]}
systems: [{engine: none}]
workloads: [{kind: flows, message: 256KiB, flows: [{src: h0, dst: h1, size: 10MB}]}]
`, "nic.mode=offload")
		if _, err := Run(s, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.failure, err, c.want)
		}
	}
}

// Failures that are drawn happen at the same times in each system, and again with the same seed.
func TestDrawnFailures(t *testing.T) {
	notUnderRace(t)
	timelines := func(seed uint64) []string {
		s := parse(t, `
duration: 20ms
topology: {kind: star, hosts: 4, host_rate: 25Gbps}
fabric: {failures: [{port: 'h*', within: 1ms, random: 3, for: 20us, down: true}]}
nic: {timeout: 5}
systems: [{engine: none}, {engine: timely}]
workloads: [{kind: permutation, size: 1MB}]
`)
		r, err := Run(s, Options{Seed: &seed})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, sys := range r.Systems {
			var b strings.Builder
			for _, e := range sys.Timeline.Events {
				if strings.HasSuffix(e.What, ": down") || strings.HasSuffix(e.What, ": whole") {
					fmt.Fprintf(&b, "%v %s\n", e.AtUs, e.What)
				}
			}
			all = append(all, b.String())
		}
		return all
	}
	one := timelines(1)
	if one[0] != one[1] || strings.Count(one[0], ": down") < 4 {
		t.Errorf("the systems' timelines are\n%s\nand\n%s", one[0], one[1])
	}
	if !slices.Equal(one, timelines(1)) || one[0] == timelines(2)[0] {
		t.Error("a seed does not decide what fails")
	}
}

// A host that sends pause frames without end stops a rack that has nothing to do with it, until the watchdog drops
// what is for that host: the victims then finish while the storm lasts.
func TestPauseStorm(t *testing.T) {
	storm := func(watchdog string) (victims float64, sys *results.System) {
		s := parse(t, `
duration: 40ms
topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 4, host_rate: 25Gbps, trunk_rate: 100Gbps}
fabric:
  buffer: 2MiB
  failures: [{port: h0, at: 100us, for: 10ms, pfc_storm: true}]
nic: {mode: offload, timeout: 12}
systems: [{engine: none}]
workloads:
  - {kind: flows, name: storm, flows: [{src: h4, dst: h0, size: 4MB}]}
  - {kind: flows, name: victims, flows: [{src: h5, dst: h1, size: 1MB}, {src: h6, dst: h2, size: 1MB}, {src: h4, dst: h3, size: 1MB, start: 500us}]}
`, "fabric.pfc.watchdog="+watchdog)
		sys = run(t, s).Systems[0]
		for i := range sys.Labels {
			if sys.Labels[i].Label == "victims" {
				victims = float64(sys.Labels[i].FCTP99Us)
			}
		}
		return victims, sys
	}
	without, sys := storm("0s")
	if sys.WatchdogTrips != 0 || sys.Drops != 0 || without < 9000 {
		t.Errorf("without a watchdog: %d trips, %d drops, and the victims took up to %v us", sys.WatchdogTrips, sys.Drops, without)
	}
	if i := slices.IndexFunc(sys.Timeline.Events, func(e results.Occurrence) bool { return e.What == "h0->tor0: pause frames without end" }); i < 0 {
		t.Errorf("the timeline is %v", sys.Timeline.Events)
	}
	with, sys := storm("200us")
	if sys.WatchdogTrips == 0 || sys.WatchdogDrops == 0 || with > 2000 {
		t.Errorf("with a watchdog: %d trips, %d drops, and the victims took up to %v us", sys.WatchdogTrips, sys.WatchdogDrops, with)
	}
	t.Logf("victims: %v us without a watchdog, %v with one, which dropped %d packets in %d trips", without, with, sys.WatchdogDrops, sys.WatchdogTrips)
}

// A PCIe link that trains down slows the NIC while it lasts, and the timeline has that and an event of addresses.
func TestPCIeTrainsDown(t *testing.T) {
	last := func(failures string) (float64, string) {
		s := parse(t, `duration: 10ms
topology: {kind: star, hosts: 2, host_rate: 100Gbps}
fabric: {failures: [`+failures+`]}
systems: [{engine: none}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 10MB}]}]
`, "nic.mode=offload")
		sys := run(t, s).Systems[0]
		var b strings.Builder
		if sys.Timeline != nil {
			for _, e := range sys.Timeline.Events {
				fmt.Fprintf(&b, "%v %s\n", e.AtUs, e.What)
			}
		}
		return float64(sys.FCTP50Us), b.String()
	}
	whole, _ := last("")
	slow, text := last("{nic: h0, pcie: gen1x4, at: 100us, for: 1ms}, {nic: h0, pcie: gen1x1, at: 200us, for: 100us}, {nic: h1, gid_change: true, at: 50us}")
	want := `50 h1: event: GID table change
100 h0: its PCIe link trains to gen1x4 (8Gbps of 227.4Gbps)
200 h0: its PCIe link trains to gen1x1 (2Gbps of 227.4Gbps)
300 h0: its PCIe link trains to gen1x4 (8Gbps of 227.4Gbps)
1100 h0: its PCIe link is whole
`
	if text != want {
		t.Errorf("the timeline is\n%s\nexpected\n%s", text, want)
	}
	if slow < whole+800 || slow > whole+1000 {
		t.Errorf("the flow took %v us, and %v with the link whole", slow, whole)
	}
}
