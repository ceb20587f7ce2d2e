package bench

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// noisy is an engine that gets each round trip with an error, uniform from 0 to
// most (TIMELY section 6.1).
type noisy struct {
	cc.Engine
	most   units.Time
	errors *des.Stream // of the host
	ack    cc.Ack
}

// OnAck implements cc.Engine.
func (n *noisy) OnAck(a *cc.Ack) cc.Control {
	n.ack = *a
	late := units.Time(n.errors.Float64() * float64(n.most))
	n.ack.RTT += late
	n.ack.NetRTT += late
	return n.Engine.OnAck(&n.ack)
}

// noisy adds to the engines of a host the error of shim.rtt_noise.
func (s *simulation) noisy(name string, engine func(cc.Env) (cc.Engine, error)) func(cc.Env) (cc.Engine, error) {
	most := s.sys.Shim.RTTNoise
	if most == 0 {
		return engine
	}
	errors := des.NewStream(s.seed, "rtt noise "+name)
	return func(env cc.Env) (cc.Engine, error) {
		e, err := engine(env)
		return &noisy{Engine: e, most: most, errors: &errors}, err
	}
}
