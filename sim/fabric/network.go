package fabric

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/hugepages"
	"github.com/sluice-rdma/sluice/internal/prefetch"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Network is a running network. Make one with New.
type Network struct {
	eng  *des.Engine
	slab *slab

	ports      []port        // see port
	inlets     []inlet       // by port
	queues     []queue       // by port, then priority
	holds      []hold        // by port, then priority: what it holds of the packets that entered by it; empty without PFC
	cold       []coldPort    // by port
	coldQueues []coldQueue   // by port, then priority
	kinds      []kind        // see port.kind
	reported   reportedRates // see record.kind
	nodes      []nodeState
	routes     []route // by switch, then by leaf
	ways       ways
	groups     []group  // see route
	members    []uint32 // ports; see group
	hosts      []host
	switches   []switchState

	prios   uint32
	failing bool // there are Failures
	// failures has their state, and onFailure is told of it.
	failures  *failing
	onFailure func(now units.Time, c LinkChange)
	staged    bool // some switch has a Stage

	// Where the numbers of destinations and sources of events start: of nodes, and
	// of what links send, and of arrivals.
	firstNode         des.NodeID
	departs, arrivals uint32

	lanes    []Lane
	division *Division  // nil while all is one
	circuits *circuits  // nil without
	ends     []Endpoint // by host
	alarmed  []alarmed  // by host
	settle   func()     // see OnSettle
	topo     *Topology
	cfg      Config
	portOf   []uint32   // by LinkID
	leaves   []int32    // the switches that have hosts; an index of it is a leaf number
	perPlane int        // how many of leaves a plane has
	slow     []slowPath // by switch
	query    uint64
}

// nodeState locates the state of a node.
type nodeState struct {
	first, count uint32 // its ports
	index        int32  // among the hosts, or among the switches
	isSwitch     bool
}

// host holds a host's properties for Transmit and the last switch.
type host struct {
	port, down uint32 // the host's, and that at the other end
	leaf       int32  // -1 if its link leads to another host
}

// switchState is the hot part of a switch, one cache line.
type switchState struct {
	shared  int64  // bytes of shared buffer
	used    int64  // of these
	routes  uint32 // where its row starts
	ports   uint32 // where its ports start
	salt    uint32
	leaf    int32 // its leaf number, or -1
	maxUsed int64
	// Of what lossless priorities have of used; what lossy ones have is in their queues.
	lossless moment
	_        [8]byte
}

// Kinds of events. The argument is a port; for pauses and the watchdog, times 256,
// plus the mask or the priority.
const (
	arriveEvent  uint32 = iota // the first packet on the link to a port arrives there
	freeEvent                  // the wire of a port at which packets wait is free
	pauseEvent                 // a pause frame arrives at a port
	watchEvent                 // a pause is as old as the watchdog allows
	circuitEvent               // the wire of a circuit is free
	uplinkEvent                // that of a tor's uplink is, in an RDCN
)

// Lane is one worker's store for taking packets through a network: free packets
// and room for queues, and counters. What it hands out belongs to the network: any
// lane may free it. A network that is not divided has one lane, which the methods
// of Network use.
type Lane struct {
	n         *Network
	index     int
	totals    Totals
	live      int
	packets   []Handle
	chunks    []uint32
	stack     telemetry.Stack // what INT returned last
	departure Departure       // what a Stage sees
	frame     Frame           // what Arrive is given

	// In a divided network:
	divided bool
	events  uint64
	news    []news
	agenda
	_ [64]byte // lanes of two workers share no cache line
}

// Index is the number of the lane among those of its network.
func (x *Lane) Index() int { return x.index }

func (x *Lane) newChunk() *chunk {
	if len(x.chunks) == 0 {
		x.chunks = x.n.slab.chunksFor(x.chunks)
	}
	k := len(x.chunks) - 1
	c := x.chunk(x.chunks[k])
	x.chunks = x.chunks[:k]
	return c
}

func (x *Lane) freeChunk(c *chunk) {
	x.chunks = append(x.chunks, c.id)
	if k := len(x.chunks); k > 4*batch && len(x.n.lanes) > 1 {
		x.n.slab.takeChunks(x.chunks[k-batch:])
		x.chunks = x.chunks[:k-batch]
	}
}

func (x *Lane) chunk(id uint32) *chunk {
	return (*chunk)(unsafe.Add(unsafe.Pointer(x.n.slab.chunks[id>>chunkShift]), uintptr(id&(blockChunks-1))*unsafe.Sizeof(chunk{})))
}

// dispatcher is Network without Handle in its exported methods. It handles the
// events of all hosts and switches; what belongs to which follows from the port.
type dispatcher Network

func (d *dispatcher) Handle(ev des.Event) {
	x := &d.lanes[0]
	switch ev.Kind {
	case arriveEvent:
		x.arrive(ev.At, uint32(ev.Arg))
	case freeEvent:
		x.wireFree(ev.At, &d.switches[d.nodes[d.inlets[ev.Arg].node].index], uint32(ev.Arg))
	case pauseEvent:
		x.pauseArrives(ev.At, uint32(ev.Arg>>8), uint8(ev.Arg))
	case watchEvent:
		x.watchdog(ev.At, uint32(ev.Arg>>8), uint8(ev.Arg))
	case circuitEvent:
		x.circuitFree(ev.At, uint32(ev.Arg))
	case uplinkEvent:
		x.uplinkFree(ev.At, uint32(ev.Arg))
	}
}

// fetcher is the dispatcher of a network whose ports are too many for the nearest caches:
// in a small one it costs more to fetch them ahead than it saves.
type fetcher Network

// manyPorts is from how many on. Their hot state, some 200 bytes each, is then a quarter of
// a second-level cache.
const manyPorts = 1 << 10

func (d *fetcher) Handle(ev des.Event) { (*dispatcher)(d).Handle(ev) }

// Soon implements des.Early: what an event touches first is its port.
func (d *fetcher) Soon(kind uint32, arg uint64) {
	n := (*Network)(d)
	switch kind {
	case arriveEvent:
		prefetch.Line(unsafe.Pointer(&n.inlets[arg]))
	case freeEvent:
		prefetch.Line(unsafe.Pointer(&n.ports[arg]))
		prefetch.Line(unsafe.Pointer(&n.queues[uint32(arg)*n.prios]))
	}
}

// Next implements des.Early: then the packet, to which the port leads.
func (d *fetcher) Next(kind uint32, arg uint64) {
	n := (*Network)(d)
	switch kind {
	case arriveEvent:
		if in := &n.inlets[arg]; in.n < chunkEntries {
			prefetch.Line(unsafe.Pointer(in.head.at(in.n)))
		}
	case freeEvent:
		// Of several priorities it is mostly this one that is next.
		prio := uint32(bits.Len8(n.ports[arg].active|1)) - 1
		if q := &n.queues[uint32(arg)*n.prios+prio]; q.count > 0 {
			prefetch.Line(unsafe.Pointer(q.first()))
		}
	}
}

// post schedules an event of an undivided network. A source has one event at a time
// for a destination, except those of the watchdog.
func (n *Network) post(at units.Time, src uint32, node int32, kind uint32, arg uint64) {
	seq := uint32(0)
	if kind == watchEvent {
		seq = 1 + uint32(arg&0xff)
	}
	n.eng.Post(at, src, seq, n.firstNode+des.NodeID(node), kind, arg)
}

// New builds the network of a topology, with every queue empty, on an engine.
// The seed decides the choice of paths, ECN marks and losses. The topology must
// not be changed afterwards.
func New(e *des.Engine, topo *Topology, cfg Config, seed uint64) (*Network, error) {
	n, err := newSwitches(e, topo, cfg, seed, true)
	if err != nil {
		return nil, err
	}
	n.buildRoutes(func(uint32) bool { return true })
	if err := n.buildFailures(seed); err != nil {
		return nil, err
	}
	n.slow = make([]slowPath, topo.Switches())
	return n, nil
}

// Check reports what is wrong with a configuration for a topology, as New does, but
// builds no routes. The error is a *BufferError, or wraps one, if a switch has not the
// memory for the headroom of its ports.
func Check(topo *Topology, cfg Config) error {
	_, err := newSwitches(des.New(), topo, cfg, 0, false)
	return err
}

// newSwitches returns a network that has links and switches and as yet no routes. One that
// is not to run has no queues, nor what is rarely touched of ports: most of its memory.
func newSwitches(e *des.Engine, topo *Topology, cfg Config, seed uint64, run bool) (*Network, error) {
	if err := topo.Validate(); err != nil {
		return nil, fmt.Errorf("fabric: topology: %w", err)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if topo.Hosts() > 1<<hostBits {
		return nil, fmt.Errorf("fabric: there are %d hosts, and 2^%d at most", topo.Hosts(), hostBits)
	}
	n := &Network{
		eng:      e,
		slab:     &slab{},
		topo:     topo,
		cfg:      cfg,
		prios:    uint32(cfg.Priorities),
		ports:    hugepages.Slice[port](topo.Links()),
		inlets:   hugepages.Slice[inlet](topo.Links()),
		portOf:   make([]uint32, topo.Links()),
		nodes:    make([]nodeState, len(topo.nodes)),
		hosts:    make([]host, topo.Hosts()),
		ends:     make([]Endpoint, topo.Hosts()),
		alarmed:  make([]alarmed, topo.Hosts()),
		switches: make([]switchState, topo.Switches()),
		lanes:    make([]Lane, 1),
		failing:  len(cfg.Failures) > 0,
	}
	n.lanes[0].n = n
	if run {
		n.cold = hugepages.Slice[coldPort](topo.Links())
		n.coldQueues = hugepages.Slice[coldQueue](topo.Links() * cfg.Priorities)
		n.queues = hugepages.Slice[queue](topo.Links() * cfg.Priorities)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Switches)) {
		if v, ok := topo.byName[name]; !ok || !topo.nodes[v].isSwitch {
			return nil, fmt.Errorf("fabric: Switches configures %q, which is no switch of the topology: its switches are %s", name, topo.span(topo.nodeOfSwitch()))
		}
	}
	if err := n.buildPorts(seed); err != nil {
		return nil, err
	}
	if err := n.buildSwitches(seed); err != nil {
		return nil, err
	}
	if err := n.newCircuits(); err != nil {
		return nil, err
	}
	return n, nil
}

// BufferError says that a switch has not the memory for the headroom of its ports.
type BufferError struct {
	Switch           string
	Ports            int
	Headroom, Buffer units.Bytes
}

func (e *BufferError) Error() string {
	return fmt.Sprintf("switch %s: the headroom of its %d ports takes %v of its buffer of %v: raise Buffer, or lower Headroom or the number of lossless priorities",
		e.Switch, e.Ports, e.Headroom, e.Buffer)
}

// buildPorts registers a destination of events for each node, and two sources for
// each link, and finds the place and the kind of each port.
func (n *Network) buildPorts(seed uint64) error {
	var ports uint32
	handler := des.Handler((*dispatcher)(n))
	if len(n.ports) >= manyPorts {
		handler = (*fetcher)(n)
	}
	for i := range n.topo.nodes {
		v := &n.topo.nodes[i]
		id := n.eng.AddHandler(handler)
		if i == 0 {
			n.firstNode = id
		}
		n.nodes[i] = nodeState{first: ports, count: uint32(len(v.ports)), index: v.index, isSwitch: v.isSwitch}
		if len(v.ports) > math.MaxUint16 {
			return fmt.Errorf("fabric: %s has %d links: connect it by %d at most", v.name, len(v.ports), math.MaxUint16)
		}
		for _, out := range v.ports {
			n.portOf[out] = ports
			ports++
		}
	}
	// Sources made later order their events later: at one instant a switch first
	// serves its ports and then takes arrivals.
	n.departs = n.eng.NewSources(len(n.ports))
	n.arrivals = n.eng.NewSources(len(n.ports))
	index := map[kindKey]uint16{}
	// What a key is made of: most links are like the one before, of one direction or the other.
	type parts struct {
		link               Link
		fromSwitch, toHost bool
	}
	var last [2]struct {
		parts
		kind  uint16
		known bool
	}
	for i := range n.ports {
		out := LinkID(i)
		at := n.portOf[out]
		from, to := n.topo.tail(out), n.topo.head(out)
		n.ports[at].peer = n.portOf[out.Reverse()]
		n.inlets[at].node, n.inlets[at].link = int32(from), out.Reverse()
		n.ports[at].wire = outlet{node: int32(to), n: chunkEntries}
		like := &last[i&1]
		these := parts{n.topo.Link(out), n.topo.nodes[from].isSwitch, !n.topo.nodes[to].isSwitch}
		if like.known && like.parts == these {
			n.ports[at].kind = like.kind
			continue
		}
		key := kindKey{link: these.link}
		if n.topo.nodes[from].isSwitch {
			key.from = n.switchConfig(from)
		} else {
			key.latency = n.cfg.HostSend
		}
		if n.topo.nodes[to].isSwitch {
			key.latency += n.switchConfig(to).Latency
		} else {
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
			n.staged = n.staged || key.from.Stage != nil
		}
		n.ports[at].kind = k
		like.parts, like.kind, like.known = these, k, len(n.cfg.Switches) == 0
	}
	for i, v := range n.topo.hosts {
		at := n.nodes[v].first
		n.hosts[i] = host{port: at, down: n.ports[at].peer, leaf: -1}
	}
	return n.buildFaults(seed)
}

// toHost reports whether what a port sends arrives at a host.
func (n *Network) toHost(at uint32) bool { return !n.nodes[n.inlets[n.ports[at].peer].node].isSwitch }

// maxKinds is the number of kinds port.kind can distinguish, and record.kind besides the
// rates that stages report.
const maxKinds = reportedBase

func errManyKinds() error {
	return fmt.Errorf("fabric: there are more than %d kinds of port: let links and switches have fewer different parameters", maxKinds)
}

func (n *Network) buildFaults(seed uint64) error {
	for _, f := range n.cfg.Faults {
		first, last := LinkID(0), LinkID(len(n.ports)-1)
		if f.Link != "*" {
			l, err := n.topo.FindLink(f.Link)
			if err != nil {
				return fmt.Errorf("in Faults: %w", err)
			}
			first, last = l, l
		}
		if n.cold == nil {
			continue
		}
		for l := first; l <= last; l++ {
			at := n.portOf[l]
			n.ports[at].flags &^= faulty
			if n.cold[at].lossBelow = probability(f.Loss); f.Loss > 0 {
				n.ports[at].flags |= faulty
				n.cold[at].loss = des.NewStream(seed, "loss/"+n.topo.LinkName(l))
			}
		}
	}
	return nil
}

// probability returns the threshold below which 53 uniform bits stay with probability p.
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
		sw.ports = n.nodes[i].first
		for j, out := range v.ports {
			at := sw.ports + uint32(j)
			k := &n.kinds[n.ports[at].kind]
			if k.random && n.cold != nil {
				n.cold[at].ecn = des.NewStream(seed, "ecn/"+n.topo.LinkName(out))
			}
			if k.lossless != 0 {
				sw.shared -= n.buildHolds(&cfg, at)
			}
			if n.toHost(at) && sw.leaf < 0 {
				sw.leaf = int32(len(n.leaves))
				n.leaves = append(n.leaves, v.index)
			}
		}
		if sw.shared < int64(n.cfg.MaxFrame) {
			errs = append(errs, &BufferError{Switch: v.name, Ports: len(v.ports), Headroom: cfg.Buffer - units.Bytes(sw.shared), Buffer: cfg.Buffer})
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("fabric: %w", errors.Join(errs...))
	}
	n.perPlane = len(n.leaves) / n.topo.Planes()
	if len(n.leaves) > math.MaxUint16 {
		return fmt.Errorf("fabric: %d switches have hosts: let %d at most", len(n.leaves), math.MaxUint16)
	}
	for i := range n.hosts {
		if v := &n.nodes[n.inlets[n.hosts[i].down].node]; v.isSwitch {
			n.hosts[i].leaf = n.switches[v.index].leaf
		}
	}
	return nil
}

// Topology returns the topology that the network was built from.
func (n *Network) Topology() *Topology { return n.topo }

// TelemetryBytes returns what telemetry adds to a packet that passed that number of switches.
func (n *Network) TelemetryBytes(k telemetry.Kind, switches int) units.Bytes {
	return k.WireBytes(n.cfg.INT, switches)
}

// Priorities returns Config.Priorities.
func (n *Network) Priorities() int { return int(n.prios) }

// LineRate returns the rate of a host's link.
func (n *Network) LineRate(host int) units.Rate {
	return n.kinds[n.ports[n.hosts[host].port].kind].rate
}

// Transmit starts to send h from a host at now, which is the engine's Now, and
// returns when the wire is free for the next packet. The packet belongs to the
// network from then on.
//
// If the wire is still taken, by a packet or a pause frame of the host's own, the
// packet follows, whatever its priority. Transmit does not keep f. It panics if its fields can't be: a Size of 0 or
// less or beyond 64 KiB, a Dst that is no host or of another plane, or a Priority that is not configured.
func (n *Network) Transmit(now units.Time, host int, h Handle, f *Frame) (free units.Time) {
	return n.lanes[0].Transmit(now, host, h, f)
}

// Transmit sends a packet, as Network.Transmit does.
func (x *Lane) Transmit(now units.Time, host int, h Handle, f *Frame) (free units.Time) {
	n := x.n
	if f.Size <= 0 || f.Size > maxSize || uint32(f.Dst) >= uint32(len(n.hosts)) || uint32(f.Priority) >= n.prios || n.packet(h).Src < 0 || n.topo.planes > 1 && !n.Joined(host, int(f.Dst)) {
		panic(fmt.Sprintf("fabric: host %d transmits packet %d, freed, to another plane or with Size %d, Dst %d of %d hosts, Priority %d of %d",
			host, h, f.Size, f.Dst, len(n.hosts), f.Priority, n.prios))
	}
	if f.Telemetry == telemetry.MaxDelay || n.staged {
		n.slab.asideOf(h).maxDelay = f.MaxDelay
	}
	at := n.hosts[host].port
	l := &n.ports[at]
	x.totals.Sent++
	e := newEntry(h, f)
	x.put(max(now, l.busyUntil), at, l, &n.kinds[l.kind], &e)
	return l.busyUntil
}

// Joined reports whether two hosts are of one plane: others have no path between them.
func (n *Network) Joined(a, b int) bool { return n.topo.Plane(a) == n.topo.Plane(b) }

// arrive takes the packet that is first on the link to a port to its next port, or
// to the endpoint.
func (x *Lane) arrive(now units.Time, at uint32) {
	n := x.n
	in := &n.inlets[at]
	e := *in.first(x)
	in.take()
	if in.taken != in.known {
		n.post(in.first(x).at(now), n.arrivals+uint32(in.link), in.node, arriveEvent, uint64(at))
	}
	if e.in() == severed {
		x.lose(at, e)
		return
	}
	v := &n.nodes[in.node]
	if !v.isSwitch {
		x.deliver(now, v.index, e)
		return
	}
	x.pass(now, &n.switches[v.index], at, &e)
}

// deliver takes a packet that has arrived at a host to the endpoint.
func (x *Lane) deliver(now units.Time, host int32, e entry) {
	x.totals.PacketHops++
	x.totals.Delivered++
	h := e.handle()
	if ep := x.n.ends[host]; ep != nil {
		x.frame = e.frame()
		if x.frame.Telemetry == telemetry.MaxDelay || x.n.staged {
			x.frame.MaxDelay = x.n.slab.asideOf(h).maxDelay
		}
		ep.Arrive(x, now, h, &x.frame)
	} else {
		x.Free(h)
	}
}
