package fabric

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// big is an integral as a number.
func (a Integral) big() *big.Int {
	n := new(big.Int).SetUint64(a.hi)
	return n.Add(n.Lsh(n, 64), new(big.Int).SetUint64(a.lo))
}

// The integral is that of a step function, also far beyond 64 bits, whenever it is read;
// and what a part has is what the whole has more than the rest.
func TestIntegral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m moment
		var now units.Time
		var held uint64
		want := new(big.Int)
		last, lastWant := Integral{}, new(big.Int)
		sum := Integral{}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			dt := units.Time(rapid.Int64Range(0, int64(units.Second)*3600).Draw(t, "span"))
			now += dt
			want.Add(want, new(big.Int).Mul(new(big.Int).SetUint64(held), big.NewInt(int64(dt))))
			if held > 0 && rapid.Bool().Draw(t, "leaves") {
				n := rapid.Uint64Range(1, held).Draw(t, "bytes")
				held -= n
				m.leave(now, n)
			} else {
				n := rapid.Uint64Range(0, 1<<31).Draw(t, "bytes")
				held += n
				m.enter(now, n)
			}
			a := m.integral(now, held)
			if a.big().Cmp(want) != 0 {
				t.Fatalf("at %v it is %v, expected %v", now, a.big(), want)
			}
			if rapid.Bool().Draw(t, "read") {
				part := a.Sub(last)
				if d := new(big.Int).Sub(want, lastWant); part.big().Cmp(d) != 0 || less(part, Integral{}) || d.Sign() > 0 && !less(Integral{}, part) {
					t.Fatalf("a part is %v, expected %v", part.big(), d)
				}
				sum, last = sum.add(part), a
				lastWant.Set(want)
			}
		}
		if sum != last {
			t.Fatalf("the parts are %v and the whole %v", sum.big(), last.big())
		}
		if now > 0 {
			mean, _ := new(big.Float).Quo(new(big.Float).SetInt(want), new(big.Float).SetInt64(int64(now))).Float64()
			if got := m.integral(now, held).Over(now); got < mean*(1-1e-15) || got > mean*(1+1e-15) {
				t.Fatalf("the mean is %v, expected %v", got, mean)
			}
		}
	})
}

// Two senders put 50 packets each into one link at a time: the queue is a staircase up, while
// two come for each that goes, and one down, and its integral is known to the byte-picosecond.
func TestQueueIntegral(t *testing.T) {
	const packets, size = 50, 1000
	r := newRig(t, Star(3, gig(100, units.Microsecond)), Default(), 1)
	for i := range packets {
		for h := range 2 {
			r.send(units.Time(i), whole{Src: int32(h), Dst: 2, Size: size})
		}
	}
	port := r.n.Port(r.link(t, "tor0->h2"))
	r.run()
	// In times of the wire: the j-th packet to leave, from 0, came at j/2, rounded down, and
	// leaves at j.
	link := r.topo.Link(0)
	wire := link.Rate.Serialize(size + link.Framing.Bytes())
	var want int64
	for j := range int64(2 * packets) {
		want += size * int64(wire) * (j - j/2)
	}
	if got := port.QueueIntegral(); got != (Integral{0, uint64(want)}) || got != port.QueueIntegralOf(0) {
		t.Errorf("the integral is %v, expected %d", got.big(), want)
	}
	// When the last pair has come, as many have left.
	if got := port.MaxQueue(); got != packets*size || got != port.MaxQueueOf(0) || got != port.Stats().MaxQueue {
		t.Errorf("the longest queue is %v, expected %d", got, packets*size)
	}
	b, err := r.n.Buffer("tor0")
	if err != nil || b.UsedIntegral != port.QueueIntegral() || b.MaxUsed != port.MaxQueue() {
		t.Errorf("the buffer has %v, at most %v: %v", b.UsedIntegral.big(), b.MaxUsed, err)
	}
	port.ResetMaxQueue()
	if port.MaxQueue() != 0 || port.MaxQueueOf(0) != packets*size {
		t.Errorf("after a reset the longest queue is %v, of the priority %v", port.MaxQueue(), port.MaxQueueOf(0))
	}
	port.ResetMaxQueueOf(0)
	if err := r.n.ResetMaxBuffer("tor0"); err != nil || port.MaxQueueOf(0) != 0 {
		t.Errorf("after a reset the longest queue of the priority is %v: %v", port.MaxQueueOf(0), err)
	}
	if b, _ := r.n.Buffer("tor0"); b.MaxUsed != 0 {
		t.Errorf("after a reset the most of the buffer is %v", b.MaxUsed)
	}
	if err := r.n.ResetMaxBuffer("h0"); err == nil {
		t.Error("a host has a buffer")
	}
}

// look adds up by small steps what every port and switch holds.
type look struct {
	n     *Network
	id    des.NodeID
	src   des.Source
	step  units.Time
	until units.Time
	sums  map[string]int64
	most  map[string]units.Bytes
}

func (l *look) Handle(ev des.Event) {
	count := func(name string, held units.Bytes) {
		l.sums[name] += int64(held) * int64(l.step)
		l.most[name] = max(l.most[name], held)
	}
	for i := range l.n.topo.Links() {
		p := l.n.Port(LinkID(i))
		count(p.Name(), p.Queue())
		for prio := range l.n.Priorities() {
			count(p.Name()+string(rune('0'+prio)), p.QueueOf(prio))
		}
	}
	for _, name := range l.n.topo.SwitchNames() {
		b, _ := l.n.Buffer(name)
		count(name, b.Used)
	}
	if next := ev.At + l.step; next < l.until {
		l.n.eng.Schedule(next, &l.src, l.id, 0, 0)
	}
}

// With all that a switch does with a queue, every integral is about what looks every 20 ns
// add up to, and exactly what who observes does: pauses, drops, watchdog, marks, records and virtual output queues change nothing of it.
func TestIntegralsOfNetworks(t *testing.T) {
	link := gig(100, units.Microsecond)
	for name, c := range map[string]struct {
		topo *Topology
		set  func(*Config)
	}{
		"lossy": {Star(5, link), func(c *Config) { c.Switch.Buffer = 50 * units.KB }},
		"pfc": {Dumbbell(3, 2, link, link), func(c *Config) {
			lossless(c)
			c.Switch.Classes[1].PFC = PFC{Lossless: true, XOFF: 20 * units.KB}
		}},
		"voq": {RDCN(smallRDCN(3)), func(c *Config) { c.Switch.Buffer = 200 * units.KB }},
		"watchdog": {Star(5, link), func(c *Config) {
			lossless(c)
			c.Switch.Classes[0].PFC.Watchdog = 20 * units.Microsecond
		}},
	} {
		cfg := Default()
		cfg.Priorities = 2
		cfg.Switch.Classes[0].Weight, cfg.Switch.Classes[1].Weight = 1, 2
		cfg.Switch.INT = true
		c.set(&cfg)
		e := des.New()
		n, err := New(e, c.topo, cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		for h := range c.topo.Hosts() - 1 {
			s := newSource(e, n, h, c.topo.Hosts()-1, 1000, units.Time(h)*100*units.Nanosecond)
			s.prio, s.telemetry = uint8(h%2), h%3 == 0
		}
		x := &look{n: n, step: 20 * units.Nanosecond, until: 200 * units.Microsecond, sums: map[string]int64{}, most: map[string]units.Bytes{}}
		x.id, x.src = e.AddHandler(x), e.NewSource()
		e.Schedule(0, &x.src, x.id, 0, 0)
		// Who observes a port sees each change, and adds them up to the same.
		seen := make([]moment, c.topo.Links())
		held, most := make([]units.Bytes, c.topo.Links()), make([]units.Bytes, c.topo.Links())
		for i := range seen {
			n.Port(LinkID(i)).Observe(func(now units.Time, queued units.Bytes) {
				if queued == held[i] || queued != n.Port(LinkID(i)).Queue() {
					t.Errorf("%s: %v are said to wait, after %v", name, queued, held[i])
				}
				seen[i].leave(now, uint64(held[i]))
				seen[i].enter(now, uint64(queued))
				held[i], most[i] = queued, max(most[i], queued)
			})
		}
		if name == "watchdog" {
			n.sendPause(0, c.topo.Hosts()-1, 1)
		}
		e.RunUntil(x.until)
		some := 0
		check := func(what string, got Integral, most units.Bytes) {
			want := float64(x.sums[what]) / float64(x.until)
			if mean := got.Over(x.until); mean < want*0.99-10 || mean > want*1.01+10 {
				t.Errorf("%s, %s: the mean is %v, looks have %v", name, what, mean, want)
			}
			if most < x.most[what] {
				t.Errorf("%s, %s: at most %v, a look saw %v", name, what, most, x.most[what])
			}
			if most > 0 {
				some++
			}
		}
		for i := range c.topo.Links() {
			p := n.Port(LinkID(i))
			check(p.Name(), p.QueueIntegral(), p.MaxQueue())
			if sum := seen[i].integral(e.Now(), uint64(held[i])); sum != p.QueueIntegral() || most[i] != p.MaxQueue() {
				t.Errorf("%s, %s: the integral is %v, at most %v; who observes has %v and %v", name, p.Name(), p.QueueIntegral().big(), p.MaxQueue(), sum.big(), most[i])
			}
			for prio := range 2 {
				check(p.Name()+string(rune('0'+prio)), p.QueueIntegralOf(prio), p.MaxQueueOf(prio))
			}
		}
		for _, sw := range c.topo.SwitchNames() {
			b, _ := n.Buffer(sw)
			check(sw, b.UsedIntegral, b.MaxUsed)
		}
		if some < 4 {
			t.Errorf("%s: only %d queues held anything", name, some)
		}
	}
}

// less reports whether a is less than b.
func less(a, b Integral) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }
