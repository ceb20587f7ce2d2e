package reduced

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// notified notes when notifications come, and sends at after from then on.
type notified struct {
	fixed
	after units.Rate
	at    []units.Time
}

func (e *notified) OnCNP(now units.Time) cc.Control {
	e.at = append(e.at, now)
	e.control.Rate = e.after
	return e.control
}

// Marked packets are answered, once an interval for each flow; what the engine says
// to it holds; and nothing is left over.
func TestNotifications(t *testing.T) {
	const line, slow = 100 * units.Gbps, 5 * units.Gbps
	const interval, span = 20 * us, 2 * units.Millisecond
	for _, c := range []struct {
		name     string
		interval units.Time
		after    units.Rate // of the second flow
	}{{"for each interval", interval, line}, {"heeded", interval, slow}, {"off", 0, line}} {
		w := newWorld(t, 3, plain(), func(f *fabric.Config) {
			for i := range f.Switch.Classes {
				f.Switch.Classes[i].ECN = fabric.ECN{Kmin: 50_000, Kmax: 50_000, Pmax: 1}
			}
		})
		var engines [2]*notified
		var refs [2]Ref
		for i := range engines {
			engines[i] = &notified{fixed: fixed{cc.Control{Rate: line, Window: 500_000}}, after: line}
			if i == 1 {
				engines[i].after = c.after
			}
			refs[i] = w.start(t, Flow{ID: uint64(i), Src: 1 + i, Dst: 0, Message: 1_000_000, Stop: span,
				Congestion: nicmodel.Congestion{Engine: engines[i], ECT: true, BaseRTT: 5 * us, AckPriority: 1, CNPInterval: c.interval}})
		}
		w.engine.RunUntil(span)
		if got, want := units.RateOf(w.fleet.Delivered(refs[1]).Payload, span), slow; c.after == slow && (got > want+want/5 || got < want-want/5) {
			t.Errorf("%s: the flow that was told to send %v has %v", c.name, want, got)
		}
		var told [2]uint64
		for i := range told {
			told[i] = w.fleet.Notifications(refs[i])
		}
		w.engine.RunUntil(units.Second)
		if len(w.done) != 2 || w.net.Live() != 0 {
			t.Fatalf("%s: %d flows ended, %d packets left", c.name, len(w.done), w.net.Live())
		}
		for _, d := range w.done {
			e := engines[d.ID]
			if d.CNPs != uint64(len(e.at)) || (d.CNPs == 0) != (c.interval == 0) {
				t.Errorf("%s, flow %d: sent %d, told of %d", c.name, d.ID, d.CNPs, len(e.at))
			}
			var gaps []units.Time
			for k := range max(0, len(e.at)-1) {
				gaps = append(gaps, e.at[k+1]-e.at[k])
			}
			if len(gaps) > 0 && slices.Min(gaps) < interval-us {
				t.Errorf("%s, flow %d: notifications %v apart", c.name, d.ID, slices.Min(gaps))
			}
			if c.interval > 0 && c.after == line && (told[d.ID] < uint64(span/interval)*9/10 || told[d.ID] > uint64(span/interval)) {
				t.Errorf("%s, flow %d: %d notifications in %d intervals", c.name, d.ID, told[d.ID], span/interval)
			}
		}
	}
}
