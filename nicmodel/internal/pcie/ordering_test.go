package pcie

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// orderedLink has posted and non-posted credits, and an IOMMU of one page.
func orderedLink(t *testing.T, change func(*Config)) *Link {
	t.Helper()
	c := Config{
		Rate: 100 * units.Gbps, MPS: 256, MRRS: 512, RCB: 64, ReadLatency: 500 * units.Nanosecond, WriteLatency: 250 * units.Nanosecond,
		Tags: 256, PostedCredits: 64, PostedHold: 100 * units.Nanosecond, NonPostedCredits: 4, NonPostedHold: 200 * units.Nanosecond,
	}
	if change != nil {
		change(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The ordering rules of PCI Express (Base Specification, 2.4.1) as far as the NIC meets them: row, may it pass column.
func TestOrderingRules(t *testing.T) {
	const us = units.Microsecond
	walks := func(c *Config) {
		c.IOMMU = IOMMUConfig{Entries: 8, PageSize: 4096, Miss: 2 * us}
	}
	t.Run("a write does not pass a write", func(t *testing.T) {
		p := orderedLink(t, walks)
		_, first := p.Write(0, 1<<20, 64, ForPayload)
		p.mmu.tlb.touch(2 << 20 / 4096)
		if _, second := p.Write(0, 2<<20, 64, ForPayload); second < first {
			t.Errorf("seen at %v, before %v", second, first)
		}
	})
	t.Run("a relaxed write passes one", func(t *testing.T) {
		p := orderedLink(t, func(c *Config) { walks(c); c.RelaxedOrdering = true })
		_, first := p.Write(0, 1<<20, 64, ForPayload)
		p.mmu.tlb.touch(2 << 20 / 4096)
		_, second := p.Write(0, 2<<20, 64, ForPayload)
		if second > first-us {
			t.Errorf("seen at %v, as late as %v", second, first)
		}
		if _, completion := p.Write(0, 2<<20, 64, ForCQE); completion < first {
			t.Errorf("a completion is seen at %v, before data at %v", completion, first)
		}
	})
	t.Run("a read does not pass a write", func(t *testing.T) {
		p := orderedLink(t, walks)
		_, seen := p.Write(0, 1<<20, 64, ForPayload)
		p.mmu.tlb.touch(2 << 20 / 4096)
		if read := p.Read(0, 2<<20, 64, ForPayload); read < seen {
			t.Errorf("answered at %v, before the write at %v", read, seen)
		}
	})
	t.Run("a write passes reads", func(t *testing.T) {
		p := orderedLink(t, nil)
		alone, _ := orderedLink(t, nil).Write(0, 1<<20, 64, ForPayload)
		for range 40 { // each four wait for the credits of those before
			p.Read(0, 2<<20, 64, ForPayload)
		}
		// But on the link, whose bytes they take.
		if sent, _ := p.Write(0, 1<<20, 64, ForPayload); sent > alone+p.cfg.Rate.Serialize(40*24)+1000 {
			t.Errorf("sent at %v, and alone at %v", sent, alone)
		}
	})
	t.Run("a completion does not pass a store", func(t *testing.T) {
		p := orderedLink(t, nil)
		stored := p.Store(0, 1<<16, ForDoorbell) - p.cfg.WriteLatency
		if read := p.Read(0, 2<<20, 64, ForPayload); read < stored {
			t.Errorf("data come at %v, before the store that was there until %v", read, stored)
		}
	})
}

// Read requests have non-posted credits: with four, each held for 200 ns, 20 million a second go.
func TestNonPostedCredits(t *testing.T) {
	p := orderedLink(t, func(c *Config) { c.Tags = 1000 })
	var done units.Time
	for range 400 {
		done = p.Read(0, 2<<20, 64, ForPayload)
	}
	if want := 400 / 4 * 200 * units.Nanosecond; done < want-units.Microsecond || done > want+units.Microsecond {
		t.Errorf("400 reads take %v, expected about %v", done, want)
	}
	if p.stalls.NonPosted == 0 || p.stalls.Tags != 0 {
		t.Errorf("%v waited for credits, %v for tags", p.stalls.NonPosted, p.stalls.Tags)
	}
}
