package wirestamp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
)

// unattached returns a program that no interface has.
func unattached(t testing.TB, set settings) *stamper {
	t.Helper()
	watchertest.NeedBPF(t)
	set.attach = func(int, tchook.Programs) (tchook.Attachment, error) { return tchook.Detached(), nil }
	s, err := newStamper("lo", set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// packetOf writes a frame field by field as the standards have them: Ethernet with
// tags, IP, UDP, and the transport packets behind each other.
func packetOf(src, dst netip.Addr, port uint16, tags int, ib ...[]byte) []byte {
	b := make([]byte, 12, 512)
	for i := range tags {
		b = append(b, []byte{0x81, 0, 0x20, byte(100 + i)}...)
	}
	var body []byte
	for _, p := range ib {
		body = append(body, p...)
	}
	return watchertest.AppendIP(b, src, dst, 0xc123, port, body)
}

var (
	transport     = watchertest.Transport
	here4, there4 = watchertest.Here4, watchertest.There4
	here6, there6 = watchertest.Here6, watchertest.There6
	aethACK       = watchertest.AETHACK
)

const (
	peerQPN, localQPN = watchertest.PeerQPN, watchertest.LocalQPN
	connID            = 77
)

// reth returns a header that asks for a READ of n bytes.
func reth(n uint32) []byte { return binary.BigEndian.AppendUint32(make([]byte, 12), n) }

func TestProgram(t *testing.T) {
	s := unattached(t, defaults)
	for _, peer := range []netip.Addr{there4, there6} {
		if err := s.Register(connID, overlay.Connection{Peer: peer, PeerQPN: peerQPN, LocalQPN: localQPN}); err != nil {
			t.Fatal(err)
		}
	}
	out := func(op ib.Opcode, psn uint32, more ...byte) []byte { return transport(op, peerQPN, psn, more...) }
	in := func(op ib.Opcode, psn uint32, more ...byte) []byte { return transport(op, localQPN, psn, more...) }
	sent := func(op ib.Opcode, psn, length uint32) stamperEvent {
		return stamperEvent{Id: connID, Psn: psn, Opcode: uint8(op), Length: length}
	}
	came := func(op ib.Opcode, psn uint32, syndrome uint8) stamperEvent {
		return stamperEvent{Id: connID, Psn: psn, Opcode: uint8(op), Syndrome: syndrome, Arriving: 1}
	}
	leaves := func(b ...[]byte) []byte { return packetOf(here4, there4, 4791, 0, b...) }
	comes := func(b ...[]byte) []byte { return packetOf(there4, here4, 4791, 0, b...) }
	pad := make([]byte, 32)
	cases := []struct {
		name   string
		packet []byte
		gso    uint32
		out    []stamperEvent // leaving
		in     []stamperEvent // arriving
	}{
		{name: "write", packet: leaves(out(ib.WriteOnly, 0xfffffe, pad...)), out: []stamperEvent{sent(ib.WriteOnly, 0xfffffe, 0)}},
		{name: "write v6", packet: packetOf(here6, there6, 4791, 0, out(ib.WriteLastImm, 1, pad...)), out: []stamperEvent{sent(ib.WriteLastImm, 1, 0)}},
		{name: "tag", packet: packetOf(here4, there4, 4791, 1, out(ib.SendFirst, 2)), out: []stamperEvent{sent(ib.SendFirst, 2, 0)}},
		{name: "two tags v6", packet: packetOf(here6, there6, 4791, 2, out(ib.SendOnlyInv, 2, pad...)), out: []stamperEvent{sent(ib.SendOnlyInv, 2, 0)}},
		{name: "read", packet: leaves(out(ib.ReadRequest, 3, reth(70000)...)), out: []stamperEvent{sent(ib.ReadRequest, 3, 70000)}},
		{name: "atomic", packet: leaves(out(ib.FetchAdd, 4, pad...)), out: []stamperEvent{sent(ib.FetchAdd, 4, 0)}},
		{name: "ack", packet: comes(in(ib.Acknowledge, 5, aethACK...)), in: []stamperEvent{came(ib.Acknowledge, 5, 0x1f)}},
		{name: "nak v6", packet: packetOf(there6, here6, 4791, 1, in(ib.Acknowledge, 5, 0x60, 0, 0, 1)), in: []stamperEvent{came(ib.Acknowledge, 5, 0x60)}},
		{name: "response", packet: comes(in(ib.ReadResponseLast, 6, aethACK...)), in: []stamperEvent{came(ib.ReadResponseLast, 6, 0x1f)}},
		{name: "atomic answer", packet: comes(in(ib.AtomicAcknowledge, 7, append(aethACK, pad...)...)), in: []stamperEvent{came(ib.AtomicAcknowledge, 7, 0x1f)}},
		{
			name: "segments", gso: 48, // what segmentation offload will cut: first, two in the middle, last
			packet: leaves(out(ib.WriteFirst, 8, pad...), out(ib.WriteMiddle, 9, pad...), out(ib.WriteMiddle, 10, pad...), out(ib.WriteLast, 11, pad[:8]...)),
			out:    []stamperEvent{sent(ib.WriteFirst, 8, 0), sent(ib.WriteLast, 11, 0)},
		},
		{
			name: "acks put together", gso: 20,
			packet: comes(in(ib.Acknowledge, 8, aethACK...), in(ib.Acknowledge, 9, aethACK...), transport(ib.Acknowledge, 5, 9, aethACK...), in(ib.Acknowledge, 10, aethACK...)),
			in:     []stamperEvent{came(ib.Acknowledge, 8, 0x1f), came(ib.Acknowledge, 9, 0x1f), came(ib.Acknowledge, 10, 0x1f)},
		},

		// And what is nobody's concern.
		{name: "middle", packet: leaves(out(ib.WriteMiddle, 1, pad...))},
		{name: "middle response", packet: comes(in(ib.ReadResponseMiddle, 1, pad...))},
		{name: "answer that leaves", packet: leaves(out(ib.Acknowledge, 1, aethACK...))},
		{name: "request that comes", packet: comes(in(ib.WriteOnly, 1, pad...))},
		{name: "another queue pair", packet: leaves(transport(ib.WriteOnly, peerQPN+1, 1, pad...))},
		{name: "another peer", packet: packetOf(here4, here4, 4791, 0, out(ib.WriteOnly, 1, pad...))},
		{name: "another port", packet: packetOf(here4, there4, 4790, 0, out(ib.WriteOnly, 1, pad...))},
		{name: "UC", packet: leaves(out(ib.ServiceUC|ib.WriteOnly, 1, pad...))},
		{name: "CNP", packet: comes(in(ib.CNP, 0, pad[:16]...))},
		{name: "cut off", packet: leaves(out(ib.WriteOnly, 1)[:11])},
		{name: "READ cut off", packet: leaves(out(ib.ReadRequest, 1, reth(1)...)[:27])},
		{name: "fragment", packet: func() []byte { b := leaves(out(ib.WriteOnly, 1, pad...)); b[20] = 0x20; return b }()},
		{name: "TCP", packet: func() []byte { b := leaves(out(ib.WriteOnly, 1, pad...)); b[23] = 6; return b }()},
		{name: "ARP", packet: func() []byte { b := leaves(out(ib.WriteOnly, 1, pad...)); b[13] = 6; return b }()},
		{name: "three tags", packet: packetOf(here4, there4, 4791, 3, out(ib.WriteOnly, 1, pad...))},
	}
	for _, c := range cases {
		for _, dir := range []struct {
			name string
			p    *ebpf.Program
			want []stamperEvent
		}{{"leaving", s.objects.Leaving, c.out}, {"arriving", s.objects.Arriving, c.in}} {
			o := &ebpf.RunOptions{Data: c.packet}
			if c.gso > 0 {
				o.Context = &skb{GSOSize: c.gso, GSOSegs: 2}
			}
			before := watcher.ReadClock()
			ret, err := dir.p.Run(o)
			after := watcher.ReadClock()
			if err != nil || int32(ret) != -1 {
				t.Fatalf("%s, %s: %d, %v; want -1, so that the next program has its turn", c.name, dir.name, int32(ret), err)
			}
			var got []stamperEvent
			s.Take(func(e *stamperEvent) {
				if e.Ns < before || e.Ns > after {
					t.Errorf("%s: stamped at %d, which is not from %d to %d", c.name, e.Ns, before, after)
				}
				got = append(got, *e)
			})
			if d := cmp.Diff(dir.want, got, cmpopts.IgnoreFields(stamperEvent{}, "Ns", "_")); d != "" {
				t.Errorf("%s, %s: (-want +got)\n%s", c.name, dir.name, d)
			}
		}
	}
	if n := s.lost(); n != 0 {
		t.Errorf("%d lost", n)
	}
}

// skb is the part of struct __sk_buff up to gso_size, for test runs.
type skb struct {
	_       [164]byte
	GSOSegs uint32
	_       [8]byte
	GSOSize uint32
}

func TestUnregister(t *testing.T) {
	s := unattached(t, defaults)
	c := overlay.Connection{Peer: there4, PeerQPN: peerQPN, LocalQPN: localQPN}
	packet := packetOf(here4, there4, 4791, 0, transport(ib.SendOnly, peerQPN, 1))
	count := func() (n int) {
		if _, err := s.objects.Leaving.Run(&ebpf.RunOptions{Data: packet}); err != nil {
			t.Fatal(err)
		}
		s.Take(func(e *stamperEvent) { n = int(e.Id) })
		return n
	}
	for _, id := range []uint32{3, 4} {
		if err := s.Register(id, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Unregister(3, c); err != nil { // the number is another connection's by now
		t.Fatal(err)
	}
	if got := count(); got != 4 {
		t.Errorf("stamped for %d, want 4", got)
	}
	if err := s.Unregister(4, c); err != nil {
		t.Fatal(err)
	}
	if err := s.Unregister(4, c); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if got := count(); got != 0 {
		t.Errorf("stamped for %d, want nobody", got)
	}
}

// A full ring loses stamps, counts them, and goes on when it is read.
func TestRingOverflow(t *testing.T) {
	set := defaults
	set.ring = os.Getpagesize()
	s := unattached(t, set)
	if err := s.Register(1, overlay.Connection{Peer: there4, PeerQPN: peerQPN, LocalQPN: localQPN}); err != nil {
		t.Fatal(err)
	}
	const n = 1000
	read := func() (got int) {
		last := int64(-1)
		s.Take(func(e *stamperEvent) {
			if int64(e.Psn) <= last {
				t.Errorf("PSN %d after %d", e.Psn, last)
			}
			last = int64(e.Psn)
			got++
		})
		return got
	}
	for round := range uint64(3) {
		for i := range uint32(n) {
			p := packetOf(here4, there4, 4791, 0, transport(ib.SendOnly, peerQPN, i))
			if _, err := s.objects.Leaving.Run(&ebpf.RunOptions{Data: p}); err != nil {
				t.Fatal(err)
			}
		}
		lost := s.lost()
		got := read()
		if want := n * (round + 1); uint64(got)*(round+1)+lost != want || got == 0 || lost == 0 {
			t.Fatalf("of %d stamps %d came in the last of %d rounds and %d were lost", want, got, round+1, lost)
		}
	}
}

func TestFlowsAreLimited(t *testing.T) {
	set := defaults
	set.flows = 4
	s := unattached(t, set)
	for i := range uint32(2) {
		if err := s.Register(i, overlay.Connection{Peer: there4, PeerQPN: i, LocalQPN: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Register(2, overlay.Connection{Peer: there4, PeerQPN: 2, LocalQPN: 2}); err == nil {
		t.Error("a third connection found room where there is some for two")
	}
}

// BenchmarkProgram gives the kernel's own measure of the time that a packet takes.
func BenchmarkProgram(b *testing.B) {
	s := unattached(b, defaults)
	if err := s.Register(1, overlay.Connection{Peer: there4, PeerQPN: peerQPN, LocalQPN: localQPN}); err != nil {
		b.Fatal(err)
	}
	pad := make([]byte, 64)
	for _, c := range []struct {
		name   string
		packet []byte
	}{
		{"stamped", packetOf(here4, there4, 4791, 0, transport(ib.WriteOnly, peerQPN, 1, pad...))},
		{"middle", packetOf(here4, there4, 4791, 0, transport(ib.WriteMiddle, peerQPN, 1, pad...))},
		{"other traffic", packetOf(here4, there4, 443, 0, pad)},
	} {
		b.Run(c.name, func(b *testing.B) {
			sum := time.Duration(0)
			for b.Loop() {
				_, each, err := s.objects.Leaving.Benchmark(c.packet, 10000, nil)
				if err != nil {
					b.Fatal(err)
				}
				sum += each
				s.Take(func(*stamperEvent) {})
			}
			b.ReportMetric(float64(sum.Nanoseconds())/float64(b.N), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}
