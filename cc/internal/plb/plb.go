// Package plb is PLB, the choice of another path for a flow that has met congestion for
// several round trips: M. Qureshi et al., "PLB: Congestion Signals are Simple and
// Effective for Network Load Balancing", SIGCOMM 2022. What a congested acknowledgement
// is, the engine says that embeds it.
package plb

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// Rules say when a flow takes another path.
type Rules struct {
	// Share of the packets of a round trip that must meet congestion for the round trip
	// to count, in (0, 1].
	Share float64
	// Idle is the number of such round trips in a row that let a flow change its path when it has
	// nothing under way, and Forced how many make it change in any case. 0 is never.
	Idle, Forced int
}

// Paths is a flow's choice of path.
type Paths struct {
	Rules
	path      uint32
	congested int         // round trips in a row
	marked    float64     // packets of the present round trip that met congestion
	packets   float64     // of the present round trip
	end       units.Bytes // acknowledged, with which it ends; 0 before it begins
}

// OnAck takes an acknowledgement and whether it met congestion. A round trip ends with
// the acknowledgement of all that had been sent when the one before ended.
func (p *Paths) OnAck(a *cc.Ack, congested bool) {
	if p.end == 0 {
		p.end = a.Sent
	}
	n := float64(max(a.Packets, 1))
	p.packets += n
	if congested {
		p.marked += n
	}
	if a.Acked < p.end {
		return
	}
	if p.marked >= p.Share*p.packets {
		p.congested = min(p.congested+1, max(p.Idle, p.Forced))
	} else {
		p.congested = 0
	}
	p.marked, p.packets, p.end = 0, 0, a.Sent
	idle := a.Acked >= a.Sent
	if idle {
		p.end = 0 // the next one begins when the flow does
	}
	if p.Forced > 0 && p.congested >= p.Forced || idle && p.Idle > 0 && p.congested >= p.Idle {
		p.change()
	}
}

// OnTimeout changes the path: it may be one that leads nowhere.
func (p *Paths) OnTimeout() { p.change() }

func (p *Paths) change() {
	p.path++
	p.congested = 0
}

// Path implements cc.Pathed.
func (p *Paths) Path() uint32 { return p.path }
