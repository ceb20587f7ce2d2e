package fabric

import (
	"reflect"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// native is a Stage that does what a switch does without one.
type native struct{}

func (native) Depart(d *Departure) {
	switch d.Telemetry {
	case telemetry.MaxDelay:
		d.MaxDelay = max(d.MaxDelay, d.Waited)
	case telemetry.PerHop:
		d.Record = telemetry.Hop{TxBytes: d.TxBytes, QLen: d.Behind, Time: d.Now, Rate: d.Rate}
		d.Recorded = true
	}
}

// With a Stage that does as the switch does nothing is different.
func TestAStageTakesThePlaceOfTelemetry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topo := drawTopology(t, false)
		cfg := Default()
		cfg.Switch.Buffer = 100 * units.KB
		cfg.Switch.Classes[0].ECN = ECN{Kmin: 5000, Kmax: 5000, Pmax: 1}
		cfg.Switch.Classes[1].EIN = Notice{Gradient: 0.25, Window: 4, HighWater: 5000}
		with := cfg
		with.Switches = map[string]SwitchConfig{}
		for _, name := range topo.SwitchNames() {
			s := cfg.Switch
			s.Stage = native{}
			with.Switches[name] = s
		}
		a, b := newRig(t, topo, cfg, 1), newRig(t, topo, with, 1)
		drawTraffic(t, a, rapid.IntRange(1, 100).Draw(t, "packets"))
		for i, c := range a.nics {
			b.nics[i].out = c.out
			for _, q := range c.out {
				if len(q) > 0 {
					b.nics[i].kick(q[0].at)
				}
			}
		}
		a.run()
		b.run()
		b.drained(t)
		for i, c := range a.nics {
			got := b.nics[i].got
			if !reflect.DeepEqual(c.got, got) {
				t.Fatalf("host %d got\n%+v without a stage and\n%+v with one", i, c.got, got)
			}
		}
		if a.n.Totals() != b.n.Totals() {
			t.Fatalf("%+v and %+v", a.n.Totals(), b.n.Totals())
		}
	})
}

// watch notes what a stage sees, drops every packet of 700 bytes and reports a rate
// that is no port's.
type watch struct{ seen []Departure }

func (w *watch) Depart(d *Departure) {
	w.seen = append(w.seen, *d)
	d.Drop = d.Size == 700
	d.Record, d.Recorded = telemetry.Hop{Rate: 3 * units.Gbps}, true
}

// Packets of 1000, 700, 600 and 500 bytes come to a switch at one time, by four ports.
func TestWhatAStageSees(t *testing.T) {
	w := &watch{}
	topo := Star(5, gig(100, units.Microsecond))
	cfg := Default()
	s := cfg.Switch
	s.Stage = w
	cfg.Switches = map[string]SwitchConfig{topo.SwitchNames()[0]: s}
	r := newRig(t, topo, cfg, 1)
	for i, size := range []int32{1000, 700, 600, 500} {
		// The longer ones start earlier, so that all enter at once.
		r.send(units.Time(1000-size)*80, whole{Size: size, Src: int32(i + 1), FlowHash: uint32(i), Telemetry: telemetry.PerHop})
	}
	r.run()
	type place struct {
		ahead, behind units.Bytes
		ap, bp        int
		tx            units.Bytes
	}
	want := []place{{0, 0, 0, 0, 0}, {0, 1100, 0, 2, 1008}, {700, 500, 1, 1, 1008}, {1300, 0, 2, 0, 1616}}
	if len(w.seen) != 4 {
		t.Fatalf("a stage saw %d of 4 packets", len(w.seen))
	}
	for i, d := range w.seen {
		got := place{d.Ahead, d.Behind, d.AheadPackets, d.BehindPackets, d.TxBytes}
		if got != want[i] || d.Src != int32(i+1) || d.FlowHash != uint32(i) || d.Rate != 100*units.Gbps || d.In != r.link(t, "h"+strconv.Itoa(i+1)+"->"+topo.SwitchNames()[0]) || d.Port != r.link(t, topo.SwitchNames()[0]+"->h0") {
			t.Errorf("packet %d: %+v, want %+v", i, d, want[i])
		}
	}
	got := r.nics[0].got
	if len(got) != 3 || r.n.Totals().Dropped != 1 {
		t.Fatalf("%d packets arrived, %d were dropped; want 3 and 1", len(got), r.n.Totals().Dropped)
	}
	for _, a := range got {
		if len(a.Path) != 1 || a.Path[0].Rate != 3*units.Gbps {
			t.Errorf("records %+v", a.Path)
		}
	}
	tx, _ := r.topo.FindLink(topo.SwitchNames()[0] + "->h0")
	if s := r.n.Port(tx).Stats(); s.Drops != 1 || s.TxPackets != 3 {
		t.Errorf("%d drops and %d packets sent", s.Drops, s.TxPackets)
	}
}

// A stage is run by the lane that runs its switch, so two switches of a divided network
// can't have the same.
func TestStagesOfADividedNetwork(t *testing.T) {
	for switches, want := range map[int]bool{1: true, 2: false} {
		topo := Star(3, gig(100, units.Microsecond))
		if switches == 2 {
			topo = Dumbbell(2, 2, gig(100, units.Microsecond), gig(100, units.Microsecond))
		}
		cfg := Default()
		cfg.Switch.Stage = native{}
		r := newRig(t, topo, cfg, 1)
		if err := r.n.Divide(2); (err == nil) != want {
			t.Errorf("one stage for %d switches: %v", switches, err)
		}
	}
}
