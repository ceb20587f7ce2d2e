package nicvalidate

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel"
)

// Measurement takes the figures of a row from the model.
type Measurement struct {
	Row    string // Row.ID
	Preset string // whose NIC it is; empty where each point has its own
	How    string // what is done, and what the source does not say and was chosen
	// Figure returns the figure of the point of that name, in the row's unit. The error
	// is a *Missing where the model can't do it yet.
	Figure func(at string) (float64, error)
}

// Missing names the part of the model that a figure needs and that is not there.
type Missing struct{ What string }

func (e *Missing) Error() string { return "the model lacks " + e.What }

// preset returns a NIC, or a Missing.
func preset(name string) (nicmodel.Config, error) {
	c, err := nicmodel.Preset(name)
	if err != nil {
		return c, &Missing{fmt.Sprintf("the preset `%s`", name)}
	}
	return c, nil
}

// noPoint is the error for a name that a measurement does not know.
func noPoint(at string) error { return fmt.Errorf("there is no way to measure %q", at) }

// Measurements returns one for each row, in the order of the rows.
func Measurements() []Measurement {
	return slices.Concat(pcieRows(), pbRows(), rateRows(), kaliaRows(), swarmRows(), latencyRows(), bandwidthRows(), factRows(), blindRows())
}
