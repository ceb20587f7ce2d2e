package fault

import (
	"math"
	"math/rand/v2"

	"github.com/sluice-rdma/sluice/units"
)

// Storm holds the parameters by which a schedule is drawn.
type Storm struct {
	Hosts   int
	Span    units.Time // faults with an instant lie within; the others befall early packets
	Packets uint64     // of each link: those after are safe
	Forge   bool       // half of the schedules have packets in another's name
}

// Draw draws a schedule. Some seeds give calm weather with one fault, some a
// packet in ten lost, so that both simple and entangled failures come.
func (c Storm) Draw(seed uint64) Schedule {
	r := rand.New(rand.NewPCG(seed, 0x5701))
	var s Schedule
	// How rough it is: each kind of a packet's fault has its own share, often none.
	var share [Mark + 1]float64
	for k := range share {
		if r.IntN(3) > 0 {
			share[k] = math.Pow(10, -4+3*r.Float64()) // 0.0001 to 0.1
		}
	}
	for a := range c.Hosts {
		for b := range c.Hosts {
			if a == b {
				continue
			}
			for k, p := range share {
				if p == 0 {
					continue
				}
				for n := gap(r, p); n < c.Packets; n += 1 + gap(r, p) {
					f := Fault{Kind: Kind(k), A: a, B: b, Packet: n}
					switch f.Kind {
					case Duplicate, Delay:
						f.For = upTo(r, 200*units.Microsecond)
					case Corrupt:
						f.Bit = r.Uint32()
					}
					s = append(s, f)
				}
			}
		}
	}
	instant := func() units.Time { return units.Time(r.Int64N(int64(c.Span))) }
	several := func(most int) int { return max(0, r.IntN(most+3)-2) }
	if c.Hosts > 1 {
		for range several(2) {
			a := r.IntN(c.Hosts)
			b := (a + 1 + r.IntN(c.Hosts-1)) % c.Hosts
			s = append(s, Fault{Kind: Partition, A: a, B: b, At: instant(), For: upTo(r, c.Span/4)})
		}
	}
	for range several(2) {
		s = append(s, Fault{Kind: Crash, A: r.IntN(c.Hosts), At: instant(), For: upTo(r, c.Span/4)})
	}
	for range several(3) {
		s = append(s, Fault{Kind: Stall, A: r.IntN(c.Hosts), At: instant(), For: upTo(r, c.Span/4)})
	}
	for a := range c.Hosts {
		if r.IntN(2) == 0 {
			s = append(s, Fault{Kind: Drift, A: a, PPM: math.Round(r.Float64()*200 - 100)})
		}
		for range several(1) {
			s = append(s, Fault{Kind: Step, A: a, At: instant(), By: upTo(r, units.Millisecond) - 500*units.Microsecond})
		}
	}
	if c.Forge {
		s = append(s, c.forgeries(seed)...)
	}
	return s
}

// forgeries draws from numbers of its own: the other faults are those of a schedule without.
func (c Storm) forgeries(seed uint64) (s Schedule) {
	r := rand.New(rand.NewPCG(seed, 0xf067))
	if r.IntN(2) == 0 {
		return nil
	}
	p := math.Pow(10, -3+2*r.Float64()) // 0.001 to 0.1
	for a := range c.Hosts {
		for b := range c.Hosts {
			if a == b {
				continue
			}
			for n := gap(r, p); n < c.Packets; n += 1 + gap(r, p) {
				s = append(s, Fault{Kind: Forge, A: a, B: b, Packet: n, As: r.Uint32()})
			}
		}
	}
	return s
}

// gap draws how many packets a share p of faults spares before the next.
func gap(r *rand.Rand, p float64) uint64 {
	return uint64(math.Log(1-r.Float64()) / math.Log(1-p))
}

// upTo draws a time of any order of magnitude below most, in nanoseconds.
func upTo(r *rand.Rand, most units.Time) units.Time {
	ns := math.Exp(r.Float64() * math.Log(float64(most/units.Nanosecond)))
	return units.Time(ns) * units.Nanosecond
}
