package des

// heap is a 4-ary heap of events: half the levels of a binary one, and the four
// children lie in two or three cache lines.
type heap []Event

func before(a, b *Event) bool {
	if a.At != b.At {
		return a.At < b.At
	}
	if a.dst != b.dst {
		return a.dst < b.dst
	}
	if a.src != b.src {
		return a.src < b.src
	}
	return int32(a.seq-b.seq) < 0 // the number may wrap
}

func (h *heap) push(ev Event) {
	q := append(*h, ev)
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !before(&ev, &q[parent]) {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = ev
	*h = q
}

func (h *heap) pop() Event {
	q := *h
	top := q[0]
	last := q[len(q)-1]
	q = q[:len(q)-1]
	*h = q
	if len(q) == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(q) {
			break
		}
		end := min(child+4, len(q))
		least := child
		for c := child + 1; c < end; c++ {
			if before(&q[c], &q[least]) {
				least = c
			}
		}
		if !before(&q[least], &last) {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = last
	return top
}
