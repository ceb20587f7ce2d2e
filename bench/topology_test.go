package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

func TestTopologyOf(t *testing.T) {
	g := &fabric.Topology{}
	a, b, s := g.AddHost("a"), g.AddHost("b"), g.AddSwitch("s")
	g.Connect(a, s, fabric.Link{Rate: 10 * units.Gbps, Delay: 1500 * units.Nanosecond})
	g.Connect(s, b, fabric.Link{Rate: 25 * units.Gbps})
	g.Connect(s, b, fabric.Link{Rate: 25 * units.Gbps})
	link := func(name, from, to string, gbps, us stats.Float) results.TopologyLink {
		return results.TopologyLink{Link: name, From: from, To: to, RateGbps: gbps, DelayUs: us}
	}
	want := &results.Topology{
		Nodes: []results.TopologyNode{{Name: "a", Kind: "host"}, {Name: "b", Kind: "host"}, {Name: "s", Kind: "switch"}},
		Links: []results.TopologyLink{
			link("a->s", "a", "s", 10, 1.5), link("s->a", "s", "a", 10, 1.5),
			link("s->b", "s", "b", 25, 0), link("b->s", "b", "s", 25, 0),
			link("s->b#2", "s", "b", 25, 0), link("b->s#2", "b", "s", 25, 0),
		},
	}
	if diff := cmp.Diff(want, topologyOf(g)); diff != "" {
		t.Error(diff)
	}
}

// The use of all links says the same of a link as the figures of a link that the
// scenario asks to measure.
func TestLinkUse(t *testing.T) {
	s, err := scenario.Load("quickstart", "warmup=100us")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, sys := range r.Systems {
		u := sys.LinkUse
		if n := len(r.Topology.Links); len(u.Busy) != n || len(u.QueueMaxBytes) != n || len(u.Drops) != n || len(u.PauseUs) != n {
			t.Fatalf("%s: %d links, of which %d, %d, %d, %d have figures", sys.Name, n, len(u.Busy), len(u.QueueMaxBytes), len(u.Drops), len(u.PauseUs))
		}
		drops, paused, queue := uint64(0), stats.Float(0), int64(0)
		for i, l := range r.Topology.Links {
			drops, paused, queue = drops+u.Drops[i], paused+u.PauseUs[i], max(queue, u.QueueMaxBytes[i])
			for _, m := range sys.Links {
				if m.Link != l.Link {
					continue
				}
				checked++
				if u.Busy[i] != m.Busy || !(m.Busy > 0) || u.QueueMaxBytes[i] != m.QueueMaxBytes || u.Drops[i] != m.Drops {
					t.Errorf("%s, %s: busy %v, queue %d, drops %d; measured %v, %d, %d", sys.Name, l.Link,
						u.Busy[i], u.QueueMaxBytes[i], u.Drops[i], m.Busy, m.QueueMaxBytes, m.Drops)
				}
			}
		}
		if drops != sys.Drops || queue != sys.QueueMaxBytes || float64(paused-sys.PauseUs) > 1e-3 {
			t.Errorf("%s: %d drops, %v us paused, queue %d; in all %d, %v, %d", sys.Name, drops, paused, queue, sys.Drops, sys.PauseUs, sys.QueueMaxBytes)
		}
	}
	if checked == 0 {
		t.Error("the scenario measures no link")
	}
}
