package plb

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

var rules = Rules{Share: 0.5, Idle: 3, Forced: 12}

// flow sends one window after another, of ten packets a round trip.
type flow struct {
	Paths
	acked units.Bytes
}

// roundTrip has ten packets acknowledged. Where the flow goes idle, nothing has been
// sent after them.
func (f *flow) roundTrip(marked int, idle bool) {
	window := units.Bytes(11) // a round trip is ten acknowledgements, but for the first
	for k := range 10 {
		f.acked++
		sent := f.acked - 1 + window
		if idle {
			sent = f.acked + units.Bytes(9-k)
		}
		f.OnAck(&cc.Ack{Packets: 1, Acked: f.acked, Sent: sent}, k < marked)
	}
}

func TestWhenPathsChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		rules  Rules
		trips  int
		marked int
		idle   bool
		want   uint32
	}{
		{"congested and busy, not long enough", rules, 12, 10, false, 0},
		{"congested and busy", rules, 13, 10, false, 1},
		{"twice as long", rules, 25, 10, false, 2},
		{"congested with pauses", rules, 4, 10, true, 1},
		{"half of the packets", rules, 13, 5, false, 1},
		{"less than half", rules, 100, 4, false, 0},
		{"no forced change", Rules{Share: 0.5, Idle: 3}, 100, 10, false, 0},
		{"no change when idle", Rules{Share: 0.5, Forced: 12}, 11, 10, true, 0},
		{"never", Rules{Share: 0.5}, 100, 10, true, 0},
	} {
		f := &flow{Paths: Paths{Rules: c.rules}}
		for range c.trips {
			f.roundTrip(c.marked, c.idle)
		}
		if got := f.Path(); got != c.want {
			t.Errorf("%s: path %d, want %d", c.name, got, c.want)
		}
	}
}

// A round trip without congestion begins the count anew; so does a change.
func TestCountsRoundTripsInARow(t *testing.T) {
	f := &flow{Paths: Paths{Rules: rules}}
	for range 50 {
		for range 11 {
			f.roundTrip(10, false)
		}
		f.roundTrip(0, false)
	}
	if f.Path() != 0 {
		t.Errorf("path %d though congestion never lasted", f.Path())
	}
}

func TestTimeoutsChangeThePath(t *testing.T) {
	f := &flow{Paths: Paths{Rules: rules}}
	for range 8 {
		f.roundTrip(10, false)
	}
	f.OnTimeout()
	if f.Path() != 1 {
		t.Fatalf("path %d", f.Path())
	}
	for range 11 {
		f.roundTrip(10, false)
	}
	if f.Path() != 1 {
		t.Errorf("the count went on after the timeout")
	}
}

// Whatever comes, a flow that is never idle changes no sooner than Forced round trips
// after the last change, and one that meets no congestion never.
func TestNoChangeBeforeItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rules{Share: rapid.Float64Range(0.01, 1).Draw(t, "share"), Idle: rapid.IntRange(0, 20).Draw(t, "idle"), Forced: rapid.IntRange(1, 20).Draw(t, "forced")}
		p := Paths{Rules: r}
		acked, sent := units.Bytes(0), units.Bytes(1)
		since := 0
		for range 500 {
			sent += units.Bytes(rapid.IntRange(1, 5).Draw(t, "more"))
			end, path := p.end, p.path
			acked = min(acked+units.Bytes(rapid.IntRange(1, 5).Draw(t, "acked")), sent-1)
			congested := rapid.Bool().Draw(t, "congested")
			p.OnAck(&cc.Ack{Packets: 1, Acked: acked, Sent: sent}, congested)
			if p.end != end {
				since++
			}
			if p.path != path {
				if since < r.Forced {
					t.Fatalf("a change after %d round trips", since)
				}
				since = 0
			}
		}
		calm := Paths{Rules: r}
		for k := range units.Bytes(1000) {
			calm.OnAck(&cc.Ack{Packets: 1, Acked: k + 1, Sent: k + 1}, false)
		}
		if calm.Path() != 0 {
			t.Fatal("a change without congestion")
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	p := Paths{Rules: rules}
	a := cc.Ack{Packets: 1}
	if n := testing.AllocsPerRun(1000, func() {
		a.Acked++
		a.Sent = a.Acked + 10
		p.OnAck(&a, true)
	}); n != 0 {
		t.Errorf("an acknowledgement allocates %v times", n)
	}
}
