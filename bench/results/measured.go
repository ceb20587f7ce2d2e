package results

import "github.com/sluice-rdma/sluice/bench/internal/stats"

// Float is a measured value. Unmeasured, any other NaN and the infinities are null in JSON.
type Float = stats.Float

// Unmeasured is the value of what was not measured.
var Unmeasured = stats.Unmeasured

// Environment is the program and the machine that a result is from.
type Environment = stats.Environment

// Here returns the environment of this program.
func Here() Environment { return stats.Here() }
