package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// LoadJSON reads a file that sluice run --json wrote, also one of an earlier
// version. Errors name the file, what is wrong and, where they can, the line.
func LoadJSON(path string) (*Document, error) {
	text, err := infile.Read(path, infile.MaxDocument)
	if err != nil {
		return nil, err
	}
	d, err := parseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func parseDocument(text []byte) (*Document, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("the file is empty: write it with sluice run SCENARIO --json FILE")
	}
	// The version first: what another version wrote need not fit.
	var head struct {
		Version *int            `json:"version"`
		Results json.RawMessage `json:"results"`
		Rows    json.RawMessage `json:"rows"` // of another document
	}
	if err := infile.JSON(text, &head); err != nil {
		return nil, located(text, err)
	}
	switch {
	case head.Version != nil && head.Rows != nil:
		return nil, errors.New("this is a report of sluice reproduce: show it with sluice reproduce --from FILE")
	case head.Version == nil || head.Results == nil:
		return nil, errors.New("these are not the results of a run: write them with sluice run SCENARIO --json FILE")
	case *head.Version < 1 || *head.Version > FormatVersion:
		return nil, fmt.Errorf("format version %d: this program reads versions up to %d: use the one that wrote the file", *head.Version, FormatVersion)
	}
	var d Document
	if err := infile.JSON(text, &d); err != nil {
		return nil, located(text, err)
	}
	if len(d.Results) == 0 {
		return nil, errors.New("there are no results in it: the run that wrote it had failed, or was interrupted")
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return &d, nil
}

// check says what is wrong with the shape of results that did not come from Run.
func (d *Document) check() error {
	for i, r := range d.Results {
		if r == nil || r.Scenario == "" {
			return fmt.Errorf("result %d has no scenario: only results of sluice run can be read", i+1)
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("scenario %s%w", r.Scenario, err)
		}
	}
	return nil
}

// located adds the line to an error of the JSON's form.
func located(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(-1)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
		err = fmt.Errorf("%s is a %s and should be a %v", kind.Field, kind.Value, kind.Type)
	}
	if offset < 0 || offset > int64(len(text)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:offset], []byte("\n")), err)
}

// check says what is wrong with the shape of a result that did not come from Run.
func (r *Result) check() error {
	if r.Topology != nil {
		known := map[string]bool{}
		for _, n := range r.Topology.Nodes {
			known[n.Name] = true
		}
		for _, l := range r.Topology.Links {
			for _, end := range []string{l.From, l.To} {
				if !known[end] {
					return fmt.Errorf(": topology: link %q ends at %q, which is no node", l.Link, end)
				}
			}
		}
	}
	for i, s := range r.Systems {
		if s == nil {
			return fmt.Errorf(": system %d is null", i+1)
		}
		if err := s.check(r.Topology); err != nil {
			return fmt.Errorf(", system %s: %w", s.Name, err)
		}
	}
	return nil
}

func (s *System) check(t *Topology) error {
	for i := range s.Series {
		x := &s.Series[i]
		switch {
		case x.Max != nil && len(x.Max) != len(x.Values):
			return fmt.Errorf("series %s of %q: max has %d entries for %d values", x.Kind, x.Name, len(x.Max), len(x.Values))
		case len(x.Values) == 0:
		case !x.StartUs.Measured() || x.StartUs < 0:
			return fmt.Errorf("series %s of %q: start_us is %v: it must be 0 or more", x.Kind, x.Name, x.StartUs)
		case len(x.Values) > 1 && (!x.StepUs.Measured() || x.StepUs <= 0):
			return fmt.Errorf("series %s of %q: step_us is %v: it must be above 0", x.Kind, x.Name, x.StepUs)
		}
	}
	for i := range s.Distributions {
		if d := &s.Distributions[i]; len(d.Values) != len(d.Share) {
			return fmt.Errorf("distribution %s of %q: %d values and %d shares", d.Kind, d.Name, len(d.Values), len(d.Share))
		}
	}
	if u := s.LinkUse; u != nil && t != nil {
		n := len(t.Links)
		for _, list := range []struct {
			name string
			has  int
		}{{"busy", len(u.Busy)}, {"queue_max_bytes", len(u.QueueMaxBytes)}, {"drops", len(u.Drops)}, {"pause_us", len(u.PauseUs)}} {
			if list.has != n {
				return fmt.Errorf("link_use: %s has %d entries for %d links", list.name, list.has, n)
			}
		}
	}
	return nil
}
