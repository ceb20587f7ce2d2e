package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// cnpInterval is the least time between two congestion notifications of one
// connection: DCQCN's N (Zhu et al., SIGCOMM 2015, section 3.2).
const cnpInterval = 50 * units.Microsecond

// noteCongestion handles the congestion signals of a packet. A marked request or
// READ response calls for a CNP and an echo in the next acknowledgement. A marked
// response marks its request. An explicit incast notification is echoed likewise.
func (e *Endpoint) noteCongestion(now units.Time, q *QP, p *Packet, in *inbound) {
	c := &q.congestion
	response := in.Opcode >= ib.ReadResponseFirst && in.Opcode <= ib.AtomicAcknowledge
	if in.Reserved6&telemetry.EIN != 0 {
		if response {
			c.ein = true
		} else {
			c.echoEIN = true
		}
	}
	if response && in.Reserved6&telemetry.EINEcho != 0 {
		c.ein = true
	}
	marked := ecn(p.TrafficClass) == roce.ECNCE
	if response && (marked || in.BECN) {
		c.marked = true
	}
	if !marked {
		return
	}
	e.Counters.ECNMarked++
	if !response {
		c.echo = true
	}
	if in.Opcode == ib.Acknowledge || c.cnpSent && now-c.cnpAt < cnpInterval {
		return
	}
	c.cnpDue, c.cnpSent, c.cnpAt = true, true, now
	q.wake()
}

// nextCNP writes a congestion notification packet.
func (e *Endpoint) nextCNP(q *QP, buf []byte) int {
	q.congestion.cnpDue = false
	e.Counters.CNPsSent++
	e.out = roce.CNP(q.destQPN, roce.DefaultPKey)
	n, _ := e.put(buf, 0)
	return n
}

// ecn is the ECN code point of a traffic class.
func ecn(trafficClass uint8) uint8 { return trafficClass & 3 }

// cnpHandled is the least time between two notifications that count: ConnectX sends
// them no closer by default (min_time_between_cnps).
const cnpHandled = 4 * units.Microsecond

// cnpOfRead is how long after a READ response a notification of it may come: more than
// a round trip.
const cnpOfRead = 10 * units.Millisecond

// receiveCNP takes a congestion notification. A notification has no PSN, so anybody
// who knows the queue pair's number and its peer's address can forge one. A
// notification that arrives while nothing is outstanding, or sooner than an honest
// peer sends it, does not count.
func (e *Endpoint) receiveCNP(now units.Time, q *QP) {
	c := &q.congestion
	serving := c.served && now-c.servedAt < cnpOfRead
	if q.rc.SendQueued() == 0 && !serving || c.cnpTaken && now-c.cnpTakenAt < cnpHandled {
		e.Counters.CNPsIgnored++
		return
	}
	c.cnpTaken, c.cnpTakenAt = true, now
	e.Counters.CNPsHandled++
	q.cnps.Add(1)
	c.marked = true
}
