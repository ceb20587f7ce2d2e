package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Kalia et al. count 36 bytes before the inline data of a WRITE and 68 before those
// of a datagram, so that 28 and 60 bytes are what one and two cache lines take.
func TestWQEBytes(t *testing.T) {
	for _, c := range []struct {
		op             ib.WROpcode
		service        ib.QPType
		pieces, inline int
		want           int
	}{
		{ib.WRRDMAWrite, ib.RC, 0, 28, 64}, {ib.WRRDMAWrite, ib.UC, 0, 29, 128}, {ib.WRRDMAWrite, ib.RC, 0, 92, 128},
		{ib.WRRDMAWrite, ib.RC, 1, 0, 64}, {ib.WRRDMAWrite, ib.RC, 3, 0, 128}, {ib.WRRDMARead, ib.RC, 1, 0, 64},
		{ib.WRSend, ib.UD, 0, 0, 64}, {ib.WRSend, ib.UD, 0, 1, 128}, {ib.WRSend, ib.UD, 0, 60, 128}, {ib.WRSend, ib.UD, 0, 61, 192},
		{ib.WRSend, ib.UD, 0, 252, 320}, {ib.WRSend, ib.RC, 0, 44, 64}, {ib.WRSend, ib.RC, 0, 45, 128},
		{ib.WRAtomicCmpAndSwp, ib.RC, 1, 0, 64}, {ib.WRLocalInv, ib.RC, 0, 0, 64},
	} {
		if got := sendWQEBytes(c.op, c.service, c.pieces, c.inline); got != c.want {
			t.Errorf("%v, %v, %d pieces, %d inline: %d bytes, want %d", c.op, c.service, c.pieces, c.inline, got, c.want)
		}
	}
}

func inlineWrite(id uint64, r memory.Region, n int) WR {
	return WR{Request: rc.Request{ID: id, Op: ib.WRRDMAWrite, Signaled: true, Length: uint32(n), RemoteAddr: r.Addr, RKey: r.Key}, Inline: pattern(n, 1)}
}

// What a WQE costs on PCIe, by BlueFlame and by doorbell.
func TestLinesOfAWQE(t *testing.T) {
	for _, c := range []struct {
		inline, batch   int
		fetch           int
		doorbell, reads uint64 // TLPs
	}{
		{28, 1, 0, 1, 0}, {29, 1, 0, 2, 0}, {92, 1, 0, 2, 0}, {93, 1, 0, 3, 0}, {220, 1, 0, 4, 0},
		{28, 8, 0, 1, 1}, {28, 8, 1, 1, 8}, {28, 8, 3, 1, 3}, {92, 8, 0, 1, 2}, {92, 8, 1, 1, 8},
	} {
		cfg := preset(t, "cx6dx")
		cfg.WQEFetch = c.fetch
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		r := y.region(t, make([]byte, 256))
		var wrs []WR
		for i := range c.batch {
			wrs = append(wrs, inlineWrite(uint64(i), r, c.inline))
		}
		b.post(x, wrs...)
		b.e.RunUntil(units.Millisecond)
		if got := len(b.poll(x)); got != c.batch {
			t.Fatalf("%d completions of %d", got, c.batch)
		}
		bells, reads := x.nic.PCIe().Traffic(pcie.Downstream, pcie.MemWr, pcie.ForDoorbell), x.nic.PCIe().Traffic(pcie.Upstream, pcie.MemRd, pcie.ForWQE)
		if bells.Packets != c.doorbell || reads.Packets != c.reads {
			t.Errorf("%d of %d bytes inline, %d a fetch: %d doorbell TLPs and %d reads, want %d and %d", c.batch, c.inline, c.fetch, bells.Packets, reads.Packets, c.doorbell, c.reads)
		}
		size := units.Bytes(sendWQEBytes(ib.WRRDMAWrite, ib.RC, 0, c.inline) * c.batch)
		fetched := x.nic.PCIe().Traffic(pcie.Downstream, pcie.CplD, pcie.ForWQE)
		if got := fetched.Bytes - units.Bytes(20*fetched.Packets); c.batch > 1 && got != size {
			t.Errorf("%d bytes of elements fetched, want %d", got, size)
		}
	}
}

// Elements are read up to as far ahead of the packets as the NIC prefetches, however many a
// doorbell is for, and all in the end; a failure also flushes elements that were not read.
func TestPrefetchOfElements(t *testing.T) {
	const posted = 64
	for _, ahead := range []int{0, 1, 3, 16, 1000} {
		for _, fails := range []bool{false, true} {
			cfg := preset(t, "cx6dx")
			cfg.WQEPrefetch = ahead
			b := newBed(t, 2, 100*units.Mbps, cfg, nil)
			x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
			mine, r := x.region(t, make([]byte, 1024)), y.region(t, make([]byte, 1024))
			var wrs []WR
			for i := range posted {
				wrs = append(wrs, WR{Request: rc.Request{ID: uint64(i), Op: ib.WRRDMAWrite, Signaled: true, Length: 1024, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []memory.SGE{{Addr: mine.Addr, Length: 1024, Key: mine.Key}}})
			}
			b.post(x, wrs...)
			// The wire takes 89 us for each.
			b.e.RunUntil(50 * units.Microsecond)
			fetched := x.nic.PCIe().Traffic(pcie.Downstream, pcie.CplD, pcie.ForWQE)
			want := min(posted, ahead+cfg.TxBuffer/(config.SlotBytes+1024)+1) // one is on the wire
			if ahead == 0 {
				want = posted
			}
			// The next read is for half as many or more.
			if got := int(fetched.Bytes-units.Bytes(20*fetched.Packets)) / pcie.CacheLine; got > want || got < want-ahead/2 {
				t.Errorf("%d ahead: %d elements are read, want %d or up to %d fewer", ahead, got, want, ahead/2)
			}
			if fails {
				x.nic.Fail(b.e.Now(), x.qpn)
			}
			b.e.RunUntil(b.e.Now() + 10*units.Millisecond)
			var got []CQE
			got = append(got, b.poll(x)...)
			if len(got) != posted {
				t.Fatalf("%d ahead, fails %v: %d completions of %d", ahead, fails, len(got), posted)
			}
			for i, e := range got {
				if e.WRID != uint64(i) || !fails && e.Status != ib.WCSuccess {
					t.Fatalf("%d ahead: completion %d is %+v", ahead, i, e)
				}
			}
			for _, u := range x.nic.Queues(b.e.Now()) {
				if u.Queue == "wqe" && u.Now != 0 {
					t.Errorf("%d ahead: %d elements are left", ahead, u.Now)
				}
			}
		}
	}
}

// A BlueFlame element of a busy queue is a doorbell, save where the NIC takes it.
func TestBlueFlameOfABusyQueue(t *testing.T) {
	for busy, want := range map[bool]uint64{false: 1, true: 0} {
		cfg := preset(t, "cx6dx")
		cfg.BlueFlameBusy = busy
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		r := y.region(t, make([]byte, 256))
		b.post(x, inlineWrite(1, r, 8))
		b.post(x, inlineWrite(2, r, 8))
		b.e.RunUntil(units.Millisecond)
		cs := b.poll(x)
		if len(cs) != 2 || cs[0].WRID != 1 || cs[1].WRID != 2 {
			t.Errorf("completions %+v", cs)
		}
		if got := x.nic.PCIe().Traffic(pcie.Upstream, pcie.MemRd, pcie.ForWQE).Packets; got != want {
			t.Errorf("busy %v: %d reads, want %d", busy, got, want)
		}
		// After a batch, whose elements are being fetched, one must not overtake.
		b.post(x, inlineWrite(3, r, 8), inlineWrite(4, r, 8))
		b.post(x, inlineWrite(5, r, 8))
		b.e.RunUntil(2 * units.Millisecond)
		if cs := b.poll(x); len(cs) != 3 || cs[0].WRID != 3 || cs[2].WRID != 5 {
			t.Errorf("completions %+v", cs)
		}
		if got := x.nic.PCIe().Traffic(pcie.Upstream, pcie.MemRd, pcie.ForWQE).Packets; got != want+2 {
			t.Errorf("busy %v: %d reads, want %d", busy, got, want+2)
		}
	}
}

// As many READs outstanding as the chip holds elements cost nothing; of more the elements
// are fetched again for their responses, and before that for their packets.
func TestElementsThatDoNotFit(t *testing.T) {
	const rounds = 4
	use := func(op ib.WROpcode, batch int) stage.CacheUse {
		cfg := preset(t, "cx6dx")
		// A line of context, one of a key and one of pages; six are left for elements.
		cfg.State = config.State{Bytes: 9 * pcie.CacheLine, Ways: 9, Fetches: 4, Context: 64}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		mine, r := x.region(t, make([]byte, 256)), y.region(t, make([]byte, 256))
		for round := range rounds {
			var wrs []WR
			for i := range batch {
				wr := inlineWrite(uint64(i), r, 8)
				if op == ib.WRRDMARead {
					wr.Request.Op, wr.Inline, wr.SGL = op, nil, []memory.SGE{{Addr: mine.Addr, Length: 8, Key: mine.Key}}
				}
				wr.Request.Signaled = i%2 == 0 || i == batch-1
				wrs = append(wrs, wr)
			}
			b.post(x, wrs...)
			b.e.RunUntil(units.Time(round+1) * units.Millisecond)
			cs := b.poll(x)
			if len(cs) == 0 || cs[len(cs)-1].WRID != uint64(batch-1) {
				t.Fatalf("batch of %d: completions %+v", batch, cs)
			}
		}
		if held, _ := x.nic.state.LinesHeld(b.e.Now()); !x.nic.state.Full() && held != 3 {
			t.Errorf("%d lines are held when all is over", held)
		}
		return cacheUse(x.nic, "wqe")
	}
	if got := use(ib.WRRDMARead, 6); got != (stage.CacheUse{Cache: "wqe"}) {
		t.Errorf("%+v with as many READs as the chip holds", got)
	}
	a, b := use(ib.WRRDMARead, 12), use(ib.WRRDMARead, 24)
	if a.Misses == 0 || b.Misses <= a.Misses {
		t.Errorf("%+v with 12 READs, %+v with 24", a, b)
	}
	if got := use(ib.WRRDMAWrite, 40); got.Misses == 0 || got.Hits+got.Misses > 40*rounds {
		t.Errorf("%+v with 40 WRITEs, want at most a look-up for the packet of each", got)
	}
}

// A queue that has gone on after an error reads as far ahead as before.
func TestPrefetchAfterAnError(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.WQEPrefetch = 1
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	x, y := b.datagrams(0, 32, nil), b.datagrams(1, 32, nil)
	bad := datagramTo(y, nil)
	bad.Request.Length, bad.SGL = 8, []memory.SGE{{Addr: 1, Length: 8, Key: 1}}
	b.post(x, bad, bad, bad, bad, bad, bad, bad, bad)
	b.e.RunUntil(units.Millisecond)
	if got := b.poll(x); len(got) != 8 || x.nic.State(x.qpn) != ib.SQE {
		t.Fatalf("%d completions, state %v", len(got), x.nic.State(x.qpn))
	}
	if err := x.nic.Resume(x.qpn); err != nil {
		t.Fatal(err)
	}
	q := x.nic.pairs.find(x.qpn)
	b.post(x, datagramTo(y, []byte{1}), datagramTo(y, []byte{2}))
	b.e.RunUntil(2 * units.Millisecond)
	if got := b.poll(x); len(got) != 2 || q.started != q.posted {
		t.Errorf("%d completions; %d of %d elements have begun or are over", len(got), q.started, q.posted)
	}
}

// Elements are read no further ahead than there is room for on the chip, so that fewer are read twice. Keys, pages
// and full sets displace some still.
func TestElementsAreReadAheadIntoRoomOnly(t *testing.T) {
	const queues, ahead = 32, 8
	cfg := preset(t, "cx6dx")
	t.Run("with all else", func(t *testing.T) {
		cfg := cfg
		cfg.State.Bytes, cfg.State.Elements = queues*(256+ahead*pcie.CacheLine), 0 // contexts, and elements of each queue pair
		readAhead(t, cfg, queues, ahead)
	})
	t.Run("by themselves", func(t *testing.T) {
		cfg := cfg
		cfg.State.Elements, cfg.State.Posted = queues*ahead*pcie.CacheLine, true
		readAhead(t, cfg, queues, ahead)
	})
}

func readAhead(t *testing.T, cfg Config, queues, ahead int) {
	const posted = 64
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	var post []func()
	var nic *NIC
	for range queues {
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		mine, r := x.region(t, make([]byte, 64)), y.region(t, make([]byte, 64))
		var wrs []WR
		for i := range posted {
			wrs = append(wrs, WR{Request: rc.Request{ID: uint64(i), Op: ib.WRRDMAWrite, Length: 64, RemoteAddr: r.Addr, RKey: r.Key, Signaled: i == posted-1}, SGL: []memory.SGE{{Addr: mine.Addr, Length: 64, Key: mine.Key}}})
		}
		post = append(post, func() {
			b.poll(x)
			b.post(x, wrs...)
		})
		nic = x.nic
	}
	round := func() units.Bytes {
		before := nic.PCIe().Traffic(pcie.Downstream, pcie.CplD, pcie.ForWQE)
		for _, f := range post {
			f()
		}
		b.e.RunUntil(b.e.Now() + units.Millisecond)
		after := nic.PCIe().Traffic(pcie.Downstream, pcie.CplD, pcie.ForWQE)
		return after.Bytes - before.Bytes - units.Bytes(20*(after.Packets-before.Packets))
	}
	elements := nic.doorbell.elements
	look := func() int { return elements.ahead(nic.pairs.all[0]) }
	if got := look(); got != cfg.WQEPrefetch {
		t.Errorf("%d ahead while all fits, want %d", got, cfg.WQEPrefetch)
	}
	round() // in which the NIC finds that not all fits
	if got := look(); !cfg.State.Posted && got != ahead || cfg.State.Posted && !nic.state.Elements.Full() {
		t.Errorf("%d ahead when not all fits, want %d", got, ahead)
	}
	once := units.Bytes(queues * posted * pcie.CacheLine)
	if got := round(); got > once*18/10 || got < once {
		t.Errorf("%d bytes of elements are read, want less than 1.8 times %d", got, once)
	}
}
