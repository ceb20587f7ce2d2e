package bench

import (
	"fmt"
	"slices"
)

// busyShare is from when on a resource is said to limit, or to come near to it.
const busyShare = 0.6

// resource is something of a NIC that work takes turns at.
type resource struct {
	name     string
	busy     float64
	evidence string
}

// limit says what limits the NIC. That is the resource that is busiest, if it is busy
// enough; or what a stage waits for that does nothing else; or neither, and then
// what limits lies outside.
func (u *NICUse) limit() string {
	all := u.resources()
	if len(all) == 0 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b resource) int {
		switch {
		case a.busy > b.busy:
			return -1
		case a.busy < b.busy:
			return 1
		}
		return 0
	})
	top, next := all[0], all[1]
	who := u.NIC + "'s NIC: "
	switch wait, share := u.longestWait(); {
	case top.busy >= 0.9, top.busy >= busyShare && top.busy >= share:
		return fmt.Sprintf("%s%s is busy %s%s; next is %s, %s", who, top.name, percentOf(top.busy), top.evidence, next.name, percentOf(next.busy))
	case share >= busyShare:
		return fmt.Sprintf("%s%s, and nothing is busy for more than %s (%s): latency limits, not a rate", who, wait, percentOf(top.busy), top.name)
	}
	s := fmt.Sprintf("%sno stage above %s; the busiest is %s, %s", who, percentOf(busyShare), top.name, percentOf(top.busy))
	for _, q := range u.Queues {
		if q.Queue == "requests" && q.Came > 0 && q.WaitUs.Measured() {
			s += fmt.Sprintf(". %.1f requests are under way on average, %.2f us each", float64(q.Mean), float64(q.WaitUs))
		}
	}
	return s + ": what limits is outside, the workload's window, the engine's rate or the network"
}

func (u *NICUse) resources() []resource {
	var all []resource
	for i := range u.Stages {
		s := &u.Stages[i]
		if s.Elapsed <= 0 || s.isPCIe() {
			continue
		}
		r := resource{name: stageName(s.Stage), busy: float64(s.Busy) / float64(s.Elapsed)}
		if s.Served > 0 && s.Stage != "mac" {
			r.evidence = fmt.Sprintf(", %.3g cycles for each of %d", float64(s.Busy)/float64(s.Served), s.Served)
		}
		all = append(all, r)
	}
	for i := range u.PCIe {
		p := &u.PCIe[i]
		if !p.Busy.Measured() {
			continue
		}
		r := resource{name: p.name(), busy: float64(p.Busy)}
		if p.PerRequest.Measured() {
			r.evidence = fmt.Sprintf(", %.1f bytes a request", float64(p.PerRequest))
		}
		if why, share := p.mostly(); why != "" {
			r.evidence += fmt.Sprintf(", %s of them %s", percentOf(share), why)
		}
		all = append(all, r)
	}
	return all
}

// longestWait returns the share of the time that the stage waits which waits most for
// one thing, and says which stages wait long enough to be named, for what.
func (u *NICUse) longestWait() (text string, share float64) {
	for i := range u.Stages {
		s := &u.Stages[i]
		for _, why := range sortedKeys(s.Stalled) {
			x := float64(s.Stalled[why]) / float64(max(s.Elapsed, 1))
			share = max(share, x)
			if x >= busyShare {
				if text != "" {
					text += ", "
				}
				text += fmt.Sprintf("%s waits %s of its time for %s", stageName(s.Stage), percentOf(x), waitName(why))
			}
		}
	}
	return text, share
}

// isPCIe reports whether a stage's account is that of a direction of PCIe, which
// NICPCIe has too.
func (s *NICStage) isPCIe() bool { return s.Stage == "pcie_up" || s.Stage == "pcie_down" }

// mostly is the purpose with most bytes, and its share of all.
func (p *NICPCIe) mostly() (purpose string, share float64) {
	for _, why := range sortedKeys(p.ByPurpose) {
		if x := float64(p.ByPurpose[why]) / float64(max(p.Bytes, 1)); x > share {
			purpose, share = why, x
		}
	}
	return purpose, share
}

func (p *NICPCIe) name() string {
	if p.Direction == ToHost {
		return "PCIe to the host"
	}
	return "PCIe from the host"
}

func stageName(stage string) string {
	if stage == "mac" {
		return "the wire"
	}
	return "stage " + stage
}

func waitName(why string) string {
	switch why {
	case "pcie":
		return "data over PCIe"
	case "tx_buffer":
		return "room before the wire"
	case "pause":
		return "the end of a pause"
	case "context":
		return "contexts of queue pairs from host memory"
	case "translation":
		return "translations from host memory"
	}
	return why
}

// percentOf writes a share as the sentences do.
func percentOf(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
