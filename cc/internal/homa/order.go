package homa

// before reports whether flow a goes before flow b: it has fewer bytes to come,
// or began earlier. Flows of unknown size come last, as they began.
func (r *receiver) before(a, b uint32) bool {
	f, g := &r.flows[a], &r.flows[b]
	x, y := f.remaining(), g.remaining()
	return x < y || x == y && f.start < g.start
}

func (f *flow) remaining() int64 {
	if f.size == unknown {
		return int64(unknown)
	}
	return int64(f.size - f.arrived)
}

// wait adds a flow to the waiting ones.
func (r *receiver) wait(number uint32) {
	r.waiting = append(r.waiting, number)
	r.flows[number].where = inWaiting
	r.up(len(r.waiting)-1, number)
}

// take takes a flow from where it is, to stay apart.
func (r *receiver) take(number uint32, f *flow) {
	switch f.where {
	case inActive:
		for i, x := range r.active {
			if x == number {
				r.active = append(r.active[:i], r.active[i+1:]...)
				break
			}
		}
	case inWaiting:
		r.remove(int(f.place))
	}
	f.where = apart
}

// promote fills the active flows up, and puts a waiting one in the place of a
// longer one.
func (r *receiver) promote() {
	for len(r.waiting) > 0 {
		first := r.waiting[0]
		if n := len(r.active); n == cap(r.active) {
			last := r.active[n-1]
			if !r.before(first, last) {
				return
			}
			r.active = r.active[:n-1]
			r.flows[last].where = inWaiting
			r.down(0, last)
		} else {
			r.remove(0)
		}
		r.flows[first].where = inActive
		r.active = append(r.active, first)
		r.rise(first)
	}
}

// rise puts an active flow that has become shorter in its place.
func (r *receiver) rise(number uint32) {
	i := len(r.active) - 1
	for r.active[i] != number {
		i--
	}
	for ; i > 0 && r.before(number, r.active[i-1]); i-- {
		r.active[i] = r.active[i-1]
	}
	r.active[i] = number
}

// remove takes out the entry at i of the heap.
func (r *receiver) remove(i int) {
	n := len(r.waiting) - 1
	last := r.waiting[n]
	r.waiting = r.waiting[:n]
	if i < n {
		r.down(i, last)
		r.up(int(r.flows[last].place), last)
	}
}

// up finds the place of a flow at i of the heap or above.
func (r *receiver) up(i int, number uint32) {
	for i > 0 {
		parent := (i - 1) / 2
		if !r.before(number, r.waiting[parent]) {
			break
		}
		r.put(i, r.waiting[parent])
		i = parent
	}
	r.put(i, number)
}

// down finds the place of a flow at i of the heap or below.
func (r *receiver) down(i int, number uint32) {
	for {
		child := 2*i + 1
		if child >= len(r.waiting) {
			break
		}
		if next := child + 1; next < len(r.waiting) && r.before(r.waiting[next], r.waiting[child]) {
			child = next
		}
		if !r.before(r.waiting[child], number) {
			break
		}
		r.put(i, r.waiting[child])
		i = child
	}
	r.put(i, number)
}

func (r *receiver) put(i int, number uint32) {
	r.waiting[i] = number
	r.flows[number].place = int32(i)
}
