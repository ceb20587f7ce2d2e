package endpoint

// table finds an object by its random number: a hash table with open addressing
// whose hash is the number's low bits, which suffices because this package draws
// the numbers itself. It is never more than half full.
type table[T any] struct {
	slots []slot[T]
	n     int
}

type slot[T any] struct {
	key uint32
	v   *T
}

func (t *table[T]) get(key uint32) *T {
	if t.n == 0 {
		return nil
	}
	mask := uint32(len(t.slots) - 1)
	for i := key & mask; t.slots[i].v != nil; i = (i + 1) & mask {
		if t.slots[i].key == key {
			return t.slots[i].v
		}
	}
	return nil
}

// put adds v under a key that is not in the table.
func (t *table[T]) put(key uint32, v *T) {
	if 2*(t.n+1) > len(t.slots) {
		old := t.slots
		t.slots, t.n = make([]slot[T], max(16, 2*len(old))), 0
		for _, s := range old {
			if s.v != nil {
				t.insert(s)
			}
		}
	}
	t.insert(slot[T]{key, v})
}

func (t *table[T]) insert(s slot[T]) {
	mask := uint32(len(t.slots) - 1)
	i := s.key & mask
	for t.slots[i].v != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
	t.n++
}

// remove takes a key out and closes the gap, so that no search stops at it.
func (t *table[T]) remove(key uint32) {
	if t.n == 0 {
		return
	}
	mask := uint32(len(t.slots) - 1)
	i := key & mask
	for t.slots[i].key != key || t.slots[i].v == nil {
		if t.slots[i].v == nil {
			return
		}
		i = (i + 1) & mask
	}
	t.slots[i] = slot[T]{}
	t.n--
	for i = (i + 1) & mask; t.slots[i].v != nil; i = (i + 1) & mask {
		s := t.slots[i]
		t.slots[i] = slot[T]{}
		t.n--
		t.insert(s)
	}
}
