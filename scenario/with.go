package scenario

import (
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/nicmodel"
)

// With is parameters of the NIC that a scenario gives other values than its preset:
// stages, PCIe, caches, by the names below. What is left out is the preset's; the
// defaults shown are those of `cx6dx`. A system's `override` goes on from what the
// scenario says. With `model: reduced` only those count that make its latencies.
type With struct{ layers []withLayer }

// withLayer is what one place says: the scenario, then a system's override.
type withLayer struct {
	n    *node
	path string
}

func (w *With) decodeNode(d *decoder, n *node, path string) {
	if d.want(n, path, mappingNode) {
		// Systems share what is below their own.
		w.layers = append(slices.Clip(w.layers), withLayer{n, path})
	}
}

// apply changes a preset as the scenario says.
func (w *With) apply(d *decoder, c *nicmodel.Config) {
	for _, l := range w.layers {
		n := l.n.clone()
		if rate := n.get("pcie").get("rate"); rate != nil && rate.kind == scalarNode && strings.HasPrefix(rate.text, "gen") {
			path := join(l.path, "pcie.rate")
			d.at[path] = rate.pos
			r, err := nicmodel.ParseLink(rate.text)
			if err != nil {
				d.fail(path, "%v", err)
				return
			}
			rate.text = r.String()
		}
		d.decode(n, l.path, reflect.ValueOf(c).Elem())
	}
}

// check changes a preset as the scenario says, and holds it against the model. It reports
// whether all is right.
func (w *With) check(d *decoder, at func(string) string, c *nicmodel.Config) bool {
	if len(w.layers) == 0 {
		return true
	}
	errs := len(d.errs)
	if w.apply(d, c); len(d.errs) > errs {
		return false
	}
	if err := c.Validate(); err != nil {
		d.failFields(err, func(key string) string { return at(join("nic.with", key)) }, w.layers[len(w.layers)-1].path)
	}
	return len(d.errs) == errs
}

func (w *With) yaml() any {
	if len(w.layers) == 0 {
		return nil
	}
	all := w.layers[0].n.clone()
	for _, l := range w.layers[1:] {
		all.merge(l.n)
	}
	return all.toYAML()
}
