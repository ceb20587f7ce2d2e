package pcie

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Host describes a host of one generation of processors to a NIC.
type Host struct {
	// Processor is the part whose cache it is.
	Processor string
	// Generation of its PCIe, 3 to 5.
	Generation int
	// ReadLatency is that of Config, PostedLines the cache lines of writes that the host takes before it has finished the first.
	ReadLatency units.Time
	PostedLines int
	// Cache is the last-level cache of a socket: what processors have used, what a device's writes may fill (two ways
	// by Intel's default), and how much later memory answers. Without such ways a device's writes go to memory, and OnHost
	// leaves it out.
	Cache HostCacheConfig
	// Memory is the rate of a socket's channels, all populated.
	Memory units.Rate
	// Source says where these are from, as the table of docs/nic.md has it.
	Source string
}

// llc is a cache of kib KiB and ways ways; a device's writes have two of them, or the number given.
func llc(kib, ways, writes int, miss units.Time) HostCacheConfig {
	return HostCacheConfig{Size: kib << 10, Writes: kib / ways * writes << 10, Miss: miss}
}

// channels returns the rate of n channels, 8 bytes wide, of transfers million transfers a second
// each.
func channels(n, transfers int) units.Rate { return units.Rate(n*transfers) * 64 * units.Mbps }

const hostEstimate = "cache, memory's rate: the vendor's, as recalled; others: estimates"

// IIOLines is the number of cache lines of writes that the first of them take in.
const IIOLines = 93

// hosts are by name. Each later generation of PCIe has twice the lines: an estimate.
var hosts = map[string]Host{
	"sandybridge":    {"Xeon E5-2630", 3, 530 * units.Nanosecond, IIOLines, llc(15360, 20, 2, 53*units.Nanosecond), channels(4, 1333), hostEstimate},
	"ivybridge":      {"Xeon E5-2620 v2", 3, 530 * units.Nanosecond, IIOLines, llc(15360, 20, 2, 53*units.Nanosecond), channels(4, 1600), hostEstimate},
	"haswell":        {"Xeon E5-2637 v3", 3, 530 * units.Nanosecond, IIOLines, llc(15360, 20, 2, 53*units.Nanosecond), channels(4, 2133), hostEstimate},
	"broadwell":      {"Xeon E5-2630 v4", 3, 530 * units.Nanosecond, IIOLines, llc(25600, 20, 2, 53*units.Nanosecond), channels(4, 2133), "cache: pcie-bench's machine; read latency and memory's latency: fitted to its median (P3) and to row PB5; lines: hostCC, memory's rate: the vendor's, recalled"},
	"skylake":        {"Xeon Gold 6130", 3, 550 * units.Nanosecond, IIOLines, llc(22528, 11, 2, 60*units.Nanosecond), channels(6, 2666), hostEstimate},
	"cascadelake":    {"Xeon Gold 6248", 3, 550 * units.Nanosecond, IIOLines, llc(28160, 11, 2, 60*units.Nanosecond), channels(6, 2933), hostEstimate},
	"icelake":        {"Xeon Platinum 8358", 4, 570 * units.Nanosecond, 2 * IIOLines, llc(49152, 12, 2, 65*units.Nanosecond), channels(8, 3200), hostEstimate},
	"sapphirerapids": {"Xeon Platinum 8480+", 5, 600 * units.Nanosecond, 4 * IIOLines, llc(107520, 15, 2, 70*units.Nanosecond), channels(8, 4800), hostEstimate},
	// A device's writes go to memory: there is no DDIO.
	"rome":     {"EPYC 7742", 4, 650 * units.Nanosecond, 2 * IIOLines, llc(16384, 16, 0, 0), channels(8, 3200), hostEstimate},
	"milan":    {"EPYC 7763", 4, 650 * units.Nanosecond, 2 * IIOLines, llc(32768, 16, 0, 0), channels(8, 3200), hostEstimate},
	"genoa":    {"EPYC 9654", 5, 650 * units.Nanosecond, 4 * IIOLines, llc(32768, 16, 0, 0), channels(12, 4800), hostEstimate},
	"neoverse": {"Ampere Altra Q80-30 (Neoverse N1)", 4, 600 * units.Nanosecond, 2 * IIOLines, llc(32768, 16, 0, 0), channels(8, 3200), hostEstimate},
	"grace":    {"Grace (Neoverse V2)", 5, 600 * units.Nanosecond, 4 * IIOLines, llc(116736, 12, 0, 0), 4000 * units.Gbps, hostEstimate},
}

// Hosts lists the names of the hosts.
func Hosts() []string { return slices.Sorted(maps.Keys(hosts)) }

// HostOf returns the host of that name.
func HostOf(name string) (Host, error) {
	h, ok := hosts[name]
	if !ok {
		return Host{}, fmt.Errorf("no host is called %q: take one of %s", name, strings.Join(Hosts(), ", "))
	}
	return h, nil
}

// sixteenLanes is the rate of 16 lanes of each generation by pcie-bench's model.
var sixteenLanes = map[int]units.Rate{3: 115_760 * units.Mbps, 4: 227_400 * units.Mbps, 5: 454_800 * units.Mbps}

// OnHost puts a NIC into a host: reads take as long as the host's do, its writes have the host's credits, a link of a
// later generation runs at the host's, and what the cache does not hold crosses the host's memory. Other loads of that memory are none.
func (c *Config) OnHost(h Host) {
	// By another model's count of headers a link of the same generation carries up to a tenth more.
	if most := sixteenLanes[h.Generation]; c.Rate > most*11/10 {
		c.Rate = most
	}
	c.ReadLatency = h.ReadLatency
	c.PostedCredits, c.PostedData = h.PostedLines, h.PostedLines*CacheLine
	c.Memory.Rate = h.Memory
	if h.Cache.Writes > 0 {
		c.HostCache = h.Cache
	}
}
