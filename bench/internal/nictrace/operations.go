package nictrace

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/units"
)

// shownPercentiles are those for which a request is shown.
var shownPercentiles = []float64{50, 99}

// Operations are the lives of a NIC's requests by their latency. For each small range
// of latencies it has their number and the newest, since the first ones belong to the
// workload's start.
type Operations struct {
	from    units.Time // requests that end from then on count
	ranges  map[int]*operationRange
	counted uint64
}

type operationRange struct {
	n      uint64
	qpn    uint32
	newest life
}

// NewOperations returns Operations without any, which counts requests that end from an instant on.
func NewOperations(from units.Time) *Operations {
	return &Operations{from: from, ranges: map[int]*operationRange{}}
}

// latencyRange numbers ranges of latencies, 64 in each octave.
func latencyRange(t units.Time) int {
	const steps = 6
	octave := bits.Len64(uint64(t))
	if octave <= steps+1 {
		return int(t)
	}
	shift := octave - steps - 1
	return shift<<steps + int(t>>shift)
}

func (o *Operations) add(key pairKey, l *life) {
	if l.visible < o.from {
		return
	}
	i := latencyRange(l.visible - l.store)
	r := o.ranges[i]
	if r == nil {
		r = &operationRange{}
		o.ranges[i] = r
	}
	r.n++
	r.qpn, r.newest = key.qpn, *l
	r.newest.packets = nil // which are l's for another request
	o.counted++
}

// at returns the range that a percentile falls in; nil if there is none.
func (o *Operations) at(percentile float64) *operationRange {
	if o.counted == 0 {
		return nil
	}
	rank := quantile.Rank(percentile/100, o.counted)
	upTo := uint64(0)
	for _, i := range slices.Sorted(maps.Keys(o.ranges)) {
		if upTo += o.ranges[i].n; upTo >= rank {
			return o.ranges[i]
		}
	}
	return nil
}

// Shown returns the requests to show of a host's NIC.
func (o *Operations) Shown(host string, name func(int) string) []results.NICOperation {
	var all []results.NICOperation
	for _, percentile := range shownPercentiles {
		r := o.at(percentile)
		if r == nil {
			return nil
		}
		l := &r.newest
		us := func(t units.Time) stats.Float { return stats.Float(t.Microseconds()) }
		op := results.NICOperation{
			Percentile: stats.Float(percentile), Requests: o.counted, QPN: r.qpn, Packets: l.sent,
			BeginUs: us(l.store), LatencyUs: us(l.visible - l.store),
		}
		if l.peerTo > 0 {
			op.Peer = name(l.peer)
		}
		places := [...]string{atRequester: host, inNetwork: "network", atPeer: op.Peer}
		for _, p := range l.parts() {
			some := p.inside
			if len(some) == 0 {
				some = []lifePart{p}
			}
			for _, p := range some {
				op.Parts = append(op.Parts, results.NICOperationPart{Part: p.name, Where: places[p.where], FromUs: us(p.from - l.store), Us: us(p.to - p.from)})
			}
		}
		all = append(all, op)
	}
	return all
}

// FollowOperations follows the requests of hosts' NICs.
func (n *Network) FollowOperations(of map[int]*Operations) {
	follow := newLives(units.Never,
		func(host int, _ uint32) bool { return of[host] != nil },
		func(key pairKey, l *life) { of[key.host].add(key, l) })
	n.onSpan(func(host int) bool { return of[host] != nil }, follow.span)
}
