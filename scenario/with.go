package scenario

import (
	"reflect"
	"regexp"
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

var parameter = regexp.MustCompile(`^[\w.]+`)

// check holds the preset with its changes against the model.
func (w *With) check(d *decoder, at func(string) string, c *nicmodel.Config) {
	if len(w.layers) == 0 {
		return
	}
	errs := len(d.errs)
	w.apply(d, c)
	if len(d.errs) > errs {
		return
	}
	if err := c.Validate(); err != nil {
		msg := strings.TrimPrefix(err.Error(), "nic: ")
		key := parameter.FindString(msg) // it begins with the key
		if path := at(join("nic.with", key)); d.given(path) {
			d.fail(path, "%s", strings.TrimSpace(strings.TrimPrefix(msg, key)))
			return
		}
		d.fail(w.layers[len(w.layers)-1].path, "%s", msg)
	}
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
