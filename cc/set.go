package cc

import (
	"fmt"

	"github.com/sluice-rdma/sluice/internal/spelling"
)

// paperSet is the name of a scheme's defaults among its sets.
const paperSet = "paper"

// Set is a complete configuration by name, beside the defaults: that of a paper's public
// code, where it differs from the paper's text.
type Set struct {
	Name   string // as scenarios spell it: "artefact"
	Source string // where the values stand
	// Config returns a pointer to a new configuration.
	Config func() any
}

// NewSet returns a set of configurations of type C.
func NewSet[C any](name, source string, config func() C) Set {
	return Set{Name: name, Source: source, Config: func() any {
		c := config()
		return &c
	}}
}

// ConfigOf returns a pointer to a new configuration with the values of a set; those of
// paperSet, or without a name, are the defaults.
func (s *Scheme) ConfigOf(set string) (any, error) {
	if set == "" || set == paperSet {
		return s.DefaultConfig(), nil
	}
	names := []string{paperSet}
	for _, one := range s.Sets {
		if one.Name == set {
			return one.Config(), nil
		}
		names = append(names, one.Name)
	}
	return nil, fmt.Errorf("engine %s has no set of parameters called %q: %s", s.Name, set, spelling.Mend(set, names))
}
