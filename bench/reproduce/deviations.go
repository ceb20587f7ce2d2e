package reproduce

import (
	_ "embed" // what differs from the papers

	"github.com/sluice-rdma/sluice/bench/internal/deviations"
)

//go:embed deviations.yaml
var deviationsYAML []byte

// differences returns the known differences from the papers.
func differences() []deviations.Deviation { return deviations.Embedded(deviationsYAML) }
