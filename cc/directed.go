package cc

import "github.com/sluice-rdma/sluice/units"

// Directed is an Engine whose rate is set by a driver that knows the network and
// all the flows in it (Scheme.Oracle). It is not a protocol, but a reference for
// protocols.
type Directed interface {
	Engine
	// Direct sets the rate, above 0, which holds until the next call.
	Direct(units.Rate)
}
