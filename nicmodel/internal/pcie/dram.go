package pcie

import "github.com/sluice-rdma/sluice/units"

// MemoryConfig describes the memory of the socket that the NIC is at, and what the host's own
// processors do to it. Without a rate memory is never busy.
//
// With a rate, what crosses it is each line that the NIC writes to it or reads from it: the
// payload of reads that the HostCache does not hold, and of writes what the HostCache displaces to
// make room for them. Without a HostCache, all of a payload's reads and all writes. A page walk of the
// IOMMU reads one line.
type MemoryConfig struct {
	// Rate is what the channels carry, both ways together; 0 is without bound.
	Rate units.Rate `yaml:"rate" eg:"375Gbps" range:"[1Gbps,100Tbps]" zero:"no bound"`
	// Load is what the host's processors ask of it, both ways together.
	Load units.Rate `yaml:"load" eg:"300Gbps" range:"[1bps,100Tbps]" zero:"no load"`
	// Outstanding is how many bytes they have under way at most: cores, times a core's line fill
	// buffers, times 64. They wait for those before they ask for more.
	Outstanding int `yaml:"outstanding" eg:"7680" range:"[0,2^30]"`
}

// dram is a memory controller that serves requests in the order of their arrival. The
// processors' arrive evenly, at Load, as far as Outstanding lets them; they are not events: what has arrived
// since the last look follows from the time. What share the NIC has of a busy memory follows from what either
// has outstanding, as of credits and tags (Vuppalapati et al., Understanding the Host Network, SIGCOMM 2024).
type dram struct {
	MemoryConfig
	at          units.Time // of the last look
	nic, others units.Time // work that waited then
	most        units.Time // of others
	bytes       units.Bytes
}

func newDRAM(c MemoryConfig) *dram {
	if c.Rate == 0 {
		return nil
	}
	return &dram{MemoryConfig: c, most: c.Rate.Serialize(units.Bytes(c.Outstanding))}
}

// look brings what waits up to t. Of what waited, the same share of both is served.
func (m *dram) look(t units.Time) {
	gone := t - m.at
	if gone <= 0 {
		return
	}
	m.at = t
	waited := m.nic + m.others
	if left := max(0, waited-gone); m.nic > 0 {
		m.nic = units.Time(float64(m.nic) * float64(left) / float64(waited))
	}
	asked := min(float64(gone)*float64(m.Load)/float64(m.Rate), float64(gone)+float64(m.most))
	m.others = min(max(waited+units.Time(asked)-gone-m.nic, 0), m.most)
}

// serve has n bytes written or read from t on, and returns how long that takes: they wait for those before
// them. A call for an earlier time than the last, of the other direction, joins the queue as it is.
func (m *dram) serve(t units.Time, n int) units.Time {
	m.look(t)
	m.nic += m.Rate.Serialize(units.Bytes(n))
	m.bytes += units.Bytes(n)
	return m.nic + m.others
}

// fromMemory returns how many bytes of a read memory has to give.
func (p *Link) fromMemory(addr uint64, n int, why Purpose) int {
	if p.memory == nil || why != ForPayload || p.cache != nil && p.cache.has(addr, n) {
		return 0
	}
	return n
}
