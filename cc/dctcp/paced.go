package dctcp

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// paced is DCTCP with a rate in place of the window, as the simulations of HPCC and
// PowerTCP have it (inet-tub/ns3-datacenter, 6ddb4a4, HandleAckDctcp): it begins at the
// line rate, a mark cuts it by half of alpha once a round trip, and a round trip without
// a cut raises it by a step. The window is what the rate fills in a base round trip.
type paced struct {
	g, step, least, most float64 // rates in bits per second
	baseRTT              units.Time
	mtu                  units.Bytes

	rate, alpha float64
	marked      float64     // packets, in the present round trip
	batch       float64     // packets that were outstanding when it began, and one
	until       units.Bytes // sent when it began
	recover     units.Bytes // sent at the latest cut
	recovering  bool        // until more than that is acknowledged
}

// newPaced returns the state of a flow that has sent nothing.
func newPaced(c Config, env cc.Env) paced {
	line := float64(env.LineRate)
	return paced{
		g: c.G, step: float64(c.RateStep), least: min(float64(c.MinRate), line), most: line,
		baseRTT: env.BaseRTT, mtu: env.MTU, rate: line, alpha: c.InitialAlpha,
	}
}

// ack handles an acknowledgement.
func (p *paced) ack(a *cc.Ack) {
	if a.ECN {
		p.marked += float64(a.Packets)
	}
	over := a.Acked > p.until
	if over {
		if p.until > 0 {
			p.alpha = float64((1-p.g)*p.alpha) + float64(p.g*min(1, p.marked/p.batch))
			p.marked = 0
			p.batch = float64((a.Sent-a.Acked)/p.mtu + 1)
		} else {
			p.batch = float64(a.Sent/p.mtu + 1)
		}
		p.until = a.Sent
	}
	if p.recovering && a.Acked > p.recover {
		p.recovering = false
	}
	switch {
	case p.recovering:
	case a.ECN:
		p.rate = max(float64(p.rate*(1-p.alpha/2)), p.least)
		p.recover, p.recovering = a.Sent, true
	case over && !a.AppLimited && a.RTT > 0:
		p.rate = min(p.rate+p.step, p.most)
	}
}

// control returns the rate, and the window that it fills in a base round trip. A packet may
// begin while less than that is outstanding.
func (p *paced) control() cc.Control {
	rate := units.Rate(detmath.Int64(p.rate))
	return cc.Control{Rate: rate, Window: max(rate.BytesIn(p.baseRTT), 1) + p.mtu - 1}
}
