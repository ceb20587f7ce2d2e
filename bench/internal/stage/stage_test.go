package stage_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stage"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// arrival is the content of an arriving packet.
type arrival struct {
	at       units.Time
	src      int32
	size     int32
	flags    fabric.Flags
	maxDelay units.Time
	path     telemetry.Stack
}

// host sends bursts of packets and notes what arrives.
type host struct {
	net    *fabric.Network
	engine *des.Engine
	src    des.Source
	id     des.NodeID
	host   int
	burst  []fabric.Frame
	got    *[]arrival
}

func (h *host) Handle(ev des.Event) {
	if len(h.burst) == 0 {
		return
	}
	p := h.net.Alloc()
	h.net.Packet(p).Src = int32(h.host)
	f := h.burst[0]
	h.burst = h.burst[1:]
	h.engine.Schedule(h.net.Transmit(ev.At, h.host, p, &f), &h.src, h.id, 0, 0)
}

func (h *host) Pause(*fabric.Lane, units.Time, uint8) {}

func (h *host) Arrive(_ *fabric.Lane, now units.Time, p fabric.Handle, x *fabric.Frame) {
	a := arrival{at: now, src: h.net.Packet(p).Src, size: x.Size, flags: x.Flags, maxDelay: x.MaxDelay}
	if s := h.net.INT(p, x); s != nil {
		a.path = *s
	}
	*h.got = append(*h.got, a)
	h.net.Free(p)
}

const rate = 100 * units.Gbps

// run sends bursts over a chain of switches, of which the last two have queues, and
// returns what arrives.
func run(t testing.TB, switches int, cfg fabric.Config, kind telemetry.Kind, stages func(*fabric.Topology) map[string]fabric.Stage) []arrival {
	t.Helper()
	link := fabric.Link{Rate: rate, Delay: units.Microsecond}
	topo := fabric.Chain(switches, 8, link, link)
	if stages != nil {
		cfg.Switches = map[string]fabric.SwitchConfig{}
		for name, s := range stages(topo) {
			one := cfg.Switch
			one.Stage = s
			cfg.Switches[name] = one
		}
	}
	e := des.New()
	net, err := fabric.New(e, topo, cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []arrival
	random := des.NewStream(1, "bursts")
	for i := range topo.Hosts() {
		h := &host{net: net, engine: e, host: i, src: e.NewSource(), got: &got}
		h.id = e.AddHandler(h)
		net.Attach(i, h)
		for range 300 {
			// Most go from the first two racks to one host of the last, some to the others.
			dst := int32(8 * (switches - 1))
			if random.Float64() < 0.3 {
				dst += int32(random.Float64() * 8)
			}
			if i >= 16 {
				break
			}
			h.burst = append(h.burst, fabric.Frame{
				Size: 1000 + int32(random.Float64()*3000), Dst: dst, FlowHash: uint32(i), Flags: fabric.ECT, Telemetry: kind,
			})
		}
		e.Schedule(units.Time(random.Float64()*float64(20*units.Microsecond)), &h.src, h.id, 0, 0)
	}
	e.RunUntil(units.Never)
	return got
}

func config() fabric.Config {
	cfg := fabric.Default()
	cfg.Priorities = 1
	cfg.Switch.Buffer = 64 * units.MiB
	return cfg
}

func load(t testing.TB, name, target string) *p4.Program {
	t.Helper()
	p, err := p4.Load("../../../p4/"+name, p4.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The delay that programs write is that which a switch of the model writes in the
// same form by the same clock, packet by packet.
func TestProgramsWriteTheSwitchesDelay(t *testing.T) {
	for _, c := range []struct {
		program, target string
		form            telemetry.DelayForm
		clock           telemetry.SwitchClock
	}{
		{"poseidon_mpd.p4", "", telemetry.Value, telemetry.V1ModelClock},
		{"csig_mpd.p4", "", telemetry.Wide, telemetry.V1ModelClock},
		{"csig_mpd.p4", "", telemetry.Compact, telemetry.V1ModelClock},
		{"poseidon_mpd_tna.p4", "tofino1", telemetry.Value, telemetry.TofinoClock},
		{"csig_mpd_tna.p4", "tofino1", telemetry.Wide, telemetry.TofinoClock},
		{"csig_mpd_tna.p4", "tofino1", telemetry.Compact, telemetry.TofinoClock},
		{"poseidon_mpd_tna.p4", "tofino2", telemetry.Value, telemetry.Tofino2Clock},
		{"csig_mpd_tna.p4", "tofino2", telemetry.Wide, telemetry.Tofino2Clock},
		{"csig_mpd_tna.p4", "tofino2", telemetry.Compact, telemetry.Tofino2Clock},
	} {
		t.Run(fmt.Sprint(c.program, " ", c.target, " ", c.form), func(t *testing.T) {
			program := load(t, c.program, c.target)
			cfg := config()
			forms := stage.Config{Delay: telemetry.DefaultDelayFormat(c.form), INT: telemetry.DefaultINTFormat(telemetry.INT64)}
			var stages []*stage.Stage
			got := run(t, 3, cfg, telemetry.MaxDelay, func(topo *fabric.Topology) map[string]fabric.Stage {
				m := map[string]fabric.Stage{}
				for _, name := range topo.SwitchNames() {
					s := stage.New(program, &forms, topo, name)
					stages = append(stages, s)
					m[name] = s
				}
				return m
			})
			cfg.Switch.Report = &fabric.Report{Clock: c.clock, Delay: forms.Delay, INT: forms.INT}
			want := run(t, 3, cfg, telemetry.MaxDelay, nil)
			compare(t, got, want)
			for _, s := range stages {
				if f := s.Faults(); f != (stage.Faults{}) {
					t.Error(f)
				}
			}
		})
	}
}

// chain returns stages for all switches of a topology that run one program, told of
// their ports.
func chain(t testing.TB, program *p4.Program, forms *stage.Config, report *fabric.Report, cfg *fabric.Config, stages *[]*stage.Stage) func(*fabric.Topology) map[string]fabric.Stage {
	return func(topo *fabric.Topology) map[string]fabric.Stage {
		m := map[string]fabric.Stage{}
		for _, name := range topo.SwitchNames() {
			s := stage.New(program, forms, topo, name)
			var ports []stage.Port
			for l, number := range stage.Ports(topo, name) {
				if number == 0 {
					continue
				}
				p := stage.Port{Number: number, Rate: topo.Link(fabric.LinkID(l)).Rate}
				if e := cfg.Switch.Classes[0].EIN; e.Gradient > 0 {
					n := e.OfPort(report, topo.Link(fabric.LinkID(l)), 0, cfg.MaxFrame)
					p.Notice = &n
				}
				ports = append(ports, p)
			}
			if err := s.Describe(ports, report.Clock.Tick); err != nil {
				t.Fatal(err)
			}
			*stages = append(*stages, s)
			m[name] = s
		}
		return m
	}
}

// So are records of hops, and notices of incasts.
func TestProgramsWriteTheSwitchesRecordsAndNotices(t *testing.T) {
	v1 := fabric.Report{Clock: telemetry.V1ModelClock, PacketUnits: 52}
	tofino := fabric.Report{Clock: telemetry.TofinoClock, Hops: telemetry.TofinoHops}
	tofino2 := fabric.Report{Clock: telemetry.Tofino2Clock}
	for _, c := range []struct {
		program, target string
		switches        int
		kind            telemetry.Kind
		report          fabric.Report
		notice          fabric.Notice
	}{
		{"int.p4", "", 3, telemetry.PerHop, v1, fabric.Notice{}},
		{"int_tna.p4", "tofino1", 3, telemetry.PerHop, tofino, fabric.Notice{}},
		{"int_tna.p4", "tofino2", 3, telemetry.PerHop, tofino2, fabric.Notice{}},
		// More switches than a packet has records for.
		{"int.p4", "", 9, telemetry.PerHop, v1, fabric.Notice{}},
		{"int_tna.p4", "tofino1", 9, telemetry.PerHop, tofino, fabric.Notice{}},
		{"int_tna.p4", "tofino2", 9, telemetry.PerHop, tofino2, fabric.Notice{}},
		{"ein.p4", "", 3, telemetry.None, v1, fabric.Notice{Gradient: 0.25, Window: 50, HighWater: 100_000}},
		// Its threshold is 640/24 bits a nanosecond.
		{"ein_tna.p4", "tofino1", 3, telemetry.None, tofino, fabric.Notice{Gradient: 0.26666, Window: 50, HighWater: 100_000}},
		{"ein_tna.p4", "tofino2", 3, telemetry.None, tofino2, fabric.Notice{Gradient: 0.26666, Window: 50, HighWater: 100_000}},
	} {
		t.Run(fmt.Sprint(c.program, " ", c.target, " ", c.switches), func(t *testing.T) {
			program := load(t, c.program, c.target)
			c.report.Delay, c.report.INT = telemetry.DefaultDelayFormat(telemetry.Wide), telemetry.DefaultINTFormat(telemetry.INT64)
			forms := stage.Config{Delay: c.report.Delay, INT: c.report.INT}
			told, native := config(), config()
			told.Switch.Classes[0].EIN = c.notice
			native.Switch.Classes[0].EIN = c.notice
			native.Switch.Report = &c.report
			var stages []*stage.Stage
			got := run(t, c.switches, config(), c.kind, chain(t, program, &forms, &c.report, &told, &stages))
			compare(t, got, run(t, c.switches, native, c.kind, nil))
			if full := slices.ContainsFunc(got, func(a arrival) bool { return a.path.Overflow }); full != (c.switches > telemetry.MaxHops) {
				t.Errorf("%d switches: a packet is full: %v", c.switches, full)
			}
			for _, s := range stages {
				if f := s.Faults(); f != (stage.Faults{}) {
					t.Error(f)
				}
			}
		})
	}
}

func compare(t *testing.T, got, want []arrival) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%d packets arrived, and %d without programs", len(got), len(want))
	}
	marked := 0
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("packet %d of %d is %+v, and without programs %+v", i, len(got), got[i], want[i])
		}
		if want[i].maxDelay > 0 || want[i].path.N > 0 || want[i].flags&fabric.EIN != 0 {
			marked++
		}
	}
	t.Logf("%d packets, %d with telemetry other than none", len(got), marked)
	if marked == 0 {
		t.Error("no packet has telemetry")
	}
}

// What the network of these tests costs for each packet that a switch sends, without
// programs and with.
func BenchmarkHop(b *testing.B) {
	native := func(clock telemetry.SwitchClock) *fabric.Report {
		return &fabric.Report{Clock: clock, Delay: telemetry.DefaultDelayFormat(telemetry.Value), INT: telemetry.DefaultINTFormat(telemetry.INT64)}
	}
	for _, c := range []struct {
		name    string
		report  *fabric.Report
		program string
	}{
		{"exact", nil, ""},
		{"v1model", native(telemetry.V1ModelClock), ""},
		{"poseidon_mpd.p4", native(telemetry.V1ModelClock), "poseidon_mpd.p4"},
		{"tofino", native(telemetry.TofinoClock), ""},
		{"poseidon_mpd_tna.p4", native(telemetry.TofinoClock), "poseidon_mpd_tna.p4"},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := config()
			var stages func(*fabric.Topology) map[string]fabric.Stage
			if c.program != "" {
				var all []*stage.Stage
				stages = chain(b, load(b, c.program, ""), &stage.Config{Delay: c.report.Delay, INT: c.report.INT}, c.report, &cfg, &all)
			} else {
				cfg.Switch.Report = c.report
			}
			hops := 0
			for b.Loop() {
				for _, a := range run(b, 3, cfg, telemetry.MaxDelay, stages) {
					hops += 2 // from the second rack to the third
					if a.src < 8 {
						hops++
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(hops), "ns/hop")
		})
	}
}
