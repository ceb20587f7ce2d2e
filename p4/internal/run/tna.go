package run

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
	"github.com/sluice-rdma/sluice/units"
)

// The Tofino Native Architecture of Tofino 1 and 2, as its public declarations and examples
// (open-p4studio) have it. A packet goes through the ingress parser, ingress and the
// ingress deparser; the queues hold the bytes that come out; then through the egress parser,
// egress and the egress deparser. The intrinsic metadata stand as headers in front of the
// bytes that the parsers read. Units: times in nanoseconds of 48 or 18 bits, depths in cells of 80
// bytes, lengths in bytes without FCS.
//
// Departures: port metadata are zero; a packet that a parser rejects is dropped unless the
// control behind it reads parser_err, as on the chip; copy_to_cpu, deflection, the traffic
// manager's colors and the exclusion ids do nothing; nothing limits stages, tables, or how
// often one packet uses a register. Tofino 2 mirrors as Tofino 1 does: what its deparser metadata
// say of the copy does nothing; of its ports for the CPU and recirculation, 0 to 7, only 6
// recirculates, and the others are as any port. Where there are several pipelines, port 128 n belongs to the one numbered
// n modulo their number.

const (
	tnaNoPort    = 511 // ucast_egress_port before it is written: no unicast
	tnaCell      = 80
	tnaPipePorts = 128
)

// A tnaChip holds the differences between Tofino 1 and 2.
type tnaChip struct {
	portData int    // bytes of port metadata, or of resubmitted data
	recirc   uint16 // a frame that leaves by this port of a pipe comes in by it again
}

var (
	tofino1 = tnaChip{portData: 8, recirc: 68}
	tofino2 = tnaChip{portData: 24, recirc: 6}
)

// Ways by which a packet may come to egress.
const (
	tnaNormal   uint8 = iota
	tnaMirrored       // its bytes begin with what mirror.emit added
	tnaBypass         // it leaves as it is
)

type tna struct {
	tnaChip
	pipes []tnaPipe
	end   int         // the words before this one begin as zero for each packet
	sums  map[int]int // words of the objects that count within one packet
	// What parsers have asked for by subtract_all_and_deposit, of the gress that is compiled.
	residuals []residual
}

// A residual is a checksum of which what the parser has yet to read is taken off: begin is the word of the bit where that
// begins, plus 1, and 0 if the packet asks for none.
type residual struct {
	begin, sum int
	put        act
}

// A tnaPipe is the program of one pipe.
type tnaPipe struct{ ig, eg tnaGress }

// of is the pipe of a port.
func (a *tna) of(port uint16) *tnaPipe { return &a.pipes[int(port/tnaPipePorts)%len(a.pipes)] }

// tnaGress is ingress or egress.
type tnaGress struct {
	parser, control, deparser op
	intr                      wire // of the intrinsic header
	words                     int  // of that header
	i                         tnaIntrinsic
	residuals                 []residual
	readsErr                  bool
	fields                    map[string]int
	f                         tnaFields
}

// tnaFields are the words of the intrinsic fields that are read or written at each packet; -1 if the program lacks one.
type tnaFields struct {
	tstamp, parserErr, drop, port, group, groupB, rid, bypass, cos, qid int
}

// tnaIntrinsic are the places of fields in ingress_intrinsic_metadata_t or egress_intrinsic_metadata_t.
type tnaIntrinsic struct {
	resubmit, port, time                                                  int
	enqDepth, enqTime, deqDepth, delta, rid, ridFirst, queue, class, size int
}

func (a *tna) compile(c *compiler, p *ast.Program) architecture {
	at := ast.At{P: p.Main.At}
	a.tnaChip = chipOf(p)
	pipes := []*ast.Instance{p.Main}
	if p.Main.Package.Name == "Switch" {
		pipes = nil
		for _, v := range p.Main.Args {
			if v != nil && v.Instance != nil {
				pipes = append(pipes, v.Instance)
			}
		}
	}
	if len(pipes) == 0 {
		c.failf(at, "Switch has no pipe")
	}
	a.pipes = make([]tnaPipe, len(pipes))
	for i, in := range pipes {
		a.pipes[i].bind(a, c, parts(c, in))
	}
	a.end = c.words
	for i, in := range pipes {
		a.pipes[i].compile(a, c, parts(c, in))
	}
	return a
}

// chipOf is the chip whose declarations a program includes.
func chipOf(p *ast.Program) tnaChip {
	for _, d := range p.Decls {
		k, ok := d.(*ast.ConstDecl)
		if !ok || k.Name != "PORT_METADATA_SIZE" {
			continue
		}
		if v := k.X.Const(); v != nil && v.Int != nil && v.Int.Int64() == int64(8*tofino2.portData) {
			return tofino2
		}
	}
	return tofino1
}

// parts are the parsers and controls of a pipe: parser, control and deparser of ingress and of egress.
func parts(c *compiler, pipe *ast.Instance) (in [6]*ast.Instance) {
	at := ast.At{P: pipe.At}
	if pipe.Package == nil || pipe.Package.Name != "Pipeline" || len(pipe.Args) < len(in) {
		c.failf(at, "not supported: a pipe that is no Pipeline")
	}
	for i := range in {
		if pipe.Args[i] == nil || pipe.Args[i].Instance == nil {
			c.failf(at, "argument %d of Pipeline is no parser or control", i+1)
		}
		in[i] = pipe.Args[i].Instance
	}
	for _, v := range pipe.Args[len(in):] {
		if v != nil {
			c.failf(at, "not supported: a ghost control")
		}
	}
	return in
}

func (t *tnaPipe) bind(a *tna, c *compiler, in [6]*ast.Instance) {
	t.ig = a.bind(c, in[0], in[1], in[2], "ingress")
	t.eg = a.bind(c, in[3], in[4], in[5], "egress")
	t.ig.f = tnaFields{
		tstamp: t.ig.at("ingress_intrinsic_metadata_from_parser_t.global_tstamp"), parserErr: t.ig.at("ingress_intrinsic_metadata_from_parser_t.parser_err"),
		drop: t.ig.at("ingress_intrinsic_metadata_for_deparser_t.drop_ctl"), port: t.ig.at("ingress_intrinsic_metadata_for_tm_t.ucast_egress_port"),
		group: t.ig.at("ingress_intrinsic_metadata_for_tm_t.mcast_grp_a"), groupB: t.ig.at("ingress_intrinsic_metadata_for_tm_t.mcast_grp_b"),
		rid: t.ig.at("ingress_intrinsic_metadata_for_tm_t.rid"), bypass: t.ig.at("ingress_intrinsic_metadata_for_tm_t.bypass_egress"),
		cos: t.ig.at("ingress_intrinsic_metadata_for_tm_t.ingress_cos"), qid: t.ig.at("ingress_intrinsic_metadata_for_tm_t.qid"),
	}
	t.eg.f = tnaFields{
		tstamp: t.eg.at("egress_intrinsic_metadata_from_parser_t.global_tstamp"), parserErr: t.eg.at("egress_intrinsic_metadata_from_parser_t.parser_err"),
		drop: t.eg.at("egress_intrinsic_metadata_for_deparser_t.drop_ctl"),
	}
}

func (t *tnaPipe) compile(a *tna, c *compiler, in [6]*ast.Instance) {
	t.ig.compile(a, c, in[0], in[1], in[2], "ingress")
	t.eg.compile(a, c, in[3], in[4], in[5], "egress")
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
	field := func(name string) int {
		_, i := s.Field(name)
		return i
	}
	g.i = tnaIntrinsic{
		resubmit: field("resubmit_flag"), port: field(side + "_port"), time: field("ingress_mac_tstamp"),
		enqDepth: field("enq_qdepth"), enqTime: field("enq_tstamp"), deqDepth: field("deq_qdepth"), delta: field("deq_timedelta"),
		rid: field("egress_rid"), ridFirst: field("egress_rid_first"), queue: field("egress_qid"), class: field("egress_cos"), size: field("pkt_length"),
	}
	return g
}

func (g *tnaGress) compile(a *tna, c *compiler, parser, control, deparser *ast.Instance, side string) {
	a.residuals = nil
	g.parser = c.parserBody(parser)
	g.residuals = a.residuals
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
		"egress_intrinsic_metadata_for_deparser_t", "egress_intrinsic_metadata_for_output_port_t", "ghost_intrinsic_metadata_t":
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

// parserError returns the chip's parser_err.
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

// head puts the intrinsic header, whose fields are in m.scratch, and as many bytes of what was resubmitted, or
// of zero, before the packet.
func (g *tnaGress) head(m *machine, data int, packet []byte) {
	n := (g.intr.bits + 7) / 8
	m.in = zeroed(m.in[:0], n+data)
	writeFields(m.scratch[:g.words], g.intr.packed, m.in, 0)
	copy(m.in[n:], m.rdata)
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

func (a *tna) ingress(pl *Pipeline, pk *Packet, v *Verdict) {
	m, g := &pl.m, &a.of(pk.IngressPort).ig
	m.rdata = m.rdata[:0]
	for try := 0; ; try++ {
		m.begin(pk, pk.IngressTime)
		clear(m.w[:a.end])
		w := g.intrinsic(m)
		g.setField(w, g.i.resubmit, b2u(try > 0))
		g.setField(w, g.i.port, uint64(pk.IngressPort))
		g.setField(w, g.i.time, nanos(pk.IngressTime))
		g.head(m, a.portData, pk.buf)
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
	}
	// What the deparser left is what the queues hold.
	m.hold = append(m.hold[:0], m.rest()...)
	pk.Length = pk.lengthOf(m.hold)
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
	for i := range g.residuals {
		m.w[g.residuals[i].begin] = 0
	}
	g.parser(m)
	for i := range g.residuals {
		g.residuals[i].deposit(m)
	}
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

// deposit takes what the parser has read since off the checksum, and stores that.
func (r *residual) deposit(m *machine) {
	if m.w[r.begin] == 0 {
		return
	}
	begin, end := int(m.w[r.begin]-1)/8, m.pos/8
	m.w[r.sum] = fold(m.w[r.sum] + (0xffff ^ fold(onesSum(0, m.pkt[begin:max(begin, end)]))))
	r.put(m)
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
	m, g := &pl.m, &a.of(pk.EgressPort).eg
	if pk.path == tnaBypass {
		a.leave(pl, pk, pk.buf, v)
		return
	}
	m.begin(pk, pk.DequeueTime)
	clear(m.w[:a.end])
	w := g.intrinsic(m)
	g.setField(w, g.i.port, uint64(pk.EgressPort))
	g.setField(w, g.i.enqDepth, cells(pk.EnqueueDepth))
	g.setField(w, g.i.enqTime, nanos(pk.EnqueueTime))
	g.setField(w, g.i.deqDepth, cells(pk.DequeueDepth))
	g.setField(w, g.i.delta, nanos(pk.DequeueTime)-nanos(pk.EnqueueTime))
	g.setField(w, g.i.rid, uint64(pk.Replica))
	g.setField(w, g.i.ridFirst, b2u(pk.Instance == Replicated))
	g.setField(w, g.i.queue, uint64(pk.Queue))
	g.setField(w, g.i.class, uint64(pk.Class))
	g.setField(w, g.i.size, uint64(pk.Length)&mask64(16))
	g.head(m, 0, pk.buf)
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

// leave sends a packet out, or round again. A port that the switch was given leads out
// whatever its number.
func (a *tna) leave(pl *Pipeline, pk *Packet, out []byte, v *Verdict) {
	given := pk.Routed && (pk.Instance == Normal || pk.Instance == Resubmitted)
	if given || pk.EgressPort%tnaPipePorts != a.recirc {
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
	length := pk.lengthOf(out)
	pl.m.hold = append(pl.m.hold[:0], out...)
	pk.buf = append(pk.buf[:0], pl.m.hold...)
	pk.Intrinsic = Intrinsic{IngressPort: pk.EgressPort, IngressTime: pk.DequeueTime, Instance: Recirculated, Length: length}
	pk.turns++
	a.ingress(pl, pk, v)
}
