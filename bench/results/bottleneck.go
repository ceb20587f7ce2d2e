package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// busyShare is the share of its time from which on a resource is reported to limit,
// or to come near to it.
const busyShare = 0.6

// resource is something of a NIC that work takes turns at.
type resource struct {
	name     string
	busy     float64
	evidence string
}

// isBusy says how busy a resource is.
func (r *resource) isBusy() string {
	verb := " is busy "
	if strings.HasPrefix(r.name, "the process") { // units, or processors
		verb = " are busy "
	}
	return r.name + verb + percentOf(r.busy)
}

// Explain sets Bottleneck, BytesEach and CyclesEach of NICs of one network from their other
// figures.
func Explain(nics []NICUse) {
	var pausing []string
	for i := range nics {
		if b := nics[i].Buffer; b != nil && b.Pauses > 0 {
			pausing = append(pausing, nics[i].NIC)
		}
	}
	for i := range nics {
		u := &nics[i]
		u.Bottleneck, u.BytesEach, u.CyclesEach = u.limit(pausing), u.bytesEach(), u.cyclesEach()
	}
}

// limit names what limits the NIC. That is the busiest resource, if it is busy enough; or
// an occupied resource that work waits for; or a host that is behind with its
// completions; or what holds queue pairs or stages back while nothing is busy. If it is
// none of these, the limit is outside the NIC: pausing are the NICs that pause the network.
func (u *NICUse) limit(pausing []string) string {
	all := u.resources()
	if len(all) == 0 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b resource) int { return cmp.Compare(b.busy, a.busy) })
	top, next := all[0], all[1]
	who := u.NIC + "'s NIC: "
	busiest := fmt.Sprintf("; the busiest is %s, %s", top.name, percentOf(top.busy))
	if top.busy >= saturated {
		return who + top.isBusy() + top.evidence + fmt.Sprintf("; next is %s, %s", next.name, percentOf(next.busy))
	}
	if w, ok := u.taken(); ok {
		return fmt.Sprintf("%s%s limits, for which %.1f wait on average%s", who, takenName(w), float64(w.Mean), busiest)
	}
	requests, us := u.underWay()
	if q := u.queue("completions"); requests > 0 && q.Mean >= 1 && float64(q.WaitUs) > us {
		return fmt.Sprintf("%sthe host limits, which has %.1f completions to poll on average, %.2f us each, of requests that take %.2f us%s", who, float64(q.Mean), float64(q.WaitUs), us, busiest)
	}
	if timed := u.timed(); timed > 0 && timed >= busyShare*requests {
		return fmt.Sprintf("%sthe send times of requests limit, for which %.1f of %.1f wait on average%s", who, timed, requests, busiest)
	}
	held, reason, share := u.holds()
	waits := u.waits()
	// Stages that serve in order wait while others are on their way. What limits is
	// that the scheduler may not choose another.
	room := u.stalled("scheduler", "tx_buffer")
	switch {
	case u.stalled("mac", "pause") >= busyShare:
		return who + waits + ": the network limits" + pausedBy(u.NIC, pausing) + busiest
	case share >= busyShare && share >= room && share >= top.busy:
		return fmt.Sprintf("%s%s limits, for which %.1f of %.1f queue pairs with requests wait on average%s", who, holdName(reason), held, float64(u.queue("queue pairs").Mean), busiest)
	case room >= busyShare && room >= top.busy:
		s := fmt.Sprintf("%s%s, and nothing is busy for more than %s (%s): latency limits, not a rate", who, waits, percentOf(top.busy), top.name)
		if q := u.queue("transmit"); q.Came > 0 {
			s += fmt.Sprintf(", with %.1f packets on their way to the wire, %.3f us each", float64(q.Mean), float64(q.WaitUs))
		}
		return s
	case top.busy >= busyShare:
		return who + top.isBusy() + top.evidence + fmt.Sprintf("; next is %s, %s", next.name, percentOf(next.busy))
	}
	if waits != "" {
		waits += ". "
	}
	s := fmt.Sprintf("%sno stage above %s%s. %s", who, percentOf(busyShare), busiest, waits)
	switch {
	case us == 0:
		return s + "It answers others, who limit, or the network does"
	case requests < someRequests:
		return s + fmt.Sprintf("%.2f requests are under way on average, %.2f us each: the workload asks for no more", requests, us)
	}
	return s + fmt.Sprintf("%.1f requests are under way on average, %.2f us each: that latency limits, and how many the workload keeps under way", requests, us) + u.mostOf()
}

// pausedBy names the NICs, other than one, that pause the network.
func pausedBy(but string, pausing []string) string {
	others := slices.DeleteFunc(slices.Clone(pausing), func(nic string) bool { return nic == but })
	switch len(others) {
	case 0:
		return ""
	case 1:
		return ", which " + others[0] + "'s NIC pauses"
	}
	return ", which the NICs of " + strings.Join(others[:len(others)-1], ", ") + " and " + others[len(others)-1] + " pause"
}

// underWay is the number of requests the NIC has on average, from the doorbell until they are
// over, and how long each.
func (u *NICUse) underWay() (requests, us float64) {
	for _, name := range []string{"wqe", "requests"} {
		if q := u.queue(name); q.Came > 0 && q.WaitUs.Measured() {
			requests += float64(q.Mean)
			us += float64(q.WaitUs)
		}
	}
	return requests, us
}

// mostOf says where the median request spends most of its time.
func (u *NICUse) mostOf() string {
	o := u.operation(50)
	if o == nil || o.LatencyUs <= 0 {
		return ""
	}
	part, share := o.longest()
	return fmt.Sprintf("; %s of the median is %s", percentOf(share), part.Part)
}

// Shares of the time, and numbers on average, from when on something limits.
const (
	saturated    = 0.9 // a resource, whatever waits for it
	someRequests = 0.5 // under way: with fewer there is mostly none
)

// queue is a queue of the NIC, empty if it has none of that name.
func (u *NICUse) queue(name string) NICQueue {
	for _, q := range u.Queues {
		if q.Queue == name {
			return q
		}
	}
	return NICQueue{Mean: stats.Unmeasured, WaitUs: stats.Unmeasured}
}

// taken is the wait, for a resource that others use, in which most work waits, if
// there is always some.
func (u *NICUse) taken() (most NICWait, ok bool) {
	for _, w := range u.Waits {
		if w.Taken && w.Mean >= busyShare && (!ok || w.Mean > most.Mean) {
			most, ok = w, true
		}
	}
	return most, ok
}

// timed is the number of requests waiting for their send time.
func (u *NICUse) timed() float64 {
	for _, w := range u.Waits {
		if w.Where == "wqe" && w.Mean.Measured() {
			return float64(w.Mean)
		}
	}
	return 0
}

// holds returns the reason that holds most queue pairs, how many it holds, and their
// share of the queue pairs with requests.
func (u *NICUse) holds() (held float64, why string, share float64) {
	for _, w := range u.Waits {
		if w.Where == "queue pairs" && float64(w.Mean) > held {
			held, why = float64(w.Mean), w.For
		}
	}
	if pairs := float64(u.queue("queue pairs").Mean); pairs > 0 {
		share = held / pairs
	}
	return held, why, share
}

// each returns the unit in which a NIC's work is counted: requests, or packets where it
// has none.
func (u *NICUse) each() (n float64, what string) {
	if u.Requests > 0 {
		return float64(u.Requests), "a request"
	}
	return float64(u.Packets), "a received packet"
}

// bytesEach says what crosses PCIe for each request, by purpose.
func (u *NICUse) bytesEach() string {
	n, what := u.each()
	if n == 0 {
		return ""
	}
	total, s := int64(0), ""
	for i := range u.PCIe {
		p := &u.PCIe[i]
		total += p.Bytes
		if p.Bytes == 0 {
			continue
		}
		if s != "" {
			s += "; "
		}
		s += fmt.Sprintf("%.1f %s: ", float64(p.Bytes)/n, strings.ReplaceAll(p.Direction, "_", " the "))
		for k, why := range sortedKeys(p.ByPurpose) {
			if k > 0 {
				s += ", "
			}
			s += fmt.Sprintf("%s %.1f", why, float64(p.ByPurpose[why])/n)
		}
	}
	return fmt.Sprintf("%s's NIC: %.1f bytes on PCIe %s (%s)", u.NIC, float64(total)/n, what, s)
}

// cyclesEach says what of each stage a request takes.
func (u *NICUse) cyclesEach() string {
	n, what := u.each()
	if n == 0 {
		return ""
	}
	var cycles, times []string
	for i := range u.Stages {
		s := &u.Stages[i]
		switch x := float64(s.Busy) / n; {
		case s.Busy == 0:
		case s.ClockHz < picosecondHz:
			cycles = append(cycles, fmt.Sprintf("%s %.1f", s.Stage, x))
		default:
			times = append(times, fmt.Sprintf("%s %.2f ns", s.Stage, x/1e3))
		}
	}
	line := fmt.Sprintf("%s's NIC: cycles %s: %s", u.NIC, what, strings.Join(cycles, ", "))
	if len(times) > 0 {
		line += "; " + strings.Join(times, ", ")
	}
	return line
}

// picosecondHz is the clock of what is counted in picoseconds.
const picosecondHz = 1e12

func (u *NICUse) resources() []resource {
	var all []resource
	for i := range u.Stages {
		s := &u.Stages[i]
		if s.Elapsed <= 0 || s.isPCIe() {
			continue
		}
		r := resource{name: stageName(s.Stage), busy: float64(s.Busy) / float64(s.Elapsed)}
		if s.Served > 0 && s.Stage != "mac" && s.ClockHz < picosecondHz {
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

// stalled is the share of the time in which a stage waited for one thing.
func (u *NICUse) stalled(stage, why string) float64 {
	for i := range u.Stages {
		if s := &u.Stages[i]; s.Stage == stage {
			return float64(s.Stalled[why]) / float64(max(s.Elapsed, 1))
		}
	}
	return 0
}

// waits says which stages wait most of their time, and for what.
func (u *NICUse) waits() string {
	var all []string
	for i := range u.Stages {
		s := &u.Stages[i]
		for _, why := range sortedKeys(s.Stalled) {
			if x := float64(s.Stalled[why]) / float64(max(s.Elapsed, 1)); x >= busyShare {
				all = append(all, fmt.Sprintf("%s waits %s of its time for %s", stageName(s.Stage), percentOf(x), waitName(why)))
			}
		}
	}
	return strings.Join(all, ", ")
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
	switch stage {
	case "mac":
		return "the wire"
	case "units":
		return "the processing units"
	case "atomics":
		return "the atomics unit"
	case "processors":
		return "the processors of the engines"
	}
	return "stage " + stage
}

// takenName names the reason of a wait, as something that limits.
func takenName(w NICWait) string {
	switch {
	case w.Where == "atomics" && strings.HasPrefix(w.For, "the lock"):
		return "the lock of the words that atomics change"
	case w.Where == "atomics":
		return "the number of atomics at a time"
	case w.For == "a tag":
		return "the number of PCIe reads at a time (tags)"
	case w.For == "non-posted credits":
		return "the host's taking of reads (non-posted credits)"
	case w.For == "posted credits":
		return "the host's taking of writes (posted credits)"
	case w.For == "a tag, held for memory":
		return "the host's memory, whose answers hold PCIe's tags,"
	case w.For == "posted credits, held for memory":
		return "the host's memory, which holds posted credits,"
	case w.For == "data that the peer device gives":
		return "the device that is read over PCIe"
	case w.For == "posted credits, held for the peer device":
		return "the device that is written over PCIe, which holds posted credits,"
	case w.For == "posted credits, held for page walks":
		return "the host's IOMMU, whose page walks hold posted credits,"
	case w.For == "translation":
		return "the number of page walks at a time"
	}
	return strings.TrimPrefix(w.For, "a ") + " of " + w.Where
}

// holdName names the reason for which queue pairs wait, as something that limits.
func holdName(why string) string {
	switch why {
	case "the pace":
		return "the rate of the engine, or the one that was set,"
	case "the window":
		return "the engine's window"
	case "the rate of its function":
		return "the function's max_tx_rate"
	}
	return "one unit for each queue pair"
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
	case "units":
		return "a processing unit"
	}
	return why
}

// percentOf writes a share as the sentences do.
func percentOf(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
