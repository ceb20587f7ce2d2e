package p4

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Headers of any fields, at any bit of the packet, are read and written as math/big says (specification, 13.8.1 and 16.1).
func TestRandomHeaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// A header in front, so that the one at hand begins anywhere; what both lack of whole bytes is behind.
		front := rapid.IntRange(1, 16).Draw(t, "front")
		widths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 9), rapid.SampledFrom([]int{8, 16, 24, 32, 48, 63, 64, 65, 100, 128, 200})), 1, 12).Draw(t, "widths")
		bits := 0
		var decl, turned, moved strings.Builder
		for i, w := range widths {
			fmt.Fprintf(&decl, "%s f%d; ", typeName(w, rapid.Bool().Draw(t, "signed")), i)
			bits += w
		}
		for i := len(widths) - 1; i >= 0; i-- {
			fmt.Fprintf(&turned, "bit<%d> f%d; ", widths[i], i)
			fmt.Fprintf(&moved, "hdr.t.f%d = (bit<%d>)hdr.h.f%d; ", i, widths[i], i)
		}
		pad := 8 - (front+bits)%8
		text := fmt.Sprintf(`#include <core.p4>
#include <v1model.p4>
header front_t { bit<%d> v; }
header h_t { %s }
header turned_t { %s }
header pad_t { bit<%d> v; }
struct headers { front_t f; h_t h; turned_t t; pad_t p; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.f); p.extract(hdr.h); p.extract(hdr.p); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; if (hdr.f.v[0:0] == 1) { hdr.t.setValid(); hdr.h.setInvalid(); %s } } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`, front, decl.String(), turned.String(), pad, moved.String())
		pl := loadText(t, text).New()
		frame := rapid.SliceOfN(rapid.Byte(), (front+bits+pad)/8, (front+bits+pad)/8).Draw(t, "frame")
		rest := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "rest")

		whole := new(big.Int).SetBytes(frame)
		part := func(from, n int) *big.Int { // n bits from a bit of the frame on
			v := new(big.Int).Rsh(whole, uint(8*len(frame)-from-n))
			return v.And(v, ones(n))
		}
		want := part(0, front)
		if want.Bit(0) == 1 {
			at := front + bits
			for i := len(widths) - 1; i >= 0; i-- {
				at -= widths[i]
				want.Lsh(want, uint(widths[i])).Or(want, part(at, widths[i]))
			}
			want.Lsh(want, uint(pad)).Or(want, part(front+bits, pad))
		} else {
			want = whole
		}
		var v Verdict
		pl.Process(append(frame, rest...), &Intrinsic{}, &v)
		if wanted := string(want.FillBytes(make([]byte, len(frame)))) + string(rest); len(v.Sent) != 1 || string(v.Sent[0].Data) != wanted {
			t.Fatalf("%s\n of % x: %+v left, want % x", text, frame, v.Sent, wanted)
		}
	})
}

// A select takes the first label that holds its keys, whatever the labels are (13.6 and 8.15).
func TestRandomSelect(t *testing.T) {
	type label struct {
		text  string
		holds func(*big.Int) bool
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{1, 3, 8, 16, 64, 72}).Draw(t, "width")
		signed := width > 1 && rapid.Bool().Draw(t, "signed")
		number := func(v *big.Int) *big.Int { return term{width: width, signed: signed, value: v}.number() }
		draw := func(what string) *big.Int {
			v := new(big.Int).SetUint64(rapid.OneOf(rapid.Uint64Range(0, 5), rapid.Uint64()).Draw(t, what))
			if rapid.Bool().Draw(t, "from the end") {
				v.Not(v)
			}
			return v.And(v, ones(width))
		}
		typ := typeName(width, signed)
		literal := func(v *big.Int) string { return fmt.Sprintf("(%s)(%v)", typ, number(v)) }
		one := func() label {
			a, b := draw("a"), draw("b")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return label{literal(a), func(v *big.Int) bool { return v.Cmp(a) == 0 }}
			case 1:
				return label{literal(a) + " &&& " + literal(b), func(v *big.Int) bool {
					return new(big.Int).And(v, b).Cmp(new(big.Int).And(a, b)) == 0
				}}
			case 2:
				return label{literal(a) + " .. " + literal(b), func(v *big.Int) bool {
					return number(a).Cmp(number(v)) <= 0 && number(v).Cmp(number(b)) <= 0
				}}
			}
			return label{"_", func(*big.Int) bool { return true }}
		}
		keys := rapid.IntRange(1, 3).Draw(t, "keys")
		var labels [][]label
		var cases, states strings.Builder
		for i := range rapid.IntRange(1, 6).Draw(t, "labels") {
			var ls []label
			var texts []string
			for range keys {
				l := one()
				ls, texts = append(ls, l), append(texts, l.text)
			}
			labels = append(labels, ls)
			text := strings.Join(texts, ", ")
			if keys > 1 {
				text = "(" + text + ")"
			}
			fmt.Fprintf(&cases, "%s: s%d; ", text, i)
			fmt.Fprintf(&states, "state s%d { m.r = %d; transition accept; } ", i, i+1)
		}
		var fields, selected []string
		for i := range keys {
			fields = append(fields, fmt.Sprintf("%s k%d;", typ, i))
			selected = append(selected, fmt.Sprintf("hdr.h.k%d", i))
		}
		pad := 8 - keys*width%8
		text := fmt.Sprintf(`#include <core.p4>
#include <v1model.p4>
header h_t { %s bit<%d> pad; }
header o_t { bit<8> r; }
struct headers { h_t h; o_t o; }
struct meta { bit<8> r; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition select(%s) { %s } } %s }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; hdr.o = { m.r }; if (sm.parser_error == error.NoMatch) { hdr.o.r = 0xff; } } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.o); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`, strings.Join(fields, " "), pad, strings.Join(selected, ", "), cases.String(), states.String())
		pl := loadText(t, text).New()
		for range 5 {
			values := make([]*big.Int, keys)
			frame := new(big.Int)
			for i := range values {
				values[i] = draw("key")
				frame.Lsh(frame, uint(width)).Or(frame, values[i])
			}
			want := byte(0xff)
			for i, ls := range labels {
				all := true
				for k, l := range ls {
					all = all && l.holds(values[k])
				}
				if all {
					want = byte(i + 1)
					break
				}
			}
			var v Verdict
			frame.Lsh(frame, uint(pad))
			pl.Process(frame.FillBytes(make([]byte, (keys*width+pad)/8)), &Intrinsic{}, &v)
			if len(v.Sent) != 1 || v.Sent[0].Data[0] != want {
				t.Fatalf("%s\n of %v: %+v left, want %d", text, values, v.Sent, want)
			}
		}
	})
}
