package fabric

import (
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// rig is a network with a nic at each host that sends what it is given, as early
// as the wire and pauses allow, and notes what arrives.
type rig struct {
	e    *des.Engine
	n    *Network
	topo *Topology
	nics []*nic
	sent int
}

type nic struct {
	r      *rig
	host   int
	id     des.NodeID
	src    des.Source
	out    [MaxPriorities][]send // in order of their times
	paused uint8
	pauses []arrival // At and Priority, which holds the mask
	free   units.Time
	wake   units.Time // of the event to come, or Never
	got    []arrival
}

type send struct {
	at units.Time
	p  whole
}

// whole holds the fields that a test sets of a packet and its frame.
type whole struct {
	Size, Src, Dst int32
	FlowHash       uint32
	User           uint64
	MaxDelay       units.Time
	Priority, Hops uint8
	Flags          Flags
	Telemetry      telemetry.Kind
}

func (p *whole) parts() (Packet, Frame) {
	return Packet{Src: p.Src, User: p.User}, Frame{
		Size: p.Size, Dst: p.Dst, FlowHash: p.FlowHash, MaxDelay: p.MaxDelay, Priority: p.Priority, Hops: p.Hops, Flags: p.Flags, Telemetry: p.Telemetry,
	}
}

func wholeOf(p *Packet, f *Frame) whole {
	return whole{f.Size, p.Src, f.Dst, f.FlowHash, p.User, f.MaxDelay, f.Priority, f.Hops, f.Flags, f.Telemetry}
}

// arrival is a packet as it arrived.
type arrival struct {
	At units.Time
	whole
	Path []telemetry.Hop
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func newRig(t fataler, topo *Topology, cfg Config, seed uint64) *rig {
	t.Helper()
	r := &rig{e: des.New(), topo: topo}
	var err error
	if r.n, err = New(r.e, topo, cfg, seed); err != nil {
		t.Fatal(err)
	}
	for h := range topo.Hosts() {
		c := &nic{r: r, host: h, src: r.e.NewSource(), wake: units.Never}
		c.id = r.e.AddHandler(c)
		r.n.Attach(h, c)
		r.nics = append(r.nics, c)
	}
	return r
}

// send queues a packet at p.Src, to go at a time or later. Packets of one source
// and priority go in the order of these calls.
func (r *rig) send(at units.Time, p whole) {
	c := r.nics[p.Src]
	p.User = uint64(r.sent)
	r.sent++
	c.out[p.Priority] = append(c.out[p.Priority], send{at, p})
	c.kick(max(at, r.e.Now()))
}

func (r *rig) run() { r.e.RunUntil(units.Never) }

// kick has the nic look for something to send at a time, or when the wire is free.
func (c *nic) kick(at units.Time) {
	if at = max(at, c.free); at < c.wake {
		c.wake = at
		c.r.e.Schedule(at, &c.src, c.id, 0, 0)
	}
}

func (c *nic) Handle(ev des.Event) {
	if ev.At != c.wake {
		return // an earlier event took its place
	}
	c.wake = units.Never
	for i := MaxPriorities - 1; i >= 0; i-- {
		if q := c.out[i]; len(q) > 0 && q[0].at <= ev.At && c.paused&(1<<i) == 0 {
			c.out[i] = q[1:]
			h := c.r.n.Alloc()
			p, f := q[0].p.parts()
			*c.r.n.Packet(h) = p
			c.free = c.r.n.Transmit(ev.At, c.host, h, &f)
			break
		}
	}
	for i, q := range c.out {
		if len(q) > 0 && c.paused&(1<<i) == 0 {
			c.kick(max(q[0].at, ev.At))
		}
	}
}

func (c *nic) Arrive(_ *Lane, now units.Time, h Handle, f *Frame) {
	a := arrival{At: now, whole: wholeOf(c.r.n.Packet(h), f)}
	if s := c.r.n.INT(h, f); s != nil {
		a.Path = append(a.Path, s.Path()...)
	}
	c.got = append(c.got, a)
	c.r.n.Free(h)
}

func (c *nic) Pause(_ *Lane, now units.Time, paused uint8) {
	c.paused = paused
	c.pauses = append(c.pauses, arrival{At: now, whole: whole{Priority: paused}})
	c.kick(now)
}

// lone sends one packet and returns it as it arrived.
func (r *rig) lone(t fataler, p whole) arrival {
	t.Helper()
	start := r.e.Now()
	before := len(r.nics[p.Dst].got)
	r.send(start, p)
	r.run()
	got := r.nics[p.Dst].got[before:]
	if len(got) != 1 {
		t.Fatal("a lone packet did not arrive")
	}
	a := got[0]
	a.At -= start
	return a
}

// link returns the id of a link by name.
func (r *rig) link(t fataler, name string) LinkID {
	t.Helper()
	l, err := r.topo.FindLink(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// drained fails unless the network is empty and its books are in balance.
func (r *rig) drained(t *rapid.T) {
	t.Helper()
	tot := r.n.Totals()
	if tot.Sent != tot.Delivered+tot.Dropped+tot.Lost || r.n.Live() != 0 {
		t.Fatalf("%+v, and %d packets live in an idle network", tot, r.n.Live())
	}
	var tx, lost, drops uint64
	for l := range LinkID(r.topo.Links()) {
		p := r.n.Port(l)
		s := p.Stats()
		tx, lost, drops = tx+s.TxPackets, lost+s.Lost, drops+s.Drops
		if p.Queue() != 0 || p.Paused() != 0 || r.n.ports[p.at].active != 0 {
			t.Fatalf("an idle network holds %v at %s, pauses %b", p.Queue(), p.Name(), p.Paused())
		}
	}
	if tot.PacketHops != tx-lost || tot.Lost != lost || tot.Dropped != drops {
		t.Fatalf("%+v, but ports say %d sent, %d lost, %d dropped", tot, tx, lost, drops)
	}
	for _, name := range r.topo.SwitchNames() {
		if b, _ := r.n.Buffer(name); b.Used != 0 || b.MaxUsed > b.Shared {
			t.Fatalf("buffer of %s: %+v", name, b)
		}
	}
	if packets, _ := r.n.InFlight(); packets != 0 {
		t.Fatalf("%d packets in an idle network", packets)
	}
	for i, q := range r.n.queues {
		if q.count != 0 || q.bytes != 0 || q.deficit != 0 || q.head != nil {
			t.Fatalf("queue %d of an idle network: %+v", i, q)
		}
	}
	for _, h := range r.n.holds {
		if h.shared != 0 || h.over != 0 || h.paused {
			t.Fatalf("an ingress port holds %+v", h)
		}
	}
}

// Rates at which a byte lasts a whole number of picoseconds, so that closed forms
// are exact.
var roundRates = []units.Rate{10 * units.Gbps, 25 * units.Gbps, 40 * units.Gbps, 100 * units.Gbps, 400 * units.Gbps}

// drawTopology returns a connected graph of up to six switches and ten hosts: a
// tree, with extra links between switches unless it has to stay one.
func drawTopology(t *rapid.T, tree bool) *Topology {
	topo := &Topology{}
	link := func() Link {
		return Link{
			Rate:    rapid.SampledFrom(roundRates).Draw(t, "rate"),
			Delay:   units.Time(rapid.IntRange(0, 2000).Draw(t, "delay")) * units.Nanosecond,
			Framing: Framing(rapid.IntRange(0, 1).Draw(t, "framing")),
		}
	}
	var switches []Node
	for i := range rapid.IntRange(1, 6).Draw(t, "switches") {
		v := topo.AddSwitch("s" + string(rune('0'+i)))
		if i > 0 {
			topo.Connect(v, rapid.SampledFrom(switches).Draw(t, "peer"), link())
		}
		switches = append(switches, v)
	}
	if !tree && len(switches) > 1 {
		for range rapid.IntRange(0, 6).Draw(t, "extra") {
			two := rapid.Permutation(switches).Draw(t, "ends")
			topo.Connect(two[0], two[1], link())
		}
	}
	for i := range rapid.IntRange(2, 10).Draw(t, "hosts") {
		topo.Connect(topo.AddHost("h"+string(rune('0'+i))), rapid.SampledFrom(switches).Draw(t, "tor"), link())
	}
	return topo
}

// drawTraffic queues packets between random hosts.
func drawTraffic(t *rapid.T, r *rig, packets int) {
	hosts := r.topo.Hosts()
	for range packets {
		src := rapid.IntRange(0, hosts-1).Draw(t, "src")
		dst := (src + rapid.IntRange(1, hosts-1).Draw(t, "to")) % hosts
		r.send(units.Time(rapid.IntRange(0, 5000).Draw(t, "at"))*units.Nanosecond, whole{
			Size:      int32(rapid.IntRange(64, 4096).Draw(t, "size")),
			Src:       int32(src),
			Dst:       int32(dst),
			FlowHash:  uint32(src*64 + dst),
			Priority:  uint8(rapid.IntRange(0, r.n.cfg.Priorities-1).Draw(t, "priority")),
			Flags:     ECT,
			Telemetry: telemetry.Kind(rapid.IntRange(0, 2).Draw(t, "telemetry")),
		})
	}
	// The rig sends in the order of its queues: sort each by time.
	for _, c := range r.nics {
		for i := range c.out {
			q := c.out[i]
			for j := 1; j < len(q); j++ {
				for k := j; k > 0 && q[k].at < q[k-1].at; k-- {
					q[k], q[k-1] = q[k-1], q[k]
				}
			}
			for j := range q {
				q[j].p.User = uint64(j) // in the order in which it sends
			}
		}
	}
}

// inOrder fails if packets of one flow and priority overtook each other.
func (r *rig) inOrder(t *rapid.T) {
	t.Helper()
	type flow struct {
		src, dst int32
		priority uint8
	}
	for _, c := range r.nics {
		last := map[flow]uint64{}
		for _, a := range c.got {
			f := flow{a.Src, a.Dst, a.Priority}
			if before, ok := last[f]; ok && a.User <= before {
				t.Fatalf("packets of %+v arrived out of order", f)
			}
			last[f] = a.User
		}
	}
}

// sendPause tells the switch at a host's port which priorities it must not send
// to the host from now on: those whose bit is set in paused. A frame does that:
// it waits for the packet on the host's uplink, and takes its time.
func (n *Network) sendPause(now units.Time, host int, paused uint8) {
	n.lanes[0].assert(now, n.hosts[host].port, paused)
}
