package wirestamp

import (
	"sync"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/match"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// Device is a verbs.Device over another one, whose completions have timestamps. It
// is a verbs.ClockReader. Memory regions, SRQs and queue pairs of other types
// than RC are the other device's own.
type Device struct {
	verbs.Device // over, for what is not here
	over         *overlay.Device[*qp, match.Stamps]
	netdev, how  string
	src          source
	onEvent      func(*stamperEvent)

	mu    sync.Mutex // guards stats, the queues of QPs, and taking stamps
	stats Stats
}

// indexBits are those of a connection's id that are an index: overlay.Layer.
const indexBits = 20

// Stats counts what a Device has done since Wrap.
type Stats struct {
	// Stamped and Unstamped are successful completions of send requests on CQs
	// with Timestamps whose acknowledgement's time is known, or is not: their
	// WC.Timestamp is the time of polling.
	Stamped, Unstamped uint64
	// Unsent are those of Stamped whose time of sending is not known.
	Unsent uint64
	// Retransmitted are those of Stamped that had packets sent again.
	Retransmitted uint64
	// Others are completions on CQs with Timestamps that nothing stamps: receives,
	// failures, and those of queue pairs that are not RC.
	Others uint64
	// Stamps counts the stamps that were taken, Lost the stamps for which the ring
	// had no room, and Strange the stamps that fit no request outstanding, such as
	// repeated acknowledgements.
	Stamps, Lost, Strange uint64
}

// Wrap returns a device over dev whose completions have timestamps, from packets
// that pass the network interface netdev; "" takes that of port 1. It fails with
// verbs.ErrNotSupported if dev is simulated or does RoCE in hardware, and with
// os.ErrPermission without the privileges to attach an eBPF program. From then on
// use dev only through the Device, whose Close closes dev. If Wrap fails, dev is
// unchanged.
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
	if v, is := watcher.Hardware(dev); is {
		return bad(verbs.ErrNotSupported, "a NIC of vendor %#x does RoCE in hardware, and its packets pass no hook of the kernel: use the NIC's own completion timestamps", v)
	}
	if netdev == "" {
		var err error
		if netdev, err = watcher.Netdev("wirestamp", dev); err != nil {
			return nil, err
		}
	}
	s, err := newStamper(netdev, set)
	if err != nil {
		return bad(watcher.Explain(netdev, err), "")
	}
	d := newDevice(dev, s)
	d.netdev, d.how = netdev, s.At.How
	return d, nil
}

func newDevice(dev verbs.Device, src source) *Device {
	d := &Device{src: src}
	d.onEvent = d.event
	d.over = overlay.New(dev, overlay.Layer[*qp, match.Stamps]{
		Mu: &d.mu, Program: src, IndexBits: indexBits, Matches: true, Refusal: "its packets can't be stamped",
		Watches: watches, Cover: d.cover, Polled: d.stamp,
	})
	d.Device = d.over
	return d
}

// Unwrap returns the device below.
func (d *Device) Unwrap() verbs.Device { return d.over.Unwrap() }

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
func (d *Device) ReadClock() (uint64, error) { return watcher.ReadClock(), nil }

// Stats returns the counters so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Lost, s.Strange = d.src.lost(), d.over.Strange()
	return s
}

// event takes a stamp. The lock is held.
func (d *Device) event(e *stamperEvent) {
	d.stats.Stamps++
	f, ok := d.over.Flow(e.Id)
	if !ok {
		return
	}
	psn, op := units.MakePSN(e.Psn), ib.Opcode(e.Opcode)
	if e.Arriving != 0 {
		f.Queue.Received(e.Ns, psn, op, e.Syndrome)
	} else {
		f.Queue.Sent(e.Ns, psn, op, e.Length)
	}
}
