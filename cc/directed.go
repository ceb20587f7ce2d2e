package cc

import "github.com/sluice-rdma/sluice/units"

// Directed is an Engine whose rate a driver sets that knows the network and all the
// flows in it (Scheme.Oracle): no protocol, but what protocols are held against.
type Directed interface {
	Engine
	// Direct sets the rate, above 0, which holds until the next call.
	Direct(units.Rate)
}
