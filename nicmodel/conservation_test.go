package nicmodel

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// pairLoad is one queue pair's work: it keeps window requests of an operation
// outstanding until a workload stops.
type pairLoad struct {
	from, to int
	op       ib.WROpcode
	size     uint32
	inline   bool
	window   int
	batch    int    // requests a doorbell
	pieces   uint32 // the first has so much of the size, 1 for all of it
	rate     units.Rate
	spread   uint64     // atomics: the number of words
	wait     units.Time // of each request, if the NIC schedules by time
	priority uint8
	function int
}

// randomLoad draws a workload of a NIC: a few queue pairs of all operations.
func randomLoad(t *rapid.T, hosts int, share bool) []pairLoad {
	var all []pairLoad
	for range rapid.IntRange(1, 5).Draw(t, "pairs") {
		p := pairLoad{
			from: rapid.IntRange(0, hosts-1).Draw(t, "from"),
			op: rapid.SampledFrom([]ib.WROpcode{
				ib.WRRDMAWrite, ib.WRRDMAWrite, ib.WRRDMARead, ib.WRSend, ib.WRAtomicFetchAndAdd,
			}).Draw(t, "op"),
			size:   rapid.SampledFrom([]uint32{1, 8, 64, 200, 1000, 1024, 4096, 10000, 1 << 16}).Draw(t, "size"),
			window: rapid.IntRange(1, 32).Draw(t, "window"),
			spread: rapid.SampledFrom([]uint64{1, 100}).Draw(t, "words"),
		}
		p.to = (p.from + rapid.IntRange(1, hosts-1).Draw(t, "to")) % hosts
		p.pieces = rapid.SampledFrom([]uint32{1, 1, 2, 3}).Draw(t, "pieces")
		p.batch = rapid.IntRange(1, p.window).Draw(t, "batch")
		if p.op == ib.WRAtomicFetchAndAdd {
			p.size = 8
		} else if p.op != ib.WRRDMARead && p.size <= 64 {
			p.inline = rapid.Bool().Draw(t, "inline")
		}
		if rapid.IntRange(0, 3).Draw(t, "paced") == 0 {
			p.rate = units.Rate(rapid.IntRange(1, 40).Draw(t, "rate")) * units.Gbps
		}
		if rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
			p.wait = units.Time(rapid.IntRange(1, 5000).Draw(t, "wait")) * units.Nanosecond
		}
		if share {
			p.priority = uint8(rapid.IntRange(0, 2).Draw(t, "priority"))
			p.function = rapid.IntRange(0, 2).Draw(t, "function")
		}
		all = append(all, p)
	}
	return all
}

// drive runs a queue pair's load until an instant.
func (b *bed) drive(p pairLoad, until units.Time) {
	b.t.Helper()
	send := plainSend
	send.AckReqEvery = 4
	var cong [2]Congestion
	if p.rate > 0 {
		cong[0] = Congestion{Engine: &pacer{control: cc.Control{Rate: p.rate, Window: 64 << 10}}, BaseRTT: 5 * units.Microsecond}
	}
	b.priority, b.function = p.priority, p.function
	x, y := b.connect(p.from, p.to, cong, send, 1024)
	all := ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic
	register := func(e end) (memory.Region, error) {
		if e.nic.chip.Config.PCIe.Peer.Rate > 0 {
			return e.nic.RegPeer(e.pd, nil, 1<<20, all)
		}
		return e.nic.RegMR(e.pd, nil, 1<<20, all)
	}
	lr, err := register(x)
	if err != nil {
		b.t.Fatal(err)
	}
	rr, err := register(y)
	if err != nil {
		b.t.Fatal(err)
	}
	receive := func() {
		if err := y.nic.RecvQueue(y.qpn).PostRecv(0, []memory.SGE{{Addr: rr.Addr, Length: 1 << 17, Key: rr.Key}}); err != nil {
			b.t.Fatal(err)
		}
	}
	out := make([]CQE, 64)
	if p.op == ib.WRSend {
		for range 64 {
			receive()
		}
		y.nic.OnCompletion(y.cq, func(now units.Time, _ bool) {
			for range y.nic.PollCQ(now, y.cq, out) {
				receive()
			}
		})
	}
	word := uint64(0)
	post := func(k int) {
		for range k {
			wr := WR{Request: rc.Request{Op: p.op, Signaled: true, Length: p.size, RemoteAddr: rr.Addr + 8*(word%p.spread), RKey: rr.Key}}
			word++
			if p.inline {
				wr.Inline = pattern(int(p.size), 1)
			} else {
				wr.SGL = []memory.SGE{{Addr: lr.Addr, Length: p.size, Key: lr.Key}}
				if p.pieces > 1 {
					first := p.size / p.pieces
					wr.SGL = []memory.SGE{{Addr: lr.Addr, Length: first, Key: lr.Key}, {Addr: lr.Addr + 1<<18, Length: p.size - first, Key: lr.Key}}
				}
			}
			if p.wait > 0 && x.nic.chip.Config.SendTime.Tick > 0 {
				if err := x.nic.WaitUntil(x.qpn, b.e.Now()+p.wait); err != nil {
					b.t.Fatal(err)
				}
			}
			if err := x.nic.PostSend(x.qpn, &wr); err != nil {
				b.t.Fatal(err)
			}
		}
		x.nic.Ring(b.e.Now(), x.qpn, k)
	}
	room := 0
	done := make([]CQE, 64)
	x.nic.OnCompletion(x.cq, func(now units.Time, _ bool) {
		room += x.nic.PollCQ(now, x.cq, done)
		for room >= p.batch && now < until {
			post(p.batch)
			room -= p.batch
		}
	})
	for k := p.window; k > 0; k -= p.batch {
		post(min(k, p.batch))
	}
}

// watched counts a NIC's reports to OnWork and OnLevel.
type watched struct {
	worked  [][stage.NumStalls]int64 // by stage and reason, cycles
	ahead   [][]ahead                // by stage, work that ends later than its last account
	until   []units.Time             // by stage
	arrived []int64                  // by queue: the instants at which something left less those at which it came, summed
	level   []int
	most    []int
}

// ahead is work at instants to come.
type ahead struct{ begin, end units.Time }

// done moves what ends by a cycle of a stage from ahead to worked, and returns the cycles
// of the rest until then.
func (w *watched) done(index int, c stage.Clock, elapsed int64) (part int64) {
	w.ahead[index] = slices.DeleteFunc(w.ahead[index], func(a ahead) bool {
		begin, end := c.CycleAfter(a.begin), c.CycleAfter(a.end)
		if end <= elapsed {
			w.worked[index][stage.StallNone] += end - begin
			return true
		}
		part += max(elapsed-begin, 0)
		return false
	})
	return part
}

func watch(t *rapid.T, n *NIC) *watched {
	accounts, queues := n.Accounts(0), len(n.Queues(0))
	w := &watched{
		worked: make([][stage.NumStalls]int64, len(accounts)), ahead: make([][]ahead, len(accounts)), until: make([]units.Time, len(accounts)),
		arrived: make([]int64, queues), level: make([]int, queues), most: make([]int, queues),
	}
	n.OnWork(func(index int, begin, end units.Time, why stage.Stall) {
		a := &accounts[index]
		if begin >= end {
			t.Fatalf("%s is said to work from %v to %v", a.Stage, begin, end)
		}
		if a.Parallel == 1 && begin < w.until[index] {
			t.Fatalf("%s begins at %v, before the end of the work ahead, %v", a.Stage, begin, w.until[index])
		}
		w.until[index] = end
		if why == stage.StallNone {
			w.ahead[index] = append(w.ahead[index], ahead{begin, end})
			return
		}
		w.worked[index][why] += a.Clock.CycleAfter(end) - a.Clock.CycleAfter(begin)
	})
	n.OnLevel(func(queue int, now units.Time, level int) {
		w.arrived[queue] += int64(now) * int64(w.level[queue]-level)
		w.level[queue] = level
		w.most[queue] = max(w.most[queue], level)
		if level < 0 {
			t.Fatalf("queue %d holds %d", queue, level)
		}
	})
	return w
}

// lossyFabric drops what its buffers do not take.
func lossyFabric(f *fabric.Config) {
	f.Switch.Buffer = 32 << 10
	for i := range f.Switch.Classes {
		f.Switch.Classes[i].PFC.Lossless = false
	}
}

// Of any NIC under any load: at any instant busy, stalled and idle cycles of whatever
// has an account add up to those elapsed, and are what OnWork tells; what the PCIe link
// carried is its bytes at its rate, and those by purpose and by type are the same; and
// when all is over, what each queue held over time is what each piece of work waited.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom(config.Presets()).Draw(r, "preset")
		var change func(*fabric.Config)
		if rapid.Bool().Draw(r, "lossy") {
			change = lossyFabric
		}
		const hosts = 3
		cfg := preset(t, name)
		if rapid.Bool().Draw(r, "small caches") {
			cfg.State = drawState(r)
		}
		if rapid.IntRange(0, 2).Draw(r, "shared") == 0 {
			drawSharing(r, &cfg)
		}
		drawQueues(r, &cfg)
		cfg.WQEPrefetch = rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(r, "elements ahead")
		b := newBed(t, hosts, units.Rate(rapid.SampledFrom([]int{10, 40, 100}).Draw(r, "line"))*units.Gbps, cfg, change)
		var seen []*watched
		before := make([][]stage.Account, hosts)
		for _, n := range b.nics {
			seen = append(seen, watch(r, n))
		}
		const stop = 60 * units.Microsecond
		for _, p := range randomLoad(r, hosts, len(cfg.Functions) > 0) {
			b.drive(p, stop)
		}
		for b.e.Now() < stop {
			b.e.RunUntil(b.e.Now() + units.Time(rapid.IntRange(1, 30_000_000).Draw(r, "look")))
			for h, n := range b.nics {
				before[h] = checkAccounts(r, n, before[h], seen[h], false)
			}
		}
		b.e.RunUntil(2 * units.Second)
		for h, n := range b.nics {
			checkAccounts(r, n, before[h], seen[h], true)
			checkPCIe(r, n)
			for i, u := range n.Queues(b.e.Now()) {
				w := seen[h]
				if u.Now != 0 || w.level[i] != 0 {
					r.Fatalf("%s: %d left when all is over, %d told", u.Queue, u.Now, w.level[i])
				}
				if u.Area != w.arrived[i] || u.Most != w.most[i] {
					r.Fatalf("%s: %d ps held, and %d waited; at most %d, told %d", u.Queue, u.Area, w.arrived[i], u.Most, w.most[i])
				}
			}
		}
	})
}

// checkAccounts checks the accounts at the engine's Now against those of an earlier
// look and what was told; all says that nothing is under way any more.
func checkAccounts(t *rapid.T, n *NIC, before []stage.Account, w *watched, all bool) []stage.Account {
	now := n.chip.Engine.Now()
	accounts := n.Accounts(now)
	open := make([][stage.NumStalls]int64, len(accounts))
	n.OpenStalls(now, func(index int, begin, end units.Time, why stage.Stall) {
		c := accounts[index].Clock
		open[index][why] += c.CycleAfter(end) - c.CycleAfter(begin)
	})
	for i, a := range accounts {
		sum := a.Busy + a.Idle + sumOf(a.Stalled[:])
		if sum != a.Elapsed || a.Idle < 0 || a.Busy < 0 || a.Elapsed < a.Clock.CycleAfter(now) {
			t.Fatalf("%v: host %d: %+v: the parts add up to %d", now, n.chip.Host, a, sum)
		}
		for why, cycles := range a.Stalled[stage.StallNone+1:] {
			why++
			if cycles < 0 || cycles != w.worked[i][why]+open[i][why] {
				t.Fatalf("%v: %s stalled for %d cycles by %v, told of %d and %d", now, a.Stage, cycles, stage.Stall(why), w.worked[i][why], open[i][why])
			}
		}
		// Of units, of which one may be ahead of another, all that was told counts.
		elapsed := a.Elapsed
		if a.Parallel > 1 {
			elapsed = math.MaxInt64
		}
		if part := w.done(i, a.Clock, elapsed); a.Busy != w.worked[i][stage.StallNone]+part {
			t.Fatalf("%v: %s was busy for %d cycles, told of %d and %d", now, a.Stage, a.Busy, w.worked[i][stage.StallNone], part)
		}
		if before != nil {
			if s := a.Since(before[i]); s.Idle < 0 || s.Busy < 0 || s.Busy+s.Idle+sumOf(s.Stalled[:]) != s.Elapsed {
				t.Fatalf("%v: since the last look %+v", now, s)
			}
		}
		if all && a.Stage == "mac" && sumOf(open[i][:]) > 0 {
			t.Fatalf("%s still waits when all is over", a.Stage)
		}
	}
	return accounts
}

// checkPCIe checks that every byte on the link has a purpose and a type, and that the
// link was busy for as long as they take.
func checkPCIe(t *rapid.T, n *NIC) {
	now := n.chip.Engine.Now()
	accounts := n.Accounts(now)
	byPurpose := [pcie.NumDirections]units.Bytes{}
	for i, m := range func() []map[string]units.Bytes { up, down := n.PCIeBytes(); return []map[string]units.Bytes{up, down} }() {
		for _, x := range m {
			byPurpose[i] += x
		}
	}
	for d := range pcie.NumDirections {
		var all pcie.TLPs
		for kind := range pcie.NumTLPTypes {
			for why := range pcie.NumPurposes {
				x := n.PCIe().Traffic(d, kind, why)
				if x.Packets == 0 && x.Bytes != 0 {
					t.Fatalf("%v for %v: %+v", kind, why, x)
				}
				all.Packets += x.Packets
				all.Bytes += x.Bytes
			}
		}
		a := accounts[len(accounts)-2+int(d)]
		took := int64(n.chip.Config.PCIe.Rate.Serialize(all.Bytes))
		// Each transfer's time is rounded to a picosecond.
		if all.Bytes != byPurpose[d] || all.Packets != a.Served || a.Busy < took-int64(a.Served) || a.Busy > took+int64(a.Served) {
			t.Fatalf("%s: %d bytes by type, %d by purpose, in %d packets of %d; busy for %d ps, and they take %d", a.Stage, all.Bytes, byPurpose[d], all.Packets, a.Served, a.Busy, took)
		}
	}
}

// Little's law by the pieces of work themselves: the time from a request's or packet's
// coming to a queue to its leaving, by its name, summed over all of them, is what the
// queue held over time, to the picosecond where it is empty at both ends.
func TestLittlesLawByName(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const hosts = 2
		cfg := preset(t, rapid.SampledFrom(config.Presets()).Draw(r, "preset"))
		if rapid.Bool().Draw(r, "small caches") {
			cfg.State = drawState(r)
		}
		if rapid.IntRange(0, 2).Draw(r, "shared") == 0 {
			drawSharing(r, &cfg)
		}
		drawQueues(r, &cfg)
		cfg.WQEPrefetch = rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(r, "elements ahead")
		b := newBed(t, hosts, 100*units.Gbps, cfg, nil)
		waited := [hosts]map[string]int64{}
		type stay struct{ from, to units.Time }
		stays := [hosts]map[uint32][]stay{} // of each queue pair's requests with the transport
		type piece struct {
			queue      string
			qpn, which uint32
			response   bool
		}
		for h, n := range b.nics {
			waited[h], stays[h] = map[string]int64{}, map[uint32][]stay{}
			came := map[piece]units.Time{}
			leaves := func(p piece, now units.Time) {
				if at, ok := came[p]; ok {
					waited[h][p.queue] += int64(now - at)
					delete(came, p)
				}
			}
			n.OnSpan(func(s *chip.Span) {
				now := b.e.Now()
				packet := piece{"transmit", s.QPN, uint32(s.PSN), s.Response}
				switch s.Place {
				case chip.AtStore, chip.AtWQE:
					for k := range s.Count {
						slot := (s.Slot + k) & (s.Ring - 1)
						if s.Place == chip.AtStore {
							came[piece{"wqe", s.QPN, slot, false}] = s.Begin
							continue
						}
						leaves(piece{"wqe", s.QPN, slot, false}, s.End)
						came[piece{"requests", s.QPN, slot, false}] = s.End
					}
				case chip.AtSendTime:
					waited[h]["wqe"] += int64(s.End - s.Begin)
					came[piece{"requests", s.QPN, s.Slot, false}] = s.End
				case chip.AtPacketiser:
					came[packet] = now
				case chip.AtWire:
					leaves(packet, s.Begin)
				case chip.AtReceive:
					waited[h]["receive"] += int64(s.End - s.Begin)
				case chip.AtRecvFetch:
					waited[h]["no receive"] += int64(s.End - s.Begin)
				case chip.AtCQE:
					if !s.Response {
						p := piece{"requests", s.QPN, s.Slot, false}
						stays[h][s.QPN] = append(stays[h][s.QPN], stay{came[p], now})
						leaves(p, now)
					}
				case chip.AtCQEWrite: // told as the completion is made; its owner polls at once
					waited[h]["completions"] += int64(s.End - now)
				}
			})
		}
		const stop = 60 * units.Microsecond
		for _, p := range randomLoad(r, hosts, len(cfg.Functions) > 0) {
			b.drive(p, stop)
		}
		b.e.RunUntil(2 * units.Second)
		for h, n := range b.nics {
			// A queue pair is one of those with requests from the first of some to the
			// end of the last.
			for _, all := range stays[h] {
				slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
				until := units.Time(0)
				for _, one := range all {
					waited[h]["queue pairs"] += int64(max(one.to-max(one.from, until), 0))
					until = max(until, one.to)
				}
			}
			for _, u := range n.Queues(b.e.Now()) {
				got, ok := waited[h][u.Queue]
				if !ok && u.Came > 0 || u.Now != 0 || got != u.Area {
					r.Fatalf("host %d, %s: %d ps of %d that came, %d are left; %d ps of each together", h, u.Queue, u.Area, u.Came, u.Now, got)
				}
			}
		}
	})
}
