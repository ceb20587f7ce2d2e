package nicmodel

import (
	"bytes"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// A payload in several pieces takes TLPs for each: no request holds bytes of two.
func TestPiecesHaveTLPsOfTheirOwn(t *testing.T) {
	cfg := preset(t, "cx5")
	for _, c := range []struct {
		name       string
		pieces     []uint32
		reads, cpl uint64
		writes     uint64 // of as many pieces at the other end
	}{
		{"one", []uint32{1000}, 2, 4, 4},                // MRRS 512, MPS 256
		{"two", []uint32{500, 500}, 2, 4, 4},            //
		{"four", []uint32{250, 250, 250, 250}, 4, 4, 4}, //
		{"uneven", []uint32{8, 984, 8}, 4, 6, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, 2, 100*units.Gbps, cfg, nil)
			x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
			data, got := pattern(1<<16, 1), make([]byte, 1<<16)
			from, to := x.region(t, data), y.region(t, got)
			var send, recv []memory.SGE
			var want []byte
			for i, n := range c.pieces {
				at := uint64(i) * 8192
				send = append(send, memory.SGE{Addr: from.Addr + at, Length: n, Key: from.Key})
				recv = append(recv, memory.SGE{Addr: to.Addr + at, Length: n, Key: to.Key})
				want = append(want, data[at:at+uint64(n)]...)
			}
			if err := y.nic.RecvQueue(y.qpn).PostRecv(0, recv); err != nil {
				t.Fatal(err)
			}
			b.post(x, WR{Request: rc.Request{Op: ib.WRSend, Signaled: true, Length: 1000}, SGL: send})
			b.e.RunUntil(units.Millisecond)
			var arrived []byte
			for i, n := range c.pieces {
				arrived = append(arrived, got[i*8192:][:n]...)
			}
			if !bytes.Equal(arrived, want) {
				t.Error("other bytes arrived")
			}
			reads, cpl := x.nic.chip.Link.Traffic(pcie.Upstream, pcie.MemRd, pcie.ForPayload), x.nic.chip.Link.Traffic(pcie.Downstream, pcie.CplD, pcie.ForPayload)
			writes := y.nic.chip.Link.Traffic(pcie.Upstream, pcie.MemWr, pcie.ForPayload)
			if reads.Packets != c.reads || cpl.Packets != c.cpl || writes.Packets != c.writes {
				t.Errorf("%d reads, %d completions, %d writes; %d, %d and %d are expected", reads.Packets, cpl.Packets, writes.Packets, c.reads, c.cpl, c.writes)
			}
			if want := units.Bytes(1000 + 24*c.writes); writes.Bytes != want {
				t.Errorf("%d bytes written, %d expected", writes.Bytes, want)
			}
		})
	}
}

// onGPU measures the rate of operations between a GPU behind each NIC.
func onGPU(t *testing.T, op ib.WROpcode, gpus [2]bool, change func(*config.Config)) (gbps float64, nics []*NIC) {
	cfg := preset(t, "cx6")
	cfg.PCIe.Peer = pcie.PeerConfig{Rate: 227_400 * units.Mbps, ReadLatency: 700 * units.Nanosecond, WriteLatency: 300 * units.Nanosecond}
	if change != nil {
		change(&cfg)
	}
	b := newBed(t, 2, 200*units.Gbps, cfg, nil)
	x, y := b.connect(0, 1, [2]Congestion{}, rc.SendConfig{Timeout: 14, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 16, AckReqEvery: 8}, 4096)
	const size, all = 64 << 10, ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead
	var at [2]memory.Region
	for i, e := range []end{x, y} {
		register := e.nic.RegMR
		if gpus[i] {
			register = e.nic.RegPeer
		}
		var err error
		if at[i], err = register(e.pd, nil, 1<<20, all); err != nil {
			t.Fatal(err)
		}
	}
	done := units.Bytes(0)
	post := func(k int) {
		for range k {
			b.post(x, WR{Request: rc.Request{Op: op, Signaled: true, Length: size, RemoteAddr: at[1].Addr, RKey: at[1].Key}, SGL: []memory.SGE{{Addr: at[0].Addr, Length: size, Key: at[0].Key}}})
		}
	}
	out := make([]CQE, 64)
	x.nic.OnCompletion(x.cq, func(now units.Time, _ bool) {
		n := x.nic.PollCQ(now, x.cq, out)
		done += units.Bytes(n) * size
		post(n)
	})
	post(16)
	const long = units.Millisecond
	b.e.RunUntil(long)
	return float64(done*8) / float64(long) * float64(units.Second) / 1e9, b.nics
}

// Data of a GPU cross no memory of the host: its load, its caches and its IOMMU do not matter. Its own link, and the rate at
// which data are read from it, do.
func TestAGPUBehindTheNIC(t *testing.T) {
	both := [2]bool{true, true}
	fast, nics := onGPU(t, ib.WRRDMAWrite, both, nil)
	if fast < 185 {
		t.Errorf("%.1f Gbps between GPUs at 200 Gbps", fast)
	}
	if n := nics[0].chip.Link.Traffic(pcie.Upstream, pcie.MemRd, pcie.ForPayload).Packets; n == 0 {
		t.Error("the NIC's own link carried no reads")
	}
	busy := func(c *config.Config) {
		c.PCIe.Memory = pcie.MemoryConfig{Rate: 100 * units.Gbps, Load: 95 * units.Gbps, Outstanding: 1 << 16}
		c.PCIe.IOMMU = pcie.IOMMUConfig{Entries: 16, PageSize: 4096, Miss: 500 * units.Nanosecond, Walkers: 1}
	}
	host, _ := onGPU(t, ib.WRRDMAWrite, [2]bool{}, busy)
	gpu, _ := onGPU(t, ib.WRRDMAWrite, both, busy)
	t.Logf("host with busy memory %.1f, GPU beside it %.1f Gbps", host, gpu)
	if host > 60 || gpu < 185 {
		t.Errorf("beside busy memory %.1f Gbps from host to host, %.1f from GPU to GPU", host, gpu)
	}
	if through, _ := onGPU(t, ib.WRRDMAWrite, both, func(c *config.Config) { busy(c); c.PCIe.Peer.ThroughIOMMU = true }); through > gpu/2 {
		t.Errorf("%.1f Gbps through an IOMMU whose pages do not fit", through)
	}
	// A root complex that reads a peer slowly limits senders, and not receivers.
	slow := func(c *config.Config) { c.PCIe.Peer.ReadRate = 27 * units.Gbps }
	read, nics := onGPU(t, ib.WRRDMAWrite, [2]bool{true, false}, slow)
	written, _ := onGPU(t, ib.WRRDMAWrite, [2]bool{false, true}, slow)
	t.Logf("read from a GPU %.1f, written to one %.1f Gbps", read, written)
	if read > 27 || read < 23 || written < 185 {
		t.Errorf("%.1f Gbps are read and %.1f are written, where reads come at 27", read, written)
	}
	w := units.Time(0)
	for _, wait := range nics[0].Waits(0) {
		if wait.For == "data that the peer device gives" {
			w = wait.Total
		}
	}
	if w < units.Millisecond {
		t.Errorf("in 1 ms, reads wait %v for the GPU in all", w)
	}
	// A GPU on a slow link limits who writes to it.
	slot := func(c *config.Config) { c.PCIe.Peer.Rate = 57_880 * units.Mbps }
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		gbps, nics := onGPU(t, op, both, slot)
		t.Logf("%v between GPUs on gen3x8: %.1f Gbps", op, gbps)
		if gbps > 57.88 || gbps < 46 {
			t.Errorf("%v: %.1f Gbps", op, gbps)
		}
		receiver := nics[1]
		if op == ib.WRRDMARead {
			receiver = nics[0]
		}
		if receiver.Stats().BufferDrops > 0 {
			t.Errorf("%d packets dropped", receiver.Stats().BufferDrops)
		}
	}
}

func TestARegionOfNoPeer(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx5"), nil)
	if _, err := b.nics[0].RegPeer(1, nil, 4096, ib.AccessLocalWrite); err == nil {
		t.Error("a region in the memory of a device that is not there")
	}
}
