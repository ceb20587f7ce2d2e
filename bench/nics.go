package bench

import (
	"maps"
	"slices"

	"github.com/sluice-rdma/sluice/bench/internal/nictrace"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// nicLook is a NIC whose use is wanted, and what it had counted by the end of the
// warm-up.
type nicLook struct {
	nic      *nicmodel.NIC
	name     string
	at       units.Time
	accounts []nicmodel.Account
	pcie     [2]map[string]units.Bytes
	tlps     [2]map[string]results.NICTLPs
	queues   []nicmodel.QueueUse
	waits    []nicmodel.Wait
	caches   []nicmodel.CacheUse
	stats    nicmodel.Stats
	events   nicmodel.EngineEvents

	operations *nictrace.Operations // nil where requests are not followed
}

// begin is the end of the warm-up.
func (l *nicLook) begin(now units.Time) {
	nic := l.nic
	l.at, l.accounts, l.queues, l.stats = now, nic.Accounts(now), nic.Queues(now), nic.Stats()
	l.waits, l.caches, l.events = nic.Waits(now), nic.Caches(), nic.EngineEvents()
	l.pcie[0], l.pcie[1] = nic.PCIeBytes()
	l.tlps = tlpsOf(nic)
}

// tlpsOf returns the TLPs that have crossed the link of a NIC to the host and from it, by
// type.
func tlpsOf(nic *nicmodel.NIC) (all [2]map[string]results.NICTLPs) {
	toHost, _ := nic.PCIeBytes()
	for i, d := range []nicmodel.Direction{nicmodel.Upstream, nicmodel.Downstream} {
		all[i] = map[string]results.NICTLPs{}
		for _, kind := range []nicmodel.TLPType{nicmodel.MemRd, nicmodel.MemWr, nicmodel.CplD} {
			var sum results.NICTLPs
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

// use returns the NIC's work from then until now; hostName is the name of a host.
func (l *nicLook) use(now units.Time, hostName func(int) string) results.NICUse {
	nic, count := l.nic, l.nic.Stats()
	u := results.NICUse{NIC: l.name, Requests: count.Requests - l.stats.Requests, Packets: count.RxPackets - l.stats.RxPackets}
	for i, a := range nic.Accounts(now) {
		if l.accounts != nil {
			a = a.Since(l.accounts[i])
		}
		stage := results.NICStage{Stage: a.Stage, ClockHz: int64(a.Clock), Parallel: a.Parallel, Served: a.Served, Elapsed: a.Elapsed, Busy: a.Busy, Idle: a.Idle}
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
	for i, direction := range []string{results.ToHost, results.FromHost} {
		p := results.NICPCIe{Direction: direction, ByPurpose: map[string]int64{}, TLPs: map[string]results.NICTLPs{}, PerRequest: stats.Unmeasured, Busy: stats.Unmeasured}
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
			p.PerRequest = stats.Float(float64(p.Bytes) / float64(u.Requests))
		}
		if s := &u.Stages[len(u.Stages)-2+i]; s.Elapsed > 0 {
			p.Busy = stats.Float(float64(s.Busy) / float64(s.Elapsed))
		}
		u.PCIe = append(u.PCIe, p)
	}
	for i, q := range nic.Queues(now) {
		if l.queues != nil {
			q = q.Since(l.queues[i])
		}
		out := results.NICQueue{Queue: q.Queue, Came: q.Came, Most: q.Most, Mean: stats.Unmeasured, WaitUs: stats.Unmeasured}
		if span > 0 {
			out.Mean = stats.Float(float64(q.Area) / float64(span))
		}
		if q.Came > 0 {
			out.WaitUs = stats.Float(float64(q.Area) / float64(q.Came) / float64(units.Microsecond))
		}
		u.Queues = append(u.Queues, out)
	}
	if b := (results.NICBuffer{
		MostBytes: int64(count.BufferMost), Drops: count.BufferDrops - l.stats.BufferDrops,
		Marks: count.BufferMarks - l.stats.BufferMarks, Pauses: count.PausesSent - l.stats.PausesSent,
	}); b.Drops+b.Marks+b.Pauses > 0 {
		u.Buffer = &b
	}
	if c := nic.Config(); c.Offload.Processors > 0 {
		e := nic.EngineEvents()
		u.EngineEvents = &results.NICEngineEvents{Handled: e.Handled - l.events.Handled, Merged: e.Merged - l.events.Merged, Dropped: e.Dropped - l.events.Dropped}
	}
	for i, w := range nic.Waits(now) {
		if l.waits != nil {
			w.Total -= l.waits[i].Total
		}
		out := results.NICWait{Where: w.Where, For: w.For, Taken: w.Taken, Mean: stats.Unmeasured}
		if span > 0 {
			out.Mean = stats.Float(float64(w.Total) / float64(span))
		}
		u.Waits = append(u.Waits, out)
	}
	for i, c := range nic.Caches() {
		if l.caches != nil {
			c.Hits -= l.caches[i].Hits
			c.Misses -= l.caches[i].Misses
		}
		u.Caches = append(u.Caches, results.NICCache(c))
	}
	if l.operations != nil {
		u.Operations = l.operations.Shown(l.name, hostName)
	}
	return u
}

// watchOperations has the requests of measured NICs followed.
func (m *measurement) watchOperations() {
	if len(m.nics) == 0 {
		return
	}
	byHost := map[int]*nictrace.Operations{}
	for i := range m.nics {
		l := &m.nics[i]
		l.operations = nictrace.NewOperations(m.warmup)
		byHost[l.nic.Host()] = l.operations
	}
	m.sim.nics.FollowOperations(byHost)
}
