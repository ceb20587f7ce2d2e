package swift

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/plb"
	"github.com/sluice-rdma/sluice/units"
)

// pathed is the engine with PLB, for which congestion is a delay that is not below the
// target.
type pathed struct {
	engine
	paths plb.Paths
}

// startPathed is start with PLB.
func startPathed(c Config, env cc.Env) pathed {
	return pathed{start(c, env), plb.Paths{Rules: plb.Rules{Share: c.PLBShare, Idle: c.PLBIdleRounds, Forced: c.PLBRounds}}}
}

// OnAck implements cc.Engine.
func (e *pathed) OnAck(a *cc.Ack) cc.Control {
	control := e.engine.OnAck(a)
	e.paths.OnAck(a, e.above)
	return control
}

// OnTimeout implements cc.Engine.
func (e *pathed) OnTimeout(now units.Time) cc.Control {
	e.paths.OnTimeout()
	return e.engine.OnTimeout(now)
}

// Path implements cc.Pathed.
func (e *pathed) Path() uint32 { return e.paths.Path() }

// Inspect implements cc.Inspector.
func (e *pathed) Inspect(visit func(name string, value float64)) {
	e.engine.Inspect(visit)
	visit("path", float64(e.Path()))
}
