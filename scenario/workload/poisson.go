package workload

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Poisson arrivals, the open-loop traffic of the data-centre papers: each host
// starts flows by a Poisson process of its own, so that what one host does
// depends on no other. The rate follows from the load L, the mean flow size S in
// bits and the capacity C it refers to: L C / S. Load is of payload; headers come
// on top. Incasts of n flows arrive n times less often, each to the host whose
// process it is: with n flows of a mean of S bits each the load is the same.

func (p *Poisson) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	if p.Sizes.none() {
		d.Fail(path+".sizes", "it is missing: name a distribution, one of %s, or give a size", distributionNames())
	}
	if w.Jitter > 0 {
		d.Fail(path+".jitter", "the arrivals of a poisson workload are random already: leave it out")
	}
	hosts := net.hosts(d, path+".hosts", p.Hosts, -1)
	if len(hosts) < 2 && len(d.Errs) == errs {
		d.Fail(path+".hosts", "random traffic needs at least two hosts")
	}
	if len(d.Errs) > errs {
		return nil
	}
	pp := &poissonPlan{w: w, label: net.label(w.Label), hosts: hosts, limit: p.Flows, sizes: p.Sizes.distribution()}
	if p.To == "other-rack" || p.LoadOn == "uplinks" {
		if !slices.ContainsFunc(hosts, func(h int) bool { return net.rack[h] != net.rack[hosts[0]] }) {
			d.Fail(path, "all hosts hang on one switch: there is no other rack and no uplink to load; leave out to and load_on")
			return nil
		}
	}
	if p.To == "other-rack" {
		pp.rack = net.rack
	}
	if n := pp.fewestOthers(); p.FanIn > n {
		d.Fail(path+".fan_in", "is %d: choose 1 to %d, the hosts that may send to one, or 0 for no incast", p.FanIn, n)
		return nil
	}
	pp.fanIn = p.FanIn
	pp.gaps = p.gaps(hosts, net, pp.sizes.Mean()*float64(max(p.FanIn, 1)))
	for i, gap := range pp.gaps {
		switch {
		case gap < 1:
			d.Fail(path+".load", "flows of %.0f bytes would start less than 1 ps apart at %s: choose larger sizes or a lower load", pp.sizes.Mean(), net.HostName(hosts[i]))
			return nil
		case gap > maxGap:
			d.Fail(path+".load", "flows of %.0f bytes would start more than %v apart at %s: choose smaller sizes or a higher load", pp.sizes.Mean(), maxGap, net.HostName(hosts[i]))
			return nil
		}
	}
	return pp
}

// maxGap is the longest mean time between two flows, beyond what any run lasts. Times drawn
// with it, which are 37 times as long at most, are still within units.Time.
const maxGap = 100_000 * units.Second

// fewestOthers returns how many hosts the one with the fewest has to send to, or to
// get from.
func (p *poissonPlan) fewestOthers() int {
	if p.rack == nil {
		return len(p.hosts) - 1
	}
	perRack, most := map[int]int{}, 0
	for _, h := range p.hosts {
		perRack[p.rack[h]]++
		most = max(most, perRack[p.rack[h]])
	}
	return len(p.hosts) - most
}

// gaps returns the mean time between two flows, or incasts, of each host. mean is the
// bytes of one.
func (p *Poisson) gaps(hosts []int, net *network, mean float64) []units.Time {
	gap := func(load, capacity float64) units.Time {
		return units.Time(min(math.Round(float64(float64(mean*8)*float64(units.Second))/float64(load*capacity)), float64(2*maxGap)))
	}
	gaps := make([]units.Time, len(hosts))
	if p.LoadOn == "hosts" {
		for i, h := range hosts {
			gaps[i] = gap(p.Load, float64(net.line[h]))
		}
		return gaps
	}
	// Uplinks: every host starts equally many flows, of which the share that
	// leaves its rack makes up the load of all uplinks together.
	perRack := map[int]int{}
	for _, h := range hosts {
		perRack[net.rack[h]]++
	}
	var capacity, leaving float64
	for r, up := range net.uplink {
		if n := perRack[r]; n > 0 {
			capacity += float64(up)
			leaving += float64(float64(n)*float64(len(hosts)-n)) / float64(len(hosts)-1)
		}
	}
	if p.To == "other-rack" {
		leaving = float64(len(hosts))
	}
	for i := range gaps {
		gaps[i] = gap(p.Load, capacity/leaving)
	}
	return gaps
}

type poissonPlan struct {
	w     *Workload
	label int
	hosts []int
	gaps  []units.Time // of each of hosts
	sizes Distribution
	limit int
	rack  []int // by host number; nil: to any other host
	fanIn int   // 0: no incasts
}

func (p *poissonPlan) start(stream func(string) des.Stream) flowSource {
	s := &poissonSource{poissonPlan: p, left: p.limit}
	if p.fanIn > 0 {
		s.incast.sends = make([]bool, len(p.hosts))
	}
	for i, h := range p.hosts {
		a := arrival{host: i, draw: stream(fmt.Sprintf("host %d", h))}
		a.at = p.w.Start + a.draw.Exp(p.gaps[i])
		s.heap = append(s.heap, a)
	}
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.sink(i)
	}
	return s
}

// poissonSource holds the next arrival of each host in a heap.
type poissonSource struct {
	*poissonPlan
	heap   []arrival
	left   int
	incast struct { // the one under way, of the first arrival
		left    int    // flows still to come
		sends   []bool // by index into hosts
		senders []int  // those of sends that are set
	}
}

type arrival struct {
	at   units.Time
	host int // index into hosts
	draw des.Stream
}

func (a *arrival) before(b *arrival) bool {
	return a.at < b.at || a.at == b.at && a.host < b.host
}

func (s *poissonSource) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return
		}
		if child+1 < len(s.heap) && s.heap[child+1].before(&s.heap[child]) {
			child++
		}
		if !s.heap[child].before(&s.heap[i]) {
			return
		}
		s.heap[i], s.heap[child] = s.heap[child], s.heap[i]
		i = child
	}
}

func (s *poissonSource) next() (Flow, bool) {
	a := &s.heap[0]
	if s.limit > 0 && s.left == 0 || s.w.Stop > 0 && a.at >= s.w.Stop {
		return Flow{}, false
	}
	s.left--
	at, src := a.at, s.hosts[a.host]
	size := s.sizes.quantile(a.draw.Float64())
	if s.fanIn > 0 {
		src = s.hosts[s.sender(a)]
		dst := s.hosts[a.host]
		if s.incast.left == 0 {
			s.pass()
		}
		return s.w.flow(s.label, src, dst, FlowSize(size), at), true
	}
	dst := s.hosts[s.other(a)]
	s.pass()
	return s.w.flow(s.label, src, dst, FlowSize(size), at), true
}

// pass lets the first arrival be that host's next.
func (s *poissonSource) pass() {
	a := &s.heap[0]
	a.at += max(a.draw.Exp(s.gaps[a.host]), 1)
	s.sink(0)
}

// other draws a host for that of a to send to or get from.
func (s *poissonSource) other(a *arrival) int {
	for {
		i := a.draw.IntN(len(s.hosts))
		if h, own := s.hosts[i], s.hosts[a.host]; h != own && (s.rack == nil || s.rack[h] != s.rack[own]) {
			return i
		}
	}
}

// sender draws the next sender of the incast that is a, which none is twice.
func (s *poissonSource) sender(a *arrival) int {
	in := &s.incast
	if in.left == 0 {
		for _, i := range in.senders {
			in.sends[i] = false
		}
		in.left, in.senders = s.fanIn, in.senders[:0]
	}
	in.left--
	for {
		if i := s.other(a); !in.sends[i] {
			in.sends[i] = true
			in.senders = append(in.senders, i)
			return i
		}
	}
}
