package bench

import (
	"maps"
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// NICUse is where the time of a NIC went from the end of the warm-up on.
type NICUse struct {
	NIC      string `json:"nic"`              // name of its host
	Requests uint64 `json:"requests"`         // that its transport was given
	Packets  uint64 `json:"packets_received"` // acknowledgements too
	// Bottleneck says in a sentence what limits the NIC, and by what one sees it.
	Bottleneck string `json:"bottleneck"`
	// BytesEach and CyclesEach say what a request, or a received packet where there are no
	// requests, takes of PCIe by purpose and of each stage; empty where there are neither.
	BytesEach  string     `json:"pcie_each"`
	CyclesEach string     `json:"cycles_each"`
	Stages     []NICStage `json:"stages"`
	PCIe       []NICPCIe  `json:"pcie"`
	Queues     []NICQueue `json:"queues"`
	Waits      []NICWait  `json:"waits"`
	Caches     []NICCache `json:"caches,omitempty"`
	// Operations are single requests, of latencies that stand for all of the host's.
	Operations []NICOperation `json:"operations,omitempty"`
}

// NICStage is where the cycles of a stage went: Busy, Idle and the sum of Stalled are
// Elapsed. The cycle of the mac, of PCIe and of the atomics unit is a picosecond.
type NICStage struct {
	Stage    string           `json:"stage"`
	ClockHz  int64            `json:"clock_hz"`
	Parallel int              `json:"parallel"` // pieces of work at once; the cycles are those of all
	Served   uint64           `json:"served"`   // pieces of work
	Elapsed  int64            `json:"elapsed_cycles"`
	Busy     int64            `json:"busy_cycles"`
	Idle     int64            `json:"idle_cycles"`
	Stalled  map[string]int64 `json:"stalled_cycles,omitempty"` // by what was waited for
}

// Directions of PCIe.
const (
	ToHost   = "to_host"
	FromHost = "from_host"
)

// NICPCIe is what crossed the PCIe link in one direction, TLP headers included.
type NICPCIe struct {
	Direction string             `json:"direction"` // ToHost or FromHost
	Busy      Float              `json:"busy"`      // share of the time that the link was, 0 to 1
	Bytes     int64              `json:"bytes"`
	ByPurpose map[string]int64   `json:"bytes_by_purpose"` // sums up to Bytes
	TLPs      map[string]NICTLPs `json:"tlps"`             // by type: MRd, MWr, CplD; their bytes sum up to Bytes
	// PerRequest is Bytes over the requests, of a NIC that has any.
	PerRequest Float `json:"bytes_per_request"`
}

// NICTLPs is what crossed PCIe in packets of one type.
type NICTLPs struct {
	Packets uint64 `json:"packets"`
	Bytes   int64  `json:"bytes"` // headers included
}

// NICQueue is a queue inside the NIC; see nicmodel.NIC.Queues.
type NICQueue struct {
	Queue string `json:"queue"`
	Came  uint64 `json:"came"`
	Mean  Float  `json:"mean"` // how many were in it, over time
	Most  int    `json:"most"` // in the whole run
	// WaitUs is the mean time in it, by Little's law.
	WaitUs Float `json:"wait_us"`
}

// NICWait is what pieces of work waited for that no stage waited with; see
// nicmodel.NIC.Waits.
type NICWait struct {
	Where string `json:"where"`
	For   string `json:"for"`
	Mean  Float  `json:"mean"` // how many waited, over time
	// Taken says that what was waited for was in use by others.
	Taken bool `json:"taken,omitempty"`
}

// NICCache is what a cache of the NIC was asked for.
type NICCache struct {
	Cache  string `json:"cache"`
	Hits   uint64 `json:"hits"`
	Misses uint64 `json:"misses"`
}

// nicLook is a NIC whose use is wanted, and what it had counted by the end of the
// warm-up.
type nicLook struct {
	nic      *nicmodel.NIC
	name     string
	at       units.Time
	accounts []nicmodel.Account
	pcie     [2]map[string]units.Bytes
	tlps     [2]map[string]NICTLPs
	queues   []nicmodel.QueueUse
	waits    []nicmodel.Wait
	caches   []nicmodel.CacheUse
	stats    nicmodel.Stats

	operations *operations // nil where requests are not followed
}

// begin is the end of the warm-up.
func (l *nicLook) begin(now units.Time) {
	nic := l.nic
	l.at, l.accounts, l.queues, l.stats = now, nic.Accounts(now), nic.Queues(now), nic.Stats()
	l.waits, l.caches = nic.Waits(now), nic.Caches()
	l.pcie[0], l.pcie[1] = nic.PCIeBytes()
	l.tlps = tlpsOf(nic)
}

// tlpsOf is what has crossed the link of a NIC to the host and from it, by type.
func tlpsOf(nic *nicmodel.NIC) (all [2]map[string]NICTLPs) {
	toHost, _ := nic.PCIeBytes()
	for i, d := range []nicmodel.Direction{nicmodel.Upstream, nicmodel.Downstream} {
		all[i] = map[string]NICTLPs{}
		for _, kind := range []nicmodel.TLPType{nicmodel.MemRd, nicmodel.MemWr, nicmodel.CplD} {
			var sum NICTLPs
			for why := range nicmodel.Purpose(len(toHost)) {
				x := nic.PCIe().Traffic(d, kind, why)
				sum.Packets += x.Packets
				sum.Bytes += int64(x.Bytes)
			}
			all[i][kind.String()] = sum
		}
	}
	return all
}

// use is what the NIC did from then until now; hostName is the name of a host.
func (l *nicLook) use(now units.Time, hostName func(int) string) NICUse {
	nic, stats := l.nic, l.nic.Stats()
	u := NICUse{NIC: l.name, Requests: stats.Requests - l.stats.Requests, Packets: stats.RxPackets - l.stats.RxPackets}
	for i, a := range nic.Accounts(now) {
		if l.accounts != nil {
			a = a.Since(l.accounts[i])
		}
		stage := NICStage{Stage: a.Stage, ClockHz: int64(a.Clock), Parallel: a.Parallel, Served: a.Served, Elapsed: a.Elapsed, Busy: a.Busy, Idle: a.Idle}
		for why, cycles := range a.Stalled {
			if cycles > 0 {
				if stage.Stalled == nil {
					stage.Stalled = map[string]int64{}
				}
				stage.Stalled[nicmodel.Stall(why).String()] += cycles
			}
		}
		u.Stages = append(u.Stages, stage)
	}
	span := now - l.at
	var pcie [2]map[string]units.Bytes
	pcie[0], pcie[1] = nic.PCIeBytes()
	tlps := tlpsOf(nic)
	for i, direction := range []string{ToHost, FromHost} {
		p := NICPCIe{Direction: direction, ByPurpose: map[string]int64{}, TLPs: map[string]NICTLPs{}, PerRequest: Unmeasured, Busy: Unmeasured}
		for _, why := range slices.Sorted(maps.Keys(pcie[i])) {
			if n := int64(pcie[i][why] - l.pcie[i][why]); n > 0 {
				p.ByPurpose[why] = n
				p.Bytes += n
			}
		}
		for kind, x := range tlps[i] {
			before := l.tlps[i][kind]
			if x.Packets -= before.Packets; x.Packets > 0 {
				x.Bytes -= before.Bytes
				p.TLPs[kind] = x
			}
		}
		if u.Requests > 0 {
			p.PerRequest = Float(float64(p.Bytes) / float64(u.Requests))
		}
		if s := &u.Stages[len(u.Stages)-2+i]; s.Elapsed > 0 {
			p.Busy = Float(float64(s.Busy) / float64(s.Elapsed))
		}
		u.PCIe = append(u.PCIe, p)
	}
	for i, q := range nic.Queues(now) {
		if l.queues != nil {
			q = q.Since(l.queues[i])
		}
		out := NICQueue{Queue: q.Queue, Came: q.Came, Most: q.Most, Mean: Unmeasured, WaitUs: Unmeasured}
		if span > 0 {
			out.Mean = Float(float64(q.Area) / float64(span))
		}
		if q.Came > 0 {
			out.WaitUs = Float(float64(q.Area) / float64(q.Came) / float64(units.Microsecond))
		}
		u.Queues = append(u.Queues, out)
	}
	for i, w := range nic.Waits(now) {
		if l.waits != nil {
			w.Total -= l.waits[i].Total
		}
		out := NICWait{Where: w.Where, For: w.For, Taken: w.Taken, Mean: Unmeasured}
		if span > 0 {
			out.Mean = Float(float64(w.Total) / float64(span))
		}
		u.Waits = append(u.Waits, out)
	}
	for i, c := range nic.Caches() {
		if l.caches != nil {
			c.Hits -= l.caches[i].Hits
			c.Misses -= l.caches[i].Misses
		}
		u.Caches = append(u.Caches, NICCache(c))
	}
	if l.operations != nil {
		u.Operations = l.operations.shown(l.name, hostName)
	}
	u.Bottleneck, u.BytesEach, u.CyclesEach = u.limit(), u.bytesEach(), u.cyclesEach()
	return u
}
