package ratelimiter

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// model is the scheduler restated without a wheel: a list of segments that is
// searched, and due times by rational arithmetic.
type model struct {
	cfg   Config
	now   units.Time
	flows map[FlowID]*modelFlow
	// The enqueued flows: the ring's in its order, then the future ones in the order
	// in which they were filed.
	ring, future []FlowID
	// The flow whose segment left last, how many more it may send in its turn, and
	// whether the next of them is enqueued.
	serving *modelFlow
	left    int
	going   bool
}

type modelFlow struct {
	weight      int
	rate, filed units.Rate
	queued      bool
	head, last  int64
	anchor      units.Time
	sent        bool     // anchor means something
	rem         *big.Int // in bit-picoseconds
	nextRem     *big.Int
	due         units.Time
	credit      units.Time
}

func (m *model) unpaced(r units.Rate) bool {
	return r == Unpaced || m.cfg.LineRate != 0 && r >= m.cfg.LineRate
}

// gap is floor((8 n 10^12 + rem) / rate), and what is left.
func gap(n int64, rate units.Rate, rem *big.Int) (*big.Int, *big.Int) {
	if rem.Cmp(big.NewInt(int64(rate))) >= 0 {
		rem = new(big.Int)
	}
	span := new(big.Int).Mul(big.NewInt(8*n), big.NewInt(int64(units.Second)))
	return new(big.Int).DivMod(span.Add(span, rem), big.NewInt(int64(rate)), new(big.Int))
}

func (f *modelFlow) next() (units.Time, *big.Int) {
	if !f.sent {
		return math.MinInt64, new(big.Int)
	}
	g, rem := gap(f.last, f.rate, f.rem)
	at := new(big.Int).Add(g, big.NewInt(int64(f.anchor)))
	if !g.IsInt64() || !at.IsInt64() {
		return units.Never, new(big.Int)
	}
	return units.Time(at.Int64()), rem
}

func (m *model) advance(now units.Time) {
	m.now = max(m.now, now)
	slices.SortStableFunc(m.future, func(a, b FlowID) int {
		return cmp.Compare(m.flows[a].due, m.flows[b].due)
	})
	for len(m.future) > 0 && m.flows[m.future[0]].due <= m.now {
		m.ring = append(m.ring, m.future[0])
		m.future = m.future[1:]
	}
}

func (m *model) put(id FlowID, due units.Time) {
	f := m.flows[id]
	f.due, f.filed, f.queued = due, f.rate, true
	if due <= m.now {
		m.ring = append(m.ring, id)
	} else {
		m.future = append(m.future, id)
	}
}

func (m *model) enqueue(now units.Time, id FlowID, n int64) {
	m.advance(now)
	f := m.flows[id]
	f.head, f.credit = n, 0
	due := m.now
	if !m.unpaced(f.rate) {
		if due, f.nextRem = f.next(); due < m.now {
			f.credit = min(f.rate.Serialize(m.cfg.Burst), longest)
			if idle := new(big.Int).Sub(big.NewInt(int64(m.now)), big.NewInt(int64(due))); idle.IsInt64() {
				f.credit = min(f.credit, units.Time(idle.Int64()))
			}
			due = m.now
		}
	}
	m.put(id, due)
	if due <= m.now && m.serving == f && m.left > 0 {
		m.ring = slices.Insert(m.ring[:len(m.ring)-1], 0, id)
		m.left--
		m.going = true
	}
}

func (m *model) dequeue(now units.Time) (FlowID, bool) {
	m.advance(now)
	for len(m.ring) > 0 {
		id := m.ring[0]
		m.ring = m.ring[1:]
		f := m.flows[id]
		if f.rate < f.filed && !m.unpaced(f.rate) {
			if due, rem := f.next(); due > f.due {
				f.due, f.nextRem, f.credit = due, rem, 0
			}
			if f.due > m.now {
				m.put(id, f.due)
				continue
			}
		}
		f.anchor = max(f.due, m.now-m.cfg.CatchUp) - f.credit
		f.last, f.rem, f.sent, f.queued = f.head, f.nextRem, true, false
		if m.serving != f || !m.going {
			m.serving, m.left = f, f.weight-1
		}
		m.going = false
		return id, true
	}
	return 0, false
}

func (m *model) drop(id FlowID) {
	m.ring = slices.DeleteFunc(m.ring, func(x FlowID) bool { return x == id })
	m.future = slices.DeleteFunc(m.future, func(x FlowID) bool { return x == id })
	m.flows[id].queued = false
}

// withdraw ends the flow's turn, too.
func (m *model) withdraw(id FlowID) {
	if m.flows[id].queued && m.serving == m.flows[id] {
		m.left, m.going = 0, false
	}
	m.drop(id)
}

func (m *model) setRate(id FlowID, r units.Rate) {
	f := m.flows[id]
	f.rate = r
	if !slices.Contains(m.future, id) || r <= f.filed {
		return
	}
	due, rem := m.now, new(big.Int)
	if !m.unpaced(r) {
		due, rem = f.next()
		due = max(due, m.now)
	}
	if due < f.due-m.cfg.PullIn {
		m.drop(id)
		f.nextRem = rem
		m.put(id, due)
	}
}

func (m *model) nextDue() units.Time {
	if len(m.ring) > 0 {
		return m.now
	}
	due := units.Never
	for _, id := range m.future {
		due = min(due, m.flows[id].due)
	}
	return due
}

func drawRate(t *rapid.T) units.Rate {
	return units.Rate(rapid.OneOf(
		rapid.Int64Range(int64(units.Gbps), int64(units.Tbps)),
		rapid.Int64Range(1, int64(units.Mbps)),
		rapid.SampledFrom([]int64{1, 7, int64(7 * units.Gbps), int64(100 * units.Gbps), int64(Unpaced)}),
	).Draw(t, "rate"))
}

// TestAgainstModel drives the scheduler and the model alike and wants the same
// flows at the same times.
func TestAgainstModel(t *testing.T) { againstModel(t, math.MaxInt, drawRate, MaxWeight) }

// TestTurnsAgainstModel does so with few flows that nothing holds back, so that they take turns.
func TestTurnsAgainstModel(t *testing.T) {
	againstModel(t, 3, func(*rapid.T) units.Rate { return Unpaced }, 2)
}

func againstModel(t *testing.T, most int, drawRate func(*rapid.T) units.Rate, weight int) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			LineRate: rapid.SampledFrom([]units.Rate{0, 100 * units.Gbps}).Draw(t, "line"),
			Burst:    rapid.SampledFrom([]units.Bytes{0, 1, 64 * units.KiB}).Draw(t, "burst"),
			CatchUp:  rapid.SampledFrom([]units.Time{0, units.Nanosecond, 10 * units.Microsecond}).Draw(t, "catchup"),
			PullIn:   rapid.SampledFrom([]units.Time{0, units.Nanosecond, 10 * units.Microsecond}).Draw(t, "pullin"),
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		now := units.Time(rapid.Int64Range(-1<<61, 1<<61).Draw(t, "start"))
		m := &model{cfg: cfg, now: math.MinInt64, flows: map[FlowID]*modelFlow{}}
		var ids []FlowID
		flow := func(t *rapid.T) FlowID {
			if len(ids) == 0 {
				t.Skip("no flow yet")
			}
			return rapid.SampledFrom(ids).Draw(t, "flow")
		}
		dequeue := func(t *rapid.T) {
			id, ok := s.Dequeue(now)
			wantID, want := m.dequeue(now)
			if ok != want || id != wantID {
				t.Fatalf("at %v: dequeued %v %v, want %v %v", now, id, ok, wantID, want)
			}
		}
		actions := map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if len(ids) >= most {
					t.Skip("enough flows")
				}
				r := drawRate(t)
				id, err := s.AddFlow(r)
				if err != nil {
					t.Fatal(err)
				}
				if m.flows[id] != nil {
					t.Fatalf("flow %d exists twice", id)
				}
				m.flows[id] = &modelFlow{weight: 1, rate: r, rem: new(big.Int), nextRem: new(big.Int)}
				ids = append(ids, id)
			},
			"remove": func(t *rapid.T) {
				id := flow(t)
				s.RemoveFlow(id)
				m.drop(id)
				delete(m.flows, id)
				ids = slices.DeleteFunc(ids, func(x FlowID) bool { return x == id })
			},
			"enqueue": func(t *rapid.T) {
				id := flow(t)
				if m.flows[id].queued {
					t.Skip("has one")
				}
				n := rapid.OneOf(rapid.Int64Range(0, 1<<16), rapid.Int64Range(0, math.MaxUint32)).Draw(t, "bytes")
				s.Enqueue(now, id, units.Bytes(n))
				m.enqueue(now, id, n)
			},
			"rate": func(t *rapid.T) {
				id, r := flow(t), drawRate(t)
				if err := s.SetRate(id, r); err != nil {
					t.Fatal(err)
				}
				m.setRate(id, r)
			},
			"withdraw": func(t *rapid.T) {
				id := flow(t)
				if s.Withdraw(id) != m.flows[id].queued {
					t.Fatal("Withdraw disagrees that there was a segment")
				}
				m.withdraw(id)
			},
			"weight": func(t *rapid.T) {
				id, w := flow(t), rapid.SampledFrom([]int{1, 2, 3, weight}).Draw(t, "weight")
				if err := s.SetWeight(id, w); err != nil {
					t.Fatal(err)
				}
				m.flows[id].weight = w
			},
			"dequeue": dequeue,
			"next": func(t *rapid.T) {
				if due := s.NextDue(); due != units.Never {
					now = max(now, due)
				}
				dequeue(t)
			},
			"wait": func(t *rapid.T) {
				most := rapid.SampledFrom([]int64{1, 1000, 1 << 30, 1 << 50}).Draw(t, "most")
				now += units.Time(rapid.Int64Range(0, most).Draw(t, "wait"))
			},
			"": func(t *rapid.T) {
				if got, want := s.NextDue(), m.nextDue(); got != want {
					t.Fatalf("next due %d, want %d", got, want)
				}
				if s.Len() != len(m.ring)+len(m.future) {
					t.Fatalf("%d queued, want %d", s.Len(), len(m.ring)+len(m.future))
				}
				for id, f := range m.flows {
					if s.Queued(id) != f.queued || s.Rate(id) != f.rate {
						t.Fatalf("flow %d: queued %v, rate %v", id, s.Queued(id), s.Rate(id))
					}
				}
			},
		}
		for range 10 { // one Repeat is some tens of actions
			t.Repeat(actions)
		}
	})
}
