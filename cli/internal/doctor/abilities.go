package doctor

import (
	"strings"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs"
	"github.com/sluice-rdma/sluice/verbs/wiretag"
)

// abilities looks at what only some devices can do.
func (e *examination) abilities() {
	below, tags := e.dev, e.dev
	if u, ok := e.dev.(interface{ Unwrap() verbs.Device }); ok {
		below = u.Unwrap()
	}
	dev, ok := below.(interface{ Capabilities() ibverbs.Capabilities })
	if !ok {
		return
	}
	s := e.report.section("abilities")
	s.telemetry(tags, e.options.Port)
	c := dev.Capabilities()
	for _, a := range []struct {
		what string
		ibverbs.Ability
	}{
		{"raw completion timestamps", c.RawTimestamps},
		{"wallclock completion timestamps", c.WallclockTimestamps},
		{"clock query", c.ClockQuery},
		{"mlx5 clock", c.MLX5Clock},
		{"queues in Go", c.Direct},
	} {
		s.ability(a.what, a.Ability)
	}
	switch {
	case c.RateLimit.Found:
		s.add(OK, "rate limit", "%v to %v, of queue pairs of type %s", units.Rate(c.RateLimitMin), units.Rate(c.RateLimitMax), strings.Join(c.RateLimitedQPTypes, " "))
	default:
		s.add(Note, "rate limit", "none in hardware (%s)", c.RateLimit.Why)
	}
	if c.ODP.Found {
		s.add(OK, "on-demand paging", "%s", strings.Join(c.ODPTransports, "; "))
	} else {
		s.add(Note, "on-demand paging", "none (%s): memory is pinned as it is registered", c.ODP.Why)
	}
	s.add(OK, "inline data", "up to %d bytes", c.InlineBytes)
	for _, p := range c.Ports {
		if p.Port != e.options.Port {
			continue
		}
		if p.BestGID < 0 {
			s.add(Warn, "GID", "port %d has none that RoCEv2 could use", p.Port).mend("give %s an IP address", orNone(p.Netdev))
		} else {
			g := p.GIDs[p.BestGID]
			s.add(OK, "GID", "port %d: index %d, %v, %v, as perftest chooses", p.Port, p.BestGID, g.Addr, g.Type)
		}
	}
}

func (s *Section) ability(what string, a ibverbs.Ability) {
	if a.Found {
		s.add(OK, what, "%s", a.Why)
		return
	}
	s.add(Note, what, "none: %s", a.Why)
}

// collector is a device whose connections' telemetry is had at a network interface.
type collector interface {
	verbs.Device
	Netdev() string
	Attached() string
	Mode() wiretag.Mode
	Config() wiretag.Config
}

// telemetry says how the largest delay of a path's hops is known, or could be.
func (s *Section) telemetry(dev verbs.Device, port int) {
	const what = "path telemetry"
	if c, ok := dev.(collector); ok {
		f := c.Config().Format
		s.add(OK, what, "%s in %v tags of EtherType %#04x at %s, by eBPF (%s)", c.Mode(), f.Form, f.EtherType, c.Netdev(), c.Attached())
		return
	}
	p, err := dev.Port(port)
	if err != nil || p.Netdev == "" {
		return // said elsewhere
	}
	if err := wiretag.Available(p.Netdev); err != nil {
		s.add(Note, what, "none: %v", err)
		return
	}
	s.add(Note, what, "none is read, and it could be, where switches report delays").mend("name the device %s?telemetry=FORM, with the form that the network has: %s", dev.Name(), telemetry.FormNames(telemetry.Form.IsDelay))
}
