package nicvalidate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Task takes one of the figures of the page: a point of a row, or the round trips by a
// clock. Tasks depend on nothing but the program, and may run at once.
type Task struct {
	Name string // among Tasks
	run  func() (any, error)
}

// Run returns the figure as JSON. It fails where a measurement fails for another reason than
// that the model lacks something.
func (t *Task) Run() ([]byte, error) {
	figure, err := t.run()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	return json.Marshal(figure)
}

// Check says why a text is not what Run returns.
func (t *Task) Check(text []byte) error {
	decode := func(into any) error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		return d.Decode(into)
	}
	if strings.HasPrefix(t.Name, "clock ") {
		var r RoundTrips
		if err := decode(&r); err != nil {
			return err
		}
		if name := clockName(r.Case); name != t.Name {
			return fmt.Errorf("it is of %q, expected %q", name, t.Name)
		}
		return nil
	}
	var f struct {
		Value   *float64
		Missing *string
	}
	if err := decode(&f); err != nil {
		return err
	}
	if f.Value == nil || f.Missing == nil {
		return errors.New("it has no figure")
	}
	return nil
}

func clockName(c ClockCase) string { return fmt.Sprintf("clock %+v", c) }

// Tasks lists all tasks, in the order of the page.
func Tasks() ([]Task, error) {
	measurements := measurementsByRow()
	var all []Task
	for _, row := range Published() {
		m, ok := measurements[row.ID]
		if !ok {
			return nil, fmt.Errorf("row %s has no measurement", row.ID)
		}
		for _, p := range row.Points {
			all = append(all, Task{fmt.Sprintf("row %s, %s", row.ID, p.At), func() (any, error) { return m.point(p.At) }})
		}
	}
	for _, c := range ClockCases() {
		all = append(all, Task{clockName(c), func() (any, error) { return c.run() }})
	}
	return all, nil
}

var measurementsByRow = sync.OnceValue(func() map[string]Measurement {
	all := map[string]Measurement{}
	for _, m := range Measurements() {
		all[m.Row] = m
	}
	return all
})

// point is the figure of a point.
func (m *Measurement) point(at string) (Figure, error) {
	v, err := m.Figure(at)
	if missing := (*Missing)(nil); errors.As(err, &missing) {
		return Figure{Missing: missing.What}, nil
	}
	return Figure{Value: v}, err
}

// Gather puts together what all tasks gave, in their order.
func Gather(figures [][]byte) (results []Result, clock []*RoundTrips, err error) {
	next := func(into any) {
		if err == nil {
			err = json.Unmarshal(figures[0], into)
		}
		figures = figures[1:]
	}
	for _, row := range Published() {
		r := Result{Row: row, Measurement: measurementsByRow()[row.ID], Figures: make([]Figure, len(row.Points))}
		for k := range row.Points {
			next(&r.Figures[k])
		}
		results = append(results, r)
	}
	for range ClockCases() {
		r := new(RoundTrips)
		next(r)
		clock = append(clock, r)
	}
	return results, clock, err
}
