package cm

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/units"
)

// crowd holds connections that the other side has requested but not yet proven to be
// alive, oldest first. Anybody can send a REQ in any name, so their number is
// bounded, and no source may keep the others out.
type crowd struct {
	most           int
	n              int
	oldest, newest *conn
	sources        map[netip.Addr]int
}

// crowdLink is a connection's place in a crowd.
type crowdLink struct {
	of         *crowd
	prev, next *conn
	since      units.Time
}

func (w *crowd) add(now units.Time, c *conn) {
	if w.sources == nil {
		w.sources = map[netip.Addr]int{}
	}
	w.n++
	w.sources[c.path.Remote]++
	c.crowd = crowdLink{of: w, prev: w.newest, since: now}
	if w.newest == nil {
		w.oldest = c
	} else {
		w.newest.crowd.next = c
	}
	w.newest = c
}

// leaveCrowd takes the connection out of the crowd that it is in.
func (c *conn) leaveCrowd() {
	w, l := c.crowd.of, c.crowd
	if w == nil {
		return
	}
	w.n--
	if w.sources[c.path.Remote]--; w.sources[c.path.Remote] == 0 {
		delete(w.sources, c.path.Remote)
	}
	if l.prev == nil {
		w.oldest = l.next
	} else {
		l.prev.crowd.next = l.next
	}
	if l.next == nil {
		w.newest = l.prev
	} else {
		l.next.crowd.prev = l.prev
	}
	c.crowd = crowdLink{}
}

// full reports whether another one has to wait for room.
func (w *crowd) full() bool { return w.n >= w.most }

// victim returns the connection to drop to make room for one more from a source: the
// oldest of that source if it has its share of the places already, else the oldest of
// the sources that exceed theirs. It returns nil if all of these are younger than
// age.
func (w *crowd) victim(now units.Time, source netip.Addr, age units.Time) *conn {
	sources := len(w.sources)
	if w.sources[source] == 0 {
		sources++
	}
	share := max(1, w.most/sources)
	own := w.sources[source] >= share
	for c := w.oldest; c != nil && now-c.crowd.since >= age; c = c.crowd.next {
		if own && c.path.Remote == source || !own && w.sources[c.path.Remote] > share {
			return c
		}
	}
	return nil
}
