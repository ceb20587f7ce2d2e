//go:build linux

package virtual

import "syscall"

// handles are the objects of an open node by the numbers that its program has for them.
type handles struct {
	objects []any // nil where free
	free    []uint32
}

// add gives o a handle.
func (h *handles) add(o any) uint32 {
	if n := len(h.free); n > 0 {
		i := h.free[n-1]
		h.free = h.free[:n-1]
		h.objects[i] = o
		return i
	}
	h.objects = append(h.objects, o)
	return uint32(len(h.objects) - 1)
}

func (h *handles) get(i uint64) any {
	if i >= uint64(len(h.objects)) {
		return nil
	}
	return h.objects[i]
}

func (h *handles) remove(i uint32) {
	h.objects[i] = nil
	h.free = append(h.free, i)
}

// lookup returns the object with a handle, if it is of the type asked for: a command
// that names another one is invalid. Commands have handles of 32 bits, ioctl's attributes
// of 64.
func lookup[T any, N uint32 | uint64](h *handles, i N) (T, syscall.Errno) {
	o, ok := h.get(uint64(i)).(T)
	if !ok {
		return o, syscall.EINVAL
	}
	return o, 0
}

// doomed is lookup for a command that destroys the object: of a handle that is not there
// the kernel says so.
func doomed[T any, N uint32 | uint64](h *handles, i N) (T, syscall.Errno) {
	if h.get(uint64(i)) == nil {
		var none T
		return none, syscall.ENOENT
	}
	return lookup[T](h, i)
}

// take removes the objects of a type and returns them.
func take[T any](h *handles) []T {
	var all []T
	for i, o := range h.objects {
		if t, ok := o.(T); ok {
			all = append(all, t)
			h.remove(uint32(i))
		}
	}
	return all
}
