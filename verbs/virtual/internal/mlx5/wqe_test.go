package mlx5

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// unhex is bytes as hexadecimal digits, with blanks and after a # a comment.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// WQEs as mlx5dv.h lays them out.
func TestDecodeSend(t *testing.T) {
	const qpn = 0x00abcd
	for _, c := range []struct {
		name string
		typ  ib.QPType
		wqe  string
		want verbs.SendWR
		imm  uint64 // elements of SGL that are inline
		err  error
	}{
		{
			name: "SEND of two pieces", typ: ib.RC, wqe: `
				00 1234 0a  00abcd 04  00 0000 0a  00000000  # opmod, index, opcode; qpn, ds; signature, -, fm_ce_se; imm
				00000010 00000077 00007f0011223344           # byte_count, lkey, addr
				00000000 00000078 0000000000000001           # of no bytes
				80000000 00000000 0000000000000000           # inline, of no bytes
			`,
			want: verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled | verbs.SendSolicited, SGL: []verbs.SGE{{Addr: 0x7f0011223344, Length: 16, LKey: 0x77}, {Addr: 52}}},
			imm:  2,
		},
		{
			name: "SEND_IMM inline", typ: ib.UC, wqe: `
				00 ffff 0b  00abcd 02  00 0000 00  deadbeef
				80000005 68656c6c6f 00000000000000
			`,
			want: verbs.SendWR{Opcode: ib.WRSendWithImm, Flags: verbs.SendInline, Imm: 0xdeadbeef, Inline: []byte("hello")},
		},
		{
			name: "SEND_INVAL with CE 1", typ: ib.RC, wqe: `00 0000 01  00abcd 01  00 0000 04  00000102`,
			want: verbs.SendWR{Opcode: ib.WRSendWithInv, Imm: 0x102},
		},
		{
			name: "WRITE_IMM after a small fence", typ: ib.RC, wqe: `
				00 0000 09  00abcd 03  00 0000 2c  00000001
				1122334455667788 00000abc 00000000           # raddr, rkey, reserved
				7fffffff 00000001 0000000000001000
			`,
			want: verbs.SendWR{
				Opcode: ib.WRRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: 1, RemoteAddr: 0x1122334455667788, RKey: 0xabc,
				SGL: []verbs.SGE{{Addr: 0x1000, Length: 0x7fffffff, LKey: 1}},
			},
		},
		{
			name: "READ with a fence", typ: ib.RC, wqe: `
				00 0000 10  00abcd 03  00 0000 88  00000000
				0000000000000800 00000abc 00000000
				00000004 00000001 0000000000001000
			`,
			want: verbs.SendWR{
				Opcode: ib.WRRDMARead, Flags: verbs.SendSignaled | verbs.SendFence, RemoteAddr: 0x800, RKey: 0xabc,
				SGL: []verbs.SGE{{Addr: 0x1000, Length: 4, LKey: 1}},
			},
		},
		{
			name: "ATOMIC_CS", typ: ib.RC, wqe: `
				00 0000 11  00abcd 04  00 0000 00  00000000
				0000000000000800 00000abc 00000000
				0000000000000005 0000000000000006            # swap_add, compare
				00000008 00000001 0000000000001000
			`,
			want: verbs.SendWR{
				Opcode: ib.WRAtomicCmpAndSwp, RemoteAddr: 0x800, RKey: 0xabc, Swap: 5, CompareAdd: 6,
				SGL: []verbs.SGE{{Addr: 0x1000, Length: 8, LKey: 1}},
			},
		},
		{
			name: "ATOMIC_FA", typ: ib.RC, wqe: `
				00 0000 12  00abcd 04  00 0000 00  00000000
				0000000000000800 00000abc 00000000
				0000000000000005 0000000000000006
				00000008 00000001 0000000000001000
			`,
			want: verbs.SendWR{
				Opcode: ib.WRAtomicFetchAndAdd, RemoteAddr: 0x800, RKey: 0xabc, CompareAdd: 5,
				SGL: []verbs.SGE{{Addr: 0x1000, Length: 8, LKey: 1}},
			},
		},
		{name: "NOP", typ: ib.RC, wqe: `00 0000 00  00abcd 01  00 0000 08  00000000`, want: verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}},
		{
			name: "a datagram", typ: ib.UD, wqe: `
				00 0000 0a  00abcd 05  00 0000 08  00000000
				11111111 00000000 80001234                   # qkey, reserved, extension and dqp
				06 00 c000 00000000 0203040506 07 69 3f      # stat_rate_sl, fl_mlid, rlid, reserved, rmac, tclass, hop_limit
				002abcde 00000000000000000000ffff0a000002    # grh_gid_fl, rgid
				00000010 00000077 00007f0011223344
			`,
			want: verbs.SendWR{
				Opcode: ib.WRSend, Flags: verbs.SendSignaled, RemoteQPN: 0x1234, RemoteQKey: 0x11111111,
				SGL: []verbs.SGE{{Addr: 0x7f0011223344, Length: 16, LKey: 0x77}},
			},
		},
		{name: "a WRITE datagram", typ: ib.UD, wqe: `00 0000 08  00abcd 01  00 0000 08  00000000`, err: errOpcode},
		{name: "a NOP datagram", typ: ib.UD, wqe: `00 0000 00  00abcd 01  00 0000 08  00000000`, err: errOpcode},
		{name: "no address vector", typ: ib.UD, wqe: `00 0000 0a  00abcd 03  00 0000 08  00000000` + strings.Repeat("00", 48), err: errSegments},
		{name: "a short address vector", typ: ib.UD, wqe: `00 0000 0a  00abcd 04  00 0000 08  00000000` + strings.Repeat("00", 48), err: errAV},
		{name: "UMR", typ: ib.RC, wqe: `00 0000 25  00abcd 01  00 0000 08  00000000`, err: errOpcode},
		{name: "masked atomic", typ: ib.RC, wqe: `00 0000 14  00abcd 01  00 0000 08  00000000`, err: errOpcode},
		{name: "a modified opcode", typ: ib.RC, wqe: `01 0000 0a  00abcd 01  00 0000 08  00000000`, err: errOpcode},
		{name: "no size", typ: ib.RC, wqe: `00 0000 0a  00abcd 00  00 0000 08  00000000`, err: errSize},
		{name: "more than there is", typ: ib.RC, wqe: `00 0000 0a  00abcd 05  00 0000 08  00000000`, err: errSize},
		{name: "another queue pair", typ: ib.RC, wqe: `00 0000 0a  00abce 01  00 0000 08  00000000`, err: errQPN},
		{name: "half a remote address", typ: ib.RC, wqe: `00 0000 08  00abcd 01  00 0000 08  00000000`, err: errSegments},
		{name: "an atomic without operands", typ: ib.RC, wqe: `00 0000 11  00abcd 02  00 0000 08  00000000 00000000000000000000000000000000`, err: errSegments},
		{name: "inline beyond", typ: ib.RC, wqe: `00 0000 0a  00abcd 02  00 0000 08  00000000 8000000d000000000000000000000000`, err: errSegments},
		{name: "inline READ", typ: ib.RC, wqe: `00 0000 10  00abcd 03  00 0000 08  00000000` + strings.Repeat("00", 16) + `80000001 000000000000000000000000`, err: errSegments},
	} {
		b := unhex(t, c.wqe)
		b = append(b, make([]byte, -len(b)&63)...)
		var r request
		err := decodeSend(b, qpn, c.typ, make([]verbs.SGE, maxPieces), &r)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: expected %v, got %v", c.name, c.err, err)
		}
		if len(r.wr.SGL) == 0 {
			r.wr.SGL = nil
		}
		if err == nil && (!reflect.DeepEqual(r.wr, c.want) || r.inline != c.imm) {
			t.Errorf("%s: expected\n%+v, got\n%+v, inline %b", c.name, c.want, r.wr, r.inline)
		}
		if c.name == "a datagram" {
			want := verbs.AddressVector{GID: netip.AddrFrom4([4]byte{10, 0, 0, 2}), SGIDIndex: 2, FlowLabel: 0xabcde, SL: 3, TrafficClass: 0x69, HopLimit: 63}
			if got := addressVector(&r.av); got != want {
				t.Errorf("expected %+v, got %+v", want, got)
			}
		}
	}
}

func TestBlocksOf(t *testing.T) {
	for size, want := range map[byte]int{0: 1, 1: 1, 4: 1, 5: 2, 63: 16, 64: 1, 69: 2} {
		if got := blocksOf([]byte{7: size, 63: 0}); got != want {
			t.Errorf("%d octowords: %d blocks, expected %d", size, got, want)
		}
	}
}

// Receive WQEs end at the invalid key, or at their stride.
func TestDecodeList(t *testing.T) {
	for _, c := range []struct {
		wqe  string
		want []verbs.SGE
	}{
		{`00000000 00000100 0000000000000000`, nil},
		{`00000001 00000001 0000000000000009`, []verbs.SGE{{Addr: 9, Length: 1, LKey: 1}}},
		{`00000000 00000001 0000000000000009 00000002 00000003 0000000000000004`, []verbs.SGE{{Addr: 4, Length: 2, LKey: 3}}},
		{`00000001 00000001 0000000000000009 00000000 00000100 0000000000000000 00000001 00000001 0000000000000009`, []verbs.SGE{{Addr: 9, Length: 1, LKey: 1}}},
	} {
		if got := decodeList(unhex(t, c.wqe), make([]verbs.SGE, 4)); len(got) != len(c.want) || len(got) > 0 && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, expected %+v", c.wqe, got, c.want)
		}
	}
}

// CQEs as mlx5dv.h lays them out.
func TestEntries(t *testing.T) {
	for _, c := range []struct {
		name  string
		e     entry
		owner uint8
		want  string
	}{
		{"a request", entry{opcode: connectx.CQEReq, userIndex: 0x112233, bytes: 5, timestamp: 0x0102030405060708, wqeOpcode: connectx.OpRead, qpn: 0xabcd, counter: 0xfff0}, 1, `
			0000 0000 00000000 00000000 00000000  # -, wqe_id, -
			00 00 00000000 0000                   # -, ml_path, -, slid
			00000000 00 00 0000                   # flags_rqpn, hds_ip_ext, l4_hdr_type_etc, vlan_info
			00112233 00000000 00 00 0000 00000005 # srqn_uidx, imm_inval_pkey, app, app_op, app_info, byte_cnt
			0102030405060708 1000abcd fff0 00 01  # timestamp, sop_drop_qpn, wqe_counter, signature, op_own
		`},
		{"a solicited datagram", entry{opcode: connectx.CQERespSendImm, solicited: true, userIndex: 1, imm: 0xdeadbeef, bytes: 44, flagsRQPN: grhInBuffer | 0x42, qpn: 3}, 0, `
			0000 0000 00000000 00000000 00000000
			00 00 00000000 0000
			10000042 00 00 0000
			00000001 deadbeef 00 00 0000 0000002c
			0000000000000000 00000003 0000 00 32
		`},
		{"an error", entry{opcode: connectx.CQEReqErr, userIndex: 1, syndrome: 0x15, vendor: 0x81, wqeOpcode: connectx.OpSend, qpn: 3, counter: 9, timestamp: 5, imm: 6}, 1, `
			00000000000000000000000000000000 00000000000000000000000000000000 # rsvd0
			00000001 00000000000000000000000000000000 0000                    # srqn, rsvd1
			81 15 0a000003 0009 00 d1                                         # vendor_err_synd, syndrome, s_wqe_opcode_qpn, wqe_counter, signature, op_own
		`},
	} {
		b := make([]byte, 64)
		c.e.put(b, c.owner)
		if want := unhex(t, c.want); !reflect.DeepEqual(b, want) {
			t.Errorf("%s: expected\n%x, got\n%x", c.name, want, b)
		}
	}
}

// libmlx5 makes the same status of a syndrome (mlx5_handle_error_cqe).
func TestSyndromes(t *testing.T) {
	back := map[uint8]ib.WCStatus{
		0x01: ib.WCLocLenErr, 0x02: ib.WCLocQPOpErr, 0x04: ib.WCLocProtErr, 0x05: ib.WCWRFlushErr, 0x06: ib.WCMWBindErr, 0x10: ib.WCBadRespErr,
		0x11: ib.WCLocAccessErr, 0x12: ib.WCRemInvReqErr, 0x13: ib.WCRemAccessErr, 0x14: ib.WCRemOpErr, 0x15: ib.WCRetryExcErr,
		0x16: ib.WCRNRRetryExcErr, 0x22: ib.WCRemAbortErr,
	}
	for s := ib.WCStatus(1); s < 30; s++ {
		got, known := back[connectx.Syndrome(s)]
		if known && got != s {
			t.Errorf("%v comes back as %v", s, got)
		}
		delete(back, connectx.Syndrome(s))
	}
	if len(back) > 0 {
		t.Errorf("no status has the syndromes %v", back)
	}
}
