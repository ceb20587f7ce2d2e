package reduced

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/windows"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func reads() Config {
	c := plain()
	c.MaxRdAtomic = 16
	return c
}

// A READ takes a request there, and its data back at the line rate.
func TestRead(t *testing.T) {
	cfg := reads()
	cfg.Completion = 300 * units.Nanosecond
	w := newWorld(t, 2, cfg, nil)
	w.start(t, Flow{ID: 7, Src: 0, Dst: 1, Read: true, Size: 3500, Message: 3500})
	w.engine.RunUntil(units.Millisecond)
	wire := func(op ib.Opcode, payload int) units.Time {
		return units.Time(nicmodel.FrameBytes(op, payload)+20) * 80 * units.Picosecond
	}
	request := 2*wire(ib.ReadRequest, 0) + 2*us
	data := wire(ib.ReadResponseFirst, 1000) + 2*wire(ib.ReadResponseMiddle, 1000) + 2*us + wire(ib.ReadResponseLast, 500)
	// The last frame is the shortest, and waits behind the others at the second link, which begins a frame later.
	data += wire(ib.ReadResponseFirst, 1000)
	if len(w.done) != 1 || w.done[0].Status != ib.WCSuccess || w.done[0].Delivered.Payload != 3500 || w.done[0].Delivered.Packets != 4 {
		t.Fatalf("ended: %+v", w.done)
	}
	if want := request + data + cfg.Completion; w.done[0].At != want {
		t.Errorf("it took %v, want %v", w.done[0].At, want)
	}
}

// What is lost of requests and responses is asked for again, and the data come whole.
func TestReadsRepairLosses(t *testing.T) {
	for _, selective := range []bool{false, true} {
		cfg := reads()
		if selective {
			cfg.Transport = nicmodel.TransportConfig{Loss: nicmodel.SelectiveRepeat, Reorder: 512}
		}
		w := newWorld(t, 3, cfg, func(c *fabric.Config) {
			for i := range c.Switch.Classes {
				c.Switch.Classes[i].PFC.Lossless = false
			}
			c.Faults = []fabric.Fault{{Link: "tor0->h2", Loss: 0.02}, {Link: "h2->tor0", Loss: 0.02}}
		})
		for i := range 2 {
			w.start(t, Flow{ID: uint64(i), Src: i, Dst: 2, Read: true, Size: 2 * units.MB, Message: 64 * units.KiB, Congestion: nicmodel.Congestion{
				Engine: &fixed{cc.Control{Rate: 60 * units.Gbps, Window: 100_000}}, Telemetry: telemetry.PerHop, BaseRTT: 5 * us}})
		}
		w.engine.RunUntil(units.Second)
		if len(w.done) != 2 {
			t.Fatalf("selective %v: %d of 2 flows ended", selective, len(w.done))
		}
		for _, d := range w.done {
			if d.Status != ib.WCSuccess || d.Delivered.Payload < 2*units.MB {
				t.Errorf("selective %v: %+v", selective, d)
			}
		}
	}
}

// A host that writes three flows and is read by another gives half of its wire to responses,
// as staged NICs do, whatever the priority of its flows.
func TestResponsesAndRequestsTakeTurns(t *testing.T) {
	for _, class := range []uint8{0, 2} {
		w := newWorld(t, 5, reads(), func(c *fabric.Config) { c.Priorities = 2 })
		var refs []Ref
		for i := range 4 {
			refs = append(refs, w.start(t, Flow{ID: uint64(i), Src: 0, Dst: 1 + i, Read: i == 3, Stop: units.Second, Message: 100_000, Class: class}))
		}
		w.engine.RunUntil(200 * us)
		var written, read units.Bytes
		for i, r := range refs {
			if d := w.fleet.Delivered(r); i == 3 {
				read += d.Payload
			} else {
				written += d.Payload
			}
		}
		if all := written + read; all < 2*units.MB || read < all*49/100 || read > all*51/100 {
			t.Errorf("class %d: %v written, %v read", class, written, read)
		}
	}
}

// A flow of READs, a connection of them and Writes the other way end at the same times in
// windows, with any number of workers.
func TestReadsInWindows(t *testing.T) {
	talk := func(lanes int) ([]learning, []Done) {
		cfg := reads()
		cfg.Completion, cfg.Start = 200*units.Nanosecond, 100*units.Nanosecond
		w := newDividedWorld(t, 4, lanes, cfg, func(c *fabric.Config) {
			c.Faults = []fabric.Fault{{Link: "tor0->h2", Loss: 0.01}, {Link: "h3->tor0", Loss: 0.01}}
		})
		var all []learning
		var ref Ref
		w.fleet.OnMessage(func(m *Message) {
			all = append(all, learning{*m, w.engine.Now()})
			if err := w.fleet.Post(ref, 1+units.Bytes(len(all)*997%9000), uint64(len(all))); err != nil {
				t.Fatal(err)
			}
		})
		ref = w.start(t, Flow{ID: 9, Src: 0, Dst: 3, Read: true, Message: 9000, Kept: true})
		for i := range 4 {
			if err := w.fleet.Post(ref, 5000, uint64(100+i)); err != nil {
				t.Fatal(err)
			}
			w.start(t, Flow{ID: uint64(i), Src: i, Dst: (i + 1) % 4, Read: i%2 == 0, Size: 300_000, Message: 50_000})
		}
		windows.Run(w.engine, w.net, 200*us)
		for i := range w.done {
			w.done[i].Counters = nil
		}
		return all, w.done
	}
	learned, done := talk(0)
	if len(learned) < 50 || len(done) != 4 {
		t.Fatalf("%d messages and %d flows", len(learned), len(done))
	}
	for lanes := 1; lanes <= 3; lanes++ {
		if l, d := talk(lanes); !slices.Equal(l, learned) || !slices.Equal(d, done) {
			t.Errorf("%d lanes: other messages or flows, or other times", lanes)
		}
	}
}

func TestReadsAreChecked(t *testing.T) {
	w := newWorld(t, 2, plain(), nil)
	if _, err := w.fleet.Start(&Flow{Src: 0, Dst: 1, Message: 1, Size: 1, Read: true}); err == nil {
		t.Error("READs without MaxRdAtomic")
	}
	w = newWorld(t, 2, reads(), nil)
	w.fleet.OnMessage(func(*Message) {})
	if _, err := w.fleet.Start(&Flow{Src: 0, Dst: 1, Message: 1, Kept: true, Read: true, Notify: true}); err == nil {
		t.Error("READs of which the other host is to learn")
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	w := newWorld(t, 4, reads(), nil)
	for i := range 3 {
		w.start(t, Flow{Src: i, Dst: 3, Read: true, Message: units.MiB, Stop: units.Never, Congestion: nicmodel.Congestion{
			Telemetry: telemetry.PerHop, BaseRTT: 5 * us, Engine: &fixed{cc.Control{Rate: 40 * units.Gbps, Window: 200_000}}}})
	}
	w.engine.RunUntil(units.Millisecond)
	if n := testing.AllocsPerRun(100, func() { w.engine.RunUntil(w.engine.Now() + 10*us) }); n != 0 {
		t.Errorf("%v allocations in 10us", n)
	}
}
