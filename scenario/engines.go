package scenario

// The engines that a scenario may name.
import _ "github.com/sluice-rdma/sluice/cc/all"
