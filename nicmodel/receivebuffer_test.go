package nicmodel

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// gen3x4 is a link of four lanes under the NIC, 31.5 Gbps.
func gen3x4(c config.Config) config.Config {
	c.PCIe.Rate = 31_507_200_000
	return c
}

func lossy(c *fabric.Config) {
	for i := range c.Switch.Classes {
		c.Switch.Classes[i].PFC.Lossless = false
	}
}

// incast is four hosts that write to a fifth for as long as it is driven.
type incast struct {
	*bed
	server    *NIC
	completed [4]*units.Bytes // of payload, by senders' completions
}

func newIncast(t testing.TB, cfg config.Config, change func(*fabric.Config)) *incast {
	b := &incast{bed: newBed(t, 5, 100*units.Gbps, cfg, change)}
	b.server = b.nics[4]
	for from := range 4 {
		x, y := b.connect(from, 4, [2]Congestion{}, rc.SendConfig{Timeout: 10, RetryCount: 7, RNRRetry: 7, AckReqEvery: 4}, 4096)
		b.completed[from] = b.keep(x, y, ib.WRRDMAWrite, incastWrite, 16)
	}
	return b
}

const incastWrite = 16 << 10

// Payload that completes is what the receiver's PCIe link carries, and no more: what
// the receiver can't take the network holds back.
func TestASlowReceiverHoldsItsSendersUp(t *testing.T) {
	const long = 2 * units.Millisecond
	for name, change := range map[string]func(*fabric.Config){"lossless": nil, "lossy": lossy} {
		t.Run(name, func(t *testing.T) {
			b := newIncast(t, gen3x4(preset(t, "cx5")), change)
			b.e.RunUntil(long)
			var completed units.Bytes
			for _, n := range b.completed {
				completed += *n
			}
			rate := float64(completed*8) / float64(long) * float64(units.Second) / 1e9
			room := float64(b.server.chip.Config.ReceiveBuffer.Bytes*8) / float64(long) * float64(units.Second) / 1e9
			t.Logf("%.2f Gbps complete, %+v", rate, b.server.Stats())
			if rate > 31.5+room {
				t.Errorf("%.2f Gbps of payload complete through a link of 31.5 Gbps and a buffer of %d bytes", rate, b.server.chip.Config.ReceiveBuffer.Bytes)
			}
			if free := b.server.chip.Link.Free(pcie.Upstream) - b.e.Now(); free > 100*units.Microsecond {
				t.Errorf("PCIe is booked %v ahead", free)
			}
			drops := b.server.Stats().BufferDrops
			switch name {
			case "lossless":
				if drops != 0 || rate < 25 {
					t.Errorf("%d packets dropped, %.2f Gbps", drops, rate)
				}
			case "lossy":
				if drops == 0 {
					t.Error("nothing was dropped")
				}
			}
		})
	}
}

// Two NICs joined by a cable pause each other where the network is lossless: data that are read or written
// arrive at the pace of the slower slot, and nothing is dropped.
func TestNICsOnACableArePaused(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		for _, lossless := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, lossless %v", op, lossless), func(t *testing.T) {
				b := newCable(t, 100*units.Gbps, lossless, preset(t, "cx5"), gen3x4(preset(t, "cx5")))
				from, to := 0, 1 // data go to host 1
				if op == ib.WRRDMARead {
					from, to = to, from
				}
				x, y := b.connect(from, to, [2]Congestion{}, rc.SendConfig{Timeout: 10, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 16, AckReqEvery: 4}, 4096)
				const long, size = 2 * units.Millisecond, 64 << 10
				done := b.keep(x, y, op, size, 16)
				b.e.RunUntil(long)
				rate := float64(*done*8) / float64(long) * float64(units.Second) / 1e9
				drops := b.nics[0].Stats().BufferDrops + b.nics[1].Stats().BufferDrops
				t.Logf("%.2f Gbps, %d drops", rate, drops)
				if lossless && (drops != 0 || rate < 25) {
					t.Errorf("%d packets dropped, %.2f Gbps complete through a slot of 31.5", drops, rate)
				}
				if !lossless && drops == 0 {
					t.Error("nothing was dropped")
				}
				// A READ's answers that are lost again are requested again at once.
				if !lossless && op == ib.WRRDMARead && rate < 20 {
					t.Errorf("READs come at %.2f Gbps", rate)
				}
			})
		}
	}
}

// newCable joins two NICs without a switch.
func newCable(t testing.TB, rate units.Rate, lossless bool, cfgs ...config.Config) *bed {
	topology := &fabric.Topology{}
	topology.Connect(topology.AddHost("h0"), topology.AddHost("h1"), fabric.Link{Rate: rate, Delay: 10 * units.Nanosecond})
	fc := fabric.Default()
	for i := range fc.Switch.Classes {
		fc.Switch.Classes[i].PFC.Lossless = lossless
	}
	return newBedOn(t, topology, fc, cfgs...)
}

// keep keeps k requests of size bytes outstanding, and counts the bytes of those done.
func (b *bed) keep(x, y end, op ib.WROpcode, size uint32, k int) *units.Bytes {
	done := new(units.Bytes)
	lr, _ := x.nic.RegMR(x.pd, nil, 1<<20, ib.AccessLocalWrite)
	rr, _ := y.nic.RegMR(y.pd, nil, 1<<20, ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead)
	post := func(k int) {
		for range k {
			b.post(x, WR{Request: rc.Request{Op: op, Signaled: true, Length: size, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: size, Key: lr.Key}}})
		}
	}
	out := make([]CQE, 64)
	x.nic.OnCompletion(x.cq, func(now units.Time, _ bool) {
		n := x.nic.PollCQ(now, x.cq, out)
		for _, e := range out[:n] {
			if e.Status != ib.WCSuccess {
				b.t.Fatalf("%v ends with %v", op, e.Status)
			}
		}
		*done += units.Bytes(n) * units.Bytes(size)
		post(n)
	})
	post(k)
	return done
}

// What packets mark tells the senders: with DCQCN's notifications the engine in the NIC
// slows down before the buffer is full.
func TestAFullBufferMarks(t *testing.T) {
	cfg := gen3x4(preset(t, "cx5"))
	cfg.ReceiveBuffer.Mark = 64 << 10
	b := newBed(t, 2, 100*units.Gbps, cfg, lossy)
	server := b.nics[1]
	admit := func(flags fabric.Flags) fabric.Flags {
		packet := fabric.Frame{Size: 32 << 10, Flags: flags}
		if !server.receiver.buffer.admit(0, &packet) {
			t.Fatal("dropped")
		}
		return packet.Flags
	}
	if f := admit(fabric.ECT); f&fabric.CE != 0 {
		t.Error("marked by an empty buffer")
	}
	admit(fabric.ECT)
	if f := admit(fabric.ECT); f&fabric.CE == 0 {
		t.Error("not marked with 96 KiB in the buffer")
	}
	if f := admit(0); f != 0 {
		t.Error("a packet was marked that can't be")
	}
	if s := server.Stats(); s.BufferMarks != 1 || s.BufferMost != 128<<10 {
		t.Errorf("%+v", s)
	}
}

// slowDown makes a random part of a NIC slow.
func slowDown(t *rapid.T, c *config.Config) {
	slow := int64(rapid.IntRange(1, 40).Draw(t, "slow")) * 20
	switch rapid.SampledFrom([]string{
		"pcie", "parse", "transport", "cqe", "walks", "credits", "units", "nothing",
		"data credits", "tags", "read latency", "non-posted credits", "peer", "flits", "tx buffer", "scheduler", "packetiser", "state", "completions", "memory",
	}).Draw(t, "part") {
	case "pcie":
		c.PCIe.Rate = units.Rate(rapid.IntRange(2, 60).Draw(t, "gbps")) * units.Gbps
	case "parse":
		c.ParseCycles = slow
	case "transport":
		c.TransportCycles = slow
	case "cqe":
		c.CQECycles = slow
	case "walks":
		c.PCIe.IOMMU = pcie.IOMMUConfig{Entries: 1, PageSize: 4096, Miss: units.Time(slow) * units.Nanosecond, Walkers: 1}
	case "memory":
		rate := units.Rate(rapid.IntRange(5, 400).Draw(t, "memory")) * units.Gbps
		c.PCIe.Memory = pcie.MemoryConfig{Rate: rate, Load: rate * units.Rate(slow) / 400, Outstanding: 64 * int(slow)}
		switch rapid.IntRange(0, 2).Draw(t, "behind") {
		case 1:
			c.PCIe.HostCache = pcie.HostCacheConfig{Size: 1 << 16, Writes: 1 << 12, Miss: 50 * units.Nanosecond}
		case 2:
			c.PCIe.IOMMU = pcie.IOMMUConfig{Entries: 4, PageSize: 4096, Miss: 100 * units.Nanosecond, Walkers: 4}
		}
	case "credits":
		c.PCIe.PostedCredits, c.PCIe.PostedHold = 1, units.Time(slow)*units.Nanosecond
	case "data credits":
		c.PCIe.PostedData, c.PCIe.PostedHold = 64, units.Time(slow)*units.Nanosecond
	case "non-posted credits":
		c.PCIe.NonPostedCredits, c.PCIe.NonPostedHold = rapid.IntRange(1, 4).Draw(t, "requests"), units.Time(slow)*units.Nanosecond
	case "peer":
		gbps := units.Rate(rapid.IntRange(2, 200).Draw(t, "gbps"))
		c.PCIe.Peer = pcie.PeerConfig{Rate: gbps * units.Gbps, ReadLatency: 700 * units.Nanosecond, ThroughIOMMU: rapid.Bool().Draw(t, "through")}
		if rapid.Bool().Draw(t, "slower reads") {
			c.PCIe.Peer.ReadRate = (gbps + 1) / 2 * units.Gbps
		}
	case "flits":
		c.PCIe.Headers, c.PCIe.FEC = pcie.Flit, 2*units.Nanosecond
	case "tags":
		c.PCIe.Tags = rapid.IntRange(1, 4).Draw(t, "tags")
	case "read latency":
		c.PCIe.ReadLatency = units.Time(slow) * 10 * units.Nanosecond
	case "tx buffer":
		c.TxBuffer = rapid.IntRange(4096+config.SlotBytes, 3*(4096+config.SlotBytes)).Draw(t, "tx buffer")
	case "scheduler":
		c.SchedulerCycles = slow
	case "packetiser":
		c.PacketiserCycles = slow
	case "state":
		c.State.Bytes, c.State.Fetches = 8*pcie.CacheLine, 1
	case "completions":
		c.PCIe.MPS, c.PCIe.ReadCompletion = 128, 64
	case "units":
		c.Units = config.Units{Units: 1, Request: slow, Answer: slow}
	}
}

// At any load, with any part slow, nothing is lost that is not counted, the receive buffer, the
// memory before the wire and the host's credits stay within their sizes, PCIe has no more ahead of it than
// these hold, and payload is no more than each link on its way carries.
func TestEverythingIsBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := preset(t, rapid.SampledFrom(config.Presets()).Draw(r, "preset"))
		slowDown(r, &cfg)
		cfg.ReceiveBuffer.Bytes = rapid.SampledFrom([]int{32 << 10, 64 << 10, 262016}).Draw(r, "buffer")
		if rapid.IntRange(0, 2).Draw(r, "shared") == 0 {
			drawSharing(r, &cfg)
		}
		drawQueues(r, &cfg)
		cfg.PCIe.RelaxedOrdering = rapid.Bool().Draw(r, "relaxed")
		lossless := rapid.Bool().Draw(r, "lossless")
		b := newBed(t, 4, 100*units.Gbps, cfg, func(c *fabric.Config) {
			if !lossless {
				lossy(c)
			}
		})
		const until = 200 * units.Microsecond
		for _, p := range randomLoad(r, len(b.nics), len(cfg.Functions) > 0) {
			b.drive(p, until)
		}
		inside := make([]units.Bytes, len(b.nics)) // the payload that PCIe has taken when the buffer was looked at
		for b.e.Now() < until && b.e.Step() {
			for i, n := range b.nics {
				checkQueues(r, n)
				buffer := &n.receiver.buffer
				if buffer.used > cfg.ReceiveBuffer.Bytes || buffer.used < 0 {
					r.Fatalf("%v: h%d's buffer holds %d of %d bytes", b.e.Now(), i, buffer.used, cfg.ReceiveBuffer.Bytes)
				}
				if lossless && buffer.drops > 0 && buffer.xoff+int(b.net.Headroom(i)) <= cfg.ReceiveBuffer.Bytes {
					r.Fatalf("%v: h%d dropped a packet of a lossless priority", b.e.Now(), i)
				}
				inside[i] = units.Bytes(n.chip.Link.Traffic(pcie.Upstream, pcie.MemWr, pcie.ForPayload).Bytes)
				for _, room := range slices.Concat(n.mac.requestRoom[:], n.mac.responseRoom[:]) {
					if room.used > cfg.TxBuffer || room.used < 0 {
						r.Fatalf("%v: h%d has %d bytes before the wire, which has room for %d", b.e.Now(), i, room.used, cfg.TxBuffer)
					}
				}
			}
		}
		var arrived, sent uint64
		for i, n := range b.nics {
			sent += n.mac.packets
			if line := b.nics[i].chip.Line.BytesIn(n.mac.wireFree); n.mac.payload > line {
				r.Errorf("h%d sent %d bytes of payload over a line that carries %d", i, n.mac.payload, line)
			}
			// Data come by PCIe, in reads or with elements, before they go on the wire.
			if down := n.chip.Config.PCIe.Rate.BytesIn(b.e.Now()); n.mac.payload > down {
				r.Errorf("h%d sent %d bytes of payload, and PCIe carries %d", i, n.mac.payload, down)
			}
			// Packets of 64 bytes become TLPs and completions that are longer. Completions of
			// requests take their room from when the stage before is to be done with them.
			bound := n.chip.Config.PCIe.Rate.Serialize(units.Bytes(8*cfg.ReceiveBuffer.Bytes)) + 10*units.Microsecond + cfg.CoreClock.Begin(5*64*cfg.CQECycles)
			// What is read comes behind its request, which goes with these.
			booked := bound + n.chip.Config.PCIe.Rate.Serialize(units.Bytes(16*cfg.TxBuffer*max(len(cfg.Egress.TSA), 1)+1<<17)) + 10*units.Microsecond
			if ahead := n.chip.Link.Free(pcie.Downstream) - b.e.Now(); ahead > booked {
				r.Errorf("h%d's PCIe from the host is booked %v ahead", i, ahead)
			}
			slowest := n.chip.Config.PCIe.Rate
			if peer := cfg.PCIe.Peer.Rate; peer > 0 {
				slowest = min(slowest, peer) // all data go there
			}
			if carried := slowest.BytesIn(b.e.Now()) + units.Bytes(2*cfg.ReceiveBuffer.Bytes); inside[i] > carried {
				r.Errorf("h%d was written %d bytes in %v, more than %d", i, inside[i], b.e.Now(), carried)
			}
			if ahead := n.chip.Link.Free(pcie.Upstream) - b.e.Now(); ahead > bound {
				r.Errorf("h%d's PCIe is booked %v ahead", i, ahead)
			}
			arrived += n.transport.packets + uint64(n.receiver.queued.N) + n.receiver.buffer.drops
		}
		if got := b.net.Totals().Sent; got != sent {
			r.Errorf("%d packets were sent, and NICs know of %d", got, sent)
		}
		if got := b.net.Totals().Delivered; got != arrived {
			r.Errorf("%d packets were delivered, and NICs know of %d", got, arrived)
		}
		// The load ends, and everything leaves.
		for range 1 << 22 {
			if !b.e.Step() {
				break
			}
		}
		if t := b.net.Totals(); t.Sent != t.Delivered+t.Dropped+t.Lost {
			r.Errorf("%+v: packets are missing", t)
		}
		for i, n := range b.nics {
			for class := range classRooms {
				if requests, responses := n.mac.requestRoom[class].used, n.mac.responseRoom[class].used; requests != 0 || responses != 0 || n.mac.queued.N != 0 {
					r.Errorf("h%d is left with %d and %d bytes of class %d before the wire", i, requests, responses, class)
				}
			}
			n.receiver.buffer.clear(b.e.Now() + units.Second)
			if n.receiver.buffer.used != 0 || n.receiver.buffer.paused {
				r.Errorf("h%d's buffer is left with %d bytes, paused %v", i, n.receiver.buffer.used, n.receiver.buffer.paused)
			}
		}
	})
}

// What senders without acknowledgements send beyond what the receiver takes is dropped
// there, and counted.
func TestUnreliableWritesBeyondTheReceiverAreDropped(t *testing.T) {
	cfg := preset(t, "cx5")
	cfg.TransportCycles = 30 // 60 ns: 16.7 million packets a second
	b := newBed(t, 2, 100*units.Gbps, cfg, lossy)
	x, y := b.connectType(ib.UC, 0, 1, [2]Congestion{}, rc.SendConfig{}, 1024)
	rr, _ := y.nic.RegMR(y.pd, nil, 1<<20, ib.AccessLocalWrite|ib.AccessRemoteWrite)
	post := func(k int) {
		for range k {
			b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 8, RemoteAddr: rr.Addr, RKey: rr.Key}, Inline: make([]byte, 8)})
		}
	}
	sent := 0
	out := make([]CQE, 64)
	x.nic.OnCompletion(x.cq, func(now units.Time, _ bool) {
		n := x.nic.PollCQ(now, x.cq, out)
		sent += n
		post(n)
	})
	post(32)
	const long = 2 * units.Millisecond
	b.e.RunUntil(long)
	s := y.nic.Stats()
	took := float64(s.RxPackets) / float64(long) * float64(units.Second) / 1e6
	t.Logf("%d sent, %.1f M/s taken, %d dropped, %d bytes held at most", sent, took, s.BufferDrops, s.BufferMost)
	if took > 16.8 {
		t.Errorf("the transport takes %.1f million packets a second, of 60 ns each", took)
	}
	if s.BufferDrops == 0 || uint64(sent) > s.RxPackets+s.BufferDrops+uint64(s.BufferMost/frames.MinFrame)+64 {
		t.Errorf("%d were sent, %d taken, %d dropped", sent, s.RxPackets, s.BufferDrops)
	}
}
