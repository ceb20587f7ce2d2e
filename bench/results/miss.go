package results

import (
	"fmt"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"strings"
)

// Miss is an expectation of a scenario that its result did not meet.
type Miss struct {
	System string      `json:"system"`
	Label  string      `json:"label,omitempty"`
	Link   string      `json:"link,omitempty"`
	Metric string      `json:"metric"` // as in the JSON: "throughput_gbps"
	Value  stats.Float `json:"value"`
	Min    stats.Float `json:"min"` // null: no limit
	Max    stats.Float `json:"max"`
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
