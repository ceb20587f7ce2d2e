package nicvalidate

import (
	_ "embed" // the published figures
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Class is a row's part in the making of the model, by the rule that the page states.
type Class string

// Classes.
const (
	Fit   Class = "fit"   // a parameter was set from it
	Seen  Class = "seen"  // it was looked at while the model was made
	Blind Class = "blind" // it was committed before the model was first run for it
)

// classes are in the order of the page.
var classes = []Class{Blind, Seen, Fit}

func (c Class) valid() bool { return slices.Contains(classes, c) }

// Row is one published table, figure or fact.
type Row struct {
	ID         string  `yaml:"id"`
	Source     string  `yaml:"source"`
	Confidence string  `yaml:"conf"` // A or B; see published.yaml
	Class      Class   `yaml:"class"`
	Of         string  `yaml:"of"`    // pcie for what was measured of PCIe, empty for NICs
	Apart      string  `yaml:"apart"` // why its points don't enter medians; empty if they do
	What       string  `yaml:"what"`
	Unit       string  `yaml:"unit"`
	Points     []Point `yaml:"points"`
}

// Point is one figure of a row: a value, or a range.
type Point struct {
	At    string  `yaml:"at"`    // what it is the figure of; unique in its row
	Class Class   `yaml:"class"` // if not the row's
	Apart string  `yaml:"apart"` // as the row's
	Value float64 `yaml:"value"`
	Low   float64 `yaml:"low"` // of a range; then there is no Value
	High  float64 `yaml:"high"`
}

// ClassOf returns the class of a point of the row.
func (r *Row) ClassOf(point int) Class {
	if c := r.Points[point].Class; c != "" {
		return c
	}
	return r.Class
}

// wasBlind reports whether the row is blind, or was when it was first run.
func (r *Row) wasBlind(first map[string]float64) bool {
	_, ran := first[r.ID]
	return ran || r.Class == Blind
}

// kind returns the kind of the measurement.
func (r *Row) kind() string {
	if r.Of == "pcie" {
		return "PCIe"
	}
	return "NICs"
}

// origin is the source without what says where in it: "K16 table 4" and "K16 figure 14" are K16.
func (r *Row) origin() string {
	name, _, _ := strings.Cut(r.Source, " ")
	name, _, _ = strings.Cut(name, "/")
	return name
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
	if p.Class != "" && !p.Class.valid() {
		return fmt.Errorf("point %q: class is %q: write fit, seen or blind", p.At, p.Class)
	}
	return nil
}

//go:embed published.yaml
var publishedYAML []byte

// Published returns the rows, and of the blind rows the ones that are run.
func Published() []Row {
	rows, err := parsePublished(publishedYAML)
	if err != nil {
		panic(err) // it is part of the program
	}
	for _, b := range BlindRows() {
		if b.Status == Predicted {
			rows = append(rows, b.published())
		}
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
		if !r.Class.valid() {
			return bad(fmt.Errorf("class is %q: write fit, seen or blind", r.Class))
		}
		if r.Of != "" && r.Of != "pcie" {
			return bad(fmt.Errorf("of is %q: write pcie, or leave it out for NICs", r.Of))
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
