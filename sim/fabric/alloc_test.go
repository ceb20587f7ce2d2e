package fabric

import (
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// In a steady state, with everything turned on, a hop allocates nothing.
func TestHopsDoNotAllocate(t *testing.T) {
	l := gig(100, units.Microsecond)
	for name, set := range map[string]func(*Config){
		"lossy": func(*Config) {},
		"all": func(c *Config) {
			k := &c.Switch.Classes[0]
			k.PFC = PFC{Lossless: true, XOFF: 50 * units.KB}
			k.ECN = ECN{Kmin: 5 * units.KB, Kmax: 50 * units.KB, Pmax: 0.2}
			k.Weight = 1
			c.Faults = []Fault{{"*", 0.01}}
		},
	} {
		e := des.New()
		cfg := Default()
		cfg.Switch.Buffer = 8 * units.MiB
		set(&cfg)
		n, err := New(e, FatTree(4, 1, l, l, l), cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		for h := range 16 {
			s := newSource(e, n, h, (h+4)%16/2, 1000, 0)
			s.telemetry = true
		}
		e.RunUntil(2 * units.Millisecond)
		before := n.Totals().PacketHops
		allocs := testing.AllocsPerRun(100, func() {
			for range 1000 {
				e.Step()
			}
		})
		if hops := n.Totals().PacketHops - before; allocs != 0 || hops < 10000 {
			t.Errorf("%s: %v allocations in 1000 events, %d hops in all", name, allocs, hops)
		}
	}
}

// A hop costs one event where the port is idle and at most two where packets
// queue; pause frames come on top.
func TestEventsPerHop(t *testing.T) {
	r := newRig(t, Star(9, gig(100, units.Microsecond)), Default(), 1)
	r.incast(500, 1000)
	r.run()
	hops := r.n.Totals().PacketHops
	// Each packet makes an event at its sender, one at the switch and one at the
	// receiver, and one more when its turn comes in the queue.
	if events := r.e.Events(); hops != 8000 || events > 4*4000 {
		t.Errorf("%d events for %d hops", events, hops)
	}
}
