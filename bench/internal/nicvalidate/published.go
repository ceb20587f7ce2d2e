package nicvalidate

import (
	_ "embed" // the published figures
	"fmt"

	"github.com/goccy/go-yaml"
)

// Use says what the model may do with a row.
type Use string

// Uses.
const (
	Fit     Use = "fit"     // presets may be set from it
	Predict Use = "predict" // it is only compared with
)

// Row is one published table, figure or fact.
type Row struct {
	ID         string  `yaml:"id"`
	Source     string  `yaml:"source"`
	Confidence string  `yaml:"conf"` // A or B; see published.yaml
	Use        Use     `yaml:"use"`
	Added      bool    `yaml:"added"` // looked for when the model stood; reported apart
	What       string  `yaml:"what"`
	Unit       string  `yaml:"unit"`
	Points     []Point `yaml:"points"`
}

// Point is one figure of a row: a value, or a range.
type Point struct {
	At    string  `yaml:"at"` // what it is the figure of; unique in its row
	Value float64 `yaml:"value"`
	Low   float64 `yaml:"low"` // of a range; then there is no Value
	High  float64 `yaml:"high"`
}

// Error returns how far a figure is off a point, as a fraction of the point: negative
// if it is below. Within a range it is 0.
func (p *Point) Error(figure float64) float64 {
	switch {
	case p.High == 0:
		return figure/p.Value - 1
	case figure < p.Low:
		return figure/p.Low - 1
	case figure > p.High:
		return figure/p.High - 1
	}
	return 0
}

func (p *Point) validate() error {
	value, bounds := p.Value > 0, p.Low > 0 && p.High > p.Low
	if p.At == "" || value == bounds || !bounds && (p.Low != 0 || p.High != 0) {
		return fmt.Errorf("point %q: give it a name and either a positive value or 0 < low < high", p.At)
	}
	return nil
}

//go:embed published.yaml
var publishedYAML []byte

// Published returns the rows.
func Published() []Row {
	rows, err := parsePublished(publishedYAML)
	if err != nil {
		panic(err) // it is part of the program
	}
	return rows
}

func parsePublished(text []byte) ([]Row, error) {
	var rows []Row
	if err := yaml.UnmarshalWithOptions(text, &rows, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("published.yaml: %w", err)
	}
	seen := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		bad := func(err error) ([]Row, error) {
			return nil, fmt.Errorf("published.yaml: row %d, %q: %w", i+1, r.ID, err)
		}
		if r.ID == "" || seen[r.ID] {
			return bad(fmt.Errorf("its id is empty or taken"))
		}
		seen[r.ID] = true
		if r.Use != Fit && r.Use != Predict {
			return bad(fmt.Errorf("use is %q: write fit or predict", r.Use))
		}
		if r.Confidence != "A" && r.Confidence != "B" {
			return bad(fmt.Errorf("conf is %q: write A or B", r.Confidence))
		}
		if r.Source == "" || r.What == "" || r.Unit == "" || len(r.Points) == 0 {
			return bad(fmt.Errorf("give it a source, what it is of, a unit and points"))
		}
		points := map[string]bool{}
		for k := range r.Points {
			if err := r.Points[k].validate(); err != nil {
				return bad(err)
			}
			if points[r.Points[k].At] {
				return bad(fmt.Errorf("two points are called %q", r.Points[k].At))
			}
			points[r.Points[k].At] = true
		}
	}
	return rows, nil
}
