package fabric

import (
	"testing"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// report is a switch that measures by a clock of one tick and writes Poseidon's tag.
func report(tick units.Time) *Report {
	return &Report{
		Clock: telemetry.SwitchClock{Tick: tick, Bits: 32},
		Delay: telemetry.DefaultDelayFormat(telemetry.Value),
		INT:   telemetry.DefaultINTFormat(telemetry.INT64),
	}
}

// The packets of TestMaxDelayByHand, ten times as large: they wait 0, 801.6, 1603.2 and
// then 1681.6 + 3*801.6 - ... ns, which is read in ticks and written in units of 256 ns.
func TestReportedDelay(t *testing.T) {
	for _, c := range []struct {
		name string
		tick units.Time
		unit units.Time
	}{{"nanoseconds", units.Nanosecond, 256 * units.Nanosecond}, {"microseconds", units.Microsecond, 256 * units.Nanosecond}} {
		t.Run(c.name, func(t *testing.T) {
			exact, coarse := Default(), Default()
			exact.MaxFrame, coarse.MaxFrame = 10100, 10100
			coarse.Switch.Report = report(c.tick)
			var got [2][]arrival
			for i, cfg := range []Config{exact, coarse} {
				r := newRig(t, Star(5, gig(100, units.Microsecond)), cfg, 1)
				for src := range int32(4) {
					r.send(0, whole{Size: 10000, Src: src + 1, Telemetry: telemetry.MaxDelay})
				}
				r.run()
				got[i] = r.nics[0].got
			}
			// All four enter the switch when the last bit of the first is there.
			entry := got[0][0].At - units.Microsecond - 801_600
			for i, a := range got[1] {
				truth := got[0][i].MaxDelay
				ticks := (entry+truth)/c.tick - entry/c.tick
				want := ticks * c.tick / c.unit * c.unit
				if a.MaxDelay != want || a.At != got[0][i].At {
					t.Errorf("packet %d waited %v and reports %v, want %v", i, truth, a.MaxDelay, want)
				}
			}
		})
	}
}

// Records are rounded down to their units, and have no wraps in the model.
func TestReportedHops(t *testing.T) {
	cfg := Default()
	cfg.Switch.Report = report(units.Nanosecond)
	cfg.Switch.Buffer = units.GiB
	r := newRig(t, Star(3, gig(100, units.Microsecond)), cfg, 1)
	// 150 MB, which wraps txBytes, take 12 ms.
	const packets = 37500
	for i := range int32(packets) {
		r.send(0, whole{Size: 4000, Src: 1 + i%2, Telemetry: telemetry.PerHop})
	}
	r.run()
	var last telemetry.Hop
	for i, a := range r.nics[0].got {
		h := a.Path[0]
		tx := units.Bytes(i) * 4008
		if h.Time%units.Nanosecond != 0 || h.TxBytes != tx/128*128 || h.QLen%80 != 0 || h.Rate != 100*units.Gbps || h.Time <= last.Time && i > 0 {
			t.Fatalf("packet %d: %+v after %+v", i, h, last)
		}
		last = h
	}
	if last.TxBytes < 128<<20 {
		t.Errorf("%v were sent, which wraps nothing", last.TxBytes)
	}
}
