package scenario

import (
	"slices"

	"github.com/sluice-rdma/sluice/sim/fabric"
)

// Warnings names valid settings of a scenario that make its measurements mislead: each
// with the key, and the mend. There are mostly none.
func (s *Scenario) Warnings() []string {
	var all []string
	for _, sys := range s.Systems {
		short, err := fabric.ShortHeadrooms(s.Graph(), sys.FabricConfig())
		if err != nil || len(short) == 0 {
			continue // an error is said where the network is built
		}
		worst := slices.MaxFunc(short, func(a, b fabric.Headroom) int { return int(a.Needed - a.Set - b.Needed + b.Set) })
		var names []string
		for _, h := range short {
			names = append(names, h.Switch)
		}
		w := s.Errorf("fabric.pfc.headroom", "is %v, and rate and length of %s ask for %v: lossless priorities of %s will lose packets; raise it, or leave it out, which computes it",
			worst.Set, worst.Link, worst.Needed, few(names)).Error()
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// Notes describe how files beside the scenario were read, such as what was left unread.
func (s *Scenario) Notes() []string {
	if s.source == nil {
		return nil
	}
	return s.source.Notes
}
