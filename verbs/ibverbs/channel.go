//go:build ibverbs

package ibverbs

// #include "shim.h"
import "C"

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
)

// CompChannel is a completion channel. Any number of goroutines may wait on it;
// each wait holds a thread.
type CompChannel struct {
	dev     *Device
	ch      *C.struct_ibv_comp_channel
	gone    atomic.Bool
	reading sync.Mutex
	users   int // guarded by the device's lock
}

// CreateCompChannel implements verbs.Device.
func (d *Device) CreateCompChannel() (verbs.CompChannel, error) {
	if err := d.add("create_comp_channel"); err != nil {
		return nil, err
	}
	h := &CompChannel{dev: d}
	if e := C.shim_create_channel(d.calls, d.ctx, &h.ch); e != 0 {
		d.remove()
		return nil, fail("create_comp_channel", d.name, int(e), "")
	}
	_ = syscall.SetNonblock(int(h.ch.fd), true) // as in newDevice
	return h, nil
}

// Handle is the struct ibv_comp_channel *.
func (h *CompChannel) Handle() unsafe.Pointer { return unsafe.Pointer(h.ch) }

// FD implements verbs.Pollable.
func (h *CompChannel) FD() (int, error) {
	if h.gone.Load() {
		return -1, closed("get_channel_fd", h.dev.name)
	}
	return int(h.ch.fd), nil
}

// Wait implements verbs.CompChannel.
func (h *CompChannel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	if h.gone.Load() {
		return nil, closed("get_cq_event", h.dev.name)
	}
	var out *CQ
	err := await(ctx, h.ch.fd, timeout, &h.reading, h.gone.Load, func() (bool, error) {
		var cq *C.struct_ibv_cq
		if e := C.shim_get_cq_event(h.dev.calls, h.ch, &cq); e != 0 {
			if e == C.EAGAIN {
				return false, nil
			}
			return false, &cause{syscall.Errno(e), meanings[syscall.Errno(e)]}
		}
		h.dev.mu.Lock()
		out = h.dev.cqs[cq]
		h.dev.mu.Unlock()
		if out != nil && out.direct != nil {
			out.direct.OnEvent()
		}
		return out != nil, nil
	})
	if err != nil {
		return nil, verbs.Errorf("get_cq_event", h.dev.name, err, "")
	}
	return out, nil
}

// Close implements verbs.CompChannel. Nobody may be waiting.
func (h *CompChannel) Close() error {
	d := h.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case h.gone.Load():
		return closed("destroy_comp_channel", d.name)
	case h.users > 0:
		return verbs.Errorf("destroy_comp_channel", d.name, verbs.ErrBusy, "%d completion queues use it", h.users)
	}
	h.gone.Store(true)
	if e := C.shim_destroy_channel(d.calls, h.ch); e != 0 {
		h.gone.Store(false)
		return fail("destroy_comp_channel", d.name, int(e), "")
	}
	d.objects--
	return nil
}
