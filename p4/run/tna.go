package run

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
	"github.com/sluice-rdma/sluice/units"
)

// The Tofino Native Architecture of Tofino 1, as its public declarations and examples
// (open-p4studio) have it. A packet goes through the ingress parser, ingress and the
// ingress deparser; the queues hold the bytes that come out; then through the egress parser,
// egress and the egress deparser. The intrinsic metadata stand as headers in front of the
// bytes that the parsers read. Units: times in nanoseconds of 48 or 18 bits, depths in cells of 80
// bytes, lengths in bytes without FCS.
//
// Departures: port metadata are zero; a packet that a parser rejects is dropped unless the
// control behind it reads parser_err, as on the chip; copy_to_cpu, deflection, the traffic
// manager's colors and the exclusion ids do nothing; nothing limits stages, tables, or how
// often one packet uses a register.

const (
	tnaNoPort      = 511 // ucast_egress_port before it is written: no unicast
	tnaRecirculate = 68  // a frame that leaves by this port comes in by it again
	tnaCell        = 80
	tnaPortData    = 8 // bytes of port metadata, or of resubmitted data
)

// Ways by which a packet may come to egress.
const (
	tnaNormal   uint8 = iota
	tnaMirrored       // its bytes begin with what mirror.emit added
	tnaBypass         // it leaves as it is
)

type tna struct {
	ig, eg tnaGress
	end    int         // the words before this one begin as zero for each packet
	sums   map[int]int // words of the objects that count within one packet
}

// tnaGress is ingress or egress.
type tnaGress struct {
	parser, control, deparser op
	intr                      wire // of the intrinsic header
	words                     int  // of that header
	readsErr                  bool
	fields                    map[string]int
	f                         tnaFields
}

// tnaFields are the words of the intrinsic fields that are read or written at each packet; -1 if the program lacks one.
type tnaFields struct {
	tstamp, parserErr, drop, port, group, groupB, rid, bypass, cos, qid int
}

func (a *tna) compile(c *compiler, p *ast.Program) architecture {
	at := ast.At{P: p.Main.At}
	pipe := p.Main
	if pipe.Package.Name == "Switch" {
		if len(pipe.Args) == 0 || pipe.Args[0] == nil || pipe.Args[0].Instance == nil {
			c.failf(at, "Switch has no pipe")
		}
		pipe = pipe.Args[0].Instance
	}
	if len(pipe.Args) != 6 {
		c.failf(at, "Pipeline has 6 arguments, not %d", len(pipe.Args))
	}
	in := func(i int) *ast.Instance {
		if pipe.Args[i] == nil || pipe.Args[i].Instance == nil {
			c.failf(at, "argument %d of Pipeline is no parser or control", i+1)
		}
		return pipe.Args[i].Instance
	}
	a.ig = a.bind(c, in(0), in(1), in(2), "ingress")
	a.eg = a.bind(c, in(3), in(4), in(5), "egress")
	a.end = c.words
	a.ig.compile(c, in(0), in(1), in(2), "ingress")
	a.eg.compile(c, in(3), in(4), in(5), "egress")
	a.ig.f = tnaFields{
		tstamp: a.ig.at("ingress_intrinsic_metadata_from_parser_t.global_tstamp"), parserErr: a.ig.at("ingress_intrinsic_metadata_from_parser_t.parser_err"),
		drop: a.ig.at("ingress_intrinsic_metadata_for_deparser_t.drop_ctl"), port: a.ig.at("ingress_intrinsic_metadata_for_tm_t.ucast_egress_port"),
		group: a.ig.at("ingress_intrinsic_metadata_for_tm_t.mcast_grp_a"), groupB: a.ig.at("ingress_intrinsic_metadata_for_tm_t.mcast_grp_b"),
		rid: a.ig.at("ingress_intrinsic_metadata_for_tm_t.rid"), bypass: a.ig.at("ingress_intrinsic_metadata_for_tm_t.bypass_egress"),
		cos: a.ig.at("ingress_intrinsic_metadata_for_tm_t.ingress_cos"), qid: a.ig.at("ingress_intrinsic_metadata_for_tm_t.qid"),
	}
	a.eg.f = tnaFields{
		tstamp: a.eg.at("egress_intrinsic_metadata_from_parser_t.global_tstamp"), parserErr: a.eg.at("egress_intrinsic_metadata_from_parser_t.parser_err"),
		drop: a.eg.at("egress_intrinsic_metadata_for_deparser_t.drop_ctl"),
	}
	return a
}

// bind gives the parameters of a gress their places: what has the type of an intrinsic structure is
// that one, of the others the first is the headers, the second the metadata.
func (a *tna) bind(c *compiler, parser, control, deparser *ast.Instance, side string) tnaGress {
	g := tnaGress{fields: map[string]int{}}
	intrinsic := map[string]place{}
	var user [2]place
	bind := func(ps []*ast.Param) {
		n := 0
		for _, p := range ps {
			if isExtern(p.T) {
				continue
			}
			s, ok := types.Underlying(p.T).(*types.Struct)
			if ok && isIntrinsic(s.Name) {
				pl, ok := intrinsic[s.Name]
				if !ok {
					pl = c.temp(p.T)
					intrinsic[s.Name] = pl
					for i, f := range s.Fields {
						g.fields[s.Name+"."+f.Name] = pl.off + fieldAt(s, i)
					}
				}
				c.env[p] = pl
				continue
			}
			if n >= len(user) {
				c.failf(p, "not supported: parameter %s of type %s", p.Name, p.T)
			}
			if user[n].t == nil {
				user[n] = c.temp(p.T)
			}
			q := user[n]
			q.t = p.T
			c.env[p] = q
			n++
		}
	}
	bind(parser.Parser.Params)
	bind(control.Control.Params)
	bind(deparser.Control.Params)
	name := side + "_intrinsic_metadata_t"
	p, ok := intrinsic[name]
	if !ok {
		c.failf(parser.Parser, "not supported: neither parser nor control of %s has a parameter of type %s", side, name)
	}
	s := types.Underlying(p.t).(*types.Struct)
	w, err := wireOf(s)
	c.check(parser.Parser, err)
	g.intr, g.words = w, size(s)
	return g
}

func (g *tnaGress) compile(c *compiler, parser, control, deparser *ast.Instance, side string) {
	g.parser = c.parserBody(parser)
	c.reads = map[string]bool{}
	g.control = c.controlBody(control)
	g.readsErr = c.reads[side+"_intrinsic_metadata_from_parser_t.parser_err"]
	c.reads = nil
	g.deparser = c.controlBody(deparser)
}

func isIntrinsic(name string) bool {
	switch name {
	case "ingress_intrinsic_metadata_t", "ingress_intrinsic_metadata_for_tm_t", "ingress_intrinsic_metadata_from_parser_t",
		"ingress_intrinsic_metadata_for_deparser_t", "egress_intrinsic_metadata_t", "egress_intrinsic_metadata_from_parser_t",
		"egress_intrinsic_metadata_for_deparser_t", "egress_intrinsic_metadata_for_output_port_t":
		return true
	}
	return false
}

// at is the word of an intrinsic field, -1 if the program has no such struct.
func (g *tnaGress) at(field string) int {
	if w, ok := g.fields[field]; ok {
		return w
	}
	return -1
}

func nanos(t units.Time) uint64 { return uint64(t / units.Nanosecond) }

func cells(d Depth) uint64 {
	return min(uint64((d.Bytes+tnaCell-1)/tnaCell), mask64(19))
}

// parserError is what the chip's parser_err says.
func parserError(m *machine) uint64 {
	switch {
	case !m.failed:
		return 0
	case m.err == m.codes.noMatch:
		return 0x0001
	case m.err == m.codes.tooShort, m.err == m.codes.headerTooShort:
		return 0x0002
	case m.err == m.codes.timeout:
		return 0x0010
	case m.err == m.codes.stack:
		return 0x0040
	}
	return 0x0004
}

// head puts the intrinsic header, whose fields are in m.scratch, and data before the packet.
func (g *tnaGress) head(m *machine, data []byte, packet []byte) {
	m.in = zeroed(m.in[:0], (g.intr.bits+7)/8)
	writeFields(m.scratch[:g.words], g.intr.packed, m.in, 0)
	m.in = append(m.in, data...)
	m.in = append(m.in, packet...)
	m.pkt, m.pos, m.end = m.in, 0, 8*len(m.in)
}

// intrinsic begins the header's fields: word i of the header is m.scratch[i].
func (g *tnaGress) intrinsic(m *machine) []uint64 {
	for len(m.scratch) < g.words {
		m.scratch = append(m.scratch, 0)
	}
	clear(m.scratch)
	return m.scratch
}

// setField sets a field of the intrinsic header by its place there.
func (g *tnaGress) setField(w []uint64, i int, v uint64) {
	f := g.intr.fixed[i]
	w[f.word] = v & mask64(f.width)
}

// Fields of ingress_intrinsic_metadata_t and egress_intrinsic_metadata_t, in order.
const (
	igResubmit = 0
	igPort     = 4
	igTime     = 5

	egPort     = 1
	egEnqDepth = 3
	egEnqTime  = 7
	egDeqDepth = 9
	egDelta    = 14
	egRID      = 15
	egRIDFirst = 17
	egQueue    = 19
	egClass    = 21
	egLength   = 24
)

var noPortData [tnaPortData]byte

func (a *tna) ingress(pl *Pipeline, pk *Packet, v *Verdict) {
	m, g := &pl.m, &a.ig
	var data [tnaPortData]byte
	for try := 0; ; try++ {
		m.begin(pk, pk.IngressTime)
		clear(m.w[:a.end])
		w := g.intrinsic(m)
		g.setField(w, igResubmit, b2u(try > 0))
		g.setField(w, igPort, uint64(pk.IngressPort))
		g.setField(w, igTime, nanos(pk.IngressTime))
		g.head(m, data[:], pk.buf)
		set(m, g.f.port, tnaNoPort)
		if !a.gressRun(pl, g, pk, pk.IngressTime, v) {
			return
		}
		drop := get(m, g.f.drop)
		m.exit, m.failed = false, false
		g.deparser(m)
		m.counts(v)
		if drop&4 == 0 {
			a.mirrors(pl, pk, pk.buf, IngressClone, v)
		}
		if m.resubmit == 0 || drop&1 != 0 || try > 0 {
			if drop&1 != 0 {
				v.Drops++
				pl.Release(pk)
				return
			}
			break
		}
		v.Resubmits++
		data = noPortData
		copy(data[:], m.rdata)
	}
	// What the deparser left is what the queues hold.
	m.hold = append(m.hold[:0], m.rest()...)
	pk.Length += units.Bytes(len(m.hold) - len(pk.buf))
	pk.buf = append(pk.buf[:0], m.hold...)
	pk.path = tnaNormal
	if get(m, g.f.bypass) != 0 {
		pk.path = tnaBypass
	}
	pk.Class = uint8(get(m, g.f.cos))
	if q := get(m, g.f.qid); q != 0 {
		pk.Queue = uint8(q)
	}
	copies := 0
	for _, at := range [2]int{g.f.group, g.f.groupB} {
		if gr := uint16(get(m, at)); gr != 0 {
			copies += pl.replicate(pk, gr, v)
		}
	}
	port := tnaNoPort
	if g.f.port >= 0 {
		port = int(m.w[g.f.port])
	}
	if port == tnaNoPort {
		if copies == 0 {
			v.Drops++
		}
		pl.Release(pk)
		return
	}
	pk.EgressPort = uint16(port)
	pk.Replica = uint16(get(m, g.f.rid))
	v.Copies = append(v.Copies, pk)
}

// gressRun runs a parser and its control; false if the packet is gone.
func (a *tna) gressRun(pl *Pipeline, g *tnaGress, pk *Packet, now units.Time, v *Verdict) bool {
	m := &pl.m
	g.parser(m)
	v.ParserError = int(m.err)
	bad := parserError(m)
	if bad != 0 && !g.readsErr {
		m.counts(v)
		v.Drops++
		pl.Release(pk)
		return false
	}
	set(m, g.f.parserErr, bad)
	set(m, g.f.tstamp, nanos(now)&mask64(48))
	m.exit, m.failed = false, false
	m.budget = turns
	g.control(m)
	return true
}

// mirrors makes the copies that mirror.emit asked for, of the bytes in packet.
func (a *tna) mirrors(pl *Pipeline, pk *Packet, packet []byte, from Instance, v *Verdict) {
	m := &pl.m
	for i := range m.clones {
		s, ok := pl.mirrors[m.clones[i].session]
		if !ok {
			continue
		}
		if pk.turns >= maxCopies {
			v.Drops++
			continue
		}
		v.Clones++
		body := packet
		if s.MaxLength > 0 && s.MaxLength < len(body) {
			body = body[:s.MaxLength]
		}
		c := pl.packet()
		buf, state := c.buf, c.state
		*c = *pk
		c.state = state
		c.buf = append(buf[:0], m.mdata...)
		c.buf = append(c.buf, body...)
		c.Length += units.Bytes(len(c.buf) - len(packet))
		c.path = tnaMirrored
		c.Instance = from
		c.Replica = 0
		c.turns++
		pl.toMirror(c, s, v)
	}
}

func (a *tna) egress(pl *Pipeline, pk *Packet, v *Verdict) {
	m, g := &pl.m, &a.eg
	if pk.path == tnaBypass {
		a.leave(pl, pk, pk.buf, v)
		return
	}
	m.begin(pk, pk.DequeueTime)
	clear(m.w[:a.end])
	w := g.intrinsic(m)
	g.setField(w, egPort, uint64(pk.EgressPort))
	g.setField(w, egEnqDepth, cells(pk.EnqueueDepth))
	g.setField(w, egEnqTime, nanos(pk.EnqueueTime))
	g.setField(w, egDeqDepth, cells(pk.DequeueDepth))
	g.setField(w, egDelta, nanos(pk.DequeueTime)-nanos(pk.EnqueueTime))
	g.setField(w, egRID, uint64(pk.Replica))
	g.setField(w, egRIDFirst, b2u(pk.Instance == Replicated))
	g.setField(w, egQueue, uint64(pk.Queue))
	g.setField(w, egClass, uint64(pk.Class))
	g.setField(w, egLength, uint64(pk.Length)&mask64(16))
	g.head(m, nil, pk.buf)
	if !a.gressRun(pl, g, pk, pk.DequeueTime, v) {
		return
	}
	drop := get(m, g.f.drop)
	m.exit, m.failed = false, false
	g.deparser(m)
	m.counts(v)
	out := m.rest()
	if drop&4 == 0 {
		a.mirrors(pl, pk, out, EgressClone, v)
	}
	if drop&1 != 0 {
		v.Drops++
		pl.Release(pk)
		return
	}
	a.leave(pl, pk, out, v)
}

// leave sends a packet out, or round again.
func (a *tna) leave(pl *Pipeline, pk *Packet, out []byte, v *Verdict) {
	if pk.EgressPort != tnaRecirculate {
		v.send(pk.EgressPort, out, &pk.Intrinsic)
		pl.Release(pk)
		return
	}
	if pk.turns >= maxCopies {
		v.Drops++
		pl.Release(pk)
		return
	}
	v.Recirculations++
	pl.m.hold = append(pl.m.hold[:0], out...)
	pk.buf = append(pk.buf[:0], pl.m.hold...)
	pk.Intrinsic = Intrinsic{IngressPort: tnaRecirculate, IngressTime: pk.DequeueTime, Instance: Recirculated, Length: units.Bytes(len(pk.buf))}
	pk.turns++
	a.ingress(pl, pk, v)
}
