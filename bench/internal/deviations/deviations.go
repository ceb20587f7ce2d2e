// Package deviations reads the lists of what differs between figures of ours and published
// ones, which the packages that make the figures embed. It knows no row.
package deviations

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
)

// Deviation is one known difference. Its number is its place in the list, from 1.
type Deviation struct {
	Rows    []string `yaml:"rows"`    // the rows that it touches
	Points  []string `yaml:"points"`  // the points of these rows; without any, it touches all
	Differs string   `yaml:"differs"` // what differs; lists of rows with one figure leave it out
	Why     string   `yaml:"why"`     // what is known about it
}

// Parse reads a list. Entries need rows and a reason.
func Parse(text []byte) ([]Deviation, error) {
	var all []Deviation
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("deviations.yaml: %w", err)
	}
	for i, d := range all {
		if len(d.Rows) == 0 || d.Why == "" {
			return nil, fmt.Errorf("deviations.yaml: entry %d requires rows and a reason (why)", i+1)
		}
	}
	return all, nil
}

// Embedded is Parse for a list that is part of the program, and panics if it is wrong.
func Embedded(text []byte) []Deviation {
	all, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return all
}

// About returns the numbers of the deviations about a point of a row, or with an empty
// point about the row or any of its points.
func About(all []Deviation, row, point string) []int {
	var numbers []int
	for i, d := range all {
		if slices.Contains(d.Rows, row) && (point == "" || len(d.Points) == 0 || slices.Contains(d.Points, point)) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}
