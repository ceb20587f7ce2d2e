package pcie

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// Directions are the link's two, NIC to host first.
func (p *Link) Directions() []stage.Accounted {
	return []stage.Accounted{&p.sides[Upstream], &p.sides[Downstream]}
}

// Waits reports what transfers have waited for until now, but the link.
func (p *Link) Waits() (all []stage.Wait) {
	if p.tags.Bounded() {
		all = append(all, stage.Wait{Where: "pcie", For: "a tag", Total: p.stalls.Tags, Taken: true})
		if p.memory != nil {
			all = append(all, stage.Wait{Where: "pcie", For: "a tag, held for memory", Total: p.stalls.TagsMemory, Taken: true})
		}
	}
	if p.taken.Bounded() {
		all = append(all, stage.Wait{Where: "pcie", For: "non-posted credits", Total: p.stalls.NonPosted, Taken: true})
	}
	if p.cfg.Peer.Rate > 0 {
		all = append(all, stage.Wait{Where: "pcie", For: "data that the peer device gives", Total: p.stalls.Peer, Taken: true})
	}
	if p.credits.bounded() {
		all = append(all, stage.Wait{Where: "pcie", For: "posted credits", Total: p.stalls.Credits[byHost], Taken: true})
		if p.memory != nil {
			all = append(all, stage.Wait{Where: "pcie", For: "posted credits, held for memory", Total: p.stalls.Credits[byMemory], Taken: true})
		}
		if p.cfg.Peer.Rate > 0 {
			all = append(all, stage.Wait{Where: "pcie", For: "posted credits, held for the peer device", Total: p.stalls.Credits[byPeer], Taken: true})
		}
		if p.mmu != nil {
			all = append(all, stage.Wait{Where: "pcie", For: "posted credits, held for page walks", Total: p.stalls.Credits[byWalk], Taken: true})
		}
	}
	if p.mmu != nil {
		all = append(all, stage.Wait{Where: "pcie", For: "translation", Total: p.stalls.Translation, Taken: p.mmu.walkers.Bounded()})
	}
	return all
}

// Caches reports the use until now of the caches at the link's far end.
func (p *Link) Caches() []stage.CacheUse {
	if p.mmu == nil {
		return nil
	}
	return []stage.CacheUse{{Cache: "iotlb", Hits: p.mmu.hits, Misses: p.mmu.misses}}
}

// Crossed reports the bytes that crossed the link in a direction, by purpose.
func (p *Link) Crossed(d Direction) map[string]units.Bytes {
	all := map[string]units.Bytes{}
	for why := range NumPurposes {
		all[why.String()] = p.bytes(d, why)
	}
	return all
}

// bytes sums over the types.
func (p *Link) bytes(d Direction, why Purpose) (n units.Bytes) {
	for kind := range NumTLPTypes {
		n += p.sides[d].traffic[kind][why].Bytes
	}
	return n
}
