package simverbs

import (
	"context"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/chosen"
	"github.com/sluice-rdma/sluice/verbs/internal/events"
)

// Device is a simulated NIC as a verbs.Device. It is also a verbs.Runner, a
// verbs.ClockReader and a verbs.PreciseClock.
type Device struct {
	world      *World
	nic        *nicmodel.NIC
	name       string
	congestion CongestionFor

	objects int // PDs, CQs and channels not yet destroyed
	closed  bool
	down    bool   // its port
	gone    bool   // the device: see Die
	made    uint32 // queue pairs so far
	qps     map[uint32]*QP
	chosen  chosen.Set
	past    counted // by queue pairs that are gone or were reset
	cqs     map[uint32]*CQ
	events  events.Queue

	onCompletion func(now units.Time)
	onEvent      func(now units.Time)
	onAsync      func()
	onFailed     func(wc *verbs.WC)
	onRaised     func(e verbs.AsyncEvent)

	// The host clock runs on while a processor waits for a register read, though
	// simulated time does not advance: see ReadClock.
	ahead   units.Time
	aheadAt units.Time

	stamps bool // of sending

	gsi *gsi // queue pair 1, once it is asked for

	core  *des.Core         // nil for one that nothing else is on
	bells fabric.HostEvents // doorbells to come
}

// NIC returns the model behind the device.
func (d *Device) NIC() *nicmodel.NIC { return d.nic }

// OnEvent calls f, as an event of the simulation, when a completion channel of the
// device has something: its Wait then returns at once.
func (d *Device) OnEvent(f func(now units.Time)) { d.onEvent = f }

// OnCompletion calls f whenever a completion has become visible in any
// completion queue of the device, as an event of the simulation. It is how a
// simulator drives a host without a goroutine.
func (d *Device) OnCompletion(f func(now units.Time)) { d.onCompletion = f }

// Name implements verbs.Device.
func (d *Device) Name() string { return d.name }

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr {
	c := d.nic.Config()
	return verbs.DeviceAttr{
		NodeGUID: 0x5157_0000_0000_0000 | uint64(d.nic.Host()+1), FirmwareVersion: "model",
		MaxQP: 1 << 20, MaxQPWR: c.MaxQPWR, MaxSGE: c.MaxSGE, MaxCQ: 1 << 24, MaxCQE: 1 << 22,
		MaxMR: 1 << 24, MaxMRSize: 1 << 50, MaxPD: 1 << 24, MaxSRQ: 1 << 16, MaxSRQWR: c.MaxQPWR,
		MaxQPRdAtom: c.MaxRdAtomic, MaxQPInitRdAtom: c.MaxRdAtomic, MaxInlineData: c.MaxInline,
		PhysPorts: 1, Atomics: true,
		CoreClockHz: float64(c.Counter.Hz), ClockBits: c.Counter.Bits,
	}
}

// Port implements verbs.Device.
func (d *Device) Port(num int) (verbs.PortAttr, error) {
	if num != 1 {
		return verbs.PortAttr{}, verbs.Errorf("query_port", d.name, verbs.ErrInvalid, "port %d does not exist: the device has port 1", num)
	}
	state := verbs.PortActive
	if d.down || d.gone {
		state = verbs.PortDown
	}
	return verbs.PortAttr{
		State: state, ActiveMTU: portMTU, MaxMTU: portMTU, LinkRate: int64(d.nic.LineRate()), MaxMsgSize: ib.MaxMessage, GIDs: 2, PKeys: 1, LinkName: "Ethernet",
	}, nil
}

// PKey implements verbs.PKeyDevice.
func (d *Device) PKey(port, index int) (uint16, error) {
	if port != 1 || index != 0 {
		return 0, verbs.Errorf("query_pkey", d.name, verbs.ErrInvalid, "port %d has no P_Key %d: port 1 has P_Key 0", port, index)
	}
	return 0xffff, nil
}

// GID implements verbs.Device.
func (d *Device) GID(port, index int) (netip.Addr, error) {
	switch {
	case port == 1 && index == 0:
		return gidOf(d.nic.Host()), nil
	case port == 1 && index == 1:
		return gid6Of(d.nic.Host()), nil
	}
	return netip.Addr{}, verbs.Errorf("query_gid", d.name, verbs.ErrInvalid, "port %d has no GID %d: port 1 has GIDs 0 and 1", port, index)
}

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) {
	if err := d.usable("alloc_pd"); err != nil {
		return nil, err
	}
	d.objects++
	return &PD{dev: d, num: d.nic.AllocPD()}, nil
}

// CreateCompChannel implements verbs.Device.
func (d *Device) CreateCompChannel() (verbs.CompChannel, error) {
	if err := d.usable("create_comp_channel"); err != nil {
		return nil, err
	}
	d.objects++
	return &CompChannel{dev: d}, nil
}

// AsyncEvent implements verbs.Device.
func (d *Device) AsyncEvent(ctx context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	until := d.deadline(timeout)
	for {
		if e, ok := d.events.Take(); ok {
			return e, nil
		}
		if d.nic.Now() >= until {
			return verbs.AsyncEvent{}, verbs.Errorf("get_async_event", d.name, verbs.ErrTimeout, "")
		}
		if err := d.world.actors.WaitContext(ctx, until, d.events.Waiting); err != nil {
			return verbs.AsyncEvent{}, verbs.Errorf("get_async_event", d.name, err, "")
		}
	}
}

// deadline returns when a wait that starts now ends; a negative timeout is endless.
func (d *Device) deadline(timeout time.Duration) units.Time {
	if timeout < 0 {
		return units.Never
	}
	now, span := d.nic.Now(), units.FromDuration(timeout)
	if span >= units.Never-now {
		return units.Never
	}
	return now + span
}

// pumpEvents takes over what the NIC has raised.
func (d *Device) pumpEvents() {
	for {
		e, ok := d.nic.TakeEvent()
		if !ok {
			return
		}
		ev := verbs.AsyncEvent{Type: e.Type}
		if e.Type == ib.EventCQErr {
			if c := d.cqs[e.CQ]; c != nil {
				ev.CQ = c
			}
		} else if q := d.qps[e.QPN]; q != nil {
			if e.Type == ib.EventSRQLimit {
				ev.SRQ = q.srq
			} else {
				ev.QP = q
			}
		}
		d.raise(ev)
	}
}

func (d *Device) raise(e verbs.AsyncEvent) {
	d.events.Add(e)
	if d.onRaised != nil {
		d.onRaised(e)
	}
	if d.onAsync != nil {
		d.onAsync()
	}
}

// OnAsyncEvent calls f, as an event of the simulation, when AsyncEvent has something.
func (d *Device) OnAsyncEvent(f func()) { d.onAsync = f }

// CounterAt returns the NIC's counter at an instant: it costs nothing, as a
// program's ReadClock does.
func (d *Device) CounterAt(t units.Time) uint64 { return d.nic.ReadClock(t) }

// Now implements verbs.Device.
func (d *Device) Now() time.Duration { return d.NowPrecise().Duration() }

// NowPrecise implements verbs.PreciseClock. Where applications use the device, any goroutine
// may call it while they run: what scrapes their metrics does.
func (d *Device) NowPrecise() units.Time {
	var now units.Time
	if d.world.interactive {
		now = d.world.actors.Now()
	} else {
		now = d.nic.Now()
	}
	if d.aheadAt == now {
		return now + d.ahead
	}
	return now
}

// ReadClock implements verbs.ClockReader: a register read over PCIe, which waits for
// what the link carries. For an actor it takes simulated time. Where a simulator drives
// the device from events, the host clock alone moves on by the time of the read, and
// is back with the simulation at the next event.
func (d *Device) ReadClock() (uint64, error) {
	now := d.nic.Now()
	if d.world.actors.Running() {
		there := d.nic.RegisterRequest(now, now)
		if err := d.world.actors.Wait(there, nil); err != nil {
			return 0, err
		}
		return d.nic.ReadClock(there), d.world.actors.Wait(d.nic.RegisterAnswer(there, there), nil)
	}
	there := d.nic.RegisterRequest(now, d.NowPrecise())
	after := d.nic.RegisterAnswer(now, there)
	if d.core != nil {
		after = d.core.Free(after) // an instruction is not interrupted: other work that became due follows it
	}
	d.setNow(after)
	return d.nic.ReadClock(there), nil
}

// Run implements verbs.Runner.
func (d *Device) Run(applications ...func() error) error { return d.world.actors.Run(applications...) }

// Blocking implements verbs.Runner.
func (d *Device) Blocking(f func()) { d.world.actors.Blocking(f) }

// Sleep implements verbs.Runner.
func (d *Device) Sleep(t time.Duration) {
	// Its end is an instant, so the wait can't be idle.
	_ = d.world.actors.Wait(d.deadline(max(t, 0)), nil)
}

// Close implements verbs.Device.
func (d *Device) Close() error {
	if d.objects > 0 {
		return verbs.Errorf("close_device", d.name, verbs.ErrBusy, "%d objects made from it still exist", d.objects)
	}
	d.closed = true
	return nil
}

// PD implements verbs.PD.
type PD struct {
	dev   *Device
	num   uint32
	users int
	gone  bool
}

// RegMR implements verbs.PD. Addresses are the model's own, so that a run does
// not depend on where the Go runtime puts a buffer.
func (p *PD) RegMR(buf []byte, access ib.AccessFlags) (verbs.MR, error) {
	if len(buf) == 0 {
		return nil, verbs.Errorf("reg_mr", p.dev.name, verbs.ErrInvalid, "the buffer is empty")
	}
	return p.register(buf, 0, access)
}

// RegPhantom registers length bytes that have bounds and keys but no content, for
// workloads that never read their bytes. Data that arrive there are dropped; data
// sent from there are zeros.
func (p *PD) RegPhantom(length uint64, access ib.AccessFlags) (verbs.MR, error) {
	return p.register(nil, length, access)
}

// RegPeer is RegPhantom for memory of the NIC's peer device, such as a GPU's (nicmodel.PeerConfig). It fails
// where the NIC has none.
func (p *PD) RegPeer(length uint64, access ib.AccessFlags) (verbs.MR, error) {
	return p.registered(access, func(nic *nicmodel.NIC) (nicmodel.Region, error) {
		return nic.RegPeer(p.num, nil, length, access)
	})
}

// RegMemory implements verbs.MemoryPD. Bytes are read as the packet that carries them is
// built, and written as the host sees them in the model. m's values are compared (==).
// What m refuses to write, though it can be read, is lost without an error: a NIC writes
// to pages that the host has pinned.
func (p *PD) RegMemory(m verbs.Memory, addr, length, iova uint64, access ib.AccessFlags) (verbs.MR, error) {
	return p.registered(access, func(nic *nicmodel.NIC) (nicmodel.Region, error) {
		return nic.RegMemory(p.num, m, addr, length, iova, access)
	})
}

func (p *PD) register(buf []byte, length uint64, access ib.AccessFlags) (verbs.MR, error) {
	return p.registered(access, func(nic *nicmodel.NIC) (nicmodel.Region, error) {
		return nic.RegMR(p.num, buf, length, access)
	})
}

func (p *PD) registered(access ib.AccessFlags, by func(*nicmodel.NIC) (nicmodel.Region, error)) (verbs.MR, error) {
	if p.gone {
		return nil, verbs.Errorf("reg_mr", p.dev.name, verbs.ErrClosed, "the protection domain is deallocated")
	}
	if err := p.dev.usable("reg_mr"); err != nil {
		return nil, err
	}
	r, err := by(p.dev.nic)
	if err != nil {
		return nil, verbs.Errorf("reg_mr", p.dev.name, verbs.ErrInvalid, "%v", err)
	}
	p.users++
	return &MR{pd: p, region: r, access: access}, nil
}

// Close implements verbs.PD.
func (p *PD) Close() error {
	if p.users > 0 {
		return verbs.Errorf("dealloc_pd", p.dev.name, verbs.ErrBusy, "%d regions and queue pairs made from it still exist", p.users)
	}
	if p.gone {
		return verbs.Errorf("dealloc_pd", p.dev.name, verbs.ErrClosed, "")
	}
	p.gone = true
	p.dev.objects--
	return nil
}

// MR implements verbs.MR.
type MR struct {
	pd     *PD
	region nicmodel.Region
	access ib.AccessFlags
	gone   bool
}

// Addr implements verbs.MR.
func (m *MR) Addr() uint64 { return m.region.Addr }

// Length implements verbs.MR.
func (m *MR) Length() int { return int(m.region.Length) }

// LKey implements verbs.MR.
func (m *MR) LKey() uint32 { return m.region.Key }

// RKey implements verbs.MR.
func (m *MR) RKey() uint32 { return m.region.Key }

// Access implements verbs.MR.
func (m *MR) Access() ib.AccessFlags { return m.access }

// Close implements verbs.MR.
func (m *MR) Close() error {
	if m.gone {
		return verbs.Errorf("dereg_mr", m.pd.dev.name, verbs.ErrClosed, "the region was deregistered before")
	}
	if n := m.pd.dev.nic.Windows(m.region.Key); n > 0 {
		return verbs.Errorf("dereg_mr", m.pd.dev.name, verbs.ErrBusy, "%d memory windows are bound to it", n)
	}
	// The peer may have had the key invalidated already.
	m.pd.dev.nic.DeregMR(m.region.Key)
	m.forget()
	return nil
}

// CloseAt is Close of a region without windows, but peers may use it until a time: see
// QP.CloseAt.
func (m *MR) CloseAt(at units.Time) error {
	if m.gone {
		return verbs.Errorf("dereg_mr", m.pd.dev.name, verbs.ErrClosed, "the region was deregistered before")
	}
	m.pd.dev.nic.CloseMR(m.region.Key, at)
	m.forget()
	return nil
}

// forget counts a region as gone.
func (m *MR) forget() {
	m.gone = true
	m.pd.users--
}

// MW implements verbs.MW.
type MW struct {
	pd   *PD
	kind ib.MWType
	key  uint32 // the first
	gone bool
}

// AllocMW implements verbs.WindowPD. A window's entry is always on the chip.
func (p *PD) AllocMW(t ib.MWType) (verbs.MW, error) {
	if p.gone {
		return nil, verbs.Errorf("alloc_mw", p.dev.name, verbs.ErrClosed, "the protection domain is deallocated")
	}
	key, err := p.dev.nic.AllocMW(p.num, t)
	if err != nil {
		return nil, verbs.Errorf("alloc_mw", p.dev.name, verbs.ErrInvalid, "%v", err)
	}
	p.users++
	return &MW{pd: p, kind: t, key: key}, nil
}

// Type implements verbs.MW.
func (m *MW) Type() ib.MWType { return m.kind }

// RKey implements verbs.MW.
func (m *MW) RKey() uint32 {
	if m.gone {
		return m.key
	}
	return m.pd.dev.nic.WindowKey(m.key)
}

// Close implements verbs.MW.
func (m *MW) Close() error {
	if m.gone {
		return verbs.Errorf("dealloc_mw", m.pd.dev.name, verbs.ErrClosed, "the window was deallocated before")
	}
	m.pd.dev.nic.DeallocMW(m.key)
	m.gone = true
	m.pd.users--
	return nil
}
