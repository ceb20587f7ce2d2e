package scenario

import (
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
)

// With is parameters of the NIC that a scenario gives other values than its preset:
// stages, PCIe, caches, by the names below. What is left out is the preset's; the
// defaults shown are those of `cx6dx`. A system's `override` goes on from what the
// scenario says. With `model: reduced` only those count that make its latencies.
type With struct{ layers []withLayer }

// withLayer is one place's settings: the scenario's, then a system's override.
type withLayer struct {
	n    *tree.Node
	path string
}

// DecodeNode implements tree.Decoder.
func (w *With) DecodeNode(d *tree.Document, n *tree.Node, path string) {
	if d.Want(n, path, tree.Mapping) {
		// Systems share what is below their own.
		w.layers = append(slices.Clip(w.layers), withLayer{n, path})
	}
}

// apply changes a preset as the scenario says.
func (w *With) apply(d *tree.Document, c *nicmodel.Config) {
	for _, l := range w.layers {
		n := l.n.Clone()
		if rate := n.Get("pcie").Get("rate"); rate != nil && rate.Kind == tree.Scalar && strings.HasPrefix(rate.Text, "gen") {
			path := tree.Join(l.path, "pcie.rate")
			r, err := nicmodel.ParseLink(rate.Text)
			if err != nil {
				d.FailAt(rate.Pos, path, err.Error())
				return
			}
			rate.Text = r.String()
		}
		d.Decode(n, l.path, c)
	}
}

// check changes a preset as the scenario says, and holds it against the model. It reports
// whether all is right.
func (w *With) check(d *tree.Document, at func(string) string, c *nicmodel.Config) bool {
	if len(w.layers) == 0 {
		return true
	}
	errs := len(d.Errs)
	if w.apply(d, c); len(d.Errs) > errs {
		return false
	}
	if err := c.Validate(); err != nil {
		failFields(d, err, func(key string) string { return at(tree.Join("nic.with", key)) }, w.layers[len(w.layers)-1].path)
	}
	return len(d.Errs) == errs
}

// EncodeNode implements tree.Encoder.
func (w With) EncodeNode() any {
	if len(w.layers) == 0 {
		return nil
	}
	all := w.layers[0].n.Clone()
	for _, l := range w.layers[1:] {
		all.Merge(l.n)
	}
	return all.YAML()
}
