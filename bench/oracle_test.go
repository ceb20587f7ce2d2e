package bench

import (
	"math"
	"testing"
)

// The oracle's rates are max-min fair at once, on either NIC and for Reads too: the
// victim of two congested hops has its share from when the flows begin, and nothing
// waits but for packets that meet.
func TestIdeal(t *testing.T) {
	for name, set := range map[string][]string{
		"staged":  nil,
		"reduced": {"nic.model=reduced"},
		"reads":   {"workloads[0].operation=read", "workloads[0].message=16KiB"},
	} {
		set = append(set, "systems[0].engine=ideal", "params.m=5", "params.n=9", "duration=600us", "warmup=100us")
		sys := run(t, load(t, "poseidon-multihop", set...)).Systems[0]
		for _, l := range sys.Labels {
			if l.Label == "victim" && math.Abs(float64(l.WireGbps)-20) > 0.5 {
				t.Errorf("%s: the victim has %v Gbps, its share is 20", name, l.WireGbps)
			}
		}
		if busy := sys.Links[1].Busy; busy < 0.98 {
			t.Errorf("%s: the link that ten flows share is busy for %v of the time", name, busy)
		}
		// Ten packets of 4 KiB that meet.
		if most := sys.Links[1].QueueMaxBytes; name != "reads" && most > 50_000 {
			t.Errorf("%s: the queue reaches %d bytes", name, most)
		}
	}
}

// Connections that have nothing to send leave their share to the others.
func TestIdealOfConnections(t *testing.T) {
	s := run(t, load(t, "storage", "systems[0].engine=ideal")).Systems
	if ideal, timely := s[0], run(t, load(t, "storage")).Systems[0]; ideal.FlowsDone < timely.FlowsDone*9/10 {
		t.Errorf("%d blocks were carried out, %d by TIMELY", ideal.FlowsDone, timely.FlowsDone)
	}
}
