package reproduce

import (
	_ "embed" // what differs from the papers
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
)

// Deviation is one way in which reproductions differ from the papers. Its number is
// its place in deviations.yaml, from 1.
type Deviation struct {
	Rows    []string `yaml:"rows"`    // those that it touches
	Differs string   `yaml:"differs"` // what differs
	Why     string   `yaml:"why"`     // what is known about it
}

//go:embed deviations.yaml
var deviationsYAML []byte

// deviations returns those that are known.
func deviations() []Deviation {
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
	return all, nil
}

// deviationsOf returns the numbers of those that touch a row.
func deviationsOf(all []Deviation, id string) []int {
	var numbers []int
	for i := range all {
		if slices.Contains(all[i].Rows, id) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}
