package pcie

import "github.com/sluice-rdma/sluice/units"

// registerBytes is the size of one load from the NIC's registers: the counter.
const registerBytes = 8

// RequestRegister is a processor's read of a register at begin: it returns when that reaches the NIC. The call's
// time is now, no later than begin.
func (p *Link) RequestRegister(now, begin units.Time) units.Time {
	return p.ahead(Downstream, now, begin, MemRd, 0, ForClock)
}

// AnswerRegister returns when the processor has the value that the NIC reads at begin.
func (p *Link) AnswerRegister(now, begin units.Time) units.Time {
	return p.ahead(Upstream, now, begin, CplD, registerBytes, ForClock)
}

// ahead sends one TLP that is handed to the link at begin, now or later. Its room is taken
// now, so that others do not wait for what is yet to come; what is handed to the
// link between the two is not seen.
func (p *Link) ahead(d Direction, now, begin units.Time, kind TLPType, n int, why Purpose) units.Time {
	free := p.sides[d].until
	took := p.occupy(d, now, kind, 1, n, why) - max(free, now)
	return max(free, begin) + took + p.cfg.WriteLatency
}
