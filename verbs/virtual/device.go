//go:build linux

package virtual

import (
	gocontext "context" // the name is that of a program's here
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
)

// Config says which device there is to be.
type Config struct {
	Model string // one of Models
	Name  string // the device's name in its program: "mlx5_0"
	// Backend sends and receives. Its memory regions have to reach other programs
	// (verbs.MemoryPD), and its receive queues have to fetch (verbs.SourcedRecv). The
	// Device owns it from a successful Open on.
	Backend verbs.Device
	// ClockStart is the device's counter at first, in ticks, and ClockPPB by
	// how many billionths it is faster than its rate: between -100000000 and 100000000.
	ClockStart uint64
	ClockPPB   int64
	// RealTime has the device offer completion timestamps of the time of day
	// (MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS), as firmware does that is configured so:
	// libmlx5 takes them for completion queues with wallclock timestamps only. They are
	// nanoseconds since 1970, as libmlx5 reads them.
	RealTime bool
	// Simulated says that the back end is in simulated time: a simverbs.Device of a world
	// that is not for applications. Programs use the device in a Simulation. Its counter is
	// the back end's; the fields of the clock above are not to be set.
	Simulated bool
}

// simulatedBackend is the further interface of a back end in simulated time.
type simulatedBackend interface {
	verbs.Device
	// OnCompletion and OnAsyncEvent call f as an event of the simulation.
	OnCompletion(f func(now units.Time))
	OnAsyncEvent(f func())
	// CounterAt returns the device's counter at an instant.
	CounterAt(t units.Time) uint64
	// GSI returns what has the device's management datagrams.
	GSI() (verbs.MADDevice, error)
	// PathTo returns an error unless the network has a path to an address.
	PathTo(gid netip.Addr) error
}

// Device is a virtual ConnectX. Its methods may be called concurrently.
type Device struct {
	cfg     Config
	model   Model
	backend verbs.Device
	attr    verbs.DeviceAttr
	port    verbs.PortAttr // as it was at first
	guid    uint64
	clock   *clock
	numbers atomic.Uint32 // of the last CQ, SRQ or PD
	objects objects

	mu     sync.Mutex
	closed bool
	nodes  map[*node]struct{}
	sim    *Simulation // of a simulated device, once it is at a host
	pairs  map[verbs.QP]*queuePair
	events sync.WaitGroup
	// changed is called before programs learn that the port has changed.
	changed func()
}

// Open makes a device. It fails for an unknown model, and for a back end that can't
// reach the memory of other programs.
func Open(c Config) (*Device, error) {
	bad := func(format string, args ...any) (*Device, error) {
		return nil, verbs.Errorf("open", "virtual:"+c.Name, verbs.ErrInvalid, format, args...)
	}
	model, err := ModelOf(c.Model)
	switch {
	case err != nil:
		return bad("%v", err)
	case c.Name == "" || len(c.Name) >= 64:
		return bad("device name %q, expected 1 to 63 characters", c.Name)
	case c.Backend == nil:
		return bad("requires a back end")
	case c.ClockPPB < -100_000_000 || c.ClockPPB > 100_000_000:
		return bad("a clock that is %d ppb fast, expected -100000000 to 100000000", c.ClockPPB)
	}
	d := &Device{
		cfg: c, model: model, backend: c.Backend, attr: c.Backend.Attr(), nodes: map[*node]struct{}{}, pairs: map[verbs.QP]*queuePair{},
	}
	if c.Simulated {
		s, ok := c.Backend.(simulatedBackend)
		if !ok || c.RealTime || c.ClockStart != 0 || c.ClockPPB != 0 {
			return bad("%s is not in simulated time, or a clock is given: take a sim: device and its counter", c.Backend.Name())
		}
		d.clock = newSimulatedClock(s)
		d.model.clockHz = int64(d.attr.CoreClockHz)
	} else {
		d.clock = newClock(c.Backend, model.clockHz, c.ClockPPB, c.ClockStart)
	}
	d.guid = guidOf(d.attr.NodeGUID, c)
	if d.port, err = c.Backend.Port(1); err != nil {
		return nil, err
	}
	pd, err := c.Backend.AllocPD()
	if err != nil {
		return nil, err
	}
	_, reaches := pd.(verbs.MemoryPD)
	if err := pd.Close(); err != nil {
		return nil, err
	}
	if !reaches {
		return bad("%s can't register the memory of other programs: take a soft: device", c.Backend.Name())
	}
	if !c.Simulated {
		d.events.Go(d.dispatch)
	}
	return d, nil
}

// Name is the device's name in programs, "mlx5_0".
func (d *Device) Name() string { return d.cfg.Name }

// ofModel returns the modelled adapter.
func (d *Device) ofModel() Model { return d.model }

// nodeGUID is the device's GUID: the back end's, or one of its name's.
func (d *Device) nodeGUID() uint64 { return d.guid }

// guidOf gives a device over an interface without a MAC address, such as the loopback, a
// GUID that differs from that of another one: the library's own, not a vendor's.
func guidOf(backend uint64, c Config) uint64 {
	if backend != 0 {
		return backend
	}
	const local = 0x02 << 56
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", c.Name, c.Backend.Name())
	return local | h.Sum64()>>8
}

// gids is the GID table of the port as it is now.
func (d *Device) gids() []netip.Addr {
	gids := make([]netip.Addr, d.Port().GIDs)
	for i := range gids {
		gid, err := d.backend.GID(1, i)
		if err != nil { // it is empty
			gid = netip.IPv6Unspecified()
		}
		gids[i] = gid
	}
	return gids
}

// Port describes the port, with the model's line rate where the back end has none.
func (d *Device) Port() verbs.PortAttr {
	p, err := d.backend.Port(1)
	if err != nil {
		p = d.port
		p.State = verbs.PortDown
	}
	if p.LinkRate <= 0 {
		p.LinkRate = int64(d.model.lineRate)
	}
	return p
}

// ticks returns the device's counter.
func (d *Device) ticks() uint64 { return d.clock.atRaw(rawNow()) }

// vectors is the number of completion vectors, as mlx5 has: one a processor.
func vectors() uint32 { return uint32(runtime.NumCPU()) }

// nextNumber numbers what the back end has no numbers for.
func (d *Device) nextNumber() uint32 {
	for {
		if n := d.numbers.Add(1) & 0xffffff; n != 0 {
			return n
		}
	}
}

// openNode opens the device's uverbs node for a process. It is a guest.Opener's part:
// the node's name is the caller's.
func (d *Device) openNode(p *guest.Process) (guest.File, *os.File, syscall.Errno) {
	n := newNode(d, p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, syscall.ENODEV
	}
	d.nodes[n] = struct{}{}
	return n, nil, 0
}

// Close destroys what programs have left and closes the back end. It is to be called
// when no process has a node open any more.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return verbs.Errorf("close_device", "virtual:"+d.cfg.Name, verbs.ErrClosed, "")
	}
	d.closed = true
	d.mu.Unlock()
	for _, n := range d.openNodes() {
		n.Close()
	}
	err := d.backend.Close()
	d.events.Wait()
	return err
}

func (d *Device) openNodes() []*node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.nodes))
}

// dispatch passes the back end's asynchronous events on until it is closed.
func (d *Device) dispatch() {
	for {
		e, err := d.backend.AsyncEvent(gocontext.Background(), -1)
		if errors.Is(err, verbs.ErrTimeout) {
			continue
		}
		if err != nil {
			return
		}
		d.deliver(e)
	}
}

// deliver gives an event to the node that it is for. Events of completion queues are
// package mlx5's to raise: the rings that overrun are the programs'.
func (d *Device) deliver(e verbs.AsyncEvent) {
	switch {
	case e.QP != nil:
		d.mu.Lock()
		q := d.pairs[e.QP]
		d.mu.Unlock()
		if q != nil {
			q.onBackendEvent(e.Type)
		}
	case e.CQ == nil && e.SRQ == nil:
		if e.Type == ib.EventDeviceFatal {
			d.fail()
		}
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		if changed != nil {
			changed()
		}
		for _, n := range d.openNodes() {
			n.portEvent(e.Type, e.Port)
		}
	}
}

// fail has the programs' queue pairs end what they have, when the back end is gone.
func (d *Device) fail() {
	d.mu.Lock()
	pairs := slices.Collect(maps.Values(d.pairs))
	d.mu.Unlock()
	for _, q := range pairs {
		q.onLost()
	}
}

// onChange has f called when the port has changed, before programs learn of it.
func (d *Device) onChange(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = f
}

func (d *Device) addPair(q *queuePair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pairs[q.backend] = q
}

func (d *Device) removePair(q *queuePair) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pairs, q.backend)
}

func (d *Device) String() string {
	return fmt.Sprintf("%s (%s) over %s", d.cfg.Name, d.cfg.Model, d.backend.Name())
}

// napLongest bounds how late a sleeping node looks for what no event announces.
const napLongest = time.Millisecond
