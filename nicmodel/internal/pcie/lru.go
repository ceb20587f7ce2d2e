package pcie

// lru is a set of keys of a fixed capacity that forgets the one that was used longest
// ago: the replacement of every cache of the model. The hardware's is not known;
// least recently used makes the knee of a working set that grows past the capacity
// as sharp as it can be. It allocates when it is made only.
type lru struct {
	heads []int32 // of the chains, by hash; 0 ends one
	slots []lruSlot
	used  int32 // slots handed out: 1 to used
	idle  int32 // of those, the first that holds nothing; the rest follow by next
	count int   // keys in it

	displaced uint64 // by the last touch, or 0
}

type lruSlot struct {
	key        uint64
	next       int32 // of the chain
	newer, old int32 // of the order of use; slot 0 is its two ends
}

// newLRU makes a set with room for capacity keys.
func newLRU(capacity int) *lru {
	size := 1
	for size < 2*capacity {
		size *= 2
	}
	return &lru{heads: make([]int32, size), slots: make([]lruSlot, capacity+1)}
}

func (l *lru) chain(key uint64) *int32 {
	return &l.heads[key*0x9e3779b97f4a7c15>>32&uint64(len(l.heads)-1)]
}

func (l *lru) find(key uint64) int32 {
	i := *l.chain(key)
	for i != 0 && l.slots[i].key != key {
		i = l.slots[i].next
	}
	return i
}

// touch makes a key the newest and reports whether it was there. One that was not
// takes the place of the oldest if there is no room.
func (l *lru) touch(key uint64) (hit bool) {
	l.displaced = 0
	i := l.find(key)
	if i == l.slots[0].old && i != 0 { // the newest already
		return true
	}
	switch {
	case i != 0:
		hit = true
		l.unlink(i)
	case l.idle != 0:
		i = l.idle
		l.idle = l.slots[i].next
	case int(l.used) < len(l.slots)-1:
		l.used++
		i = l.used
	default:
		i = l.slots[0].newer
		l.displaced = l.slots[i].key
		l.forget(i)
	}
	if !hit {
		head := l.chain(key)
		l.slots[i].key, l.slots[i].next = key, *head
		l.count++
		*head = i
	}
	last := l.slots[0].old
	l.slots[i].old, l.slots[i].newer = last, 0
	l.slots[last].newer, l.slots[0].old = i, i
	return hit
}

// remove makes room and reports whether the key was there.
func (l *lru) remove(key uint64) bool {
	i := l.find(key)
	if i == 0 {
		return false
	}
	l.forget(i)
	l.slots[i].next, l.idle = l.idle, i
	return true
}

// forget takes a slot out of both lists.
func (l *lru) forget(i int32) {
	l.count--
	l.unlink(i)
	at := l.chain(l.slots[i].key)
	for *at != i {
		at = &l.slots[*at].next
	}
	*at = l.slots[i].next
}

func (l *lru) unlink(i int32) {
	s := &l.slots[i]
	l.slots[s.old].newer, l.slots[s.newer].old = s.newer, s.old
}
