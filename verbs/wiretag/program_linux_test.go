package wiretag

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
)

var forms = []telemetry.DelayForm{telemetry.Wide, telemetry.Compact, telemetry.Value}

// unattached returns a program that no interface has.
func unattached(t testing.TB, cfg Config) *tagger {
	t.Helper()
	watchertest.NeedBPF(t)
	set := defaults
	set.ring, set.flows = 1<<16, 16
	set.attach = func(int, tchook.Programs) (tchook.Attachment, error) { return tchook.Detached(), nil }
	p, err := newTagger("lo", &cfg, set)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// packetOf writes a frame field by field as the standards have them. Its destination is
// the loopback interface, in whose place the kernel runs programs for tests.
func packetOf(src, dst netip.Addr, sport, dport uint16, body []byte) []byte {
	b := []byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1}
	return watchertest.AppendIP(b, src, dst, sport, dport, body)
}

var (
	transport     = watchertest.Transport
	here4, there4 = watchertest.Here4, watchertest.There4
	here6, there6 = watchertest.Here6, watchertest.There6
	aethACK       = watchertest.AETHACK
)

const (
	peerQPN, localQPN = watchertest.PeerQPN, watchertest.LocalQPN
	connID            = 7
)

// run hands a program a frame and returns what became of it.
func run(t interface{ Fatalf(string, ...any) }, p *ebpf.Program, frame []byte) (verdict int32, out []byte) {
	o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
	ret, err := p.Run(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return int32(ret), o.DataOut
}

func known(t testing.TB, p *tagger, flags uint32) {
	t.Helper()
	for i, peer := range []netip.Addr{there4, there6} {
		must(t, p.Register(uint32(connID+i), overlay.Connection{Peer: peer, PeerQPN: peerQPN, LocalQPN: localQPN}, flags))
	}
}

func events(p *tagger) (all []taggerEvent) {
	p.Take(func(e *taggerEvent) { all = append(all, *e) })
	return all
}

// The program takes off, puts on and reflects what package telemetry writes: in every
// form, for any values, over IPv4 and IPv6.
func TestTagsAreTelemetrys(t *testing.T) {
	for _, form := range forms {
		t.Run(form.String(), func(t *testing.T) {
			cfg := DefaultConfig(form)
			cfg.Format.EtherType = 0x9876 // another than it has by itself
			f := &cfg.Format
			p := unattached(t, cfg)
			known(t, p, flagTags|flagReports)
			rapid.Check(t, func(t *rapid.T) {
				tag := func(name string) telemetry.DelayTag {
					return telemetry.DelayTag{
						Code:    rapid.Uint32Range(0, form.MaxCode()).Draw(t, name),
						Locator: rapid.Uint16Range(0, 0x3f).Draw(t, name+" locator"), Frozen: rapid.Bool().Draw(t, name+" frozen"),
					}
				}
				here, there, id := here4, there4, uint32(connID)
				if rapid.Bool().Draw(t, "v6") {
					here, there, id = here6, there6, connID+1
				}
				comes := func(b []byte) []byte { return packetOf(there, here, 0xc123, 4791, b) }
				leaves := func(b []byte) []byte { return packetOf(here, there, 0xc123, 4791, b) }

				// Requests that arrive, and the acknowledgement that leaves.
				var largest telemetry.DelayTag
				for i := range rapid.IntRange(1, 4).Draw(t, "requests") {
					x := tag("request")
					plain := comes(transport(ib.WriteMiddle, localQPN, uint32(i), make([]byte, rapid.IntRange(0, 100).Draw(t, "payload"))...))
					verdict, out := run(t, p.objects.Arriving, f.Append(nil, plain, x, nil))
					if verdict != -1 || !bytes.Equal(out, plain) {
						t.Fatalf("verdict %d, and of the request is left\n%x, want\n%x", verdict, out, plain)
					}
					if i == 0 || x.Code > largest.Code {
						largest = x
					}
				}
				ack := leaves(transport(ib.Acknowledge, peerQPN, 3, aethACK...))
				if verdict, out := run(t, p.objects.Leaving, ack); verdict != -1 || !bytes.Equal(out, f.Append(nil, ack, telemetry.DelayTag{}, &largest)) {
					t.Fatalf("verdict %d, and the acknowledgement left as\n%x, want\n%x", verdict, out, f.Append(nil, ack, telemetry.DelayTag{}, &largest))
				}
				// Another one returns the same, until there is something newer.
				if _, out := run(t, p.objects.Leaving, ack); !bytes.Equal(out, f.Append(nil, ack, telemetry.DelayTag{}, &largest)) {
					t.Fatalf("the second acknowledgement left as\n%x", out)
				}
				newer := tag("newer")
				run(t, p.objects.Arriving, f.Append(nil, comes(transport(ib.WriteOnly, localQPN, 4)), newer, nil))
				if _, out := run(t, p.objects.Leaving, ack); !bytes.Equal(out, f.Append(nil, ack, telemetry.DelayTag{}, &newer)) {
					t.Fatalf("the third acknowledgement left as\n%x", out)
				}
				// A request without a tag asks for none.
				run(t, p.objects.Arriving, comes(transport(ib.WriteOnly, localQPN, 4)))
				if _, out := run(t, p.objects.Leaving, ack); !bytes.Equal(out, ack) {
					t.Fatalf("an acknowledgement of a request without a tag left as\n%x", out)
				}

				// A request that leaves, and the acknowledgement that arrives.
				request := leaves(transport(ib.WriteOnly, peerQPN, 9, 1, 2, 3))
				if verdict, out := run(t, p.objects.Leaving, request); verdict != -1 || !bytes.Equal(out, f.Append(nil, request, telemetry.DelayTag{}, nil)) {
					t.Fatalf("verdict %d, and the request left as\n%x", verdict, out)
				}
				way, back := tag("way"), tag("back")
				plain := comes(transport(ib.Acknowledge, localQPN, 9, aethACK...))
				if verdict, out := run(t, p.objects.Arriving, f.Append(nil, plain, way, &back)); verdict != -1 || !bytes.Equal(out, plain) {
					t.Fatalf("verdict %d, and of the acknowledgement is left\n%x", verdict, out)
				}
				got := events(p)
				if len(got) != 1 || got[0].Id != id || got[0].Psn != 9 || got[0].Opcode != uint8(ib.Acknowledge) || got[0].Syndrome != 0x1f {
					t.Fatalf("%+v", got)
				}
				hop, ok := delayOf(f, got[0].Back)
				reverse, ok2 := delayOf(f, got[0].Way)
				if !ok || !ok2 || hop != f.Delay(back.Code) || reverse != f.Delay(way.Code) {
					t.Fatalf("delays %v and %v, want %v and %v", hop, reverse, f.Delay(back.Code), f.Delay(way.Code))
				}
			})
		})
	}
}

// What is odd loses its tags and reports nothing; what is nobody's stays as it is.
func TestOddFrames(t *testing.T) {
	for _, form := range forms {
		t.Run(form.String(), func(t *testing.T) {
			cfg := DefaultConfig(form)
			f := &cfg.Format
			p := unattached(t, cfg)
			known(t, p, flagTags|flagReports)
			put := func(frame []byte, tags ...telemetry.DelayTag) []byte {
				b := append([]byte(nil), frame[:12]...)
				for _, x := range tags {
					var one [telemetry.WideBytes]byte
					b = append(b, one[:f.Put(one[:], x)]...)
				}
				return append(b, frame[12:]...)
			}
			forward, echo := telemetry.DelayTag{Code: 5}, telemetry.DelayTag{Code: 6, Reflected: true}
			ack := packetOf(there4, here4, 0xc123, 4791, transport(ib.Acknowledge, localQPN, 9, aethACK...))
			tcp := bytes.Clone(ack)
			tcp[23] = 6
			arp := bytes.Clone(ack)
			arp[13] = 6
			elsewhere := bytes.Clone(ack)
			elsewhere[0] = 2
			cases := []struct {
				name      string
				in, out   []byte
				reports   int
				forward   uint32
				reflected uint32
			}{
				{"plain", ack, ack, 0, 0, 0},
				{"a tag alone", put(ack, forward), ack, 1, 5, 0},
				{"a reflection alone", put(ack, echo), ack, 1, 0, 6},
				{"two forward", put(ack, forward, forward), ack, 0, 0, 0},
				{"the wrong order", put(ack, echo, forward), ack, 0, 0, 0},
				{"three", put(ack, forward, echo, echo), put(ack, echo), 0, 0, 0},
				{"another host's", put(elsewhere, forward), put(elsewhere, forward), 0, 0, 0},
				{"TCP", put(tcp, forward), tcp, 0, 0, 0},
				{"ARP", put(arp, forward, echo), arp, 0, 0, 0},
				{"cut in the tag", put(ack, forward)[:15], put(ack, forward)[:15], 0, 0, 0},
				{"cut in IP", put(ack, forward)[:12+f.Form.Bytes()+2+18], ack[:14+18], 0, 0, 0},
				{"cut in BTH", put(ack, forward)[:12+f.Form.Bytes()+2+28+5], ack[:14+28+5], 0, 0, 0},
			}
			if form != telemetry.Value {
				other := put(ack, forward)
				if form == telemetry.Wide {
					other[16] = 0x30 // signal 3
				} else {
					other[14] = 3 << 5
				}
				cases = append(cases, struct {
					name      string
					in, out   []byte
					reports   int
					forward   uint32
					reflected uint32
				}{"another signal", other, ack, 0, 0, 0})
			}
			for _, c := range cases {
				verdict, out := run(t, p.objects.Arriving, c.in)
				if verdict != -1 || !bytes.Equal(out, c.out) {
					t.Errorf("%s: verdict %d, left over\n%x, want\n%x", c.name, verdict, out, c.out)
				}
				got := events(p)
				if len(got) != c.reports {
					t.Errorf("%s: %d events", c.name, len(got))
				}
				for _, e := range got {
					way, _ := delayOf(f, e.Way)
					back, _ := delayOf(f, e.Back)
					if way != f.Delay(c.forward) || back != f.Delay(c.reflected) {
						t.Errorf("%s: %v and %v", c.name, way, back)
					}
				}
			}
			// Leaving: what is not a registered connection's, and what has tags.
			for name, b := range map[string][]byte{
				"another queue pair": packetOf(here4, there4, 0xc123, 4791, transport(ib.WriteOnly, peerQPN+1, 1)),
				"another peer":       packetOf(here4, here4, 0xc123, 4791, transport(ib.WriteOnly, peerQPN, 1)),
				"another port":       packetOf(here4, there4, 0xc123, 4790, transport(ib.WriteOnly, peerQPN, 1)),
				"UC":                 packetOf(here4, there4, 0xc123, 4791, transport(ib.ServiceUC|ib.WriteOnly, peerQPN, 1)),
				"CNP":                packetOf(here4, there4, 0xc123, 4791, transport(ib.CNP, peerQPN, 0, make([]byte, 16)...)),
				"tagged":             put(packetOf(here4, there4, 0xc123, 4791, transport(ib.WriteOnly, peerQPN, 1)), forward),
				"cut":                packetOf(here4, there4, 0xc123, 4791, transport(ib.WriteOnly, peerQPN, 1))[:50],
			} {
				if verdict, out := run(t, p.objects.Leaving, b); verdict != -1 || !bytes.Equal(out, b) {
					t.Errorf("%s: verdict %d, left as\n%x, was\n%x", name, verdict, out, b)
				}
			}
			if n := p.counts().Failed; n != 0 {
				t.Errorf("%d failures", n)
			}
		})
	}
}

// The data of a READ comes with the responses: their tags, up to the last one, are the
// path's.
func TestReadResponses(t *testing.T) {
	cfg := DefaultConfig(telemetry.Value)
	f := &cfg.Format
	p := unattached(t, cfg)
	known(t, p, flagTags|flagReports)
	for i, x := range []struct {
		op   ib.Opcode
		code uint32
	}{{ib.ReadResponseFirst, 3}, {ib.ReadResponseMiddle, 9}, {ib.ReadResponseMiddle, 4}, {ib.ReadResponseLast, 1}} {
		var echo *telemetry.DelayTag
		if i == 0 {
			echo = &telemetry.DelayTag{Code: 2}
		}
		plain := packetOf(there4, here4, 0xc123, 4791, transport(x.op, localQPN, uint32(20+i), append(aethACK, make([]byte, 64)...)...))
		if _, out := run(t, p.objects.Arriving, f.Append(nil, plain, telemetry.DelayTag{Code: x.code}, echo)); !bytes.Equal(out, plain) {
			t.Fatalf("%v: left over\n%x", x.op, out)
		}
	}
	got := events(p)
	if len(got) != 1 || got[0].Psn != 23 || got[0].Way != 9|present || got[0].Back != 2|0x8000|present {
		t.Errorf("%+v", got)
	}
}

// Whatever frame comes, what package telemetry finds in it comes off, and nothing else
// of it changes.
func FuzzArriving(f *testing.F) {
	watchertest.NeedBPF(f)
	cfg := DefaultConfig(telemetry.Value)
	format := &cfg.Format
	p := unattached(f, cfg)
	known(f, p, flagTags|flagReports)
	for _, b := range [][]byte{
		packetOf(there4, here4, 0xc123, 4791, transport(ib.WriteOnly, localQPN, 1)),
		packetOf(there6, here6, 0xc123, 4791, transport(ib.Acknowledge, localQPN, 1, aethACK...)),
		packetOf(there4, here4, 0xc123, 4791, append([]byte{telemetry.ProbeOpcode}, make([]byte, 60)...)),
	} {
		f.Add(b)
		f.Add(format.Append(nil, b, telemetry.DelayTag{Code: 77}, nil))
		f.Add(format.Append(nil, b, telemetry.DelayTag{Code: 77}, &telemetry.DelayTag{Code: 1}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 14+40 || len(b) > 1500 {
			return // the kernel runs no program on what ends within IP's header
		}
		copy(b, make([]byte, 6)) // for this host
		want := bytes.Clone(b)
		tags, ok := format.Find(want)
		for at := 12; at < 12+3*format.Form.Bytes(); at += format.Form.Bytes() {
			if b[at] == 0x81 || b[at] == 0x88 && b[at+1] == 0xa8 {
				return // the kernel keeps a VLAN tag beside the frame, where no test sees it
			}
		}
		verdict, out := run(t, p.objects.Arriving, b)
		events(p)
		if verdict == 7 || verdict == 2 { // a probe
			return
		}
		if ok {
			want = tags.Remove(want)
		} else if len(out) < len(want) {
			return // two tags in another order
		}
		if verdict != -1 || !bytes.Equal(out, want) {
			t.Errorf("verdict %d, left over\n%x, want\n%x", verdict, out, want)
		}
	})
}

func TestUnregister(t *testing.T) {
	cfg := DefaultConfig(telemetry.Value)
	p := unattached(t, cfg)
	c := overlay.Connection{Peer: there4, PeerQPN: peerQPN, LocalQPN: localQPN}
	request := packetOf(here4, there4, 0xc123, 4791, transport(ib.WriteOnly, peerQPN, 9))
	tagged := func() bool {
		_, out := run(t, p.objects.Leaving, request)
		return len(out) > len(request)
	}
	must(t, p.Register(3, c, flagTags))
	must(t, p.Register(4, c, flagTags))
	must(t, p.Unregister(3, c)) // the number is another connection's by now
	if !tagged() {
		t.Error("not tagged any more")
	}
	must(t, p.Unregister(4, c))
	must(t, p.Unregister(4, c))
	if tagged() {
		t.Error("tagged for nobody")
	}
	for i := range uint32(16) {
		must(t, p.Register(i, overlay.Connection{Peer: there4, PeerQPN: i, LocalQPN: i}, 0))
	}
	if err := p.Register(16, overlay.Connection{Peer: there4, PeerQPN: 16, LocalQPN: 16}, 0); err == nil {
		t.Error("a 17th connection found room where there is some for 16")
	}
}

// BenchmarkProgram gives the kernel's own measure of the time that a packet takes.
func BenchmarkProgram(b *testing.B) {
	for _, form := range forms {
		cfg := DefaultConfig(form)
		p := unattached(b, cfg)
		known(b, p, flagTags)
		request := packetOf(here4, there4, 0xc123, 4791, transport(ib.WriteMiddle, localQPN, 1, make([]byte, 1024)...))
		for _, c := range []struct {
			name   string
			packet []byte
		}{
			{"untagged request arrives", request},
			{"other traffic arrives", packetOf(there4, here4, 443, 443, make([]byte, 1024))},
		} {
			b.Run(form.String()+"/"+c.name, func(b *testing.B) {
				var sum float64
				for b.Loop() {
					_, each, err := p.objects.Arriving.Benchmark(c.packet, 10000, nil)
					must(b, err)
					sum += float64(each.Nanoseconds())
				}
				b.ReportMetric(sum/float64(b.N), "ns/packet")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
