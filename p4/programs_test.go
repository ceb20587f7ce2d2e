package p4_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/p4/internal/stf"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

// chip is the architecture that a program is for.
type chip string

const (
	bmv2    chip = "v1model"
	tofino1 chip = "tofino1"
	tofino2 chip = "tofino2"
)

var chips = []chip{bmv2, tofino1, tofino2}

// load loads a program of this directory, NAME.p4 or NAME_tna.p4.
func load(t testing.TB, name string, on chip, define ...string) *p4.Program {
	t.Helper()
	o := p4.Options{Define: define}
	if on != bmv2 {
		name += "_tna"
		o.Target = string(on)
	}
	p, err := p4.Load(name+".p4", o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// one runs a frame through a switch and returns the one that leaves by the pair of its
// port, or nil if none does.
func one(t failer, pl *p4.Pipeline, frame []byte, in p4.Intrinsic, v *p4.Verdict) []byte {
	t.Helper()
	pl.Process(frame, &in, v)
	if len(v.Sent) == 0 {
		return nil
	}
	if len(v.Sent) != 1 || v.Sent[0].Port != in.IngressPort^1 {
		t.Fatalf("%d frames leave for one", len(v.Sent))
	}
	return v.Sent[0].Data
}

func TestPrograms(t *testing.T) {
	files, err := filepath.Glob("*.p4")
	if err != nil || len(files) != 2*len(stfFiles) {
		t.Fatalf("programs: %v, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".p4")
		t.Run(name, func(t *testing.T) {
			p := load(t, name, bmv2)
			text, err := os.ReadFile(name + ".stf")
			if err != nil {
				t.Fatal(err)
			}
			s, err := stf.Parse(name+".stf", text)
			if err != nil {
				t.Fatal(err)
			}
			r, err := stf.Run(p, s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Packets < 20 {
				t.Errorf("only %d packets", r.Packets)
			}
			for _, f := range r.Failures {
				t.Errorf("%s.stf:%d: %s", name, f.Line, f.Text)
			}
		})
	}
}

// mostHops is the number of records a switch's parser reads, and so the most that it leaves
// in a packet: Tofino 1's egress parser reads 160 bytes.
func mostHops(on chip) int {
	if on == tofino1 {
		return telemetry.TofinoHops
	}
	return telemetry.MaxHops
}

func clock(on chip) telemetry.SwitchClock {
	return map[chip]telemetry.SwitchClock{bmv2: telemetry.V1ModelClock, tofino1: telemetry.TofinoClock, tofino2: telemetry.Tofino2Clock}[on]
}

// delayPrograms are the programs with a delay tag: form, program, role that puts one on.
var delayPrograms = []struct {
	form         telemetry.DelayForm
	name, insert string
}{
	{telemetry.Value, "poseidon_mpd", "insert"},
	{telemetry.Wide, "csig_mpd", "insert_wide"},
	{telemetry.Compact, "csig_mpd", "insert_compact"},
}

// What a program writes is what package telemetry says that a switch writes.
func TestDelayProgramsQuantise(t *testing.T) {
	for _, c := range delayPrograms {
		for _, on := range chips {
			t.Run(fmt.Sprintf("%v %v", c.form, on), func(t *testing.T) {
				pl := load(t, c.name, on).New()
				f := telemetry.DefaultDelayFormat(c.form)
				var v p4.Verdict
				rapid.Check(t, func(t *rapid.T) {
					limit := 10 * units.Millisecond
					if on == tofino1 {
						limit = 300 * units.Microsecond
					}
					enqueued := units.Time(rapid.Int64Range(0, int64(units.Second)).Draw(t, "enqueued"))
					waited := units.Time(rapid.OneOf(rapid.Int64Range(0, int64(limit)), rapid.Int64Range(0, int64(10*units.Microsecond))).Draw(t, "waited"))
					tag := telemetry.DelayTag{
						Code:    rapid.OneOf(rapid.Uint32Range(0, 40), rapid.Uint32Range(0, f.Form.MaxCode())).Draw(t, "code"),
						Locator: 3,
					}
					if c.form == telemetry.Value {
						tag.Locator = 0
					} else {
						tag.Frozen = rapid.Bool().Draw(t, "frozen")
					}
					var back *telemetry.DelayTag
					if rapid.Bool().Draw(t, "reflects") {
						back = &telemetry.DelayTag{Code: 2}
					}
					ff := frameFields{v6: rapid.Bool().Draw(t, "IPv6"), vlan: rapid.Bool().Draw(t, "VLAN")}
					in := p4.Intrinsic{IngressPort: 4, IngressTime: enqueued, EnqueueTime: enqueued, DequeueTime: enqueued + waited}
					frame := f.Append(nil, ff.build(), tag, back)
					got := one(t, pl, frame, in, &v)
					f.Raise(frame, f.Quantise(clock(on).InQueue(enqueued, enqueued+waited)), 0)
					if !bytes.Equal(got, frame) {
						t.Fatalf("%x, want %x", got, frame)
					}
				})
			})
		}
	}
}

func TestWideBaseStepAndLocator(t *testing.T) {
	for _, on := range chips {
		pl := load(t, "csig_mpd", on, "WIDE_BASE=4096", "WIDE_STEP_LOG2=9", "WIDE_LOCATOR=0x123", "ETHERTYPE_WIDE=0x9999").New()
		f := telemetry.DefaultDelayFormat(telemetry.Wide)
		f.Base, f.Step, f.EtherType = 4096*units.Nanosecond, 512*units.Nanosecond, 0x9999
		var v p4.Verdict
		for _, waited := range []units.Time{0, 4 * units.Microsecond, 5 * units.Microsecond, 100 * units.Microsecond, 250 * units.Microsecond} {
			frame := f.Append(nil, frameFields{}.build(), telemetry.DelayTag{Code: 1, Locator: 9}, nil)
			got := one(t, pl, frame, p4.Intrinsic{DequeueTime: waited}, &v)
			f.Raise(frame, f.Quantise(waited), 0x123)
			if !bytes.Equal(got, frame) {
				t.Errorf("%v, %v: %x, want %x", on, waited, got, frame)
			}
		}
	}
}

// A path of three switches between plain NICs: the first puts telemetry on, the last
// takes it off, and what arrives is what was sent.
func TestPlainNICsSeeTheirOwnPackets(t *testing.T) {
	for _, c := range []struct{ name, insert, strip string }{
		{"poseidon_mpd", "insert", "strip"},
		{"csig_mpd", "insert_wide", "strip"},
		{"csig_mpd", "insert_compact", "strip"},
		{"int", "source", "sink"},
	} {
		for _, on := range chips {
			path := []*p4.Pipeline{
				load(t, c.name, on, "INGRESS_ROLE="+c.insert).New(),
				load(t, c.name, on).New(),
				load(t, c.name, on, "EGRESS_ROLE="+c.strip).New(),
			}
			var v [3]p4.Verdict
			rapid.Check(t, func(t *rapid.T) {
				ff := frameFields{
					v6: rapid.Bool().Draw(t, "IPv6"), vlan: rapid.Bool().Draw(t, "VLAN"),
					payload: 4 * rapid.IntRange(1, 60).Draw(t, "words"), psn: units.MakePSN(rapid.Uint32().Draw(t, "PSN")),
				}
				sent := ff.build()
				frame := sent
				for i, pl := range path {
					waited := units.Time(rapid.Int64Range(0, int64(100*units.Microsecond)).Draw(t, "waited"))
					in := p4.Intrinsic{DequeueTime: waited, DequeueDepth: p4.Depth{Packets: 3, Bytes: 3000}}
					frame = one(t, pl, frame, in, &v[i])
					if i < 2 && len(frame) == len(sent) {
						t.Fatalf("%s: no telemetry behind switch %d", c.name, i)
					}
				}
				if !bytes.Equal(frame, sent) {
					t.Fatalf("%s: %x arrives, want %x", c.name, frame, sent)
				}
				checkICRC(t, frame)
			})
		}
	}
}

func TestINTProgramRecords(t *testing.T) {
	for _, on := range chips {
		t.Run(string(on), func(t *testing.T) {
			program := load(t, "int", on, "RATE_CODE=2", "QUEUE_UNITS_PER_PACKET=14")
			f := telemetry.DefaultINTFormat(telemetry.INT64)
			rapid.Check(t, func(t *rapid.T) {
				pl := program.New()
				var v p4.Verdict
				hop := telemetry.Hop{Rate: 100 * units.Gbps}
				for range rapid.IntRange(1, 20).Draw(t, "packets") {
					ff := frameFields{v6: rapid.Bool().Draw(t, "IPv6"), vlan: rapid.Bool().Draw(t, "VLAN"), payload: 4 * rapid.IntRange(1, 90).Draw(t, "words")}
					var s shim
					for range rapid.IntRange(0, telemetry.MaxHops).Draw(t, "hops") {
						s.hops = append(s.hops, telemetry.HopRecord{Low: rapid.Uint64().Draw(t, "hop")})
					}
					s.reflected = rapid.Bool().Draw(t, "reflected")
					now := hop.Time + units.Time(rapid.Int64Range(0, int64(20*units.Millisecond)).Draw(t, "dt"))
					packets := rapid.IntRange(0, 6000).Draw(t, "queue")
					queue := units.Bytes(packets) * 1120
					hop.Time = now
					if on == bmv2 {
						hop.Time = now / units.Microsecond * units.Microsecond
					}
					hop.QLen = queue
					if on != bmv2 && rapid.Bool().Draw(t, "not whole cells") {
						queue -= min(queue, 79) // a part of a cell counts for one
					}
					frame := withINT(ff.build(), s)
					want := s
					switch {
					case s.reflected, len(s.hops) > mostHops(on): // more are of another INT
					case len(s.hops) == mostHops(on):
						want.overflow = true
					default:
						want.hops = append(want.hops, f.Record(hop))
					}
					in := p4.Intrinsic{DequeueTime: now, DequeueDepth: p4.Depth{Packets: packets, Bytes: queue}}
					got := one(t, pl, frame, in, &v)
					if w := withINT(ff.build(), want); !bytes.Equal(got, w) {
						t.Fatalf("%x, want %x", got, w)
					}
					hop.TxBytes += units.Bytes(len(got))
					hop.Time = now
				}
			})
		})
	}
}

// A path of more switches than a packet has records for: the first of them stand in the
// packet, which is marked, and the last switch takes them off all the same.
func TestPathLongerThanTheRecords(t *testing.T) {
	for _, c := range []struct {
		on   chip
		most int
	}{{bmv2, 8}, {bmv2, 6}, {tofino1, 6}, {tofino2, 8}, {tofino2, 6}} {
		hops := fmt.Sprintf("INT_HOPS=%d", c.most)
		program := load(t, "int", c.on, hops, "RATE_CODE=2", "INGRESS_ROLE=source")
		sent := frameFields{payload: 64, vlan: true, v6: true}.build()
		frame := sent
		var v p4.Verdict
		var first []byte
		for hop := 1; hop <= c.most+2; hop++ {
			frame = slices.Clone(one(t, program.New(), frame, p4.Intrinsic{DequeueTime: units.Time(hop) * units.Microsecond}, &v))
			view, _, err := telemetry.INT64.Parse(frame[udpOffset(frame)+roce.UDPBytes:])
			if err != nil {
				t.Fatalf("%v, switch %d: %v", c.on, hop, err)
			}
			if n, over := telemetry.INT64.Hops(view), telemetry.INT64.Overflow(view); n != min(hop, c.most) || over != (hop > c.most) {
				t.Errorf("%v: %d records behind switch %d, overflow %v", c.on, n, hop, over)
			}
			if hop == c.most {
				first = frame[udpOffset(frame)+roce.UDPBytes+telemetry.INT64.Bytes(0):]
			}
		}
		if !bytes.Equal(frame[udpOffset(frame)+roce.UDPBytes+telemetry.INT64.Bytes(0):], first) {
			t.Errorf("%v: the records are not those of the first switches", c.on)
		}
		sink := load(t, "int", c.on, hops, "EGRESS_ROLE=sink").New()
		if got := one(t, sink, frame, p4.Intrinsic{}, &v); !bytes.Equal(got, sent) {
			t.Errorf("%v: %x arrives, want %x", c.on, got, sent)
		}
	}
}

// The reader gets back what a switch measured, over wraps of every field.
func TestHopReaderReadsTheProgram(t *testing.T) {
	pl := load(t, "int", tofino1, "RATE_CODE=2", "INGRESS_ROLE=source").New()
	f := telemetry.DefaultINTFormat(telemetry.INT64)
	var r telemetry.HopReader
	var v p4.Verdict
	var s, first telemetry.Stack
	var now units.Time
	var sent units.Bytes
	for i := range 3000 {
		now += units.Time(i%7) * units.Microsecond
		frame := frameFields{payload: 128}.build()
		// The frame counts for 60 KB, so that the bytes wrap.
		in := p4.Intrinsic{DequeueTime: now, DequeueDepth: p4.Depth{Bytes: units.Bytes(i * 80)}, Length: 60000}
		got := one(t, pl, frame, in, &v)
		view, rest, err := telemetry.INT64.Parse(got[udpOffset(got)+roce.UDPBytes:])
		if err != nil || len(rest) != len(frame)-udpOffset(frame)-roce.UDPBytes {
			t.Fatalf("packet %d: %v", i, err)
		}
		if ok := r.Read(&f, view, now+5*units.Microsecond, &s); ok != (i > 0) {
			t.Fatalf("packet %d: %v", i, ok)
		}
		if i == 0 {
			first = s
		}
		h := s.Hops[0]
		if h.Time-first.Hops[0].Time != now || h.QLen != units.Bytes(i*80) || h.TxBytes-first.Hops[0].TxBytes != sent/128*128 {
			t.Fatalf("packet %d: %+v at %v with %v sent", i, h, now, sent)
		}
		sent += in.Length + units.Bytes(len(got)-len(frame))
	}
	if sent < 128<<20 {
		t.Errorf("only %v were sent", sent)
	}
}

func TestEINProgramIsTheModel(t *testing.T) {
	const window, highWater = 5, 40 * units.KiB
	for _, on := range chips {
		t.Run(string(on), func(t *testing.T) {
			define := []string{"EIN_WINDOW=5", "EIN_HIGH_WATER=512", "QUEUE_UNITS_PER_PACKET=14", "EIN_THRESHOLD=25000", "EIN_RATE=rate_100g"}
			rule := telemetry.V1ModelIncast(window, 25*units.Gbps, highWater, 2*units.Microsecond)
			if on != bmv2 {
				rule, _ = telemetry.TofinoIncast(window, 100*units.Gbps, highWater, 1024*units.Nanosecond)
				define = append(define, "EIN_MAX_GAP=1024")
			} else {
				define = append(define, "EIN_MAX_GAP=2")
			}
			program := load(t, "ein", on, define...)
			rapid.Check(t, func(t *rapid.T) {
				pl := program.New()
				var model telemetry.Incast
				var now units.Time
				packets := 0
				for range rapid.IntRange(1, 100).Draw(t, "dequeues") {
					now += units.Time(rapid.OneOf(rapid.Int64Range(0, int64(200*units.Nanosecond)), rapid.Int64Range(0, int64(5*units.Microsecond))).Draw(t, "dt"))
					packets = max(0, packets+rapid.IntRange(-6, 8).Draw(t, "change"))
					sameEIN(t, pl, on, &model, &rule, now, packets, rapid.Bool().Draw(t, "IPv6"))
				}
			})

			// Few checks may draw few queues that grow. One that grows and drains has both.
			pl := program.New()
			var model telemetry.Incast
			var noticed, others int
			packets := 0
			for i := range 400 {
				if i%200 < 100 {
					packets += 8
				} else {
					packets = max(0, packets-40)
				}
				if sameEIN(t, pl, on, &model, &rule, units.Time(i)*units.Microsecond, packets, i%3 == 0) {
					noticed++
				} else {
					others++
				}
			}
			if noticed < 100 || others < 100 {
				t.Errorf("%d packets with EIN and %d without: too few to tell", noticed, others)
			}
		})
	}
}

// sameEIN has a packet leave the program at now, with packets queued behind it,
// and fails the test unless it has EIN exactly where the model has. It returns whether.
func sameEIN(t failer, pl *p4.Pipeline, on chip, model *telemetry.Incast, rule *telemetry.IncastRule, now units.Time, packets int, v6 bool) bool {
	t.Helper()
	var v p4.Verdict
	in := p4.Intrinsic{DequeueTime: now, DequeueDepth: p4.Depth{Packets: packets, Bytes: units.Bytes(packets) * 1120}}
	got := one(t, pl, frameFields{v6: v6}.build(), in, &v)
	ticks := uint64(now / units.Nanosecond)
	if on == bmv2 {
		ticks = uint64(now / units.Microsecond)
	}
	want := model.Dequeue(rule, ticks, uint64(packets)*14)
	if (telemetry.EINBits(got[udpOffset(got)+roce.UDPBytes:]) == telemetry.EIN) != want {
		t.Fatalf("at %v with %d packets queued: EIN is %v, want %v", now, packets, !want, want)
	}
	checkICRC(t, got)
	return want
}

// A frame that has no telemetry leaves as it came, whatever it is, if no port has a role.
func FuzzPrograms(f *testing.F) {
	var pipelines []*p4.Pipeline
	for name := range stfFiles {
		for _, on := range chips {
			pipelines = append(pipelines, load(f, name, on).New(), load(f, name, on, rolesOf(name)...).New())
		}
	}
	f.Add(frameFields{}.build())
	f.Add(frameFields{v6: true, vlan: true, udpSum: true}.build())
	f.Add(withINT(frameFields{vlan: true}.build(), shim{hops: make([]telemetry.HopRecord, 8), overflow: true}))
	for _, form := range []telemetry.DelayForm{telemetry.Wide, telemetry.Compact, telemetry.Value} {
		df := telemetry.DefaultDelayFormat(form)
		f.Add(df.Append(nil, frameFields{}.build(), telemetry.DelayTag{Code: 1}, &telemetry.DelayTag{Code: 2}))
	}
	f.Add([]byte{1, 2, 3})
	var v p4.Verdict
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > 2000 {
			return
		}
		for i, pl := range pipelines {
			in := p4.Intrinsic{DequeueTime: 7 * units.Microsecond}
			pl.Process(frame, &in, &v)
			if i%2 == 0 && !mayChange(frame) && len(v.Sent) == 1 && !bytes.Equal(v.Sent[0].Data, frame) {
				t.Fatalf("%s: %x became %x", pl.Program().Architecture(), frame, v.Sent[0].Data)
			}
			if len(v.Sent) > 1 || pl.Program().Architecture() == "v1model" && len(v.Sent) != 1 {
				t.Fatalf("%d frames leave for %x", len(v.Sent), frame)
			}
		}
	})
}

func rolesOf(name string) []string {
	switch name {
	case "poseidon_mpd":
		return []string{"INGRESS_ROLE=insert", "EGRESS_ROLE=strip"}
	case "csig_mpd":
		return []string{"INGRESS_ROLE=insert_wide", "EGRESS_ROLE=strip"}
	case "int":
		return []string{"INGRESS_ROLE=source", "EGRESS_ROLE=sink"}
	}
	return []string{"EIN_THRESHOLD=0"}
}

// mayChange reports whether the bytes of a telemetry's EtherType or port stand
// anywhere in frame.
func mayChange(frame []byte) bool {
	for _, v := range []uint16{telemetry.EtherTypeWide, telemetry.EtherTypeCompact, telemetry.INTPort} {
		if bytes.Contains(frame, binary.BigEndian.AppendUint16(nil, v)) {
			return true
		}
	}
	return false
}

// The entries of buckets.p4 are the default format's buckets, to the nanosecond.
func TestCompactBuckets(t *testing.T) {
	f := telemetry.DefaultDelayFormat(telemetry.Compact)
	pl := load(t, "csig_mpd", tofino1).New()
	var v p4.Verdict
	for c, from := range f.Buckets[:31] {
		for _, waited := range []units.Time{from, f.Buckets[c+1] - units.Nanosecond} {
			frame := f.Append(nil, frameFields{}.build(), telemetry.DelayTag{}, nil)
			got, _ := f.Find(one(t, pl, frame, p4.Intrinsic{DequeueTime: waited}, &v))
			if got.Forward.Code != uint32(c) {
				t.Errorf("%v is in bucket %d, want %d", waited, got.Forward.Code, c)
			}
		}
	}
	// v1model's clock reaches the last bucket.
	pl = load(t, "csig_mpd", bmv2).New()
	frame := f.Append(nil, frameFields{}.build(), telemetry.DelayTag{}, nil)
	if got, _ := f.Find(one(t, pl, frame, p4.Intrinsic{DequeueTime: 263 * units.Microsecond}, &v)); got.Forward.Code != 31 {
		t.Errorf("263 us are in bucket %d", got.Forward.Code)
	}
}

// loaded is a frame that a program has to do all of its work on.
func loaded(name string) []byte {
	switch name {
	case "poseidon_mpd":
		f := telemetry.DefaultDelayFormat(telemetry.Value)
		return f.Append(nil, frameFields{}.build(), telemetry.DelayTag{}, nil)
	case "csig_mpd":
		f := telemetry.DefaultDelayFormat(telemetry.Wide)
		return f.Append(nil, frameFields{}.build(), telemetry.DelayTag{}, nil)
	case "int":
		return withINT(frameFields{}.build(), shim{hops: make([]telemetry.HopRecord, 2)})
	}
	return frameFields{}.build()
}

func TestProgramsDontAllocate(t *testing.T) {
	for name := range stfFiles {
		for _, on := range chips {
			pl := load(t, name, on).New()
			frame := loaded(name)
			in := p4.Intrinsic{DequeueTime: 7 * units.Microsecond, DequeueDepth: p4.Depth{Packets: 3, Bytes: 3300}}
			var v p4.Verdict
			pl.Process(frame, &in, &v)
			if n := testing.AllocsPerRun(100, func() { pl.Process(frame, &in, &v) }); n != 0 {
				t.Errorf("%s, %v: %v allocations a packet", name, on, n)
			}
		}
	}
}

func BenchmarkPrograms(b *testing.B) {
	for _, name := range []string{"poseidon_mpd", "csig_mpd", "int", "ein"} {
		for _, on := range chips {
			b.Run(name+"/"+string(on), func(b *testing.B) {
				pl := load(b, name, on).New()
				frame := loaded(name)
				in := p4.Intrinsic{DequeueDepth: p4.Depth{Packets: 3, Bytes: 3300}}
				var v p4.Verdict
				for b.Loop() {
					in.DequeueTime += units.Microsecond
					pl.Process(frame, &in, &v)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
			})
		}
	}
}

// What a program has no room for is refused, not cut.
func TestParametersAreChecked(t *testing.T) {
	for define, programs := range map[string][]string{
		"EIN_WINDOW=65": {"p4/ein.p4", "p4/ein_tna.p4"}, "EIN_WINDOW=0": {"p4/ein.p4", "p4/ein_tna.p4"},
		"RATE_CODE=16": {"p4/int.p4", "p4/int_tna.p4"},
		"INT_HOPS=7":   {"p4/int.p4", "p4/int_tna.p4"}, "INT_HOPS=8": {"p4/int_tna.p4"},
	} {
		name, _, _ := strings.Cut(define, "=")
		for _, program := range programs {
			if _, err := p4.Find(program, p4.Options{Define: []string{define}}); err == nil || !strings.Contains(err.Error(), name+" must be ") {
				t.Errorf("%s with %s: %v", program, define, err)
			}
		}
	}
}
