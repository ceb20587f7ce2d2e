package workload

import (
	"fmt"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
)

// Plans is the workloads of a scenario, checked against a network: what makes their
// flows and messages. A nil Plans has none.
type Plans struct {
	workloads []*Workload
	plans     []plan
	labels    []string
}

// plan is a workload that has been checked: what makes its flows.
type plan interface {
	// start begins anew; stream returns the random stream of an entity of the
	// workload.
	start(stream func(entity string) des.Stream) flowSource
}

// Check completes workloads with their defaults, checks them against a network, notes
// what is wrong in d, and returns their plans.
func Check(d *tree.Document, workloads []*Workload, g *fabric.Topology) *Plans {
	p := &Plans{workloads: workloads}
	if len(workloads) == 0 {
		d.Fail("workloads", "there are none: list at least one, such as - {kind: incast, receiver: h0, size: unlimited}")
		return p
	}
	net := newNetwork(g)
	names := map[string]bool{}
	for i, w := range workloads {
		path := fmt.Sprintf("workloads[%d]", i)
		w.check(d, path)
		net.chosen = -1
		if names[w.Name] {
			d.Fail(path+".name", "two workloads are called %q: give each a name of its own", w.Name)
		}
		names[w.Name] = true
		p.plans = append(p.plans, w.Pattern.plan(d, path, w, net))
	}
	p.labels = net.labels
	return p
}

// check completes and checks what all kinds have.
func (w *Workload) check(d *tree.Document, path string) {
	if w.Name == "" {
		w.Name = w.Kind
	}
	if w.Label == "" {
		w.Label = w.Name
	}
	d.Check(path, w)
	if w.Stop > 0 && w.Stop <= w.Start {
		d.Fail(path+".stop", "is %v: choose a span above start, %v, or 0 for never", w.Stop, w.Start)
	}
}

// Labels lists the labels of all flows, in the order in which the workloads first name
// them.
func (p *Plans) Labels() []string {
	if p == nil {
		return nil
	}
	return p.labels
}

// KeepsConnections reports whether workload i is a Traffic, and has no plain flows.
func (p *Plans) KeepsConnections(i int) bool {
	if p == nil || i >= len(p.plans) {
		return false
	}
	_, ok := p.plans[i].(*traffic)
	return ok
}

// Flows starts the flows over, for a run with that seed. The same seed gives the
// same flows, whatever the system.
func (p *Plans) Flows(seed uint64) *Flows {
	f := &Flows{}
	for i, one := range p.plans {
		src := one.start(p.stream(i, seed))
		if head, ok := src.next(); ok {
			head.Workload = i
			f.sources, f.heads = append(f.sources, src), append(f.heads, head)
		}
	}
	return f
}

// Traffic starts over the workloads that are no plain flows, for a run with that
// seed. The same seed gives the same choices, whatever the system.
func (p *Plans) Traffic(seed uint64) []*Traffic {
	var all []*Traffic
	for i, one := range p.plans {
		if one, ok := one.(*traffic); ok {
			t := &Traffic{Workload: i, Start: one.w.Start, machine: one.make(p.stream(i, seed))}
			t.class = one.w.class()
			t.begin()
			for j := range t.conns {
				t.conns[j].Class, t.conns[j].Function = t.class, one.w.Function
			}
			all = append(all, t)
		}
	}
	return all
}

// stream returns a function that gives each entity of workload i its random numbers.
func (p *Plans) stream(i int, seed uint64) func(entity string) des.Stream {
	return func(entity string) des.Stream {
		return des.NewStream(seed, "workload/"+p.workloads[i].Name+"/"+entity)
	}
}
