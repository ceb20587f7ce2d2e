package pcie

import "github.com/sluice-rdma/sluice/units"

// HostCacheConfig describes the last-level cache of the socket that the NIC is at. The
// NIC's writes go into a part of it (data direct I/O), its reads take what is there and
// leave nothing behind.
type HostCacheConfig struct {
	// Its lines take 36 bytes each in the model.

	// Size is how many bytes the cache holds of what processors have used, of which
	// the least recently used go; 0 is a cache that has all that the NIC reads or, with
	// memory.rate, no payload and none of its writes (data direct I/O is off).
	Size int `yaml:"size" range:"[0,2^28]"`
	// Writes is how many bytes of the NIC's writes it holds beside that: the share of ways that
	// data direct I/O may allocate. What goes to make room for others is written to memory.
	Writes int `yaml:"writes" range:"[0,2^28]"`
	// Miss is what memory takes beyond the cache.
	Miss units.Time `yaml:"miss" range:"[0,100ms]"`
}

// hostCache knows the lines in the cache. Processors add lines with Link.Touch.
type hostCache struct {
	size    int  // lines that processors have used
	used    *lru // by processors, nil before the first
	written *lru // by the NIC
}

func newHostCache(c HostCacheConfig) *hostCache {
	if c.Size == 0 {
		return nil
	}
	return &hostCache{size: max(1, c.Size/CacheLine), written: newLRU(max(1, c.Writes/CacheLine))}
}

// lines returns the numbers of the first and the last line of n bytes from an address on.
func lines(addr uint64, n int) (first, last uint64) {
	return addr / CacheLine, (addr + uint64(max(n, 1)) - 1) / CacheLine
}

// hot reports whether a line is there that a processor has used.
func (h *hostCache) hot(line uint64) bool { return h.used != nil && h.used.find(line) != 0 }

// has reports whether all of n bytes from an address on are there.
func (h *hostCache) has(addr uint64, n int) bool {
	line, last := lines(addr, n)
	for ; line <= last; line++ {
		if !h.hot(line) && h.written.find(line) == 0 {
			return false
		}
	}
	return true
}

// write puts n bytes there. It reports whether all were before, and how many bytes of the NIC's earlier
// writes go to memory to make room.
func (h *hostCache) write(addr uint64, n int) (all bool, displaced int) {
	all = true
	line, last := lines(addr, n)
	for ; line <= last; line++ {
		if h.hot(line) {
			continue
		}
		if !h.written.touch(line) {
			all = false
			if h.written.displaced != 0 {
				displaced += CacheLine
			}
		}
	}
	return all, displaced
}

// Touch says that a processor of the NIC's socket has used n bytes from an address on:
// they are in its cache.
func (p *Link) Touch(addr uint64, n int) {
	if p.cache == nil {
		return
	}
	if p.cache.used == nil { // hosts whose processors are not simulated need no room for it
		p.cache.used = newLRU(p.cache.size)
	}
	line, last := lines(addr, n)
	for ; line <= last; line++ {
		p.cache.written.remove(line)
		p.cache.used.touch(line)
	}
}

// distance returns the time beyond ReadLatency that a read takes because of where its data are.
// Payload alone may be elsewhere than in the cache: the rest, such as elements of
// queues, a processor has just written.
func (p *Link) distance(addr uint64, n int, why Purpose) units.Time {
	switch {
	case p.cache == nil:
		return p.cfg.SocketLatency
	case why != ForPayload || p.cache.has(addr, n):
		return 0
	}
	return p.cfg.HostCache.Miss + p.cfg.SocketLatency
}

// taking returns the time beyond WriteLatency that a write takes because of where its lines
// are, and the bytes that memory carries for it. A line of another socket that the cache does not hold needs a lookup
// at that
// socket, whose directory is in memory.
func (p *Link) taking(addr uint64, n int) (longer units.Time, toMemory int) {
	if p.cache == nil {
		return p.cfg.SocketLatency, n
	}
	all, displaced := p.cache.write(addr, n)
	if all || p.cfg.SocketLatency == 0 {
		return 0, displaced
	}
	return p.cfg.HostCache.Miss + p.cfg.SocketLatency, displaced
}
