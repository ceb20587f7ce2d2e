package workload

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Circuits come and go: they are no uplinks.
func TestCircuitsAreNoUplinks(t *testing.T) {
	link := func(r units.Rate) fabric.Link { return fabric.Link{Rate: r, Delay: units.Microsecond} }
	g := fabric.RDCN(fabric.RDCNSpec{
		Tors: 5, HostsPerTor: 2, Day: 225 * units.Microsecond, Night: 20 * units.Microsecond,
		Host: link(10 * units.Gbps), Packet: link(25 * units.Gbps), Circuit: link(100 * units.Gbps),
	})
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	n := newNetwork(g)
	for i := range 5 {
		if n.uplink[i] != 25*units.Gbps {
			t.Errorf("switch %d has uplinks of %v, expected 25Gbps", i, n.uplink[i])
		}
	}
	if n.rack[0] != 0 || n.rack[9] != 4 || n.line[3] != 10*units.Gbps {
		t.Errorf("racks %v, links %v", n.rack, n.line)
	}
}

// A workload has hosts of one plane; another may have those of another.
func TestWorkloadsStayInAPlane(t *testing.T) {
	l := fabric.Link{Rate: units.Gbps, Delay: units.Microsecond}
	g := fabric.LeafSpine(fabric.LeafSpineSpec{Leaves: 2, Spines: 1, HostsPerLeaf: 2, Planes: 2, Host: l, Trunk: l})
	for hosts, want := range map[string]string{
		"h0..h3": "",
		"h4..h7": "",
		"h3..h4": "h4 is in another plane than h3",
	} {
		d := &tree.Document{}
		n := newNetwork(g)
		n.hosts(d, "hosts", HostSet{Names: []string{hosts}}, -1)
		got := ""
		if len(d.Errs) > 0 {
			got = d.Errs[0].Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", hosts, got, want)
		}
	}
	d := &tree.Document{}
	if n := newNetwork(g); n.host(d, "src", "h0") != 0 || n.host(d, "dst", "h4") != 4 || len(d.Errs) != 1 {
		t.Errorf("a flow between planes: %d errors", len(d.Errs))
	}
}

// Each pair of hosts of a list of flows has its plane, and steps don't leave it.
func TestFlowsStayInAPlane(t *testing.T) {
	l := fabric.Link{Rate: units.Gbps, Delay: units.Microsecond}
	g := fabric.LeafSpine(fabric.LeafSpineSpec{Leaves: 2, Spines: 1, HostsPerLeaf: 2, Planes: 2, Host: l, Trunk: l})
	for flows, want := range map[*FlowList]string{
		{Flows: []FlowSpec{{Src: "h0", Dst: "h1"}, {Src: "h4", Dst: "h7"}}}:           "",
		{Flows: []FlowSpec{{Src: "h0", Dst: "h4"}}}:                                   "h4 is in another plane than h0",
		{Flows: []FlowSpec{{Src: "h0", Dst: "h1", Count: 2, SrcStep: 4, DstStep: 4}}}: "",
		{Flows: []FlowSpec{{Src: "h0", Dst: "h1", Count: 2, DstStep: 4}}}:             "flow 1 goes from h0 to h5, which is in another plane",
	} {
		for i := range flows.Flows {
			f := &flows.Flows[i]
			f.Size, f.Connections, f.Count = 1000, 1, max(1, f.Count)
		}
		d := &tree.Document{}
		flows.plan(d, "workloads[0]", &Workload{}, newNetwork(g))
		got := ""
		if len(d.Errs) > 0 {
			got = d.Errs[0].Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
