package pcie

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// IOMMUConfig describes the translation of the addresses that the NIC uses: a
// cache of translations (IO-TLB) before page walkers. Without entries there is no
// IOMMU.
type IOMMUConfig struct {
	// Entries is the number of pages the IO-TLB holds, of which the least recently used
	// goes; 0 is no IOMMU.
	Entries int `yaml:"entries" range:"[1,2^24]" zero:"no IOMMU"`
	// PageSize is that of the host's pages in bytes, a power of two from 4096.
	PageSize int `yaml:"page_size"`
	// Miss is what a page walk takes, beside a line from memory where that has a rate.
	Miss units.Time `yaml:"miss" range:"[0,100ms]"`
	// Walkers is how many walks there are at a time; 0 is as many as there are misses.
	Walkers int `yaml:"walkers" range:"[1,2^16]" zero:"one a miss"`
}

// iommu translates requests in the order of their arrival: one that hits waits for
// earlier ones that miss (pcie-bench's rates of reads show it where one page in twelve
// misses). Several walks go on at a time, as far as walkers, tags and credits allow.
type iommu struct {
	IOMMUConfig
	tlb     *lru
	memory  *dram // that walks read, or nil
	walkers stage.Inflight
	last    units.Time // when the newest request was translated
	hits    uint64
	misses  uint64
}

func newIOMMU(c IOMMUConfig, memory *dram) *iommu {
	if c.Entries == 0 {
		return nil
	}
	return &iommu{IOMMUConfig: c, tlb: newLRU(c.Entries), memory: memory, walkers: stage.NewInflight(c.Walkers)}
}

// translate is translateRelaxed for one that waits for those before it.
func (m *iommu) translate(t units.Time, addr uint64, n int) units.Time {
	m.last = max(m.last, m.translateRelaxed(t, addr, n))
	return m.last
}

// translateRelaxed returns when the translation of n bytes from an address on, requested
// at t, is done.
func (m *iommu) translateRelaxed(t units.Time, addr uint64, n int) units.Time {
	done := t
	size := uint64(m.PageSize)
	for page := addr / size; page <= (addr+uint64(max(n, 1))-1)/size; page++ {
		if m.tlb.touch(page) {
			m.hits++
			continue
		}
		m.misses++
		end := m.walkers.Free(t)
		if m.memory != nil {
			end += m.memory.serve(end, CacheLine)
		}
		end += m.Miss
		m.walkers.Hold(end)
		done = max(done, end)
	}
	return done
}
