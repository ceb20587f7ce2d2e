package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
)

// ringOf is switches in a ring with a host each, and flows so many hops around it.
func ringOf(switches, hops int, more string) string {
	var hosts, names, links, flows []string
	for i := range switches {
		hosts, names = append(hosts, fmt.Sprintf("h%d", i)), append(names, fmt.Sprintf("s%d", i))
		links = append(links, fmt.Sprintf("{a: h%d, b: s%d}", i, i), fmt.Sprintf("{a: s%d, b: s%d}", i, (i+1)%switches))
		flows = append(flows, fmt.Sprintf("{src: h%d, dst: h%d, size: 20MB}", i, (i+hops)%switches))
	}
	return fmt.Sprintf(`
duration: 4ms
topology: {kind: graph, host_rate: 100Gbps, host_delay: 1us, hosts: [%s], switches: [%s], links: [%s]}
workloads: [{kind: flows, flows: [%s]}]
systems: [{engine: none}]
%s`, strings.Join(hosts, ", "), strings.Join(names, ", "), strings.Join(links, ", "), strings.Join(flows, ", "), more)
}

// A deadlock is named on screen, in the JSON and on the page, and is the same at any number of workers.
func TestADeadlockIsNamed(t *testing.T) {
	text := ringOf(5, 2, "fabric: {pfc: {xoff: 40KiB}}")
	var first []byte
	for _, workers := range runsOf(0, 1, 2, 3) {
		r, err := Run(parse(t, text), Options{Workers: workers, smallWindows: true})
		if err != nil {
			t.Fatal(err)
		}
		s := r.Systems[0]
		if len(s.Deadlocks) != 1 || len(s.Deadlocks[0].Queues) != 5 || s.Deadlocks[0].SinceUs <= 0 {
			t.Fatalf("%d workers: %+v", workers, s.Trouble)
		}
		s.Undivided, s.Events, r.Events = "", 0, 0 // divided networks need fewer
		d := &results.Document{Results: []*results.Result{r}}
		d.ClearWall()
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(first, b) {
			t.Errorf("%d workers give another result", workers)
		}
		var table, page strings.Builder
		if err := results.Table(&table, r); err != nil {
			t.Fatal(err)
		}
		if err := results.WriteHTML(&page, d); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"a PFC deadlock, for ever from ", "queue to s1 (priority ", "the deadlock ruled", "0 of 5 flows ended; 5 never could: their path leads through a PFC deadlock: flow 0 h0->h2"} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("%q is missing in\n%s", want, table.String())
			}
		}
		if strings.Contains(table.String(), "posted no more") || !strings.Contains(page.String(), "a PFC deadlock") {
			t.Errorf("table or page\n%s", table.String())
		}
	}
}

// A receiver that is slow roots a tree of pauses; that is no deadlock.
func TestASlowReceiverIsNoDeadlock(t *testing.T) {
	s := run(t, parse(t, `
duration: 2ms
topology: {kind: chain, switches: 3, hosts_per_switch: 3, host_rate: 100Gbps}
fabric: {pfc: {xoff: 30KiB}}
workloads: [{kind: flows, flows: [{src: h3, dst: h0, size: unlimited}, {src: h4, dst: h0, size: unlimited}, {src: h6, dst: h0, size: unlimited}, {src: h7, dst: h0, size: unlimited}]}]
systems: [{engine: none}]
`)).Systems[0]
	if s.PauseFrames == 0 || len(s.Deadlocks) > 0 || strings.Contains(s.RuledBy, "deadlock") || s.Unfinished != nil {
		t.Errorf("%+v %q", s.Trouble, s.RuledBy)
	}
}

// A lossless class that drops says so first, with the headroom that it lacks, and the
// scenario warns of it before it runs.
func TestALosslessClassThatDropsSaysSo(t *testing.T) {
	text := `
duration: 2ms
topology: {kind: star, hosts: 5, host_rate: 100Gbps, host_delay: 2us}
fabric: {pfc: {xoff: 100KiB, headroom: 1KiB}}
workloads: [{kind: incast, senders: [h1..h4], receiver: h0, size: 1MB}]
systems: [{engine: none}]
`
	s := parse(t, text)
	r := run(t, s)
	sys := r.Systems[0]
	if sys.Loss == nil || sys.Loss.Drops == 0 || sys.Loss.HeadroomBytes != 1024 || sys.Loss.NeededBytes < 50_000 || sys.Loss.Link != "tor0->h0" {
		t.Fatalf("%+v", sys.Loss)
	}
	if want := fmt.Sprintf("lossless priorities dropped %d packets, most at tor0 for tor0->h0", sys.Drops); !strings.HasPrefix(sys.RuledBy, want) || strings.Contains(sys.RuledBy, "line rate ruled") {
		t.Errorf("%q, expected %q", sys.RuledBy, want)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "test.yaml:4: fabric.pfc.headroom: is 1KiB, and rate and length of ") {
		t.Errorf("warnings %q", r.Warnings)
	}
	// What it asks for suffices, and what is computed does.
	for _, set := range []string{fmt.Sprintf("fabric.pfc.headroom=%dB", sys.Loss.NeededBytes), "fabric.pfc.headroom=0B"} {
		r := run(t, parse(t, text, set))
		if sys := r.Systems[0]; sys.Loss != nil || sys.Drops > 0 || len(r.Warnings) > 0 {
			t.Errorf("%s: %+v, %d drops, warnings %q", set, sys.Loss, sys.Drops, r.Warnings)
		}
	}
}

// Flows whose path is dead to the end are counted and named.
func TestFlowsWithoutAPathAreNamed(t *testing.T) {
	text := `
duration: 20ms
topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 4, host_rate: 25Gbps}
fabric: {failures: [{link: tor0->spine0, at: 100us, down: true}]}
workloads:
  - {kind: flows, flows: [{src: h0, dst: h4, size: 10MB}, {src: h1, dst: h5, size: 10MB}, {src: h2, dst: h6, size: 10MB}, {src: h3, dst: h7, size: 10MB}]}
  - {kind: flows, name: local, flows: [{src: h4, dst: h5, size: 1MB}, {src: h5, dst: h6, size: 1MB}, {src: h6, dst: h7, size: 1MB}, {src: h7, dst: h4, size: 1MB}]}
systems: [{engine: timely}]
`
	for _, set := range []string{"nic.model=staged", "nic.model=reduced", "fabric.reroute=50us"} {
		r := run(t, parse(t, text, set))
		u := r.Systems[0].Unfinished
		if u == nil || u.Ended != 4 || u.Of != 8 || len(u.Groups) != 1 || !u.Groups[0].Never || u.Groups[0].Flows != 4 {
			t.Fatalf("%s: %+v", set, u)
		}
		var table strings.Builder
		if err := results.Table(&table, r); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{" 4 of 8 ", "timely: 4 of 8 flows never could end, for want of a path", "timely: 4 of 8 flows ended; 4 never could: tor0->spine0 is down to the end", "flow 0 h0->h4, flow 1 h1->h5"} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", set, want, table.String())
			}
		}
	}
}

// The circle is of the priority whose flows go round: another beside it is not named.
func TestDeadlocksOfTwoPriorities(t *testing.T) {
	text := ringOf(5, 2, "fabric: {pfc: {xoff: 40KiB}}")
	text = strings.Replace(text, "workloads: [{kind: flows, ", "workloads: [{kind: flows, name: a, priority: 3, flows: [{src: h0, dst: h1, size: 1MB}]}, {kind: flows, priority: 5, ", 1)
	s := run(t, parse(t, text)).Systems[0]
	if len(s.Deadlocks) != 1 || s.Deadlocks[0].Queues[0].Priority != 5 || s.Unfinished == nil || s.Unfinished.Ended > 1 {
		t.Errorf("%+v", s.Trouble)
	}
}
