package nicmodel

import "github.com/sluice-rdma/sluice/units"

// icm is a cache on the chip of entries that the NIC keeps in host memory (the
// interconnect context memory of the mlx4 and mlx5 drivers). An entry's address there is
// its key.
//
// What a command of the driver writes, a new context or a region's translations, is in
// the cache if there is room for all of it, and displaces nothing. So a cache that holds
// all there are has nothing to look up.
type icm struct {
	name     string
	capacity int       // entries; 0 for no limit
	bytes    int       // of an entry
	dirty    bool      // use changes entries, so that those displaced are written back
	fetches  *inflight // reads at a time, of this cache and of those that share it
	why      Purpose

	written      []span // what there is, while all of it fits
	held         int    // entries in them
	lru          *lru   // nil as long as that is so
	hits, misses uint64
	waited       units.Time // for entries, summed over what did
}

// span is entries that lie behind each other.
type span struct {
	first uint64
	n     int
}

// full reports whether the cache has to be looked up.
func (c *icm) full() bool { return c.lru != nil }

// add says that a command has written entries.
func (c *icm) add(first uint64, n int) {
	if c.capacity == 0 {
		return
	}
	if c.lru == nil {
		if n <= c.capacity-c.held {
			c.held += n
			c.written = append(c.written, span{first, n})
			return
		}
		c.lru = newLRU(c.capacity)
		for _, s := range c.written {
			c.touchAll(s)
		}
		c.written, c.held = nil, 0
	}
	if n <= c.capacity-c.lru.count {
		c.touchAll(span{first, n})
	}
}

func (c *icm) touchAll(s span) {
	for i := range s.n {
		c.lru.touch(s.first + uint64(i*c.bytes))
	}
}

// drop says that a command has taken entries away.
func (c *icm) drop(first uint64, n int) {
	if c.lru != nil {
		c.lru.removeRange(first, first+uint64(n)*uint64(c.bytes))
		return
	}
	for i := range c.written {
		if c.written[i].first == first {
			c.held -= n
			c.written[i] = c.written[len(c.written)-1]
			c.written = c.written[:len(c.written)-1]
			return
		}
	}
}

// need returns when an entry that is needed at t is available. For a miss it also
// returns when its read could start: until then the maximum number of reads was under
// way. The cache is one to be looked up.
func (c *icm) need(p *PCIe, t units.Time, entry uint64) (ready, free units.Time) {
	hit := c.lru.touch(entry)
	slot := c.lru.newest()
	if hit {
		c.hits++
		c.waited += max(slot.ready-t, 0)
		return max(t, slot.ready), t // it may be under way
	}
	c.misses++
	free = c.fetches.free(t)
	// Its room on the link is taken now. If it has to wait to be read, it will not wait
	// for what is on the link now as well.
	ready = max(p.Read(t, entry, c.bytes, c.why), free+p.alone(c.bytes))
	if c.dirty && c.lru.displaced != 0 {
		p.Write(t, c.lru.displaced, c.bytes, c.why)
	}
	c.fetches.hold(ready)
	slot.ready = ready
	c.waited += ready - t
	return ready, free
}

func (n *NIC) icms() [3]*icm {
	return [...]*icm{&n.contexts.icm, &n.translation.keys, &n.translation.pages}
}
