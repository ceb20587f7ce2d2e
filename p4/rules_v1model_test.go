package p4

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// A wayRule holds statements of ingress, egress and the checksum controls, and the frames that leave, each as "PORT
// HEX", in their order.
type wayRule struct {
	rule, ingress, egress string
	verify, update        string
	in                    string
	out                   []string
}

// text is the whole program.
func (r wayRule) text() string {
	return `#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; }
struct headers { h_t h; }
struct meta { @field_list(1, 2) bit<8> kept; @field_list(2) bit<8> both; bit<8> lost; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { ` + r.verify + ` } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; ` + r.ingress + ` } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { ` + r.egress + ` } }
control U(inout headers hdr, inout meta m) { apply { ` + r.update + ` } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
`
}

func (r wayRule) holds(t *testing.T) {
	t.Helper()
	pl := loadText(t, r.text()).New()
	pl.SetMirror(7, Mirror{Port: 4})
	pl.SetMirror(8, Mirror{Port: 5, MaxLength: 3})
	pl.SetMulticast(9, []Replica{{Port: 2, ID: 1}, {Port: 3, ID: 1}, {Port: 2, ID: 2}})
	var v Verdict
	pl.Process(unhex(t, r.in), &Intrinsic{IngressPort: 6, IngressTime: 5 * units.Microsecond, EnqueueTime: 7 * units.Microsecond, DequeueTime: 12 * units.Microsecond}, &v)
	var got, want []string
	for _, s := range v.Sent {
		got = append(got, fmt.Sprintf("%d %s", s.Port, hex.EncodeToString(s.Data)))
	}
	for _, w := range r.out {
		port, frame, _ := strings.Cut(w, " ")
		want = append(want, port+" "+strings.ReplaceAll(frame, " ", ""))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q left, want %q", r.in, got, want)
	}
}

// The ways of a packet through v1model, as BMv2's simple_switch has them.
func TestRulesOfV1Model(t *testing.T) {
	const (
		in     = "00 00 0000 ee"
		isCopy = "sm.instance_type != 0"
	)
	for _, r := range []wayRule{
		{rule: "unicast", ingress: "sm.egress_spec = 3;", in: in, out: []string{"3 00000000ee"}},
		{rule: "a port that is not set is 0", ingress: "sm.egress_spec = 0;", in: in, out: []string{"0 00000000ee"}},
		{rule: "511 drops", ingress: "sm.egress_spec = 511;", in: in},
		{rule: "egress knows its port", ingress: "sm.egress_spec = 3;", egress: "hdr.h.c = (bit<16>)sm.egress_port;", in: in, out: []string{"3 00000003ee"}},
		{rule: "egress_spec of egress does not move the packet", egress: "sm.egress_spec = 3;", in: in, out: []string{"1 00000000ee"}},
		{rule: "511 at egress drops", egress: "sm.egress_spec = 511;", in: in},
		{rule: "mark_to_drop at egress", egress: "mark_to_drop(sm);", in: in},
		{rule: "what ingress knows", ingress: "hdr.h.a = (bit<8>)sm.ingress_port; hdr.h.b = (bit<8>)sm.packet_length; hdr.h.c = (bit<16>)sm.ingress_global_timestamp;", in: in, out: []string{"1 06 05 0005 ee"}},
		{rule: "what egress knows of the queue", egress: "hdr.h.a = (bit<8>)sm.enq_timestamp; hdr.h.b = (bit<8>)sm.deq_timedelta; hdr.h.c = (bit<16>)sm.egress_global_timestamp;", in: in, out: []string{"1 07 05 000c ee"}},
		{rule: "metadata goes from ingress to egress", ingress: "m.lost = 9;", egress: "hdr.h.a = m.lost;", in: in, out: []string{"1 09 00 0000 ee"}},
		{rule: "exit in ingress leaves egress to run", ingress: "exit;", egress: "hdr.h.a = 1;", in: in, out: []string{"1 01 00 0000 ee"}},
		{rule: "exit in egress leaves the deparser to run", egress: "hdr.h.a = 1; exit; hdr.h.a = 2;", in: in, out: []string{"1 01 00 0000 ee"}},
		{rule: "a header that is made invalid is not sent", egress: "hdr.h.setInvalid();", in: in, out: []string{"1 ee"}},

		{rule: "multicast has each replica", ingress: "sm.mcast_grp = 9;", egress: "hdr.h.a = (bit<8>)sm.egress_rid; hdr.h.b = (bit<8>)sm.egress_port; hdr.h.c = (bit<16>)sm.instance_type;", in: in, out: []string{"2 01 02 0005 ee", "3 01 03 0005 ee", "2 02 02 0005 ee"}},
		{rule: "multicast comes before a drop", ingress: "sm.mcast_grp = 9; sm.egress_spec = 511;", in: in, out: []string{"2 00000000ee", "3 00000000ee", "2 00000000ee"}},
		{rule: "mark_to_drop takes multicast back", ingress: "sm.mcast_grp = 9; mark_to_drop(sm);", in: in},
		{rule: "a group that there is not", ingress: "sm.mcast_grp = 10;", in: in},
		{rule: "replicas do not share headers", ingress: "sm.mcast_grp = 9;", egress: "if (sm.egress_port == 3) { hdr.h.a = 9; }", in: in, out: []string{"2 00000000ee", "3 09000000ee", "2 00000000ee"}},

		{rule: "a clone at ingress is the packet as it came in", ingress: "hdr.h.a = 9; clone(CloneType.I2E, 7); hdr.h.b = 9;", in: in, out: []string{"1 09090000ee", "4 00000000ee"}},
		{rule: "a clone runs through egress", ingress: "clone(CloneType.I2E, 7);", egress: "hdr.h.c = (bit<16>)sm.instance_type;", in: in, out: []string{"1 00000000ee", "4 00000001ee"}},
		{rule: "a clone of a packet that is dropped", ingress: "clone(CloneType.I2E, 7); mark_to_drop(sm);", in: in, out: []string{"4 00000000ee"}},
		{rule: "the last clone counts", ingress: "clone(CloneType.I2E, 8); clone(CloneType.I2E, 7);", in: in, out: []string{"1 00000000ee", "4 00000000ee"}},
		{rule: "a clone of some bytes", ingress: "clone(CloneType.I2E, 8);", in: in, out: []string{"1 00000000ee", "5 000000"}},
		{rule: "a session that there is not", ingress: "clone(CloneType.I2E, 99);", in: in, out: []string{"1 00000000ee"}},
		{rule: "a clone has the metadata of its list", ingress: "m.kept = 1; m.both = 2; m.lost = 3; clone_preserving_field_list(CloneType.I2E, 7, 1);", egress: "hdr.h.a = m.kept; hdr.h.b = m.both; hdr.h.c = 8w0 ++ m.lost;", in: in, out: []string{"1 01 02 0003 ee", "4 01 00 0000 ee"}},
		{rule: "a field may be of two lists", ingress: "m.kept = 1; m.both = 2; m.lost = 3; clone_preserving_field_list(CloneType.I2E, 7, 2);", egress: "hdr.h.a = m.kept; hdr.h.b = m.both; hdr.h.c = 8w0 ++ m.lost;", in: in, out: []string{"1 01 02 0003 ee", "4 01 02 0000 ee"}},
		{rule: "a list that there is not", ingress: "m.kept = 1; clone_preserving_field_list(CloneType.I2E, 7, 5);", egress: "hdr.h.a = m.kept;", in: in, out: []string{"1 01000000ee", "4 00000000ee"}},
		{rule: "a list has what the pass ended with", ingress: "m.kept = 1; clone_preserving_field_list(CloneType.I2E, 7, 1); m.kept = 2;", egress: "hdr.h.a = m.kept;", in: in, out: []string{"1 02000000ee", "4 02000000ee"}},
		{rule: "a clone at egress keeps its headers", egress: "if (sm.instance_type == 0) { hdr.h.a = 9; clone(CloneType.E2E, 7); } else { hdr.h.b = (bit<8>)sm.instance_type; }", in: in, out: []string{"1 09000000ee", "4 09020000ee"}},
		{rule: "a clone at egress of a packet that is dropped", egress: "if (sm.instance_type == 0) { clone(CloneType.E2E, 7); mark_to_drop(sm); }", in: in, out: []string{"4 00000000ee"}},
		{rule: "I2E at egress does nothing", egress: "clone(CloneType.I2E, 7);", in: in, out: []string{"1 00000000ee"}},

		{rule: "resubmission begins anew with what came in", ingress: "if (sm.instance_type == 0) { hdr.h.a = 9; m.lost = 9; resubmit_preserving_field_list(1); } else { hdr.h.b = m.lost; hdr.h.c = (bit<16>)sm.instance_type; }", in: in, out: []string{"1 00 00 0006 ee"}},
		{rule: "resubmission keeps its list", ingress: "if (sm.instance_type == 0) { m.kept = 9; resubmit_preserving_field_list(1); } else { hdr.h.b = m.kept; }", in: in, out: []string{"1 00 09 0000 ee"}},
		{rule: "resubmission comes before multicast and drop", ingress: "if (sm.instance_type == 0) { sm.mcast_grp = 9; sm.egress_spec = 511; resubmit_preserving_field_list(1); }", in: in, out: []string{"1 00000000ee"}},
		{rule: "recirculation begins anew with what left", egress: "if (sm.instance_type == 0) { hdr.h.a = 9; m.kept = 8; recirculate_preserving_field_list(1); } else { hdr.h.b = m.kept; hdr.h.c = (bit<16>)sm.instance_type; }", in: in, out: []string{"1 09 08 0004 ee"}},
		{rule: "a packet that is dropped at egress does not recirculate", egress: "recirculate_preserving_field_list(1); mark_to_drop(sm);", in: in},
		{rule: "a recirculated packet has its new length", egress: "if (" + isCopy + ") { hdr.h.c = (bit<16>)sm.packet_length; } else { hdr.h.setInvalid(); recirculate_preserving_field_list(1); }", in: "01 02 0304 05 06 0708 ee", out: []string{"1 05 06 0005 ee"}},
		{rule: "truncation", egress: "truncate(2);", in: in, out: []string{"1 0000"}},
		{rule: "truncation to more than there is", egress: "truncate(200);", in: in, out: []string{"1 00000000ee"}},
		{rule: "truncation at ingress", ingress: "truncate(2);", in: in, out: []string{"1 0000"}},

		{rule: "a checksum is updated", update: "update_checksum(true, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", in: "12 34 0000", out: []string{"1 12 34 edcb"}},
		{rule: "a checksum is updated behind egress", egress: "hdr.h.a = 0x56;", update: "update_checksum(true, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", in: "12 34 0000", out: []string{"1 56 34 a9cb"}},
		{rule: "on its condition", update: "update_checksum(hdr.h.a == 1, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", in: "12 34 0000", out: []string{"1 12 34 0000"}},
		{rule: "with the payload", update: "update_checksum_with_payload(true, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", in: "12 34 0000 0001 02", out: []string{"1 12 34 ebca 0001 02"}},
		{rule: "a checksum that holds", verify: "verify_checksum(true, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", ingress: "hdr.h.a = (bit<8>)sm.checksum_error;", in: "12 34 edcb", out: []string{"1 00 34 edcb"}},
		{rule: "a checksum that does not", verify: "verify_checksum(true, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", ingress: "hdr.h.a = (bit<8>)sm.checksum_error;", in: "12 34 edcc", out: []string{"1 01 34 edcc"}},
		{rule: "one of two that does not", verify: "verify_checksum(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.csum16); verify_checksum(true, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", ingress: "hdr.h.a = (bit<8>)sm.checksum_error;", in: "12 34 edcb", out: []string{"1 01 34 edcb"}},
		{rule: "one that is not verified", verify: "verify_checksum(false, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);", ingress: "hdr.h.a = (bit<8>)sm.checksum_error;", in: "12 34 0000", out: []string{"1 00 34 0000"}},
		{rule: "a parser's error does not drop", ingress: "if (sm.parser_error != error.NoError) { sm.egress_spec = 2; }", in: "12 34", out: []string{"2 1234"}},
	} {
		t.Run(r.rule, r.holds)
	}
}

// A recirculated packet is as long on the wire as it was, by what its headers have grown, and as a truncation left it.
func TestRulesOfRecirculatedLength(t *testing.T) {
	const again = "if (sm.instance_type == 0) { %hdr.h.a = 9; recirculate_preserving_field_list(0); } else { hdr.h.c = (bit<16>)sm.packet_length; }"
	egress := func(first string) string { return strings.Replace(again, "%", first, 1) }
	for _, c := range []struct {
		rule, egress string
		length       units.Bytes
		want         uint16
	}{
		{"a frame", egress(""), 0, 8},
		{"a frame of a longer packet", egress(""), 1000, 1000},
		{"without a header", egress("hdr.h.setInvalid(); "), 1000, 996},
		{"truncated within the frame", egress("truncate(6); "), 1000, 6},
		{"truncated behind the frame", egress("truncate(500); "), 1000, 500},
		{"truncated to more than there is", egress("truncate(2000); "), 1000, 1000},
	} {
		t.Run(c.rule, func(t *testing.T) {
			pl := loadText(t, wayRule{egress: c.egress}.text()).New()
			var v Verdict
			pl.Process([]byte{1, 2, 3, 4, 5, 6, 7, 8}, &Intrinsic{Length: c.length}, &v)
			if len(v.Sent) != 1 || binary.BigEndian.Uint16(v.Sent[0].Data[2:]) != c.want {
				t.Errorf("%+v left, expected a length of %d", v.Sent, c.want)
			}
		})
	}
}
