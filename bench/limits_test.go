package bench

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// nicLoad is a workload of NICs around one switch: queue pairs from the other hosts to
// host 0, each of which keeps its window full.
type nicLoad struct {
	preset string
	change func(*nicmodel.Config)
	// changeReceiver is for host 0 alone, after change.
	changeReceiver func(*nicmodel.Config)
	network        func(*fabric.Config)
	line           units.Rate
	senders        int
	pairs          int // of each sender
	op             ib.WROpcode
	size           uint32
	inline         bool
	window         int
	wait           units.Time // of each request, by its send time
	function       int        // of the senders
	control        cc.Control // of an engine in the NIC; the zero value for none
	spread         uint64     // bytes over which requests of a sender lie
	onGPU          [2]bool    // whether the memory of host 0 and that of the senders is the peer device's
}

// steady is an engine that never changes its mind.
type steady struct{ control cc.Control }

func (s steady) OnAck(*cc.Ack) cc.Control        { return s.control }
func (s steady) OnLoss(units.Time) cc.Control    { return s.control }
func (s steady) OnTimeout(units.Time) cc.Control { return s.control }
func (s steady) OnCNP(units.Time) cc.Control     { return s.control }
func (s steady) Control() cc.Control             { return s.control }

// gpu is a device beside the NIC, with 16 lanes of the fourth generation or such a rate, that gives no more than read.
func gpu(read, rate units.Rate) func(*nicmodel.Config) {
	return func(c *nicmodel.Config) {
		c.PCIe.Peer = nicmodel.PeerConfig{Rate: 227_400 * units.Mbps, ReadRate: read, ReadLatency: 700 * units.Nanosecond, WriteLatency: 300 * units.Nanosecond}
		if rate > 0 {
			c.PCIe.Peer.Rate = rate
		}
	}
}

// limits runs a workload and returns what the NICs of host 0 and host 1 are said to be
// limited by.
func (l *nicLoad) limits(t *testing.T) (receiver, sender results.NICUse) {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := nicmodel.Preset(l.preset)
	fail(err)
	if l.change != nil {
		l.change(&cfg)
	}
	e, network := des.New(), fabric.Default()
	for i := range network.Switch.Classes {
		network.Switch.Classes[i].PFC.Lossless = true
	}
	if l.network != nil {
		l.network(&network)
	}
	net, err := fabric.New(e, fabric.Star(l.senders+1, fabric.Link{Rate: l.line, Delay: 200 * units.Nanosecond, Framing: cfg.Framing}), network, 1)
	fail(err)
	frames := nicmodel.NewFrames(net)
	var nics []*nicmodel.NIC
	for h := range l.senders + 1 {
		cfg := cfg
		if h == 0 && l.changeReceiver != nil {
			l.changeReceiver(&cfg)
		}
		nic, err := nicmodel.New(e, net, frames, h, l.line, cfg)
		fail(err)
		nics = append(nics, nic)
	}
	const all = ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic
	to := nics[0]
	register := func(n *nicmodel.NIC, gpu bool) func(uint32, []byte, uint64, ib.AccessFlags) (nicmodel.Region, error) {
		if gpu {
			return n.RegPeer
		}
		return n.RegMR
	}
	there, err := register(to, l.onGPU[0])(to.AllocPD(), nil, 1<<24, all)
	fail(err)
	for h, from := range nics[1:] {
		here, err := register(from, l.onGPU[1])(from.AllocPD(), nil, 1<<24, all)
		fail(err)
		for pair := range l.pairs {
			var num, cqs [2]uint32
			for i, n := range []*nicmodel.NIC{from, to} {
				cqs[i], err = n.CreateCQ(1 << 12)
				fail(err)
				num[i], err = n.CreateQP(nicmodel.QPConfig{PD: 1, SendCQ: cqs[i], RecvCQ: cqs[i], SendDepth: 1 << 10, RecvDepth: 1, SGEs: 1})
				fail(err)
			}
			for i, n := range []*nicmodel.NIC{from, to} {
				cong := nicmodel.Congestion{BaseRTT: 5 * units.Microsecond}
				if i == 0 && l.control.Rate > 0 {
					cong.Engine = steady{l.control}
				}
				n.Init(num[i])
				if i == 0 {
					fail(n.SetFunction(num[i], l.function))
				}
				fail(n.ReadyToReceive(num[i], nicmodel.Peer{Host: i * (h + 1), QPN: num[1-i], FlowHash: num[i]}, cong,
					rc.Config{MTU: 1024, MaxDestRdAtomic: 16, MinRNRTimer: 1, Access: all}))
				fail(n.ReadyToSend(num[i], rc.SendConfig{Timeout: 14, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 16, AckReqEvery: 16}))
			}
			at := uint64(pair*len(nics)+h) * 328 // so that pairs are not at the same words at a time
			post := func() {
				wr := nicmodel.WR{Request: rc.Request{Op: l.op, Signaled: true, Length: l.size, RemoteAddr: there.Addr + at%max(l.spread, 1), RKey: there.Key}}
				at += 72 // all locks of atomics in turn
				if l.inline {
					wr.Inline = make([]byte, l.size)
				} else {
					wr.SGL = []nicmodel.SGE{{Addr: here.Addr, Length: l.size, Key: here.Key}}
				}
				if l.wait > 0 {
					fail(from.WaitUntil(num[0], e.Now()+l.wait))
				}
				fail(from.PostSend(num[0], &wr))
				from.Ring(e.Now(), num[0], 1)
			}
			out := make([]nicmodel.CQE, 64)
			from.OnCompletion(cqs[0], func(now units.Time, _ bool) {
				for range from.PollCQ(now, cqs[0], out) {
					post()
				}
			})
			for range l.window {
				post()
			}
		}
	}
	const warm, end = 60 * units.Microsecond, 160 * units.Microsecond
	looks := []nicLook{{nic: nics[0], name: "h0"}, {nic: nics[1], name: "h1"}}
	e.RunUntil(warm)
	for i := range looks {
		looks[i].begin(warm)
	}
	e.RunUntil(end)
	uses := []results.NICUse{looks[0].use(end, nil), looks[1].use(end, nil)}
	results.Explain(uses)
	return uses[0], uses[1]
}

// The sentence names what limits, of which one knows by how the workload was made.
func TestWhatLimits(t *testing.T) {
	notUnderRace(t)
	const gbps = units.Gbps
	for _, c := range []struct {
		name     string
		load     nicLoad
		sender   string // parts of the sentence, between ...
		receiver string
	}{
		{
			"wire", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8},
			"the wire is busy ", "It answers others, who limit",
		},
		{
			"PCIe of a small slot", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, change: func(c *nicmodel.Config) {
				c.PCIe.Rate = 30 * gbps
			}},
			"PCIe from the host is busy ... of them payload", "PCIe to the host is busy ... of them payload",
		},
		{
			"PCIe towards the receiver", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMARead, size: 1 << 16, window: 8, change: func(c *nicmodel.Config) {
				c.PCIe.Rate = 30 * gbps
			}},
			"PCIe to the host is busy ... of them payload", "PCIe from the host is busy ... of them payload",
		},
		{
			"processing units", nicLoad{preset: "connectib", line: 56 * gbps, senders: 1, pairs: 32, op: ib.WRRDMAWrite, size: 8, inline: true, window: 16, change: func(c *nicmodel.Config) {
				c.PCIe.Rate *= 2 // so that doorbells do not limit
			}},
			"the processing units are busy ", "",
		},
		{
			"one unit for one queue pair", nicLoad{preset: "connectib", line: 56 * gbps, senders: 1, pairs: 1, op: ib.WRRDMAWrite, size: 8, inline: true, window: 64},
			"one unit for each queue pair limits", "It answers others, who limit",
		},
		{
			"the receiver's units", nicLoad{preset: "connectib", line: 56 * gbps, senders: 3, pairs: 16, op: ib.WRRDMAWrite, size: 8, inline: true, window: 8},
			"requests are under way on average ... that latency limits", "the processing units are busy ",
		},
		{
			"doorbells", nicLoad{preset: "cx5", line: 100 * gbps, senders: 1, pairs: 32, op: ib.WRRDMAWrite, size: 200, inline: true, window: 1, change: func(c *nicmodel.Config) {
				c.PCIe.Rate, c.MaxInline = 10*gbps, 512
			}},
			"PCIe from the host is busy ... of them doorbell", "",
		},
		{
			"latency of one request", nicLoad{preset: "cx5", line: 100 * gbps, senders: 1, pairs: 1, op: ib.WRRDMAWrite, size: 8, inline: true, window: 1},
			"no stage above ... 0.9 requests are under way on average, ... that latency limits", "It answers others",
		},
		{
			"the engine's rate", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, control: cc.Control{Rate: 2 * gbps, Window: cc.Unlimited}},
			"the rate of the engine, or the one that was set, limits, for which ... of 4.0 queue pairs", "It answers others",
		},
		{
			"a function's rate", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, function: 1, change: func(c *nicmodel.Config) {
				c.Functions = []nicmodel.FunctionConfig{{}, {MaxTxRate: 5 * gbps}}
			}},
			"the function's max_tx_rate limits, for which ... of 4.0 queue pairs", "It answers others",
		},
		{
			"send times", nicLoad{preset: "cx7", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 12, window: 4, wait: 20 * units.Microsecond},
			"the send times of requests limit, for which ... wait on average", "It answers others",
		},
		{
			"the engine's window", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, control: cc.Control{Rate: 100 * gbps, Window: 4096}},
			"the engine's window limits, for which ... of 4.0 queue pairs", "It answers others",
		},
		{
			"room before the wire", nicLoad{preset: "cx6dx", line: 400 * gbps, senders: 1, pairs: 16, op: ib.WRRDMAWrite, size: 64, window: 32, change: func(c *nicmodel.Config) {
				c.TxBuffer = 4200
			}},
			"stage scheduler waits ... for room before the wire ... latency limits, not a rate, with 25.0 packets on their way to the wire", "It answers others",
		},
		{
			"tags", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, change: func(c *nicmodel.Config) {
				c.PCIe.Tags = 4
			}},
			"the number of PCIe reads at a time (tags) limits", "It answers others",
		},
		{
			"page walks", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, spread: 1 << 23, change: func(c *nicmodel.Config) {
				c.PCIe.IOMMU = nicmodel.IOMMUConfig{Entries: 2, PageSize: 4096, Miss: 500 * units.Nanosecond, Walkers: 1}
			}},
			"the number of page walks at a time limits", "",
		},
		{
			"atomics at one address", nicLoad{preset: "connectib", line: 56 * gbps, senders: 1, pairs: 16, op: ib.WRAtomicFetchAndAdd, size: 8, window: 8},
			"that latency limits", "the lock of the words that atomics change limits",
		},
		{
			"atomics at many", nicLoad{preset: "connectib", line: 56 * gbps, senders: 3, pairs: 16, op: ib.WRAtomicFetchAndAdd, size: 8, window: 16, spread: 1 << 22},
			"requests are under way on average ... that latency limits", "the atomics unit is busy ",
		},
		{
			"the network's pauses", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, network: func(f *fabric.Config) {
				f.Switch.Buffer = 1 << 20
			}},
			"the wire waits ... for the end of a pause ... the network limits; the busiest", "",
		},
		{
			"the receiver's slot, by pauses", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, network: func(f *fabric.Config) {
				f.Switch.Buffer = 1 << 20
			}, changeReceiver: func(c *nicmodel.Config) {
				c.PCIe.Rate = 30 * gbps
			}},
			"the wire waits ... for the end of a pause ... the network limits, which h0's NIC pauses;", "PCIe to the host is busy ... of them payload",
		},
		{
			"the receiver's slot, by drops", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, network: func(f *fabric.Config) {
				for i := range f.Switch.Classes {
					f.Switch.Classes[i].PFC.Lossless = false
				}
			}, changeReceiver: func(c *nicmodel.Config) {
				c.PCIe.Rate = 30 * gbps
			}},
			"", "PCIe to the host is busy ... of them payload",
		},
		{
			"the receiver's memory", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, changeReceiver: func(c *nicmodel.Config) {
				c.PCIe.Memory = nicmodel.MemoryConfig{Rate: 100 * gbps, Load: 200 * gbps, Outstanding: 16 << 10}
			}},
			"", "the host's memory, which holds posted credits, limits, for which",
		},
		{
			"the receiver's memory behind too small a cache", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, changeReceiver: func(c *nicmodel.Config) {
				c.PCIe.HostCache = nicmodel.HostCacheConfig{Size: 1 << 20, Writes: 1 << 14, Miss: 60 * units.Nanosecond}
				c.PCIe.Memory = nicmodel.MemoryConfig{Rate: 100 * gbps, Load: 200 * gbps, Outstanding: 16 << 10}
			}},
			"", "the host's memory, which holds posted credits, limits, for which",
		},
		{
			"the receiver's cache", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, changeReceiver: func(c *nicmodel.Config) {
				c.PCIe.HostCache = nicmodel.HostCacheConfig{Size: 1 << 20, Writes: 1 << 20, Miss: 60 * units.Nanosecond}
				c.PCIe.Memory = nicmodel.MemoryConfig{Rate: 100 * gbps, Load: 200 * gbps, Outstanding: 16 << 10}
			}},
			"", "It answers others, who limit", // nothing goes to memory
		},
		{
			"the sender's memory", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, change: func(c *nicmodel.Config) {
				c.PCIe.Tags, c.PCIe.Memory = 32, nicmodel.MemoryConfig{Rate: 100 * gbps, Load: 200 * gbps, Outstanding: 64 << 10}
			}, changeReceiver: func(c *nicmodel.Config) { c.PCIe.Memory = nicmodel.MemoryConfig{} }},
			"the host's memory, whose answers hold PCIe's tags, limits, for which", "It answers others",
		},
		{
			"the receiver's IOMMU", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, spread: 1 << 23, changeReceiver: func(c *nicmodel.Config) {
				c.PCIe.IOMMU = nicmodel.IOMMUConfig{Entries: 2, PageSize: 4096, Miss: 2 * units.Microsecond}
			}},
			"", "the host's IOMMU, whose page walks hold posted credits, limits, for which",
		},
		{
			"a GPU that is read through a slow root complex", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, onGPU: [2]bool{false, true}, change: gpu(27*gbps, 0)},
			"the device that is read over PCIe limits, for which", "It answers others",
		},
		{
			"a GPU in a slow slot", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 3, pairs: 2, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, onGPU: [2]bool{true, false}, change: gpu(0, 57_880*units.Mbps)},
			"", "the device that is written over PCIe, which holds posted credits, limits, for which",
		},
		{
			"a GPU as fast as the NIC", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 4, op: ib.WRRDMAWrite, size: 1 << 16, window: 8, onGPU: [2]bool{true, true}, change: gpu(0, 0)},
			"the wire is busy", "It answers others",
		},
		{
			"a core's cycles", nicLoad{preset: "cx6dx", line: 100 * gbps, senders: 1, pairs: 32, op: ib.WRRDMAWrite, size: 8, inline: true, window: 32, change: func(c *nicmodel.Config) {
				c.WQECycles = 60
			}},
			"stage wqe is busy ... 60 cycles for each", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			receiver, sender := c.load.limits(t)
			for _, x := range []struct {
				u    results.NICUse
				want string
			}{{sender, c.sender}, {receiver, c.receiver}} {
				checkUse(t, &x.u, 100*units.Microsecond)
				rest := x.u.Bottleneck
				for _, part := range strings.Split(x.want, "...") {
					var ok bool
					if _, rest, ok = strings.Cut(rest, strings.TrimSpace(part)); !ok {
						t.Errorf("%s\nwant %s", x.u.Bottleneck, x.want)
						break
					}
				}
			}
		})
	}
}
