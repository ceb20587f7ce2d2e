package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// A stream without end is held back all the time, but for its packets' turns: by the
// rate, by the window, or at the line rate by neither.
func TestSteered(t *testing.T) {
	const until = 2 * units.Millisecond
	for name, c := range map[string]struct {
		control      cc.Control
		rate, window float64 // least share of the time
	}{
		"rate":   {control: cc.Control{Rate: units.Gbps, Window: units.MiB}, rate: 0.99},
		"window": {control: cc.Control{Rate: 100 * units.Gbps, Window: 1024}, window: 0.9},
		"line":   {control: cc.Control{Rate: 100 * units.Gbps, Window: units.MiB}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
			x, y := b.connect(0, 1, [2]Congestion{{Engine: &pacer{control: c.control}, BaseRTT: 5 * units.Microsecond}}, plainSend, 1024)
			b.stream(x, y, 1<<16, 8)
			b.e.RunUntil(until)
			s := x.nic.Steered(b.e.Now())
			share := func(n units.Time) float64 { return float64(n) / float64(s.Active) }
			if s.Active < until*9/10 || s.Active > until || s.Rate+s.Window > s.Active || s.Cuts != 0 {
				t.Fatalf("%+v in %v", s, until)
			}
			if share(s.Rate) < c.rate || c.rate == 0 && share(s.Rate) > 0.1 || share(s.Window) < c.window || c.window == 0 && share(s.Window) > 0.1 {
				t.Errorf("%.3f by the rate, %.3f by the window", share(s.Rate), share(s.Window))
			}
		})
	}
}

// A cut is a fall of a rate to below the line, or of a window.
func TestCutsOfAnEngine(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	p := &pacer{control: cc.Control{Rate: 200 * units.Gbps, Window: units.MiB}}
	x, _ := b.connect(0, 1, [2]Congestion{{Engine: p, BaseRTT: 5 * units.Microsecond}}, plainSend, 1024)
	for i, c := range []struct {
		rate   units.Rate
		window units.Bytes
		cuts   uint64
	}{{150, units.MiB, 0}, {100, units.MiB, 0}, {90, units.MiB, 1}, {90, units.MiB, 1}, {95, 2 * units.MiB, 1}, {95, units.MiB, 2}, {50, 4096, 3}} {
		p.control = cc.Control{Rate: c.rate * units.Gbps, Window: c.window}
		x.nic.Steer(b.e.Now(), x.qpn)
		if got := x.nic.Steered(b.e.Now()).Cuts; got != c.cuts {
			t.Errorf("step %d: %d cuts, expected %d", i, got, c.cuts)
		}
	}
}
