package scenario

// The engines that a scenario may name.
import (
	_ "github.com/sluice-rdma/sluice/cc/hpcc"
	_ "github.com/sluice-rdma/sluice/cc/none"
	_ "github.com/sluice-rdma/sluice/cc/poseidon"
	_ "github.com/sluice-rdma/sluice/cc/powertcp"
	_ "github.com/sluice-rdma/sluice/cc/swift"
	_ "github.com/sluice-rdma/sluice/cc/thetapowertcp"
	_ "github.com/sluice-rdma/sluice/cc/timely"
)
