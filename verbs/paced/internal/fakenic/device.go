package fakenic

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

type accessFlags = ib.AccessFlags

// StaticRates is a device's treatment of the static rates of paths.
type StaticRates int

// Devices heed them, or forget them, as the kernel's soft-RoCE does, or refuse them, as
// package softroce does.
const (
	PathsForget StaticRates = iota
	PathsKeep
	PathsRefuse
)

// Device is a NIC. Its exported fields may be set at any time.
type Device struct {
	World    *World
	LineRate units.Rate
	Latency  units.Time // there and back
	MaxMsg   uint32     // MaxMsgSize of its port; 0 does not say

	// The counter of completion timestamps: none if ClockHz is 0. It runs at
	// ClockHz (1 + ClockPPM / 10^6) from ClockStart at time 0.
	ClockHz    float64
	ClockPPM   float64
	ClockBits  int
	ClockStart float64
	// NoReadClock makes ReadClock fail.
	NoReadClock bool

	// Delay, if set, adds to the time of a request's acknowledgement.
	Delay func(q *QP, wr *verbs.SendWR) units.Time
	// Fail, if set, decides what becomes of a request as it is carried out.
	Fail func(q *QP, wr *verbs.SendWR) ib.WCStatus
	// OnPost, if set, sees each request as it is posted.
	OnPost func(q *QP, wr *verbs.SendWR)
	// OnPoll, if set, is called by each Poll before it looks.
	OnPoll func()
	// PollError, if set, is called in each Poll; channel says whether the CQ has a
	// channel.
	PollError func(channel bool) error
	// PostError, if set, is called for each request as it is posted.
	PostError func(q *QP, wr *verbs.SendWR) error
	// Telemetry, if set, is what queue pairs report, which otherwise report nothing.
	Telemetry func(wc *verbs.WC, t *verbs.Telemetry) bool
	// Kinds are the kinds of telemetry that they claim to report.
	Kinds verbs.TelemetryKinds
	// Plain hides what a queue pair may optionally do.
	Plain bool
	// Unlimited makes SetRateLimit fail.
	Unlimited bool
	// Paths is the treatment of a path's static rate.
	Paths StaticRates
	// Attrs changes what Attr returns.
	Attrs func(*verbs.DeviceAttr)

	// CQs is the number of completion queues.
	CQs int

	name     string
	wireFree units.Time
	objects  int
	events   []verbs.AsyncEvent
}

// NewDevice adds a device with the given line rate and latency.
func (w *World) NewDevice(name string, line units.Rate, latency units.Time) *Device {
	return &Device{World: w, LineRate: line, Latency: latency, MaxMsg: ib.MaxMessage, ClockBits: 64, name: name}
}

// Name implements verbs.Device.
func (d *Device) Name() string { return "fake:" + d.name }

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr {
	a := verbs.DeviceAttr{
		MaxQP: 1 << 16, MaxQPWR: 1 << 12, MaxSGE: 16, MaxCQ: 1 << 16, MaxCQE: 1 << 20,
		MaxQPInitRdAtom: 16, MaxQPRdAtom: 16, MaxInlineData: 512, PhysPorts: 1, Atomics: true,
		CoreClockHz: d.ClockHz, ClockBits: d.ClockBits,
	}
	if d.Attrs != nil {
		d.Attrs(&a)
	}
	return a
}

// Port implements verbs.Device.
func (d *Device) Port(int) (verbs.PortAttr, error) {
	return verbs.PortAttr{State: verbs.PortActive, ActiveMTU: 1024, MaxMTU: 4096, LinkRate: int64(d.LineRate), GIDs: 1, MaxMsgSize: d.MaxMsg}, nil
}

// GID implements verbs.Device.
func (d *Device) GID(int, int) (netip.Addr, error) { return netip.IPv4Unspecified(), nil }

// Now implements verbs.Device.
func (d *Device) Now() time.Duration { return d.World.now.Duration() }

// NowPrecise implements verbs.PreciseClock.
func (d *Device) NowPrecise() units.Time { return d.World.now }

// Ticks is the counter at time t.
func (d *Device) Ticks(t units.Time) uint64 {
	ticks := d.ClockStart + t.Seconds()*d.ClockHz*(1+d.ClockPPM/1e6)
	if d.ClockBits < 64 {
		ticks = math.Mod(ticks, math.Exp2(float64(d.ClockBits)))
	}
	return uint64(ticks)
}

// ReadClock implements verbs.ClockReader.
func (d *Device) ReadClock() (uint64, error) {
	if d.NoReadClock || d.ClockHz == 0 {
		return 0, verbs.Errorf("query_rt_values", d.Name(), verbs.ErrNotSupported, "no clock")
	}
	return d.Ticks(d.World.now), nil
}

// AsyncEvent implements verbs.Device.
func (d *Device) AsyncEvent(context.Context, time.Duration) (verbs.AsyncEvent, error) {
	if len(d.events) == 0 {
		return verbs.AsyncEvent{}, verbs.ErrTimeout
	}
	e := d.events[0]
	d.events = d.events[1:]
	return e, nil
}

// Raise queues an asynchronous event.
func (d *Device) Raise(e verbs.AsyncEvent) { d.events = append(d.events, e) }

// Close implements verbs.Device.
func (d *Device) Close() error {
	if d.objects > 0 {
		return fmt.Errorf("fakenic: %d objects exist: %w", d.objects, verbs.ErrBusy)
	}
	return nil
}

type pd struct{ dev *Device }

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) {
	d.objects++
	return &pd{d}, nil
}

// Close implements verbs.PD.
func (p *pd) Close() error {
	p.dev.objects--
	return nil
}

// CreateSRQ implements verbs.PD.
func (p *pd) CreateSRQ(verbs.SRQInitAttr) (verbs.SRQ, error) { return nil, verbs.ErrNotSupported }

// CreateAH implements verbs.PD.
func (p *pd) CreateAH(verbs.AddressVector) (verbs.AH, error) {
	return nil, fmt.Errorf("fakenic: RC queue pairs only: %w", verbs.ErrNotSupported)
}

// RegMR implements verbs.PD.
func (p *pd) RegMR(buf []byte, access ib.AccessFlags) (verbs.MR, error) {
	if len(buf) == 0 {
		return nil, verbs.ErrInvalid
	}
	w := p.dev.World
	m := &MR{dev: p.dev, buf: buf, addr: w.addr, key: uint32(len(w.mrs)), access: access}
	w.addr += uint64(len(buf)) + 4096
	w.mrs = append(w.mrs, m)
	return m, nil
}

// Addr implements verbs.MR.
func (m *MR) Addr() uint64 { return m.addr }

// Length implements verbs.MR.
func (m *MR) Length() int { return len(m.buf) }

// LKey implements verbs.MR.
func (m *MR) LKey() uint32 { return m.key }

// RKey implements verbs.MR.
func (m *MR) RKey() uint32 { return m.key }

// Access implements verbs.MR.
func (m *MR) Access() ib.AccessFlags { return m.access }

// Close implements verbs.MR.
func (m *MR) Close() error {
	m.dead = true
	return nil
}

// memory returns n bytes at addr if the key allows it on the device.
func (d *Device) memory(addr uint64, n uint32, key uint32, access ib.AccessFlags) []byte {
	if int(key) >= len(d.World.mrs) || key == 0 {
		return nil
	}
	m := d.World.mrs[key]
	if m.dead || m.dev != d || m.access&access != access || addr < m.addr || addr+uint64(n) > m.addr+uint64(len(m.buf)) {
		return nil
	}
	return m.buf[addr-m.addr:][:n]
}
