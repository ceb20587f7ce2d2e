package bench

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// NICOperation is the life of one request, from the doorbell until its host can see the
// completion.
type NICOperation struct {
	// Percentile of the requests' latencies that it stands for: of those that ended from
	// the end of the warm-up on, one whose latency is that to 1.6 percent.
	Percentile Float              `json:"percentile"`
	Requests   uint64             `json:"requests"` // of which it is one
	QPN        uint32             `json:"qpn"`
	Peer       string             `json:"peer"` // host that it went to; empty if unknown
	Packets    int                `json:"packets"`
	BeginUs    Float              `json:"begin_us"` // in simulated time
	LatencyUs  Float              `json:"latency_us"`
	Parts      []NICOperationPart `json:"parts"` // in order, without a gap: they add up to the latency
}

// NICOperationPart is a part of a request's life; docs/nic.md has their meanings.
type NICOperationPart struct {
	Part   string `json:"part"`
	Where  string `json:"where"`   // host, or "network"
	FromUs Float  `json:"from_us"` // since the request began
	Us     Float  `json:"us"`
}

// shownPercentiles are those of which a request is shown.
var shownPercentiles = []float64{50, 99}

// operations are the lives of a NIC's requests by their latency: of each small range of
// latencies how many, and the newest: the first ones are of the workload's beginning.
type operations struct {
	from    units.Time // requests that end from then on count
	ranges  map[int]*operationRange
	counted uint64
}

type operationRange struct {
	n      uint64
	qpn    uint32
	newest life
}

// latencyRange numbers ranges of latencies, of which each octave has 64.
func latencyRange(t units.Time) int {
	const steps = 6
	octave := bits.Len64(uint64(t))
	if octave <= steps+1 {
		return int(t)
	}
	shift := octave - steps - 1
	return shift<<steps + int(t>>shift)
}

func (o *operations) add(key pairKey, l *life) {
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

// at is the range that a percentile falls in; nil if there is none.
func (o *operations) at(percentile float64) *operationRange {
	left := percentile / 100 * float64(o.counted)
	var last *operationRange
	for _, i := range slices.Sorted(maps.Keys(o.ranges)) {
		last = o.ranges[i]
		if left -= float64(last.n); left <= 0 {
			break
		}
	}
	return last
}

// shown returns the requests to show of a host's NIC.
func (o *operations) shown(host string, name func(int) string) []NICOperation {
	var all []NICOperation
	for _, percentile := range shownPercentiles {
		r := o.at(percentile)
		if r == nil {
			return nil
		}
		l := &r.newest
		us := func(t units.Time) Float { return Float(t.Microseconds()) }
		op := NICOperation{
			Percentile: Float(percentile), Requests: o.counted, QPN: r.qpn, Packets: l.sent,
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
				op.Parts = append(op.Parts, NICOperationPart{Part: p.name, Where: places[p.where], FromUs: us(p.from - l.store), Us: us(p.to - p.from)})
			}
		}
		all = append(all, op)
	}
	return all
}

// watchOperations has the requests of measured NICs followed.
func (m *measurement) watchOperations() {
	if len(m.nics) == 0 {
		return
	}
	byHost := map[int]*operations{}
	for i := range m.nics {
		l := &m.nics[i]
		l.operations = &operations{from: m.warmup, ranges: map[int]*operationRange{}}
		byHost[l.nic.Host()] = l.operations
	}
	follow := newLives(units.Never,
		func(host int, _ uint32) bool { return byHost[host] != nil },
		func(key pairKey, l *life) { byHost[key.host].add(key, l) })
	m.sim.onSpan(follow.span)
}

// operation is the request that stands for a percentile, nil if there is none.
func (u *NICUse) operation(percentile float64) *NICOperation {
	for i := range u.Operations {
		if u.Operations[i].Percentile == Float(percentile) {
			return &u.Operations[i]
		}
	}
	return nil
}

// text says in a line what the parts of a request took.
func (o *NICOperation) text() string {
	parts := make([]string, len(o.Parts))
	for i, p := range o.Parts {
		parts[i] = p.Part + " " + nanoseconds(p.Us)
	}
	return fmt.Sprintf("%s of %d requests: %.3f us: %s", percentileName(o.Percentile), o.Requests, float64(o.LatencyUs), strings.Join(parts, ", "))
}

// longest is the part that took longest, and its share of the latency.
func (o *NICOperation) longest() (part NICOperationPart, share float64) {
	for _, p := range o.Parts {
		if p.Us > part.Us {
			part = p
		}
	}
	return part, float64(part.Us) / float64(o.LatencyUs)
}

func percentileName(p Float) string {
	if p == 50 {
		return "the median"
	}
	return fmt.Sprintf("percentile %g", float64(p))
}

func nanoseconds(us Float) string {
	switch {
	case us >= 10:
		return fmt.Sprintf("%.1f us", float64(us))
	case us >= 0.1:
		return fmt.Sprintf("%.0f ns", 1e3*float64(us))
	}
	return fmt.Sprintf("%.1f ns", 1e3*float64(us))
}
