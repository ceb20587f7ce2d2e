package softroce

import (
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs"
)

// descriptor is an eventfd that is readable while events wait: none until a program has
// asked for it. The lock of what it belongs to guards it.
type descriptor struct {
	fd       int
	open     bool
	readable bool
}

func (p *descriptor) get(readable bool) (int, error) {
	if !p.open {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return -1, err
		}
		*p = descriptor{fd: fd, open: true}
		p.set(readable)
	}
	return p.fd, nil
}

// set makes the descriptor readable, or not. Neither call can fail: the counter is 0 or 1.
func (p *descriptor) set(readable bool) {
	if !p.open || p.readable == readable {
		return
	}
	p.readable = readable
	one := [8]byte{1, 0, 0, 0, 0, 0, 0, 1} // not 0 in either order of bytes
	if readable {
		_, _ = unix.Write(p.fd, one[:])
	} else {
		_, _ = unix.Read(p.fd, one[:])
	}
}

func (p *descriptor) close() {
	if p.open {
		_ = unix.Close(p.fd)
		*p = descriptor{}
	}
}

// FD implements verbs.Pollable.
func (d *device) FD() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.pollable("get_async_fd", d.closed); err != nil {
		return -1, err
	}
	return d.descriptor.get(d.events.Waiting())
}

// FD implements verbs.Pollable.
func (h *channel) FD() (int, error) {
	h.dev.mu.Lock()
	defer h.dev.mu.Unlock()
	if err := h.dev.pollable("get_channel_fd", h.gone); err != nil {
		return -1, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.descriptor.get(len(h.fired) > 0)
}

// pollable fails where there can be no descriptor.
func (d *device) pollable(op string, gone bool) error {
	switch {
	case gone:
		return verbs.Errorf(op, d.name, verbs.ErrClosed, "")
	case d.clock.world != nil:
		return verbs.Errorf(op, d.name, verbs.ErrNotSupported, "no descriptor becomes readable in simulated time: wait with a timeout")
	}
	return nil
}
