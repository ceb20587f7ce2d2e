package p4

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Random operations on headers, stacks, unions and structs do what a model in Go says (specification, 8.16 to 8.20): what is valid,
// and what each holds. What an invalid header holds is not read: it shows when the header becomes valid again.

type header struct {
	valid bool
	v     byte
}

// A world is the header variables h and k, the stack s, the union u with the members x and y, and the struct p of a header and a number.
type world struct {
	h, k header
	s    [3]header
	u    [2]header
	ph   header
	pn   byte
}

// A headerPlace is one header of a world, by its name in the program; set keeps a union to one member.
type headerPlace struct {
	text string
	of   func(*world) *header
	set  func(*world, header)
}

func headerPlaces() []headerPlace {
	var out []headerPlace
	plain := func(text string, of func(*world) *header) {
		out = append(out, headerPlace{text, of, func(w *world, h header) { *of(w) = h }})
	}
	plain("h", func(w *world) *header { return &w.h })
	plain("k", func(w *world) *header { return &w.k })
	plain("p.h", func(w *world) *header { return &w.ph })
	for i := range 3 {
		plain(fmt.Sprintf("s[%d]", i), func(w *world) *header { return &w.s[i] })
	}
	for i := range 2 {
		name := []string{"u.x", "u.y"}[i]
		out = append(out, headerPlace{name, func(w *world) *header { return &w.u[i] }, func(w *world, h header) {
			w.u[i], w.u[1-i].valid = h, false
		}})
	}
	return out
}

type headerStep struct {
	text string
	run  func(*world)
}

func drawHeaderStep(t *rapid.T) headerStep {
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
	places := headerPlaces()
	a, b := places[pick(len(places))], places[pick(len(places))]
	n := byte(pick(5))
	switch pick(13) {
	case 0:
		return headerStep{a.text + ".setValid();", func(w *world) {
			h := *a.of(w)
			h.valid = true
			a.set(w, h)
		}}
	case 1:
		return headerStep{a.text + ".setInvalid();", func(w *world) {
			h := *a.of(w)
			h.valid = false
			a.set(w, h)
		}}
	case 2:
		return headerStep{fmt.Sprintf("%s = { %d };", a.text, n), func(w *world) { a.set(w, header{true, n}) }}
	case 3:
		return headerStep{a.text + " = (one_t){#};", func(w *world) { a.set(w, header{}) }}
	case 4:
		return headerStep{a.text + " = " + b.text + ";", func(w *world) { a.set(w, *b.of(w)) }}
	case 5: // void move(in one_t a, out one_t b) { b = a; }
		return headerStep{"move(" + a.text + ", " + b.text + ");", func(w *world) { b.set(w, *a.of(w)) }}
	case 6: // void swap(inout one_t a, inout one_t b): the second is copied out last
		return headerStep{"swap(" + a.text + ", " + b.text + ");", func(w *world) {
			x, y := *a.of(w), *b.of(w)
			a.set(w, y)
			b.set(w, x)
		}}
	case 7:
		return headerStep{fmt.Sprintf("s.push_front(%d);", n), func(w *world) {
			for i := 2; i >= 0; i-- {
				if j := i - int(n); j >= 0 {
					w.s[i] = w.s[j]
				} else {
					w.s[i] = header{}
				}
			}
		}}
	case 8:
		return headerStep{fmt.Sprintf("s.pop_front(%d);", n), func(w *world) {
			for i := range 3 {
				if j := i + int(n); j < 3 {
					w.s[i] = w.s[j]
				} else {
					w.s[i] = header{}
				}
			}
		}}
	case 9:
		i, j := pick(3), pick(3)
		return headerStep{fmt.Sprintf("s = { s[%d], h, s[%d] };", i, j), func(w *world) { w.s = [3]header{w.s[i], w.h, w.s[j]} }}
	case 10:
		return headerStep{fmt.Sprintf("p = { %s, %d };", a.text, n), func(w *world) { w.ph, w.pn = *a.of(w), n }}
	case 11: // reads of invalid headers are left out
		return headerStep{fmt.Sprintf("if (%s.isValid() && %s.isValid()) { %s.v = %s.v + %d; }", a.text, b.text, a.text, b.text, n), func(w *world) {
			if a.of(w).valid && b.of(w).valid {
				a.of(w).v = b.of(w).v + n
			}
		}}
	}
	return headerStep{fmt.Sprintf("if (%s == %s) { p.n = p.n + 1; } if (s[%d] != %s) { p.n = p.n ^ 0x10; }", a.text, b.text, n%3, a.text), func(w *world) {
		same := func(x, y header) bool { return x.valid == y.valid && (!x.valid || x.v == y.v) }
		if same(*a.of(w), *b.of(w)) {
			w.pn++
		}
		if !same(w.s[n%3], *a.of(w)) {
			w.pn ^= 0x10
		}
	}}
}

func TestRandomValidity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body strings.Builder
		var w world
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			s := drawHeaderStep(t)
			s.run(&w)
			body.WriteString(s.text + "\n")
		}
		show := ""
		var want []byte
		for i, p := range headerPlaces() {
			show += fmt.Sprintf("hdr.o.f%d = %s.isValid() ? 8w1 : 0; ", i, p.text)
			want = append(want, 0)
			if p.of(&w).valid {
				want[i] = 1
			}
		}
		want = append(want, w.pn)
		text := `#include <core.p4>
#include <v1model.p4>
header one_t { bit<8> v; }
header_union u_t { one_t x; one_t y; }
struct pair_t { one_t h; bit<8> n; }
header out_t { bit<8> f0; bit<8> f1; bit<8> f2; bit<8> f3; bit<8> f4; bit<8> f5; bit<8> f6; bit<8> f7; bit<8> n; }
struct headers { out_t o; one_t h; one_t k; one_t[3] s; u_t u; }
struct meta { }
void move(in one_t a, out one_t b) { b = a; }
void swap(inout one_t a, inout one_t b) { one_t c = a; a = b; b = c; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 1; one_t h; one_t k; one_t[3] s; u_t u; pair_t p = { (one_t){#}, 0 };
` + body.String() + show + ` hdr.o.n = p.n; hdr.o.setValid(); hdr.h = h; hdr.k = k; hdr.s = s; hdr.u = u; }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
		for _, h := range []header{w.h, w.k, w.s[0], w.s[1], w.s[2], w.u[0], w.u[1]} {
			if h.valid {
				want = append(want, h.v)
			}
		}
		var v Verdict
		loadText(t, text).New().Process(nil, &Intrinsic{}, &v)
		if len(v.Sent) != 1 || string(v.Sent[0].Data) != string(want) {
			t.Fatalf("%s\n %+v left, want % x", body.String(), v.Sent, want)
		}
	})
}
