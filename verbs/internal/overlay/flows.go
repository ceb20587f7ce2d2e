package overlay

// flows is connections by the index in their ids.
type flows[Q any] struct {
	bits uint
	list []flow[Q]
	free []int
}

// flow is a place for a connection.
type flow[Q any] struct {
	q    Q
	id   uint32 // of the last one
	used bool
}

// add gives q an id. It reports false if no id is left.
func (f *flows[Q]) add(q Q) (id uint32, ok bool) {
	i := len(f.list)
	if n := len(f.free); n > 0 {
		i, f.free = f.free[n-1], f.free[:n-1]
	} else {
		if i == 1<<f.bits {
			return 0, false
		}
		f.list = append(f.list, flow[Q]{id: uint32(i)})
	}
	e := &f.list[i]
	e.q, e.id, e.used = q, e.id+1<<f.bits, true // the next generation
	return e.id, true
}

// remove ends the use of an id.
func (f *flows[Q]) remove(id uint32) {
	i := f.index(id)
	f.list[i] = flow[Q]{id: id}
	f.free = append(f.free, i)
}

// find returns the QP with an id.
func (f *flows[Q]) find(id uint32) (q Q, ok bool) {
	i := f.index(id)
	if i >= len(f.list) || !f.list[i].used || f.list[i].id != id {
		return q, false
	}
	return f.list[i].q, true
}

func (f *flows[Q]) index(id uint32) int { return int(id & (1<<f.bits - 1)) }
