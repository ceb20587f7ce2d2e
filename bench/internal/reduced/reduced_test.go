package reduced

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

type world struct {
	engine *des.Engine
	net    *fabric.Network
	fleet  *Fleet
	done   []Done
}

// fataler is the common part of tests, benchmarks and properties.
type fataler interface {
	Helper()
	Fatal(...any)
}

// newWorld returns a star of 100 Gbps links of 1 us.
func newWorld(t fataler, hosts int, cfg Config, change func(*fabric.Config)) *world {
	t.Helper()
	return newDividedWorld(t, hosts, 0, cfg, change)
}

// newDividedWorld returns one with that many lanes; 0 is undivided.
func newDividedWorld(t fataler, hosts, lanes int, cfg Config, change func(*fabric.Config)) *world {
	t.Helper()
	c := fabric.Default()
	c.Priorities = 2
	c.MaxFrame = 1100
	c.Switch.Latency = 0
	for i := range c.Switch.Classes {
		c.Switch.Classes[i].PFC.Lossless = true
	}
	if change != nil {
		change(&c)
	}
	w := &world{engine: des.New()}
	var err error
	if w.net, err = fabric.New(w.engine, fabric.Star(hosts, fabric.Link{Rate: 100 * units.Gbps, Delay: us}), c, 1); err != nil {
		t.Fatal(err)
	}
	if lanes > 0 {
		if err := w.net.Divide(lanes); err != nil {
			t.Fatal(err)
		}
	}
	if w.fleet, err = New(w.engine, w.net, cfg); err != nil {
		t.Fatal(err)
	}
	w.fleet.OnDone(func(d *Done) { w.done = append(w.done, *d) })
	return w
}

func plain() Config {
	return Config{MTU: 1000, AckEvery: 1, Timeout: 8, RetryCount: 7, SendDepth: 128}
}

func (w *world) start(t fataler, f Flow) Ref {
	t.Helper()
	r, err := w.fleet.Start(&f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// One flow alone is as fast as the wire, each packet is acknowledged, and the
// fixed latencies are where they should be.
func TestOneFlow(t *testing.T) {
	cfg := plain()
	cfg.Completion = 3 * us
	w := newWorld(t, 2, cfg, func(c *fabric.Config) { c.HostSend, c.HostReceive = 200*units.Nanosecond, 300*units.Nanosecond })
	w.start(t, Flow{ID: 7, Src: 0, Dst: 1, Size: 100_000, Message: 100_000})
	w.engine.RunUntil(units.Second)
	if len(w.done) != 1 || w.done[0].ID != 7 || w.done[0].Status != ib.WCSuccess {
		t.Fatalf("done: %+v", w.done)
	}
	d := w.done[0]
	if want := (nicmodel.Delivered{Payload: 100_000, Frames: 99*1062 + 1078, Packets: 100}); d.Delivered != want {
		t.Errorf("delivered %+v, want %+v", d.Delivered, want)
	}
	byteTime := 80 * units.Picosecond
	data, first, ack := (1062+20)*byteTime, (1078+20)*byteTime, (66+20)*byteTime
	// The first data packet is the longest: it delays all others at the switch.
	want := 2*first + 99*data + 2*ack + 4*us + 2*500*units.Nanosecond + cfg.Completion
	if d.At != want {
		t.Errorf("done at %v, want %v", d.At, want)
	}
	if got := w.fleet.Stats(); got.TxPackets != 200 || got.RxPackets != 200 || got.Payload != 100_000 {
		t.Errorf("stats: %+v", got)
	}
	if w.net.Live() != 0 {
		t.Errorf("%d packets were not freed", w.net.Live())
	}
}

// A flow's first packet waits for its way to the NIC and for its payload, the others for
// nothing; one that queues behind a flow waits for the packets that this flow may send,
// up to a bound. Round trips begin on the wire.
func TestBeforeTheWire(t *testing.T) {
	at := func(change func(*Config), flows ...Flow) (ends []units.Time, rtt units.Time) {
		cfg := plain()
		change(&cfg)
		w := newWorld(t, 3, cfg, func(c *fabric.Config) { c.HostSend = 100 * units.Nanosecond })
		w.fleet.OnAck(func(_ int, _ uint64, a *cc.Ack) {
			if rtt = a.RTT; a.Hops != 1 || a.Held != 0 {
				t.Errorf("over one switch the engine got %d, and %v held", a.Hops, a.Held)
			}
		})
		for _, f := range flows {
			w.start(t, f)
		}
		w.engine.RunUntil(units.Second)
		if len(w.done) != len(flows) {
			t.Fatalf("%d of %d flows have ended", len(w.done), len(flows))
		}
		for _, d := range w.done {
			ends = append(ends, d.At)
		}
		return ends, rtt
	}
	flow := Flow{Src: 0, Dst: 1, Size: 50_000, Message: 10_000, Congestion: nicmodel.Congestion{Engine: &fixed{cc.Control{Rate: 400 * units.Gbps, Window: cc.Unlimited}}}}
	plainEnd, plainRTT := at(func(*Config) {}, flow)
	fetch := func(payload int) units.Time { return units.Time(payload) * units.Nanosecond }
	end, rtt := at(func(c *Config) { c.Start, c.Fetch, c.Wire = 2*us, fetch, 100*units.Nanosecond }, flow)
	if got, want := end[0]-plainEnd[0], 3*us; got != want {
		t.Errorf("a start of 2 us and 1 us for the first payload put the end off by %v", got)
	}
	if plainRTT-rtt != 100*units.Nanosecond {
		t.Errorf("round trips of %v begin on the wire, and those of %v 100 ns before", rtt, plainRTT)
	}

	// The second flow comes into line when the first has 49 packets to send.
	short := Flow{ID: 1, Src: 0, Dst: 2, Size: 1000, Message: 1000}
	none, _ := at(func(*Config) {}, flow, short)
	eight, _ := at(func(c *Config) { c.TxPackets = 8 }, flow, short)
	frame := (100 * units.Gbps).Serialize(nicmodel.FrameBytes(ib.WriteMiddle, 1000))
	if got := eight[0] - none[0]; got < 6*frame || got > 9*frame {
		t.Errorf("behind eight packets of %v each the second flow ends %v later", frame, got)
	}
	many, _ := at(func(c *Config) { c.TxPackets = 1000 }, flow, short)
	if got := many[0] - none[0]; got < 40*frame || got > 50*frame {
		t.Errorf("behind all packets of %v each the second flow ends %v later", frame, got)
	}
}

// Whatever the flows are, all arrive whole, nothing is dropped with PFC, the
// state of flows is free again, and what was lost is sent again.
func TestAllArrive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.IntRange(2, 6).Draw(rt, "hosts")
		loss := rapid.SampledFrom([]float64{0, 0, 0.01}).Draw(rt, "loss")
		kind := rapid.SampledFrom([]telemetry.Kind{telemetry.None, telemetry.MaxDelay, telemetry.PerHop}).Draw(rt, "telemetry")
		cfg := plain()
		cfg.AckEvery = rapid.IntRange(1, 4).Draw(rt, "ack every")
		if rapid.Bool().Draw(rt, "before the wire") {
			cfg.Start, cfg.TxPackets = us, rapid.IntRange(0, 30).Draw(rt, "tx packets")
			cfg.Fetch = func(payload int) units.Time { return us/2 + units.Time(payload)*100 }
		}
		w := newWorld(rt, hosts, cfg, func(c *fabric.Config) {
			if loss > 0 {
				c.Faults = []fabric.Fault{{Link: "*", Loss: loss}}
			}
		})
		var want units.Bytes
		n := rapid.IntRange(1, 12).Draw(rt, "flows")
		for i := range n {
			src := rapid.IntRange(0, hosts-1).Draw(rt, "src")
			dst := (src + rapid.IntRange(1, hosts-1).Draw(rt, "step")) % hosts
			f := Flow{
				ID: uint64(i), Src: src, Dst: dst, Size: units.Bytes(rapid.IntRange(1, 300_000).Draw(rt, "size")),
				Message:    units.Bytes(rapid.IntRange(1, 100).Draw(rt, "message")) * 4000,
				Congestion: nicmodel.Congestion{Telemetry: kind, AckPriority: uint8(i % 2), BaseRTT: 5 * us},
			}
			if rapid.Bool().Draw(rt, "engine") {
				f.Congestion.Engine = &fixed{cc.Control{
					Rate:   units.Rate(rapid.IntRange(1, 120).Draw(rt, "rate")) * units.Gbps,
					Window: units.Bytes(rapid.IntRange(1, 50_000).Draw(rt, "window")),
				}}
			}
			want += f.Size
			w.start(rt, f)
		}
		w.engine.RunUntil(20 * units.Second)
		var got units.Bytes
		for _, d := range w.done {
			if d.Status != ib.WCSuccess && loss == 0 {
				rt.Fatalf("flow %d: %v", d.ID, d.Status)
			}
			if d.Status == ib.WCSuccess {
				got += d.Delivered.Payload
			}
		}
		if len(w.done) != n || loss == 0 && got != want {
			rt.Fatalf("%d of %d flows ended, with %d of %d bytes", len(w.done), n, got, want)
		}
		if w.net.Totals().Dropped != 0 || w.net.Live() != 0 {
			rt.Fatalf("%d packets dropped, %d live", w.net.Totals().Dropped, w.net.Live())
		}
		for i := range w.fleet.nics {
			x := &w.fleet.nics[i]
			x.close(w.engine.Now())
			if len(x.due.requests)+len(x.due.responses) != 0 || len(x.freeSenders) != len(x.senders) || len(x.freeReceivers) != len(x.receivers) {
				rt.Fatalf("host %d: %d in line, %d of %d senders and %d of %d receivers free", i, len(x.due.requests)+len(x.due.responses), len(x.freeSenders), len(x.senders), len(x.freeReceivers), len(x.receivers))
			}
		}
	})
}

// fixed is an engine that does not change its mind, and counts.
type fixed struct{ control cc.Control }

func (e *fixed) OnAck(*cc.Ack) cc.Control        { return e.control }
func (e *fixed) OnLoss(units.Time) cc.Control    { return e.control }
func (e *fixed) OnTimeout(units.Time) cc.Control { return e.control }
func (e *fixed) OnCNP(units.Time) cc.Control     { return e.control }
func (e *fixed) Control() cc.Control             { return e.control }

// A pace holds on average, and two flows share a wire.
func TestPaceAndTurns(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  units.Rate
		flows int
		want  units.Time // of 1 MB each
	}{
		{"paced", 10 * units.Gbps, 1, 800 * us},
		{"a slow pace", units.Gbps, 1, 8 * units.Millisecond},
		{"two paced", 10 * units.Gbps, 2, 800 * us},
		{"line rate", 100 * units.Gbps, 1, 87 * us},
		{"two at line rate", 100 * units.Gbps, 2, 173 * us},
	} {
		w := newWorld(t, 3, plain(), nil)
		for i := range c.flows {
			w.start(t, Flow{ID: uint64(i), Src: 0, Dst: 1 + i, Size: 1_000_000, Message: 1_000_000,
				Congestion: nicmodel.Congestion{BaseRTT: 5 * us, Engine: &fixed{cc.Control{Rate: c.rate, Window: cc.Unlimited}}}})
		}
		w.engine.RunUntil(units.Second)
		if len(w.done) != c.flows {
			t.Fatalf("%s: %d flows ended", c.name, len(w.done))
		}
		for _, d := range w.done {
			if d.At < c.want-c.want/500-us || d.At > c.want+c.want/50+6*us {
				t.Errorf("%s: flow %d done at %v, want about %v", c.name, d.ID, d.At, c.want)
			}
		}
	}
}

// A window of one packet is stop and wait: 1 packet a round trip, and no event
// at the sender.
func TestWindow(t *testing.T) {
	w := newWorld(t, 2, plain(), nil)
	w.start(t, Flow{Src: 0, Dst: 1, Size: 100_000, Message: 100_000,
		Congestion: nicmodel.Congestion{BaseRTT: 5 * us, Engine: &fixed{cc.Control{Rate: 100 * units.Gbps, Window: 1}}}})
	w.engine.RunUntil(units.Millisecond)
	rtt := w.net.BaseRTT(0, 1, 1062, 66)
	if len(w.done) != 1 || w.done[0].At < 100*rtt || w.done[0].At > 101*rtt {
		t.Fatalf("done %+v, want one at about %v", w.done, 100*rtt)
	}
	if hops, events := w.net.Totals().PacketHops, w.engine.Events(); events > hops+2 {
		t.Errorf("%d events for %d hops", events, hops)
	}
}

// When all is lost the transport gives up, with its own status.
func TestGivesUp(t *testing.T) {
	w := newWorld(t, 2, plain(), func(c *fabric.Config) { c.Faults = []fabric.Fault{{Link: "*", Loss: 1}} })
	w.start(t, Flow{Src: 0, Dst: 1, Size: 10_000, Message: 10_000})
	w.engine.RunUntil(units.Second)
	if len(w.done) != 1 || w.done[0].Status != ib.WCRetryExcErr || w.done[0].Counters.LocalAckTimeoutErr != 8 {
		t.Fatalf("done: %+v", w.done)
	}
}

// A flow that is to stop before it starts ends as it starts, with nothing sent.
func TestStopsBeforeItStarts(t *testing.T) {
	for _, at := range []units.Time{0, us} {
		w := newWorld(t, 2, plain(), nil)
		if _, err := w.fleet.StartAt(at, &Flow{Src: 0, Dst: 1, Message: 1000, Stop: at}); err != nil || len(w.done) > 0 {
			t.Fatalf("%v, done: %+v", err, w.done)
		}
		w.engine.RunUntil(2 * us)
		if len(w.done) != 1 || w.done[0].At != at || w.done[0].Status != ib.WCSuccess || w.net.Totals().Sent != 0 {
			t.Errorf("at %v: done: %+v, %+v", at, w.done, w.net.Totals())
		}
	}
}

// Packets of a flow that has ended do not reach the one that has its slot.
func TestStalePacket(t *testing.T) {
	cfg := plain()
	cfg.Timeout, cfg.RetryCount = 1, 0 // it gives up while packets are under way
	w := newWorld(t, 2, cfg, func(c *fabric.Config) { c.Faults = []fabric.Fault{{Link: "tor0->h0", Loss: 1}} })
	w.start(t, Flow{ID: 1, Src: 0, Dst: 1, Size: 1_000_000, Message: 1_000_000})
	again := false
	w.fleet.OnDone(func(d *Done) {
		if !again {
			again = true
			if _, err := w.fleet.Start(&Flow{ID: 2, Src: 0, Dst: 1, Size: 3000, Message: 3000}); err != nil {
				t.Error(err)
			}
		}
		w.done = append(w.done, *d)
	})
	w.engine.RunUntil(units.Second)
	if len(w.done) != 2 || w.done[1].Delivered.Payload != 3000 {
		t.Fatalf("done: %+v", w.done)
	}
	if w.fleet.Stats().Stale == 0 {
		t.Error("there was no such packet")
	}
}

func TestConfig(t *testing.T) {
	e := des.New()
	cfg := fabric.Default()
	cfg.Priorities = 2
	net, err := fabric.New(e, fabric.Star(2, fabric.Link{Rate: units.Gbps}), cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.MTU = 1 }, func(c *Config) { c.AckEvery = 0 }, func(c *Config) { c.Priority = 2 },
		func(c *Config) { c.SendDepth = 0 }, func(c *Config) { c.Completion = -1 },
	} {
		c := plain()
		change(&c)
		if _, err := New(e, net, c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	f, err := New(e, net, plain())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []Flow{{Src: 0, Dst: 1, Message: 1, Stop: 1, Congestion: nicmodel.Congestion{AckPriority: 2}}, {Src: 0, Dst: 0, Message: 1}, {Src: 0, Dst: 2, Message: 1}, {Src: -1, Dst: 1, Message: 1}, {Src: 0, Dst: 1}, {Src: 0, Dst: 1, Message: 1, Size: -1}} {
		if _, err := f.Start(&bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestPacketsDoNotAllocate(t *testing.T) {
	w := newWorld(t, 4, plain(), nil)
	for i := range 3 {
		w.start(t, Flow{Src: i, Dst: 3, Message: units.MiB, Stop: units.Never, Congestion: nicmodel.Congestion{
			Telemetry: telemetry.PerHop, BaseRTT: 5 * us, Engine: &fixed{cc.Control{Rate: 40 * units.Gbps, Window: 200_000}}}})
	}
	w.engine.RunUntil(units.Millisecond)
	if n := testing.AllocsPerRun(100, func() { w.engine.RunUntil(w.engine.Now() + 10*us) }); n != 0 {
		t.Errorf("%v allocations in 10 us", n)
	}
	if got := w.fleet.Stats().Payload; got < 20_000_000 {
		t.Errorf("only %v arrived", got)
	}
}

// A packet and its acknowledgement over a switch: four hops.
func BenchmarkPacket(b *testing.B) {
	w := newWorld(b, 2, plain(), nil)
	w.start(b, Flow{Src: 0, Dst: 1, Message: units.MiB, Stop: units.Never})
	w.engine.RunUntil(100 * us)
	first := w.fleet.Stats().TxPackets
	events := w.engine.Events()
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		for w.fleet.Stats().TxPackets < first+2*n {
			w.engine.Step()
		}
		n++
	}
	b.ReportMetric(float64(w.engine.Events()-events)/float64(n), "events/op")
}

// In a steady state a divided network allocates nothing for a packet, either.
func TestDividedPacketsDoNotAllocate(t *testing.T) {
	w := newDividedWorld(t, 4, 1, plain(), nil)
	d := w.net.Division()
	for i := range 3 {
		w.start(t, Flow{ID: uint64(i), Src: i, Dst: 3, Message: 100_000, Stop: units.Second, Congestion: nicmodel.Congestion{Telemetry: telemetry.PerHop}})
	}
	window := func() {
		d.Begin(units.Never)
		d.Run(0, 0, d.Nodes())
		d.End()
	}
	for range 2000 {
		window()
	}
	before := w.net.Totals().PacketHops
	if n := testing.AllocsPerRun(200, window); n != 0 {
		t.Errorf("%v allocations a window", n)
	}
	if w.net.Totals().PacketHops-before < 1000 {
		t.Error("too few packets to tell")
	}
}
