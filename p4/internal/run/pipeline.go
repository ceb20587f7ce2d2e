package run

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/units"
)

// An Instance says where a packet comes from. The numbers are v1model's.
type Instance uint8

// Instances of packets.
const (
	Normal       Instance = 0
	IngressClone Instance = 1
	EgressClone  Instance = 2
	Coalesced    Instance = 3
	Recirculated Instance = 4
	Replicated   Instance = 5 // a multicast copy
	Resubmitted  Instance = 6
)

// A Depth is a queue's length.
type Depth struct {
	Packets int
	Bytes   units.Bytes
}

// An Intrinsic is the switch's knowledge of a packet besides its bytes. The pipeline turns
// it into the metadata of the program's architecture, in that one's units.
type Intrinsic struct {
	IngressPort, EgressPort uint16
	Instance                Instance
	Replica                 uint16 // replication id of a multicast copy
	Queue                   uint8  // of the egress port
	Class                   uint8  // of service, as the program chose it
	// Routed: EgressPort is given; Process sends unicast packets there, whatever ingress
	// chose. What ingress drops is dropped all the same.
	Routed bool
	// Length is the packet's on the wire, without preamble and FCS; 0 is that of the frame.
	Length units.Bytes
	// IngressTime is the arrival; the others are when it was put into its queue and taken out.
	IngressTime, EnqueueTime, DequeueTime units.Time
	// EnqueueDepth is the queue as the packet found it, DequeueDepth as it left it.
	EnqueueDepth, DequeueDepth Depth
}

// A Packet is one packet between ingress and egress: where it goes, its bytes, and the
// headers and metadata of the program. It belongs to the caller from the time it stands in
// Verdict.Copies until it is given to Egress or Release, after which it must not be used.
type Packet struct {
	Intrinsic
	buf   []byte   // as it went into ingress
	pos   int      // bits that the parser consumed
	state []uint64 // headers and metadata
	err   uint64
	path  uint8 // of TNA: what it came by
	limit int   // bytes that leave, 0: all
	turns int   // copies and recirculations before it
}

// lengthOf is the packet's length on the wire with another frame in place of its own.
func (pk *Packet) lengthOf(frame []byte) units.Bytes {
	return pk.Length + units.Bytes(len(frame)-len(pk.buf))
}

// Len is the number of bytes that the packet takes in a queue: those with which it went into ingress.
func (pk *Packet) Len() int { return len(pk.buf) }

// A Frame is a packet that leaves the switch.
type Frame struct {
	Port   uint16
	Data   []byte // valid until the Verdict's next use
	Packet Intrinsic
}

// A Verdict is the fate of a packet. It may be used again, and then costs no memory.
type Verdict struct {
	// Copies are to be queued at their EgressPort, in this order: none or one of a
	// unicast packet, all of a multicast group, clones, and what comes of a recirculated packet.
	Copies []*Packet
	// Sent are the frames that leave.
	Sent []Frame

	Drops, Clones, Resubmits, Recirculations, Digests int
	// Asserts is the number of assert() and assume() calls that were false.
	Asserts int
	// ParserError is the error of the last parser that ran, 0 for NoError: see Program.ErrorName.
	ParserError int

	buf []byte
}

// reset empties the verdict.
func (v *Verdict) reset() {
	*v = Verdict{Copies: v.Copies[:0], Sent: v.Sent[:0], buf: v.buf[:0]}
}

// send appends a frame that lies in b.
func (v *Verdict) send(port uint16, b []byte, in *Intrinsic) {
	n := len(v.buf)
	v.buf = append(v.buf, b...)
	v.Sent = append(v.Sent, Frame{Port: port, Data: v.buf[n:len(v.buf):len(v.buf)], Packet: *in})
}

// A Replica is one copy of a multicast packet.
type Replica struct{ Port, ID uint16 }

// A Mirror is the destination of a clone session's copies.
type Mirror struct {
	Port uint16
	// Group, if not 0, is the multicast group that gets the copies instead of Port.
	Group uint16
	// MaxLength truncates the copy; 0 does not.
	MaxLength int
}

// Bounds on the work that one packet may cause, so that every program ends.
const (
	maxResubmits = 64
	maxCopies    = 64
)

// architecture holds the differences between v1model and TNA.
type architecture interface {
	ingress(pl *Pipeline, pk *Packet, v *Verdict)
	egress(pl *Pipeline, pk *Packet, v *Verdict)
}

// A Pipeline is the state of one switch that runs a program: entries, registers,
// counters, meters, multicast groups and clone sessions. Its methods must not run
// concurrently with each other; different pipelines are independent.
type Pipeline struct {
	prog    *Program
	m       machine
	groups  map[uint16][]Replica
	mirrors map[uint16]Mirror
	free    []*Packet
	saved   []uint64 // state of the packet before resubmission or recirculation
}

// New makes a switch that runs the program, with the entries that the program has itself.
func (p *Program) New() *Pipeline {
	pl := &Pipeline{prog: p, groups: map[uint16][]Replica{}, mirrors: map[uint16]Mirror{}}
	pl.m.w = make([]uint64, p.words)
	pl.m.codes = &p.codes
	for _, d := range p.tables {
		pl.m.tables = append(pl.m.tables, newTableState(d))
	}
	for _, o := range p.objects {
		pl.m.objects = append(pl.m.objects, o.make())
	}
	pl.m.hbuf = make([]byte, 0, 2048)
	pl.m.out = make([]byte, 0, 2048)
	pl.Seed(1)
	return pl
}

// Program returns the pipeline's program.
func (pl *Pipeline) Program() *Program { return pl.prog }

// Seed begins the stream of random numbers anew.
func (pl *Pipeline) Seed(s uint64) { pl.m.rng.seed(s) }

// SetLog has f called with log_msg's messages; nil, the default, drops them.
func (pl *Pipeline) SetLog(f func(string)) { pl.m.log = f }

// Reset empties all state but the program's own entries: tables, registers, counters,
// meters, groups and sessions.
func (pl *Pipeline) Reset() {
	for _, t := range pl.m.tables {
		t.reset()
	}
	for i, o := range pl.prog.objects {
		pl.m.objects[i] = o.make()
	}
	clear(pl.groups)
	clear(pl.mirrors)
}

// SetMulticast sets the copies of a group; none deletes it.
func (pl *Pipeline) SetMulticast(group uint16, copies []Replica) {
	if len(copies) == 0 {
		delete(pl.groups, group)
		return
	}
	pl.groups[group] = slices.Clone(copies)
}

// SetMirror sets a clone session (mirror session).
func (pl *Pipeline) SetMirror(session uint16, m Mirror) { pl.mirrors[session] = m }

// packet takes one from the pool.
func (pl *Pipeline) packet() *Packet {
	if n := len(pl.free); n > 0 {
		pk := pl.free[n-1]
		pl.free = pl.free[:n-1]
		return pk
	}
	return &Packet{state: make([]uint64, pl.prog.state)}
}

// copyOf is a packet like pk.
func (pl *Pipeline) copyOf(pk *Packet) *Packet {
	c := pl.packet()
	buf, state := c.buf, c.state
	*c = *pk
	c.buf = append(buf[:0], pk.buf...)
	c.state = state
	copy(c.state, pk.state)
	return c
}

// Release gives back a packet that will not go through egress.
func (pl *Pipeline) Release(pk *Packet) {
	if pk == nil {
		return
	}
	*pk = Packet{buf: pk.buf[:0], state: pk.state}
	pl.free = append(pl.free, pk)
}

// Ingress runs a frame (Ethernet, without FCS) through the parser and ingress. The frame is copied.
// What is to be queued stands in v.Copies. Resubmission happens at once, up to 64 times.
func (pl *Pipeline) Ingress(frame []byte, in *Intrinsic, v *Verdict) {
	v.reset()
	pl.in(frame, in, v)
}

func (pl *Pipeline) in(frame []byte, in *Intrinsic, v *Verdict) {
	pk := pl.packet()
	pk.buf = append(pk.buf[:0], frame...)
	pk.Intrinsic = *in
	if pk.Length == 0 {
		pk.Length = units.Bytes(len(frame))
	}
	pl.prog.impl.ingress(pl, pk, v)
}

// Egress runs a packet that has left its queue through egress and the deparser, and takes it back.
// A frame that leaves stands in v.Sent; a recirculated packet goes through ingress at once, and
// its copies, as egress clones, are in v.Copies.
func (pl *Pipeline) Egress(pk *Packet, v *Verdict) {
	v.reset()
	pl.prog.impl.egress(pl, pk, v)
}

// Process runs ingress and egress, and egress for every further copy (at most 64), with the times and
// depths that in gives for the queue.
func (pl *Pipeline) Process(frame []byte, in *Intrinsic, v *Verdict) {
	v.reset()
	pl.in(frame, in, v)
	for n := 0; len(v.Copies) > 0; n++ {
		pk := v.Copies[0]
		copy(v.Copies, v.Copies[1:])
		v.Copies = v.Copies[:len(v.Copies)-1]
		if n >= maxCopies {
			v.Drops++
			pl.Release(pk)
			continue
		}
		if in.Routed && (pk.Instance == Normal || pk.Instance == Resubmitted) {
			pk.EgressPort = in.EgressPort
		}
		pl.prog.impl.egress(pl, pk, v)
	}
}

// replicate appends a copy of pk for each of a group's.
func (pl *Pipeline) replicate(pk *Packet, group uint16, v *Verdict) int {
	rs := pl.groups[group]
	for _, r := range rs {
		c := pl.copyOf(pk)
		c.EgressPort, c.Replica = r.Port, r.ID
		c.Instance = Replicated
		v.Copies = append(v.Copies, c)
	}
	return len(rs)
}

// begin readies the machine for a part of the program.
func (m *machine) begin(pk *Packet, now units.Time) {
	m.pkt, m.pos, m.end = pk.buf, 0, 8*len(pk.buf)
	m.err, m.failed, m.exit = 0, false, false
	m.budget = turns
	m.now = now
	m.length = int(pk.Length)
	m.out, m.outPos = m.out[:0], 0
	m.cur = nil
	m.intent = intent{clones: m.clones[:0], truncate: -1}
}

// bytes is the packet's length as counters and meters have it, less a number of bytes but not below 0.
func (m *machine) bytes(less uint64) int { return m.length - int(min(less, uint64(m.length))) }

// counts moves what extern calls have counted to v.
func (m *machine) counts(v *Verdict) {
	v.Asserts += m.asserts
	v.Digests += m.digests
	m.asserts, m.digests = 0, 0
}

// rest returns the deparser's bytes and the rest that the parser has not consumed.
func (m *machine) rest() []byte {
	if m.outPos&7 == 0 && m.pos&7 == 0 {
		m.out = append(m.out[:m.outPos>>3], m.pkt[m.pos>>3:]...)
		return m.out
	}
	n := m.end - m.pos
	m.room(n)
	for at := m.pos; n > 0; {
		k := min(n, 64)
		writeBits(m.out, m.outPos, k, readBits(m.pkt, at, k))
		m.outPos, at, n = m.outPos+k, at+k, n-k
	}
	return m.out
}

// table finds a table by name.
func (pl *Pipeline) table(name string) (*tableState, error) {
	i, err := find("table", name, len(pl.prog.tables), func(i int) string { return pl.prog.tables[i].Name })
	if err != nil {
		return nil, err
	}
	return pl.m.tables[i], nil
}

// AddEntry adds an entry to a table. A name of a table or action may leave out its leading parts where the rest is unambiguous.
func (pl *Pipeline) AddEntry(table string, e Entry) error {
	s, err := pl.table(table)
	if err != nil {
		return err
	}
	d := s.def
	if d.constEntries {
		return fmt.Errorf("table %s: its entries are the program's own", d.Name)
	}
	if len(e.Keys) != len(d.Keys) {
		return fmt.Errorf("table %s has %d keys, the entry %d", d.Name, len(d.Keys), len(e.Keys))
	}
	n := &entry{prio: e.Priority, value: make([]uint64, d.words), mask: make([]uint64, d.words)}
	for i, m := range e.Keys {
		at, k := d.keyWords[i], wordsOf(d.Keys[i].Width)
		if err := d.matchWords(i, m, n.value[at:at+k], n.mask[at:at+k]); err != nil {
			return fmt.Errorf("table %s: %w", d.Name, err)
		}
	}
	if e.Member != 0 || e.Group != 0 {
		err = pl.refer(n, d, e)
	} else {
		err = n.act(d, e.Action)
	}
	if err != nil {
		return err
	}
	for _, o := range s.entries {
		if slices.Equal(o.value, n.value) && slices.Equal(o.mask, n.mask) && (!d.ordered || o.prio == n.prio) {
			return fmt.Errorf("table %s has this entry already", d.Name)
		}
	}
	s.insert(n)
	return nil
}

// act gives an entry its action.
func (n *entry) act(d *tableDef, act Action) error {
	a, err := d.action(act, true)
	n.action, n.data = int32(a.action), a.data
	return err
}

// refer lets an entry refer to a group, or to a member, of its table's profile.
func (pl *Pipeline) refer(n *entry, d *tableDef, e Entry) error {
	if d.profile < 0 {
		return fmt.Errorf("table %s has no action profile", d.Name)
	}
	p := pl.m.objects[d.profile].(*profile)
	if e.Group == 0 {
		if n.member = p.members[e.Member]; n.member == nil {
			return fmt.Errorf("table %s: no member %d in %s", d.Name, e.Member, p.name)
		}
		return nil
	}
	if n.group = p.groups[e.Group]; n.group == nil {
		return fmt.Errorf("table %s: no group %d in %s", d.Name, e.Group, p.name)
	}
	if !d.selectKeys || p.algo == nil {
		return fmt.Errorf("table %s: %s has no selector", d.Name, p.name)
	}
	return nil
}

// ClearTable deletes all entries but the program's own.
func (pl *Pipeline) ClearTable(table string) error {
	s, err := pl.table(table)
	if err != nil {
		return err
	}
	dflt := s.dflt
	s.reset()
	s.dflt = dflt
	return nil
}

// SetDefault sets a table's default action.
func (pl *Pipeline) SetDefault(table string, a Action) error {
	s, err := pl.table(table)
	if err != nil {
		return err
	}
	if s.def.constDefault {
		return fmt.Errorf("table %s: its default action is the program's own", s.def.Name)
	}
	st, err := s.def.action(a, false)
	if err != nil {
		return err
	}
	s.dflt.action, s.dflt.data = int32(st.action), st.data
	return nil
}

// AddMember adds a member to an action profile (or selector) of a table. Members are numbered from 1.
func (pl *Pipeline) AddMember(table string, id uint32, a Action) error {
	s, p, err := pl.profileOf(table)
	if err != nil {
		return err
	}
	st, err := s.def.action(a, true)
	if err != nil {
		return err
	}
	if id == 0 || p.members[id] != nil {
		return fmt.Errorf("%s: member %d is there already, or is 0", p.name, id)
	}
	p.members[id] = &member{id: id, action: st.action, data: st.data}
	return nil
}

// AddGroup adds a group of members to an action selector of a table. Groups are numbered from 1.
func (pl *Pipeline) AddGroup(table string, id uint32, members ...uint32) error {
	_, p, err := pl.profileOf(table)
	if err != nil {
		return err
	}
	g := &group{id: id}
	for _, i := range members {
		mb := p.members[i]
		if mb == nil {
			return fmt.Errorf("%s: no member %d", p.name, i)
		}
		g.members = append(g.members, mb)
	}
	if id == 0 || p.groups[id] != nil {
		return fmt.Errorf("%s: group %d is there already, or is 0", p.name, id)
	}
	p.groups[id] = g
	return nil
}

func (pl *Pipeline) profileOf(table string) (*tableState, *profile, error) {
	s, err := pl.table(table)
	if err != nil {
		return nil, nil, err
	}
	if s.def.profile < 0 {
		return nil, nil, fmt.Errorf("table %s has no action profile", s.def.Name)
	}
	return s, pl.m.objects[s.def.profile].(*profile), nil
}

// objectNamed finds an extern object of a kind.
func objectNamed[T any](pl *Pipeline, what, name string) (T, error) {
	var names []string
	var found []T
	for i, o := range pl.m.objects {
		if x, ok := o.(T); ok {
			names = append(names, pl.prog.objects[i].name)
			found = append(found, x)
		}
	}
	i, err := find(what, name, len(names), func(i int) string { return names[i] })
	if err != nil {
		var none T
		return none, err
	}
	return found[i], nil
}

// Register finds a register.
func (pl *Pipeline) Register(name string) (*Register, error) {
	return objectNamed[*Register](pl, "register", name)
}

// Counter finds an indirect counter.
func (pl *Pipeline) Counter(name string) (*Counter, error) {
	return objectNamed[*Counter](pl, "counter", name)
}

// Meter finds a meter.
func (pl *Pipeline) Meter(name string) (*Meter, error) {
	return objectNamed[*Meter](pl, "meter", name)
}

// Filter finds a low-pass filter.
func (pl *Pipeline) Filter(name string) (*Filter, error) {
	return objectNamed[*Filter](pl, "filter", name)
}

// Wred finds a weighted random early drop.
func (pl *Pipeline) Wred(name string) (*Wred, error) {
	return objectNamed[*Wred](pl, "wred", name)
}

// EntryCounts returns the direct counts of a table's entries, in order of addition,
// the program's own entries first.
func (pl *Pipeline) EntryCounts(table string) (packets, bytes []uint64, err error) {
	s, err := pl.table(table)
	if err != nil {
		return nil, nil, err
	}
	es := slices.Clone(s.entries)
	slices.SortFunc(es, func(a, b *entry) int { return a.seq - b.seq })
	for _, e := range es {
		packets = append(packets, e.packets)
		bytes = append(bytes, e.bytes)
	}
	return packets, bytes, nil
}
