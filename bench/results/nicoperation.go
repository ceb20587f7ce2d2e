package results

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/report"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// NICOperation is the life of one request, from the doorbell until its host can see the
// completion.
type NICOperation struct {
	// Percentile is the percentile of latencies that the request represents. Of the
	// requests that ended from the end of the warm-up on, it is one whose latency is
	// that percentile to within 1.6 percent.
	Percentile stats.Float        `json:"percentile"`
	Requests   uint64             `json:"requests"` // of which it is one
	QPN        uint32             `json:"qpn"`
	Peer       string             `json:"peer"` // its destination host; empty if unknown
	Packets    int                `json:"packets"`
	BeginUs    stats.Float        `json:"begin_us"` // in simulated time
	LatencyUs  stats.Float        `json:"latency_us"`
	Parts      []NICOperationPart `json:"parts"` // in order, without a gap: they add up to the latency
}

// NICOperationPart is a part of a request's life; docs/nic.md has their meanings.
type NICOperationPart struct {
	Part   string      `json:"part"`
	Where  string      `json:"where"`   // host, or "network"
	FromUs stats.Float `json:"from_us"` // since the request began
	Us     stats.Float `json:"us"`
}

// operation is the request that represents a percentile, nil if there is none.
func (u *NICUse) operation(percentile float64) *NICOperation {
	for i := range u.Operations {
		if u.Operations[i].Percentile == stats.Float(percentile) {
			return &u.Operations[i]
		}
	}
	return nil
}

// text says in a line what the parts of a request took.
func (o *NICOperation) text() string {
	parts := make([]string, len(o.Parts))
	for i, p := range o.Parts {
		parts[i] = p.Part + " " + nanoseconds(p.Us)
	}
	return fmt.Sprintf("%s of %d requests: %.3f us: %s", percentileName(o.Percentile), o.Requests, float64(o.LatencyUs), strings.Join(parts, ", "))
}

// longest is the part that took longest, and its share of the latency.
func (o *NICOperation) longest() (part NICOperationPart, share float64) {
	for _, p := range o.Parts {
		if p.Us > part.Us {
			part = p
		}
	}
	return part, float64(part.Us) / float64(o.LatencyUs)
}

func percentileName(p stats.Float) string {
	if p == 50 {
		return "the median"
	}
	return fmt.Sprintf("percentile %g", float64(p))
}

func nanoseconds(us stats.Float) string {
	switch {
	case us >= 10:
		return fmt.Sprintf("%.1f us", float64(us))
	case us >= 0.1:
		return fmt.Sprintf("%.0f ns", 1e3*float64(us))
	}
	return fmt.Sprintf("%.1f ns", 1e3*float64(us))
}

func (o *NICOperation) timeline(host string) report.Timeline {
	packets := fmt.Sprintf("%d packets", o.Packets)
	if o.Packets == 1 {
		packets = "one packet"
	}
	t := report.Timeline{
		Title: fmt.Sprintf("One request of %s: %s of %d by latency", host, percentileName(o.Percentile), o.Requests),
		Notes: []string{fmt.Sprintf("From the doorbell until %s can see the completion: %.3f us, by queue pair %#x, in %s.", host, float64(o.LatencyUs), o.QPN, packets)},
	}
	for _, p := range o.Parts {
		k := slices.Index(t.Places, p.Where)
		if k < 0 {
			k = len(t.Places)
			t.Places = append(t.Places, p.Where)
		}
		t.Parts = append(t.Parts, report.TimelinePart{Name: p.Part, Place: k, Took: float64(p.Us) / 1e6})
	}
	return t
}
