package nicmodel

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// writes posts a WRITE of the whole of from to r.
func (b *bed) writes(x end, from, r memory.Region) {
	n := uint32(from.Length)
	b.post(x, WR{Request: rc.Request{ID: 1, Op: ib.WRRDMAWrite, Signaled: true, Length: n, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []memory.SGE{{Addr: from.Addr, Length: n, Key: from.Key}}})
}

func TestDataAppearWhenTheirWriteIsSeen(t *testing.T) {
	b, x, y := joined(t)
	local, remote := pattern(64, 1), make([]byte, 64)
	lr, rr := x.region(t, local), y.region(t, remote)
	b.writes(x, lr, rr)
	for y.nic.Delivered(y.qpn).Packets == 0 {
		b.e.Step()
	}
	taken := b.e.Now()
	for remote[63] == 0 {
		if !bytes.Equal(remote, make([]byte, 64)) {
			t.Fatal("a part of a packet is there before the rest")
		}
		b.e.Step()
	}
	// One packet on an idle link: its bytes and the latency.
	c := y.nic.Config().PCIe
	if took, want := b.e.Now()-taken, c.Rate.Serialize(64+24)+c.WriteLatency; took != want {
		t.Errorf("in memory %v after the transport had it, want %v", took, want)
	}
}

func TestPhantomsHaveNothingUnderWay(t *testing.T) {
	b, x, y := joined(t)
	p := func(e end) memory.Region {
		r, err := e.nic.RegMR(e.pd, nil, 1<<20, ib.AccessLocalWrite|ib.AccessRemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	b.writes(x, p(x), p(y))
	for b.e.Next() <= units.Millisecond {
		if b.e.Step(); y.nic.landings.UnderWay() != 0 {
			t.Fatalf("%v: %d landings", b.e.Now(), y.nic.landings.UnderWay())
		}
	}
	b.e.RunUntil(units.Millisecond)
	if got := b.poll(x); len(got) != 1 {
		t.Errorf("completions %v", got)
	}
}

func TestTheNICSeesItsOwnWrites(t *testing.T) {
	b, x, y := joined(t)
	// On a host this slow to show data, a READ comes long before they are there.
	slow := y.nic.chip.Config.PCIe
	slow.WriteLatency = units.Millisecond / 10
	link, err := pcie.New(slow)
	if err != nil {
		t.Fatal(err)
	}
	*y.nic.chip.Link = *link
	local, remote, back := pattern(3000, 1), make([]byte, 3000), make([]byte, 3000)
	lr, rr, br := x.region(t, local), y.region(t, remote), x.region(t, back)
	again := y.region(t, remote[1000:]) // the same memory by another key
	words := x.region(t, make([]byte, 8))
	b.writes(x, lr, rr)
	b.post(x,
		WR{Request: rc.Request{ID: 2, Op: ib.WRAtomicFetchAndAdd, Signaled: true, Length: 8, RemoteAddr: rr.Addr + 8, RKey: rr.Key, Swap: 1}, SGL: []memory.SGE{{Addr: words.Addr, Length: 8, Key: words.Key}}},
		WR{Request: rc.Request{ID: 3, Op: ib.WRRDMARead, Signaled: true, Length: 1000, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: br.Addr, Length: 1000, Key: br.Key}}},
		WR{Request: rc.Request{ID: 4, Op: ib.WRRDMARead, Signaled: true, Length: 2000, RemoteAddr: again.Addr, RKey: again.Key}, SGL: []memory.SGE{{Addr: br.Addr + 1000, Length: 2000, Key: br.Key}}})
	b.e.RunUntil(b.e.Now() + 50*units.Microsecond)
	if got := b.poll(x); len(got) != 4 {
		t.Fatalf("completions %+v", got)
	}
	want := append([]byte(nil), local...)
	want[8]++
	if !bytes.Equal(back, want) {
		t.Error("a READ after a WRITE did not see it")
	}
	if !bytes.Equal(remote, make([]byte, 3000)) {
		t.Error("the host saw data too early")
	}
	b.e.RunUntil(units.Millisecond)
	if !bytes.Equal(remote, want) {
		t.Error("the data did not appear")
	}
}

// onPCIe is a WRITE of 64 bytes whose packet the transport has had, and whose data are on
// their way to remote, a region of that key.
func onPCIe(t *testing.T) (b *bed, y end, key uint32, local, remote []byte) {
	b, x, y := joined(t)
	local, remote = pattern(64, 1), make([]byte, 64)
	lr, rr := x.region(t, local), y.region(t, remote)
	b.writes(x, lr, rr)
	for y.nic.Delivered(y.qpn).Packets == 0 {
		b.e.Step()
	}
	return b, y, rr.Key, local, remote
}

func TestDeregistrationWaitsForData(t *testing.T) {
	b, y, key, local, remote := onPCIe(t)
	if remote[63] != 0 {
		t.Fatal("the data are there already")
	}
	y.nic.DeregMR(key)
	if !bytes.Equal(remote, local) {
		t.Error("a region went while data were on their way to it")
	}
	clear(remote) // the application's again
	b.e.RunUntil(units.Millisecond)
	if !bytes.Equal(remote, make([]byte, 64)) {
		t.Error("data came after the deregistration")
	}
}

func TestResetLeavesWhatIsOnPCIe(t *testing.T) {
	b, y, _, local, remote := onPCIe(t)
	y.nic.DestroyQP(y.qpn)
	b.e.RunUntil(units.Millisecond)
	if !bytes.Equal(remote, local) {
		t.Error("a posted write was taken back")
	}
}

// Whatever the link does to the writes, a completion of a receive is never seen before
// its data, nor one of a READ.
func TestNoCompletionBeforeItsData(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := preset(t, rapid.SampledFrom(config.Presets()).Draw(r, "preset"))
		cfg.PCIe.WriteLatency = units.Time(rapid.IntRange(0, 5000).Draw(r, "latency")) * units.Nanosecond
		cfg.PCIe.PostedCredits = rapid.IntRange(0, 3).Draw(r, "credits")
		cfg.PCIe.PostedHold = units.Time(rapid.IntRange(0, 500).Draw(r, "hold")) * units.Nanosecond
		if rapid.Bool().Draw(r, "iommu") {
			cfg.PCIe.IOMMU = pcie.IOMMUConfig{Entries: 4, PageSize: 4096, Miss: units.Microsecond}
		}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		n := rapid.IntRange(1, 20).Draw(r, "messages")
		size := rapid.IntRange(1, 5000).Draw(r, "size")
		local, remote, back := pattern(n*size, 1), make([]byte, n*size), make([]byte, n*size)
		lr, rr, br := x.region(t, local), y.region(t, remote), x.region(t, back)
		at := func(r memory.Region, i int) []memory.SGE {
			return []memory.SGE{{Addr: r.Addr + uint64(i*size), Length: uint32(size), Key: r.Key}}
		}
		for i := range n {
			if err := y.nic.RecvQueue(y.qpn).PostRecv(uint64(i), at(rr, i)); err != nil {
				r.Fatal(err)
			}
			b.post(x,
				WR{Request: rc.Request{ID: uint64(i), Op: ib.WRSend, Length: uint32(size)}, SGL: at(lr, i)},
				WR{Request: rc.Request{ID: uint64(i), Op: ib.WRRDMARead, Signaled: true, Length: uint32(size), RemoteAddr: rr.Addr + uint64(i*size), RKey: rr.Key}, SGL: at(br, i)})
		}
		seen := 0
		for b.e.Now() < 10*units.Millisecond && seen < 2*n {
			b.e.Step()
			for e, got := range map[end][]byte{x: back, y: remote} {
				for _, c := range b.poll(e) {
					i := int(c.WRID)
					if c.Status != ib.WCSuccess || !bytes.Equal(got[i*size:(i+1)*size], local[i*size:(i+1)*size]) {
						r.Fatalf("completion %+v before its data, or without", c)
					}
					seen++
				}
			}
		}
		if seen < 2*n {
			r.Fatalf("%d of %d completions", seen, 2*n)
		}
	})
}
