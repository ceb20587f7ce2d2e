package simverbs_test

import (
	"fmt"
	"strings"
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

// inNetwork is the first two hosts of a network, which a test drives from events.
func inNetwork(t *testing.T, topo *fabric.Topology, congestion simverbs.CongestionFor) (e *des.Engine, a, b *host) {
	t.Helper()
	e = des.New()
	net, err := fabric.New(e, topo, fabric.Default(), 1)
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
		ends[i] = newHost(t, w.AddDevice(fmt.Sprint("h", i), nic, congestion))
	}
	return e, ends[0], ends[1]
}

// A host of another plane is no peer: neither of a queue pair nor of datagrams.
func TestPeersAreOfOnePlane(t *testing.T) {
	l := fabric.Link{Rate: 10 * units.Gbps}
	_, a, b := inNetwork(t, fabric.LeafSpine(fabric.LeafSpineSpec{Leaves: 1, Spines: 1, HostsPerLeaf: 1, Planes: 2, Host: l, Trunk: l}), nil)
	const want = "10.0.0.2 is in another plane than 10.0.0.1, and planes share no link"
	if err := verbs.ConnectRC(a.qp, a.me, b.me, verbs.DefaultRC()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("connect: %v", err)
	}
	if _, err := a.pd.CreateAH(verbs.AddressVector{GID: b.me.GID}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("create_ah: %v", err)
	}
	if _, err := a.pd.CreateAH(verbs.AddressVector{GID: a.me.GID}); err != nil {
		t.Errorf("create_ah to itself: %v", err)
	}
}

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
		e, a, b := inNetwork(t, fabric.Star(2, fabric.Link{Rate: 10 * units.Gbps}), func(int) (nicmodel.Congestion, int, error) { return c.collects, 0, nil })
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
