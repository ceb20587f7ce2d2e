package p4

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// Random parsers end where a model in Go does, with the same error and the same headers (specification, 13): extract of headers of
// one to three bytes, of a stack's next and of a varbit, advance, lookahead, verify, parsers in parsers, and select.

// reading is a parser's result: headers h1 to h3 with their lengths in bytes, a stack of two headers of one byte, a
// header of a byte and a varbit.
type reading struct {
	packet []byte
	pos    int
	h      [4][]byte // by size; nil is invalid
	s      [2][]byte
	next   int
	v      []byte
	k      byte // metadata
	err    string
}

// rejected is the panic by which a parser goes to reject.
type rejected struct{}

func (r *reading) fail(err string) {
	r.err = err
	panic(rejected{})
}

func (r *reading) take(n int) []byte {
	if len(r.packet)-r.pos < n {
		r.fail("PacketTooShort")
	}
	r.pos += n
	return r.packet[r.pos-n : r.pos]
}

type parserStep struct {
	text string
	run  func(*reading)
}

func drawParserStep(t *rapid.T) parserStep {
	n := rapid.IntRange(0, 3).Draw(t, "n")
	switch rapid.IntRange(0, 8).Draw(t, "step") {
	case 0:
		n = max(n, 1)
		return parserStep{fmt.Sprintf("p.extract(hdr.h%d);", n), func(r *reading) { r.h[n] = r.take(n) }}
	case 1:
		return parserStep{"p.extract(hdr.s.next);", func(r *reading) {
			if r.next > 1 {
				r.fail("StackOutOfBounds")
			}
			r.s[r.next] = r.take(1)
			r.next++
		}}
	case 2:
		return parserStep{fmt.Sprintf("p.advance(%d);", 8*n), func(r *reading) { r.take(n) }}
	case 3: // the varbit's bytes are as many as the next byte says, of up to two
		return parserStep{"p.extract(hdr.v, (bit<32>)(p.lookahead<bit<8>>() & 3) << 3);", func(r *reading) {
			if r.pos == len(r.packet) {
				r.fail("PacketTooShort")
			}
			n := int(r.packet[r.pos] & 3)
			if len(r.packet)-r.pos < 1+n {
				r.fail("PacketTooShort")
			}
			if n > 2 {
				r.fail("HeaderTooShort")
			}
			r.v = r.take(1 + n)
		}}
	case 4:
		return parserStep{"m.k = m.k + p.lookahead<bit<16>>()[7:0];", func(r *reading) {
			if len(r.packet)-r.pos < 2 {
				r.fail("PacketTooShort")
			}
			r.k += r.packet[r.pos+1]
		}}
	case 5:
		return parserStep{fmt.Sprintf("verify(m.k & 3 != %d, error.Mine);", n), func(r *reading) {
			if int(r.k&3) == n {
				r.fail("Mine")
			}
		}}
	case 6:
		return parserStep{"m.k = hdr.s.last.b;", func(r *reading) {
			if r.next == 0 {
				r.fail("StackOutOfBounds")
			}
			r.k = r.s[r.next-1][0]
		}}
	case 7:
		return parserStep{"q.apply(p, hdr.h1, m.k);", func(r *reading) { // Q below
			// An out header begins invalid, and what the callee left is copied out when it rejects, too.
			r.h[1] = nil
			r.h[1] = r.take(1)
			r.k += r.h[1][0]
			if r.h[1][0]&3 == 3 {
				r.fail("Mine")
			}
		}}
	}
	return parserStep{fmt.Sprintf("m.k = m.k + %d;", n), func(r *reading) { r.k += byte(n) }}
}

func TestRandomParsers(t *testing.T) {
	errors := []string{"", "PacketTooShort", "StackOutOfBounds", "HeaderTooShort", "NoMatch", "Mine"}
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.IntRange(1, 4).Draw(t, "states")
		type state struct {
			steps []parserStep
			// Where k & 3 leads: a state, accept (-1), reject (-2) or no label (-3). Backwards only behind a byte that is read.
			to [4]int
		}
		all := make([]state, states)
		var text strings.Builder
		for i := range all {
			s := &all[i]
			fmt.Fprintf(&text, "state %s { ", stateName(i))
			for range rapid.IntRange(0, 4).Draw(t, "steps") {
				s.steps = append(s.steps, drawParserStep(t))
			}
			loop := rapid.Bool().Draw(t, "loop")
			if loop {
				s.steps = append(s.steps, parserStep{"p.advance(8);", func(r *reading) { r.take(1) }})
			}
			for _, st := range s.steps {
				text.WriteString(st.text + " ")
			}
			var labels []string
			for k := range s.to {
				first := i + 1
				if loop {
					first = 0
				}
				to := rapid.IntRange(-3, states-1-first).Draw(t, "to")
				if to >= 0 {
					to += first
				}
				if k == 0 && i == states-1 { // one way comes to accept
					to = -1
				}
				s.to[k] = to
				switch to {
				case -1:
					labels = append(labels, fmt.Sprintf("%d: accept;", k))
				case -2:
					labels = append(labels, fmt.Sprintf("%d: reject;", k))
				case -3:
				default:
					labels = append(labels, fmt.Sprintf("%d: %s;", k, stateName(to)))
				}
			}
			if len(labels) == 0 {
				labels, s.to = []string{"_: accept;"}, [4]int{-1, -1, -1, -1}
			}
			fmt.Fprintf(&text, "transition select(m.k & 3) { %s } }\n", strings.Join(labels, " "))
		}
		source := `#include <core.p4>
#include <v1model.p4>
error { Mine }
header o_t { bit<8> e; bit<8> k; }
header h1_t { bit<8> b; }
header h2_t { bit<8> b; bit<8> c; }
header h3_t { bit<4> a; bit<20> b; }
header v_t { bit<8> n; varbit<16> v; }
struct headers { o_t o; h1_t h1; h2_t h2; h3_t h3; h1_t[2] s; v_t v; }
struct meta { bit<8> k; }
parser Q(packet_in p, out h1_t h, inout bit<8> k) { state start { p.extract(h); k = k + h.b; verify(h.b & 3 != 3, error.Mine); transition accept; } }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
Q() q;
` + text.String() + `}
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 1; hdr.o = { 0xee, m.k };
        switch (sm.parser_error) { error.NoError: { hdr.o.e = 0; } error.PacketTooShort: { hdr.o.e = 1; } error.StackOutOfBounds: { hdr.o.e = 2; } error.HeaderTooShort: { hdr.o.e = 3; } error.NoMatch: { hdr.o.e = 4; } error.Mine: { hdr.o.e = 5; } } }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
		prog, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(source)}}, "p.p4", Options{})
		if err != nil && strings.Contains(err.Error(), "never comes to accept or reject") {
			t.Skip("no way leads out")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, source)
		}
		for range 4 {
			r := reading{packet: rapid.SliceOfN(rapid.OneOf(rapid.ByteRange(0, 3), rapid.Byte()), 0, 10).Draw(t, "packet")}
			func() {
				defer func() {
					if e := recover(); e != nil && e != (rejected{}) {
						panic(e)
					}
				}()
				for at := 0; at >= 0; {
					for _, st := range all[at].steps {
						st.run(&r)
					}
					if at = all[at].to[r.k&3]; at == -3 {
						r.fail("NoMatch")
					}
				}
			}()
			want := []byte{0, r.k}
			for i, e := range errors {
				if e == r.err {
					want[0] = byte(i)
				}
			}
			for _, b := range [][]byte{r.h[1], r.h[2], r.h[3], r.s[0], r.s[1], r.v, r.packet[r.pos:]} {
				want = append(want, b...)
			}
			var v Verdict
			prog.New().Process(r.packet, &Intrinsic{}, &v)
			if len(v.Sent) != 1 || string(v.Sent[0].Data) != string(want) {
				t.Fatalf("%s of % x: %+v left, want % x", text.String(), r.packet, v.Sent, want)
			}
		}
	})
}

func stateName(i int) string {
	if i == 0 {
		return "start"
	}
	return fmt.Sprintf("s%d", i)
}
