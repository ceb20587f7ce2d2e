package wiretag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
	"github.com/sluice-rdma/sluice/verbs/wirestamp"
)

// The telemetry of a completion is what the switch wrote into the packets of its
// request, and into the one that answered it: in every form, by both kinds of hook,
// over IPv4 and IPv6.
func TestCompletionsReport(t *testing.T) {
	old := defaults
	old.attach = tchook.AttachClsact
	for _, c := range []struct {
		name string
		form telemetry.DelayForm
		set  settings
		gid  int
	}{
		{"wide", telemetry.Wide, defaults, 0},
		{"wide, v6", telemetry.Wide, defaults, 1},
		{"compact", telemetry.Compact, defaults, 0},
		{"poseidon", telemetry.Value, defaults, 0},
		{"poseidon, v6", telemetry.Value, defaults, 1},
		{"poseidon, clsact", telemetry.Value, old, 0},
		{"wide, clsact, v6", telemetry.Wide, old, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig(c.form)
			f := &cfg.Format
			w := newWorld(t, f)
			// The value of a packet follows from its PSN and direction.
			code := func(port int, psn uint32) uint32 { return (psn*7 + 11*uint32(port)) % 29 }
			write := func(port int, frame []byte) uint32 {
				bth, _ := transportOf(f, frame)
				return code(port, binary.BigEndian.Uint32(bth[8:])&0xffffff)
			}
			w.write.Store(&write)
			a, b := w.open(t, 0, cfg, c.set), w.open(t, 1, cfg, c.set)
			e := connect(t, [2]verbs.Device{a, b}, c.gid)
			if k := e[0].QP.(verbs.TelemetryQP).TelemetryKinds(); k&verbs.ReportsMaxDelay == 0 {
				t.Errorf("kinds %04b", k)
			}
			psn := uint32(0xfffff0)
			for i := range 60 {
				op := []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRAtomicFetchAndAdd}[i%3]
				size := []int{1, 4096, 4097, 20000}[i/3%4]
				if op == ib.WRAtomicFetchAndAdd {
					size = 8
				}
				wc := do(t, &e, op, size)
				mtu := 1024 // verbs.DefaultRC's
				n := uint32(max(1, (size+mtu-1)/mtu))
				if op == ib.WRAtomicFetchAndAdd {
					n = 1
				}
				largest := func(port int) (v uint32) {
					for k := range n {
						v = max(v, code(port, (psn+k)&0xffffff))
					}
					return v
				}
				last := (psn + n - 1) & 0xffffff
				hop, reverse := largest(0), code(1, last)
				if op == ib.WRRDMARead {
					hop, reverse = largest(1), code(0, psn)
				}
				psn = (psn + n) & 0xffffff
				var got verbs.Telemetry
				if !e[0].QP.(verbs.TelemetryQP).CompletionTelemetry(&wc, &got) || !got.HasMaxDelay {
					t.Fatalf("request %d, %v of %d bytes: no telemetry; %+v", i, op, size, a.Stats())
				}
				if got.MaxHopDelay != f.Delay(hop) || got.ReverseMaxHopDelay != f.Delay(reverse) {
					t.Errorf("request %d, %v of %d bytes: %v and %v back, want %v and %v", i, op, size, got.MaxHopDelay, got.ReverseMaxHopDelay, f.Delay(hop), f.Delay(reverse))
				}
			}
			sa, sb := a.Stats(), b.Stats()
			if sa.Reported != 60 || sa.Unreported != 0 || sa.Lost+sa.Failed+sa.Segmented+sb.Failed+sb.Segmented != 0 {
				t.Errorf("%+v", sa)
			}
			if w.untagged.Load() != 0 || sa.Put == 0 || sb.Reflected == 0 || sb.Taken == 0 {
				t.Errorf("%d untagged; %+v; %+v", w.untagged.Load(), sa, sb)
			}
			t.Logf("%s: %+v", a.Attached(), sa)
		})
	}
}

// A peer that does not reflect, as one without the program, is not told of by
// completions, which go on.
func TestPlainPeer(t *testing.T) {
	cfg := DefaultConfig(telemetry.Value)
	w := newWorld(t, &cfg.Format)
	a := w.open(t, 0, cfg, defaults)
	mode := cfg
	mode.Mode = Reflect
	b := w.open(t, 1, mode, defaults)
	e := connect(t, [2]verbs.Device{b, a}, 0) // the first one asks for nothing
	wc := do(t, &e, ib.WRRDMAWrite, 10000)
	var got verbs.Telemetry
	e[0].QP.(verbs.TelemetryQP).CompletionTelemetry(&wc, &got)
	if got.HasMaxDelay || e[0].QP.(verbs.TelemetryQP).TelemetryKinds()&verbs.ReportsMaxDelay != 0 {
		t.Errorf("%+v", got)
	}
	if s := a.Stats(); s.Reflected != 0 || s.Taken != 0 {
		t.Errorf("%+v", s)
	}
}

// Probes bring the telemetry of the path to devices whose packets have none, and the
// peer's kernel answers them.
func TestProbes(t *testing.T) {
	for _, c := range []struct {
		name string
		gid  int
		peer bool // wrapped; else its programs know nothing, and a Responder is there
	}{{"v4", 0, true}, {"v6", 1, true}, {"a responder, v4", 0, false}, {"a responder, v6", 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig(telemetry.Wide)
			cfg.MaxAge, cfg.ProbeInterval = time.Minute, 0
			w := newWorld(t, &cfg.Format)
			write := func(port int, frame []byte) uint32 { return uint32(1000 + port) }
			w.write.Store(&write)
			probing := cfg
			probing.Mode = Probes
			a := w.open(t, 0, probing, defaults)
			var b verbs.Device
			var served func() Stats
			if c.peer {
				d := w.open(t, 1, cfg, defaults)
				b, served = d, d.Stats
			} else {
				b = w.plain(t, 1)
				w.in(t, 1, func() {
					r, err := NewResponder("h", cfg)
					must(t, err)
					served = r.Stats
					t.Cleanup(func() { must(t, r.Close()) })
				})
			}
			var e [2]end
			w.in(t, 0, func() { e = connect(t, [2]verbs.Device{a, b}, c.gid) }) // where the socket for probes is to be
			var got verbs.Telemetry
			for i := 0; !got.HasMaxDelay; i++ {
				if i == 1000 {
					t.Fatalf("no answer: %+v, peer %+v", a.Stats(), served())
				}
				wc := do(t, &e, ib.WRRDMAWrite, 100)
				e[0].QP.(verbs.TelemetryQP).CompletionTelemetry(&wc, &got)
			}
			if got.MaxHopDelay != 1000*units.Nanosecond || got.ReverseMaxHopDelay != 1001*units.Nanosecond {
				t.Errorf("%+v", got)
			}
			s := a.Stats()
			if s.Probes == 0 || s.ProbesAnswered == 0 || s.ProbesAnswered > s.Probes || served().ProbesServed < s.ProbesAnswered {
				t.Errorf("%+v, peer %+v", s, served())
			}
			t.Logf("%+v", s)
		})
	}
}

// Without answers there is no telemetry, what was sent is lost, and data goes on; the
// answers that come again count again, and old ones no more.
func TestProbesAreLost(t *testing.T) {
	cfg := DefaultConfig(telemetry.Wide)
	cfg.MaxAge, cfg.ProbeInterval, cfg.Mode = time.Hour, 0, Probes
	w := newWorld(t, &cfg.Format)
	a := w.open(t, 0, cfg, defaults)
	b := w.plain(t, 1)
	var e [2]end
	w.in(t, 0, func() { e = connect(t, [2]verbs.Device{a, b}, 0) })
	q := e[0].QP.(verbs.TelemetryQP)
	var got verbs.Telemetry
	for range window + 10 {
		wc := do(t, &e, ib.WRRDMAWrite, 100)
		q.CompletionTelemetry(&wc, &got)
		if got.HasMaxDelay {
			t.Fatalf("%+v of nobody", got)
		}
	}
	if s := a.Stats(); s.Probes != 2*(window+10) || s.ProbesAnswered != 0 || s.ProbesLost < window+10 || s.Unreported != window+10 {
		t.Errorf("%+v", s)
	}

	p := e[0].QP.(*qp).path
	answer := func(number uint32, sent uint64) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.answered(&taggerEvent{Id: p.id, Psn: number, Sent: sent, Way: 5<<8 | present, Back: 9<<8 | present, Probe: 1})
	}
	last := p.pending[p.number%window]
	if answer(last.number, last.sent+1) || answer(last.number+1, last.sent) || answer(0, 0) {
		t.Error("an answer to no probe counts")
	}
	if !answer(last.number, last.sent) || answer(last.number, last.sent) {
		t.Error("an answer counts once")
	}
	if r, ok := a.latest(p); !ok || r.hop != 9*units.Nanosecond || r.reverse != 5*units.Nanosecond {
		t.Errorf("%+v, %v", r, ok)
	}
	a.cfg.MaxAge = 1
	if _, ok := a.latest(p); ok {
		t.Error("what is older than MaxAge counts")
	}
}

// Poseidon, by package paced over real packets, obeys what the switch writes: far
// beyond its target the rate goes down to the least, without delay up to the line's.
func TestPoseidonObeysTags(t *testing.T) {
	cfg := DefaultConfig(telemetry.Value)
	w := newWorld(t, &cfg.Format)
	var code atomic.Uint32
	write := func(port int, _ []byte) uint32 {
		if port == 0 {
			return code.Load()
		}
		return 0
	}
	w.write.Store(&write)
	const line = units.Gbps
	var rate units.Rate
	var told, updates int
	pacing := paced.DefaultConfig()
	pacing.Scheme, pacing.LineRate, pacing.Segment, pacing.BaseRTT = "poseidon", line, 4096, 100*units.Microsecond
	pacing.Observe = func(_ *paced.QP, a *cc.Ack, c cc.Control) {
		updates++
		if a.HasMaxDelay {
			told++
		}
		rate = c.Rate
	}
	shim, err := paced.Wrap(w.open(t, 0, cfg, defaults), pacing)
	must(t, err)
	e := connect(t, [2]verbs.Device{shim, w.open(t, 1, cfg, defaults)}, 0)
	until := func(what string, done func() bool) {
		t.Helper()
		for range 2000 {
			do(t, &e, ib.WRRDMAWrite, 3*4096)
			if done() {
				return
			}
		}
		t.Fatalf("%s: the rate is still %v after %d acknowledgements", what, rate, updates)
	}
	code.Store(4000) // 1 ms
	until("a long queue", func() bool { return rate <= line/100 })
	code.Store(0)
	until("none", func() bool { return rate >= line/2 })
	if told != updates {
		t.Errorf("%d of %d acknowledgements had telemetry", told, updates)
	}
}

// A VLAN tag stays where it is while the telemetry's behind it go and come: of a probe,
// whose answer the switch sees, and of an acknowledgement.
func TestVLAN(t *testing.T) {
	for _, form := range forms {
		cfg := DefaultConfig(form)
		f := &cfg.Format
		w := newWorld(t, f)
		a := w.open(t, 0, cfg, defaults)
		t.Cleanup(func() { must(t, a.Close()) })
		var fd int
		w.in(t, 2, func() { fd = w.port(t, "s0") })
		t.Cleanup(func() { _ = unix.Close(fd) })
		must(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
		var mac []byte
		w.in(t, 0, func() {
			h, err := netlink.LinkByName("h")
			must(t, err)
			mac = h.Attrs().HardwareAddr
		})
		const vlan = 0x2000 | 77 // with a priority
		tagged := func(frame []byte, vlan uint16) []byte {
			frame = bytes.Clone(frame)
			copy(frame, mac)
			frame = f.Append(nil, frame, telemetry.DelayTag{Code: 21}, nil)
			b := append(bytes.Clone(frame[:12]), 0x81, 0, byte(vlan>>8), byte(vlan))
			return append(b, frame[12:]...)
		}

		must(t, a.src.Register(0, overlay.Connection{Peer: there4, PeerQPN: peerQPN, LocalQPN: localQPN}, flagReports))
		ack := packetOf(there4, here4, 0xc123, 4791, transport(ib.Acknowledge, localQPN, 9, aethACK...))
		_, err := unix.Write(fd, tagged(ack, vlan))
		must(t, err)

		body := make([]byte, probeSize)
		body[0] = telemetry.ProbeOpcode
		binary.BigEndian.PutUint32(body[12:], probeMagic)
		body[16], body[17] = probeVersion, probeRequest
		copy(body[20:], "id+number+sent.!")
		for _, peers := range [][2]netip.Addr{{there4, here4}, {there6, here6}} {
			probe := packetOf(peers[0], peers[1], 0xc123, 4791, body)
			_, err := unix.Write(fd, tagged(probe, vlan))
			must(t, err)
			answer := packetOf(peers[1], peers[0], 0xc123, 4791, body)
			copy(answer, probe[6:12])
			copy(answer[6:], mac)
			at := len(answer) - probeSize
			answer[at+17], answer[at+18] = 2, 1 // an answer that has a value
			var one [telemetry.WideBytes]byte
			binary.BigEndian.PutUint64(answer[at+12+24:], bodyOf(one[:f.Put(one[:], telemetry.DelayTag{Code: 21})]))
			want := f.Append(nil, answer, telemetry.DelayTag{}, nil)

			got, tci := receive(t, fd, telemetry.ProbeOpcode)
			if tci != vlan || !bytes.Equal(got, want) {
				t.Errorf("%v: in VLAN %#x came\n%x, want\n%x", form, tci, got, want)
			}
		}
		if s := a.Stats(); s.Taken != 3 || s.ProbesServed != 2 || s.Failed != 0 || s.Events != 1 {
			t.Errorf("%v: %+v", form, s)
		}
	}
}

// receive returns the next frame from a packet socket that is a packet of that opcode,
// and the VLAN tag that the kernel has taken off it, 0 if none.
func receive(t testing.TB, fd int, opcode byte) (frame []byte, tci uint16) {
	t.Helper()
	b, oob := make([]byte, 2048), make([]byte, 128)
	for range 100 {
		n, m, _, _, err := unix.Recvmsg(fd, b, oob, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		must(t, err)
		tci = 0
		all, err := unix.ParseSocketControlMessage(oob[:m])
		must(t, err)
		for _, c := range all {
			if c.Header.Level == unix.SOL_PACKET && c.Header.Type == unix.PACKET_AUXDATA {
				tci = binary.NativeEndian.Uint16(c.Data[16:]) // of struct tpacket_auxdata
			}
		}
		for at := 14; at < min(n, 80); at++ {
			// UDP to the port of RoCEv2, and the BTH behind it.
			if at+8 < n && binary.BigEndian.Uint16(b[at:]) == 0xc123 && binary.BigEndian.Uint16(b[at+2:]) == 4791 && b[at+8] == opcode {
				return b[:n], tci
			}
		}
	}
	t.Fatal("no such packet came in 5 s")
	return nil, 0
}

// Package wirestamp's stamps are there as well, where the device is wrapped by it first.
func TestWithWirestamp(t *testing.T) {
	for name, attach := range map[string]func(int, tchook.Programs) (tchook.Attachment, error){"tcx": tchook.Attach, "clsact": tchook.AttachClsact} {
		cfg := DefaultConfig(telemetry.Value)
		w := newWorld(t, &cfg.Format)
		write := func(port int, _ []byte) uint32 { return uint32(3 + port) }
		w.write.Store(&write)
		var a *Device
		w.in(t, 0, func() {
			dev, err := verbs.Open("soft:h?gso=off")
			must(t, err)
			stamped, err := wirestamp.Wrap(dev, "")
			must(t, err)
			set := defaults
			set.attach = attach
			if name == "clsact" && stamped.Hook() == "tcx" {
				set.attach = tchook.Attach // TCX's go before all filters: both by the one or the other
			}
			a, err = wrap(stamped, "", cfg, set)
			must(t, err)
		})
		e := connect(t, [2]verbs.Device{a, w.open(t, 1, cfg, defaults)}, 0)
		for range 20 {
			wc := do(t, &e, ib.WRRDMAWrite, 5000)
			first, last, ok := e[0].QP.(verbs.SentTimestampQP).SentTimestamps(&wc)
			var got verbs.Telemetry
			has := e[0].QP.(verbs.TelemetryQP).CompletionTelemetry(&wc, &got)
			if !ok || first == 0 || last < first || !has || got.MaxHopDelay != 3*telemetry.ValueUnit {
				t.Fatalf("%s: sent at %d to %d, %v; %+v, %v", name, first, last, ok, got, has)
			}
		}
	}
}

// Devices that read telemetry are held to all that providers are.
func TestVerbs(t *testing.T) {
	cfg := DefaultConfig(telemetry.Value)
	w := newWorld(t, &cfg.Format)
	a, b := w.open(t, 0, cfg, defaults), w.open(t, 1, cfg, defaults)
	verbstest.Run(t, verbstest.Ends{A: a, B: b})
	must(t, errors.Join(a.Close(), b.Close()))
}

func TestVerbsShimmed(t *testing.T) {
	cfg := DefaultConfig(telemetry.Value)
	w := newWorld(t, &cfg.Format)
	a, b := w.open(t, 0, cfg, defaults), w.open(t, 1, cfg, defaults)
	verbstest.Run(t, verbstest.Ends{A: verbstest.Shimmed(t, a), B: verbstest.Shimmed(t, b)})
}

func TestPollingAllocatesNothing(t *testing.T) {
	for _, mode := range []Mode{Tags, Probes} {
		cfg := DefaultConfig(telemetry.Value)
		cfg.Mode, cfg.ProbeInterval = mode, 0
		w := newWorld(t, &cfg.Format)
		a := w.open(t, 0, cfg, defaults)
		peer := cfg
		peer.Mode = Reflect
		b := w.open(t, 1, peer, defaults)
		var e [2]end
		w.in(t, 0, func() { e = connect(t, [2]verbs.Device{a, b}, 0) })
		wrs := []verbs.SendWR{{
			Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: e[1].MR.Addr(), RKey: e[1].MR.RKey(),
			SGL: []verbs.SGE{verbs.SGEOf(e[0].MR, 0, 4096)},
		}}
		wc := make([]verbs.WC, 16)
		var got verbs.Telemetry
		if n := testing.AllocsPerRun(200, func() {
			if _, err := e[0].QP.PostSend(wrs); err != nil {
				t.Fatal(err)
			}
			for n := 0; n == 0; {
				n, _ = e[0].CQ.Poll(wc)
			}
			e[0].QP.(verbs.TelemetryQP).CompletionTelemetry(&wc[0], &got)
		}); n != 0 {
			t.Errorf("%v: %v allocations a request", mode, n)
		}
	}
}

// A filter that a killed process left is taken off by the next one; that of a process
// that lives is not.
func TestFiltersOfTheDead(t *testing.T) {
	cfg := DefaultConfig(telemetry.Value)
	w := newWorld(t, &cfg.Format)
	set := defaults
	set.attach = tchook.AttachClsact
	w.in(t, 0, func() {
		filters := func() (n int) {
			h, err := netlink.LinkByName("h")
			must(t, err)
			for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
				list, _ := netlink.FilterList(h, parent)
				n += len(list)
			}
			return n
		}
		first, err := newTagger("h", &cfg, set)
		must(t, err)
		second, err := newTagger("h", &cfg, set)
		must(t, err)
		if n := filters(); n != 4 {
			t.Errorf("%d filters of two that live", n)
		}
		must(t, second.Close())
		if n := filters(); n != 2 {
			t.Errorf("%d filters of one that lives", n)
		}

		// One that is killed while it has them.
		self, err := os.Executable()
		must(t, err)
		cmd := exec.Command(self, "-test.run", "^TestFiltersOfTheDead$")
		cmd.Env = append(os.Environ(), "WIRETAG_TEST_AS=victim")
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		var said [64]byte
		n, _ := out.Read(said[:])
		if !strings.HasPrefix(string(said[:n]), "attached") {
			t.Fatalf("the victim said %q", said[:n])
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if n := filters(); n != 4 {
			t.Errorf("%d filters; the kernel keeps a dead process's", n)
		}
		third, err := newTagger("h", &cfg, set)
		must(t, err)
		if n := filters(); n != 4 {
			t.Errorf("%d filters, of two that live", n)
		}
		must(t, errors.Join(first.Close(), third.Close()))
		if n := filters(); n != 0 {
			t.Errorf("%d filters are left", n)
		}
	})
}

// hardware is a device of a vendor.
type hardware struct{ verbs.Device }

func (hardware) Name() string           { return "ibv:mlx5_0" }
func (hardware) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{VendorID: 0x2c9} }
func (hardware) Port(int) (verbs.PortAttr, error) {
	return verbs.PortAttr{Netdev: "no-such-interface"}, nil
}

type simulated struct {
	hardware
	verbs.Runner
}

func TestRefusals(t *testing.T) {
	tags := DefaultConfig(telemetry.Value)
	tags.Mode = Tags
	bad := DefaultConfig(telemetry.Value)
	bad.Format.EtherType = 5
	for _, c := range []struct {
		dev    verbs.Device
		cfg    Config
		cause  error
		phrase string
	}{
		{hardware{}, tags, verbs.ErrNotSupported, "ask for probes"},
		{hardware{}, DefaultConfig(telemetry.Value), nil, "no-such-interface"},
		{simulated{}, DefaultConfig(telemetry.Value), verbs.ErrNotSupported, "simulated"},
		{hardware{}, bad, verbs.ErrInvalid, "EtherType"},
	} {
		_, err := Wrap(c.dev, "", c.cfg)
		if err == nil || c.cause != nil && !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.phrase) {
			t.Errorf("%v, want one with %q", err, c.phrase)
		}
	}
}

func TestAvailable(t *testing.T) {
	watchertest.NeedBPF(t)
	must(t, Available("lo"))
	if err := Available("no-such-interface"); err == nil || !strings.Contains(err.Error(), "no-such-interface") {
		t.Errorf("%v", err)
	}
}

// Without privileges the error says which are missing; with the two that it names, it
// works.
func TestPrivileges(t *testing.T) {
	watchertest.NeedBPF(t)
	for _, c := range []struct {
		name string
		caps []uintptr
		want string
	}{
		{"none", nil, "requires CAP_BPF and CAP_NET_ADMIN"},
		{"both", []uintptr{watchertest.CapBPF, watchertest.CapNetAdmin}, "attached"},
	} {
		if out, _ := watchertest.AsUser(t, "WIRETAG_TEST_AS=user", c.caps); !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, want %q", c.name, out, c.want)
		}
	}
}

// TestMain plays the parts that tests give this program when they start it again.
func TestMain(m *testing.M) {
	cfg := DefaultConfig(telemetry.Value)
	set := defaults
	netdev := "lo"
	switch os.Getenv("WIRETAG_TEST_AS") {
	case "":
		os.Exit(m.Run())
	case "victim":
		set.attach, netdev = tchook.AttachClsact, "h"
	}
	p, err := newTagger(netdev, &cfg, set)
	if err != nil {
		os.Stdout.WriteString(watcher.Explain(netdev, err).Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("attached")
	if netdev == "h" {
		time.Sleep(time.Hour) //nolint:forbidigo // until it is killed
	}
	if err := p.Close(); err != nil {
		os.Exit(1)
	}
}
