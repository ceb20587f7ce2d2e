package scenario

import (
	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
)

// YAML writes the scenario with every default filled in. Read back, it is the
// same scenario.
func (s *Scenario) YAML() ([]byte, error) {
	return yaml.MarshalWithOptions(tree.Encode(s), yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true))
}

// EncodeNode implements tree.Encoder.
func (sys *System) EncodeNode() any {
	m := yaml.MapSlice{{Key: "name", Value: sys.Name}, {Key: "engine", Value: sys.Engine}}
	if sys.Set != "" {
		m = append(m, yaml.MapItem{Key: "set", Value: sys.Set})
	}
	if config := tree.Encode(sys.EngineConfig); len(config) > 0 {
		m = append(m, yaml.MapItem{Key: "config", Value: config})
	}
	if sys.Override.n != nil {
		m = append(m, yaml.MapItem{Key: "override", Value: sys.Override.n.YAML()})
	}
	return m
}

// Raw is a part of a scenario that is read later, when it is known what it
// means.
type Raw struct{ n *tree.Node }

// DecodeNode implements tree.Decoder.
func (r *Raw) DecodeNode(_ *tree.Document, n *tree.Node, _ string) { r.n = n }

// EncodeNode implements tree.Encoder.
func (r Raw) EncodeNode() any { return r.n.YAML() }
