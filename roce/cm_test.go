package roce

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// cmOf returns the CM messages of the fixture in order: rping's set-up and tear-down.
func cmOf(t testing.TB) []MAD {
	t.Helper()
	var out []MAD
	for _, frame := range roceFrames(t) {
		var f Frame
		var p Packet
		if err := f.ParseEthernet(frame); err != nil {
			t.Fatal(err)
		}
		payload, err := p.Decode(f.IB)
		if err != nil || !p.IsGSI() {
			continue
		}
		want := GSI(p.PSN, DefaultPKey)
		want.AckReq = p.AckReq // soft-RoCE sets it; on UD it means nothing
		if p != want {
			t.Errorf("a GSI datagram is %+v, want %+v", p, want)
		}
		m, err := ParseMAD(payload)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func zeros(n int) []byte { return make([]byte, n) }

// What rping -c (10.77.0.3) and rping -s (10.77.0.2, port 7174) sent over rdma_cm of Linux 6.1:
// each field has the value that the capture shows elsewhere or that rping asked for, and
// each message encodes as it was.
func TestRpingOverCM(t *testing.T) {
	msgs := cmOf(t)
	if len(msgs) != 5 {
		t.Fatalf("%d CM messages, want 5", len(msgs))
	}
	client, server := netip.MustParseAddr("10.77.0.3"), netip.MustParseAddr("10.77.0.2")
	const clientID, serverID, tid = 0x55b561ac, 0xf465766b, 0x2ac61b555
	path := CMPath{
		LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: GIDOf(client), RemoteGID: GIDOf(server), FlowLabel: 0xb44fc,
		HopLimit: 64, LocalAckTimeout: 19,
	}
	addrs := IPCM{SrcPort: 0xe04a, Src: client, Dst: server}
	private := zeros(REQPrivateBytes)
	if n := addrs.Put(private); n != IPCMBytes {
		t.Fatalf("IPCM of %d bytes", n)
	}
	wantREQ := REQ{
		LocalCommID: clientID, ServiceID: PortSpaceTCP.ServiceID(7174), LocalCAGUID: 0x505400fffe000003, LocalQPN: 0x16,
		ResponderResources: 1, InitiatorDepth: 1, RemoteCMTimeout: 20, TransportType: TransportRC, StartingPSN: 0x398466,
		LocalCMTimeout: 20, RetryCount: 7, PKey: DefaultPKey, PathMTU: MTUCode(1024), RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: path, Private: private,
	}
	wantREP := REP{
		LocalCommID: serverID, RemoteCommID: clientID, LocalQPN: 0x16, StartingPSN: 0x1ebc1b, ResponderResources: 1,
		InitiatorDepth: 1, TargetAckDelay: 15, RNRRetryCount: 7, LocalCAGUID: 0x505400fffe000002, Private: zeros(REPPrivateBytes),
	}
	wantRTU := RTU{LocalCommID: clientID, RemoteCommID: serverID, Private: zeros(RTUPrivateBytes)}
	wantDREQ := DREQ{LocalCommID: clientID, RemoteCommID: serverID, RemoteQPN: 0x16, Private: zeros(DREQPrivateBytes)}
	wantDREP := DREP{LocalCommID: serverID, RemoteCommID: clientID, Private: zeros(DREPPrivateBytes)}
	for i, c := range []struct {
		attr    Attribute
		got     interface{ Decode(MAD) error }
		want    any
		put     func(b []byte) (MAD, error)
		localID uint32
	}{
		{AttrREQ, new(REQ), &wantREQ, func(b []byte) (MAD, error) { return wantREQ.Put(b, tid) }, clientID},
		{AttrREP, new(REP), &wantREP, func(b []byte) (MAD, error) { return wantREP.Put(b, tid) }, serverID},
		{AttrRTU, new(RTU), &wantRTU, func(b []byte) (MAD, error) { return wantRTU.Put(b, tid) }, clientID},
		{AttrDREQ, new(DREQ), &wantDREQ, func(b []byte) (MAD, error) { return wantDREQ.Put(b, tid) }, clientID},
		{AttrDREP, new(DREP), &wantDREP, func(b []byte) (MAD, error) { return wantDREP.Put(b, tid) }, serverID},
	} {
		m := msgs[i]
		if m.Attribute() != c.attr || m.TransactionID() != tid || m.LocalCommID() != c.localID {
			t.Errorf("message %d: %v, transaction %#x, ID %#x", i, m.Attribute(), m.TransactionID(), m.LocalCommID())
		}
		if err := c.got.Decode(m); err != nil {
			t.Errorf("%v: %v", c.attr, err)
		}
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.attr, diff)
		}
		again, err := c.put(bytes.Repeat([]byte{0xee}, MADBytes))
		if err != nil || !bytes.Equal(again, m) {
			t.Errorf("%v encodes, %v, as\n%x, was\n%x", c.attr, err, again, m)
		}
	}
	if msgs[0].RemoteCommID() != 0 || msgs[1].RemoteCommID() != clientID {
		t.Errorf("remote IDs %#x, %#x", msgs[0].RemoteCommID(), msgs[1].RemoteCommID())
	}
	var ip IPCM
	rest, err := ip.Decode(wantREQ.Private)
	if err != nil || ip != addrs || len(rest) != REQPrivateBytes-IPCMBytes {
		t.Errorf("addresses %+v, %v, %d bytes follow", ip, err, len(rest))
	}
	if wantREQ.Primary.LocalGID.Addr() != client || MTUOf(wantREQ.PathMTU) != 1024 {
		t.Errorf("GID %v, MTU %d", wantREQ.Primary.LocalGID.Addr(), MTUOf(wantREQ.PathMTU))
	}
	space, port, ok := ServicePort(wantREQ.ServiceID)
	if space != PortSpaceTCP || port != 7174 || !ok {
		t.Errorf("service %#x: %#x, %d, %v", wantREQ.ServiceID, space, port, ok)
	}
	if _, _, ok := ServicePort(0x1000000000000001); ok {
		t.Error("any service ID is of RDMA IP CM")
	}
}

// MRA and REJ do not occur in the capture. These are written out by hand from tables
// 107 and 108 of IBA 12.6.
func TestMessagesByHand(t *testing.T) {
	head := func(attr string) string { return "01070203" + "00000000" + "1122334455667788" + attr + "000000000000" }
	for _, c := range []struct {
		name string
		put  func(b []byte) (MAD, error)
		want string // then zeros
	}{
		{"MRA", func(b []byte) (MAD, error) {
			return (&MRA{LocalCommID: 0xa1b2c3d4, RemoteCommID: 0x01020304, Message: AnswersREP, ServiceTimeout: 0x15, Private: []byte("hi")}).Put(b, 0x1122334455667788)
		}, head("0011") + "a1b2c3d4" + "01020304" + "40" + "a8" + "6869"},
		{"REJ", func(b []byte) (MAD, error) {
			return (&REJ{LocalCommID: 0xa1b2c3d4, RemoteCommID: 0x01020304, Message: AnswersNone, InfoLength: 3, Reason: RejInvalidServiceID, Info: []byte{7, 8, 9}, Private: []byte("no")}).Put(b, 0x1122334455667788)
		}, head("0012") + "a1b2c3d4" + "01020304" + "80" + "06" + "0008" + "070809" + strings.Repeat("00", 69) + "6e6f"},
		// Every field of a REQ and a REP that the capture has as zero.
		{"REQ", func(b []byte) (MAD, error) {
			p := CMPath{LocalLID: 0x0102, RemoteLID: 0x0304, FlowLabel: 0x56789, PacketRate: 0x2a, TrafficClass: 0xbc, HopLimit: 0xde, SL: 0xf, SubnetLocal: true, LocalAckTimeout: 0x11}
			return (&REQ{LocalQKey: 0x01020304, LocalEECN: 0x050607, RemoteEECN: 0x08090a, TransportType: TransportUC, FlowControl: true,
				RDCExists: true, SRQ: true, ExtendedTransport: 5, Alternate: p}).Put(b, 0x1122334455667788)
		}, head("0010") + strings.Repeat("00", 28) + "01020304" + "00000000" + "05060700" + "08090a03" + "00000000" + "0000" + "08" + "0d" +
			strings.Repeat("00", 44) + "01020304" + strings.Repeat("00", 32) + "56789" + "02a" + "bcde" + "f8" + "88"},
		{"REP", func(b []byte) (MAD, error) {
			return (&REP{LocalQKey: 0x01020304, LocalEECN: 0x050607, FailoverAccepted: 2, FlowControl: true, SRQ: true}).Put(b, 0x1122334455667788)
		}, head("0013") + "0000000000000000" + "01020304" + "00000000" + "05060700" + "00000000" + "0000" + "05" + "10"},
	} {
		want, err := hex.DecodeString(c.want)
		if err != nil {
			t.Fatal(c.name, err)
		}
		want = append(want, zeros(MADBytes-len(want))...)
		got, err := c.put(bytes.Repeat([]byte{0xee}, 300))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%x, want\n%x", c.name, err, got, want)
		}
	}
}

func genCMPath(t *rapid.T) CMPath {
	u8 := func(bits int) uint8 { return uint8(rapid.UintRange(0, 1<<bits-1).Draw(t, "u8")) }
	return CMPath{
		LocalLID: rapid.Uint16().Draw(t, "LID"), RemoteLID: rapid.Uint16().Draw(t, "LID"),
		LocalGID: GID(genBytes(t, 16, 16)), RemoteGID: GID(genBytes(t, 16, 16)),
		FlowLabel: rapid.Uint32Range(0, 1<<20-1).Draw(t, "label"), PacketRate: u8(6), TrafficClass: u8(8), HopLimit: u8(8),
		SL: u8(4), SubnetLocal: rapid.Bool().Draw(t, "flag"), LocalAckTimeout: u8(5),
	}
}

// Every message reads back as it was written.
func TestMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u8 := func(bits int) uint8 { return uint8(rapid.UintRange(0, 1<<bits-1).Draw(t, "u8")) }
		u16 := func() uint16 { return rapid.Uint16().Draw(t, "u16") }
		u32 := func() uint32 { return rapid.Uint32().Draw(t, "u32") }
		u64 := func() uint64 { return rapid.Uint64().Draw(t, "u64") }
		flag := func() bool { return rapid.Bool().Draw(t, "flag") }
		private := func(n int) []byte { return genBytes(t, n, n) }
		type message interface {
			Put(b []byte, tid uint64) (MAD, error)
			Decode(m MAD) error
		}
		pair := [2]message{}
		switch rapid.SampledFrom([]Attribute{AttrREQ, AttrREP, AttrRTU, AttrDREQ, AttrDREP, AttrMRA, AttrREJ, AttrSIDRREQ, AttrSIDRREP}).Draw(t, "message") {
		case AttrREQ:
			pair = [2]message{&REQ{
				u32(), u64(), u64(), u32(), genU24(t, "QPN"), u8(8), genU24(t, "EECN"), u8(8), genU24(t, "EECN"), u8(5), u8(2), flag(),
				units.MakePSN(u32()), u8(5), u8(3), u16(), u8(4), flag(), u8(3), u8(4), flag(), u8(3), genCMPath(t), genCMPath(t), private(REQPrivateBytes),
			}, new(REQ)}
		case AttrREP:
			pair = [2]message{&REP{
				u32(), u32(), u32(), genU24(t, "QPN"), genU24(t, "EECN"), units.MakePSN(u32()), u8(8), u8(8), u8(5), u8(2), flag(), u8(3), flag(),
				u64(), private(REPPrivateBytes),
			}, new(REP)}
		case AttrRTU:
			pair = [2]message{&RTU{u32(), u32(), private(RTUPrivateBytes)}, new(RTU)}
		case AttrDREQ:
			pair = [2]message{&DREQ{u32(), u32(), genU24(t, "QPN"), private(DREQPrivateBytes)}, new(DREQ)}
		case AttrDREP:
			pair = [2]message{&DREP{u32(), u32(), private(DREPPrivateBytes)}, new(DREP)}
		case AttrMRA:
			pair = [2]message{&MRA{u32(), u32(), u8(2), u8(5), private(MRAPrivateBytes)}, new(MRA)}
		case AttrREJ:
			pair = [2]message{&REJ{u32(), u32(), u8(2), u8(7), RejectReason(u16()), private(REJInfoBytes), private(REJPrivateBytes)}, new(REJ)}
		case AttrSIDRREQ:
			pair = [2]message{&SIDRREQ{u32(), u16(), u64(), private(SIDRREQPrivateBytes)}, new(SIDRREQ)}
		case AttrSIDRREP:
			pair = [2]message{&SIDRREP{
				u32(), SIDRStatus(u8(8)), u8(8), genU24(t, "QPN"), u64(), u32(), private(SIDRREPInfoBytes), private(SIDRREPPrivateBytes),
			}, new(SIDRREP)}
		}
		tid := u64()
		m, err := pair[0].Put(make([]byte, MADBytes), tid)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseMAD(m); err != nil || m.TransactionID() != tid {
			t.Fatalf("%v, transaction %#x, want %#x", err, m.TransactionID(), tid)
		}
		if err := pair[1].Decode(m); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestFieldsThatDoNotFit(t *testing.T) {
	b := make([]byte, MADBytes)
	for want, put := range map[string]func() (MAD, error){
		"roce: REQ: LocalQPN is 0x1000000, expected at most 24 bits":           func() (MAD, error) { return (&REQ{LocalQPN: 1 << 24}).Put(b, 0) },
		"roce: REQ: StartingPSN is 0x1000000, expected at most 24 bits":        func() (MAD, error) { return (&REQ{StartingPSN: 1 << 24}).Put(b, 0) },
		"roce: REQ: Alternate.FlowLabel is 0x100000, expected at most 20 bits": func() (MAD, error) { return (&REQ{Alternate: CMPath{FlowLabel: 1 << 20}}).Put(b, 0) },
		"roce: REQ: Private has 93 bytes, expected at most 92":                 func() (MAD, error) { return (&REQ{Private: zeros(93)}).Put(b, 0) },
		"roce: REP: RNRRetryCount is 0x8, expected at most 3 bits":             func() (MAD, error) { return (&REP{RNRRetryCount: 8, Private: zeros(999)}).Put(b, 0) },
		"roce: REJ: Info has 73 bytes, expected at most 72":                    func() (MAD, error) { return (&REJ{Info: zeros(73)}).Put(b, 0) },
		"roce: MRA: ServiceTimeout is 0x20, expected at most 5 bits":           func() (MAD, error) { return (&MRA{ServiceTimeout: 32}).Put(b, 0) },
		"roce: DREQ: RemoteQPN is 0xffffffff, expected at most 24 bits":        func() (MAD, error) { return (&DREQ{RemoteQPN: 1<<32 - 1}).Put(b, 0) },
		"roce: RTU: Private has 225 bytes, expected at most 224":               func() (MAD, error) { return (&RTU{Private: zeros(225)}).Put(b, 0) },
		"roce: DREP: Private has 225 bytes, expected at most 224":              func() (MAD, error) { return (&DREP{Private: zeros(225)}).Put(b, 0) },
		"roce: REQ: Primary.LocalAckTimeout is 0x20, expected at most 5 bits":  func() (MAD, error) { return (&REQ{Primary: CMPath{LocalAckTimeout: 32}}).Put(b, 0) },
		"roce: REQ: ExtendedTransport is 0x8, expected at most 3 bits":         func() (MAD, error) { return (&REQ{ExtendedTransport: 8}).Put(b, 0) },
		"roce: REP: LocalEECN is 0x1000000, expected at most 24 bits":          func() (MAD, error) { return (&REP{LocalEECN: 1 << 24}).Put(b, 0) },
		"roce: REJ: InfoLength is 0x80, expected at most 7 bits":               func() (MAD, error) { return (&REJ{InfoLength: 128}).Put(b, 0) },
		"roce: REQ: MaxCMRetries is 0x10, expected at most 4 bits":             func() (MAD, error) { return (&REQ{MaxCMRetries: 16}).Put(b, 0) },
		"roce: REQ: Primary.SL is 0x10, expected at most 4 bits":               func() (MAD, error) { return (&REQ{Primary: CMPath{SL: 16}}).Put(b, 0) },
		"roce: REQ: Primary.PacketRate is 0x40, expected at most 6 bits":       func() (MAD, error) { return (&REQ{Primary: CMPath{PacketRate: 64}}).Put(b, 0) },
		"roce: MRA: Message is 0x4, expected at most 2 bits":                   func() (MAD, error) { return (&MRA{Message: 4}).Put(b, 0) },
		"roce: REP: TargetAckDelay is 0x20, expected at most 5 bits":           func() (MAD, error) { return (&REP{TargetAckDelay: 32}).Put(b, 0) },
		"roce: REQ: RetryCount is 0x9, expected at most 3 bits":                func() (MAD, error) { return (&REQ{RetryCount: 9}).Put(b, 0) },
		"roce: REQ: PathMTU is 0x10, expected at most 4 bits":                  func() (MAD, error) { return (&REQ{PathMTU: 16}).Put(b, 0) },
		"roce: REQ: TransportType is 0x4, expected at most 2 bits":             func() (MAD, error) { return (&REQ{TransportType: 4}).Put(b, 0) },
		"roce: REQ: RemoteCMTimeout is 0x20, expected at most 5 bits":          func() (MAD, error) { return (&REQ{RemoteCMTimeout: 32}).Put(b, 0) },
		"roce: REQ: LocalCMTimeout is 0xff, expected at most 5 bits":           func() (MAD, error) { return (&REQ{LocalCMTimeout: 255}).Put(b, 0) },
		"roce: REQ: RNRRetryCount is 0x8, expected at most 3 bits":             func() (MAD, error) { return (&REQ{RNRRetryCount: 8}).Put(b, 0) },
		"roce: REP: FailoverAccepted is 0x4, expected at most 2 bits":          func() (MAD, error) { return (&REP{FailoverAccepted: 4}).Put(b, 0) },
		"roce: REQ: RemoteEECN is 0x1000000, expected at most 24 bits":         func() (MAD, error) { return (&REQ{RemoteEECN: 1 << 24}).Put(b, 0) },
	} {
		if m, err := put(); err == nil || err.Error() != want || m == nil {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestMalformedMADs(t *testing.T) {
	req := cmOf(t)[0]
	change := func(i int, v byte) []byte {
		b := bytes.Clone(req)
		b[i] = v
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"as sent": {req, nil}, "short": {req[:255], BadMADLength}, "long": {append(bytes.Clone(req), 0), BadMADLength},
		"nothing": {nil, BadMADLength}, "base version": {change(0, 2), BadMADHeader}, "class": {change(1, 3), NotCM},
		"class version": {change(2, 1), BadMADHeader}, "method": {change(3, 0x81), BadMADHeader},
		"LAP": {change(17, 0x19), UnknownCMMessage}, "attribute 0": {change(17, 0), UnknownCMMessage},
	} {
		if _, err := ParseMAD(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := new(REP).Decode(req); !errors.Is(err, UnknownCMMessage) {
		t.Errorf("a REQ read as a REP: %v", err)
	}
	if err := new(REQ).Decode(req[:100]); !errors.Is(err, BadMADLength) {
		t.Errorf("half a REQ: %v", err)
	}
}

func TestIPCM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6 := rapid.Bool().Draw(t, "v6")
		h := IPCM{Version: rapid.Uint8Range(0, 15).Draw(t, "version"), SrcPort: rapid.Uint16().Draw(t, "port"), Src: genAddr(t, v6), Dst: genAddr(t, v6)}
		private := genBytes(t, 60, 60)
		tail := bytes.Clone(private[IPCMBytes:])
		if n := h.Put(private); n != IPCMBytes {
			t.Fatalf("%d bytes", n)
		}
		var got IPCM
		rest, err := got.Decode(private)
		if err != nil || got != h || !bytes.Equal(rest, tail) {
			t.Fatalf("%+v reads back as %+v, %v", h, got, err)
		}
	})
	b := make([]byte, 92)
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")
	for _, h := range []IPCM{{Src: four, Dst: six}, {Src: six, Dst: four}, {}} {
		if n := h.Put(b); n != 0 || !bytes.Equal(b, make([]byte, 92)) {
			t.Errorf("%+v: wrote %d bytes", h, n)
		}
	}
	for name, b := range map[string][]byte{
		"short": append([]byte{0, 0x40}, zeros(33)...), "version 1": append([]byte{0x10, 0x40}, zeros(90)...),
		"IP version 5": append([]byte{0, 0x50}, zeros(90)...), "nothing": nil,
	} {
		if _, err := new(IPCM).Decode(b); !errors.Is(err, BadIPCM) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMTUCodes(t *testing.T) {
	for code, mtu := range map[uint8]ib.MTU{1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096} {
		if MTUCode(mtu) != code || MTUOf(code) != mtu {
			t.Errorf("MTU %d: code %d, back %d", mtu, MTUCode(mtu), MTUOf(code))
		}
	}
	for _, mtu := range []ib.MTU{0, -1, 1000, 1500, 8192} {
		if MTUCode(mtu) != 0 {
			t.Errorf("MTU %d has code %d", mtu, MTUCode(mtu))
		}
	}
	for _, code := range []uint8{0, 6, 15, 255} {
		if MTUOf(code) != 0 {
			t.Errorf("code %d is MTU %d", code, MTUOf(code))
		}
	}
}

func TestCMNames(t *testing.T) {
	for got, want := range map[string]string{
		AttrREQ.String(): "REQ", AttrDREP.String(): "DREP", AttrMRA.String(): "MRA", Attribute(0x19).String(): "Attribute(0x19)",
		RejConsumer.String(): "refused by the application", RejectReason(99).String(): "RejectReason(99)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
