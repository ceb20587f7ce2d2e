package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// near reports whether two figures differ by no more than a share of the larger.
func near(a, b stats.Float, share float64) bool {
	return math.Abs(float64(a-b)) <= share*max(math.Abs(float64(a)), math.Abs(float64(b)))
}

// The same scenario gives close figures with either model of the NIC. Rates of the
// wire and bytes are those of the network, and must all but agree; round trips and
// queues depend on which packet comes first, and are given more room.
func TestModelsAgree(t *testing.T) {
	notUnderRace(t)
	for _, c := range []struct {
		scenario  string
		sets      []string
		rate, rtt float64
	}{
		{"quickstart", nil, 0.01, 0.03},
		{"powertcp-incast", []string{"expect=[]"}, 0.01, 0.15},
		{"poseidon-multihop-5-9", []string{"expect=[]"}, 0.01, 0.05},
		{"permutation", nil, 0.1, 0.2},
	} {
		staged := run(t, load(t, c.scenario, append(c.sets, "nic.mode=offload")...))
		light := run(t, load(t, c.scenario, append(c.sets, "nic.model=reduced")...))
		for i, a := range staged.Systems {
			b := light.Systems[i]
			if a.Mode != "offload" || b.Mode != "offload" {
				t.Errorf("%s, %s: engines run in the %s and the %s", c.scenario, a.Name, a.Mode, b.Mode)
			}
			if a.FlowsDone != b.FlowsDone || a.Drops != b.Drops || !near(a.ThroughputGbps, b.ThroughputGbps, c.rate) || !near(a.WireGbps, b.WireGbps, c.rate) {
				t.Errorf("%s, %s: %d and %d flows, %.2f and %.2f Gbps, %.2f and %.2f on the wire, %d and %d drops", c.scenario, a.Name,
					a.FlowsDone, b.FlowsDone, a.ThroughputGbps, b.ThroughputGbps, a.WireGbps, b.WireGbps, a.Drops, b.Drops)
			}
			if !near(a.RTTAvgUs, b.RTTAvgUs, c.rtt) || !near(a.RTTP50Us, b.RTTP50Us, c.rtt) || !near(stats.Float(a.RTTSamples), stats.Float(b.RTTSamples), 0.03) {
				t.Errorf("%s, %s: round trips of %.1f and %.1f us, in the middle %.1f and %.1f, %d and %d samples", c.scenario, a.Name,
					a.RTTAvgUs, b.RTTAvgUs, a.RTTP50Us, b.RTTP50Us, a.RTTSamples, b.RTTSamples)
			}
			if a.FlowsDone > 0 && !near(a.FCTAvgUs, b.FCTAvgUs, max(c.rate, c.rtt/2)) {
				t.Errorf("%s, %s: completion times of %.1f and %.1f us", c.scenario, a.Name, a.FCTAvgUs, b.FCTAvgUs)
			}
			if got, want := kindsOf(b), kindsOf(a); got != want {
				t.Errorf("%s, %s: there is %s, and with staged NICs %s", c.scenario, a.Name, got, want)
			}
		}
	}
}

// kindsOf lists what there is of a system beside figures.
func kindsOf(s *results.System) string {
	var all []string
	for i := range s.Series {
		all = append(all, s.Series[i].Kind+" "+s.Series[i].Name)
	}
	for i := range s.Distributions {
		all = append(all, s.Distributions[i].Kind+" "+s.Distributions[i].Name)
	}
	for i := range s.Links {
		all = append(all, s.Links[i].Link)
	}
	for i := range s.Labels {
		all = append(all, s.Labels[i].Label)
	}
	return strings.Join(all, ", ")
}

// A round trip of an idle network has a closed form, to the picosecond: what the
// hosts add is on both ways, and the completion comes on top of the flow's time.
func TestReducedIdle(t *testing.T) {
	s := parse(t, `
duration: 1ms
topology: {kind: star, hosts: 2, host_rate: 100Gbps, host_delay: 1us}
fabric: {switch_latency: 300ns}
nic: {model: reduced, mtu: 1000, host_start: 0, host_send: 200ns, host_receive: 400ns, completion: 5us}
systems: [{engine: none}]
measure: {sample: 0s}
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 1000B}]}]
`)
	var record results.FlowRecord
	if _, err := Run(s, Options{Flows: func(r *results.FlowRecord) error {
		rtt, fct, slowdown := *r.RTTAvgUs, *r.FCTUs, *r.Slowdown
		record = *r
		record.RTTAvgUs, record.FCTUs, record.Slowdown = &rtt, &fct, &slowdown
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	// Frames of 1000 + 78 and 66 bytes with 20 of framing, twice; four links; two
	// switches; both hosts on both ways.
	want := 2*(1098+86)*80e-6 + 4 + 2*0.3 + 2*(0.2+0.4)
	if math.Abs(*record.RTTAvgUs-want) > 2e-6 || math.Abs(*record.FCTUs-want-5) > 2e-6 || math.Abs(*record.Slowdown-1) > 1e-6 {
		t.Errorf("a round trip of %v us, want %v; all in %v us, want %v; slowdown %v", *record.RTTAvgUs, want, *record.FCTUs, want+5, *record.Slowdown)
	}
}

// All built-in scenarios of Writes and READs run with reduced NICs, and add up; so do networks
// that lose packets.
func TestReducedConservation(t *testing.T) {
	notUnderRace(t)
	ran := 0
	for _, name := range scenario.Builtins() {
		s, err := scenario.Load(name, "duration=2ms", "warmup=0", "expect=[]", "nic.model=reduced", "nic.mode=auto")
		if err != nil {
			if !slices.ContainsFunc([]string{"reduced NICs have Writes and READs", "no host works on", "no stages to look into", "reduced NICs run the engine themselves", "which has no groups"}, func(why string) bool {
				return strings.Contains(err.Error(), why)
			}) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for i, sys := range s.Systems {
			ran++
			out, _, err := runSystem(s, i, 3, 0, func(float64) {}, &Options{}, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if out.Bytes == 0 || out.PacketHops == 0 || sys.Fabric.PFC.Enabled && out.Drops > 0 && len(sys.Fabric.Failures)+len(sys.Fabric.Faults) == 0 {
				t.Errorf("%s, %s: %d bytes in %d packet-hops, %d drops", name, sys.Name, out.Bytes, out.PacketHops, out.Drops)
			}
		}
	}
	if ran < 15 {
		t.Errorf("only %d systems ran", ran)
	}
	s := parse(t, `
duration: 5s
topology: {kind: star, hosts: 4, host_rate: 25Gbps}
fabric: {faults: [{link: "*", loss: 0.005}]}
nic: {model: reduced, timeout: 6, mtu: 1500, ack_every: 3}
systems: [{engine: timely}, {engine: powertcp}, {engine: poseidon}]
workloads:
  - {kind: permutation, size: 5MB}
  - {kind: permutation, name: messages, message: 100KB, size: 1MB, jitter: 1ms}
  - {kind: rpc, clients: [h0, h1], servers: [h2, h3], request: 5KB, response: 50KB, requests: 30}
  - {kind: all-reduce, size: 800KB, iterations: 3}
  - {kind: on-off, senders: [h0], receivers: [h1], on: 1ms, off: 1ms, bursts: 3}
`)
	for _, sys := range run(t, s).Systems {
		if sys.FlowsDone != 8+60+3+3 || sys.Bytes < 4*6_000_000+60*55_000+3*6*800_000 || sys.Retransmissions == 0 || sys.Labels[0].Bytes != 20_000_000 {
			t.Errorf("%s: %d of 74 flows and tasks done, %d bytes, %d packets sent again", sys.Name, sys.FlowsDone, sys.Bytes, sys.Retransmissions)
		}
	}
}

// A flow that can't be delivered ends the run with an error that names it.
func TestReducedGivesUp(t *testing.T) {
	s := parse(t, `
duration: 1s
topology: {kind: star, hosts: 2, host_rate: 25Gbps}
fabric: {faults: [{link: "tor0->h1", loss: 1}]}
nic: {model: reduced, timeout: 4, retry_cnt: 2}
systems: [{engine: none}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 1KB}]}]
`)
	_, err := Run(s, Options{})
	if err == nil || !strings.Contains(err.Error(), "flow 0 from h0 to h1: ") {
		t.Errorf("error %v", err)
	}
}

// Flows without end stop when told, share the link, and are in series and figures as
// they are with staged NICs; the same seed gives the same bytes.
func TestReducedSameSeedSameBytes(t *testing.T) {
	notUnderRace(t)
	text := func(seed uint64) []byte {
		r, err := Run(parse(t, `
duration: 2ms
warmup: 200us
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 3, host_rate: 25Gbps}
nic: {model: reduced}
systems: [{engine: timely}, {engine: poseidon}, {name: staged, engine: poseidon, override: {nic: {model: staged}}}]
measure: {sample: 50us, window: 50us, links: ["tor0->h0"]}
workloads:
  - {kind: incast, receiver: h0, size: unlimited, message: 16KiB, stop: 800us, jitter: 20us}
  - {kind: poisson, sizes: websearch, load: 0.3, flows: 20}
`), Options{Seed: &seed})
		if err != nil {
			t.Fatal(err)
		}
		for _, sys := range r.Systems {
			rates := sys.Series[0]
			if sys.Labels[0].Jain < 0.7 || rates.Kind != results.SeriesRate || rates.Values[5] < 18 || rates.Values[38] > 3 {
				t.Errorf("%s: Jain %.2f, %.1f Gbps at first and %.1f after the end", sys.Name, sys.Labels[0].Jain, rates.Values[5], rates.Values[38])
			}
			if sys.MaxMinDistance < 0 || !sys.MaxMinDistance.Measured() || !sys.JainWindow.Measured() {
				t.Errorf("%s: distance %v, Jain in a window %v", sys.Name, sys.MaxMinDistance, sys.JainWindow)
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
	a, b, c := text(5), text(5), text(6)
	if !bytes.Equal(a, b) {
		t.Error("two runs of one seed differ")
	}
	if bytes.Equal(a, c) {
		t.Error("runs of two seeds are the same")
	}
}

// What a pause holds back has not been sent, whenever the run is stopped.
func TestReducedAuditWhilePaused(t *testing.T) {
	for _, duration := range []string{"40us", "57us", "91us", "133us"} {
		s := parse(t, `
duration: `+duration+`
topology: {kind: star, hosts: 6, host_rate: 25Gbps}
fabric: {pfc: {xoff: 20KB, xon: 10KB}}
nic: {model: reduced}
systems: [{engine: none}]
workloads:
  - {kind: incast, receiver: h5, size: unlimited}
  - {kind: flows, name: back, flows: [{src: h5, dst: h0, size: unlimited, count: 5, dst_step: 1}]}
`)
		if sys := run(t, s).Systems[0]; sys.PauseFrames == 0 {
			t.Errorf("%s: no pause, so nothing was tested", duration)
		}
	}
}
