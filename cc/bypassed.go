package cc

import "github.com/sluice-rdma/sluice/units"

// Bypassed is an Engine that need not see every acknowledgement while nothing queues:
// the "Timely bypass" of eRPC (Kalia et al., NSDI 2019, section 5.2.2). A driver may
// leave one out if its NetRTT is below BypassBelow and the rate is the line's. The rate
// stays the line's, as it would have; what the engine remembers of the acknowledgements
// before is older when it sees the next one.
type Bypassed interface {
	Engine
	// BypassBelow returns the NetRTT below which an acknowledgement lowers no rate.
	BypassBelow() units.Time
}
