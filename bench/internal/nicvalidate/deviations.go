package nicvalidate

import (
	_ "embed" // how the model differs

	"github.com/sluice-rdma/sluice/bench/internal/deviations"
)

//go:embed deviations.yaml
var deviationsYAML []byte

// differences returns the known differences of the model's figures from the published ones.
func differences() []deviations.Deviation { return deviations.Embedded(deviationsYAML) }
