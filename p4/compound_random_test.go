package p4

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// x op= y leaves x as x = x op y does (12.1), for every operator, width and place: fields, slices, elements by a variable.
func TestRandomCompoundAssignments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t}
		width := rapid.SampledFrom([]int{1, 7, 8, 16, 33, 63, 64, 65, 100, 129}).Draw(t, "width")
		signed := rapid.Bool().Draw(t, "signed")
		typ := typeName(width, signed)
		var body strings.Builder
		for range 1 + g.draw(6, "steps") {
			hi, lo := width-1, 0
			place := rapid.SampledFrom([]string{"%s.v", "%s.w", "%s.s[1].v", "%s.s[%[1]s.s[0].k & 1].v", "%s.t[0]"}).Draw(t, "place")
			unsigned := !signed
			if g.draw(3, "slice") == 0 && place != "%s.t[0]" {
				lo = g.draw(width, "lo")
				hi = lo + g.draw(width-lo, "more")
				place += fmt.Sprintf("[%d:%d]", hi, lo)
				unsigned = true
			}
			n := hi - lo + 1
			op := rapid.SampledFrom([]string{"+", "-", "*", "&", "|", "^", "|+|", "|-|", "<<", ">>", "/", "%"}).Draw(t, "op")
			var y string
			switch op {
			case "<<", ">>":
				y = g.leaf(rapid.SampledFrom([]int{3, 8, 70}).Draw(t, "amount's width"), false).text
				if g.draw(2, "constant") == 0 {
					y = fmt.Sprint(g.draw(width+10, "amount"))
				}
			case "/", "%":
				if !unsigned {
					continue
				}
				y = new(big.Int).Lsh(big.NewInt(1), uint(g.draw(n, "power"))).String()
			default:
				y = g.leaf(n, !unsigned).text
				if g.draw(3, "itself") == 0 {
					y = "%s.w"
					if n < width {
						y += fmt.Sprintf("[%d:%d]", hi, lo)
					} else if unsigned && signed {
						y += fmt.Sprintf("[%d:0]", width-1)
					}
				}
			}
			at := func(format, v string) string { return strings.NewReplacer("%s", v, "%[1]s", v).Replace(format) }
			fmt.Fprintf(&body, "%s %s= %s;\n", at(place, "a"), op, at(y, "a"))
			fmt.Fprintf(&body, "%s = %[1]s %s %s;\n", at(place, "b"), op, at(y, "b"))
		}
		begin := ""
		for _, f := range []string{"v", "w", "s[0].v", "s[1].v", "t[0]"} {
			e := g.leaf(width, signed)
			begin += fmt.Sprintf("a.%s = %s; b.%[1]s = %[2]s; ", f, e.text)
		}
		k := g.leaf(8, false)
		begin += fmt.Sprintf("a.s[0].k = %s; b.s[0].k = %[1]s; ", k.text)
		text := `#include <core.p4>
#include <v1model.p4>
header in_t { ` + strings.Join(g.fields, " ") + ` }
header out_t { bit<8> same; }
header elem_t { ` + typ + ` v; bit<8> k; }
struct var_t { ` + typ + " v; " + typ + " w; elem_t[2] s; tuple<" + typ + `, bool> t; }
struct headers_t { in_t in_; out_t out_; }
struct meta_t { }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) { state start { p.extract(h.in_); transition accept; } }
control none(inout headers_t h, inout meta_t m) { apply { } }
control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { var_t a; var_t b; a.s[0].setValid(); a.s[1].setValid(); b.s[0].setValid(); b.s[1].setValid();
    ` + begin + "\n" + body.String() + ` h.out_.setValid(); h.out_.same = a == b ? 8w1 : 2; }
}
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.out_); } }
V1Switch(P(), none(), ingress(), egress(), none(), D()) main;
`
		in, _ := pack(g.values)
		var v Verdict
		loadText(t, text).New().Process(in, &Intrinsic{}, &v)
		if len(v.Sent) != 1 || v.Sent[0].Data[0] != 1 {
			t.Fatalf("%s %s\n%s: %+v left", typ, begin, body.String(), v.Sent)
		}
	})
}
