package nicmodel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// newBedOfPorts is newBed of an even number of hosts, each two of which are the ports of one NIC.
func newBedOfPorts(t testing.TB, hosts int, cfg config.Config) *bed {
	t.Helper()
	fc := fabric.Default()
	for i := range fc.Switch.Classes {
		fc.Switch.Classes[i].PFC.Lossless = true
	}
	fc.Priorities = fabric.MaxPriorities
	e := des.New()
	net, err := fabric.New(e, fabric.Star(hosts, fabric.Link{Rate: 100 * units.Gbps, Delay: 500 * units.Nanosecond}), fc, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, slab := &bed{t: t, e: e, net: net}, frames.New(net)
	for h := range hosts {
		var n *NIC
		if h%2 == 0 {
			n, err = New(e, net, slab, h, net.LineRate(h), cfg)
		} else {
			n, err = NewPort(b.nics[h-1], h, net.LineRate(h))
		}
		if err != nil {
			t.Fatal(err)
		}
		b.nics = append(b.nics, n)
	}
	return b
}

// delivered returns the rate at which a host's queue pairs received between two instants,
// in Gbps.
func (b *bed) delivered(host int, begin, end units.Time) float64 {
	sum := func() (all units.Bytes) {
		for _, q := range b.nics[host].pairs.all {
			all += q.delivered.Payload
		}
		return all
	}
	b.e.RunUntil(begin)
	before := sum()
	b.e.RunUntil(end)
	return float64(sum()-before) * 8e3 / float64(end-begin)
}

// Two ports of 100 Gbps behind PCIe of 57.88 Gbps share what it carries, and one alone has all of it.
func TestPortsShareTheSlot(t *testing.T) {
	cfg := preset(t, "cx5")
	cfg.PCIe.Rate = pcie.Gen3x8().Rate
	run := func(ports int) (rates []float64) {
		for port := range ports { // the other one, each time, since time goes on
			b := newBedOfPorts(t, 6, cfg)
			for p := range ports {
				b.drive(pairLoad{from: p, to: 2 + 2*p, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, batch: 1, spread: 1}, 600*units.Microsecond)
			}
			rates = append(rates, b.delivered(2+2*port, 200*units.Microsecond, 600*units.Microsecond))
		}
		return rates
	}
	one, two := run(1), run(2)
	if one[0] < 45 || one[0] > 57.88 {
		t.Errorf("one port alone sends %.1f Gbps", one[0])
	}
	if sum := two[0] + two[1]; sum < one[0]*0.95 || sum > 57.88 || two[0] < sum*0.45 || two[0] > sum*0.55 {
		t.Errorf("two ports send %.1f and %.1f Gbps, and one alone %.1f", two[0], two[1], one[0])
	}
}

// A port whose many queue pairs do not fit on the chip takes the other one's entries: the other one's contexts have to be read, too.
func TestPortsShareTheMemoryOnTheChip(t *testing.T) {
	cfg := preset(t, "cx5")
	cfg.State.Bytes = 64 << 10
	misses := func(beside int) uint64 {
		b := newBedOfPorts(t, 6, cfg)
		b.drive(pairLoad{from: 0, to: 2, op: ib.WRRDMAWrite, size: 64, window: 1, batch: 1, spread: 1}, 300*units.Microsecond)
		for range beside {
			b.drive(pairLoad{from: 1, to: 4, op: ib.WRRDMAWrite, size: 64, window: 4, batch: 1, spread: 1}, 300*units.Microsecond)
		}
		b.e.RunUntil(300 * units.Microsecond)
		sum := uint64(0)
		for _, c := range b.nics[0].Caches() {
			sum += c.Misses
		}
		return sum
	}
	if alone, beside := misses(0), misses(500); alone != 0 || beside < 100 {
		t.Errorf("%d misses alone, %d beside another port's 500 queue pairs", alone, beside)
	}
}

// Two ports take turns at the processing units.
func TestPortsShareTheUnits(t *testing.T) {
	cfg := preset(t, "connectib")
	cfg.Framing = fabric.Ethernet
	cfg.PCIe.Rate *= 4
	cfg.Units.Units = 4
	requests := func(ports int) (sum uint64) {
		b := newBedOfPorts(t, 6, cfg)
		for p := range ports {
			for range 16 {
				b.drive(pairLoad{from: p, to: 2 + 2*p, op: ib.WRRDMAWrite, size: 8, inline: true, window: 8, batch: 1, spread: 1}, 200*units.Microsecond)
			}
		}
		b.e.RunUntil(200 * units.Microsecond)
		return b.nics[0].Stats().Requests + b.nics[1].Stats().Requests
	}
	if one, two := requests(1), requests(2); two > one*11/10 || two < one*9/10 {
		t.Errorf("one port makes %d requests, two make %d", one, two)
	}
}

// At any load of two ports, PCIe carries no more than its rate for both together, the accounts close, and all ends.
func TestPortsAreBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := preset(t, rapid.SampledFrom(config.Presets()).Draw(r, "preset"))
		slowDown(r, &cfg)
		if rapid.Bool().Draw(r, "shared") {
			drawSharing(r, &cfg)
		}
		b := newBedOfPorts(t, 4, cfg)
		for _, p := range randomLoad(r, 4, len(cfg.Functions) > 0) {
			b.drive(p, 100*units.Microsecond)
		}
		b.e.RunUntil(100 * units.Microsecond)
		for h := 0; h < 4; h += 2 {
			one, two := b.nics[h], b.nics[h+1]
			if sent, most := one.mac.payload+two.mac.payload, one.chip.Config.PCIe.Rate.BytesIn(b.e.Now()); sent > most {
				r.Errorf("h%d and h%d sent %d bytes, and their PCIe carries %d", h, h+1, sent, most)
			}
		}
		b.e.RunUntil(2 * units.Second)
		for _, n := range b.nics {
			for _, a := range n.Accounts(b.e.Now()) {
				if sum := a.Busy + a.Idle + sumOf(a.Stalled[:]); sum != a.Elapsed {
					r.Errorf("h%d, %s: the parts add up to %d of %d", n.chip.Host, a.Stage, sum, a.Elapsed)
				}
			}
			for _, u := range n.Queues(b.e.Now()) {
				if u.Now != 0 {
					r.Errorf("h%d, %s: %d are left", n.chip.Host, u.Queue, u.Now)
				}
			}
			if n.first == nil {
				if held, _ := n.state.LinesHeld(b.e.Now()); held < 0 {
					r.Errorf("h%d: %d lines held", n.chip.Host, held)
				}
			}
		}
	})
}
