package wirestamp

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Device is a verbs.Device over another one, whose completions have timestamps. It
// is a verbs.ClockReader. Memory regions, SRQs and queue pairs of other types
// than RC are the other device's own.
type Device struct {
	verbs.Device
	netdev, how string
	src         source
	onEvent     func(*stamperEvent)

	mu    sync.Mutex // guards everything below, the queues of QPs, and taking stamps
	stats Stats
	flows []*qp // by the index in a stamp's id
	gens  []uint32
	free  []int
	inner map[any]any // the other device's QPs and CQs, to those here
}

// An id of a connection is an index with a generation above, so that stamps of one
// that is gone reach no other.
const (
	indexBits = 20
	maxFlows  = 1 << indexBits
)

// Stats counts what a Device has done since Wrap.
type Stats struct {
	// Stamped and Unstamped are successful completions of send requests on CQs
	// with Timestamps whose acknowledgement's time is known, or is not: their
	// WC.Timestamp is the time of polling.
	Stamped, Unstamped uint64
	// Unsent are those of Stamped of which the time of sending is not known.
	Unsent uint64
	// Retransmitted are those of Stamped of which packets were sent again.
	Retransmitted uint64
	// Others are completions on CQs with Timestamps that nothing stamps: receives,
	// failures, and those of queue pairs that are not RC.
	Others uint64
	// Stamps are the stamps that were taken, Lost those for which the ring had no
	// room, and Strange those that fit no request outstanding, such as repeated
	// acknowledgements.
	Stamps, Lost, Strange uint64
}

// rxeVendor is the vendor of the kernel's soft-RoCE devices; verbs/softroce has none.
const rxeVendor = 0xffffff

// Wrap returns a device over dev whose completions have timestamps, from packets
// that pass the network interface netdev; "" takes that of port 1. It fails with
// verbs.ErrNotSupported if dev is simulated or does RoCE in hardware, and with
// os.ErrPermission without the privileges to attach an eBPF program. dev is to be
// used through the Device alone from then on, and is closed by its Close. If Wrap
// fails, dev is as it was.
func Wrap(dev verbs.Device, netdev string) (*Device, error) {
	return wrap(dev, netdev, defaults)
}

func wrap(dev verbs.Device, netdev string, set settings) (*Device, error) {
	bad := func(err error, format string, args ...any) (*Device, error) {
		return nil, verbs.Errorf("wirestamp", dev.Name(), err, format, args...)
	}
	if _, ok := dev.(verbs.Runner); ok {
		return bad(verbs.ErrNotSupported, "its time is simulated: it has time stamps of its own")
	}
	if v := dev.Attr().VendorID; v != 0 && v != rxeVendor {
		return bad(verbs.ErrNotSupported, "a NIC of vendor %#x does RoCE in hardware, and its packets pass no hook of the kernel: use the NIC's own completion timestamps", v)
	}
	if netdev == "" {
		p, err := dev.Port(1)
		if err != nil {
			return nil, err
		}
		if netdev = p.Netdev; netdev == "" {
			return bad(verbs.ErrInvalid, "port 1 names no network interface: name the one that the packets pass")
		}
	}
	s, err := newStamper(netdev, set)
	switch {
	case denied(err):
		return bad(err, "attaching an eBPF program to %s needs CAP_BPF and CAP_NET_ADMIN: run as root, or setcap cap_bpf,cap_net_admin+ep PROGRAM", netdev)
	case err != nil:
		return bad(err, "attaching an eBPF program to %s", netdev)
	}
	d := newDevice(dev, s)
	d.netdev, d.how = netdev, s.at.How
	return d, nil
}

func newDevice(dev verbs.Device, src source) *Device {
	d := &Device{Device: dev, src: src, inner: map[any]any{}}
	d.onEvent = d.event
	return d
}

// Unwrap returns the device below.
func (d *Device) Unwrap() verbs.Device { return d.Device }

// Netdev is the network interface whose packets are stamped.
func (d *Device) Netdev() string { return d.netdev }

// Hook says where the program is attached: "tcx", or "clsact" on kernels before
// 6.6.
func (d *Device) Hook() string { return d.how }

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr {
	a := d.Device.Attr()
	a.CoreClockHz, a.ClockBits = 1e9, 64
	return a
}

// ReadClock implements verbs.ClockReader: it reads CLOCK_MONOTONIC.
func (d *Device) ReadClock() (uint64, error) { return readClock(), nil }

// Stats returns the counters so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Lost = d.src.lost()
	for _, q := range d.flows {
		if q != nil {
			s.Strange += q.queue.Strange()
		}
	}
	return s
}

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) {
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &pd{PD: p, dev: d}, nil
}

// AsyncEvent implements verbs.Device.
func (d *Device) AsyncEvent(timeout time.Duration) (verbs.AsyncEvent, error) {
	e, err := d.Device.AsyncEvent(timeout)
	if err != nil {
		return e, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.inner[e.QP].(verbs.QP); ok {
		e.QP = q
	}
	if c, ok := d.inner[e.CQ].(verbs.CQ); ok {
		e.CQ = c
	}
	return e, nil
}

// Close implements verbs.Device. It takes the program off the interface.
func (d *Device) Close() error {
	if err := d.Device.Close(); err != nil {
		return err
	}
	return d.src.close()
}

// event takes a stamp. The lock is held.
func (d *Device) event(e *stamperEvent) {
	d.stats.Stamps++
	i := int(e.Id & (maxFlows - 1))
	if i >= len(d.flows) || d.flows[i] == nil || d.flows[i].id != e.Id {
		d.stats.Strange++
		return
	}
	q := d.flows[i].queue
	psn, op := units.MakePSN(e.Psn), ib.Opcode(e.Opcode)
	if e.Arriving != 0 {
		q.Received(e.Ns, psn, op, e.Syndrome)
	} else {
		q.Sent(e.Ns, psn, op, e.Length)
	}
}

// add has a connection stamped. The lock is held.
func (d *Device) add(q *qp, c connection) error {
	var i int
	if n := len(d.free); n > 0 {
		i, d.free = d.free[n-1], d.free[:n-1]
	} else {
		if i = len(d.flows); i == maxFlows {
			return errors.New("a device stamps 1048576 connections")
		}
		d.flows, d.gens = append(d.flows, nil), append(d.gens, 0)
	}
	d.gens[i]++
	id := uint32(i) | d.gens[i]<<indexBits
	if err := d.src.register(id, c); err != nil {
		d.free = append(d.free, i)
		return err
	}
	d.flows[i], q.id, q.conn, q.stamped = q, id, c, true
	return nil
}

// remove ends that. The lock is held.
func (d *Device) remove(q *qp) error {
	if !q.stamped {
		return nil
	}
	i := int(q.id & (maxFlows - 1))
	d.stats.Strange += q.queue.Strange()
	d.flows[i], q.stamped = nil, false
	d.free = append(d.free, i)
	q.queue.Reset(0, q.mtu)
	return d.src.unregister(q.id, q.conn)
}

// byNumber finds the place of a queue pair number among those of a CQ.
func byNumber(qps []*qp, n uint32) (int, bool) {
	return slices.BinarySearchFunc(qps, n, func(q *qp, n uint32) int { return int(q.num) - int(n) })
}
