package cli

import (
	// Each registers the scheme of its devices; ibverbs.go has those of libibverbs.
	_ "github.com/sluice-rdma/sluice/verbs/simverbs" // sim:NETWORK/HOST
	_ "github.com/sluice-rdma/sluice/verbs/softroce" // soft:INTERFACE
)
