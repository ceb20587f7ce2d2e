package des

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

// calendar is the queue of pending events: a calendar queue (Brown, CACM 31:10,
// 1988) of one turn. Time is cut into buckets of equal width. Events of the next
// len(heads) buckets hang in lists, unordered; what lies further ahead is in a
// heap; and the bucket whose turn it is has been sorted. So an event costs the
// same however many are pending, and touches memory three times.
//
// The order of delivery is that of before, whatever the buckets are. Their width
// follows the density of events: see retune.
type calendar struct {
	count int // of pending events

	// Events before the end of bucket turn: sorted, the earliest last, also events
	// scheduled after the sort.
	sorted []Event
	late   heap
	fresh  bool // sorted was loaded and not yet announced

	shift uint  // a bucket is 2^shift ps wide
	turn  int64 // the bucket that is being delivered, counted from time 0
	near  int   // events in lists

	heads []uint32 // by bucket modulo their number: the first of its list, 0 if none
	full  []uint64 // a bit for each that has one
	nodes []node   // 0 is none
	free  uint32

	far heap // events of buckets from turn+len(heads) on

	// The counts that retune uses, since its last call.
	loads, loaded, passed, farther int
}

// node is an event in the list of a bucket.
type node struct {
	ev   Event
	next uint32
}

const (
	firstShift   = 16   // 66 ns
	fewestHeads  = 1024 // a power of two, as all numbers of buckets
	mostHeads    = 1 << 18
	retuneEvery  = 1 << 13 // events and empty buckets
	crowded      = 6       // events a bucket above which buckets get narrower
	deserted     = 1       // and below which they get wider
	mostInserted = 32      // events that are sorted by insertion
)

func newCalendar() calendar {
	return calendar{
		shift: firstShift,
		heads: make([]uint32, fewestHeads),
		full:  make([]uint64, fewestHeads/64),
		nodes: make([]node, 1, 1024),
	}
}

func (c *calendar) len() int { return c.count }

func (c *calendar) push(ev Event) {
	c.count++
	b := int64(ev.At) >> c.shift
	if ahead := b - c.turn; ahead > 0 && ahead < int64(len(c.heads)) {
		// Word by word: what has just been put together can't be read back in one
		// piece without waiting.
		n := c.hang(b)
		n.At, n.Arg, n.dst, n.src, n.seq, n.Kind = ev.At, ev.Arg, ev.dst, ev.src, ev.seq, ev.Kind
		return
	} else if ahead <= 0 {
		c.late.push(ev)
		return
	}
	c.farther++
	c.far.push(ev)
}

// hang makes room for an event in the list of its bucket.
func (c *calendar) hang(b int64) *Event {
	i := c.free
	if i == 0 {
		c.nodes = append(c.nodes, node{})
		i = uint32(len(c.nodes) - 1)
	} else {
		c.free = c.nodes[i].next
	}
	slot := uint(b) & uint(len(c.heads)-1)
	n := &c.nodes[i]
	n.next = c.heads[slot]
	c.heads[slot] = i
	c.full[slot/64] |= 1 << (slot % 64)
	c.near++
	return &n.ev
}

// min returns the earliest event, nil if the calendar is empty. It is valid until
// the next call of another method.
func (c *calendar) min() *Event {
	if len(c.sorted) == 0 && len(c.late) == 0 && !c.advance() {
		return nil
	}
	if n := len(c.sorted); n > 0 && (len(c.late) == 0 || before(&c.sorted[n-1], &c.late[0])) {
		return &c.sorted[n-1]
	}
	return &c.late[0]
}

// drop removes the event that min just returned.
func (c *calendar) drop(ev *Event) {
	c.count--
	if n := len(c.sorted); n > 0 && ev == &c.sorted[n-1] {
		c.sorted = c.sorted[:n-1]
		return
	}
	c.late.pop()
}

// advance makes the next bucket that has events the one whose turn it is. It
// reports whether there was one.
func (c *calendar) advance() bool {
	if c.count == 0 {
		return false
	}
	if c.loaded+c.passed >= retuneEvery {
		c.retune()
		if len(c.late) > 0 {
			return true
		}
	}
	next := int64(-1)
	if c.near > 0 {
		next = c.turn + c.distance()
	}
	if len(c.far) > 0 {
		if b := int64(c.far[0].At) >> c.shift; next < 0 || b < next {
			next = b
		}
	}
	c.passed += int(min(next-c.turn, retuneEvery))
	c.turn = next
	for len(c.far) > 0 {
		b := int64(c.far[0].At) >> c.shift
		if b-next >= int64(len(c.heads)) {
			break
		}
		*c.hang(b) = c.far.pop()
	}
	c.load(uint(next) & uint(len(c.heads)-1))
	return true
}

// distance returns the number of buckets from turn to the next list. There is one.
func (c *calendar) distance() int64 {
	mask := uint(len(c.heads) - 1)
	from := uint(c.turn+1) & mask
	word := from / 64
	set := c.full[word] >> (from % 64) << (from % 64)
	for set == 0 {
		word = (word + 1) & (mask / 64)
		set = c.full[word]
	}
	slot := word*64 + uint(bits.TrailingZeros64(set))
	return int64((slot-from)&mask) + 1
}

// load sorts the list of a bucket into the empty sorted.
func (c *calendar) load(slot uint) {
	q := c.sorted[:0]
	for i := c.heads[slot]; i != 0; {
		n := &c.nodes[i]
		q = append(q, n.ev)
		i, n.next, c.free = n.next, c.free, i
	}
	c.heads[slot] = 0
	c.full[slot/64] &^= 1 << (slot % 64)
	c.near -= len(q)
	c.loads++
	c.loaded += len(q)
	if len(q) > mostInserted {
		// So many fall together only where they start together.
		for i := range q {
			c.late.push(q[i])
		}
		c.sorted = q[:0]
		return
	}
	// A list has the latest first, which is the order required except for a few.
	for i := 1; i < len(q); i++ {
		if !before(&q[i-1], &q[i]) {
			continue
		}
		ev := q[i]
		j := i
		for j > 0 && before(&q[j-1], &ev) {
			q[j] = q[j-1]
			j--
		}
		q[j] = ev
	}
	c.sorted = q
	c.fresh = true
}

// retune changes the width or number of buckets, if the events loaded since the
// last call call for it. Its aim is a few events a bucket, few empty buckets, and
// few events that do not find a list at once. No bucket is sorted at this time.
func (c *calendar) retune() {
	perLoad, empty, farther := c.loaded/c.loads, c.passed/c.loads, c.farther > c.loaded/4
	c.loads, c.loaded, c.passed, c.farther = 0, 0, 0, 0
	shift, heads := c.shift, len(c.heads)
	switch {
	case perLoad > crowded && shift > 0:
		by := min(uint(bits.Len(uint(perLoad/crowded))), shift)
		shift -= by
		heads <<= by // the same span
	case perLoad <= deserted && empty > 4:
		shift++
		heads /= 2
	case farther:
		heads *= 2
	}
	heads = min(max(heads, fewestHeads), mostHeads)
	if shift == c.shift && heads == len(c.heads) {
		return
	}
	now := units.Time(c.turn << c.shift)
	var all []Event
	for slot := range c.heads {
		for i := c.heads[slot]; i != 0; i = c.nodes[i].next {
			all = append(all, c.nodes[i].ev)
		}
	}
	all = append(all, c.far...)
	count := c.count
	old := *c
	*c = calendar{
		sorted: old.sorted[:0], late: old.late[:0], far: old.far[:0], nodes: old.nodes[:1],
		shift: shift, turn: int64(now) >> shift, heads: old.heads, full: old.full,
	}
	if heads != len(old.heads) {
		c.heads, c.full = make([]uint32, heads), make([]uint64, heads/64)
	} else {
		clear(c.heads)
		clear(c.full)
	}
	for i := range all {
		c.push(all[i])
	}
	c.count, c.farther = count, 0
}
