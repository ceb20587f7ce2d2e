package wiretag

import (
	"sync"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// Device is a verbs.Device over another one, whose reliable connections report the
// largest queueing delay of any hop of their paths. Memory regions, SRQs and queue
// pairs of other types than RC are the other device's own.
type Device struct {
	verbs.Device // over, for what is not here
	over         *overlay.Device[*qp, report]
	cfg          Config
	mode         Mode // never Auto
	netdev, how  string
	src          source
	onEvent      func(*taggerEvent)

	mu     sync.Mutex // guards everything below, what belongs to QPs, and taking events
	stats  Stats
	paths  map[pathKey]*path
	probes []*path // by the id in a probe
}

// Wrap returns a device over dev that reads the telemetry of packets which pass the
// network interface netdev; "" takes that of port 1. It fails with
// verbs.ErrNotSupported if dev is simulated, or if it does RoCE in hardware and cfg
// asks for tags, and with os.ErrPermission without the privileges to attach an eBPF
// program. From then on use dev only through the Device, whose Close closes dev. If
// Wrap fails, dev is unchanged.
//
// Of several wrappers that attach to one interface this one must be the outermost: for
// package wirestamp's timestamps too, wrap the device by that package first.
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
	vendor, hardware := watcher.Hardware(dev)
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
		var err error
		if netdev, err = watcher.Netdev("wiretag", dev); err != nil {
			return nil, err
		}
	}
	t, err := newTagger(netdev, &cfg, set)
	if err != nil {
		return bad(watcher.Explain(netdev, err), "")
	}
	d := newDevice(dev, cfg, mode, t)
	d.netdev, d.how = netdev, t.At.How
	return d, nil
}

func newDevice(dev verbs.Device, cfg Config, mode Mode, src source) *Device {
	d := &Device{cfg: cfg, mode: mode, src: src, paths: map[pathKey]*path{}}
	d.onEvent = d.event
	d.over = overlay.New(dev, overlay.Layer[*qp, report]{
		Mu: &d.mu, Program: src, IndexBits: indexBits, Matches: mode == Tags, Refusal: "its path can't report telemetry",
		Watches: func(*verbs.CQInitAttr) bool { return mode != Reflect }, Cover: d.cover, Polled: d.attribute,
	})
	d.Device = d.over
	return d
}

// Unwrap returns the device below.
func (d *Device) Unwrap() verbs.Device { return d.over.Unwrap() }

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
	if c, ok := d.Unwrap().(verbs.ClockReader); ok {
		return c.ReadClock()
	}
	return 0, verbs.Errorf("read_clock", d.Name(), verbs.ErrNotSupported, "the device has no clock that can be read")
}

// Stats returns the counters so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.src.Take(d.onEvent)
	s := programStats(d.src.counts())
	s.Reported, s.Unreported, s.Events, s.Strange = d.stats.Reported, d.stats.Unreported, d.stats.Events, d.stats.Strange+d.over.Strange()
	s.Probes, s.ProbesAnswered, s.ProbesLost = d.stats.Probes, d.stats.ProbesAnswered, d.stats.ProbesLost
	now := watcher.ReadClock()
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

// event takes what the program reports. The lock is held.
func (d *Device) event(e *taggerEvent) {
	d.stats.Events++
	if e.Probe != 0 {
		if !d.answered(e) {
			d.stats.Strange++
		}
		return
	}
	q, ok := d.over.Flow(e.Id)
	if !ok {
		return
	}
	op := ib.Opcode(e.Opcode)
	q.Queue.Received(e.Ns, units.MakePSN(e.Psn), op, e.Syndrome)
	hop, reverse := e.Back, e.Way
	if op == ib.ReadResponseLast || op == ib.ReadResponseOnly {
		hop, reverse = e.Way, e.Back // the data arrived on this path
	}
	// A reverse delay that is not known counts as 0.
	r := report{at: e.Ns}
	if r.hop, ok = delayOf(&d.cfg.Format, hop); ok {
		r.reverse, _ = delayOf(&d.cfg.Format, reverse)
		q.reports.add(r)
	}
}
