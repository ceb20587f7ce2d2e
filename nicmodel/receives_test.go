package nicmodel

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

func TestRecvWQEBytes(t *testing.T) {
	for sges, want := range map[int]int{0: 16, 1: 16, 2: 32, 3: 64, 4: 64, 5: 128, 16: 256} {
		if got := recvWQEBytes(sges); got != want {
			t.Errorf("%d pieces: %d bytes, want %d", sges, got, want)
		}
	}
}

// withReceives is a preset that fetches receives so.
func withReceives(t testing.TB, prefetch, batch int) config.Config {
	c := preset(t, "cx6dx")
	c.Receives = config.Receives{Prefetch: prefetch, Batch: batch}
	return c
}

// fetchedRecvs is the bytes of receives that have crossed PCIe.
func fetchedRecvs(n *NIC) int {
	c := n.PCIe().Traffic(pcie.Downstream, pcie.CplD, pcie.ForRecvWQE)
	return int(c.Bytes) - int(c.Packets)*n.chip.Config.PCIe.Headers.Completion()
}

// What a message waits for depends on where its receive is: with the NIC, in host memory
// and known, or posted since the NIC looked last.
func TestMessagesWaitForReceives(t *testing.T) {
	cfg := withReceives(t, 4, 2)
	one := cfg.PCIe.ReadLatency
	for name, c := range map[string]struct {
		before, after int // receives posted before RTR, and after
		messages      int
		least, most   units.Time // of the wait of all messages together
		looks, reads  int
		bytes         int // each
	}{
		"at hand":            {before: 8, messages: 1, least: 0, most: 0, looks: 1, reads: 2, bytes: 2 * 64},
		"posted late":        {after: 1, messages: 1, least: 2 * one, most: 3 * one, looks: 3, reads: 1, bytes: 64},
		"none at all":        {messages: 1, least: one, most: 2 * one, looks: 2, reads: 0},
		"one batch too many": {before: 2, after: 2, messages: 3, least: one * 9 / 10, most: 3 * one, looks: 3, reads: 2, bytes: 2 * 64},
	} {
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x := b.datagrams(0, 16, nil)
		y := b.datagrams(1, 16, nil)
		r := y.region(t, make([]byte, 100))
		recv := func() {
			if err := y.nic.RecvQueue(y.qpn).PostRecv(1, []memory.SGE{{Addr: r.Addr, Length: 100, Key: r.Key}}); err != nil {
				t.Fatal(err)
			}
		}
		y.nic.Reset(y.qpn)
		y.nic.Init(y.qpn)
		y.nic.SetQKey(y.qpn, testQKey)
		for range c.before {
			recv()
		}
		looks := -int(y.nic.PCIe().Traffic(pcie.Upstream, pcie.MemRd, pcie.ForRecvDoorbell).Packets)
		if err := y.nic.ReadyToReceive(y.qpn, Peer{}, Congestion{}, rc.Config{MTU: 4096}); err != nil {
			t.Fatal(err)
		}
		b.e.RunUntil(10 * units.Microsecond)
		for range c.after {
			recv()
		}
		for range c.messages {
			b.post(x, datagramTo(y, nil))
		}
		b.e.RunUntil(30 * units.Microsecond)
		if got, want := len(b.poll(y)), min(c.messages, c.before+c.after); got != want {
			t.Errorf("%s: %d messages came, want %d", name, got, want)
		}
		var waited units.Time
		for _, w := range y.nic.Waits(b.e.Now()) {
			if w.Where == "receives" {
				waited = w.Total
			}
		}
		looks += int(y.nic.PCIe().Traffic(pcie.Upstream, pcie.MemRd, pcie.ForRecvDoorbell).Packets)
		reads := int(y.nic.PCIe().Traffic(pcie.Upstream, pcie.MemRd, pcie.ForRecvWQE).Packets)
		if waited < c.least || waited > c.most || looks != c.looks || reads != c.reads {
			t.Errorf("%s: waited %v, want %v to %v; %d looks at the record, want %d; %d reads, want %d", name, waited, c.least, c.most, looks, c.looks, reads, c.reads)
		}
		if got := fetchedRecvs(y.nic); got != c.reads*c.bytes {
			t.Errorf("%s: %d bytes of receives crossed PCIe", name, got)
		}
	}
}

// A queue pair that fails or is reset gives up what its NIC has not fetched: receives
// are flushed once each, in order, and packets that wait for one are dropped.
func TestReceivesOfAFailedQueuePair(t *testing.T) {
	for _, kind := range []ib.QPType{ib.RC, ib.UD} {
		b := newBed(t, 2, 100*units.Gbps, withReceives(t, 4, 4), nil)
		var x, y end
		if kind == ib.RC {
			x, y = b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		} else {
			x, y = b.datagrams(0, 64, nil), b.datagrams(1, 64, nil)
		}
		r := y.region(t, make([]byte, 100))
		for i := range 20 {
			if err := y.nic.RecvQueue(y.qpn).PostRecv(uint64(i), []memory.SGE{{Addr: r.Addr, Length: 100, Key: r.Key}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 { // of which four find a receive
			b.post(x, datagramTo(y, nil))
		}
		waits := func() int { return y.nic.receives.parked.N }
		for waits() == 0 && b.e.Now() < 10*units.Microsecond {
			b.e.RunUntil(b.e.Now() + 10*units.Nanosecond)
		}
		if waits() == 0 {
			t.Fatalf("%v: no message waits", kind)
		}
		y.nic.Fail(b.e.Now(), y.qpn)
		b.e.RunUntil(b.e.Now() + 20*units.Microsecond)
		got := b.poll(y)
		for i, c := range got {
			if want := []ib.WCStatus{ib.WCSuccess, ib.WCWRFlushErr}[min(i/4, 1)]; c.WRID != uint64(i) || c.Status != want {
				t.Errorf("%v: completion %d is %+v", kind, i, c)
			}
		}
		if len(got) != 20 || waits() != 0 {
			t.Errorf("%v: %d receives ended, %d packets wait", kind, len(got), waits())
		}
		y.nic.Reset(y.qpn)
		if err := y.nic.RecvQueue(y.qpn).PostRecv(0, nil); err != nil {
			t.Error(err)
		}
		y.nic.DestroyQP(y.qpn)
		if s, err := y.nic.CreateSRQ(4, 1); err != nil || s.posted != 0 || s.num != 0 {
			t.Errorf("%v: a new queue has %d receives and number %d (%v)", kind, s.posted, s.num, err)
		}
		b.e.RunUntil(b.e.Now() + 20*units.Microsecond)
	}
}

// Whatever is prefetched, and however late receives are posted, reliable messages come in
// order, each to the next receive of its queue, and no receive is lost or used twice. Every
// receive crosses PCIe once.
func TestFetchedReceivesAreUsedInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		cfg := withReceives(t, rapid.SampledFrom([]int{0, 1, 2, 5, 16, 64}).Draw(rt, "prefetch"), 1)
		if p := cfg.Receives.Prefetch; p > 0 {
			cfg.Receives.Batch = rapid.IntRange(1, p).Draw(rt, "batch")
		}
		cfg.PCIe.Tags = rapid.SampledFrom([]int{0, 1, 3}).Draw(rt, "tags")
		b := newBed(t, 3, 100*units.Gbps, cfg, nil)
		const pairs, messages = 3, 60
		depth := rapid.SampledFrom([]int{1, 7, 64}).Draw(rt, "depth")
		var srq *SRQ
		if rapid.Bool().Draw(rt, "shared") {
			var err error
			if srq, err = b.nics[0].CreateSRQ(depth, 1); err != nil {
				t.Fatal(err)
			}
		}
		var xs, ys []end
		pd := b.nics[0].AllocPD()
		cq, err := b.nics[0].CreateCQ(1024)
		if err != nil {
			t.Fatal(err)
		}
		for i := range pairs {
			x, _ := b.connect(1+i%2, 0, [2]Congestion{}, plainSend, 1024) // its peer here is not used
			y := end{nic: b.nics[0], pd: pd, cq: cq}
			if y.qpn, err = y.nic.CreateQP(QPConfig{PD: pd, SendCQ: cq, RecvCQ: cq, SendDepth: 4, RecvDepth: depth, SGEs: 1, SRQ: srq}); err != nil {
				t.Fatal(err)
			}
			for _, p := range [][2]end{{x, y}, {y, x}} {
				me, peer := p[0], p[1]
				me.nic.Reset(me.qpn)
				me.nic.Init(me.qpn)
				if err := me.nic.ReadyToReceive(me.qpn, Peer{Host: peer.nic.Host(), QPN: peer.qpn}, Congestion{}, rc.Config{MTU: 1024, MinRNRTimer: 1}); err != nil {
					t.Fatal(err)
				}
				if err := me.nic.ReadyToSend(me.qpn, plainSend); err != nil {
					t.Fatal(err)
				}
			}
			xs, ys = append(xs, x), append(ys, y)
		}
		r := end{nic: b.nics[0], pd: pd}.region(t, make([]byte, 4096))
		queues := pairs
		if srq != nil {
			queues = 1
		}
		posted, sent, came := make([]uint64, queues), make([]int, pairs), make([]int, pairs)
		next, got := make([]uint64, queues), 0
		for got < pairs*messages && b.e.Now() < 2*units.Second {
			for q := range queues {
				if rng.IntN(3) == 0 && posted[q] < uint64(pairs*messages/queues) {
					if ys[q].nic.RecvQueue(ys[q].qpn).PostRecv(posted[q], []memory.SGE{{Addr: r.Addr, Length: 4096, Key: r.Key}}) == nil {
						posted[q]++
					}
				}
			}
			for i, x := range xs {
				if sent[i] < messages && x.nic.Room(x.qpn) > 0 && rng.IntN(2) == 0 {
					b.post(x, WR{Request: rc.Request{Op: ib.WRSendWithImm, Imm: uint32(sent[i]), Length: uint32(rng.IntN(200))}, Inline: make([]byte, 200)})
					sent[i]++
				}
			}
			b.e.RunUntil(b.e.Now() + units.Time(rng.IntN(2000))*units.Nanosecond)
			for _, c := range b.poll(end{nic: b.nics[0], cq: cq}) {
				for i, y := range ys {
					if y.qpn != c.QPN {
						continue
					}
					q := i
					if srq != nil {
						q = 0
					}
					if c.Status != ib.WCSuccess || c.Imm != uint32(came[i]) || c.WRID != next[q] {
						rt.Fatalf("queue pair %d: %+v, want message %d, receive %d", i, c, came[i], next[q])
					}
					came[i]++
					next[q]++
					got++
				}
			}
		}
		if got != pairs*messages {
			rt.Fatalf("%d of %d messages came", got, pairs*messages)
		}
		want := 16 * got
		if cfg.Receives.Prefetch == 0 {
			want = 0
		}
		if bytes := fetchedRecvs(b.nics[0]); bytes != want || b.nics[0].receives.parked.N != 0 {
			rt.Fatalf("%d bytes of receives crossed PCIe, want %d; %d packets wait", bytes, want, b.nics[0].receives.parked.N)
		}
	})
}
