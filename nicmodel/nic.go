package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/icm"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// NIC is one network adapter at a host's port. It belongs to the goroutine of its
// engine, or in a divided network to the lane that runs its host. Everything a host does
// with it happens at its Now.
//
// It is stages and what they share, each with its own state and the few others that it
// hands work to or asks; New wires them up.
type NIC struct {
	other *NIC // port of the same device, or nil
	chip  chip.Chip
	pairs
	closing []closing
	onAlarm [2]func(now units.Time)
	first   *NIC // whose PCIe, memory on the chip and processing units this one shares, or nil

	// The way of requests.
	doorbell   doorbell
	elements   elements
	scheduler  scheduler
	packetiser packetiser
	mac        mac
	// The way of received packets.
	receiver    receiver
	transport   transport
	receives    receives
	atomics     atomics
	offload     offload
	completions completions
	queues
	async
	probes
	// Host memory.
	state    *icm.Memory
	ports    *ports
	contexts contexts
	registrar
	regions     memory.Regions
	translation memory.Translation
	landings    memory.Landings
	dma         dma
}

// New puts a NIC at a host's port. line is the rate of that port.
func New(e *des.Engine, net *fabric.Network, slab *Frames, host int, line units.Rate, cfg Config) (*NIC, error) {
	return newNIC(e, net, slab, host, line, cfg, nil)
}

// NewPort puts another port of a NIC at a host's port: PCIe with the host's memory behind it, the memory on the
// chip and the processing units are the first port's, and all else is its own. Both are of one host, though the network has two.
// A divided network runs the two hosts together (fabric.Division.Join); host is above the first's.
func NewPort(first *NIC, host int, line units.Rate) (*NIC, error) {
	n, err := newNIC(first.chip.Engine, first.chip.Net, first.chip.Frames, host, line, first.chip.Config, first)
	if err != nil {
		return nil, err
	}
	n.other, first.other = first, n
	if d := first.chip.Net.Division(); d != nil {
		d.Join(first.chip.Host, host)
	}
	return n, nil
}

func newNIC(e *des.Engine, net *fabric.Network, slab *Frames, host int, line units.Rate, cfg Config, first *NIC) (*NIC, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if line <= 0 {
		return nil, fmt.Errorf("nic: line rate is %v; it must be positive", line)
	}
	pacing := ratelimiter.Config{LineRate: line, CatchUp: catchUp, PullIn: units.Microsecond}
	limiter, err := ratelimiter.New(pacing)
	if err != nil {
		return nil, err
	}
	var link *pcie.Link
	if first != nil {
		link = first.chip.Link
	} else if link, err = pcie.New(cfg.PCIe); err != nil {
		return nil, err
	}
	n := &NIC{chip: chip.New(e, net, slab, host, line, cfg, link), first: first}
	n.pairs.keep = n.chip.Divided
	n.wire(limiter)
	n.scheduler.arbiter = newArbiter(&n.chip.Config, pacing)
	n.chip.HandledBy(n)
	net.Attach(host, n)
	return n, nil
}

// wire gives each stage what it needs of the others.
func (n *NIC) wire(limiter *ratelimiter.Scheduler) {
	on := &n.chip
	on.Spans.Peer = n.pairs.peerHost
	clocked := func(name string) stage.Stage { return stage.Stage{Name: name, Clock: n.chip.Config.CoreClock} }
	var pool *processingUnits
	if n.first == nil {
		n.ports = &ports{posted: on.Config.State.Posted}
		pool, n.state = newUnits(n.chip.Config.Units, n.chip.Config.CoreClock), icm.New(on, n.ports.elements)
	} else {
		n.ports, pool, n.state = n.first.ports, n.first.scheduler.units, n.first.state
		n.regions = memory.OfSecondPort()
		n.chip.Tables = icm.PortTables
	}
	n.ports.all = append(n.ports.all, &n.pairs)
	n.contexts = contexts{on, n.state}
	n.translation, n.landings = memory.NewTranslation(on, &n.regions, n.state), memory.NewLandings(on, &n.regions)
	n.registrar = memory.NewRegistrar(&on.Config, &n.regions, &n.translation, &n.landings)
	n.dma = dma{Chip: on, regions: &n.regions, translation: &n.translation, landings: &n.landings, buffer: &n.receiver.buffer}

	n.doorbell = doorbell{on, clocked("doorbell"), &n.pairs, &n.contexts, &n.elements, stores{wakeAt: units.Never}}
	n.elements = elements{Chip: on, Stage: clocked("wqe"), pairs: &n.pairs, transport: &n.transport, scheduler: &n.scheduler, state: n.state, buffer: &n.receiver.buffer, ports: n.ports}
	if n.chip.Config.SendTime.Jitter > 0 {
		n.elements.times.stream = des.NewStream(uint64(n.chip.Host), "send times")
	}
	n.scheduler = scheduler{
		Chip: on, Stage: clocked("scheduler"), pairs: &n.pairs, transport: &n.transport, packetiser: &n.packetiser, mac: &n.mac,
		units: pool, ring: ring{limiter: limiter},
		wakeAt: units.Never, limiterAt: units.Never, unitsFrom: units.Never, fullFrom: units.Never, missFrom: units.Never,
	}
	n.packetiser = packetiser{
		Chip: on, Stage: clocked("packetiser"), scheduler: &n.scheduler, elements: &n.elements, contexts: &n.contexts,
		dma: &n.dma, transport: &n.transport, mac: &n.mac,
	}
	// The MAC's cycle is a picosecond: its work is measured in bit times, which
	// the link keeps exactly.
	n.mac = mac{
		Chip: on, Stage: stage.Stage{Name: "mac", Clock: stage.Picoseconds}, pairs: &n.pairs, scheduler: &n.scheduler,
		packetiser: &n.packetiser, transport: &n.transport, wakeAt: units.Never,
	}

	n.mac.open(&n.chip.Config)

	n.receiver = receiver{
		Chip: on, pairs: &n.pairs, contexts: &n.contexts, translation: &n.translation,
		buffer: newReceiveBuffer(on), parse: clocked("parse"), transport: clocked("transport"), units: pool,
	}
	n.transport = transport{
		Chip: on, pairs: &n.pairs, receives: &n.receives, receiver: &n.receiver, dma: &n.dma, atomics: &n.atomics, completions: &n.completions,
		elements: &n.elements, scheduler: &n.scheduler, packetiser: &n.packetiser, mac: &n.mac,
		offload: &n.offload, async: &n.async,
	}
	n.receives = receives{Chip: on, regions: &n.regions, transport: &n.transport}
	n.atomics = newAtomics(on)
	n.atomics.pairs, n.atomics.regions, n.atomics.translation = &n.pairs, &n.regions, &n.translation
	n.atomics.landings, n.atomics.transport, n.atomics.packetiser, n.atomics.buffer = &n.landings, &n.transport, &n.packetiser, &n.receiver.buffer
	n.offload = offload{Chip: on, scheduler: &n.scheduler, pairs: &n.pairs, processors: newProcessors(on)}
	n.queues = queues{chip: on, pairs: &n.pairs, regions: &n.regions, landings: &n.landings}
	n.completions = completions{Chip: on, Stage: clocked("cqe"), queues: &n.queues, async: &n.async, buffer: &n.receiver.buffer, waiting: stage.NewInflight(n.chip.Config.Queues.Completions)}
	n.probes.watch(n)
}

// Config returns the configuration that the NIC was made with.
func (n *NIC) Config() Config { return n.chip.Config }

// Host returns the index of the host that the NIC sits in.
func (n *NIC) Host() int { return n.chip.Host }

// LineRate returns the rate of the NIC's port.
func (n *NIC) LineRate() units.Rate { return n.chip.Line }

// ReadClock returns the counter of completion timestamps at now.
func (n *NIC) ReadClock(now units.Time) uint64 { return n.chip.Config.Counter.Read(now) }

// PCIe returns the link to the host, for its counters.
func (n *NIC) PCIe() *PCIe { return n.chip.Link }

// Handle implements des.Handler.
func (n *NIC) Handle(ev des.Event) {
	now := ev.At
	switch ev.Kind {
	case chip.EvDoorbell:
		n.doorbell.arrived(now, chip.UnpackStores(ev.Arg))
	case chip.EvStore:
		if now == n.doorbell.stores.wakeAt {
			n.doorbell.stores.wakeAt = units.Never
			n.doorbell.sendWaiting(now)
		}
	case chip.EvSendTime:
		n.elements.timeCame(now, n.pairs.find(uint32(ev.Arg)))
	case chip.EvElements:
		n.elements.arrived(now, chip.UnpackElements(ev.Arg))
	// Of the events of each of these kinds only the one that is remembered
	// counts: an earlier one has taken the place of any other.
	case chip.EvSchedule:
		if now == n.scheduler.wakeAt {
			n.scheduler.wakeAt = units.Never
			n.mac.refill(now)
		}
	case chip.EvLimiter:
		if now == n.scheduler.limiterAt {
			n.scheduler.limiterAt = units.Never
			n.scheduler.choose(now)
		}
	case chip.EvLimit:
		n.scheduler.burstDue(now, n.pairs.find(uint32(ev.Arg)))
	case chip.EvWire:
		if now == n.mac.wakeAt {
			n.mac.wakeAt = units.Never
			n.mac.send(now)
		}
	case chip.EvReceive:
		n.transport.receive(now, fabric.Handle(ev.Arg))
	case chip.EvTimer:
		n.transport.expire(now, n.pairs.find(uint32(ev.Arg)))
	case chip.EvAtomic:
		n.atomics.finish(now, uint32(ev.Arg))
	case chip.EvUnit:
		n.scheduler.unitDone(now, n.pairs.find(uint32(ev.Arg)))
	case chip.EvLand:
		n.landings.Wake(now)
	case chip.EvArm:
		n.completions.armed(now, uint32(ev.Arg))
	case chip.EvModeration:
		n.completions.moderationTimeout(now, uint32(ev.Arg))
	case chip.EvInterrupt:
		n.completions.interrupted(now, uint32(ev.Arg))
	case chip.EvReceives:
		n.receives.arrived(now, chip.UnpackReceives(ev.Arg))
	case chip.EvRecordRequested:
		n.receives.recordRequested(now, chip.UnpackReceives(ev.Arg))
	case chip.EvRecordArrived:
		n.receives.recordArrived(now, chip.UnpackReceives(ev.Arg))
	case chip.EvSession:
		n.completions.sessionTimeout(now, uint32(ev.Arg))
	case chip.EvEngine:
		n.offload.finish(now, uint32(ev.Arg))
	case chip.EvBuffer:
		n.receiver.buffer.wake(now)
	case chip.EvCompletion:
		n.completions.becameVisible(now, chip.UnpackCompletion(ev.Arg))
	}
}

// OnAlarm calls f at the times of an alarm of the NIC's host, AlarmHost or AlarmThread
// (fabric.Network.SetAlarm).
func (n *NIC) OnAlarm(alarm uint32, f func(now units.Time)) { n.onAlarm[alarm-chip.AlarmHost] = f }

// enter notes what lane calls the NIC, and when. What one port does may reach the other.
func (n *NIC) enter(x *fabric.Lane, now units.Time) {
	n.chip.Enter(x, now)
	if n.other != nil {
		n.other.chip.Enter(x, now)
	}
}

// Wake implements fabric.Waker.
func (n *NIC) Wake(x *fabric.Lane, now units.Time, alarm uint32) {
	n.enter(x, now)
	switch alarm {
	case chip.AlarmEvents:
		var ev des.Event
		for n.chip.Take(now, &ev) {
			n.Handle(ev)
		}
	case chip.AlarmClose:
		n.close(now)
	default:
		n.onAlarm[alarm-chip.AlarmHost](now)
	}
}

// Now is the time at the NIC: of what happens to it, or the engine's, which in a divided
// network stands still while hosts are at work.
func (n *NIC) Now() units.Time { return n.chip.Now() }

// Lane is the lane of the network that the NIC's host runs on now, or did last.
func (n *NIC) Lane() *fabric.Lane { return n.chip.Lane }
