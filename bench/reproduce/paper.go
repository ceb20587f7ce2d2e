package reproduce

import (
	_ "embed" // what the papers measured
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
)

// kind is what of a row is held against the paper.
type kind string

// Kinds of rows.
const (
	kindValue  kind = "value"  // figures lie within a fraction of the paper's
	kindRatio  kind = "ratio"  // a quotient of two figures lies on the paper's side of 1
	kindOrder  kind = "order"  // statements about the order of figures hold
	kindReport kind = "report" // set by something the paper does not state: shown, not counted
)

// paper is what one paper measured.
type paper struct {
	Name  string            `yaml:"-"` // what its rows' ids begin with
	Title string            `yaml:"title"`
	Setup map[string]string `yaml:"setup"`
	Rows  []*paperRow       `yaml:"rows"`
}

// paperRow is one figure or table of a paper, or a part of it.
type paperRow struct {
	ID string `yaml:"id"`
	// Beside is the row whose figure this is, in the set-up of the paper's public code
	// in place of the text's. The two count as one.
	Beside string             `yaml:"beside"`
	Source string             `yaml:"source"` // figure, table or section
	Kind   kind               `yaml:"kind"`
	What   string             `yaml:"what"`
	Note   string             `yaml:"note"`
	Within float64            `yaml:"within"` // of a value: the fraction that it may be off
	Values map[string]float64 `yaml:"figures"`
}

// value returns the paper's figure of a name, NaN if it gives none.
func (p *paperRow) value(name string) float64 {
	if v, ok := p.Values[name]; ok {
		return v
	}
	return math.NaN()
}

//go:embed papers.yaml
var papersYAML []byte

// allPapers returns what the papers measured, in the order of papers.yaml.
func allPapers() []*paper {
	papers, err := parsePapers(papersYAML)
	if err != nil {
		panic(err) // it is part of the program
	}
	return papers
}

func parsePapers(text []byte) ([]*paper, error) {
	var order yaml.MapSlice
	if err := yaml.Unmarshal(text, &order); err != nil {
		return nil, fmt.Errorf("papers.yaml: %w", err)
	}
	byName := map[string]*paper{}
	if err := yaml.UnmarshalWithOptions(text, &byName, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("papers.yaml: %w", err)
	}
	var papers []*paper
	for _, item := range order {
		name := fmt.Sprint(item.Key)
		p := byName[name]
		p.Name = name
		papers = append(papers, p)
	}
	return papers, nil
}
