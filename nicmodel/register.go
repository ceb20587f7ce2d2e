package nicmodel

import "github.com/sluice-rdma/sluice/units"

// registerBytes is the size of one load from the NIC's registers: the counter.
const registerBytes = 8

// ahead sends one TLP that is handed to the link at begin, now or later. Its room is taken
// now, so that others do not wait for what is yet to come; what is handed to the
// link between the two is not seen.
func (p *PCIe) ahead(d Direction, now, begin units.Time, kind TLPType, n int, why Purpose) units.Time {
	free := p.sides[d].until
	took := p.occupy(d, now, kind, 1, n, why) - max(free, now)
	return max(free, begin) + took + p.cfg.WriteLatency
}

// RegisterRequest is a processor's read of a register at begin: it returns when
// that reaches the NIC. The call's time is now, no later than begin.
func (n *NIC) RegisterRequest(now, begin units.Time) units.Time {
	return n.pcie.ahead(Downstream, now, begin, MemRd, 0, ForClock)
}

// RegisterAnswer returns when the processor has the register's value that the NIC reads
// at begin. The call's time is now, no later than begin.
func (n *NIC) RegisterAnswer(now, begin units.Time) units.Time {
	return n.pcie.ahead(Upstream, now, begin, CplD, registerBytes, ForClock)
}
