package stf

import (
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/internal/infile"
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
