package homa

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// grants returns a receiver's pending grants.
func grants(r *receiver) (all map[uint32]cc.Grant) {
	all = map[uint32]cc.Grant{}
	for {
		flow, g, ok := r.Next()
		if !ok {
			return all
		}
		all[flow] = g
	}
}

func arrive(r *receiver, now units.Time, flow uint32, arrived units.Bytes) map[uint32]cc.Grant {
	r.OnData(&cc.Data{Now: now, Flow: flow, Bytes: 1000, Arrived: arrived})
	return grants(r)
}

// Each packet of the active flow lets it send another. A shorter one takes its place at
// once, and makes room as soon as it is granted to its end.
func TestGrantsByHand(t *testing.T) {
	r := newReceiver(t, config(func(c *Config) { c.Overcommit = 1 }))
	r.OnStart(0, 0, 100*units.KB)
	r.OnStart(0, 1, 50*units.KB)
	r.OnStart(0, 2, 10*units.KB)
	if got := grants(r); len(got) != 0 {
		t.Fatalf("before any data: %v", got)
	}
	want := func(what string, got map[uint32]cc.Grant, flow uint32, g cc.Grant) {
		t.Helper()
		if len(got) != 1 || got[flow] != g {
			t.Errorf("%s: %v, want %v for flow %d", what, got, g, flow)
		}
	}
	want("the long one's first packet", arrive(r, 1, 0, 1000), 0, cc.Grant{Limit: 21_000, Class: 1})
	want("and its twentieth", arrive(r, 2, 0, 20_000), 0, cc.Grant{Limit: 40_000, Class: 1})
	if got := arrive(r, 3, 2, 1000); len(got) != 0 {
		t.Errorf("a short flow wants no grant: %v", got)
	}
	if got := arrive(r, 3, 2, 10_000); len(got) != 0 {
		t.Errorf("a short flow wants no grant: %v", got)
	}
	// Flow 1 is shorter: flow 0 keeps what it was granted, and gets no more.
	want("the shorter one", arrive(r, 4, 1, 20_000), 1, cc.Grant{Limit: 40_000, Class: 1})
	if got := arrive(r, 5, 0, 40_000); len(got) != 0 {
		t.Errorf("the displaced flow: %v", got)
	}
	got := arrive(r, 6, 1, 35_000)
	if len(got) != 2 || got[1] != (cc.Grant{Limit: 50_000, Class: 1}) || got[0] != (cc.Grant{Limit: 60_000, Class: 1}) {
		t.Errorf("the shorter one's end: %v", got)
	}
	if got := arrive(r, 7, 1, 40_000); len(got) != 0 {
		t.Errorf("a flow granted to its end: %v", got)
	}
	r.OnEnd(8, 1)
	want("the longer one", arrive(r, 9, 0, 41_000), 0, cc.Grant{Limit: 61_000, Class: 1})
}

// Several at a time: one class below the other. A shorter one that comes goes
// above. When the shortest is in the lowest class with others, it waits for its
// packets and rises.
func TestClasses(t *testing.T) {
	r := newReceiver(t, config(func(c *Config) { c.Overcommit, c.ScheduledClasses = 2, 4 }))
	for i, size := range []units.Bytes{100, 110, 90, 120, 130} {
		r.OnStart(0, uint32(i), size*units.KB)
	}
	class := func(got map[uint32]cc.Grant, flow uint32, want uint8) {
		t.Helper()
		if g, ok := got[flow]; !ok || g.Class != want {
			t.Errorf("flow %d: %v, want class %d", flow, got, want)
		}
	}
	class(arrive(r, 1, 0, 1000), 0, 2)
	class(arrive(r, 2, 1, 1000), 1, 1)
	class(arrive(r, 3, 2, 5000), 2, 3)
	class(arrive(r, 4, 0, 2000), 0, 2)
	r.OnEnd(5, 2)
	class(arrive(r, 6, 0, 3000), 0, 2)
	if got := arrive(r, 7, 3, 1000); len(got) != 0 {
		t.Errorf("a third flow got %v", got)
	}
	r.OnEnd(8, 0)
	class(arrive(r, 9, 3, 2000), 3, 1)
	// A tie: flow 1 waits until what was granted has arrived.
	if got := arrive(r, 10, 1, 20_000); len(got) != 0 {
		t.Errorf("the shortest got %v in the class of the others", got)
	}
	class(arrive(r, 11, 1, 21_000), 1, 2)
	class(arrive(r, 12, 1, 22_000), 1, 2)
	class(arrive(r, 13, 3, 3000), 3, 1)
}

// What a receiver promises whatever comes: limits never fall and stay within the
// flow and RTTBytes of what has arrived; at most Overcommit flows are granted to, each of
// which has RTTBytes ahead, but for one that waits for its class; no class rises above
// that of a packet under way; and if a flow is left waiting while there is room,
// it is not the shortest.
func TestReceiverProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config(func(c *Config) {
			c.Overcommit = rapid.IntRange(1, 8).Draw(t, "overcommit")
			c.ScheduledClasses = rapid.IntRange(1, 6).Draw(t, "scheduled")
		})
		r := newReceiver(t, c)
		type peer struct {
			live                 bool
			size, arrived, limit units.Bytes
			given                []cc.Grant // not all of which has arrived
		}
		peers := make([]peer, rapid.IntRange(1, 12).Draw(t, "flows"))
		now := units.Time(0)
		check := func() {
			for {
				number, g, ok := r.Next()
				if !ok {
					break
				}
				p := &peers[number]
				if !p.live || g.Limit <= p.limit || g.Limit > p.arrived+rttBytes || p.size > 0 && g.Limit > p.size {
					t.Fatalf("flow %d %+v was granted %+v", number, *p, g)
				}
				if g.Class < 1 || int(g.Class) > c.ScheduledClasses {
					t.Fatalf("class %d", g.Class)
				}
				for _, before := range p.given {
					if before.Class < g.Class {
						t.Fatalf("flow %d at %v: class %d after %+v", number, p.arrived, g.Class, before)
					}
				}
				p.limit = g.Limit
				p.given = append(p.given, g)
			}
			wants, fewest := 0, units.Bytes(1<<62)
			for i := range peers {
				p := &peers[i]
				if !p.live {
					continue
				}
				if p.arrived > 0 && (p.size == 0 || p.size > p.limit) {
					wants++
					if p.size > 0 {
						fewest = min(fewest, p.size-p.arrived)
					}
				}
			}
			for i, x := range r.active {
				if f := &r.flows[x]; i > 0 && f.limit != f.arrived+rttBytes {
					t.Fatalf("active flow %d of which %v have arrived is granted up to %v", x, f.arrived, f.limit)
				}
			}
			if len(r.active) != min(wants, c.Overcommit) {
				t.Fatalf("%d active, %d want grants", len(r.active), wants)
			}
			if len(r.active) > 0 {
				if f := &r.flows[r.active[0]]; f.size != unknown && f.size-f.arrived > fewest {
					t.Fatalf("the shortest has %v to come, the first of the active ones %v", fewest, f.size-f.arrived)
				}
			}
			for i, x := range r.waiting {
				if i > 0 && r.before(x, r.waiting[(i-1)/2]) || int(r.flows[x].place) != i || r.flows[x].where != inWaiting {
					t.Fatalf("the heap is out of order at %d", i)
				}
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			now += units.Time(rapid.IntRange(0, 1000).Draw(t, "ns"))
			number := uint32(rapid.IntRange(0, len(peers)-1).Draw(t, "flow"))
			p := &peers[number]
			switch {
			case !p.live:
				*p = peer{live: true, size: units.Bytes(rapid.IntRange(0, 150_000).Draw(t, "size"))}
				if p.limit = rttBytes; p.size > 0 {
					p.limit = min(rttBytes, p.size)
				}
				r.OnStart(now, number, p.size)
			case rapid.IntRange(0, 30).Draw(t, "ends") == 0 || p.size > 0 && p.arrived == p.size:
				p.live = false
				r.OnEnd(now, number)
			default:
				n := min(units.Bytes(rapid.IntRange(1, 20).Draw(t, "packets"))*1000, p.limit-p.arrived)
				if n == 0 {
					continue
				}
				p.arrived += n
				for len(p.given) > 0 && p.given[0].Limit <= p.arrived {
					p.given = p.given[1:]
				}
				r.OnData(&cc.Data{Now: now, Flow: number, Size: p.size, Bytes: n, Arrived: p.arrived})
			}
			check()
		}
	})
}

// A flow that is silent gives its place to others, and gets it back when it is
// heard from.
func TestSilence(t *testing.T) {
	r := newReceiver(t, config(func(c *Config) { c.Overcommit = 1 }))
	r.OnStart(0, 0, 50*units.KB)
	r.OnStart(0, 1, 100*units.KB)
	arrive(r, us, 0, 20_000)
	arrive(r, us, 1, 20_000)
	at := r.Deadline()
	if at != units.Millisecond {
		t.Fatalf("the timer is set for %v", at)
	}
	r.OnTimer(at - 1)
	if got := grants(r); len(got) != 0 {
		t.Errorf("before its time: %v", got)
	}
	r.OnTimer(at) // heard from a microsecond less than Resend ago
	if got := grants(r); len(got) != 0 || r.Deadline() != 2*units.Millisecond {
		t.Errorf("%v, and the timer for %v", got, r.Deadline())
	}
	r.OnTimer(2 * units.Millisecond)
	got := grants(r)
	if got[0] != (cc.Grant{Limit: 40_000, Class: 1}) || got[1] != (cc.Grant{Limit: 40_000, Class: 1}) {
		t.Errorf("%v: want flow 0's grant again, and one for flow 1", got)
	}
	if got := arrive(r, 2100*us, 0, 21_000); got[0].Limit != 41_000 || len(got) != 1 {
		t.Errorf("heard again, flow 0 is the shortest: %v", got)
	}
	if got := arrive(r, 2200*us, 1, 40_000); len(got) != 0 {
		t.Errorf("%v for flow 1, whose place flow 0 has again", got)
	}
	r.OnEnd(3000*us, 0)
	r.OnEnd(3000*us, 1)
	r.OnTimer(3000 * us)
	if r.Deadline() != units.Never {
		t.Errorf("without flows the timer is set for %v", r.Deadline())
	}
}

// What no driver should say does no harm.
func TestReceiverBearsNonsense(t *testing.T) {
	r := newReceiver(t, DefaultConfig())
	r.OnEnd(0, 7)
	r.OnTimer(0)
	r.OnStart(1, 3, -5)
	r.OnStart(1, 3, 100)
	arrive(r, 2, 3, -1)
	r.OnData(&cc.Data{Now: 3, Flow: 5, Size: 50_000, Bytes: 1000, Arrived: 90_000})
	grants(r)
	r.OnEnd(4, 5)
	r.OnEnd(4, 5)
	r.OnEnd(4, 3)
	if r.incomplete != 0 {
		t.Errorf("%d incomplete", r.incomplete)
	}
}

// thousand has a thousand flows to one host in all stages.
func thousand(t testing.TB) func() {
	r := newReceiver(testFailer{t}, DefaultConfig())
	const n = 1000
	arrived := make([]units.Bytes, n)
	size := func(i int) units.Bytes { return units.Bytes(i%97+1) * 5000 }
	for i := range n {
		r.OnStart(0, uint32(i), size(i))
	}
	d := cc.Data{Bytes: 1000}
	i := 0
	return func() {
		i = (i + 7) % n
		d.Now += 100 * units.Nanosecond
		if arrived[i] >= size(i) {
			r.OnEnd(d.Now, uint32(i))
			arrived[i] = 0
			r.OnStart(d.Now, uint32(i), size(i))
		}
		arrived[i] += 1000
		d.Flow, d.Arrived = uint32(i), arrived[i]
		r.OnData(&d)
		if r.Deadline() <= d.Now {
			r.OnTimer(d.Now)
		}
		for {
			if _, _, ok := r.Next(); !ok {
				break
			}
		}
	}
}

type testFailer struct{ testing.TB }

func TestReceiverAllocatesNothing(t *testing.T) {
	step := thousand(t)
	for range 300_000 {
		step()
	}
	if n := testing.AllocsPerRun(10_000, step); n != 0 {
		t.Errorf("a packet allocates %v times", n)
	}
}

func BenchmarkReceiver(b *testing.B) {
	step := thousand(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
