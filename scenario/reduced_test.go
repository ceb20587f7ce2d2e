package scenario

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// What reduced NICs can't do is refused where it is asked for.
func TestReducedRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"size: 1MB", "size: 1MB\n    operation: send", "small.yaml:24: workloads[0].operation: is send: reduced NICs have Writes and READs"},
	} {
		text := strings.Replace(small, c.from, c.to, 1)
		if text == small {
			t.Fatalf("%q is not in the scenario", c.from)
		}
		if _, err := Parse("small.yaml", []byte(text)); err != nil {
			t.Errorf("%s: staged NICs refuse it: %v", c.to, err)
		}
		for _, set := range []string{"nic.model=reduced", "systems[B].override.nic.model=reduced"} {
			_, err := Parse("small.yaml", []byte(text), set)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: error %v, want %s", c.to, set, err, c.want)
			}
		}
	}
}

// Receivers that grant do so for Writes.
func TestGrantsAndReads(t *testing.T) {
	for _, c := range []struct{ to, want string }{
		{"incast\n    receiver: h3\n    senders: [h0..h2]\n    size: 1MB\n    operation: read", "workloads[0].operation: is read, and the receivers of homa grant Writes only"},
		{"storage\n    reads: 0.7\n    block: 4KiB", "workloads[0].reads: is 0.7, and the receivers of homa grant Writes only"},
	} {
		text := strings.Replace(small, "incast\n    receiver: h3\n    senders: [h0..h2]\n    size: 1MB", c.to, 1)
		if _, err := Parse("small.yaml", []byte(text), "nic.model=reduced"); err != nil {
			t.Errorf("%s: %v", c.to, err)
		}
		if _, err := Parse("small.yaml", []byte(text), "nic.model=reduced", "systems=[{engine: homa}]"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with homa: error %v, want %s", c.to, err, c.want)
		}
	}
}

// Where engines choose priorities, workloads have none.
func TestReducedPriorities(t *testing.T) {
	text := strings.Replace(small, "size: 1MB", "size: 1MB\n    priority: 2", 1)
	if _, err := Parse("small.yaml", []byte(text), "nic.model=reduced"); err != nil {
		t.Error(err)
	}
	text = strings.Replace(text, "engine: none", "engine: homa", 1)
	_, err := Parse("small.yaml", []byte(text), "nic.model=reduced")
	want := "small.yaml:24: workloads[0].priority: is 2, and homa chooses priorities itself: leave it out, or take another engine"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Engines whose receivers grant need the reduced NIC.
func TestEnginesNeedTheirNIC(t *testing.T) {
	for _, engine := range []string{"homa", "ictcp"} {
		text := strings.Replace(small, "engine: none", "engine: "+engine, 1)
		if _, err := Parse("small.yaml", []byte(text), "nic.model=reduced"); err != nil {
			t.Errorf("%s: %v", engine, err)
		}
		_, err := Parse("small.yaml", []byte(text))
		want := "small.yaml:18: systems[1].engine: " + engine + " needs receivers that grant or priorities of its own, which staged NICs do not have: set nic: {model: reduced}"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// compareWith compares what is said, wherever it is.
var compareWith = cmp.Comparer(func(a, b With) bool { return reflect.DeepEqual(a.EncodeNode(), b.EncodeNode()) })

// An engine that chooses priorities has them in the fabric, and acknowledgements go
// with the most urgent unless the scenario says otherwise.
func TestEnginesWithPriorities(t *testing.T) {
	text := strings.Replace(small, "engine: none", "engine: homa", 1)
	for _, c := range []struct {
		set  []string
		want int
	}{
		{nil, 7}, {[]string{"nic.ack_priority=3"}, 3}, {[]string{"systems[B].override.nic.ack_priority=2"}, 2},
	} {
		s := parse(t, text, append([]string{"systems[B].override.nic.model=reduced"}, c.set...)...)
		sys := s.Systems[1]
		if got := sys.FabricConfig().Priorities; sys.NIC.AckPriority != c.want || got != 8 {
			t.Errorf("%v: acknowledgements have priority %d of %d", c.set, sys.NIC.AckPriority, got)
		}
		if other := s.Systems[0]; other.NIC.AckPriority != s.NIC.AckPriority || other.FabricConfig().Priorities != s.NIC.AckPriority+1 {
			t.Errorf("%v: the other system has priority %d of %d", c.set, other.NIC.AckPriority, other.FabricConfig().Priorities)
		}
	}
}

// The latencies are the preset's where the scenario says nothing, and those of one
// system are its own.
func TestReducedLatencies(t *testing.T) {
	s := parse(t, small, "nic={model: reduced, mtu: 9000, host_send: 70ns, ack_priority: 1}", "systems[B].override.nic={host_send: 1us, completion: 0s}",
		"systems[A].override.nic.preset=timely10g")
	for i, want := range []nicmodel.FixedLatencies{
		// The receiver's pipeline, 50 ns, and five cycles of 2 ns; three cycles for
		// the completion, 88 bytes at 57.88 Gbps and 250 ns until they are seen.
		{Send: 70 * units.Nanosecond, Receive: 60 * units.Nanosecond, Completion: 6*units.Nanosecond + 12164 + 250*units.Nanosecond},
		{Send: units.Microsecond, Receive: 43_813, Completion: 0},
	} {
		sys := s.Systems[i]
		got := sys.ReducedLatencies()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", sys.Name, diff)
		}
		c := sys.FabricConfig()
		if c.HostSend != want.Send || c.HostReceive != want.Receive || c.MaxFrame < 9062 || !sys.Offload() {
			t.Errorf("%s: %v to send and %v to receive, frames of up to %v, offload %v", sys.Name, c.HostSend, c.HostReceive, c.MaxFrame, sys.Offload())
		}
	}
	if c := parse(t, small).Systems[0].FabricConfig(); c.HostSend != 0 || c.HostReceive != 0 {
		t.Errorf("staged NICs have %v and %v", c.HostSend, c.HostReceive)
	}

	text, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Systems {
		if diff := cmp.Diff(s.Systems[i].NIC, again.Systems[i].NIC, compareWith); diff != "" {
			t.Errorf("written and read: %s", diff)
		}
	}
}
