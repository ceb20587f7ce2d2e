package p4

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
	"github.com/sluice-rdma/sluice/units"
)

func loadProgram(t testing.TB, path string, define ...string) *Program {
	t.Helper()
	p, err := Load(path, Options{Define: define})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Packets that wait in queues keep what ingress has made of them, whatever passes in between.
func TestQueue(t *testing.T) {
	for _, c := range []struct{ program, in, out string }{
		{"testdata/v1_ways.p4", "02 00 00 00 %02x", "02 55 00 00 %02x"},
		{"testdata/tna_ways.p4", "03 00 0000 000000%02x", ""},
	} {
		t.Run(c.program, func(t *testing.T) {
			pl := loadProgram(t, c.program).New()
			pl.SetMirror(7, Mirror{Port: 4})
			frame := func(i int) []byte {
				return unhex(t, strings.ReplaceAll(c.in, "%02x", hex.EncodeToString([]byte{byte(i)})))
			}
			// What each packet becomes by itself.
			var want []Frame
			var v Verdict
			for i := range 20 {
				pl.Process(frame(i), &Intrinsic{IngressPort: 3}, &v)
				for _, f := range v.Sent {
					f.Data = bytes.Clone(f.Data)
					want = append(want, f)
				}
			}
			var queue []*Packet
			var got []Frame
			for i := range 20 {
				pl.Ingress(frame(i), &Intrinsic{IngressPort: 3}, &v)
				queue = append(queue, v.Copies...)
				for _, pk := range v.Copies {
					if pk.Len() != len(frame(i)) {
						t.Errorf("a packet of %d bytes takes %d in the queue", len(frame(i)), pk.Len())
					}
				}
			}
			for _, pk := range queue {
				pl.Egress(pk, &v)
				for _, f := range v.Sent {
					f.Data = bytes.Clone(f.Data)
					got = append(got, f)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%d frames left, want %d", len(got), len(want))
			}
			for i := range got {
				if got[i].Port != want[i].Port || !bytes.Equal(got[i].Data, want[i].Data) {
					t.Errorf("frame %d: port %d %x, want port %d %x", i, got[i].Port, got[i].Data, want[i].Port, want[i].Data)
				}
			}
			// One that the queue drops does no harm.
			pl.Ingress(frame(1), &Intrinsic{}, &v)
			for _, pk := range v.Copies {
				pl.Release(pk)
			}
		})
	}
}

// A selector's group spreads by the hash, a member is its action.
func TestSelector(t *testing.T) {
	pl := loadProgram(t, "testdata/v1_state.p4").New()
	n := func(v int64) *big.Int { return big.NewInt(v) }
	for i := range int64(3) {
		if err := pl.AddMember("by_hash", uint32(i+1), Action{Name: "set", Args: []*big.Int{n(100 + i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := pl.AddGroup("by_hash", 1, 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	if err := pl.AddGroup("by_hash", 2, 9); err == nil {
		t.Error("a group of a member that is not there")
	}
	if err := pl.AddEntry("by_hash", Entry{Keys: []Match{{Value: n(11)}}, Group: 1}); err != nil {
		t.Fatal(err)
	}
	var v Verdict
	for i := range byte(9) {
		pl.Process([]byte{11, i, 0, 0, 0, 0, 0, 0}, &Intrinsic{}, &v)
		// The hash is the identity of the index.
		if got, want := v.Sent[0].Data[7], 100+i%3; got != want {
			t.Errorf("index %d: member %d, want %d", i, got, want)
		}
	}
	pl.Reset()
	pl.Process([]byte{11, 0, 0, 0, 0, 0, 0, 0}, &Intrinsic{}, &v)
	if !bytes.Equal(v.Sent[0].Data[4:], []byte{255, 255, 255, 255}) {
		t.Errorf("after Reset: %x, want a miss", v.Sent[0].Data)
	}
}

// A meter goes by the packets' times.
func TestMeterByTime(t *testing.T) {
	pl := loadProgram(t, "testdata/v1_state.p4").New()
	m, err := pl.Meter("pace")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set(1, Rate{Committed: 1e6, Peak: 2e6, CommittedBurst: 1, PeakBurst: 2}); err != nil {
		t.Fatal(err)
	}
	if err := m.Set(2, Rate{}); err == nil {
		t.Error("a rate beyond the end")
	}
	var v Verdict
	for _, c := range []struct {
		at   units.Time
		want byte
	}{{0, 0}, {0, 1}, {0, 2}, {units.Microsecond, 0}, {units.Microsecond, 1}, {units.Microsecond, 2}} {
		pl.Process([]byte{3, 1, 0, 0, 0, 0, 0, 0}, &Intrinsic{IngressTime: c.at}, &v)
		if got := v.Sent[0].Data[7]; got != c.want {
			t.Errorf("at %v: color %d, want %d", c.at, got, c.want)
		}
	}
}

// Counts of what happened, and where a routed packet goes.
func TestVerdict(t *testing.T) {
	prog := loadProgram(t, "testdata/v1_ways.p4")
	pl := prog.New()
	pl.SetMirror(7, Mirror{Port: 4, MaxLength: 2})
	var v Verdict
	pl.Process([]byte{2, 0, 0, 0}, &Intrinsic{}, &v)
	if v.Clones != 1 || len(v.Sent) != 2 || len(v.Sent[0].Data) != 2 {
		t.Errorf("a clone of two bytes: %+v", v)
	}
	pl.Process([]byte{1, 0, 0, 0}, &Intrinsic{}, &v)
	if v.Resubmits != 1 || v.Clones != 0 {
		t.Errorf("a resubmission: %+v", v)
	}
	pl.Process([]byte{6, 0, 0, 0}, &Intrinsic{}, &v)
	if v.Recirculations != 1 {
		t.Errorf("a recirculation: %+v", v)
	}
	pl.Process([]byte{4, 0, 0, 0}, &Intrinsic{Routed: true, EgressPort: 9}, &v)
	if v.Drops != 1 || len(v.Sent) != 0 {
		t.Errorf("a drop: %+v", v)
	}
	pl.Process([]byte{0, 0, 0, 0}, &Intrinsic{Routed: true, EgressPort: 9}, &v)
	if len(v.Sent) != 1 || v.Sent[0].Port != 9 {
		t.Errorf("a routed packet: %+v", v)
	}
	pl.Process([]byte{1, 0, 0, 0}, &Intrinsic{Routed: true, EgressPort: 9}, &v)
	if len(v.Sent) != 1 || v.Sent[0].Port != 9 || v.Resubmits != 1 {
		t.Errorf("a routed packet that is resubmitted: %+v", v)
	}
	pl.Process([]byte{0, 0}, &Intrinsic{}, &v)
	if got := prog.ErrorName(v.ParserError); got != "PacketTooShort" {
		t.Errorf("parser error %s", got)
	}
}

// A program that goes round for ever is stopped.
func TestForEver(t *testing.T) {
	head := `#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> x; }
struct headers_t { h_t h; }
struct meta_t { }
`
	tail := `control none(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
`
	parser := `parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
`
	plain := `control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
`
	end := `V1Switch(P(), none(), ingress(), egress(), none(), D()) main;
`
	for name, text := range map[string]string{
		"parser":   head + "parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) { state start { transition select(h.h.x) { 0: start; default: accept; } } }\n" + plain + tail + end,
		"loop":     head + parser + strings.Replace(plain, "apply { }", "apply { for (bit<8> i = 0; i < 10; i = i) { h.h.x = h.h.x + 1; } }", 1) + tail + end,
		"resubmit": head + parser + strings.Replace(plain, "apply { }", "apply { resubmit_preserving_field_list(0); }", 1) + tail + end,
		"clones":   head + parser + strings.Replace(plain, "egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { }", "egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { clone(CloneType.E2E, 1); recirculate_preserving_field_list(0); }", 1) + tail + end,
	} {
		t.Run(name, func(t *testing.T) {
			pl := loadText(t, text).New()
			pl.SetMirror(1, Mirror{Port: 1})
			var v Verdict
			pl.Process([]byte{1, 2, 3}, &Intrinsic{}, &v)
			if len(v.Sent) > 200 {
				t.Errorf("%d frames left", len(v.Sent))
			}
		})
	}
}

// Programs with a packet that goes through much of them.
func benchPrograms(t testing.TB) map[string]struct {
	pl    *Pipeline
	frame []byte
	in    Intrinsic
} {
	out := map[string]struct {
		pl    *Pipeline
		frame []byte
		in    Intrinsic
	}{}
	add := func(name, program, entries, frame string, define ...string) {
		pl := loadProgram(t, program, define...).New()
		if err := stf.Configure(pl, name, []byte(entries)); err != nil {
			t.Fatal(err)
		}
		b := unhex(t, frame)
		b = append(b, make([]byte, 1024)...)
		out[name] = struct {
			pl    *Pipeline
			frame []byte
			in    Intrinsic
		}{pl, b, Intrinsic{IngressPort: 1, IngressTime: units.Microsecond, EnqueueTime: 2 * units.Microsecond, DequeueTime: 9 * units.Microsecond, DequeueDepth: Depth{Packets: 3, Bytes: 3000}}}
	}
	add("l3", "testdata/l3.p4", "add routes ip.dst:10.0.0.0/8 forward(dst:0x0000000000aa, port:2)\nadd routes ip.dst:10.1.0.0/16 forward(dst:1, port:3)",
		"000000000001 000000000002 0800 4500001c000100004011 66ce 0a0000010a000002 0000000000000000")
	roce := "0a0000000002 0a0000000001 0800 4500042c000100004011 62be 0a0000010a000002 c00012b704180000 0a00ffff0000001200000001"
	for _, n := range []string{"poseidon_mpd", "csig_mpd"} {
		role := "insert"
		if n == "csig_mpd" {
			role = "insert_wide"
		}
		add(n, n+".p4", "", roce, "INGRESS_ROLE="+role)
		add(n+"_tna", n+"_tna.p4", "", roce, "INGRESS_ROLE="+role)
	}
	add("int", "int.p4", "", roce, "INGRESS_ROLE=source")
	add("int_tna", "int_tna.p4", "", roce, "INGRESS_ROLE=source")
	return out
}

// A packet allocates nothing.
func TestAllocs(t *testing.T) {
	for name, b := range benchPrograms(t) {
		var v Verdict
		one := func() { b.pl.Process(b.frame, &b.in, &v) }
		one()
		if len(v.Sent) != 1 || bytes.Equal(v.Sent[0].Data, b.frame) {
			t.Errorf("%s: the packet does not leave, or as it came", name)
		}
		if n := testing.AllocsPerRun(100, one); n != 0 {
			t.Errorf("%s: %v allocations a packet", name, n)
		}
	}
	pl := loadProgram(t, "testdata/v1_ways.p4").New()
	pl.SetMirror(7, Mirror{Port: 4})
	pl.SetMulticast(9, []Replica{{Port: 1, ID: 1}, {Port: 2, ID: 2}})
	var v Verdict
	for what := range byte(10) {
		frame := []byte{what, 0, 0, 0, 0, 0}
		one := func() { pl.Process(frame, &Intrinsic{}, &v) }
		one()
		if n := testing.AllocsPerRun(100, one); n != 0 {
			t.Errorf("v1_ways %d: %v allocations a packet", what, n)
		}
	}
}

// What a packet of 1 KiB costs, ingress and egress.
func BenchmarkPacket(b *testing.B) {
	for name, p := range benchPrograms(b) {
		b.Run(name, func(b *testing.B) {
			var v Verdict
			b.ReportAllocs()
			for b.Loop() {
				p.pl.Process(p.frame, &p.in, &v)
			}
		})
	}
}

// No packet makes a program panic, and none leaves that is longer than headers allow.
func FuzzPacket(f *testing.F) {
	var pls []*Pipeline
	files, err := filepath.Glob("*.p4")
	if err != nil {
		f.Fatal(err)
	}
	more, err := filepath.Glob("testdata/*.p4")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, more...) {
		pl := loadProgram(f, name).New()
		pl.SetMirror(7, Mirror{Port: 4})
		pl.SetMulticast(9, []Replica{{Port: 1, ID: 1}, {Port: 2, ID: 2}})
		pls = append(pls, pl)
		text, err := os.ReadFile(strings.TrimSuffix(name, ".p4") + ".stf")
		if err != nil {
			f.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			words := strings.Fields(line)
			if i%3 != 0 || len(words) < 3 || words[0] != "packet" {
				continue
			}
			port, err := strconv.ParseUint(words[1], 0, 16)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(unhex(f, strings.Join(words[2:], "")), uint16(port), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, port uint16, at uint64) {
		now := units.Time(at % (1 << 62))
		in := Intrinsic{IngressPort: port, IngressTime: now, EnqueueTime: now, DequeueTime: now, DequeueDepth: Depth{Packets: int(port), Bytes: units.Bytes(port)}}
		var v Verdict
		for _, pl := range pls {
			pl.Process(frame, &in, &v)
			for _, s := range v.Sent {
				if len(s.Data) > len(frame)+256 {
					t.Errorf("%d bytes came in, %d leave", len(frame), len(s.Data))
				}
			}
		}
	})
}

// A parser's value set matches what the control plane has put into it.
func TestValueSet(t *testing.T) {
	text := `#include <core.p4>
#include <v1model.p4>
header h_t { bit<16> x; bit<8> y; }
struct headers_t { h_t h; }
struct meta_t { }
struct both_t { bit<16> x; bit<8> y; }
struct last_t { bit<8> y; }
struct nested_t { bit<16> x; last_t last; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) one;
    value_set<both_t>(4) two;
    value_set<nested_t>(4) nested;
    state start {
        p.extract(h.h);
        transition select(h.h.x) {
            one: first;
            default: more;
        }
    }
    state more {
        transition select(h.h.x, h.h.y) {
            two: second;
            nested: third;
            default: accept;
        }
    }
    state third { s.egress_spec = 3; transition accept; }
    state first { s.egress_spec = 1; transition accept; }
    state second { s.egress_spec = 2; transition accept; }
}
control none(inout headers_t h, inout meta_t m) { apply { } }
control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(P(), none(), ingress(), egress(), none(), D()) main;
`
	pl := loadText(t, text).New()
	n := big.NewInt
	port := func(frame ...byte) uint16 {
		var v Verdict
		pl.Process(frame, &Intrinsic{}, &v)
		return v.Sent[0].Port
	}
	if got := port(1, 2, 3); got != 0 {
		t.Errorf("empty sets: port %d", got)
	}
	if err := pl.AddValue("one", Match{Value: n(0x0102)}); err != nil {
		t.Fatal(err)
	}
	if err := pl.AddValue("two", Match{Value: n(0x0500), Mask: n(0xff00)}, Match{Value: n(7)}); err != nil {
		t.Fatal(err)
	}
	if err := pl.AddValue("nested", Match{Value: n(0x0809)}, Match{Value: n(4)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		frame []byte
		want  uint16
	}{{[]byte{1, 2, 3}, 1}, {[]byte{5, 9, 7}, 2}, {[]byte{8, 9, 4}, 3}, {[]byte{8, 9, 5}, 0}, {[]byte{5, 9, 8}, 0}, {[]byte{6, 9, 7}, 0}} {
		if got := port(c.frame...); got != c.want {
			t.Errorf("%x: port %d, want %d", c.frame, got, c.want)
		}
	}
	if err := pl.AddValue("two", Match{Value: n(1)}); err == nil {
		t.Error("a member with one field of two")
	}
	if err := pl.AddValue("three", Match{Value: n(1)}); err == nil {
		t.Error("a set that is not there")
	}
}

// An entry whose group has no members runs no action, so action_run is none of the list.
func TestEmptyGroup(t *testing.T) {
	pl := loadText(t, v1Text("", `action set(bit<8> v) { hdr.h.b = v; }
    action_selector(HashAlgorithm.crc16, 8, 16) sel;
    table t { key = { hdr.h.a: exact; hdr.h.c: selector; } actions = { NoAction; set; } implementation = sel; }`,
		"switch (t.apply().action_run) { set: { hdr.h.d = 1; } NoAction: { hdr.h.d = 2; } default: { hdr.h.d = 3; } }")).New()
	set := Action{Name: "set", Args: []*big.Int{big.NewInt(7)}}
	for _, err := range []error{
		pl.AddMember("t", 1, set), pl.AddMember("t", 2, Action{Name: "NoAction"}), pl.AddGroup("t", 1), pl.AddGroup("t", 2, 1),
		pl.AddEntry("t", Entry{Keys: []Match{{Value: big.NewInt(5)}}, Group: 1}),
		pl.AddEntry("t", Entry{Keys: []Match{{Value: big.NewInt(6)}}, Group: 2}),
		pl.AddEntry("t", Entry{Keys: []Match{{Value: big.NewInt(7)}}, Member: 2}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	exchange(t, pl, "05 09 0000 00000000 -> 05 09 0000 00000003", "06 09 0000 00000000 -> 06 07 0000 00000001",
		"07 09 0000 00000000 -> 07 09 0000 00000002", "08 09 0000 00000000 -> 08 09 0000 00000002")
}
