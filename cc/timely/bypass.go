package timely

import "github.com/sluice-rdma/sluice/units"

// BypassBelow implements cc.Bypassed: below Tlow the rate only rises (section 4.3).
func (e *engine) BypassBelow() units.Time { return e.p.tLow }
