package bench

import (
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/scenario"
)

// Miss is an expectation of a scenario that its result did not meet.
type Miss struct {
	System string `json:"system"`
	Label  string `json:"label,omitempty"`
	Link   string `json:"link,omitempty"`
	Metric string `json:"metric"` // as in the JSON: "throughput_gbps"
	Value  Float  `json:"value"`
	Min    Float  `json:"min"` // null: no limit
	Max    Float  `json:"max"`
}

func (m Miss) String() string {
	of := m.System
	for _, part := range []string{m.Label, m.Link} {
		if part != "" {
			of += ", " + part
		}
	}
	var limits []string
	if m.Min.Measured() {
		limits = append(limits, fmt.Sprintf("at least %v", m.Min))
	}
	if m.Max.Measured() {
		limits = append(limits, fmt.Sprintf("at most %v", m.Max))
	}
	value := "was not measured"
	if m.Value.Measured() {
		value = fmt.Sprintf("is %.4g", float64(m.Value))
	}
	return fmt.Sprintf("%s: %s %s, expected %s", of, m.Metric, value, strings.Join(limits, " and "))
}

// CheckExpectations reports an expectation of a figure that no result has.
func CheckExpectations(s *scenario.Scenario) error {
	for i, e := range s.Expect {
		var figures any = &System{}
		switch {
		case e.Label != "":
			figures = &Label{}
		case e.Link != "":
			figures = &Link{}
		}
		if _, ok := metricOf(figures, e.Metric); !ok {
			return s.Errorf(fmt.Sprintf("expect[%d].metric", i), "there is no figure %q: take one of %s", e.Metric, strings.Join(metricNames(figures), ", "))
		}
	}
	return nil
}

// Misses returns what of a scenario's expectations its result does not meet. A
// figure that was not measured meets none.
func Misses(s *scenario.Scenario, r *Result) []Miss {
	var misses []Miss
	for _, e := range s.Expect {
		for _, sys := range r.Systems {
			if e.System != "" && e.System != sys.Name {
				continue
			}
			m := Miss{System: sys.Name, Label: e.Label, Link: e.Link, Metric: e.Metric, Value: sys.figure(e), Min: Unmeasured, Max: Unmeasured}
			if e.Min != nil {
				m.Min = Float(*e.Min)
			}
			if e.Max != nil {
				m.Max = Float(*e.Max)
			}
			if !m.Value.Measured() || m.Value < m.Min || m.Value > m.Max {
				misses = append(misses, m)
			}
		}
	}
	return misses
}

func (s *System) figure(e scenario.Expectation) Float {
	switch {
	case e.Label != "":
		for i := range s.Labels {
			if s.Labels[i].Label == e.Label {
				v, _ := metricOf(&s.Labels[i], e.Metric)
				return v
			}
		}
		return Unmeasured
	case e.Link != "":
		for i := range s.Links {
			if s.Links[i].Link == e.Link {
				v, _ := metricOf(&s.Links[i], e.Metric)
				return v
			}
		}
		return Unmeasured
	}
	v, _ := metricOf(s, e.Metric)
	return v
}
