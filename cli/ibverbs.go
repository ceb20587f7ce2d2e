//go:build ibverbs

package cli

import (
	_ "github.com/sluice-rdma/sluice/verbs/ibverbs"           // ibv:DEVICE
	_ "github.com/sluice-rdma/sluice/verbs/ibverbs/librdmacm" // and their connections
)
