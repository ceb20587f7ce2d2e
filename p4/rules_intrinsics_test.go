package p4

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// The intrinsic metadata of v1model and TNA, each field from what the switch knows of a packet, in the architecture's unit and width.
func TestRulesOfIntrinsics(t *testing.T) {
	const (
		ns = units.Nanosecond
		us = units.Microsecond
	)
	v1 := func(side string) func(string) string {
		return func(expr string) string {
			body := "hdr.h.d = (bit<32>)(" + expr + ");"
			text := v1Text("", "", "sm.egress_spec = 5; if (hdr.h.a == 1) { sm.mcast_grp = 9; }")
			if side == "ingress" {
				return strings.Replace(text, "apply { sm.egress_spec = 1;", "apply { sm.egress_spec = 1; "+body, 1)
			}
			return strings.Replace(text, "control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }", "control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { "+body+" } }", 1)
		}
	}
	tna := func(side string) func(string) string {
		return func(expr string) string {
			body := "hdr.h.d = (bit<32>)(" + expr + ");"
			text := tnaText("", tnaStart, "", "if (hdr.h.a == 1) { tm.mcast_grp_a = 9; tm.ucast_egress_port = 511; }")
			if side == "ingress" {
				return strings.Replace(text, "tm.bypass_egress = 1;", "tm.bypass_egress = 1; "+body, 1)
			}
			text = strings.Replace(text, "tm.bypass_egress = 1;", "tm.qid = 3; tm.ingress_cos = 2;", 1)
			text = strings.Replace(text, "p.extract(eg); transition", "p.extract(eg); p.extract(hdr.h); transition", 1)
			return strings.Replace(text, "egress_intrinsic_metadata_for_output_port_t oport) { apply { } }", "egress_intrinsic_metadata_for_output_port_t oport) { apply { "+body+" } }", 1)
		}
	}
	in := Intrinsic{
		IngressPort: 7, Length: 1500, IngressTime: 10*us + 300*ns, EnqueueTime: 20*us + 700*ns, DequeueTime: 33*us + 100*ns,
		EnqueueDepth: Depth{Packets: 4, Bytes: 801}, DequeueDepth: Depth{Packets: 600_000, Bytes: 100 * units.MB},
	}
	for _, c := range []struct {
		rule  string
		text  func(expr string) string
		expr  string
		group bool // the packet is one of a multicast group
		want  uint32
	}{
		{"v1model: ingress_port", v1("ingress"), "sm.ingress_port", false, 7},
		{"v1model: packet_length", v1("ingress"), "sm.packet_length", false, 1500},
		{"v1model: instance_type", v1("ingress"), "sm.instance_type", false, 0},
		{"v1model: ingress_global_timestamp in whole us", v1("ingress"), "sm.ingress_global_timestamp", false, 10},
		{"v1model: parser_error", v1("ingress"), "sm.parser_error == error.NoError ? 8w1 : 2", false, 1},
		{"v1model: egress_port before egress", v1("ingress"), "sm.egress_port", false, 0},
		{"v1model: enq_timestamp before egress", v1("ingress"), "sm.enq_timestamp", false, 0},
		{"v1model: egress_port", v1("egress"), "sm.egress_port", false, 5},
		{"v1model: egress_spec begins anew", v1("egress"), "sm.egress_spec", false, 0},
		{"v1model: ingress_port in egress", v1("egress"), "sm.ingress_port", false, 7},
		{"v1model: packet_length in egress", v1("egress"), "sm.packet_length", false, 1500},
		{"v1model: enq_timestamp", v1("egress"), "sm.enq_timestamp", false, 20},
		{"v1model: deq_timedelta of whole us", v1("egress"), "sm.deq_timedelta", false, 13},
		{"v1model: enq_qdepth in packets", v1("egress"), "sm.enq_qdepth", false, 4},
		{"v1model: deq_qdepth stops at 19 bits", v1("egress"), "sm.deq_qdepth", false, 1<<19 - 1},
		{"v1model: egress_global_timestamp", v1("egress"), "sm.egress_global_timestamp", false, 33},
		{"v1model: egress_rid of unicast", v1("egress"), "sm.egress_rid", false, 0},
		{"v1model: egress_rid of multicast", v1("egress"), "sm.egress_rid", true, 21},
		{"v1model: egress_port of multicast", v1("egress"), "sm.egress_port", true, 6},
		{"v1model: instance_type of multicast", v1("egress"), "sm.instance_type", true, 5},

		{"TNA: ingress_port", tna("ingress"), "ig.ingress_port", false, 7},
		{"TNA: resubmit_flag", tna("ingress"), "ig.resubmit_flag", false, 0},
		{"TNA: ingress_mac_tstamp in ns", tna("ingress"), "ig.ingress_mac_tstamp", false, 10_300},
		{"TNA: global_tstamp of the parser", tna("ingress"), "prsr.global_tstamp", false, 10_300},
		{"TNA: parser_err", tna("ingress"), "prsr.parser_err", false, 0},
		{"TNA: ucast_egress_port as it was set", tna("ingress"), "tm.ucast_egress_port", false, 1},
		{"TNA: egress_port", tna("egress"), "eg.egress_port", false, 1},
		{"TNA: enq_qdepth in begun cells of 80 bytes", tna("egress"), "eg.enq_qdepth", false, 11},
		{"TNA: deq_qdepth stops at 19 bits", tna("egress"), "eg.deq_qdepth", false, 1<<19 - 1},
		{"TNA: enq_tstamp in ns", tna("egress"), "eg.enq_tstamp", false, 20_700},
		{"TNA: deq_timedelta in ns", tna("egress"), "eg.deq_timedelta", false, 12_400},
		{"TNA: global_tstamp in egress", tna("egress"), "prsr.global_tstamp", false, 33_100},
		{"TNA: pkt_length", tna("egress"), "eg.pkt_length", false, 1500},
		{"TNA: egress_qid", tna("egress"), "eg.egress_qid", false, 3},
		{"TNA: egress_cos", tna("egress"), "eg.egress_cos", false, 2},
		{"TNA: egress_rid of unicast", tna("egress"), "eg.egress_rid", false, 0},
		{"TNA: egress_rid of multicast", tna("egress"), "eg.egress_rid", true, 21},
		{"TNA: egress_rid_first of unicast", tna("egress"), "eg.egress_rid_first", false, 0},
		{"TNA: egress_port of multicast", tna("egress"), "eg.egress_port", true, 6},
	} {
		t.Run(c.rule, func(t *testing.T) {
			pl := loadText(t, c.text(c.expr)).New()
			pl.SetMulticast(9, []Replica{{Port: 6, ID: 21}})
			frame := make([]byte, 26)
			if c.group {
				frame[0] = 1
			}
			var v Verdict
			pl.Process(frame, &in, &v)
			if len(v.Sent) != 1 {
				t.Fatalf("%d frames left", len(v.Sent))
			}
			if got := binary.BigEndian.Uint32(v.Sent[0].Data[4:]); got != c.want {
				t.Errorf("%s is %d, expected %d", c.expr, got, c.want)
			}
		})
	}
}

// A queue's time stamps of 18 bits go round (TNA), and so does their difference (both).
func TestRulesOfTimeStamps(t *testing.T) {
	text := strings.NewReplacer("tm.bypass_egress = 1;", "", "p.extract(eg); transition", "p.extract(eg); p.extract(hdr.h); transition",
		"egress_intrinsic_metadata_for_output_port_t oport) { apply { } }", "egress_intrinsic_metadata_for_output_port_t oport) { apply { hdr.h.d = 14w0 ++ eg.enq_tstamp; hdr.h.c = eg.deq_timedelta[15:0]; hdr.h.b = 6w0 ++ eg.deq_timedelta[17:16]; } }").
		Replace(tnaText("", tnaStart, "", ""))
	pl := loadText(t, text).New()
	const ns = units.Nanosecond
	for _, c := range []struct {
		enqueued, dequeued units.Time
		stamp, delta       uint32
	}{
		{0, 0, 0, 0},
		{0, 1 * ns, 0, 1},
		{(1<<18 - 1) * ns, (1 << 18) * ns, 1<<18 - 1, 1},
		{(1 << 18) * ns, (1<<18 + 5) * ns, 0, 5},
		{5 * ns, (1<<18 + 4) * ns, 5, 1<<18 - 1},
		{5 * ns, (1<<18 + 5) * ns, 5, 0},
		{1500 * units.Picosecond, 2500 * units.Picosecond, 1, 1},
	} {
		var v Verdict
		pl.Process(make([]byte, 26), &Intrinsic{EnqueueTime: c.enqueued, DequeueTime: c.dequeued}, &v)
		if len(v.Sent) != 1 {
			t.Fatalf("%d frames left", len(v.Sent))
		}
		d := v.Sent[0].Data
		stamp, delta := binary.BigEndian.Uint32(d[4:]), uint32(d[1])<<16|uint32(binary.BigEndian.Uint16(d[2:]))
		if stamp != c.stamp || delta != c.delta {
			t.Errorf("from %v to %v: %d and %d, expected %d and %d", c.enqueued, c.dequeued, stamp, delta, c.stamp, c.delta)
		}
	}
}
