package wiretag

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Device is a verbs.Device over another one, whose reliable connections report the
// largest queueing delay of any hop of their paths. Memory regions, SRQs and queue
// pairs of other types than RC are the other device's own.
type Device struct {
	verbs.Device
	cfg         Config
	mode        Mode // never Auto
	netdev, how string
	src         source
	onEvent     func(*taggerEvent)

	mu     sync.Mutex // guards everything below, what belongs to QPs, and taking events
	stats  Stats
	flows  []*qp // by the index in an event's id
	gens   []uint32
	free   []int
	inner  map[any]any // the other device's QPs and CQs, to those here
	paths  map[pathKey]*path
	probes []*path // by the id in a probe
}

// rxeVendor is the vendor of the kernel's soft-RoCE devices; verbs/softroce has none.
const rxeVendor = 0xffffff

// Wrap returns a device over dev that reads the telemetry of packets which pass the
// network interface netdev; "" takes that of port 1. It fails with
// verbs.ErrNotSupported if dev is simulated, or if it does RoCE in hardware and cfg
// asks for tags, and with os.ErrPermission without the privileges to attach an
// eBPF program. dev is to be used through the Device alone from then on, and is
// closed by its Close. If Wrap fails, dev is as it was.
//
// Of several wrappers that attach to one interface this one is the outermost: a
// device that is to have package wirestamp's timestamps, too, is wrapped by that first.
func Wrap(dev verbs.Device, netdev string, cfg Config) (*Device, error) {
	return wrap(dev, netdev, cfg, defaults)
}

func wrap(dev verbs.Device, netdev string, cfg Config, set settings) (*Device, error) {
	bad := func(err error, format string, args ...any) (*Device, error) {
		return nil, verbs.Errorf("wiretag", dev.Name(), err, format, args...)
	}
	if err := cfg.Validate(); err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	if _, ok := dev.(verbs.Runner); ok {
		return bad(verbs.ErrNotSupported, "its network is simulated: take the option telemetry=max-delay of its name")
	}
	vendor := dev.Attr().VendorID
	hardware := vendor != 0 && vendor != rxeVendor
	mode := cfg.Mode
	switch {
	case mode == Auto && hardware:
		mode = Probes
	case mode == Auto:
		mode = Tags
	case mode == Tags && hardware:
		return bad(verbs.ErrNotSupported, "a NIC of vendor %#x does RoCE in hardware, and its packets pass no hook of the kernel: ask for probes, and have the last switch take off the tags", vendor)
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
	t, err := newTagger(netdev, &cfg, set)
	if err != nil {
		return nil, verbs.Errorf("wiretag", dev.Name(), explain(netdev, err), "")
	}
	d := newDevice(dev, cfg, mode, t)
	d.netdev, d.how = netdev, t.at.How
	return d, nil
}

func newDevice(dev verbs.Device, cfg Config, mode Mode, src source) *Device {
	d := &Device{Device: dev, cfg: cfg, mode: mode, src: src, inner: map[any]any{}, paths: map[pathKey]*path{}}
	d.onEvent = d.event
	return d
}

// Unwrap returns the device below.
func (d *Device) Unwrap() verbs.Device { return d.Device }

// Netdev is the network interface whose packets are tagged.
func (d *Device) Netdev() string { return d.netdev }

// Attached says where the program is attached: "tcx", or "clsact" on kernels before
// 6.6.
func (d *Device) Attached() string { return d.how }

// Mode is how telemetry is had: Tags, Probes or Reflect.
func (d *Device) Mode() Mode { return d.mode }

// Config is what the device was wrapped with.
func (d *Device) Config() Config { return d.cfg }

// ReadClock implements verbs.ClockReader if the device below does, and fails with
// verbs.ErrNotSupported if not.
func (d *Device) ReadClock() (uint64, error) {
	if c, ok := d.Device.(verbs.ClockReader); ok {
		return c.ReadClock()
	}
	return 0, verbs.Errorf("read_clock", d.Name(), verbs.ErrNotSupported, "the device has no clock that can be read")
}

// Stats returns the counters so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.src.take(d.onEvent)
	s := programStats(d.src.counts())
	s.Reported, s.Unreported, s.Events, s.Strange = d.stats.Reported, d.stats.Unreported, d.stats.Events, d.stats.Strange
	s.Probes, s.ProbesAnswered, s.ProbesLost = d.stats.Probes, d.stats.ProbesAnswered, d.stats.ProbesLost
	for _, q := range d.flows {
		if q != nil {
			s.Strange += q.queue.Strange()
		}
	}
	now := readClock()
	for _, p := range d.probes {
		if p != nil {
			s.ProbesLost += p.overdue(now, uint64(d.cfg.MaxAge))
		}
	}
	return s
}

// programStats are the counters that are the program's.
func programStats(c taggerCounters) Stats {
	return Stats{
		Lost: c.Lost, Taken: c.Taken, Put: c.Put, Reflected: c.Reflected,
		Failed: c.Failed, Segmented: c.Segmented, ProbesServed: c.Answered,
	}
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

// event takes what the program reports. The lock is held.
func (d *Device) event(e *taggerEvent) {
	d.stats.Events++
	if e.Probe != 0 {
		if !d.answered(e) {
			d.stats.Strange++
		}
		return
	}
	i := int(e.Id & (maxFlows - 1))
	if i >= len(d.flows) || d.flows[i] == nil || d.flows[i].id != e.Id {
		d.stats.Strange++
		return
	}
	q := d.flows[i]
	op := ib.Opcode(e.Opcode)
	q.queue.Received(e.Ns, units.MakePSN(e.Psn), op, e.Syndrome)
	hop, reverse := e.Back, e.Way
	if op == ib.ReadResponseLast || op == ib.ReadResponseOnly {
		hop, reverse = e.Way, e.Back // the data came this way
	}
	// A reverse delay that is not known is none.
	r := report{at: e.Ns}
	var ok bool
	if r.hop, ok = delayOf(&d.cfg.Format, hop); ok {
		r.reverse, _ = delayOf(&d.cfg.Format, reverse)
		q.reports.add(r)
	}
}

// add has a connection looked at. The lock is held.
func (d *Device) add(q *qp, c connection) error {
	var i int
	if n := len(d.free); n > 0 {
		i, d.free = d.free[n-1], d.free[:n-1]
	} else {
		if i = len(d.flows); i == maxFlows {
			return errors.New("a device has telemetry of 65536 connections")
		}
		d.flows, d.gens = append(d.flows, nil), append(d.gens, 0)
	}
	d.gens[i]++
	id := uint32(i) | d.gens[i]<<indexBits
	var flags uint32
	if d.mode == Tags {
		flags = flagTags | flagReports
	}
	if err := d.src.register(id, c, flags); err != nil {
		d.free = append(d.free, i)
		return err
	}
	d.flows[i], q.id, q.conn, q.known = q, id, c, true
	return nil
}

// remove ends that. The lock is held.
func (d *Device) remove(q *qp) error {
	d.leavePath(q)
	if !q.known {
		return nil
	}
	i := int(q.id & (maxFlows - 1))
	d.stats.Strange += q.queue.Strange()
	d.flows[i], q.known = nil, false
	d.free = append(d.free, i)
	q.queue.Reset(0, q.mtu)
	q.reports.reset()
	return d.src.unregister(q.id, q.conn)
}

// byNumber finds the place of a queue pair number among those of a CQ.
func byNumber(qps []*qp, n uint32) (int, bool) {
	return slices.BinarySearchFunc(qps, n, func(q *qp, n uint32) int { return int(q.num) - int(n) })
}
