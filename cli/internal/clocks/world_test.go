package clocks

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// world is a host whose time passes by being read, with a NIC of two clocks.
type world struct {
	rng  *rand.Rand
	now  units.Time // true time, which is the device's host clock
	wall int64      // CLOCK_REALTIME less true time, ns
	raw  int64      // CLOCK_MONOTONIC_RAW less true time, ns

	nicHz, nicPPM float64
	nicBits       int
	nicStart      uint64
	ptpPPM        float64
	ptpEpoch      int64 // ns
}

// pass lets a bracketed access's time pass, from 20 ns to 2 us.
func (w *world) pass() { w.now += units.Time(20_000 + w.rng.Int64N(2_000_000)) }

func (w *world) nic() uint64 {
	t := float64(w.now) * 1e-12 * w.nicHz * (1 + w.nicPPM*1e-6)
	return (w.nicStart + uint64(t)) << (64 - w.nicBits) >> (64 - w.nicBits)
}

func (w *world) ptp() int64 {
	return w.ptpEpoch + int64(float64(w.now)*1e-3*(1+w.ptpPPM*1e-6))
}

// device is a verbs.Device of a world. What is not asked of it here is missing.
type device struct {
	verbs.Device
	w         *world
	attr      verbs.DeviceAttr
	netdev    string
	hostClock bool // ReadClock hands on the host's clock
	fails     error
}

func (d *device) Name() string                     { return "test:nic" }
func (d *device) Attr() verbs.DeviceAttr           { return d.attr }
func (d *device) Port(int) (verbs.PortAttr, error) { return verbs.PortAttr{Netdev: d.netdev}, nil }
func (d *device) Now() time.Duration               { return d.NowPrecise().Duration() }
func (d *device) NowPrecise() units.Time           { d.w.pass(); return d.w.now }

// runner is a device whose sleep takes no real time.
type runner struct{ *device }

func (runner) Run(...func() error) error { panic("not used") }
func (runner) Blocking(f func())         { f() }
func (r runner) Sleep(t time.Duration)   { r.w.now += units.FromDuration(t) }

// readable adds a counter that can be read.
type readable struct{ *device }

func (d readable) ReadClock() (uint64, error) {
	d.w.pass()
	if d.fails != nil {
		return 0, d.fails
	}
	if d.hostClock {
		return uint64(d.w.now / units.Nanosecond), nil
	}
	t := d.w.nic()
	d.w.pass()
	return t, nil
}

// atNetdev is a device that an eBPF program stamps for.
type atNetdev struct{ readable }

func (atNetdev) Netdev() string { return "eth7" }
func (atNetdev) Hook() string   { return "tcx" }

var errTest = errors.New("test: refused")
