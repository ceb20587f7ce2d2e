package run

import (
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
	"github.com/sluice-rdma/sluice/units"
)

// The architecture v1model as BMv2's simple_switch runs it (its documentation
// docs/simple_switch.md). Units: times in microseconds, depths in packets, lengths in bytes.
// Departures: what the program has not written reads as zero, also in headers that were
// invalid when the packet came in; a packet is resubmitted at most 64 times; the stored
// fields of an invalid header keep what is written to them, as there.

// v1Drop is the egress port that drops.
const v1Drop = 511

type v1model struct {
	parser, verify, ingr, egr, compute, deparser op
	hdr, meta, std                               place
	lists                                        [][]span // by index
	byNumber                                     map[int]int
	f                                            stdFields
}

// span is words that a field list preserves.
type span struct{ off, n int }

// stdFields are the words of standard_metadata's fields; -1 if it lacks one.
type stdFields struct {
	ingressPort, egressSpec, egressPort, instance, length, enqTime, enqDepth, deqDelta, deqDepth,
	ingressTime, egressTime, mcast, rid, checksumError, parserError, priority int
}

func (a *v1model) compile(c *compiler, p *ast.Program) architecture {
	args := p.Main.Args
	if len(args) != 6 {
		c.failf(ast.At{P: p.Main.At}, "not supported: a V1Switch of %d arguments, not 6", len(args))
	}
	in := func(i int) *ast.Instance {
		if args[i] == nil || args[i].Instance == nil {
			c.failf(ast.At{P: p.Main.At}, "argument %d of V1Switch is no parser or control", i+1)
		}
		return args[i].Instance
	}
	ps := in(0).Parser.Params
	a.hdr, a.meta, a.std = c.temp(ps[1].T), c.temp(ps[2].T), c.temp(ps[3].T)
	c.prog.state = c.words
	a.f = stdFieldsOf(a.std)
	a.fieldLists()
	bind := func(params []*ast.Param, ps ...place) {
		for i, p := range ps {
			if p.t != nil {
				p.t = params[i].T
				c.env[params[i]] = p
			}
		}
	}
	none := place{}
	bind(ps, none, a.hdr, a.meta, a.std)
	a.parser = c.parserBody(in(0))
	bind(in(1).Control.Params, a.hdr, a.meta)
	a.verify = c.controlBody(in(1))
	bind(in(2).Control.Params, a.hdr, a.meta, a.std)
	a.ingr = c.controlBody(in(2))
	bind(in(3).Control.Params, a.hdr, a.meta, a.std)
	a.egr = c.controlBody(in(3))
	bind(in(4).Control.Params, a.hdr, a.meta)
	a.compute = c.controlBody(in(4))
	bind(in(5).Control.Params, none, a.hdr)
	a.deparser = c.controlBody(in(5))
	return a
}

func stdFieldsOf(p place) stdFields {
	at := func(name string) int {
		s, ok := types.Underlying(p.t).(*types.Struct)
		if !ok {
			return -1
		}
		if _, i := s.Field(name); i >= 0 {
			return p.off + fieldAt(s, i)
		}
		return -1
	}
	return stdFields{
		ingressPort: at("ingress_port"), egressSpec: at("egress_spec"), egressPort: at("egress_port"),
		instance: at("instance_type"), length: at("packet_length"), enqTime: at("enq_timestamp"),
		enqDepth: at("enq_qdepth"), deqDelta: at("deq_timedelta"), deqDepth: at("deq_qdepth"),
		ingressTime: at("ingress_global_timestamp"), egressTime: at("egress_global_timestamp"),
		mcast: at("mcast_grp"), rid: at("egress_rid"), checksumError: at("checksum_error"),
		parserError: at("parser_error"), priority: at("priority"),
	}
}

// fieldLists finds the fields of the user's metadata that @field_list names.
func (a *v1model) fieldLists() {
	a.byNumber = map[int]int{}
	var walk func(p place)
	walk = func(p place) {
		s, ok := types.Underlying(p.t).(*types.Struct)
		if !ok {
			return
		}
		for i, f := range s.Fields {
			q := p.add(fieldAt(s, i), f.Type)
			text, ok := f.Annotations["field_list"]
			if !ok {
				walk(q)
				continue
			}
			for _, n := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
				k, err := strconv.ParseInt(strings.TrimPrefix(n, "8w"), 0, 32)
				if err != nil {
					continue
				}
				j, ok := a.byNumber[int(k)]
				if !ok {
					j = len(a.lists)
					a.byNumber[int(k)] = j
					a.lists = append(a.lists, nil)
				}
				a.lists[j] = append(a.lists[j], span{q.off, size(q.t)})
			}
		}
	}
	walk(a.meta)
	walk(a.std)
}

func set(m *machine, at int, v uint64) {
	if at >= 0 {
		m.w[at] = v
	}
}

func get(m *machine, at int) uint64 {
	if at < 0 {
		return 0
	}
	return m.w[at]
}

func micros(t units.Time) uint64 { return uint64(t / units.Microsecond) }

// fresh clears headers and metadata except the fields that list preserves of the packet whose
// state is from.
func (a *v1model) fresh(m *machine, state int, list int, from []uint64) {
	clear(m.w[:state])
	a.preserve(m, list, from)
}

func (a *v1model) preserve(m *machine, list int, from []uint64) {
	if list >= 0 {
		for _, s := range a.lists[list] {
			copy(m.w[s.off:s.off+s.n], from[s.off:s.off+s.n])
		}
	}
}

func (a *v1model) ingressMeta(m *machine, pk *Packet) {
	f := &a.f
	set(m, f.ingressPort, uint64(pk.IngressPort)&0x1ff)
	set(m, f.instance, uint64(pk.Instance))
	set(m, f.length, uint64(pk.Length)&0xffffffff)
	set(m, f.ingressTime, micros(pk.IngressTime)&mask64(48))
}

func (a *v1model) ingress(pl *Pipeline, pk *Packet, v *Verdict) {
	a.run(pl, pk, v, -1, nil)
}

// run is ingress, with what a field list preserves of the state of the packet that was recirculated.
func (a *v1model) run(pl *Pipeline, pk *Packet, v *Verdict, list int, from []uint64) {
	m, f := &pl.m, &a.f
	state := pl.prog.state
	for try := 0; ; try++ {
		m.begin(pk, pk.IngressTime)
		a.fresh(m, state, list, from)
		a.ingressMeta(m, pk)
		a.parse(m, pk)
		v.ParserError = int(m.err)
		m.exit, m.failed = false, false
		a.verify(m)
		m.exit = false
		a.ingr(m)
		m.counts(v)
		copy(pk.state, m.w[:state])
		a.ingressClones(pl, pk, v)
		if m.resubmit == 0 {
			break
		}
		if try >= maxResubmits {
			v.Drops++
			pl.Release(pk)
			return
		}
		v.Resubmits++
		pk.Instance = Resubmitted
		list = m.resubmit - 2
		pl.save(pk.state)
		from = pl.saved
	}
	pk.limit = max(m.truncate, 0)
	if pr := f.priority; pr >= 0 {
		pk.Class = uint8(pk.state[pr])
		pk.Queue = pk.Class
	}
	mcast := uint16(0)
	if f.mcast >= 0 {
		mcast = uint16(pk.state[f.mcast])
	}
	spec := uint16(0)
	if f.egressSpec >= 0 {
		spec = uint16(pk.state[f.egressSpec])
	}
	switch {
	case mcast != 0:
		if pl.replicate(pk, mcast, v) == 0 {
			v.Drops++
		}
		pl.Release(pk)
	case spec == v1Drop:
		v.Drops++
		pl.Release(pk)
	default:
		pk.EgressPort = spec
		v.Copies = append(v.Copies, pk)
	}
}

// parse runs the parser. An error does not stop the packet: ingress finds it in parser_error.
func (a *v1model) parse(m *machine, pk *Packet) {
	a.parser(m)
	set(m, a.f.parserError, m.err)
	pk.pos = m.pos
	pk.err = m.err
}

func (a *v1model) ingressClones(pl *Pipeline, pk *Packet, v *Verdict) {
	m := &pl.m
	n := len(m.clones)
	for i := range n {
		cl := m.clones[i]
		s, ok := pl.mirrors[cl.session]
		if !ok || cl.egress {
			continue
		}
		v.Clones++
		c := pl.copyOf(pk)
		c.Instance = IngressClone
		c.limit = s.MaxLength
		m.pkt, m.pos, m.end = c.buf, 0, 8*len(c.buf)
		m.err, m.failed, m.exit, m.budget = 0, false, false, turns
		a.fresh(m, pl.prog.state, cl.list, pk.state)
		a.ingressMeta(m, c)
		a.parse(m, c)
		copy(c.state, m.w[:pl.prog.state])
		pl.toMirror(c, s, v)
	}
}

func (pl *Pipeline) toMirror(c *Packet, s Mirror, v *Verdict) {
	if s.Group != 0 {
		if pl.replicate(c, s.Group, v) > 0 {
			for _, r := range v.Copies[len(v.Copies)-len(pl.groups[s.Group]):] {
				r.Instance = c.Instance
			}
		}
		pl.Release(c)
		return
	}
	c.EgressPort = s.Port
	v.Copies = append(v.Copies, c)
}

// save keeps a packet's state, of which field lists preserve fields.
func (pl *Pipeline) save(state []uint64) {
	pl.saved = append(pl.saved[:0], state...)
}

func (a *v1model) egress(pl *Pipeline, pk *Packet, v *Verdict) {
	m, f := &pl.m, &a.f
	state := pl.prog.state
	m.begin(pk, pk.DequeueTime)
	m.pos = pk.pos
	copy(m.w, pk.state)
	set(m, f.egressPort, uint64(pk.EgressPort)&0x1ff)
	set(m, f.egressSpec, 0)
	set(m, f.instance, uint64(pk.Instance))
	set(m, f.rid, uint64(pk.Replica))
	set(m, f.enqTime, micros(pk.EnqueueTime)&0xffffffff)
	set(m, f.deqDelta, (micros(pk.DequeueTime)-micros(pk.EnqueueTime))&0xffffffff)
	set(m, f.enqDepth, min(uint64(pk.EnqueueDepth.Packets), mask64(19)))
	set(m, f.deqDepth, min(uint64(pk.DequeueDepth.Packets), mask64(19)))
	set(m, f.egressTime, micros(pk.DequeueTime)&mask64(48))
	set(m, f.length, uint64(pk.Length)&0xffffffff)
	a.egr(m)
	a.egressClones(pl, pk, v)
	if get(m, f.egressSpec) == v1Drop {
		m.counts(v)
		v.Drops++
		pl.Release(pk)
		return
	}
	recirc, list := m.recirc != 0, m.recirc-2
	truncate := m.truncate
	if recirc {
		pl.save(m.w[:state])
	}
	m.exit = false
	a.compute(m)
	m.exit = false
	a.deparser(m)
	m.counts(v)
	out := m.rest()
	length := pk.lengthOf(out)
	if truncate >= 0 {
		out, length = truncated(out, length, truncate)
	}
	if pk.limit > 0 {
		out, length = truncated(out, length, pk.limit)
	}
	if !recirc {
		v.send(pk.EgressPort, out, &pk.Intrinsic)
		pl.Release(pk)
		return
	}
	a.recirculate(pl, pk, v, out, length, list)
}

// truncated is a frame, and its packet's length on the wire, of no more than most bytes.
func truncated(out []byte, length units.Bytes, most int) ([]byte, units.Bytes) {
	return out[:min(len(out), most)], min(length, units.Bytes(most))
}

// egressClones sends the clones that egress made of pk.
func (a *v1model) egressClones(pl *Pipeline, pk *Packet, v *Verdict) {
	m, f := &pl.m, &a.f
	state := pl.prog.state
	for i := range m.clones {
		cl := m.clones[i]
		s, ok := pl.mirrors[cl.session]
		if !ok || !cl.egress {
			continue
		}
		if pk.turns >= maxCopies {
			v.Drops++
			continue
		}
		v.Clones++
		pl.save(m.w[:state])
		c := pl.copyOf(pk)
		c.Instance = EgressClone
		c.limit = s.MaxLength
		c.turns++
		copy(c.state, m.w[:state])
		clear(c.state[a.meta.off : a.meta.off+size(a.meta.t)])
		clear(c.state[a.std.off : a.std.off+size(a.std.t)])
		if cl.list >= 0 {
			for _, sp := range a.lists[cl.list] {
				copy(c.state[sp.off:sp.off+sp.n], pl.saved[sp.off:sp.off+sp.n])
			}
		}
		if f.ingressPort >= 0 {
			c.state[f.ingressPort] = uint64(pk.IngressPort) & 0x1ff
		}
		pl.toMirror(c, s, v)
	}
}

// recirculate parses what egress made of pk, with the fields of a list preserved.
func (a *v1model) recirculate(pl *Pipeline, pk *Packet, v *Verdict, out []byte, length units.Bytes, list int) {
	if pk.turns >= maxCopies {
		v.Drops++
		pl.Release(pk)
		return
	}
	v.Recirculations++
	pk.buf = append(pk.buf[:0], out...)
	pk.Intrinsic = Intrinsic{IngressPort: pk.IngressPort, IngressTime: pk.DequeueTime, Instance: Recirculated, Length: length}
	pk.limit = 0
	pk.turns++
	a.run(pl, pk, v, list, pl.saved)
}
