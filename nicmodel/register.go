package nicmodel

import "github.com/sluice-rdma/sluice/units"

// registerBytes is what one load from the NIC's registers brings: the counter.
const registerBytes = 8

// LoadRequest is a processor's load from a register, begun at begin. It returns when
// the request is there: behind what the link has taken by now, the time of the call,
// which is no later than begin.
func (p *PCIe) LoadRequest(now, begin units.Time, why Purpose) (there units.Time) {
	return p.ahead(Downstream, now, begin, MemRd, 0, why)
}

// LoadAnswer is the answer to a load of n bytes, which leaves the NIC at begin. It
// returns when the processor has it.
func (p *PCIe) LoadAnswer(now, begin units.Time, n int, why Purpose) (back units.Time) {
	return p.ahead(Upstream, now, begin, CplD, n, why)
}

// ahead sends one TLP that is handed to the link at begin, now or later. Its room is taken
// now, so that others do not wait for what is yet to come; what is handed to the
// link between the two is not seen.
func (p *PCIe) ahead(d Direction, now, begin units.Time, kind TLPType, n int, why Purpose) units.Time {
	free := p.sides[d].until
	took := p.occupy(d, now, kind, 1, n, why) - max(free, now)
	return max(free, begin) + took + p.cfg.WriteLatency
}

// RegisterRequest is a processor's read of a register, begun at begin: it returns when
// that reaches the NIC. The call's time is now, no later than begin.
func (n *NIC) RegisterRequest(now, begin units.Time) units.Time {
	return n.pcie.LoadRequest(now, begin, ForClock)
}

// RegisterAnswer returns when the processor has the register's value that the NIC reads
// at begin. The call's time is now, no later than begin.
func (n *NIC) RegisterAnswer(now, begin units.Time) units.Time {
	return n.pcie.LoadAnswer(now, begin, registerBytes, ForClock)
}
