package paced

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// Grouping says which queue pairs of a Shim form a group: one engine steers all of them. It sees the
// acknowledgements of each, and its rate and window hold for what they send together, which
// QP.SetShare divides among them. A group counts as one flow in the network, however many queue pairs
// it has.
type Grouping uint8

// Groupings.
const (
	Ungrouped     Grouping = iota // an engine for each queue pair
	ByDestination                 // those at one port whose peers have one GID
	ByPath                        // of those the ones with one flow label: the same UDP source port
	ByPort                        // all at one port
)

var groupingNames = [...]string{"none", "destination", "path", "port"}

func (g Grouping) String() string {
	if int(g) < len(groupingNames) {
		return groupingNames[g]
	}
	return fmt.Sprintf("Grouping(%d)", uint8(g))
}

// UnmarshalText implements encoding.TextUnmarshaler: it takes what String gives.
func (g *Grouping) UnmarshalText(b []byte) error {
	i := slices.Index(groupingNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("paced: a grouping %q: choose one of %s", b, strings.Join(groupingNames[:], ", "))
	}
	*g = Grouping(i)
	return nil
}

// Classes of a group's queue pairs. A higher class goes first and leaves each lower one that waits a
// hundredth of what it sends.
const (
	Classes   = core.Classes
	MaxWeight = core.MaxWeight
)

// groupKey tells the groups of a Shim apart. What the grouping does not look at is zero.
type groupKey struct {
	name      string // by Config.GroupOf
	port      int
	peer      netip.Addr
	flowLabel uint32
}

func (k groupKey) String() string {
	switch {
	case k.name != "":
		return k.name
	case !k.peer.IsValid():
		return fmt.Sprintf("port %d", k.port)
	case k.flowLabel == 0:
		return k.peer.String()
	}
	return fmt.Sprintf("%v flow %#x", k.peer, k.flowLabel)
}

// grouped reports whether queue pairs may form groups.
func (s *Shim) grouped() bool { return s.cfg.Group != Ungrouped || s.cfg.GroupOf != nil }

// groupKey returns the key of the group of a queue pair that is about to send, and false for none.
func (q *QP) groupKey() (k groupKey, ok bool) {
	c := &q.shard.cfg
	if c.GroupOf != nil {
		k.name = c.GroupOf(q, verbs.QPAttr{Port: q.port, PathMTU: q.mtu, AV: q.av})
		return k, k.name != ""
	}
	k.port = q.port
	switch c.Group {
	case Ungrouped:
		return k, false
	case ByDestination:
		k.peer = q.av.GID
	case ByPath:
		k.peer, k.flowLabel = q.av.GID, q.av.FlowLabel
	case ByPort:
	}
	return k, true
}

// join makes q a member of the group of a key, which gets the engine if q is the first. The lock is held.
func (q *QP) join(k groupKey, engine cc.Engine, line units.Rate, cnps uint64) error {
	s := q.shard
	g := s.groups[k]
	if g == nil {
		g = new(core.Group)
		if err := s.core.AddGroup(g, line); err != nil {
			return err
		}
		g.Start(s.instant(), engine, s.cfg.Segment, s.cfg.Outstanding(line))
		if s.groups == nil {
			s.groups = map[groupKey]*core.Group{}
		}
		s.groups[k] = g
	}
	q.group = k
	q.core.Join(&q.place, g, q.weight, q.class, cnps)
	return nil
}

// leaveGroup takes q out of its group, which ends with its last member. The lock is held, and q was cleared.
func (q *QP) leaveGroup() {
	if g := q.core.Leave(); g != nil {
		q.shard.core.RemoveGroup(g)
		delete(q.shard.groups, q.group)
	}
}

// SetShare says how the queue pair shares its group's rate and window. Of queue pairs that have something to
// send, the highest class goes first, from 0, the default, to Classes - 1. Those of a class share by
// weight, 1 to MaxWeight, 1 by default, in bytes. It holds at once, and for the groups that the queue pair
// joins later. It fails with verbs.ErrInvalid, and changes nothing, if either is out of range.
func (q *QP) SetShare(weight, class int) error {
	if weight < 1 || weight > MaxWeight {
		return q.errorf("set_share", verbs.ErrInvalid, "weight %d, expected 1 to %d", weight, MaxWeight)
	}
	if class < 0 || class >= Classes {
		return q.errorf("set_share", verbs.ErrInvalid, "class %d, expected 0 to %d", class, Classes-1)
	}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.weight, q.class = weight, class
	if q.core.Group() != nil {
		q.place.SetShare(weight, class)
	}
	return nil
}

// GroupStats is the present state of one group.
type GroupStats struct {
	Name    string // the destination, path or port, or what Config.GroupOf said
	Members int    // queue pairs
	Rate    units.Rate
	Window  units.Bytes // 0 if the engine sets none
	// Outstanding is the payload of all members that is with the NIC.
	Outstanding units.Bytes
}

// Groups returns the state of each group, in the order of their names.
func (s *Shim) Groups() (all []GroupStats) {
	for _, x := range *s.shards.Load() {
		x.mu.Lock()
		for k, g := range x.groups {
			c := g.Control()
			stats := GroupStats{Name: k.String(), Members: g.Members(), Rate: c.Rate, Outstanding: g.Outstanding()}
			if c.Window != cc.Unlimited {
				stats.Window = c.Window
			}
			all = append(all, stats)
		}
		x.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b GroupStats) int { return strings.Compare(a.Name, b.Name) })
	return all
}
