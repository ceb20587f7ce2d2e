package doctor

import (
	"strings"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/ibverbs"
)

// abilities looks at what only some devices can do.
func (e *examination) abilities() {
	dev, ok := e.dev.(interface{ Capabilities() ibverbs.Capabilities })
	if !ok {
		return
	}
	s := e.report.section("abilities")
	c := dev.Capabilities()
	for _, a := range []struct {
		what string
		ibverbs.Ability
	}{
		{"raw completion timestamps", c.RawTimestamps},
		{"wallclock completion timestamps", c.WallclockTimestamps},
		{"clock query", c.ClockQuery},
		{"mlx5 clock", c.MLX5Clock},
	} {
		s.ability(a.what, a.Ability)
	}
	switch {
	case c.RateLimit.Found:
		s.add(OK, "rate limit", "%v to %v, of queue pairs of type %s", units.Rate(c.RateLimitMin), units.Rate(c.RateLimitMax), strings.Join(c.RateLimitedQPTypes, " "))
		if !strings.Contains(strings.Join(c.RateLimitedQPTypes, " "), "RC") {
			s.add(Note, "hybrid pacing", "not of RC queue pairs: Config.NICRate will be refused, and segments leave at line rate, a gap apart")
		}
	default:
		s.add(Note, "rate limit", "none in hardware (%s): segments leave at line rate, a gap apart", c.RateLimit.Why)
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
