package nicmodel

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// upheaval is two hosts whose applications do everything at any time.
type upheaval struct {
	*bed
	rt    *rapid.T
	pds   [2]uint32
	cqs   [2][]uint32
	srqs  [2]*SRQ
	mrs   [2][]memory.Region
	pairs [][2]*turmoil
}

// turmoil is a queue pair and what its application waits for.
type turmoil struct {
	host    int
	num     uint32
	kind    ib.QPType
	shared  bool
	cq      [2]uint32 // of sends, of receives
	next    uint64
	sends   []uint64 // signaled, in order
	recvs   []uint64 // of its own queue
	begun   bool     // RTS
	removed bool
}

const upheavalAccess = ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic

func (u *upheaval) newCQ(host int) {
	n := u.nics[host]
	cq, err := n.CreateCQ(rapid.SampledFrom([]int{512, 512, 2048}).Draw(u.rt, "entries"))
	if err != nil {
		u.rt.Fatal(err)
	}
	n.OnCompletion(cq, func(units.Time, bool) {})
	n.OnEvent(cq, func(units.Time) {})
	u.cqs[host] = append(u.cqs[host], cq)
}

func (u *upheaval) newMR(host int) {
	size := rapid.SampledFrom([]int{64, 4096, 100_000}).Draw(u.rt, "region")
	var buf []byte
	if rapid.Bool().Draw(u.rt, "real") {
		buf = make([]byte, size)
	}
	r, err := u.nics[host].RegMR(u.pds[host], buf, uint64(size), upheavalAccess)
	if err != nil {
		u.rt.Fatal(err)
	}
	u.mrs[host] = append(u.mrs[host], r)
}

func (u *upheaval) newPair() {
	kind := rapid.SampledFrom([]ib.QPType{ib.RC, ib.RC, ib.UC, ib.UD}).Draw(u.rt, "type")
	var p [2]*turmoil
	for host := range p {
		x := &turmoil{host: host, kind: kind, shared: rapid.Bool().Draw(u.rt, "shared")}
		for i := range x.cq {
			x.cq[i] = rapid.SampledFrom(u.cqs[host]).Draw(u.rt, "cq")
		}
		cfg := QPConfig{Type: kind, PD: u.pds[host], SendCQ: x.cq[0], RecvCQ: x.cq[1], SendDepth: 16, RecvDepth: 8, SGEs: 2}
		if x.shared {
			cfg.SRQ = u.srqs[host]
		}
		var err error
		if x.num, err = u.nics[host].CreateQP(cfg); err != nil {
			u.rt.Fatal(err)
		}
		u.nics[host].Init(x.num)
		p[host] = x
	}
	u.pairs = append(u.pairs, p)
	u.join(p[0], p[1])
	u.join(p[1], p[0])
}

func (u *upheaval) join(x, peer *turmoil) {
	n := u.nics[x.host]
	n.Init(x.num)
	n.SetQKey(x.num, 1)
	cfg := rc.Config{MTU: 1024, Access: upheavalAccess}
	send := rc.SendConfig{}
	if x.kind == ib.RC {
		cfg.MaxDestRdAtomic, cfg.MinRNRTimer = 4, 1
		send = rc.SendConfig{Timeout: 1, RetryCount: 2, RNRRetry: 2, MaxRdAtomic: 4}
	}
	if err := n.ReadyToReceive(x.num, Peer{Host: peer.host, QPN: peer.num}, Congestion{}, cfg); err != nil {
		u.rt.Fatal(err)
	}
	if err := n.ReadyToSend(x.num, send); err != nil {
		u.rt.Fatal(err)
	}
	x.begun = true
}

func (u *upheaval) send(x, peer *turmoil) {
	n := u.nics[x.host]
	if x.removed || !x.begun {
		return
	}
	ops := []ib.WROpcode{ib.WRSend, ib.WRSendWithImm}
	if x.kind != ib.UD {
		ops = append(ops, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm)
	}
	if x.kind == ib.RC {
		ops = append(ops, ib.WRRDMARead, ib.WRAtomicFetchAndAdd, ib.WRSendWithInv, ib.WRLocalInv)
	}
	count := rapid.IntRange(1, 6).Draw(u.rt, "count")
	posted := 0
	for range count {
		op := rapid.SampledFrom(ops).Draw(u.rt, "op")
		l := rapid.SampledFrom(u.mrs[x.host]).Draw(u.rt, "local")
		r := rapid.SampledFrom(u.mrs[peer.host]).Draw(u.rt, "remote")
		size := rapid.SampledFrom([]uint32{0, 8, 64, 1000, 5000}).Draw(u.rt, "size")
		if x.kind == ib.UD {
			size = min(size, 1024)
		}
		wr := WR{Request: rc.Request{
			ID: x.next, Op: op, Length: size, RemoteAddr: r.Addr, RKey: r.Key, Imm: r.Key,
			Signaled: rapid.IntRange(0, 3).Draw(u.rt, "unsignaled") > 0,
		}, To: Peer{Host: peer.host, QPN: peer.num}, QKey: uint32(rapid.IntRange(1, 8).Draw(u.rt, "qkey")+6) / 7}
		switch op {
		case ib.WRLocalInv:
			wr.Request.Imm, wr.Request.Length, size = l.Key, 0, 0
		case ib.WRAtomicFetchAndAdd:
			wr.Request.Length, size = 8, 8
		}
		if op != ib.WRRDMARead && !op.IsAtomic() && size <= 64 && rapid.Bool().Draw(u.rt, "inline") {
			wr.Inline = make([]byte, size)
		} else if size > 0 {
			wr.SGL = []memory.SGE{{Addr: l.Addr, Length: size, Key: l.Key}}
		}
		err := n.PostSend(x.num, &wr)
		if errors.Is(err, rc.ErrFull) {
			break
		}
		if err != nil {
			u.rt.Fatal(err)
		}
		posted++
		if wr.Request.Signaled {
			x.sends = append(x.sends, x.next)
		}
		x.next++
	}
	n.Ring(u.e.Now(), x.num, posted)
}

func (u *upheaval) receive(x *turmoil) {
	n := u.nics[x.host]
	for range rapid.IntRange(1, 8).Draw(u.rt, "receives") {
		r := rapid.SampledFrom(u.mrs[x.host]).Draw(u.rt, "into")
		sgl := []memory.SGE{{Addr: r.Addr, Length: rapid.SampledFrom([]uint32{10, 64, 6000}).Draw(u.rt, "room"), Key: r.Key}}
		if x.shared {
			_ = u.srqs[x.host].PostRecv(1<<32, sgl)
			continue
		}
		if x.removed || n.RecvQueue(x.num).PostRecv(1<<32|x.next, sgl) != nil {
			return
		}
		x.recvs = append(x.recvs, 1<<32|x.next)
		x.next++
	}
	if !x.removed {
		n.Flush(u.e.Now(), x.num)
	}
}

func (u *upheaval) poll(host int) {
	out := make([]CQE, 64)
	for _, cq := range u.cqs[host] {
		for {
			k := u.nics[host].PollCQ(u.e.Now(), cq, out)
			if k == 0 {
				break
			}
			for _, e := range out[:k] {
				u.completes(host, &e)
			}
		}
	}
}

func (u *upheaval) completes(host int, e *CQE) {
	for _, p := range u.pairs {
		x := p[host]
		if x.num != e.QPN || x.removed {
			continue
		}
		list := &x.sends
		if e.WRID >= 1<<32 {
			list = &x.recvs
			if x.shared {
				return
			}
		}
		// What ends with an error completes though it asked for none.
		if e.WRID < 1<<32 && e.Status != ib.WCSuccess && (len(*list) == 0 || (*list)[0] != e.WRID) {
			return
		}
		if len(*list) == 0 || (*list)[0] != e.WRID {
			u.rt.Fatalf("%v: queue pair %d (%v): completion %+v, expected %v", u.e.Now(), x.num, x.kind, *e, *list)
		}
		*list = (*list)[1:]
		return
	}
	u.rt.Fatalf("completion %+v of no queue pair", *e)
}

func (u *upheaval) reset(x *turmoil) {
	u.nics[x.host].Reset(x.num)
	x.sends, x.recvs, x.begun = nil, nil, false
}

// Whatever applications do with everything under way, nothing panics or hangs: each
// request and each receive completes once, in order, and in the end nothing is left.
func TestUpheaval(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := preset(t, rapid.SampledFrom([]string{"cx6dx", "connectib", "timely10g"}).Draw(rt, "nic"))
		pick := func(name string, v ...int) int { return rapid.SampledFrom(v).Draw(rt, name) }
		cfg.Queues = config.Queues{Doorbells: pick("doorbells", 0, 1, 3), Acks: pick("acks", 0, 1, 3), Completions: pick("completions", 0, 1, 3)}
		cfg.WQEPrefetch, cfg.WQEFetch = pick("wqe_prefetch", 0, 1, 3), pick("wqe_fetch", 0, 1, 2)
		cfg.Receives.Prefetch = pick("receives", 0, 1, 4, 16)
		cfg.Receives.Batch = min(cfg.Receives.Prefetch, pick("batch", 1, 3))
		if cfg.Compression.MaxNum = pick("session", 0, 2, 16); cfg.Compression.MaxNum > 0 {
			cfg.Compression.Timeout = 2 * units.Microsecond
		}
		cfg.State = drawState(rt)
		cfg.BlueFlameBusy = rapid.Bool().Draw(rt, "blueflame")
		cfg.Transport.Loss = rapid.SampledFrom([]config.LossRecovery{config.GoBackN, config.SelectiveRepeat}).Draw(rt, "loss")
		if rapid.Bool().Draw(rt, "iommu") {
			cfg.PCIe.IOMMU = pcie.IOMMUConfig{Entries: 4, PageSize: 4096, Miss: 300 * units.Nanosecond, Walkers: 2}
			cfg.PCIe.Tags, cfg.PCIe.PostedCredits = 4, 4
		}
		b := newBed(t, 2, 100*units.Gbps, cfg, lossyFabric)
		u := &upheaval{bed: b, rt: rt}
		for host, n := range b.nics {
			u.pds[host] = n.AllocPD()
			u.newCQ(host)
			u.newCQ(host)
			u.newMR(host)
			u.newMR(host)
			s, err := n.CreateSRQ(12, 2)
			if err != nil {
				rt.Fatal(err)
			}
			u.srqs[host] = s
		}
		u.newPair()
		steps := rapid.IntRange(5, 80).Draw(rt, "steps")
		for range steps {
			p := rapid.SampledFrom(u.pairs).Draw(rt, "pair")
			host := rapid.IntRange(0, 1).Draw(rt, "host")
			x, peer, n := p[host], p[1-host], b.nics[host]
			now := b.e.Now()
			switch what := rapid.IntRange(0, 23).Draw(rt, "what"); what {
			case 0:
				if len(u.pairs) < 8 {
					u.newPair()
				}
			case 1:
				if !x.removed {
					n.DestroyQP(x.num)
					x.removed = true
				}
			case 2:
				if !x.removed {
					u.reset(x)
				}
			case 3:
				if !x.removed {
					n.Fail(now, x.num)
				}
			case 4:
				if !x.removed && !peer.removed {
					u.reset(x)
					u.join(x, peer)
				}
			case 5:
				i := rapid.IntRange(0, len(u.mrs[host])-1).Draw(rt, "deregistered")
				n.DeregMR(u.mrs[host][i].Key)
				u.newMR(host)
			case 6:
				if !x.removed {
					_ = n.ModifyRateLimit(now, x.num, config.RateLimit{
						Rate:     units.Rate(rapid.SampledFrom([]int{0, 1, 100, 5000}).Draw(rt, "Mbps")) * units.Mbps,
						MaxBurst: units.Bytes(rapid.SampledFrom([]int{0, 3000}).Draw(rt, "burst")),
					})
				}
			case 7:
				if !x.removed {
					_ = n.SetWeight(x.num, rapid.IntRange(1, 5).Draw(rt, "weight"))
				}
			case 8:
				n.ModerateCQ(x.cq[0], uint16(rapid.IntRange(0, 3).Draw(rt, "events")), uint16(rapid.IntRange(0, 3).Draw(rt, "period")))
			case 9, 10:
				n.ReqNotify(now, x.cq[rapid.IntRange(0, 1).Draw(rt, "which")], rapid.Bool().Draw(rt, "solicited"))
			case 11:
				if !x.removed && n.State(x.num) == ib.SQE {
					_ = n.Resume(x.num)
				}
			case 12, 13, 14:
				u.receive(x)
			case 15, 16:
				u.poll(host)
			case 17, 18, 19, 20:
				u.send(x, peer)
			default:
				b.e.RunUntil(now + units.Time(rapid.SampledFrom([]int{10, 100, 500, 2000, 100_000}).Draw(rt, "run"))*units.Nanosecond)
			}
		}
		for _, p := range u.pairs {
			for _, x := range p {
				if !x.removed {
					b.nics[x.host].Fail(b.e.Now(), x.num)
				}
			}
		}
		b.e.RunUntil(b.e.Now() + 100*units.Millisecond)
		u.poll(0)
		u.poll(1)
		for _, p := range u.pairs {
			for _, x := range p {
				n := b.nics[x.host]
				if n.Overrun(x.cq[0]) || n.Overrun(x.cq[1]) || x.removed {
					continue
				}
				if len(x.sends)+len(x.recvs) > 0 {
					rt.Fatalf("queue pair %d (%v) in %v never completed sends %v, receives %v", x.num, x.kind, n.State(x.num), x.sends, x.recvs)
				}
				n.DestroyQP(x.num)
			}
		}
		b.e.RunUntil(b.e.Now() + 100*units.Millisecond)
		for host, n := range b.nics {
			for _, q := range n.Queues(b.e.Now()) {
				if q.Now != 0 && q.Queue != "completions" {
					rt.Fatalf("host %d: queue %q holds %d in the end", host, q.Queue, q.Now)
				}
			}
			if left := n.landings.UnderWay(); left != 0 {
				rt.Fatalf("host %d: %d landings are left", host, left)
			}
			if n.scheduler.rates.used != 0 {
				rt.Fatalf("host %d: %d rate limits are left", host, n.scheduler.rates.used)
			}
		}
		if live := b.net.Live(); live != 0 {
			rt.Fatalf("%d packets are never freed", live)
		}
		if all, free, held := b.nics[0].chip.Frames.Payloads(); free+held != all {
			rt.Fatalf("%d of %d payload buffers are lost", all-free-held, all)
		}
	})
}
