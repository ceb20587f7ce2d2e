package p4

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A deparserRule is a TNA program of an ingress and an egress, and the frames that leave, each as "PORT HEX". The packet's header is of
// four bytes; metadata of the mirror's and the resubmission's type are there.
type deparserRule struct {
	rule    string
	parser  string // statements of the ingress parser behind the intrinsic header
	ingress string
	objects string // of the ingress deparser
	deparse string // its statements before it emits
	egress  string
	edep    string // statements of the egress deparser before it emits, with its objects
	in      string
	out     []string
	verdict Verdict // counts
}

func (r deparserRule) text() string {
	return `#include <core.p4>
#include <tna.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; }
header note_t { bit<8> kind; bit<16> v; bit<8> w; }
struct plain_t { bit<4> x; bit<12> y; bit<8> z; }
struct wide_t { bit<72> x; }
struct headers { note_t n; h_t h; }
struct meta { bit<8> kind; bit<16> v; plain_t p; wide_t w; bit<10> session; bool bad; note_t note; }
struct digest_t { bit<8> a; bit<16> c; }
parser IP(packet_in p, out headers hdr, out meta m, out ingress_intrinsic_metadata_t ig) {
    Checksum() sum;
    state start { p.extract(ig); transition select(ig.resubmit_flag) { 1: again; default: first; } }
    state again { m.p = p.lookahead<plain_t>(); m.bad = true; p.advance(64); transition rest; }
    state first { p.advance(PORT_METADATA_SIZE); transition rest; }
    state rest { p.extract(hdr.h); ` + r.parser + ` transition accept; }
}
control I(inout headers hdr, inout meta m, in ingress_intrinsic_metadata_t ig, in ingress_intrinsic_metadata_from_parser_t prsr,
          inout ingress_intrinsic_metadata_for_deparser_t dprsr, inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply { tm.ucast_egress_port = 1; ` + r.ingress + ` }
}
control ID(packet_out p, inout headers hdr, in meta m, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    ` + r.objects + `
    apply { ` + r.deparse + ` p.emit(hdr); }
}
parser EP(packet_in p, out headers hdr, out meta m, out egress_intrinsic_metadata_t eg) {
    state start { p.extract(eg); transition select(p.lookahead<bit<8>>()) { 0xee: note; default: plain; } }
    state note { p.extract(hdr.n); transition plain; }
    state plain { p.extract(hdr.h); transition accept; }
}
control E(inout headers hdr, inout meta m, in egress_intrinsic_metadata_t eg, in egress_intrinsic_metadata_from_parser_t prsr,
          inout egress_intrinsic_metadata_for_deparser_t dprsr, inout egress_intrinsic_metadata_for_output_port_t oport) { apply { ` + r.egress + ` } }
control ED(packet_out p, inout headers hdr, in meta m, in egress_intrinsic_metadata_for_deparser_t dprsr) { ` + cmpText(r.edep, "apply { p.emit(hdr); }") + ` }
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
`
}

func cmpText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (r deparserRule) holds(t *testing.T) {
	t.Helper()
	pl := loadText(t, r.text()).New()
	pl.SetMirror(5, Mirror{Port: 7})
	pl.SetMirror(6, Mirror{Port: 8, MaxLength: 3})
	var v Verdict
	pl.Process(unhex(t, r.in), &Intrinsic{IngressPort: 3}, &v)
	var got []string
	for _, s := range v.Sent {
		got = append(got, fmt.Sprintf("%d %s", s.Port, hex.EncodeToString(s.Data)))
	}
	want := slices.Clone(r.out)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q left, expected %q", got, want)
	}
	if v.Clones != r.verdict.Clones || v.Resubmits != r.verdict.Resubmits || v.Drops != r.verdict.Drops || v.Digests != r.verdict.Digests || v.Recirculations != r.verdict.Recirculations {
		t.Errorf("%d clones, %d resubmissions, %d drops, %d digests and %d recirculations, expected %d, %d, %d, %d and %d", v.Clones, v.Resubmits, v.Drops, v.Digests, v.Recirculations,
			r.verdict.Clones, r.verdict.Resubmits, r.verdict.Drops, r.verdict.Digests, r.verdict.Recirculations)
	}
}

// What the deparsers of TNA make beside the packet: mirrors, resubmissions, digests, and what drop_ctl keeps of them.
func TestRulesOfTNADeparsers(t *testing.T) {
	const (
		mirror   = "Mirror() mir;"
		resubmit = "Resubmit() res;"
		note     = "mir.emit<note_t>(10w5, { 0xee, m.v, 9 });"
	)
	for _, r := range []deparserRule{
		{rule: "unicast", in: "01020304 aa", out: []string{"1 01020304aa"}},
		{rule: "egress's statements", egress: "hdr.h.b = 9;", in: "01020304 aa", out: []string{"1 01090304aa"}},
		{
			rule: "a mirror is the packet as it came in, behind the mirror's header", ingress: "hdr.h.a = 5; m.v = 0x1234;", objects: mirror, deparse: note,
			in: "01020304 aa", out: []string{"1 05020304aa", "7 ee12340901020304aa"}, verdict: Verdict{Clones: 1},
		},
		{
			rule: "a mirror without a header", objects: mirror, deparse: "mir.emit(10w5);",
			in: "01020304 aa", out: []string{"1 01020304aa", "7 01020304aa"}, verdict: Verdict{Clones: 1},
		},
		{
			rule: "a mirror of a header of metadata", ingress: "m.note = { 0xee, 0x0506, 7 };", objects: mirror, deparse: "mir.emit(10w5, m.note);",
			in: "01020304", out: []string{"1 01020304", "7 ee05060701020304"}, verdict: Verdict{Clones: 1},
		},
		{
			rule: "a mirror of a header that is invalid", objects: mirror, deparse: "mir.emit(10w5, m.note);",
			in: "01020304", out: []string{"1 01020304", "7 01020304"}, verdict: Verdict{Clones: 1},
		},
		{
			rule: "a mirror of a session that there is not", objects: mirror, deparse: "mir.emit(10w9);",
			in: "01020304", out: []string{"1 01020304"},
		},
		{
			rule: "a mirror of a session of a few bytes", objects: mirror, deparse: "mir.emit<note_t>(10w6, { 0xee, 1, 2 });", egress: "if (hdr.n.isValid()) { hdr.n.w = 3; }",
			in: "01020304 aa", out: []string{"1 01020304aa"}, verdict: Verdict{Clones: 1, Drops: 1},
		},
		{
			rule: "the session that metadata says", ingress: "m.session = 10w5;", objects: mirror, deparse: "mir.emit(m.session);",
			in: "01020304", out: []string{"1 01020304", "7 01020304"}, verdict: Verdict{Clones: 1},
		},
		{
			rule: "on a condition that holds", ingress: "dprsr.mirror_type = 2;", objects: mirror, deparse: "if (dprsr.mirror_type == 2) { mir.emit(10w5); }",
			in: "01020304", out: []string{"1 01020304", "7 01020304"}, verdict: Verdict{Clones: 1},
		},
		{
			rule: "on a condition that does not", ingress: "dprsr.mirror_type = 1;", objects: mirror, deparse: "if (dprsr.mirror_type == 2) { mir.emit(10w5); }",
			in: "01020304", out: []string{"1 01020304"},
		},
		{
			rule: "a packet that is dropped is mirrored", ingress: "dprsr.drop_ctl = 1;", objects: mirror, deparse: "mir.emit(10w5);",
			in: "01020304", out: []string{"7 01020304"}, verdict: Verdict{Clones: 1, Drops: 1},
		},
		{
			rule: "but not if its drop_ctl says so", ingress: "dprsr.drop_ctl = 4;", objects: mirror, deparse: "mir.emit(10w5);",
			in: "01020304", out: []string{"1 01020304"},
		},
		{
			rule: "neither packet nor mirror", ingress: "dprsr.drop_ctl = 5;", objects: mirror, deparse: "mir.emit(10w5);",
			in: "01020304", out: nil, verdict: Verdict{Drops: 1},
		},
		{
			rule: "a mirror at egress is the packet as it leaves", egress: "hdr.h.b = 9;", edep: mirror + " apply { if (!hdr.n.isValid()) { mir.emit<note_t>(10w5, { 0xee, 1, 9 }); } p.emit(hdr); }",
			in: "01020304", out: []string{"1 01090304", "7 ee00010901090304"}, verdict: Verdict{Clones: 1},
		},
		{
			rule: "a resubmission begins anew, with the data in front", ingress: "if (!m.bad) { m.p = { 3, 0x456, 7 }; hdr.h.a = 9; dprsr.resubmit_type = 1; } else { hdr.h.b = m.p.z; hdr.h.c = 4w0 ++ m.p.y; }", objects: resubmit,
			deparse: "if (dprsr.resubmit_type == 1) { res.emit(m.p); }", in: "01020304", out: []string{"1 01070456"}, verdict: Verdict{Resubmits: 1},
		},
		{
			rule: "a resubmission without data", ingress: "if (!m.bad) { dprsr.resubmit_type = 1; } else { hdr.h.b = 9; hdr.h.c = 4w0 ++ m.p.y; }", objects: resubmit,
			deparse: "if (dprsr.resubmit_type == 1) { res.emit(); }", in: "01020304", out: []string{"1 01090000"}, verdict: Verdict{Resubmits: 1},
		},
		{
			rule: "once only", ingress: "hdr.h.b = m.bad ? 8w2 : 1;", objects: resubmit, deparse: "res.emit();",
			in: "01020304", out: []string{"1 01020304"}, verdict: Verdict{Resubmits: 1},
		},
		{
			rule: "a packet that is dropped is not resubmitted", ingress: "dprsr.drop_ctl = 1;", objects: resubmit, deparse: "res.emit();",
			in: "01020304", out: nil, verdict: Verdict{Drops: 1},
		},
		{
			rule: "a resubmission of a header", ingress: "if (!m.bad) { m.note = { 0x34, 0x5607, 8 }; dprsr.resubmit_type = 1; } else { hdr.h.b = m.p.z; hdr.h.c = 4w0 ++ m.p.y; }", objects: resubmit,
			deparse: "if (dprsr.resubmit_type == 1) { res.emit(m.note); }", in: "01020304", out: []string{"1 01070456"}, verdict: Verdict{Resubmits: 1},
		},
		{
			rule: "a digest is counted, the packet goes on", objects: "Digest<digest_t>() dig;", deparse: "dig.pack({ hdr.h.a, hdr.h.c });",
			in: "01020304", out: []string{"1 01020304"}, verdict: Verdict{Digests: 1},
		},
		{
			rule: "a digest on its condition", ingress: "dprsr.digest_type = 3;", objects: "Digest<digest_t>() dig;", deparse: "if (dprsr.digest_type == 2) { dig.pack({ hdr.h.a, hdr.h.c }); }",
			in: "01020304", out: []string{"1 01020304"},
		},
		{
			rule: "a checksum is updated", objects: "Checksum() sum;", deparse: "hdr.h.c = sum.update({ hdr.h.a, hdr.h.b });",
			in: "01020304", out: []string{"1 0102fefd"},
		},
		{
			rule: "a checksum of all ones is 0", objects: "Checksum() sum;", deparse: "hdr.h.c = sum.update({ 16w0xffff });",
			in: "01020304", out: []string{"1 01020000"},
		},
		{
			rule: "unless 0 is to be all ones", objects: "Checksum() sum;", deparse: "hdr.h.c = sum.update({ 16w0xffff }, true);",
			in: "01020304", out: []string{"1 0102ffff"},
		},
		{
			rule: "what the parser adds up", parser: "sum.add({ hdr.h.a, hdr.h.b }); sum.add(hdr.h.c); m.v = sum.get();", ingress: "hdr.h.c = m.v;",
			in: "01020304", out: []string{"1 0102fbf9"},
		},
		{
			rule: "what it takes off again", parser: "sum.add({ hdr.h.a, hdr.h.b }); sum.add(hdr.h.c); sum.subtract(hdr.h.c); m.v = sum.get();", ingress: "hdr.h.c = m.v;",
			in: "01020304", out: []string{"1 0102fefd"},
		},
		{
			rule: "verify says that a sum does not hold", parser: "sum.add(hdr.h); m.bad = sum.verify();", ingress: "hdr.h.a = m.bad ? 8w1 : 2;",
			in: "0102fefe", out: []string{"1 0102fefe"},
		},
		{
			rule: "verify says that a sum holds", parser: "sum.add(hdr.h); m.bad = sum.verify();", ingress: "hdr.h.a = m.bad ? 8w1 : 2;",
			in: "0102fefd", out: []string{"1 0202fefd"},
		},
		{
			rule: "the residue of what follows", parser: "sum.subtract_all_and_deposit(m.v);", ingress: "hdr.h.c = m.v;",
			in: "01020304 0506", out: []string{"1 010200000506"},
		},
		{
			rule: "the deparser leaves an invalid header out", ingress: "hdr.h.setInvalid(); tm.bypass_egress = 1;", in: "01020304 aa", out: []string{"1 aa"},
		},
		{
			rule: "egress drops", egress: "dprsr.drop_ctl = 1;", in: "01020304", out: nil, verdict: Verdict{Drops: 1},
		},
		{
			rule: "bypass leaves egress out", ingress: "tm.bypass_egress = 1;", egress: "hdr.h.b = 9;", in: "01020304", out: []string{"1 01020304"},
		},
		{
			rule: "a packet that is too short for egress is dropped", ingress: "hdr.h.setInvalid();", in: "01020304", out: nil, verdict: Verdict{Drops: 1},
		},
	} {
		t.Run(r.rule, r.holds)
	}
}

// What a deparser of TNA may not do is refused, with its place.
func TestRulesOfTNARefusals(t *testing.T) {
	for _, c := range []struct {
		rule string
		r    deparserRule
		want string
	}{
		{"a residue outside of the parser", deparserRule{objects: "Checksum() sum;", deparse: "sum.subtract_all_and_deposit(hdr.h.c);"}, "not supported: subtract_all_and_deposit here"},
		{"a table in a deparser's parser", deparserRule{parser: "table.apply();"}, "table"},
		{"a checksum of what has no bits", deparserRule{objects: "Checksum() sum;", deparse: "hdr.h.c = sum.update({ p });"}, "not supported: p here"},
		{"an object that there is not", deparserRule{objects: "Mirrors() mir;"}, "no type is called Mirrors here"},
		{"a method that there is not", deparserRule{objects: "Mirror() mir;", deparse: "mir.send(10w5);"}, "the extern Mirror has no method send"},
		{"a session of another width", deparserRule{objects: "Mirror() mir;", deparse: "mir.emit(16w5);"}, "bit<16>"},
	} {
		_, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(c.r.text())}}, "p.p4", Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !located.MatchString(err.Error()) {
			t.Errorf("%s: error is %v, expected %q", c.rule, err, c.want)
		}
	}
}
