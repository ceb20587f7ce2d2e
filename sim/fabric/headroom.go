package fabric

import (
	"slices"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Headroom is a switch's reserve for packets that still arrive from a link in a lossless
// priority after the switch has decided to pause it.
type Headroom struct {
	Switch string
	Link   string // that leads to the switch
	Set    units.Bytes
	Needed units.Bytes // as rate and length of the link ask for
}

// short reports whether packets may be lost for want of headroom.
func (h *Headroom) short() bool { return h.Set < h.Needed }

// HeadroomsOf returns, of each lossless priority of a switch, the headroom that lacks most.
func (n *Network) HeadroomsOf(name string) (worst [MaxPriorities]Headroom, err error) {
	_, v, err := n.switchOf(name)
	if err != nil || len(n.holds) == 0 {
		return worst, err
	}
	for at := v.first; at < v.first+v.count; at++ {
		needed := n.headroom(at)
		for i := range n.prios {
			if n.kinds[n.ports[at].kind].lossless&(1<<i) == 0 {
				continue
			}
			h := Headroom{name, n.topo.LinkName(n.inlets[at].link), units.Bytes(n.holds[at*n.prios+i].headroom), needed}
			if w := &worst[i]; w.Switch == "" || h.Needed-h.Set > w.Needed-w.Set {
				*w = h
			}
		}
	}
	return worst, nil
}

// ShortHeadrooms returns the headrooms that a configuration sets below what links ask for,
// each with the first priority that has it: for every switch the one that lacks most.
func ShortHeadrooms(topo *Topology, cfg Config) ([]Headroom, error) {
	sets := func(s *SwitchConfig) bool {
		return slices.ContainsFunc(s.Classes[:cfg.Priorities], func(c Class) bool { return c.PFC.Lossless && c.PFC.Headroom > 0 })
	}
	some := sets(&cfg.Switch)
	for _, s := range cfg.Switches {
		some = some || sets(&s)
	}
	if !some {
		return nil, nil // what is computed suffices
	}
	n, err := newSwitches(des.New(), topo, cfg, 0, false)
	if err != nil {
		return nil, err
	}
	var all []Headroom
	for _, name := range topo.SwitchNames() {
		worst, err := n.HeadroomsOf(name)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(worst[:], func(h Headroom) bool { return h.short() }); i >= 0 {
			all = append(all, worst[i])
		}
	}
	return all, nil
}
