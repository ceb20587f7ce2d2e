package results

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// SizeRange names the range of sizes above from and up to to: "up to 10KB", "100KB to
// 1MB". A from of 0 is no lower bound, a to of math.MaxInt64 no upper one: "above 1MB".
func SizeRange(from, to units.Bytes) string {
	switch {
	case to == math.MaxInt64:
		return fmt.Sprintf("above %v", from)
	case from == 0:
		return fmt.Sprintf("up to %v", to)
	}
	return fmt.Sprintf("%v to %v", from, to)
}

// Kinds of series.
const (
	SeriesRate   = "rate"   // payload throughput of a label's flows, Gbps, over the step that ends here
	SeriesWire   = "wire"   // the same on the wire
	SeriesRTT    = "rtt"    // mean round trip over the step that ends here, us
	SeriesQueue  = "queue"  // bytes queued for a link: their mean over the step that ends here, and their most
	SeriesBusy   = "busy"   // share of the window that ends here in which a link was sending
	SeriesFlows  = "flows"  // flows under way, now
	SeriesBuffer = "buffer" // bytes taken of a switch's shared buffer, as of SeriesQueue
	// Of a label's flows without end, over the window that ends here.
	SeriesJain   = "jain"   // Jain's index of their throughput
	SeriesMaxMin = "maxmin" // distance from their max-min fair rates
)

// SeriesAll is the name of a series of all flows together, or of the deepest of all
// queues.
const SeriesAll = "all"

// Series is a value at even steps of simulated time: point i is at StartUs +
// i*StepUs.
type Series struct {
	Kind    string        `json:"kind"` // SeriesRate and so on
	Name    string        `json:"name"` // of the label, or of the link; or SeriesAll
	Unit    string        `json:"unit"` // as column headers and axes show it: "Gbps", "us", "B"
	StartUs stats.Float   `json:"start_us"`
	StepUs  stats.Float   `json:"step_us"`
	Values  []stats.Float `json:"values"`
	// Max is the most within each step where Values are the mean, of queues and buffers;
	// else it is left out.
	Max []stats.Float `json:"max,omitempty"`
	// Thinned is the number of measured steps that a value covers, where the run had
	// more than a result keeps. For flows under way, and in Max, the value is the
	// largest of these steps; for everything else it is their mean.
	Thinned int `json:"thinned,omitempty"`
}

// DistributionBySize is the kind of the completion times of a range of flow sizes,
// of all labels, with the name that SizeRange gives it.
const DistributionBySize = "fct_by_size"

// SeriesRow is a point in time of all series of a kind.
type SeriesRow struct {
	Scenario, System string
	Kind             string // SeriesRate and so on
	Unit             string
	AtUs             stats.Float
	Names            []string // of labels or links, the same in every row
	Values           []stats.Float
	Max              []stats.Float // as Series.Max; nil where a kind has none
}
