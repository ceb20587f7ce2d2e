package reduced

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

func selective() Config {
	cfg := plain()
	cfg.Transport = nicmodel.TransportConfig{Loss: nicmodel.SelectiveRepeat, RTOHigh: 320 * us, RTOLow: 100 * us}
	return cfg
}

func lossy(loss float64) func(*fabric.Config) {
	return func(c *fabric.Config) {
		for i := range c.Switch.Classes {
			c.Switch.Classes[i].PFC.Lossless = false
		}
		if loss > 0 {
			c.Faults = []fabric.Fault{{Link: "*", Loss: loss}}
		}
	}
}

// TestSelectiveRepeat: every flow arrives whole, each byte once, whatever is lost.
func TestSelectiveRepeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loss := rapid.SampledFrom([]float64{0.0001, 0.001, 0.01, 0.03}).Draw(t, "loss")
		w := newWorld(t, 4, selective(), lossy(loss))
		total := units.Bytes(0)
		flows := rapid.IntRange(1, 6).Draw(t, "flows")
		for i := range flows {
			size := units.Bytes(rapid.IntRange(1, 400_000).Draw(t, "size"))
			total += size
			w.start(t, Flow{ID: uint64(i), Src: i % 3, Dst: 3, Size: size, Message: units.Bytes(rapid.SampledFrom([]int{900, 5000, 64000, 1 << 20}).Draw(t, "message")), FlowHash: uint32(i)})
		}
		w.engine.RunUntil(units.Second)
		if len(w.done) != flows {
			t.Fatalf("%d of %d flows have ended", len(w.done), flows)
		}
		got := units.Bytes(0)
		for _, d := range w.done {
			if d.Status != ib.WCSuccess {
				t.Fatalf("flow %d: %v, %+v", d.ID, d.Status, *d.Counters)
			}
			got += d.Delivered.Payload
		}
		if got != total {
			t.Fatalf("delivered %v, expected %v", got, total)
		}
	})
}

// TestSelectiveRepeatWithoutLoss: where nothing is lost the results are those of go-back-N.
func TestSelectiveRepeatWithoutLoss(t *testing.T) {
	run := func(cfg Config) []Done {
		w := newWorld(t, 4, cfg, nil)
		for i := range 9 {
			w.start(t, Flow{ID: uint64(i), Src: i % 3, Dst: 3, Size: units.Bytes(100_000 + 7919*i), Message: units.Bytes(900 + 9000*(i%3)), FlowHash: uint32(i)})
		}
		w.engine.RunUntil(units.Second)
		return w.done
	}
	cfg := plain()
	want := run(cfg)
	cfg.Transport.Loss = nicmodel.SelectiveRepeat
	if got := run(cfg); len(got) != 9 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwith go-back-N %+v", got, want)
	}
}

// fickle is an engine with another window after each acknowledgement.
type fickle struct {
	fixed
	windows []int // packets, in turn
	acks    int
}

func (e *fickle) OnAck(*cc.Ack) cc.Control {
	e.acks++
	e.control.Window = units.Bytes(1000 * e.windows[e.acks%len(e.windows)])
	return e.control
}

// A window that shrinks below what is under way, of which no packet asks for an
// acknowledgement, lets one more go that does: the flow does not wait for its timer.
func TestAWindowThatShrinksStopsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := plain()
		cfg.AckEvery = rapid.IntRange(1, 20).Draw(t, "ack every")
		w := newWorld(t, 2, cfg, nil)
		w.start(t, Flow{Src: 0, Dst: 1, Size: 100_000, Message: 100_000, Congestion: nicmodel.Congestion{BaseRTT: 5 * us, Engine: &fickle{
			fixed:   fixed{cc.Control{Rate: 100 * units.Gbps, Window: 20_000}},
			windows: rapid.SliceOfN(rapid.IntRange(1, 20), 1, 10).Draw(t, "windows"),
		}}})
		w.engine.RunUntil(2 * units.Millisecond)
		if len(w.done) != 1 || w.done[0].Counters.LocalAckTimeoutErr != 0 {
			t.Errorf("ended: %+v", w.done)
		}
	})
}
