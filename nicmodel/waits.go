package nicmodel

import "github.com/sluice-rdma/sluice/units"

// Wait is the time that pieces of work have waited without stalling a stage: other
// work went on. Total over a span is how many waited on average.
type Wait struct {
	Where, For string
	Total      units.Time // summed over all that waited
	// Taken says that the work waited for a resource that others used, and that no
	// more can use at once. Work that always waits for it is limited by it.
	Taken bool
}

// Waits reports such waits until now, in the order in which work meets them, for
// the parts that the NIC has.
func (n *NIC) Waits(now units.Time) []Wait {
	all := n.scheduler.holdWaits(now)
	if n.cfg.SendTime.Tick > 0 {
		all = append(all, Wait{"wqe", "their send time", n.elements.waitedFor(now), false})
	}
	if u := n.receiver.units; u != nil {
		all = append(all, Wait{"units", "a unit", u.waits.Units, true}, Wait{"units", "the packet before of the queue pair", u.waits.Queue, false})
	}
	if n.cfg.Receives.Prefetch > 0 {
		all = append(all, Wait{"receives", "a receive over PCIe", n.receives.waited, false})
	}
	if n.atomics.InFlight > 0 {
		all = append(all, Wait{"atomics", "room in the unit", n.atomics.waits.Unit, true}, Wait{"atomics", "the lock of the address", n.atomics.waits.Lock, true})
	}
	if p := n.offload.processors; p != nil {
		all = append(all, Wait{"processors", "a processor", p.waited, false})
	}
	if n.cfg.State.Bytes > 0 {
		for i, u := range n.state.uses {
			all = append(all, Wait{entryKinds[i].name, "an entry in host memory", u.waited, false})
		}
	}
	p := n.pcie
	if p.tags.bounded() {
		all = append(all, Wait{"pcie", "a tag", p.stalls.Tags, true})
		if p.memory != nil {
			all = append(all, Wait{"pcie", "a tag, held for memory", p.stalls.TagsMemory, true})
		}
	}
	if p.taken.bounded() {
		all = append(all, Wait{"pcie", "non-posted credits", p.stalls.NonPosted, true})
	}
	if p.cfg.Peer.Rate > 0 {
		all = append(all, Wait{"pcie", "data that the peer device gives", p.stalls.Peer, true})
	}
	if p.credits.bounded() {
		all = append(all, Wait{"pcie", "posted credits", p.stalls.Credits[byHost], true})
		if p.memory != nil {
			all = append(all, Wait{"pcie", "posted credits, held for memory", p.stalls.Credits[byMemory], true})
		}
		if p.cfg.Peer.Rate > 0 {
			all = append(all, Wait{"pcie", "posted credits, held for the peer device", p.stalls.Credits[byPeer], true})
		}
		if p.mmu != nil {
			all = append(all, Wait{"pcie", "posted credits, held for page walks", p.stalls.Credits[byWalk], true})
		}
	}
	if p.mmu != nil {
		all = append(all, Wait{"pcie", "translation", p.stalls.Translation, p.mmu.walkers.bounded()})
	}
	return all
}

// CacheUse counts the lookups of a cache of the NIC.
type CacheUse struct {
	Cache        string
	Hits, Misses uint64
}

// Caches reports the use until now of the caches that the NIC has. The memory on the
// chip is not looked up, and so counts nothing, as long as all that there is fits.
func (n *NIC) Caches() []CacheUse {
	var all []CacheUse
	if n.cfg.State.Bytes > 0 {
		for i, u := range n.state.uses {
			all = append(all, CacheUse{entryKinds[i].name, u.hits, u.misses})
		}
	}
	if m := n.pcie.mmu; m != nil {
		all = append(all, CacheUse{"iotlb", m.hits, m.misses})
	}
	return all
}
