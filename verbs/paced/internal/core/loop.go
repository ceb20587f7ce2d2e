package core

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// loop is the control loop of one engine: that of a queue pair, or of a group.
type loop struct {
	sampled bool // a segment posted after repaired has succeeded
	lastAck units.Time
	bypass  units.Time // NetRTT below which the engine is spared at line rate
	driver  cc.Driver
	// repaired is when what had been outstanding for a timeout completed last.
	repaired units.Time
}

// hold begins without an engine, at a port of that line rate.
func (l *loop) hold(line units.Rate) {
	l.sampled = true
	l.driver.Hold(cc.Control{Rate: max(line, 1), Window: cc.Unlimited})
}

// start installs an engine, or nil for none, at a port of that line rate.
func (l *loop) start(now units.Time, engine cc.Engine, line units.Rate, segment units.Bytes, c *Config) {
	l.lastAck, l.bypass, l.sampled = now, 0, true
	if b, ok := engine.(cc.Bypassed); ok && c.Bypass {
		l.bypass = b.BypassBelow()
	}
	if engine == nil {
		l.driver.Hold(cc.Control{Rate: line, Window: cc.Unlimited})
		return
	}
	l.driver.Start(engine, line, segment, c.BaseRTT)
}

func (l *loop) setBack(by units.Time) {
	l.lastAck, l.repaired = l.lastAck.SetBack(by), l.repaired.SetBack(by)
	l.driver.SetBack(by)
}
