//go:build ibverbs

package librdmacm

// #cgo pkg-config: libibverbs
// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
)

// event is one of librdmacm's.
type event struct {
	kind    uint32
	status  int
	param   C.struct_cm_param
	private []byte
}

// A sink takes an id's events, from the channel's goroutine and without waiting.
type sink interface {
	event(e event)
	// request takes a listener's; the id is its from then on.
	request(id *C.struct_rdma_cm_id, e event)
}

// channel is librdmacm's event channel. The process has one, with a goroutine,
// as long as it has ids.
type channel struct {
	c       *C.struct_rdma_event_channel
	file    *os.File // a duplicate of its descriptor, for the runtime's poller
	stopped chan struct{}

	// Guarded by channels' lock.
	ids   map[*C.struct_rdma_cm_id]sink
	users int // ids that are not yet destroyed
}

var channels struct {
	sync.Mutex
	loaded  bool
	current *channel // nil while there are no ids
}

const library = "librdmacm.so.1"

// load loads librdmacm, with the channels' lock held.
func load() error {
	if channels.loaded {
		return nil
	}
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	var why [256]C.char
	if e := C.cm_load(name, &why[0], C.size_t(len(why))); e != 0 {
		return fail("load", library, int(e), "%s: install librdmacm1 (rdma-core)", C.GoString(&why[0]))
	}
	channels.loaded = true
	return nil
}

// newChannel makes a channel, with the channels' lock held.
func newChannel() (*channel, error) {
	if err := load(); err != nil {
		return nil, err
	}
	ch := &channel{ids: map[*C.struct_rdma_cm_id]sink{}, stopped: make(chan struct{})}
	if e := C.cm_create_channel(&ch.c); e != 0 {
		switch syscall.Errno(e) {
		case syscall.ENODEV, syscall.ENOENT, syscall.ENOSYS, syscall.EOPNOTSUPP:
			return nil, fail("create_event_channel", "rdma_cm", int(e),
				"the kernel has no RDMA device, or no rdma_cm for programs: load its module (modprobe rdma_ucm), and see that /dev/infiniband/rdma_cm is there")
		}
		return nil, fail("create_event_channel", "rdma_cm", int(e), "")
	}
	if err := ch.watch(); err != nil {
		C.cm_destroy_channel(ch.c)
		return nil, verbs.Errorf("create_event_channel", "rdma_cm", err, "")
	}
	go ch.run()
	return ch, nil
}

// watch hands the channel's descriptor to the runtime's poller.
func (ch *channel) watch() error {
	if err := syscall.SetNonblock(int(ch.c.fd), true); err != nil {
		return err
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(ch.c.fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	ch.file = os.NewFile(fd, "rdma_cm")
	if err := ch.file.SetReadDeadline(time.Time{}); err != nil {
		return errors.Join(err, ch.file.Close())
	}
	return nil
}

// run takes the channel's events until stop.
func (ch *channel) run() {
	raw, err := ch.file.SyscallConn()
	if err == nil {
		_ = raw.Read(func(uintptr) bool { // ends by the deadline that stop sets
			for ch.next() {
			}
			return false
		})
	}
	_ = ch.file.Close()
	C.cm_destroy_channel(ch.c)
	close(ch.stopped)
}

// stop ends run, with the channels' lock held and no ids left.
func (ch *channel) stop() { _ = ch.file.SetReadDeadline(time.Unix(1, 0)) }

// next hands out an event, if there is one.
func (ch *channel) next() bool {
	var c C.struct_cm_event
	var held *C.struct_rdma_cm_event
	if C.cm_get_event(ch.c, &c, &held) != 0 {
		return false
	}
	e := event{
		kind: uint32(c.kind), status: int(c.status), param: c.param,
		private: C.GoBytes(unsafe.Pointer(&c.private_data[0]), c.private_len),
	}
	request := e.kind == C.RDMA_CM_EVENT_CONNECT_REQUEST
	to := c.id
	if request {
		to = c.listen_id
	}
	// Until the event is acknowledged its id can't be destroyed, and so be no other's.
	channels.Lock()
	s := ch.ids[to]
	if request {
		ch.users++
	}
	channels.Unlock()
	C.cm_ack_event(held)
	switch {
	case s == nil && request:
		ch.destroy(c.id) // the kernel refuses it
	case s == nil:
	case request:
		s.request(c.id, e)
	default:
		s.event(e)
	}
	return true
}

// create makes an id whose events s takes.
func create(s sink) (*channel, *C.struct_rdma_cm_id, error) {
	channels.Lock()
	defer channels.Unlock()
	ch := channels.current
	if ch == nil {
		var err error
		if ch, err = newChannel(); err != nil {
			return nil, nil, err
		}
	}
	var id *C.struct_rdma_cm_id
	if e := C.cm_create_id(ch.c, &id); e != 0 {
		if ch.users == 0 {
			ch.stop()
		}
		return nil, nil, fail("create_id", "rdma_cm", int(e), "")
	}
	channels.current = ch
	ch.ids[id] = s
	ch.users++
	return ch, id, nil
}

// register gives a request's id its sink. The channel's goroutine calls it.
func (ch *channel) register(id *C.struct_rdma_cm_id, s sink) {
	channels.Lock()
	defer channels.Unlock()
	ch.ids[id] = s
}

// destroy destroys an id. It waits until its events are acknowledged, so the
// caller holds nothing that a sink needs before that. The last one stops the
// channel.
func (ch *channel) destroy(id *C.struct_rdma_cm_id) {
	channels.Lock()
	delete(ch.ids, id)
	channels.Unlock()
	C.cm_destroy_id(id) // fails only when the kernel knows it no more
	channels.Lock()
	defer channels.Unlock()
	if ch.users--; ch.users == 0 {
		if channels.current == ch {
			channels.current = nil
		}
		ch.stop()
	}
}
