package bench

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// However messages are put together, and whichever of them complete, all of a flow
// arrives and is known to have, and a flow that is stopped ends.
func TestPostingIsWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		post := rapid.IntRange(1, 40).Draw(rt, "post_list")
		mod := rapid.IntRange(1, 128-post+1).Draw(rt, "cq_mod")
		inline := rapid.IntRange(0, 220).Draw(rt, "inline_size")
		buffer := rapid.IntRange(0, 20000).Draw(rt, "buffer")
		size := rapid.IntRange(1, 60000).Draw(rt, "size")
		message := rapid.IntRange(max(1, size/300), 5000).Draw(rt, "message")
		own, huge := rapid.Bool().Draw(rt, "mr_per_qp"), rapid.Bool().Draw(rt, "use_hugepages")
		op := rapid.SampledFrom([]string{"write", "read", "send"}).Draw(rt, "operation")
		mode := rapid.SampledFrom([]string{"host", "offload"}).Draw(rt, "mode")
		sys := run(t, parse(t, fmt.Sprintf(`
duration: 5ms
topology: {kind: star, hosts: 2}
nic: {mode: %s}
systems: [{engine: none}]
verbs: {post_list: %d, cq_mod: %d, inline_size: %dB, buffer: %dB, mr_per_qp: %v, use_hugepages: %v}
workloads:
  - {kind: flows, operation: %s, message: %dB, flows: [{src: h0, dst: h1, size: %dB}]}
  - {kind: flows, name: stopped, operation: %[8]s, message: %[9]dB, flows: [{src: h1, dst: h0, size: unlimited}], stop: 20us}
`, mode, post, mod, inline, buffer, own, huge, op, message, size))).Systems[0]
		one, stopped := sys.Labels[0], sys.Labels[1]
		if one.FlowsDone != 1 || one.Bytes != int64(size) {
			rt.Errorf("%d flows done, %d bytes of %d", one.FlowsDone, one.Bytes, size)
		}
		if sys.SimS > 1e-3 || stopped.Bytes == 0 || stopped.Bytes%int64(message) != 0 {
			rt.Errorf("stopped: %d bytes in messages of %d, all over after %v s", stopped.Bytes, message, sys.SimS)
		}
	})
}

// Doorbells, completions and payload on PCIe are as many as were asked for.
func TestPostingOnPCIe(t *testing.T) {
	for _, c := range []struct {
		verbs     string
		post, mod float64
		inline    bool
	}{
		{"{}", 1, 1, false},
		{"{post_list: 16}", 16, 1, false},
		{"{cq_mod: 16}", 1, 16, false},
		{"{post_list: 8, cq_mod: 4, inline_size: 32B}", 8, 4, true},
	} {
		u := run(t, parse(t, fmt.Sprintf(`
duration: 60us
warmup: 20us
topology: {kind: star, hosts: 2}
nic: {mode: offload}
systems: [{engine: none}]
verbs: %s
workloads: [{kind: incast, receiver: h1, senders: [h0], connections: 4, size: unlimited, message: 32B}]
measure: {sample: 10us, window: 10us, nic: [h0]}
`, c.verbs))).Systems[0].NICs[0]
		served := map[string]float64{}
		for _, s := range u.Stages {
			served[s.Stage] = float64(s.Served)
		}
		requests := float64(u.Requests)
		for stage, want := range map[string]float64{"doorbell": requests / c.post, "cqe": requests / c.mod} {
			if got := served[stage]; got < 0.9*want || got > 1.1*want {
				t.Errorf("%s: stage %s served %v for %v requests, want %v", c.verbs, stage, got, requests, want)
			}
		}
		payload := u.PCIe[0].ByPurpose["payload"]
		if (payload == 0) != c.inline {
			t.Errorf("%s: %d bytes of payload are asked for", c.verbs, payload)
		}
	}
}

// Programs that sleep until an event get all completions, later by the event's time;
// moderation makes it fewer events.
func TestEvents(t *testing.T) {
	measured := func(verbs string) (fct, events float64) {
		sys := run(t, parse(t, fmt.Sprintf(`
duration: 300us
topology: {kind: star, hosts: 4}
nic: {mode: offload, with: {interrupt: {latency: 2us}}}
systems: [{engine: none}]
verbs: %s
workloads:
  - {kind: storage, name: one, clients: [h0], targets: [h1], reads: 0, block: 64B, outstanding: 1, requests: 10}
  - {kind: storage, name: more, clients: [h2], targets: [h3], reads: 0, block: 64B, rate: 1000000, arrivals: even, requests: 200}
measure: {nic: [h2]}
`, verbs))).Systems[0]
		if one, more := sys.Labels[0], sys.Labels[1]; one.FlowsDone != 10 || more.FlowsDone != 200 {
			t.Errorf("%s: %d and %d writes are over", verbs, one.FlowsDone, more.FlowsDone)
		}
		const bytes = 64 + 4 + 2*24 // an element and an interrupt
		return float64(sys.Labels[0].FCTAvgUs), float64(sys.NICs[0].PCIe[0].ByPurpose["event"]) / bytes
	}
	polled, none := measured("{}")
	told, each := measured("{events: true}")
	late, few := measured("{events: true, cq_count: 8, cq_period: 20us}")
	if d := told - polled; none != 0 || d < 2 || d > 2.1 {
		t.Errorf("an event makes it %.3f us longer, want 2 and its way over the link; %v events when polled", d, none)
	}
	if d := late - told; d < 19.9 || d > 20.1 {
		t.Errorf("moderation makes it %.3f us longer, want 20", d)
	}
	// At 1 us from write to write, 2 or 3 come while an event is under way; moderated, 8 and those.
	if each < 60 || each > 105 || few < 200/12 || few > 200/8 {
		t.Errorf("%v events, moderated %v", each, few)
	}
}

// Messages lie behind each other in the buffer of their queue pair, and inside the
// region.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffer := units.Bytes(rapid.Int64Range(0, 1<<30).Draw(t, "buffer"))
		message := units.Bytes(rapid.Int64Range(1, 1<<31).Draw(t, "message"))
		p := newPlace(rapid.Uint32Range(0, 1<<24-1).Draw(t, "qpn"), buffer, message)
		last, lastSize := -1, 0
		for range 20 {
			n := units.Bytes(rapid.Int64Range(1, int64(message)).Draw(t, "n"))
			at := p.take(n)
			if at < 0 || uint64(at)+uint64(n) > memoryBytes {
				t.Fatalf("%d bytes at %d are outside the region of %d", n, at, memoryBytes)
			}
			if off := units.Bytes(at) - p.base; off > 0 && (off+n > buffer || at != last+lastSize) {
				t.Fatalf("%d bytes at %d of a buffer of %d, the last %d at %d", n, off, buffer, lastSize, last)
			}
			last, lastSize = at, int(n)
		}
	})
}

func TestVerbsErrors(t *testing.T) {
	const text = `
topology: {kind: star, hosts: 2}
systems: [{engine: none}]
workloads: [{kind: incast, receiver: h1, size: 1MB}]
`
	for set, want := range map[string]string{
		"verbs.post_list=129":   "verbs.post_list: is 129: choose 1 to nic.send_depth, 128",
		"verbs.cq_mod=0":        "verbs.cq_mod: is 0: choose 1 or more messages",
		"verbs.inline_size=1KB": "verbs.inline_size: is 1KB: choose 0 to the NIC's max_inline, 220B",
		"verbs.buffer=2GiB":     "verbs.buffer: is 2GiB: choose",
		"verbs.events=true":     "verbs.events: the shim polls, to pace",
		"verbs.cq_count=3":      "verbs.cq_count: without events there is nothing to moderate",
		"systems[0].override={nic: {mode: offload}, verbs: {events: true, cq_count: 3}}":       "verbs.cq_count: is 3: fewer completions than that would never be told",
		"systems[0].override={nic: {mode: offload}, verbs: {events: true, cq_period: 1500ns}}": "verbs.cq_period: is 1.5us: choose whole microseconds",
		"systems[0].override.verbs={post_list: 128, cq_mod: 2}":                                "systems[0].override.verbs.cq_mod: is 2: with post_list 128 a queue of 128 requests would fill before one completes; raise nic.send_depth to 129",
		"systems[0].override={nic: {model: reduced}, verbs: {post_list: 4}}":                   "systems[0].override.verbs.post_list: reduced NICs have no queues in the host's memory",
	} {
		_, err := scenario.Parse("x.yaml", []byte(text), set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", set, err, want)
		} else if strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: said more than once: %v", set, err)
		}
	}
}
