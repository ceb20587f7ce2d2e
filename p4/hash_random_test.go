package p4

import (
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is hashed or summed up is the bits of the values one after the other, whatever their widths and however they are put into lists
// (v1model's hash, update_checksum and verify_checksum; TNA's Hash and Checksum).

// hashed draws an expression and the terms that it is made of, in their order.
func (g *generator) hashed(depth int) (string, []term) {
	switch k := g.draw(5, "value"); {
	case depth > 0 && k <= 1:
		var texts []string
		var all []term
		for range 1 + g.draw(3, "elements") {
			text, es := g.hashed(depth - 1)
			texts, all = append(texts, text), append(all, es...)
		}
		return "{ " + strings.Join(texts, ", ") + " }", all
	case k == 2:
		e := g.leaf(1, false)
		return "(bool)" + e.text, []term{e}
	case k == 3:
		w := 1 + g.draw(129, "width")
		e := g.leaf(w+g.draw(20, "more"), rapid.Bool().Draw(g.t, "signed"))
		lo := g.draw(e.width-w+1, "lo")
		return fmt.Sprintf("%s[%d:%d]", e.text, lo+w-1, lo), []term{g.wrap("", w, false, new(big.Int).Rsh(e.value, uint(lo)))}
	}
	e := g.leaf(1+g.draw(129, "width"), rapid.Bool().Draw(g.t, "signed"))
	return e.text, []term{e}
}

// inetSum is RFC 1071's checksum of bytes, by numbers.
func inetSum(b []byte) uint64 {
	var sum uint64
	for i := 0; i < len(b); i += 2 {
		sum += uint64(b[i]) << 8
		if i+1 < len(b) {
			sum += uint64(b[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum%0x10000 + sum/0x10000
	}
	return 0xffff - sum
}

func TestRandomHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t}
		text, es := g.hashed(3)
		if !strings.HasPrefix(text, "{") {
			text = "{ " + text + " }"
		}
		bytes, _ := pack(es)
		payload := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "payload")
		program := `#include <core.p4>
#include <v1model.p4>
header in_t { ` + strings.Join(g.fields, " ") + fmt.Sprintf(" bit<%d> pad; ", (8-bitsOfAll(g.values)%8)%8) + `}
header out_t { bit<32> crc; bit<16> sum; bit<16> whole; bit<16> held; bit<8> good; bit<8> bad; }
struct headers_t { in_t in_; out_t out_; }
struct meta_t { }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) { state start { p.extract(h.in_); transition accept; } }
control none(inout headers_t h, inout meta_t m) { apply { } }
control verify_(inout headers_t h, inout meta_t m) { apply { verify_checksum(true, ` + text + `, 16w` + fmt.Sprint(inetSum(bytes)) + `, HashAlgorithm.csum16); } }
control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { h.out_.setValid(); h.out_.good = s.checksum_error == 0 ? 8w1 : 2; hash(h.out_.crc, HashAlgorithm.crc32, 32w0, ` + text + `, 64w0x100000000); h.out_.held = 7; }
}
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control update(inout headers_t h, inout meta_t m) { apply {
    update_checksum(true, ` + text + `, h.out_.sum, HashAlgorithm.csum16);
    update_checksum(h.out_.good == 9, ` + text + `, h.out_.held, HashAlgorithm.csum16);
    update_checksum_with_payload(true, ` + text + `, h.out_.whole, HashAlgorithm.csum16);
} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.out_); } }
V1Switch(P(), verify_(), ingress(), egress(), update(), D()) main;
`
		in, _ := pack(g.values)
		var v Verdict
		loadText(t, program).New().Process(append(in, payload...), &Intrinsic{}, &v)
		if len(v.Sent) != 1 {
			t.Fatalf("%d frames left", len(v.Sent))
		}
		// The payload follows the values bit by bit, also where these end within a byte.
		whole := append([]term(nil), es...)
		for _, b := range payload {
			whole = append(whole, term{width: 8, value: big.NewInt(int64(b))})
		}
		all, _ := pack(whole)
		want := fmt.Sprintf("%08x%04x%04x%04x%02x%02x%x", crc32.ChecksumIEEE(bytes), inetSum(bytes), inetSum(all), 7, 1, 0, payload)
		if got := fmt.Sprintf("%x", v.Sent[0].Data); got != want {
			t.Fatalf("%s of % x: %s left, expected %s", text, bytes, got, want)
		}
	})
}

func bitsOfAll(es []term) int {
	n := 0
	for _, e := range es {
		n += e.width
	}
	return n
}
