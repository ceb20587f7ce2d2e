// Package all registers every built-in rate engine with package cc. A program
// that lets its users choose an engine by name imports it for that effect.
package all

import (
	// Each registers its Scheme.
	_ "github.com/sluice-rdma/sluice/cc/dcqcn"
	_ "github.com/sluice-rdma/sluice/cc/dctcp"
	_ "github.com/sluice-rdma/sluice/cc/fast"
	_ "github.com/sluice-rdma/sluice/cc/homa"
	_ "github.com/sluice-rdma/sluice/cc/hpcc"
	_ "github.com/sluice-rdma/sluice/cc/ictcp"
	_ "github.com/sluice-rdma/sluice/cc/internal/ideal"
	_ "github.com/sluice-rdma/sluice/cc/none"
	_ "github.com/sluice-rdma/sluice/cc/poseidon"
	_ "github.com/sluice-rdma/sluice/cc/powertcp"
	_ "github.com/sluice-rdma/sluice/cc/pulser"
	_ "github.com/sluice-rdma/sluice/cc/retcp"
	_ "github.com/sluice-rdma/sluice/cc/swift"
	_ "github.com/sluice-rdma/sluice/cc/thetapowertcp"
	_ "github.com/sluice-rdma/sluice/cc/timely"
)
