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

// noteCongestion looks at what the network and the peer say about congestion
// with a packet: a request or READ response that was marked calls for a CNP and
// an echo in the next acknowledgement; a marked response marks its request. An
// early incast notice is echoed likewise.
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

func (e *Endpoint) receiveCNP(q *QP) {
	e.Counters.CNPsHandled++
	q.congestion.cnps.Add(1)
	q.congestion.marked = true
}
