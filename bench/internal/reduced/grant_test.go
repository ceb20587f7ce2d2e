package reduced

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// granting is a scheme whose receivers grant, by its parts.
type granting struct {
	engine   func(cc.Env) (cc.Engine, error)
	receiver func(cc.Env) (cc.Receiver, error)
	classes  bool
}

var schemes = map[string]granting{"homa": grantingOf("homa", true), "ictcp": grantingOf("ictcp", false)}

func grantingOf(name string, classes bool) granting {
	s, err := cc.Lookup(name)
	if err != nil {
		panic(err)
	}
	return granting{
		func(e cc.Env) (cc.Engine, error) { return s.New(s.DefaultConfig(), e) },
		func(e cc.Env) (cc.Receiver, error) { return s.NewReceiver(s.DefaultConfig(), e) }, classes,
	}
}

var grantEnv = cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 5 * us, MTU: 1000}

// auditor holds the NIC to what package cc promises to receivers.
type auditor struct {
	cc.Receiver
	t       fataler
	arrived map[uint32]units.Bytes // of the flows that have begun
	now     units.Time
}

func (a *auditor) at(now units.Time) {
	if now < a.now {
		a.t.Fatal("time went back")
	}
	a.now = now
}

func (a *auditor) OnStart(now units.Time, flow uint32, size units.Bytes) {
	a.at(now)
	if _, begun := a.arrived[flow]; begun {
		a.t.Fatal("a flow began twice")
	}
	a.arrived[flow] = 0
	a.Receiver.OnStart(now, flow, size)
}

func (a *auditor) OnEnd(now units.Time, flow uint32) {
	a.at(now)
	if _, begun := a.arrived[flow]; !begun {
		a.t.Fatal("a flow ended that had not begun")
	}
	delete(a.arrived, flow)
	a.Receiver.OnEnd(now, flow)
}

func (a *auditor) OnData(d *cc.Data) {
	a.at(d.Now)
	before, begun := a.arrived[d.Flow]
	if !begun || d.Bytes <= 0 || d.Arrived != before+d.Bytes || d.SentAt >= d.Now || d.Size > 0 && d.Arrived > d.Size {
		a.t.Fatal("wrong data", before, begun, *d)
	}
	a.arrived[d.Flow] = d.Arrived
	a.Receiver.OnData(d)
}

func (a *auditor) OnTimer(now units.Time) {
	a.at(now)
	if a.Receiver.Deadline() > now {
		a.t.Fatal("the timer is early")
	}
	a.Receiver.OnTimer(now)
}

// grantWorld is newWorld with receivers, which it returns as well.
func grantWorld(t fataler, hosts int, s granting, change func(*fabric.Config)) (*world, []*auditor) {
	t.Helper()
	return dividedGrantWorld(t, hosts, 0, s, change)
}

func dividedGrantWorld(t fataler, hosts, lanes int, s granting, change func(*fabric.Config)) (*world, []*auditor) {
	t.Helper()
	var audits []*auditor
	cfg := plain()
	cfg.Classes = s.classes
	cfg.Receiver = func(_ int, line units.Rate) (cc.Receiver, error) {
		env := grantEnv
		env.LineRate = line
		r, err := s.receiver(env)
		if err != nil {
			return nil, err
		}
		audits = append(audits, &auditor{Receiver: r, t: t, arrived: map[uint32]units.Bytes{}})
		return audits[len(audits)-1], nil
	}
	w := newDividedWorld(t, hosts, lanes, cfg, func(c *fabric.Config) {
		c.Priorities = fabric.MaxPriorities
		for i := range c.Switch.Classes {
			c.Switch.Classes[i].PFC.Lossless = false
		}
		if change != nil {
			change(c)
		}
	})
	return w, audits
}

func (s granting) flow(t fataler, f Flow) Flow {
	t.Helper()
	env := grantEnv
	env.FlowSize = f.Size
	e, err := s.engine(env)
	if err != nil {
		t.Fatal(err)
	}
	f.Congestion = nicmodel.Congestion{Engine: e, AckPriority: 7, BaseRTT: env.BaseRTT}
	return f
}

// Whatever the flows are, with and without losses all arrive, receivers are told of
// each what they are promised, and nothing is left of them. Without losses nothing
// is sent again: no packet overtakes another of its flow.
func TestGrantsWhateverTheFlows(t *testing.T) {
	for name, s := range schemes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				hosts := rapid.IntRange(2, 6).Draw(rt, "hosts")
				loss := rapid.SampledFrom([]float64{0, 0, 0.01}).Draw(rt, "loss")
				w, audits := grantWorld(rt, hosts, s, func(c *fabric.Config) {
					if loss > 0 {
						c.Faults = []fabric.Fault{{Link: "*", Loss: loss}}
					}
				})
				var want units.Bytes
				n := rapid.IntRange(1, 12).Draw(rt, "flows")
				for i := range n {
					src := rapid.IntRange(0, hosts-1).Draw(rt, "src")
					f := Flow{
						ID: uint64(i), Src: src, Dst: (src + rapid.IntRange(1, hosts-1).Draw(rt, "step")) % hosts,
						Size: units.Bytes(rapid.IntRange(0, 300_000).Draw(rt, "size")), Message: units.Bytes(rapid.IntRange(1000, 100_000).Draw(rt, "message")),
						Stop: 200 * us, FlowHash: uint32(i),
					}
					want += f.Size
					w.start(rt, s.flow(rt, f))
					w.engine.RunUntil(w.engine.Now() + units.Time(rapid.IntRange(0, 20).Draw(rt, "gap"))*us)
				}
				w.engine.RunUntil(10 * units.Second)
				resent := uint64(0)
				got := units.Bytes(0)
				for i := range w.done {
					d := &w.done[i]
					if d.Status != ib.WCSuccess {
						rt.Fatalf("flow %d: %v", d.ID, d.Status)
					}
					got += d.Delivered.Payload
					resent += d.Counters.RetransmittedPackets
				}
				if len(w.done) != n || got < want || w.fleet.Stats().Payload != got {
					rt.Fatalf("%d of %d flows done with %v of %v; %+v", len(w.done), n, got, want, w.fleet.Stats())
				}
				if loss == 0 && resent > 0 {
					rt.Fatalf("%d packets were sent again", resent)
				}
				if st := w.fleet.Stats(); loss == 0 && st.TxPackets != st.RxPackets || w.net.Live() != 0 {
					rt.Fatalf("%+v, and %d packets are not freed", st, w.net.Live())
				}
				for host, a := range audits {
					if len(a.arrived) > 0 {
						rt.Fatalf("the receiver of host %d has not been told of the end of %d flows", host, len(a.arrived))
					}
				}
			})
		})
	}
}

// A network in windows, on two lanes, gives the same.
func TestGrantsInADividedNetwork(t *testing.T) {
	for name, s := range schemes {
		run := func(lanes int) ([]Done, Stats) {
			w, _ := dividedGrantWorld(t, 8, lanes, s, func(c *fabric.Config) { c.Faults = []fabric.Fault{{Link: "*", Loss: 0.001}} })
			for i := range 40 {
				f := s.flow(t, Flow{
					ID: uint64(i), Src: i % 7, Dst: 7 - i/30, Size: units.Bytes(i%5) * 70_000, Message: units.MiB, Stop: 300 * us, FlowHash: uint32(i),
				})
				if f.Src == f.Dst {
					f.Src = 0
				}
				if _, err := w.fleet.StartAt(units.Time(i)*3*us, &f); err != nil {
					t.Fatal(err)
				}
			}
			const end = 100 * units.Millisecond
			d := w.net.Division()
			if d == nil {
				w.engine.RunUntil(end)
			}
			for d != nil && len(w.done) < 40 && d.Begin(end) {
				d.Run(1, d.Nodes()/2, d.Nodes())
				d.Run(0, 0, d.Nodes()/2)
				d.End()
			}
			for i := range w.done {
				w.done[i].Counters = nil
			}
			slices.SortFunc(w.done, func(a, b Done) int { return int(a.ID) - int(b.ID) })
			return w.done, w.fleet.Stats()
		}
		want, stats := run(0)
		got, dividedStats := run(2)
		if len(want) != 40 || !slices.Equal(got, want) {
			t.Errorf("%s: undivided %d flows ended, divided %d, or at other times", name, len(want), len(got))
		}
		if stats.Grants == 0 || stats.Payload != dividedStats.Payload {
			t.Errorf("%s: %+v and %+v", name, stats, dividedStats)
		}
	}
}

// classed is an engine of one class, with what it may send.
type classed struct{ fixed }

func (c *classed) OnGrant(units.Time, units.Bytes, cc.Grant) cc.Control { return c.Control() }

// silent is a receiver that never grants.
type silent struct{}

func (silent) OnStart(units.Time, uint32, units.Bytes)  {}
func (silent) OnEnd(units.Time, uint32)                 {}
func (silent) OnData(*cc.Data)                          {}
func (silent) Deadline() units.Time                     { return units.Never }
func (silent) OnTimer(units.Time)                       {}
func (silent) Next() (flow uint32, g cc.Grant, ok bool) { return 0, cc.Grant{}, false }

func classWorld(t fataler) *world {
	w, _ := grantWorld(t, 3, granting{nil, func(cc.Env) (cc.Receiver, error) { return silent{}, nil }, true}, nil)
	return w
}

func (w *world) startClass(t fataler, id uint64, dst int, class uint8, window units.Bytes) {
	w.start(t, Flow{ID: id, Src: 0, Dst: dst, Size: 100_000, Message: 100_000, Congestion: nicmodel.Congestion{
		Engine: &classed{fixed{cc.Control{Rate: 100 * units.Gbps, Window: window, Class: class}}}, AckPriority: 7,
	}})
}

// The host's wire is the more urgent class's; a paused class holds up no other;
// with a window of nothing nothing goes.
func TestClassesAtTheHost(t *testing.T) {
	const alone = 15 * us // 100 packets of 1082 bytes at 100 Gbps, and 4 us of links
	w := classWorld(t)
	w.startClass(t, 0, 1, 2, cc.Unlimited)
	w.startClass(t, 1, 2, 5, cc.Unlimited)
	w.engine.RunUntil(units.Millisecond)
	if len(w.done) != 2 || w.done[0].ID != 1 || w.done[0].At > alone {
		t.Errorf("%+v", w.done)
	}

	w = classWorld(t)
	w.fleet.nics[0].Pause(w.net.Lane(0), 0, 1<<4)
	w.startClass(t, 0, 1, 2, cc.Unlimited)
	w.startClass(t, 1, 2, 5, cc.Unlimited)
	w.engine.RunUntil(100 * us)
	if len(w.done) != 1 || w.done[0].ID != 0 || w.done[0].At > alone {
		t.Errorf("with class 5 paused: %+v", w.done)
	}
	w.fleet.nics[0].Pause(w.net.Lane(0), w.engine.Now(), 0)
	w.engine.RunUntil(units.Millisecond)
	if len(w.done) != 2 || w.done[1].At > 100*us+alone {
		t.Errorf("after the pause: %+v", w.done)
	}

	w = classWorld(t)
	w.startClass(t, 0, 1, 2, 0)
	w.engine.RunUntil(units.Second)
	if st := w.fleet.Stats(); st.TxPackets != 0 {
		t.Errorf("with a window of nothing %d packets were sent", st.TxPackets)
	}
}

func TestGrantsNeedBothSides(t *testing.T) {
	w, _ := grantWorld(t, 2, schemes["homa"], nil)
	if _, err := w.fleet.Start(&Flow{Src: 0, Dst: 1, Message: 1000, Congestion: nicmodel.Congestion{Engine: &fixed{}}}); err == nil {
		t.Error("an engine that takes no grants is accepted")
	}
	f := schemes["homa"].flow(t, Flow{Src: 0, Dst: 1, Message: 1000})
	if _, err := newWorld(t, 2, plain(), nil).fleet.Start(&f); err == nil {
		t.Error("an engine that waits for grants is accepted where nobody gives any")
	}
}

func TestGrantsDoNotAllocate(t *testing.T) {
	for name, s := range schemes {
		w, _ := grantWorld(t, 4, s, nil)
		for i := range 3 {
			w.start(t, s.flow(t, Flow{ID: uint64(i), Src: i, Dst: 3, Message: units.MiB, Stop: units.Never}))
		}
		w.engine.RunUntil(units.Millisecond)
		before := w.fleet.Stats().Grants
		if n := testing.AllocsPerRun(100, func() { w.engine.RunUntil(w.engine.Now() + 10*us) }); n != 0 {
			t.Errorf("%s: %v allocations in 10 us", name, n)
		}
		if w.fleet.Stats().Grants-before < 1000 {
			t.Errorf("%s: too few grants to tell", name)
		}
	}
}
