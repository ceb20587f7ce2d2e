package fabric

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// smallRDCN has four racks, days of 50 us and nights of 10 us: a week is 180 us.
func smallRDCN(hosts int) RDCNSpec {
	return RDCNSpec{
		Tors: 4, HostsPerTor: hosts, Day: 50 * units.Microsecond, Night: 10 * units.Microsecond,
		Host:    gig(25, units.Microsecond),
		Packet:  gig(25, units.Microsecond),
		Circuit: gig(100, 2*units.Microsecond),
	}
}

// isUp restates the schedule: on day s, tor i has the circuit to tor i+s+1.
func isUp(s *RDCNSpec, from, to int, at units.Time) (up bool, left units.Time) {
	period := s.Day + s.Night
	day := int(at/period) % (s.Tors - 1)
	return (from+day+1)%s.Tors == to && at%period < s.Day, s.Day - at%period
}

// Packets leave a tor by the circuit exactly while that is up, and a VOQ is a FIFO.
// What is sent is delivered or dropped.
func TestCircuitSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := smallRDCN(rapid.IntRange(1, 3).Draw(t, "hosts"))
		spec.Tors = rapid.IntRange(3, 6).Draw(t, "tors")
		spec.Day = units.Time(rapid.IntRange(2, 60).Draw(t, "day")) * units.Microsecond
		spec.Night = units.Time(rapid.IntRange(0, 20).Draw(t, "night")) * units.Microsecond
		cfg := Default()
		cfg.Priorities = rapid.IntRange(1, 3).Draw(t, "priorities")
		for i := range cfg.Priorities {
			cfg.Switch.Classes[i].Weight = rapid.IntRange(0, 2).Draw(t, "weight")
		}
		cfg.Circuits.Guard = min(units.Time(rapid.IntRange(0, 5).Draw(t, "guard"))*units.Microsecond, spec.Night)
		if rapid.Bool().Draw(t, "bounded") {
			cfg.Circuits.VOQ, cfg.Circuits.Announced = 20_000, 40_000
		}
		topo := RDCN(spec)
		r := newRig(t, topo, cfg, 1)
		drawTraffic(t, r, 300)
		for _, c := range r.nics {
			for i := range c.out {
				for j := range c.out[i] {
					c.out[i][j].p.Telemetry = telemetry.PerHop
				}
			}
		}
		r.run()
		r.drained(t)
		type fifo struct {
			host, tor int32
			priority  uint8
		}
		for _, c := range r.nics {
			last := map[fifo]units.Time{}
			order := map[fifo]uint64{}
			for _, a := range c.got {
				from, to := int(a.Src)/spec.HostsPerTor, int(a.Dst)/spec.HostsPerTor
				if from == to {
					if len(a.Path) != 1 {
						t.Fatalf("within a rack, a packet passed %d switches", len(a.Path))
					}
					continue
				}
				h := a.Path[0]
				up, left := isUp(&spec, from, to, h.Time)
				took := h.Rate == spec.Circuit.Rate
				if took && !up || took != (len(a.Path) == 2) {
					t.Fatalf("at %v a packet left tor%d for tor%d at %v by %d switches; circuit up: %v", h.Time, from, to, h.Rate, len(a.Path), up)
				}
				if wire := h.Rate.Serialize(units.Bytes(a.Size)); took && wire > left {
					t.Fatalf("a packet that took %v began %v before dusk", wire, left)
				}
				if !took && up {
					t.Fatalf("at %v a packet left tor%d for tor%d by the packet network in spite of a circuit", h.Time, from, to)
				}
				// Of one host and VOQ packets leave in the order in which they were sent.
				f := fifo{a.Src, int32(to), a.Priority}
				if before, ok := order[f]; ok && (a.User > before) != (h.Time > last[f]) {
					t.Fatalf("packets of %+v left their VOQ out of order", f)
				}
				if a.User >= order[f] {
					order[f], last[f] = a.User, h.Time
				}
			}
		}
	})
}

// stream queues packets of a size from one host to another, back to back.
func (r *rig) stream(src, dst, size, packets int, p whole) {
	for range packets {
		p.Size, p.Src, p.Dst = int32(size), int32(src), int32(dst)
		r.send(0, p)
	}
}

// Eight senders fill a circuit of 100 Gbps while it is up, and 25 Gbps else.
func TestCircuitIsFilled(t *testing.T) {
	spec := smallRDCN(8)
	r := newRig(t, RDCN(spec), Default(), 1)
	for h := range 8 {
		r.stream(h, 8+h, 1000, 800, whole{})
	}
	circuit := r.n.Port(r.link(t, "tor0->tor1"))
	busy := func(p Port, from, to units.Time) float64 {
		r.e.RunUntil(from)
		before := p.Stats().Busy
		r.e.RunUntil(to)
		return float64(p.Stats().Busy-before) / float64(to-from)
	}
	us := units.Microsecond
	if got := busy(circuit, 5*us, 49*us); got < 0.999 {
		t.Errorf("by day the circuit was busy for %.3f of the time", got)
	}
	if got := busy(circuit, 50*us, 179*us); got != 0 {
		t.Errorf("by night and on other days it was busy for %.3f of the time", got)
	}
	r = newRig(t, RDCN(spec), Default(), 1)
	for h := range 8 {
		r.stream(h, 8+h, 1000, 800, whole{})
	}
	uplink := r.n.Port(r.link(t, "tor0->core0"))
	if got := busy(uplink, 5*us, 49*us); got != 0 {
		t.Errorf("by day the uplink was busy for %.3f of the time", got)
	}
	if got := busy(uplink, 51*us, 179*us); got < 0.999 {
		t.Errorf("by night it was busy for %.3f of the time", got)
	}
}

// The VOQs of a tor share its uplink packet by packet.
func TestUplinkRoundRobin(t *testing.T) {
	spec := smallRDCN(6)
	spec.Day, spec.Night = units.Microsecond, 59*units.Microsecond
	r := newRig(t, RDCN(spec), Default(), 1)
	for i := range 6 { // two hosts to each of the other tors
		r.stream(i, 6*(1+i/2), 1000, 400, whole{Telemetry: telemetry.PerHop})
	}
	r.e.RunUntil(55 * units.Microsecond)
	var left [4]int
	for _, c := range r.nics {
		for _, a := range c.got {
			if h := a.Path[0]; h.Time > 20*units.Microsecond && h.Rate == spec.Packet.Rate {
				left[int(a.Dst)/6]++
			}
		}
	}
	if left[1] < 20 || max(left[1], left[2], left[3])-min(left[1], left[2], left[3]) > 1 {
		t.Errorf("of three VOQs that share an uplink, %v packets left", left[1:])
	}
}

// With a guard, what took the packet network comes before what takes the circuit.
func TestGuardKeepsOrder(t *testing.T) {
	overtaken := func(guard units.Time) (n int) {
		spec := smallRDCN(2)
		spec.Packet.Delay = 2 * units.Microsecond
		cfg := Default()
		cfg.Circuits.Guard = guard
		r := newRig(t, RDCN(spec), cfg, 1)
		r.stream(0, 4, 1000, 500, whole{})
		r.run()
		for i, a := range r.nics[4].got[1:] {
			if a.User < r.nics[4].got[i].User {
				n++
			}
		}
		if len(r.nics[4].got) != 500 {
			t.Fatalf("%d of 500 packets came", len(r.nics[4].got))
		}
		return n
	}
	if overtaken(0) == 0 {
		t.Error("without a guard no packet is overtaken: the test shows nothing")
	}
	if n := overtaken(4 * units.Microsecond); n != 0 {
		t.Errorf("with a guard, %d packets were overtaken", n)
	}
}

// A VOQ is bounded, by more from when its circuit is announced, which packets tell.
func TestCircuitIsAnnounced(t *testing.T) {
	spec := smallRDCN(8)
	cfg := Default()
	ahead := 25 * units.Microsecond
	cfg.Circuits = CircuitConfig{VOQ: 20_000, Announced: 60_000, Ahead: ahead}
	r := newRig(t, RDCN(spec), cfg, 1)
	for h := range 8 {
		r.stream(h, 16+h, 1000, 1000, whole{Telemetry: telemetry.PerHop}) // to tor2, whose day is the second
	}
	voq := r.n.Port(r.link(t, "tor0->tor2"))
	most := func(until units.Time) (q units.Bytes) {
		for at := r.e.Now(); at < until; at += 50 * units.Nanosecond {
			r.e.RunUntil(at)
			q = max(q, voq.Queue())
		}
		return q
	}
	dawn := spec.Day + spec.Night
	if q := most(dawn - ahead); q <= 19_000 || q > 20_000 {
		t.Errorf("unannounced, the VOQ held up to %v", q)
	}
	if q := most(dawn); q <= 59_000 || q > 60_000 {
		t.Errorf("announced, it held up to %v", q)
	}
	r.e.RunUntil(dawn + spec.Day + 30*units.Microsecond)
	if q := most(dawn + spec.Day + 60*units.Microsecond); q > 20_000 {
		t.Errorf("after its day it held up to %v", q)
	}
	if voq.Stats().Drops == 0 {
		t.Error("a VOQ that is full dropped nothing")
	}
	flagged := 0
	for _, c := range r.nics {
		for _, a := range c.got {
			at := a.Path[0].Time
			want := at >= dawn-ahead && at < dawn+spec.Day
			if got := a.Flags&Circuit != 0; got != want {
				t.Fatalf("a packet left at %v, day from %v to %v, flag %v", at, dawn, dawn+spec.Day, got)
			}
			if want {
				flagged++
			}
		}
	}
	if flagged == 0 {
		t.Error("no packet told of the circuit")
	}
}

func TestCircuitBaseRTT(t *testing.T) {
	spec := smallRDCN(2)
	cfg := Default()
	cfg.Switch.INT = false
	n, err := New(des.New(), RDCN(spec), cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	hop := func(delay, latency units.Time) units.Time {
		return (25 * units.Gbps).Serialize(1020) + delay + latency
	}
	const lat = 600 * units.Nanosecond
	// Host, uplink, downlink of the packet network, host.
	want := 3*hop(units.Microsecond, lat) + hop(units.Microsecond, 0)
	if got := n.BaseDelay(0, 7, 1000); got != want {
		t.Errorf("the base delay between racks is %v, want that of the packet network, %v", got, want)
	}
	if got := n.MaxBaseRTT(1000, 1000); got != 2*want {
		t.Errorf("the largest base RTT is %v, want %v", got, 2*want)
	}
}

func TestCircuitOf(t *testing.T) {
	spec := smallRDCN(1)
	topo := RDCN(spec)
	for i := range spec.Tors {
		for j := range spec.Tors {
			if i == j {
				continue
			}
			l, err := topo.FindLink("tor" + string(rune('0'+i)) + "->tor" + string(rune('0'+j)))
			if err != nil {
				t.Fatal(err)
			}
			dawn, day, week, ok := topo.Circuit(l)
			if !ok || day != spec.Day || week != 3*(spec.Day+spec.Night) {
				t.Errorf("circuit %d to %d: %v %v %v", i, j, day, week, ok)
			}
			if up, _ := isUp(&spec, i, j, dawn); !up {
				t.Errorf("circuit %d to %d is not up at its dawn, %v", i, j, dawn)
			}
		}
	}
	if l, _ := topo.FindLink("tor0->core0"); true {
		if _, _, _, ok := topo.Circuit(l); ok {
			t.Error("an uplink is a circuit")
		}
	}
}

func TestCircuitErrors(t *testing.T) {
	us := units.Microsecond
	for _, c := range []struct {
		want   string
		change func(*RDCNSpec, *Config)
	}{
		{"set at least 3", func(s *RDCNSpec, _ *Config) { s.Tors = 2 }},
		{"set a day above 0", func(s *RDCNSpec, _ *Config) { s.Day = 0 }},
		{"hosts per tor is 0", func(s *RDCNSpec, _ *Config) { s.HostsPerTor = 0 }},
		{"make all priorities lossy", func(_ *RDCNSpec, c *Config) { lossless(c) }},
		{"circuits.guard is 11us: choose a span up to that of a night, 10us", func(_ *RDCNSpec, c *Config) { c.Circuits.Guard = 11 * us }},
		{"circuits.ahead is 131us: choose a span up to 130us", func(_ *RDCNSpec, c *Config) { c.Circuits.Ahead = 131 * us }},
		{"circuits.voq is -1B", func(_ *RDCNSpec, c *Config) { c.Circuits.VOQ = -1 }},
		{"circuits.guard is -1ps", func(_ *RDCNSpec, c *Config) { c.Circuits.Guard = -1 }},
		{"tor0->tor2, a circuit", func(_ *RDCNSpec, c *Config) {
			c.Failures = []Failure{{Link: "tor0->tor2", Down: true}}
		}},
	} {
		s, cfg := smallRDCN(2), Default()
		c.change(&s, &cfg)
		if _, err := New(des.New(), RDCN(s), cfg, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v", c.want, err)
		}
	}
	cfg := Default()
	cfg.Circuits.VOQ = 1000
	if _, err := New(des.New(), Star(2, gig(25, us)), cfg, 1); err == nil {
		t.Error("Circuits without any were accepted")
	}
}

func TestCircuitsDoNotAllocate(t *testing.T) {
	e := des.New()
	spec := smallRDCN(4)
	n, err := New(e, RDCN(spec), Default(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for h := range 16 {
		s := newSource(e, n, h, (h+4+h%8)%16, 1000, units.Microsecond)
		s.telemetry = true
	}
	e.RunUntil(2000 * units.Microsecond)
	if a := testing.AllocsPerRun(10, func() { e.RunUntil(e.Now() + 100*units.Microsecond) }); a != 0 {
		t.Errorf("%v allocations in 100us", a)
	}
}
