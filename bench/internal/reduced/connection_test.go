package reduced

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/windows"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// learning is what was learned, and when.
type learning struct {
	Message
	When units.Time
}

// connect makes a connection between hosts, and notes what is learned.
func (w *world) connect(t fataler, f Flow, then func(*Message)) (Ref, *[]learning) {
	t.Helper()
	var all []learning
	w.fleet.OnMessage(func(m *Message) {
		all = append(all, learning{*m, w.engine.Now()})
		if then != nil {
			then(m)
		}
	})
	f.Kept = true
	return w.start(t, f), &all
}

// A message is posted, on the wire after the NIC knows of it, and learned of at both
// ends when their completions are there.
func TestMessages(t *testing.T) {
	cfg := plain()
	cfg.Start, cfg.Completion = 500*units.Nanosecond, 300*units.Nanosecond
	w := newWorld(t, 2, cfg, nil)
	ref, learned := w.connect(t, Flow{ID: 9, Src: 0, Dst: 1, Message: 1000, Notify: true}, nil)
	post := func(size units.Bytes, tag uint64) {
		if err := w.fleet.Post(ref, size, tag); err != nil {
			t.Fatal(err)
		}
	}
	post(1000, 5)
	w.engine.RunUntil(100 * us)
	post(400, 6)
	post(600, 7)
	w.engine.RunUntil(200 * us)

	wire := func(op ib.Opcode, payload int) units.Time {
		return units.Time(nicmodel.FrameBytes(op, payload)+20) * 80 * units.Picosecond
	}
	there := func(payload int) units.Time { return 2*wire(ib.WriteOnlyImm, payload) + 2*us }
	back := 2*wire(ib.Acknowledge, 0) + 2*us
	second := 100*us + cfg.Start + there(400)
	// The third follows the second at once, and is the longer.
	third := 100*us + cfg.Start + wire(ib.WriteOnlyImm, 400) + there(600)
	want := []learning{
		{Message{ID: 9, Arrived: true}, cfg.Start + there(1000) + cfg.Completion},
		{Message{ID: 9, Tag: 5}, cfg.Start + there(1000) + back + cfg.Completion},
		{Message{ID: 9, Arrived: true}, second + cfg.Completion},
		{Message{ID: 9, Arrived: true}, third + cfg.Completion},
		{Message{ID: 9, Tag: 6}, second + back + cfg.Completion},
		{Message{ID: 9, Tag: 7}, third + back + cfg.Completion},
	}
	for i := range *learned {
		(*learned)[i].at, (*learned)[i].host = 0, 0
	}
	if !slices.Equal(*learned, want) {
		t.Errorf("learned\n%+v, want\n%+v", *learned, want)
	}
	if d := w.fleet.Delivered(ref); d.Payload != 2000 {
		t.Errorf("delivered %+v", d)
	}
	if err := w.fleet.Close(ref); err != nil || len(w.done) != 1 || w.done[0].Delivered.Payload != 2000 {
		t.Errorf("closed: %v, %+v", err, w.done)
	}
	if err := w.fleet.Close(ref); err == nil {
		t.Error("closed twice")
	}
	if err := w.fleet.Post(ref, 1, 0); err == nil {
		t.Error("posted on what is closed")
	}
}

func TestConnectionErrors(t *testing.T) {
	cfg := plain()
	cfg.SendDepth = 2
	w := newWorld(t, 2, cfg, nil)
	if _, err := w.fleet.Start(&Flow{Src: 0, Dst: 1, Message: 100, Kept: true}); err == nil {
		t.Error("a connection of which nobody learns")
	}
	ref, _ := w.connect(t, Flow{Src: 0, Dst: 1, Message: 100}, nil)
	for _, c := range []struct {
		size units.Bytes
		ok   bool
	}{{0, false}, {101, false}, {100, true}, {1, true}, {1, false}} {
		if err := w.fleet.Post(ref, c.size, 0); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.size, err)
		}
	}
	if err := w.fleet.Close(ref); err == nil {
		t.Error("closed with messages under way")
	}
	if _, err := w.fleet.Start(&Flow{Src: 0, Dst: 1, Message: 100, Size: 100, Kept: true}); err == nil {
		t.Error("a connection with a size")
	}
	if _, err := w.fleet.Start(&Flow{Src: 0, Dst: 1, Message: 100, Size: 100, Class: 3}); err == nil {
		t.Error("a priority that the network has not")
	}
}

// Hosts that answer each other at once do so at the same times in windows, however long
// their completions take, and with any number of workers.
func TestAnswersInWindows(t *testing.T) {
	for _, completion := range []units.Time{0, 100 * units.Nanosecond, 3 * us} {
		talk := func(lanes int) []learning {
			cfg := plain()
			cfg.Completion, cfg.Start = completion, 200*units.Nanosecond
			w := newDividedWorld(t, 4, lanes, cfg, nil)
			refs := make([]Ref, 4)
			var learned *[]learning
			for i := range refs {
				refs[i], learned = w.connect(t, Flow{ID: uint64(i), Src: i, Dst: i ^ 1, Message: 3000, Notify: true}, nil)
			}
			var all []learning
			w.fleet.OnMessage(func(m *Message) {
				all = append(all, learning{*m, w.engine.Now()})
				if m.Arrived {
					if err := w.fleet.Post(refs[m.ID^1], 1+units.Bytes(len(all)*37%3000), uint64(len(all))); err != nil {
						t.Fatal(err)
					}
				}
			})
			for i := range refs {
				if err := w.fleet.Post(refs[i], units.Bytes(500*i+1), 0); err != nil {
					t.Fatal(err)
				}
			}
			windows.Run(w.engine, w.net, 200*us)
			if len(*learned) > 0 {
				t.Error("the first OnMessage was called")
			}
			return all
		}
		want := talk(0)
		if len(want) < 100 {
			t.Fatalf("only %d messages were learned of", len(want))
		}
		for lanes := 1; lanes <= 2; lanes++ {
			if got := talk(lanes); !slices.Equal(got, want) {
				t.Errorf("completions of %v, %d lanes: other messages or other times", completion, lanes)
			}
		}
	}
}

// A flow of its own priority passes those of the NIC's where they meet.
func TestPrioritiesOfFlows(t *testing.T) {
	w := newWorld(t, 3, plain(), func(c *fabric.Config) { c.Priorities = 4 })
	w.start(t, Flow{ID: 1, Src: 0, Dst: 1, Size: units.MB, Message: units.MB})
	w.engine.RunUntil(10 * us)
	w.start(t, Flow{ID: 2, Src: 0, Dst: 2, Size: 100_000, Message: 100_000, Class: 3})
	w.engine.RunUntil(units.Second)
	if len(w.done) != 2 || w.done[0].ID != 2 {
		t.Fatalf("ended: %+v", w.done)
	}
	// Alone it takes 8.8 us on the wire, and a frame may be before it.
	if took := w.done[0].At - 10*us; took > 8800*units.Nanosecond+4*us+3*88*units.Nanosecond {
		t.Errorf("it took %v", took)
	}
}

func TestMessagesDoNotAllocate(t *testing.T) {
	cfg := plain()
	cfg.Completion, cfg.Start = 100*units.Nanosecond, 200*units.Nanosecond
	w := newWorld(t, 2, cfg, nil)
	var ref Ref
	w.fleet.OnMessage(func(m *Message) {
		if m.Arrived {
			return
		}
		if err := w.fleet.Post(ref, 2500, m.Tag+1); err != nil {
			t.Fatal(err)
		}
	})
	ref = w.start(t, Flow{Src: 0, Dst: 1, Message: 2500, Notify: true, Kept: true})
	for range 4 {
		if err := w.fleet.Post(ref, 2500, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.engine.RunUntil(500 * us)
	if a := testing.AllocsPerRun(10, func() { w.engine.RunUntil(w.engine.Now() + 100*us) }); a != 0 {
		t.Errorf("%v allocations in 100us", a)
	}
}
