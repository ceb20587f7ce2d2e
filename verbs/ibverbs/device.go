//go:build ibverbs

package ibverbs

// #cgo pkg-config: libibverbs
// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #cgo noescape shim_poll
// #cgo nocallback shim_poll
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/Mellanox/rdmamap"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs/internal/mlx5"
)

func init() { verbs.Register("ibv", provider{}) }

type provider struct{}

// timestampMode says which of a device's clocks WC.Timestamp has.
type timestampMode uint8

const (
	raw       timestampMode = iota // the free-running counter, in ticks of the core clock
	wallclock                      // the device's clock, in nanoseconds
	off
)

func (m timestampMode) String() string { return [...]string{"raw", "wallclock", "off"}[m] }

// options are the settings behind the question mark of a device's name.
type options struct {
	Mode   timestampMode `yaml:"timestamps" one:"raw wallclock off"`
	Direct string        `yaml:"direct" one:"on off"` // "" for on where it can be
}

var ofOptions = field.Of[options]("ibv")

// Device is an opened device. It is a
// verbs.Device and a verbs.ClockReader; where the device has no clock that can be read,
// ReadClock says so.
type Device struct {
	name  string // with the scheme
	ibdev string // the kernel's name
	ctx   *C.struct_ibv_context
	calls *C.struct_ibverbs_calls
	mode  timestampMode
	start time.Time
	attr  verbs.DeviceAttr
	caps  Capabilities
	// realTime says that wallclock timestamps are of the NIC's real-time clock.
	realTime bool
	direct   bool // the data path is Go's: see direct.go
	queues   mlx5.Table
	numbers  sync.Mutex // held while a number of a queue pair may go from one to another

	reading sync.Mutex // of asynchronous events

	mu      sync.Mutex // guards what follows
	closed  bool
	objects int // made and not yet destroyed
	cqs     map[*C.struct_ibv_cq]*CQ
	qps     map[*C.struct_ibv_qp]*QP
	srqs    map[*C.struct_ibv_srq]*SRQ
}

// Open implements verbs.Provider: a device's name, and options behind a question
// mark.
func (provider) Open(name string) (verbs.Device, error) {
	object := "ibv:" + name
	ibdev, query, _ := strings.Cut(name, "?")
	opt, err := parseOptions(query)
	if err != nil {
		return nil, verbs.Errorf("open", object, verbs.ErrInvalid, "%v", err)
	}
	cname := C.CString(ibdev)
	defer C.free(unsafe.Pointer(cname))
	var ctx *C.struct_ibv_context
	if e := C.shim_open(cname, &ctx); e != 0 {
		return nil, openFailed(object, ibdev, int(e))
	}
	return newDevice(object, ctx, opt)
}

// Devices implements verbs.Provider: it lists libibverbs' devices.
func (provider) Devices() ([]string, error) {
	all := names()
	for i := range all {
		all[i] = "ibv:" + all[i]
	}
	return all, nil
}

// names lists the devices that libibverbs has drivers for, none on a machine
// whose kernel has no RDMA.
func names() []string {
	list := C.ibv_get_device_list(nil)
	if list == nil {
		return nil
	}
	defer C.ibv_free_device_list(list)
	var all []string
	for d := list; *d != nil; d = (**C.struct_ibv_device)(unsafe.Add(unsafe.Pointer(d), unsafe.Sizeof(*d))) {
		all = append(all, C.GoString(C.ibv_get_device_name(*d)))
	}
	return all
}

func openFailed(object, ibdev string, errno int) error {
	names := names()
	switch {
	case slices.Contains(rdmamap.GetRdmaDeviceList(), ibdev) && !slices.Contains(names, ibdev):
		return fail("open", object, errno, "the kernel has the device, but libibverbs no driver for it, or no access to /dev/infiniband: install ibverbs-providers (rdma-core)")
	case len(names) == 0:
		return fail("open", object, int(syscall.ENODEV), "this machine has no RDMA device that libibverbs can use: see ibv_devices")
	case errno == int(syscall.ENODEV):
		return fail("open", object, errno, "there is no device %q: take one of %v", ibdev, names)
	}
	return fail("open", object, errno, "")
}

func parseOptions(query string) (options, error) {
	var opt options
	values, err := url.ParseQuery(query)
	if err != nil {
		return opt, fmt.Errorf("the options %q can't be read: %w; write timestamps=wallclock", query, err)
	}
	return opt, ofOptions.Parse(&opt, values)
}

// newDevice asks a context what it can do.
func newDevice(name string, ctx *C.struct_ibv_context, opt options) (*Device, error) {
	d := &Device{
		name: name, ctx: ctx, ibdev: C.GoString(&ctx.device.name[0]), mode: opt.Mode, start: time.Now(),
		calls: (*C.struct_ibverbs_calls)(C.calloc(1, C.sizeof_struct_ibverbs_calls)),
		cqs:   map[*C.struct_ibv_cq]*CQ{}, qps: map[*C.struct_ibv_qp]*QP{}, srqs: map[*C.struct_ibv_srq]*SRQ{},
	}
	C.shim_complete_calls(d.calls, ctx)
	// An event may disappear between poll and read: destroying its object removes it.
	_ = syscall.SetNonblock(int(ctx.async_fd), true) // then it blocks in that case
	err := d.query()
	if err == nil {
		err = d.chooseDirect(opt.Direct)
	}
	if err != nil {
		_ = d.release() // the error that matters is the first
		return nil, err
	}
	return d, nil
}

// query fills in attr and caps.
func (d *Device) query() error {
	var a C.struct_ibv_device_attr_ex
	var extended C.int
	if e := C.shim_query_device(d.ctx, &a, &extended); e != 0 {
		return fail("query_device", d.name, int(e), "")
	}
	o := &a.orig_attr
	d.attr = verbs.DeviceAttr{
		NodeGUID: be64(uint64(o.node_guid)), VendorID: uint32(o.vendor_id), VendorPartID: uint32(o.vendor_part_id),
		FirmwareVersion: C.GoString(&o.fw_ver[0]),
		MaxQP:           int(o.max_qp), MaxQPWR: int(o.max_qp_wr), MaxSGE: int(o.max_sge),
		MaxCQ: int(o.max_cq), MaxCQE: int(o.max_cqe), MaxMR: int(o.max_mr), MaxMRSize: uint64(o.max_mr_size),
		MaxPD: int(o.max_pd), MaxSRQ: int(o.max_srq), MaxSRQWR: int(o.max_srq_wr),
		MaxQPRdAtom: int(o.max_qp_rd_atom), MaxQPInitRdAtom: int(o.max_qp_init_rd_atom),
		PhysPorts: int(max(C.uint32_t(o.phys_port_cnt), a.phys_port_cnt_ex)),
		Atomics:   o.atomic_cap != C.IBV_ATOMIC_NONE,
	}
	d.probe(&a, extended != 0)
	return nil
}

// be64 reads what C holds as a big-endian number.
func be64(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}

// Handle is the context: struct ibv_context *.
func (d *Device) Handle() unsafe.Pointer { return unsafe.Pointer(d.ctx) }

// Name implements verbs.Device.
func (d *Device) Name() string { return d.name }

// Attr implements verbs.Device. MaxInlineData is what the device granted to a queue
// pair created when it was opened: libibverbs has no attribute for it.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// Now implements verbs.Device.
func (d *Device) Now() time.Duration { return time.Since(d.start) }

// Port implements verbs.Device.
func (d *Device) Port(num int) (verbs.PortAttr, error) {
	p, err := d.queryPort(num)
	if err != nil {
		return verbs.PortAttr{}, err
	}
	netdev := netdevOf(d.ibdev, num)
	return verbs.PortAttr{
		State: verbs.PortState(p.state), ActiveMTU: mtuOf(p.active_mtu), MaxMTU: mtuOf(p.max_mtu),
		LinkRate:   linkRate(netdev, uint8(p.active_speed), uint8(p.active_width)),
		MaxMsgSize: uint32(p.max_msg_sz),
		GIDs:       int(p.gid_tbl_len), PKeys: int(p.pkey_tbl_len), LID: uint16(p.lid), LinkName: linkName(uint8(p.link_layer)), Netdev: netdev,
	}, nil
}

// PKey implements verbs.PKeyDevice.
func (d *Device) PKey(port, index int) (uint16, error) {
	p, err := d.queryPort(port)
	if err != nil {
		return 0, err
	}
	if index < 0 || index >= int(p.pkey_tbl_len) {
		return 0, verbs.Errorf("query_pkey", d.name, verbs.ErrInvalid, "port %d has no P_Key %d: its table has %d entries", port, index, int(p.pkey_tbl_len))
	}
	var key C.uint16_t
	if e := C.shim_query_pkey(d.ctx, C.int(port), C.int(index), &key); e != 0 {
		return 0, fail("query_pkey", d.name, int(e), "")
	}
	return uint16(key), nil
}

func (d *Device) queryPort(num int) (C.struct_ibv_port_attr, error) {
	var p C.struct_ibv_port_attr
	if num < 1 || num > d.attr.PhysPorts {
		return p, verbs.Errorf("query_port", d.name, verbs.ErrInvalid, "port %d does not exist: the device has ports 1 to %d", num, d.attr.PhysPorts)
	}
	if e := C.shim_query_port(d.ctx, C.int(num), &p); e != 0 {
		return p, fail("query_port", d.name, int(e), "")
	}
	return p, nil
}

// mtuOf is the MTU of an enum ibv_mtu, 0 for none that is known.
func mtuOf(code uint32) ib.MTU {
	if code < 1 || code > 5 {
		return 0
	}
	return ib.MTU(128 << code)
}

// mtuCode is the enum ibv_mtu of an MTU.
func mtuCode(m ib.MTU) (uint32, bool) {
	for code := uint32(1); code <= 5; code++ {
		if mtuOf(code) == m {
			return code, true
		}
	}
	return 0, false
}

func linkName(layer uint8) string {
	switch layer {
	case C.IBV_LINK_LAYER_ETHERNET:
		return "Ethernet"
	case C.IBV_LINK_LAYER_INFINIBAND:
		return "InfiniBand"
	}
	return "unspecified"
}

// Close implements verbs.Device.
func (d *Device) Close() error {
	// A goroutine that waits for an asynchronous event must not be reading one.
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return verbs.Errorf("close_device", d.name, verbs.ErrClosed, "")
	case d.objects > 0:
		return verbs.Errorf("close_device", d.name, verbs.ErrBusy, "%d objects made from it still exist", d.objects)
	}
	d.closed = true
	return d.release()
}

func (d *Device) release() error {
	C.free(unsafe.Pointer(d.calls))
	d.calls = nil
	if e := C.ibv_close_device(d.ctx); e != 0 {
		return fail("close_device", d.name, int(syscall.EIO), "")
	}
	return nil
}

// add counts an object, and refuses it if the device is closed.
func (d *Device) add(op string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.Errorf(op, d.name, verbs.ErrClosed, "")
	}
	d.objects++
	return nil
}

func (d *Device) remove() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.objects--
}

// eventPoll is the time that a wait for an event stays in the kernel at once; then
// it sees whether the device was closed.
const eventPoll = 100 * time.Millisecond

// await waits until ctx is done and up to timeout for take to succeed; fd becomes readable
// when it may.
func await(ctx context.Context, fd C.int, timeout time.Duration, lock *sync.Mutex, gone func() bool, take func() (bool, error)) error {
	deadline := time.Now().Add(timeout)
	cancelled, stop, err := whenDone(ctx, timeout)
	if err != nil {
		return err
	}
	defer stop()
	for {
		lock.Lock()
		if gone() {
			lock.Unlock()
			return verbs.ErrClosed
		}
		r := C.shim_readable(fd, -1, 0)
		got, err := false, error(nil)
		if r > 0 {
			got, err = take()
		}
		lock.Unlock()
		switch {
		case r < 0:
			return &cause{syscall.Errno(-r), nil}
		case got || err != nil:
			return err
		case r > 0:
			continue // it was no event, or none of ours
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		left := eventPoll
		if timeout >= 0 {
			left = min(left, time.Until(deadline))
			if left <= 0 {
				return verbs.ErrTimeout
			}
		}
		// Rounded up: 0 would not wait.
		if r := C.shim_readable(fd, cancelled, C.int((left+time.Millisecond-1)/time.Millisecond)); r < 0 {
			return &cause{syscall.Errno(-r), nil}
		}
	}
}

// whenDone returns a descriptor that becomes readable when ctx is done; -1 if it never is,
// or if nobody will wait.
func whenDone(ctx context.Context, timeout time.Duration) (fd C.int, stop func(), err error) {
	if ctx.Done() == nil || timeout == 0 {
		return -1, func() {}, nil
	}
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	written := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		_, _ = syscall.Write(pipe[1], []byte{0}) // a pipe that is empty takes a byte
		close(written)
	})
	return C.int(pipe[0]), func() {
		if !unregister() {
			<-written
		}
		_ = syscall.Close(pipe[0])
		_ = syscall.Close(pipe[1])
	}, nil
}

// AsyncEvent implements verbs.Device.
func (d *Device) AsyncEvent(ctx context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	var out verbs.AsyncEvent
	d.reading.Lock()
	if d.isClosed() {
		d.reading.Unlock()
		return out, verbs.Errorf("get_async_event", d.name, verbs.ErrClosed, "")
	}
	fd := d.ctx.async_fd // the context goes with Close
	d.reading.Unlock()
	err := await(ctx, fd, timeout, &d.reading, d.isClosed, func() (bool, error) {
		var kind, port C.int
		var element unsafe.Pointer
		if e := C.shim_get_async_event(d.calls, d.ctx, &kind, &element, &port); e != 0 {
			if e == C.EAGAIN {
				return false, nil
			}
			return false, &cause{syscall.Errno(e), meanings[syscall.Errno(e)]}
		}
		out = d.event(ib.EventType(kind), element, int(port))
		return true, nil
	})
	if err != nil {
		return out, verbs.Errorf("get_async_event", d.name, err, "")
	}
	return out, nil
}

// FD implements verbs.Pollable.
func (d *Device) FD() (int, error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.isClosed() {
		return -1, closed("get_async_fd", d.name)
	}
	return int(d.ctx.async_fd), nil
}

func (d *Device) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// event names the object of an event. Events about objects that were destroyed, or
// that belong to the context's owner, have none.
func (d *Device) event(kind ib.EventType, element unsafe.Pointer, port int) verbs.AsyncEvent {
	out := verbs.AsyncEvent{Type: kind, Port: port}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch kind {
	case ib.EventCQErr:
		if c := d.cqs[(*C.struct_ibv_cq)(element)]; c != nil {
			out.CQ = c
		}
	case ib.EventSRQErr, ib.EventSRQLimit:
		if s := d.srqs[(*C.struct_ibv_srq)(element)]; s != nil {
			out.SRQ = s
		}
	default:
		if q := d.qps[(*C.struct_ibv_qp)(element)]; q != nil {
			out.QP = q
		}
	}
	return out
}
