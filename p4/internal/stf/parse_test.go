package stf

import (
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/units"
)

func TestParse(t *testing.T) {
	text := `# a comment
packet 3 0102 AB cd   # another
expect 4 01** ab $
expect 0x5
expect 6 0
add ingress.t 10 hdr.ip.dst:0x0a****ff x:1..5 set_port(port: 7, mac:0x11)
add t drop()
add t hdr.h.isValid():1 ingress.a()
setdefault t  set ( n:1 )
mirroring_add 5 4
mc_node_create 400 6 7
register_write r 3 0x10
check_counter c.x(2) bytes == 100
meta ingress_time=1.5us enqueue_bytes=9KiB
wait
`
	s, err := Parse("x.stf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []command{
		{Line: 2, Op: "packet", Port: 3, Data: []byte{1, 2, 0xab, 0xcd}},
		{Line: 3, Op: "expect", Port: 4, Digits: "01**ab", Exact: true},
		{Line: 4, Op: "expect", Port: 5, Any: true},
		{Line: 5, Op: "expect", Port: 6, Digits: "0"},
		{Line: 6, Op: "add", Table: "ingress.t", Priority: 10, Keys: []pair{{"hdr.ip.dst", "0x0a****ff"}, {"x", "1..5"}}, Action: "set_port", Args: []pair{{"port", "7"}, {"mac", "0x11"}}},
		{Line: 7, Op: "add", Table: "t", Action: "drop"},
		{Line: 8, Op: "add", Table: "t", Keys: []pair{{"hdr.h.isValid()", "1"}}, Action: "ingress.a"},
		{Line: 9, Op: "setdefault", Table: "t", Action: "set", Args: []pair{{"n", "1"}}},
		{Line: 10, Op: "mirroring_add", Numbers: []int{5, 4}},
		{Line: 11, Op: "mc_node_create", Numbers: []int{400, 6, 7}},
		{Line: 12, Op: "register_write", Name: "r", Index: 3, Value: big.NewInt(16)},
		{Line: 13, Op: "check_counter", Name: "c.x", Index: 2, Unit: "bytes", Value: big.NewInt(100)},
		{Line: 14, Op: "meta", Meta: []pair{{"ingress_time", "1.5us"}, {"enqueue_bytes", "9KiB"}}},
		{Line: 15, Op: "wait"},
	}
	same := cmp.Comparer(func(a, b *big.Int) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 })
	if d := cmp.Diff(want, s.commands, same); d != "" {
		t.Error(d)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"packet", "x:1: packet: port missing"},
		{"packet x 00", `x:1: packet: port "x" is no number from 0 to 65535`},
		{"packet 1 000", "x:1: packet: 3 hexadecimal digits make no whole bytes"},
		{"packet 1 0g", `x:1: packet: "0g" is no hexadecimal byte`},
		{"expect 1 0g", `x:1: expect: 'g' is neither a hexadecimal digit nor *`},
		{"frobnicate", "x:1: frobnicate: no such command"},
		{"add", "x:1: add: action with parentheses wanted at the end, as in drop()"},
		{"add t", "x:1: add: action with parentheses wanted at the end, as in drop()"},
		{"add t()", "x:1: add: table and action wanted"},
		{"add t x a()", `x:1: add: "x" is neither a priority nor NAME:VALUE`},
		{"add t 1 x a()", `x:1: add: "x" is no NAME:VALUE`},
		{"add t x:12* a()", `x:1: add: x: "12*": wildcards need 0x or 0b before them`},
		{"add t x:1 a(y)", `x:1: add: "y" is no NAME:VALUE`},
		{"add t x:1 a(y:0xg)", `x:1: add: y: "0xg" is no number`},
		{"setdefault t", "x:1: setdefault: table and action wanted, as in setdefault t drop()"},
		{"mirroring_add 1", "x:1: mirroring_add: 2 numbers wanted, 1 given"},
		{"mc_mgrp_create x", `x:1: mc_mgrp_create: "x" is no number from 0 to 65535`},
		{"remove some", "x:1: remove: only remove all is known"},
		{"register_write r 1", "x:1: register_write: name, index and value wanted"},
		{"lpf_set f 0", "x:1: lpf_set: name, index and settings wanted"},
		{"lpf_set f x type=rate", `x:1: lpf_set: index "x" is no number`},
		{"lpf_set f 0 type=mean", `x:1: lpf_set: type: "mean" is neither rate nor sample`},
		{"lpf_set f 0 gain=1", `x:1: lpf_set: gain: time "1": unit missing, for example 1us`},
		{"lpf_set f 0 time=1us", "x:1: lpf_set: time: expected type, gain, decay or scale"},
		{"wred_set f 0 min", `x:1: wred_set: "min" is no name=value`},
		{"wred_set f 0 max=-1", `x:1: wred_set: max: "-1" is no number`},
		{"wred_set f 0 probability=often", `x:1: wred_set: probability: "often" is no number`},
		{"wred_set f 0 gain=1us", "x:1: wred_set: gain: expected time, min, max or probability"},
		{"check_counter c", "x:1: check_counter: wanted: NAME(INDEX) [packets|bytes] == COUNT"},
		{"check_counter c() == 1", `x:1: check_counter: index "" is no number`},
		{"check_counter c(x) == 1", `x:1: check_counter: index "x" is no number`},
		{"check_counter c 1 == 1", `x:1: check_counter: "c" is no NAME(INDEX)`},
		{"check_counter c(1 == 1", `x:1: check_counter: "c(1" is no NAME(INDEX)`},
		{"check_counter c(1) bits == 1", `x:1: check_counter: "bits" is neither packets nor bytes`},
		{"check_counter c(1) packets bytes == 1", "x:1: check_counter: wanted: NAME(INDEX) [packets|bytes] == COUNT"},
		{"check_counter c(1) == x", `x:1: check_counter: "x" is no number`},
		{"check_counter c(1) ==", `x:1: check_counter: "" is no number`},
		{"check_register r 1", "x:1: check_register: name, index and value wanted"},
		{"check_register r x 1", `x:1: check_register: index "x" is no number`},
		{"register_write r -1 1", `x:1: register_write: index "-1" is no number`},
		{"register_write r 0 x", `x:1: register_write: "x" is no number`},
		{"register_write r 0 0x10000000000000000", "x:1: register_write: value 18446744073709551616 is not within 64 bits"},
		{"register_reset", "x:1: register_reset: name wanted"},
		{"register_reset r 1", "x:1: register_reset: name wanted"},
		{"expect", "x:1: expect: port missing"},
		{"expect 65536", `x:1: expect: port "65536" is no number from 0 to 65535`},
		{"expect 1 00 $ 00", "x:1: expect: '$' is neither a hexadecimal digit nor *"},
		{"packet 1 **", `x:1: packet: "**" is no hexadecimal byte`},
		{"remove", "x:1: remove: only remove all is known"},
		{"mirroring_add 1 2 3", "x:1: mirroring_add: 2 numbers wanted, 3 given"},
		{"mc_mgrp_create 1 2", "x:1: mc_mgrp_create: 1 numbers wanted, 2 given"},
		{"mc_node_create 1", "x:1: mc_node_create: 2 numbers wanted, 1 given"},
		{"mc_node_associate 1 65536", `x:1: mc_node_associate: "65536" is no number from 0 to 65535`},
		{"add t h.isValid():1", "x:1: add: action with parentheses wanted at the end, as in drop()"},
		{"add t 1.5 x:1 a()", `x:1: add: "1.5" is neither a priority nor NAME:VALUE`},
		{"add t x: a()", `x:1: add: "x:" is no NAME:VALUE`},
		{"add t :1 a()", `x:1: add: ":1" is no NAME:VALUE`},
		{"add t x:1 a(y:1", `x:1: add: "a(y:1" is no ACTION(NAME:VALUE, ...)`},
		{"setdefault t a", `x:1: setdefault: "a" is no ACTION(NAME:VALUE, ...)`},
		{"setdefault t a() b", `x:1: setdefault: "a() b" is no ACTION(NAME:VALUE, ...)`},
		{"lpf_set f 0 scale=x", `x:1: lpf_set: scale: "x" is no number`},
		{"lpf_set f 0 decay=1", `x:1: lpf_set: decay: time "1": unit missing, for example 1us`},
		{"meta", "x:1: meta: name=value wanted"},
		{"meta queue", `x:1: meta: "queue" is no name=value`},
		{"meta queue=300", "x:1: meta: queue: 300 is not from 0 to 255"},
		{"meta class=256", "x:1: meta: class: 256 is not from 0 to 255"},
		{"meta ingress_time=5", `x:1: meta: ingress_time: time "5": unit missing, for example 5us`},
		{"meta colour=5", "x:1: meta: no setting \"colour\": there is ingress_time, enqueue_time, dequeue_time, enqueue_bytes, enqueue_packets, dequeue_bytes, dequeue_packets, queue, class"},
	} {
		_, err := Parse("x", []byte(c.line))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got  %v\n want %s", c.line, err, c.want)
		}
	}
}

// Whatever is read, it is read without a panic, and values that were accepted can be used.
func FuzzParse(f *testing.F) {
	f.Add("packet 1 0011\nexpect 2 0*1 $\nadd t 5 a.b:0x1* c:1/3 d:1&&&3 e:1..2 f:* act(x:0b1, y:10.0.0.1)\n")
	f.Add("check_counter c(1) == 3\nmeta ingress_time=1us\nsetdefault t a()")
	f.Add("add t h.isValid():1 a()")
	f.Fuzz(func(t *testing.T, text string) {
		var s *Script
		var err error
		infile.Within(t, func() { s, err = Parse("f", []byte(text)) })
		if err != nil {
			return
		}
		for _, c := range s.commands {
			for _, k := range c.Keys {
				if _, err := value(k.Value); err != nil {
					t.Errorf("line %d: %v was accepted and is not a value now", c.Line, err)
				}
			}
			for _, a := range c.Args {
				if _, err := number(a.Value); err != nil {
					t.Errorf("line %d: %v", c.Line, err)
				}
			}
		}
	})
}

// Files of 4 MB are read or refused within the limits of package infile.
func TestLongFiles(t *testing.T) {
	for name, part := range map[string]string{
		"packets": "packet 0 00\n", "expectations": "expect 0 *\n", "entries": "add t a:1 b(c:1)\n", "words": "x ", "lines": "\n", "comments": "#\n", "digits": "0",
	} {
		text := strings.Repeat(part, 4<<20/len(part))
		if name == "digits" {
			text = "packet 0 " + text
		}
		t.Run(name, func(t *testing.T) {
			infile.Within(t, func() {
				if s, err := Parse("f", []byte(text)); err == nil && len(s.commands) > maxCommands {
					t.Errorf("%d commands", len(s.commands))
				}
			})
		})
	}
}

// What a number and a key's value may look like, and what each stands for.
func TestValues(t *testing.T) {
	n := func(s string) *big.Int {
		v, ok := new(big.Int).SetString(s, 0)
		if !ok {
			t.Fatal(s)
		}
		return v
	}
	for _, c := range []struct {
		text string
		want match
	}{
		{"0", match{value: n("0"), prefix: -1}},
		{"010", match{value: n("10"), prefix: -1}},
		{"0x1F", match{value: n("31"), prefix: -1}},
		{"0XfF", match{value: n("255"), prefix: -1}},
		{"0b101", match{value: n("5"), prefix: -1}},
		{"0B11", match{value: n("3"), prefix: -1}},
		{"10.0.0.1", match{value: n("0x0a000001"), prefix: -1}},
		{"255.255.255.255", match{value: n("0xffffffff"), prefix: -1}},
		{"0xffffffffffffffffffffffffffffffff", match{value: n("0xffffffffffffffffffffffffffffffff"), prefix: -1}},
		{"*", match{any: true, prefix: -1}},
		{"1..5", match{value: n("1"), high: n("5"), prefix: -1}},
		{"0x10->0b11", match{value: n("16"), high: n("3"), prefix: -1}},
		{"10.0.0.1..10.0.0.9", match{value: n("0x0a000001"), high: n("0x0a000009"), prefix: -1}},
		{"5&&&3", match{value: n("5"), mask: n("3"), prefix: -1}},
		{"10.0.0.0/8", match{value: n("0x0a000000"), prefix: 8}},
		{"0/0", match{value: n("0"), prefix: 0}},
		{"0x1*", match{value: n("0x10"), mask: n("0xf0"), bits: 8, prefix: -1}},
		{"0X**", match{value: n("0"), mask: n("0"), bits: 8, prefix: -1}},
		{"0b1*0", match{value: n("4"), mask: n("5"), bits: 3, prefix: -1}},
		{"0B*", match{value: n("0"), mask: n("0"), bits: 1, prefix: -1}},
	} {
		got, err := value(c.text)
		same := cmp.Comparer(func(a, b *big.Int) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 })
		if d := cmp.Diff(c.want, got, same, cmp.AllowUnexported(match{})); err != nil || d != "" {
			t.Errorf("%s: %v %s", c.text, err, d)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", `"" is no number`},
		{"x", `"x" is no number`},
		{"-1", `"-1" is no number`},
		{"+1", `"+1" is no number`},
		{"1_000", `"1_000" is no number`},
		{"0x", `"0x" is no number`},
		{"0x-1", `"0x-1" is no number`},
		{"0b2", `"0b2" is no number`},
		{"0o7", `"0o7" is no number`},
		{"1.2.3.256", `"1.2.3.256" is no IPv4 address`},
		{"1.2.3.", `"1.2.3." is no IPv4 address`},
		{"1.2.3", `"1.2.3" is no number`},
		{"1..", `"" is no number`},
		{"..1", `"" is no number`},
		{"1->x", `"x" is no number`},
		{"x->1", `"x" is no number`},
		{"1&&&", `"" is no number`},
		{"&&&1", `"" is no number`},
		{"1/", `prefix length "" is no number`},
		{"1/-1", `prefix length "-1" is no number`},
		{"1/65536", `prefix length "65536" is no number`},
		{"x/8", `"x" is no number`},
		{"1*", `"1*": wildcards need 0x or 0b before them`},
		{"0xg*", `"0xg0" is no number`},
		{"0b*2", `"0b02" is no number`},
		{strings.Repeat("1", 1025), "a number of 1025 digits is too long"},
		{"0x*" + strings.Repeat("1", 1025), "a number of 1028 digits is too long"},
	} {
		if _, err := value(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%.40s: error is %v, expected %s", c.text, err, c.want)
		}
	}
}

// Each setting of meta goes to its place.
func TestMeta(t *testing.T) {
	set := func(words ...string) (settings, error) {
		var s settings
		for _, w := range words {
			name, v, _ := strings.Cut(w, "=")
			if err := setMeta(&s, name, v); err != nil {
				return s, err
			}
		}
		return s, nil
	}
	s, err := set("ingress_time=1us", "enqueue_time=2us", "dequeue_time=3us", "enqueue_bytes=1KiB", "enqueue_packets=5", "dequeue_bytes=0x10", "dequeue_packets=7", "queue=255", "class=9")
	if err != nil {
		t.Fatal(err)
	}
	want := settings{enqueued: true, dequeued: true}
	want.in.IngressTime, want.in.EnqueueTime, want.in.DequeueTime = units.Microsecond, 2*units.Microsecond, 3*units.Microsecond
	want.in.EnqueueDepth.Bytes, want.in.EnqueueDepth.Packets = 1024, 5
	want.in.DequeueDepth.Bytes, want.in.DequeueDepth.Packets = 16, 7
	want.in.Queue, want.in.Class = 255, 9
	if s != want {
		t.Errorf("settings are %+v, expected %+v", s, want)
	}
	for _, c := range []struct{ word, want string }{
		{"ingress_time=-1us", "ingress_time is negative"},
		{"dequeue_time=x", "dequeue_time: "},
		{"enqueue_bytes=-5", `enqueue_bytes: "-5" is no number`},
		{"enqueue_bytes=1furlong", `enqueue_bytes: "1furlong" is no number`},
		{"enqueue_packets=1KiB", `enqueue_packets: "1KiB" is no number`},
		{"dequeue_packets=2147483648", `dequeue_packets: "2147483648" is no number`},
		{"queue=256", "queue: 256 is not from 0 to 255"},
		{"class=-1", `class: "-1" is no number`},
		{"port=1", `no setting "port"`},
	} {
		if _, err := set(c.word); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, expected %q", c.word, err, c.want)
		}
	}
}
