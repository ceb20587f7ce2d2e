package fabric

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/sluice-rdma/sluice/des"
	"github.com/sluice-rdma/sluice/internal/prefetch"
	"github.com/sluice-rdma/sluice/units"
)

// Endpoint is what sits at a host's port: a NIC.
type Endpoint interface {
	// Arrive is called when the last bit of a packet has arrived. The endpoint
	// owns h from then on, and frees it or sends it on.
	Arrive(now units.Time, h Handle)
	// Pause is called when the switch has changed which priorities the host may
	// send: those whose bit is set in paused it may not. What is on the wire is
	// not affected. Transmit does not enforce it.
	Pause(now units.Time, paused uint8)
}

// Network is a running network. Make one with New.
type Network struct {
	eng *des.Engine

	packets  []Packet
	links    []link   // by LinkID
	ports    []port   // likewise
	queues   []queue  // by LinkID, then priority
	holds    []hold   // what a link's far end holds of it, likewise; empty without PFC
	kinds    []kind   // see link.kind
	routes   []route  // by switch, then by leaf
	groups   []group  // see route
	members  []uint32 // links; see group
	hosts    []host
	switches []switchState

	prios uint32
	free  Handle
	live  int

	totals Totals
	stacks stackSlab
	cold   []coldLink // by LinkID
	ends   []Endpoint // by host
	topo   *Topology
	cfg    Config
	leaves []int32    // the switches that have hosts; an index of it is a leaf number
	slow   []slowPath // by switch
	query  uint64
}

// host is what Transmit and the last switch need to know of a host.
type host struct {
	up, down uint32 // links
	leaf     int32  // -1 if its link leads to another host
}

// switchState is the hot part of a switch.
type switchState struct {
	shared  int64  // bytes of shared buffer
	used    int64  // of these
	routes  uint32 // where its row starts
	salt    uint32
	leaf    int32 // its leaf number, or -1
	maxUsed int64
}

// Kinds of events. The argument is a link; for pauses, times 256, plus the mask.
const (
	arriveEvent uint32 = iota // the first packet on a link reaches its far end
	freeEvent                 // the wire of a port on which packets wait is free
	pauseEvent                // a pause frame for what feeds the link arrives there
	watchEvent                // a pause is as old as the watchdog allows; the argument is as for pauses
)

// dispatcher is Network without Handle in its exported methods. It handles the
// events of all hosts and switches; what belongs to which follows from the link.
type dispatcher Network

func (d *dispatcher) Handle(ev des.Event) {
	n := (*Network)(d)
	switch ev.Kind {
	case arriveEvent:
		n.arrive(ev.At, uint32(ev.Arg))
	case freeEvent:
		n.wireFree(ev.At, uint32(ev.Arg))
	case pauseEvent:
		n.pauseArrives(ev.At, uint32(ev.Arg>>8), uint8(ev.Arg))
	case watchEvent:
		n.watchdog(ev.At, uint32(ev.Arg>>8), uint8(ev.Arg))
	}
}

// Soon implements des.Early: what an event touches first is its link.
func (d *dispatcher) Soon(kind uint32, arg uint64) {
	n := (*Network)(d)
	switch kind {
	case arriveEvent:
		prefetch.Line(unsafe.Pointer(&n.links[arg]))
	case freeEvent:
		prefetch.Line(unsafe.Pointer(&n.links[arg]))
		prefetch.Line(unsafe.Pointer(&n.ports[arg]))
		prefetch.Line(unsafe.Pointer(&n.queues[uint32(arg)*n.prios]))
	}
}

// Next implements des.Early: then the packet, to which the link leads.
func (d *dispatcher) Next(kind uint32, arg uint64) {
	n := (*Network)(d)
	switch kind {
	case arriveEvent:
		prefetch.Line(unsafe.Pointer(&n.packets[n.links[arg].head]))
	case freeEvent:
		// Of several priorities it is mostly this one that is next.
		prio := uint32(bits.Len8(n.links[arg].active|1)) - 1
		prefetch.Line(unsafe.Pointer(&n.packets[n.queues[uint32(arg)*n.prios+prio].head]))
	}
}

// New builds the network of a topology, with every queue empty, on an engine.
// The seed decides the choice of paths, ECN marks and losses. The topology must
// not be changed afterwards.
func New(e *des.Engine, topo *Topology, cfg Config, seed uint64) (*Network, error) {
	if err := topo.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Network{
		eng:      e,
		topo:     topo,
		cfg:      cfg,
		prios:    uint32(cfg.Priorities),
		packets:  make([]Packet, 1, 1024), // 0 is no packet
		links:    make([]link, topo.Links()),
		ports:    make([]port, topo.Links()),
		cold:     make([]coldLink, topo.Links()),
		queues:   make([]queue, topo.Links()*cfg.Priorities),
		hosts:    make([]host, topo.Hosts()),
		ends:     make([]Endpoint, topo.Hosts()),
		switches: make([]switchState, topo.Switches()),
	}
	for _, name := range sortedKeys(cfg.Switches) {
		if v, ok := topo.byName[name]; !ok || !topo.nodes[v].isSwitch {
			return nil, fmt.Errorf("fabric: Switches configures %q, which is no switch of the topology: its switches are %s", name, topo.span(topo.nodeOfSwitch()))
		}
	}
	if err := n.buildLinks(seed); err != nil {
		return nil, err
	}
	if err := n.buildSwitches(seed); err != nil {
		return nil, err
	}
	n.buildRoutes(func(uint32) bool { return true })
	if err := n.buildFailures(seed); err != nil {
		return nil, err
	}
	n.slow = make([]slowPath, topo.Switches())
	return n, nil
}

// buildLinks registers a destination of events for each node, and sources and a
// kind for each link.
func (n *Network) buildLinks(seed uint64) error {
	ids := make([]des.NodeID, len(n.topo.nodes))
	for i := range ids {
		ids[i] = n.eng.AddHandler((*dispatcher)(n))
	}
	index := map[kindKey]uint16{}
	for i := range n.links {
		id := LinkID(i)
		from, to := n.topo.tail(id), n.topo.head(id)
		l, p := &n.links[i], &n.ports[i]
		p.fromNode, l.toNode = ids[from], ids[to]
		p.from, l.to = n.topo.nodes[from].index, n.topo.nodes[to].index
		key := kindKey{link: n.topo.Link(id)}
		if n.topo.nodes[from].isSwitch {
			key.from = n.switchConfig(from)
		} else {
			l.flags |= fromHost
			key.latency = n.cfg.HostSend
		}
		if n.topo.nodes[to].isSwitch {
			key.latency += n.switchConfig(to).Latency
		} else {
			l.flags |= toHost
			key.latency += n.cfg.HostReceive
		}
		k, ok := index[key]
		if !ok {
			if len(n.kinds) >= maxKinds {
				return errManyKinds()
			}
			k = uint16(len(n.kinds))
			index[key] = k
			n.kinds = append(n.kinds, newKind(&n.cfg, &key))
		}
		l.kind = k
		p.egress = n.eng.NewSource()
	}
	// Sources made later order their events later: at one instant a switch first
	// serves its ports and then takes arrivals.
	for i := range n.links {
		n.links[i].arrivals = n.eng.NewSource()
	}
	for i, v := range n.topo.hosts {
		up := n.topo.nodes[v].ports[0]
		n.hosts[i] = host{up: uint32(up), down: uint32(up.Reverse()), leaf: -1}
	}
	return n.buildFaults(seed)
}

// maxKinds is how many link.kind can tell apart.
const maxKinds = math.MaxUint16 + 1

func errManyKinds() error {
	return fmt.Errorf("fabric: there are more than %d kinds of port: let links and switches have fewer different parameters", maxKinds)
}

func (n *Network) buildFaults(seed uint64) error {
	for _, f := range n.cfg.Faults {
		first, last := LinkID(0), LinkID(len(n.links)-1)
		if f.Link != "*" {
			l, err := n.topo.FindLink(f.Link)
			if err != nil {
				return fmt.Errorf("in Faults: %w", err)
			}
			first, last = l, l
		}
		for l := first; l <= last; l++ {
			n.links[l].flags &^= faulty
			if n.cold[l].lossBelow = probability(f.Loss); f.Loss > 0 {
				n.links[l].flags |= faulty
				n.cold[l].loss = des.NewStream(seed, "loss/"+n.topo.LinkName(l))
			}
		}
	}
	return nil
}

// probability returns what 53 uniform bits stay below with probability p.
func probability(p float64) uint64 { return uint64(float64(p * (1 << 53))) }

func (n *Network) switchConfig(v Node) SwitchConfig {
	if s, ok := n.cfg.Switches[n.topo.nodes[v].name]; ok {
		return s
	}
	return n.cfg.Switch
}

func (n *Network) buildSwitches(seed uint64) error {
	var errs []error
	for i := range n.topo.nodes {
		v := &n.topo.nodes[i]
		if !v.isSwitch {
			continue
		}
		cfg := n.switchConfig(Node(i))
		sw := &n.switches[v.index]
		sw.shared = int64(cfg.Buffer)
		sw.salt = uint32(des.NewStream(seed, "ecmp/"+v.name).Uint64())
		sw.leaf = -1
		for _, out := range v.ports {
			k := &n.kinds[n.links[out].kind]
			if k.random {
				n.cold[out].ecn = des.NewStream(seed, "ecn/"+n.topo.LinkName(out))
			}
			if k.lossless != 0 {
				sw.shared -= n.buildHolds(&cfg, out.Reverse())
			}
			if n.links[out].flags&toHost != 0 && sw.leaf < 0 {
				sw.leaf = int32(len(n.leaves))
				n.leaves = append(n.leaves, v.index)
			}
		}
		if sw.shared < int64(n.cfg.MaxFrame) {
			errs = append(errs, fmt.Errorf("switch %s: the headroom of its %d ports takes %v of its buffer of %v: raise Buffer, or lower Headroom or the number of lossless priorities",
				v.name, len(v.ports), cfg.Buffer-units.Bytes(sw.shared), cfg.Buffer))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("fabric: %w", errors.Join(errs...))
	}
	for i := range n.hosts {
		if l := &n.links[n.hosts[i].up]; l.flags&toHost == 0 {
			n.hosts[i].leaf = n.switches[l.to].leaf
		}
	}
	return nil
}

// Topology returns the topology that the network was built from.
func (n *Network) Topology() *Topology { return n.topo }

// Attach puts an endpoint at a host's port. Packets for a host without one are
// counted as delivered and freed.
func (n *Network) Attach(host int, ep Endpoint) { n.ends[host] = ep }

// LineRate returns the rate of a host's link.
func (n *Network) LineRate(host int) units.Rate { return n.kinds[n.links[n.hosts[host].up].kind].rate }

// Transmit starts to send h from a host at now, which is the engine's Now, and
// returns when the wire is free for the next packet. The packet belongs to the
// network from then on.
//
// If the wire is still taken, by a packet or a pause frame of the host's own, the
// packet follows, whatever its priority. Transmit panics if the packet's fields can't be: a Size of 0 or
// less, a Dst that is no host, or a Priority that is not configured.
func (n *Network) Transmit(now units.Time, host int, h Handle) (free units.Time) {
	p := &n.packets[h]
	if p.Size <= 0 || uint32(p.Dst) >= uint32(len(n.hosts)) || uint32(p.Priority) >= n.prios || p.at == freed {
		panic(fmt.Sprintf("fabric: host %d transmits packet %d, freed or with Size %d, Dst %d of %d hosts, Priority %d of %d",
			host, h, p.Size, p.Dst, len(n.hosts), p.Priority, n.prios))
	}
	p.leaf = n.hosts[p.Dst].leaf
	up := n.hosts[host].up
	l := &n.links[up]
	n.totals.Sent++
	n.put(max(now, l.busyUntil), l, &n.kinds[l.kind], up, h, p)
	return l.busyUntil
}

// arrive takes the packet that was first on a link to its next port, or to the
// endpoint.
func (n *Network) arrive(now units.Time, in uint32) {
	l := &n.links[in]
	h := l.head
	p := &n.packets[h]
	l.head = p.next
	if l.head != 0 {
		// The gap spares a look at the next packet, which at this time is
		// rarely in a cache.
		at := now + units.Time(p.gap)
		if p.gap == farGap {
			at = n.packets[l.head].at
		}
		n.eng.Schedule(at, &l.arrivals, l.toNode, arriveEvent, uint64(in))
	}
	if l.flags&cut != 0 && n.severed(now, in, h) {
		return
	}
	n.totals.PacketHops++
	if l.flags&toHost != 0 {
		n.totals.Delivered++
		if ep := n.ends[l.to]; ep != nil {
			ep.Arrive(now, h)
		} else {
			n.Free(h)
		}
		return
	}
	sw := &n.switches[l.to]
	out := n.next(sw, p)
	p.ingress = in
	p.Hops++
	n.forward(now, sw, out, h, p)
}
