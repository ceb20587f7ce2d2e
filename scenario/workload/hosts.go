package workload

import (
	"strconv"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
)

// HostSet is a choice of hosts: a number of them, a list, or all.
type HostSet struct {
	All   bool
	Count int      // the number of hosts from the first on; 0 if All or Names
	Names []string // names such as "h3" and ranges such as "h0..h9"
}

// DecodeNode implements tree.Decoder.
func (h *HostSet) DecodeNode(d *tree.Document, n *tree.Node, path string) {
	switch {
	case n.Kind == tree.Sequence:
		*h = HostSet{}
		d.Decode(n, path, &h.Names)
		if len(h.Names) == 0 {
			d.Fail(path, "the list is empty: name hosts, or write all")
		}
	case n.Kind == tree.Scalar && n.Text == "all":
		*h = HostSet{All: true}
	case n.Kind == tree.Scalar:
		c, err := strconv.Atoi(n.Text)
		if err != nil || c < 1 {
			d.Fail(path, "%q is no choice of hosts: write a number of hosts, a list such as [h0..h3, h7], or all", n.Text)
			return
		}
		*h = HostSet{Count: c}
	default:
		d.Fail(path, "expected a number of hosts, a list such as [h0..h3, h7], or all, got %v", n.Kind)
	}
}

// EncodeNode implements tree.Encoder.
func (h HostSet) EncodeNode() any {
	switch {
	case h.All:
		return "all"
	case h.Count > 0:
		return h.Count
	case len(h.Names) == 0:
		return nil
	}
	return h.Names
}

// In returns the numbers of the hosts of g that the set chooses, in order. What it
// chooses that is not there is noted in d at path.
func (h HostSet) In(g *fabric.Topology, d *tree.Document, path string) []int {
	return (&network{Topology: g, chosen: -1}).hosts(d, path, h, -1)
}
