package softroce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/actors"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// World is devices that are joined by a network in memory, in simulated time: the same
// code as that of devices on sockets, without goroutines. Its devices are
// verbs.Runners, by the actor rule of package simverbs: applications start by one call
// of verbs.Run, one runs at a time, and the same program gives the same run. Each
// device has a link of its own; what goes wrong between two of them a fault.Wire says.
type World struct {
	engine  *des.Engine
	actors  *actors.Actors
	src     des.Source
	id      des.NodeID
	cfg     WorldConfig
	devices []*device
	wires   []*memoryWire
	flights []*flight
	free    []int32
	rng     *rand.ChaCha8
}

// WorldConfig describes a World.
type WorldConfig struct {
	Rate    units.Rate // of each device's link
	Latency units.Time // from the end of sending to arrival
	MTU     ib.MTU     // the largest path MTU
	Window  int        // packets that a connection may have under way; 0 for the default
	// TrafficClass is that of address vectors without one, and Turnaround has requests ask
	// how long the peer takes to answer.
	TrafficClass uint8
	Turnaround   bool
	// Start is what the devices' clocks show as simulated time begins. One that counts from near
	// the end of its range sets all instants back within the run.
	Start units.Time
	// Moderation is for how long a host's packets are gathered before its device gets them
	// together, from the first on; 0 gives each at once.
	Moderation units.Time
	Seed       uint64     // of queue pair numbers, keys and addresses
	Shape      Shape      // of what each device sends, before it reaches its link
	Wire       fault.Wire // nil if nothing goes wrong

	// Sent is called for each packet as it leaves, from the Base Transport Header to
	// the ICRC, before anything happens to it; nil for nobody. id is its IPv4
	// identification. It must not keep p.
	Sent func(now units.Time, src, dst netip.AddrPort, trafficClass uint8, id uint16, p []byte)
	// Expired is called as a device's alarm rings, before it does what is due; nil for nobody.
	Expired func(now units.Time, host int)
	// Delivered is called for each packet with a right ICRC before its device gets it, with the
	// stamp of its arrival and whether it is the first of a batch, and
	// Forge where Wire has a packet forged, with the packet and what fault.Fate.As says:
	// what it answers is whether the packet itself is lost. It may Inject others. Both may be
	// nil, and must not keep p.
	Delivered func(stamp uint64, first bool, from, to int, trafficClass uint8, p []byte)
	Forge     func(from, to int, as uint32, p []byte) (instead bool)
}

// DefaultWorld is 25 Gbps, 2 us, and an MTU of 1024.
func DefaultWorld() WorldConfig {
	return WorldConfig{Rate: 25 * units.Gbps, Latency: 2 * units.Microsecond, MTU: 1024, Seed: 1}
}

// pollCost is what a Poll that finds nothing takes, in simulated time.
const pollCost = 100 * units.Nanosecond

// flight is a packet on its way.
type flight struct {
	to           int
	src          netip.AddrPort
	trafficClass uint8
	hopLimit     uint8
	id           uint16 // IPv4 identification
	index        int32  // in World.flights
	stamp        uint64 // of its arrival
	n            int
	data         [endpoint.MaxPacket]byte
}

// Events of a World.
const (
	arrives uint32 = iota
	expires
	interrupts
)

// NewWorld returns a World with n devices on an engine. Their addresses are 10.0.0.1
// and so on. Its errors name the field of c that is wrong.
func NewWorld(e *des.Engine, n int, c WorldConfig) (*World, error) {
	switch {
	case n < 1 || n > 250:
		return nil, fmt.Errorf("softroce: %d devices, expected 1 to 250", n)
	case c.Rate <= 0:
		return nil, fmt.Errorf("softroce: Rate %v, expected one above 0", c.Rate)
	case c.Window < 0 || c.Window > maxWindow:
		return nil, fmt.Errorf("softroce: Window %d, expected up to %d", c.Window, maxWindow)
	case ofShape.Check(&c.Shape) != nil:
		return nil, ofShape.Check(&c.Shape)
	case c.Start < 0:
		return nil, fmt.Errorf("softroce: Start %v, expected 0 or more", c.Start)
	case c.Moderation < 0 || c.Moderation > units.Second:
		return nil, fmt.Errorf("softroce: Moderation %v, expected 0 to 1s", c.Moderation)
	case c.Latency < 0 || c.Latency > units.Second:
		return nil, fmt.Errorf("softroce: Latency %v, expected 0 to 1s", c.Latency)
	}
	w := &World{engine: e, actors: actors.New(e), src: e.NewSource(), cfg: c}
	w.id = e.AddHandler(w)
	var seed [32]byte
	for i := range 8 {
		seed[i] = byte(c.Seed >> (8 * i))
	}
	w.rng = rand.NewChaCha8(seed)
	for i := range n {
		l := link{
			name: fmt.Sprintf("h%d", i), ready: true, mtu: 1 << 16, mac: net.HardwareAddr{2, 0, 0, 0, 0, byte(i + 1)},
			addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})},
		}
		o := options{Port: roce.Port, GSO: true, MaxQP: endpoint.MaxQP, Rate: c.Rate, Window: c.Window, Shape: c.Shape, Class: c.TrafficClass, Turns: &c.Turnaround}
		d, err := newDevice(fmt.Sprintf("soft:h%d", i), l, o, c.MTU, clock{world: w}, w.rng)
		if err != nil {
			return nil, err
		}
		m := &memoryWire{world: w, host: i}
		d.wire, d.out, d.timer = m, m, &worldAlarm{world: w, host: i}
		w.devices, w.wires = append(w.devices, d), append(w.wires, m)
	}
	return w, nil
}

// Device returns the device of a host, from 0 on.
func (w *World) Device(host int) verbs.Device { return worldDevice{w.devices[host]} }

// worldDevice is a device whose applications are actors.
type worldDevice struct{ *device }

// Run implements verbs.Runner.
func (d worldDevice) Run(applications ...func() error) error {
	return d.clock.world.actors.Run(applications...)
}

// Blocking implements verbs.Runner.
func (d worldDevice) Blocking(f func()) { d.clock.world.actors.Blocking(f) }

// Sleep implements verbs.Runner.
func (d worldDevice) Sleep(t time.Duration) {
	// It ends at an instant, so it is never idle.
	_ = d.clock.world.actors.Wait(d.clock.world.engine.Now()+units.FromDuration(max(t, 0)), nil)
}

// NowPrecise implements verbs.PreciseClock.
func (d worldDevice) NowPrecise() units.Time { return d.clock.read().Time() }

// wait is device.wait in simulated time.
func (w *World) wait(ctx context.Context, timeout time.Duration, ready <-chan struct{}, take func() bool) error {
	until := units.Never
	if now := w.engine.Now(); timeout > 0 {
		if span := units.FromDuration(timeout); span < units.Never-now {
			until = now + span
		}
	}
	for {
		if err := w.actors.WaitContext(ctx, until, func() bool { return len(ready) > 0 }); err != nil {
			return err
		}
		select {
		case <-ready:
		default:
		}
		switch {
		case take():
			return nil
		case w.engine.Now() >= until:
			return verbs.ErrTimeout
		}
	}
}

// pollAgain lets the time of a poll that found nothing pass.
func (w *World) pollAgain(c *endpoint.CQ, wc []verbs.WC) (int, error) {
	if err := w.actors.Wait(w.engine.Now()+pollCost, nil); err != nil {
		return 0, err
	}
	return c.Poll(wc)
}

// worldAlarm is a device's timer. An alarm that was set again or stopped has another
// generation.
type worldAlarm struct {
	world      *World
	host       int
	generation uint64
	set        bool
}

func (a *worldAlarm) Reset(d time.Duration) bool {
	was := a.set
	a.generation++
	a.set = true
	// Durations are whole nanoseconds: one more is never early.
	a.world.engine.Schedule(a.world.engine.Now()+units.FromDuration(d)+units.Nanosecond, &a.world.src, a.world.id, expires, uint64(a.host)|a.generation<<8)
	return was
}

func (a *worldAlarm) Stop() bool {
	was := a.set
	a.generation++
	a.set = false
	return was
}

// memoryWire is a device's end of the network: a wire.
type memoryWire struct {
	world *World
	host  int
	until units.Time // the link is busy
	paths pathCache
	// gathered are packets that wait for the device, and packets the ones that it gets.
	gathered []*flight
	packets  []endpoint.Packet
	gone     bool
}

func (m *memoryWire) segments() int { return 64 }

func (m *memoryWire) local() netip.AddrPort {
	return netip.AddrPortFrom(m.world.devices[m.host].link.addrs[0], roce.Port)
}

func (m *memoryWire) path(r *endpoint.Route) *roce.Path { return m.paths.get(m.local(), r.Dst) }

// send implements sender: packets leave one after the other at the link's rate.
func (m *memoryWire) send(b *batch) {
	for i := range b.messages {
		g := &b.messages[i]
		data := b.buf[g.at : g.at+g.n]
		for k := 0; len(data) > 0; k++ {
			p := data[:min(g.size, len(data))]
			data = data[len(p):]
			m.transmit(&g.route, uint16(k), p)
		}
	}
}

func (m *memoryWire) transmit(to *endpoint.Route, id uint16, p []byte) {
	w := m.world
	now := w.engine.Now()
	m.until = max(m.until, now) + w.cfg.Rate.Serialize(units.Bytes(len(p)+roce.UDPBytes+roce.IPv4Bytes+ethernetBytes))
	if w.cfg.Sent != nil {
		w.cfg.Sent(now, m.local(), to.Dst, to.TrafficClass, id, p)
	}
	host := int(to.Dst.Addr().As4()[3]) - 1
	if host < 0 || host >= len(w.devices) || w.devices[host].link.addrs[0] != to.Dst.Addr() {
		return
	}
	var fate fault.Fate
	if w.cfg.Wire != nil {
		fate = w.cfg.Wire.Carry(now, m.host, host)
	}
	if fate.Forge && w.cfg.Forge != nil && w.cfg.Forge(m.host, host, fate.As, p) || fate.Drop {
		return
	}
	class := to.TrafficClass
	if fate.Mark && class&roce.ECNCE != 0 {
		class |= roce.ECNCE
	}
	at := m.until + w.cfg.Latency
	if fate.Duplicate {
		w.launch(at, m.local(), host, class, to.HopLimit, id, p)
	}
	f := w.launch(at+fate.Delay, m.local(), host, class, to.HopLimit, id, p)
	if fate.Corrupt {
		bit := int(fate.Bit) % (8 * f.n)
		f.data[bit/8] ^= 1 << (bit % 8)
	}
}

// Inject has a packet arrive at a host in another's name, so much later than one that is sent
// now: p reaches from the Base Transport Header to the ICRC, which Inject writes.
func (w *World) Inject(from, to int, after units.Time, p []byte) {
	m := w.wires[from]
	path := m.paths.get(m.local(), w.wires[to].local())
	path.PutICRC(p, 0)
	w.launch(max(m.until, w.engine.Now())+w.cfg.Latency+after, m.local(), to, 0, 64, 0, p)
}

// launch puts a packet on its way.
func (w *World) launch(at units.Time, src netip.AddrPort, to int, class, hopLimit uint8, id uint16, p []byte) *flight {
	var i int32
	if n := len(w.free); n > 0 {
		i, w.free = w.free[n-1], w.free[:n-1]
	} else {
		i = int32(len(w.flights))
		w.flights = append(w.flights, &flight{index: i})
	}
	f := w.flights[i]
	f.src, f.to, f.trafficClass, f.hopLimit, f.id = src, to, class, hopLimit, id
	f.n = copy(f.data[:], p)
	w.engine.Schedule(at, &w.src, w.id, arrives, uint64(i))
	return f
}

// Handle implements des.Handler.
func (w *World) Handle(ev des.Event) {
	if ev.Kind == expires {
		d := w.devices[ev.Arg&0xff]
		if a := d.timer.(*worldAlarm); a.set && a.generation == ev.Arg>>8 {
			a.set = false
			if w.cfg.Expired != nil {
				w.cfg.Expired(w.engine.Now(), a.host)
			}
			d.expire()
		}
		return
	}
	if ev.Kind == interrupts {
		m := w.wires[ev.Arg]
		m.arrive(m.gathered)
		for _, f := range m.gathered {
			w.free = append(w.free, f.index)
		}
		m.gathered = m.gathered[:0]
		return
	}
	f := w.flights[ev.Arg]
	m := w.wires[f.to]
	f.stamp = uint64(w.devices[f.to].Now())
	if m.gathered = append(m.gathered, f); w.cfg.Moderation == 0 {
		w.Handle(des.Event{Kind: interrupts, Arg: uint64(f.to)})
	} else if len(m.gathered) == 1 {
		w.engine.Schedule(w.engine.Now()+w.cfg.Moderation, &w.src, w.id, interrupts, uint64(f.to))
	}
}

// arrive hands packets to the device.
func (m *memoryWire) arrive(flights []*flight) {
	d := m.world.devices[m.host]
	if m.gone {
		return
	}
	m.packets = m.packets[:0]
	for _, f := range flights {
		p := endpoint.Packet{
			Data: f.data[:f.n], Src: f.src, TrafficClass: f.trafficClass, HopLimit: f.hopLimit, Stamp: f.stamp,
		}
		if f.n < roce.BTHBytes+roce.ICRCBytes {
			d.counters.malformed.Add(1)
			continue
		}
		path := m.paths.get(f.src, m.local())
		if _, ok := path.RecoverID(p.Data, f.id); !ok {
			d.counters.badICRC.Add(1)
			continue
		}
		if w := m.world; w.cfg.Delivered != nil {
			w.cfg.Delivered(f.stamp, len(m.packets) == 0, int(f.src.Addr().As4()[3])-1, m.host, f.trafficClass, p.Data)
		}
		m.packets = append(m.packets, p)
	}
	if len(m.packets) > 0 {
		d.deliver(m.packets)
	}
}

// What a wire has for goroutines, of which there are none here.
func (m *memoryWire) receive() bool        { return false }
func (m *memoryWire) poll() bool           { return false }
func (m *memoryWire) readdress([]gidEntry) {}
func (m *memoryWire) stop()                { m.gone = true }
func (m *memoryWire) close()               {}
