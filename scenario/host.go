package scenario

import (
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Host is the hosts' processors: what delays the thread that posts and polls
// (sim/des). All hosts are alike.
type Host struct {
	// Share of its core's time that other work takes. That work goes
	// before the thread, and interrupts it: everything that the host does waits.
	Load float64 `yaml:"load" eg:"0.5"`
	// Mean length of a piece of that work; lengths and gaps are exponential.
	Burst units.Time `yaml:"burst" eg:"20us"`
	// From the interrupt of a completion or timer to the thread being ready to run;
	// 0 is a thread that does not sleep but polls.
	Wakeup units.Time `yaml:"wakeup" eg:"4us"`
	// What a post takes the thread, from reading the clock to the doorbell.
	Post units.Time `yaml:"post" eg:"200ns"`
}

// Config returns the host as package des takes it.
func (h *Host) Config() des.CoreConfig {
	return des.CoreConfig{Load: h.Load, Burst: h.Burst, Wakeup: h.Wakeup, Post: h.Post}
}

func (sys *System) checkHost(d *tree.Document, at func(string) string) {
	c := sys.Host.Config()
	if err := c.Validate(); err != nil {
		failFields(d, err, func(key string) string { return at("host." + key) }, "host")
		return
	}
	if !sys.Reduced() {
		return
	}
	for _, x := range []struct {
		key string
		set bool
	}{{"load", c.Load > 0}, {"wakeup", c.Wakeup > 0}, {"post", c.Post > 0}} {
		if x.set {
			d.Fail(at("host."+x.key), "no host works on what reduced NICs carry: leave it out, or set nic.model to staged")
		}
	}
}

// Clocks of round trips.
const (
	ClockCalibrated = "calibrated"
	ClockNIC        = "nic"
	ClockSoftware   = "software"
)
