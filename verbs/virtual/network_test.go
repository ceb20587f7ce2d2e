package virtual

import "github.com/sluice-rdma/sluice/internal/ownnet"

// Addresses and ports of these tests are nobody else's.
func init() { ownnet.Enter() }
