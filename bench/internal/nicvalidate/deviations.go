package nicvalidate

import (
	_ "embed" // how the model differs
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
)

// Deviation is one way in which the model's figures differ from the published ones. Its
// number is its place in deviations.yaml, from 1.
type Deviation struct {
	Rows   []string `yaml:"rows"` // those that it touches
	Points []string `yaml:"points"`
	Why    string   `yaml:"why"` // what differs, and what is known about it
}

// about reports whether it is about a point; without Points, it is about all of its
// rows.
func (d *Deviation) about(row, at string) bool {
	return slices.Contains(d.Rows, row) && (len(d.Points) == 0 || slices.Contains(d.Points, at))
}

//go:embed deviations.yaml
var deviationsYAML []byte

// Deviations returns those that are known.
func Deviations() []Deviation {
	all, err := parseDeviations(deviationsYAML)
	if err != nil {
		panic(err) // it is part of the program
	}
	return all
}

func parseDeviations(text []byte) ([]Deviation, error) {
	var all []Deviation
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("deviations.yaml: %w", err)
	}
	for i, d := range all {
		if len(d.Rows) == 0 || d.Why == "" {
			return nil, fmt.Errorf("deviations.yaml: entry %d: give it rows and a reason", i+1)
		}
	}
	return all, nil
}
