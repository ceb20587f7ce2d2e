package simverbs_test

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// A queue pair says what its packets collect, and a completion has that.
func TestTelemetryKinds(t *testing.T) {
	for _, c := range []struct {
		collects nicmodel.Congestion
		want     verbs.TelemetryKinds
	}{
		{nicmodel.Congestion{}, 0},
		{nicmodel.Congestion{ECT: true}, verbs.ReportsECN},
		{nicmodel.Congestion{Telemetry: telemetry.MaxDelay}, verbs.ReportsMaxDelay},
		{nicmodel.Congestion{Telemetry: telemetry.PerHop, ECT: true}, verbs.ReportsPath | verbs.ReportsECN},
	} {
		e := des.New()
		net, err := fabric.New(e, fabric.Star(2, fabric.Link{Rate: 10 * units.Gbps}), fabric.Default(), 1)
		if err != nil {
			t.Fatal(err)
		}
		w, frames := simverbs.NewWorld(e, net), nicmodel.NewFrames(net)
		var ends [2]*host
		for i := range ends {
			preset, err := nicmodel.Preset("cx6dx")
			if err != nil {
				t.Fatal(err)
			}
			nic, err := nicmodel.New(e, net, frames, i, 10*units.Gbps, preset)
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = newHost(t, w.AddDevice(fmt.Sprint("h", i), nic, func(int) (nicmodel.Congestion, int, error) { return c.collects, 0, nil }))
		}
		a, b := ends[0], ends[1]
		if k := a.qp.(verbs.TelemetryQP).TelemetryKinds(); k != 0 {
			t.Errorf("%+v: %04b before there is a peer", c.collects, k)
		}
		for _, x := range [][2]*host{{a, b}, {b, a}} {
			if err := verbs.ConnectRC(x[0].qp, x[0].me, x[1].me, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
		}
		q := a.qp.(verbs.TelemetryQP)
		if k := q.TelemetryKinds(); k != c.want {
			t.Errorf("%+v: reports %04b, want %04b", c.collects, k, c.want)
		}
		if _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}}); err != nil {
			t.Fatal(err)
		}
		e.RunUntil(units.Millisecond)
		var wc [1]verbs.WC
		if n, err := a.cq.Poll(wc[:]); n != 1 || err != nil {
			t.Fatalf("%d completions, %v", n, err)
		}
		var got verbs.Telemetry
		q.CompletionTelemetry(&wc[0], &got)
		if got.HasMaxDelay != (c.want&verbs.ReportsMaxDelay != 0) || (got.Path.N > 0) != (c.want&verbs.ReportsPath != 0) {
			t.Errorf("%+v: a completion has %+v", c.collects, got)
		}
	}
}
