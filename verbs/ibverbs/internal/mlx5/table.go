package mlx5

import "sync/atomic"

// Table finds a device's queue pairs by their numbers, of 24 bits. Its zero value is empty. It
// may be used by several goroutines.
type Table struct {
	pages [1 << pageBits]atomic.Pointer[page]
}

const pageBits = 12 // of a number's lower bits, and of its upper ones

type page [1 << pageBits]atomic.Pointer[QP]

func (t *Table) find(num uint32) *QP {
	if p := t.pages[num>>pageBits].Load(); p != nil {
		return p[num&(1<<pageBits-1)].Load()
	}
	return nil
}

func (t *Table) add(q *QP) {
	at := &t.pages[q.num>>pageBits]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(page))
	}
	at.Load()[q.num&(1<<pageBits-1)].Store(q)
}

func (t *Table) remove(q *QP) {
	t.pages[q.num>>pageBits].Load()[q.num&(1<<pageBits-1)].CompareAndSwap(q, nil)
}
