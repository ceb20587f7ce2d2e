package nicmodel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

func TestDMARefuses(t *testing.T) {
	for name, spoil := range map[string]func(*DMAConfig){
		"no PCIe rate": func(c *DMAConfig) { c.PCIe.Rate = 0 },
		"no rate":      func(c *DMAConfig) { c.Internal = 0 },
		"no MPS":       func(c *DMAConfig) { c.PCIe.MPS = 0 },
		"no MRRS":      func(c *DMAConfig) { c.PCIe.MRRS = -1 },
		"no clock":     func(c *DMAConfig) { c.Clock = 0 },
		"no time":      func(c *DMAConfig) { c.IssueCycles = -1 },
	} {
		c := NFP6000()
		spoil(&c)
		if _, err := NewDMA(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A transfer takes the longer the larger it is, those asked for one after another
// finish so, and the link carries their data and headers and nothing else.
func TestDMATransfers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := NewDMA(NFP6000())
		if err != nil {
			t.Fatal(err)
		}
		p := d.cfg.PCIe
		var now, arrived, sent units.Time
		var up, down units.Bytes
		for range rapid.IntRange(1, 50).Draw(t, "transfers") {
			now += units.Time(rapid.IntRange(0, 1_000_000).Draw(t, "gap"))
			n := rapid.IntRange(1, 8192).Draw(t, "bytes")
			if rapid.Bool().Draw(t, "write") {
				s, visible := d.Write(now, n)
				if s < sent || s < now+p.Rate.Serialize(units.Bytes(n)) || visible != s+p.WriteLatency {
					t.Fatalf("a write of %d at %v is sent at %v after one at %v, visible at %v", n, now, s, sent, visible)
				}
				sent = s
				up += units.Bytes(n + tlps(n, p.MPS)*p.RequestHeader)
			} else {
				a := d.Read(now, n)
				if a < arrived || a < now+p.ReadLatency+p.Rate.Serialize(units.Bytes(n)) {
					t.Fatalf("a read of %d at %v arrives at %v after one at %v", n, now, a, arrived)
				}
				arrived = a
				up += units.Bytes(tlps(n, p.MRRS) * p.RequestHeader)
				down += units.Bytes(n + tlps(n, p.MPS)*p.CompletionHeader)
			}
		}
		if u, dn := d.Bytes(); u != up || dn != down {
			t.Fatalf("the link carried %d and %d bytes, want %d and %d", u, dn, up, down)
		}
	})
}
