package wiretag

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
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
			if k := e[0].qp.(verbs.TelemetryQP).TelemetryKinds(); k&verbs.ReportsMaxDelay == 0 {
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
				if !e[0].qp.(verbs.TelemetryQP).CompletionTelemetry(&wc, &got) || !got.HasMaxDelay {
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
	if e[0].qp.(verbs.TelemetryQP).CompletionTelemetry(&wc, &got) || e[0].qp.(verbs.TelemetryQP).TelemetryKinds()&verbs.ReportsMaxDelay != 0 {
		t.Errorf("%+v", got)
	}
	if s := a.Stats(); s.Reflected != 0 || s.Taken != 0 {
		t.Errorf("%+v", s)
	}
}

// Probes bring the telemetry of the path to devices whose packets have none, and the
// peer's kernel answers them.
func TestProbes(t *testing.T) {
	for gid, name := range []string{"v4", "v6"} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig(telemetry.Wide)
			cfg.MaxAge, cfg.ProbeInterval = time.Minute, 0
			w := newWorld(t, &cfg.Format)
			write := func(port int, frame []byte) uint32 { return uint32(1000 + port) }
			w.write.Store(&write)
			probing := cfg
			probing.Mode = Probes
			a, b := w.open(t, 0, probing, defaults), w.open(t, 1, cfg, defaults)
			var e [2]end
			w.in(t, 0, func() { e = connect(t, [2]verbs.Device{a, b}, gid) }) // where the socket for probes is to be
			var got verbs.Telemetry
			for i := 0; !got.HasMaxDelay; i++ {
				if i == 1000 {
					t.Fatalf("no answer: %+v, peer %+v", a.Stats(), b.Stats())
				}
				wc := do(t, &e, ib.WRRDMAWrite, 100)
				e[0].qp.(verbs.TelemetryQP).CompletionTelemetry(&wc, &got)
			}
			if got.MaxHopDelay != 1000*units.Nanosecond || got.ReverseMaxHopDelay != 1001*units.Nanosecond {
				t.Errorf("%+v", got)
			}
			s := a.Stats()
			if s.Probes == 0 || s.ProbesAnswered == 0 || s.ProbesAnswered > s.Probes || b.Stats().ProbesServed < s.ProbesAnswered {
				t.Errorf("%+v, peer %+v", s, b.Stats())
			}
			t.Logf("%+v", s)
		})
	}
}
