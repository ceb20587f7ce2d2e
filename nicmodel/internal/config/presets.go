package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// packetPacing is the rate limiter of the mlx5 devices: 127 rates and one entry for
// none, from 1 kb/s to most. (The kernel's driver prints these when it loads; the unit
// is that of ibv_qp_rate_limit_attr.) The tick is an estimate: the vendor says that gaps
// are a few nanoseconds. The burst of one packet, for a limit that names none, is also
// an estimate: the vendor says a few packets.
func packetPacing(most units.Rate) Limiter {
	return Limiter{Rates: 127, MinRate: units.Kbps, MaxRate: most, Step: units.Kbps, Tick: 8 * units.Nanosecond}
}

// stateBytes is what eRPC (NSDI 2019), as recalled, says of a ConnectX-5: about 2 MB on the chip for all
// that it keeps of connections, memory and queues. Generations before have half as much each, but for cx3, whose is fitted: an estimate.
const stateBytes = 2 * units.MiB

// elementBytes is the memory for elements of Reads and atomics under way: SMART (ASPLOS 2024), as
// recalled, has the rate of a ConnectX-6 fall with more than 768 requests outstanding, and lays that to its cache of
// work requests. Devices between and before have as much, or half, or a quarter: estimates, but for Connect-IB's.
const elementBytes = 768 * pcie.CacheLine

// elementCycles is what an element takes in stage wqe: an estimate.
const elementCycles = 4

// base has costs that none of the published measurements was fitted to:
// estimates of the right order, to be replaced stage by stage.
func base() Config {
	return Config{
		PCIe: pcie.Hosted(pcie.Gen3x8(), pcie.ExtendedTags, pcie.IIOLines), CoreClock: 500_000_000,
		DoorbellCycles: 2, WQECycles: elementCycles, SchedulerCycles: 2, PacketiserCycles: 3,
		ParseCycles: 2, TransportCycles: 3, CQECycles: 3,
		PipelineLatency: 50 * units.Nanosecond,
		ReceiveBuffer:   ReceiveBuffer{Bytes: portBuffer},
		Queues:          Queues{Doorbells: 1 << 16, Acks: 256, Completions: 128},
		Receives:        Receives{Prefetch: 16, Batch: 4},
		TxBuffer:        16 * kilobytePacket, CQEBytes: 64, MaxInline: 220, WQEPrefetch: 128,
		State: State{Bytes: stateBytes, Elements: elementBytes, Ways: 8, Fetches: 16, Context: 256},
		// As connectib, whose places are from a measurement: an estimate for the others.
		Atomics: Atomics{InFlight: 23, Locks: 4096, Cycles: 2},
		MaxSGE:  30, MaxRdAtomic: 16, MaxQPWR: 1 << 15,
	}
}

// kilobytePacket is the room of a packet with a payload of 1 KiB before the wire.
const kilobytePacket = SlotBytes + 1024

// portBuffer is the receive buffer of a port that the vendor's guide to tuning it shows
// (HowTo Tune Receive Buffers on Mellanox Adapter Cards, of the time of ConnectX-4 and -5),
// in bytes. For other devices it is an estimate.
const portBuffer = 262016

// mlx5Depth is how deep the pipelines of ConnectX-5 are, each way, fitted to
// the latencies of 8-byte messages between two of them (docs/nic-figures.md, row L1:
// 0.99 us for a WRITE, 0.92 us for a SEND; the depth lies between the two fits) less what the hosts
// take to post and to poll and the link to correct errors. The same time for other mlx5 devices is an estimate: the vendor
// says sub-600 ns of ConnectX-5 (brief of the EN card) and of ConnectX-6 (its EN user manual) alike, though the latter does more
// messages a second.
const mlx5Depth = 38 * units.Nanosecond

// messageClock is the core clock at which the slowest of base's stages, the elements', does
// a number of million messages a second, a product's brief's: an estimate for devices whose firmware's
// report of it (mlxuptime) was not found. The rate of their timestamps says nothing of it.
func messageClock(million stage.Clock) stage.Clock { return million * 1_000_000 * elementCycles }

// adpRetrans is adaptive retransmission with first timeouts of 4 us << low, or one of the n - 1 that
// follow by doubling.
func adpRetrans(low, n int) AdpRetrans {
	return AdpRetrans{Enabled: true, TimeBase: 4 * units.Microsecond, TimeoutInitLowBound: low, TimeoutInitRangeSize: n}
}

// lossy is what ConnectX-5 and later have for networks that lose packets.
func lossy(low, n int) Transport {
	return Transport{AdpRetrans: adpRetrans(low, n), SlowRestart: true, NAKTime: quickNAK}
}

// Times from a gap to the repetition, as recalled of Lumina (SIGCOMM 2023) and not checked: ConnectX-5 and -6 Dx take some 2 us to make a NAK
// and 2 to 6 us to react to it, a ConnectX-4 Lx some 200 us in all, a hundred round trips.
const (
	quickNAK = 6 * units.Microsecond
	slowNAK  = 200 * units.Microsecond
)

// presets are by name. The rates and widths of counters are those the drivers
// report (hca_core_clock; 41 bits on mlx5, 48 on mlx4); host links are the
// product's. Everything else is base's.
var presets = map[string]func() Config{
	// A 10 Gbps NIC with OS bypass, of the time of the TIMELY paper.
	"timely10g": func() Config {
		c := base()
		c.PCIe.Tags = pcie.PlainTags
		c.TxBuffer = 8 * kilobytePacket
		c.State.Bytes, c.State.Elements = stateBytes/8, elementBytes/4
		c.Counter = stage.Counter{Hz: 427_000_000, PPB: 7_000, Bits: 48}
		return c
	},
	// The two adapters of Kalia et al. (ATC 2016), on InfiniBand.
	"cx3": func() Config {
		c := base()
		c.CoreClock = 427_000_000
		c.Counter = stage.Counter{Hz: 427_000_000, PPB: 7_000, Bits: 48}
		c.PCIe = pcie.Hosted(pcie.LaneBytes(8), pcie.PlainTags, pcie.IIOLines)
		// Fitted to READs over 144 and 720 queue pairs (docs/nic-figures.md, rows apt-read32-144qp and -720qp).
		c.State.Bytes, c.State.Fetches = 64*units.KiB, 2
		c.State.Elements, c.State.Posted = elementBytes/4, true
		c.WQECycles = 2
		c.TxBuffer, c.BlueFlameBusy = 32*kilobytePacket, true
		c.Units = Units{Units: 4, Request: 49, Answer: 24, Read: 16, Replay: true}
		c.Atomics.InFlight, c.Atomics.Locks = 8, 1
		c.MaxSGE, c.MaxQPWR = 32, 16351
		c.Framing = fabric.InfiniBand
		return c
	},
	"connectib": func() Config {
		c := base()
		c.Counter = stage.Counter{Hz: 156_250_000, PPB: 7_000, Bits: 41}
		c.PCIe = pcie.Hosted(pcie.LaneBytes(16), pcie.ExtendedTags, pcie.IIOLines)
		// Elements are read again from some number between 448 and 896 requests on (Kalia et al., ATC 2016, figure 13b).
		c.State.Bytes, c.State.Elements, c.State.Posted = stateBytes/4, 512*pcie.CacheLine, true
		c.WQECycles = 2
		c.TxBuffer, c.BlueFlameBusy, c.MaxInline = 128*kilobytePacket, true, 512
		c.Units = Units{Units: 16, Request: 58, Answer: 29, Replay: true}
		c.Framing = fabric.InfiniBand
		return c
	},
	// 25 and 50 Gbps. The vendor's documentation of mlxuptime has its core clock, and its brief
	// 75 million messages/s, which the cycles of an element make.
	"cx4lx": func() Config {
		c := base()
		c.CoreClock = 427_000_000
		c.PipelineLatency = mlx5Depth
		c.WQECycles = 6
		c.State.Bytes, c.State.Elements = stateBytes/2, elementBytes/2
		c.TxBuffer = 12 * kilobytePacket
		c.Limiter = packetPacing(25 * units.Gbps)
		c.Transport.AdpRetrans, c.Transport.NAKTime = adpRetrans(9, 1), slowNAK
		c.Counter = stage.Counter{Hz: 156_250_000, PPB: 7_000, Bits: 41}
		return c
	},
	"cx5": func() Config {
		c := base()
		c.PCIe = pcie.Hosted(pcie.Gen4x16(), pcie.ExtendedTags, 2*pcie.IIOLines)
		c.PipelineLatency = mlx5Depth
		c.Counter = stage.Counter{Hz: 156_250_000, PPB: 7_000, Bits: 41}
		c.Limiter = packetPacing(100 * units.Gbps)
		c.Transport = lossy(9, 1)
		return c
	},
	"cx6": cx6,
	"cx6ib": func() Config {
		c := cx6()
		c.Framing = fabric.InfiniBand
		c.Transport = Transport{} // what it has is RoCE's
		return c
	},
	"cx6dx": func() Config {
		c := base()
		c.PCIe = pcie.Hosted(pcie.Gen4x16(), pcie.ExtendedTags, 2*pcie.IIOLines)
		c.CoreClock = messageClock(215)
		c.PipelineLatency = mlx5Depth
		c.TxBuffer = 24 * kilobytePacket
		c.Counter = stage.Counter{Hz: 1_000_000_000, PPB: 7_000, Bits: 41}
		c.Limiter = packetPacing(100 * units.Gbps)
		c.SendTime.Tick = clockQueueTick
		c.Transport = lossy(10, 1)
		return c
	},
	"cx7": func() Config {
		c := base()
		c.PCIe = pcie.Hosted(pcie.Gen5x16(), pcie.ExtendedTags, 4*pcie.IIOLines)
		c.CoreClock = messageClock(330)
		c.PipelineLatency = mlx5Depth
		c.Counter = stage.Counter{Hz: 1_000_000_000, PPB: 7_000, Bits: 41}
		c.TxBuffer = 48 * kilobytePacket
		c.Limiter = packetPacing(200 * units.Gbps)
		c.Transport = lossy(10, 1)
		c.SendTime.Tick = c.Limiter.Tick // waits for a time by itself; how exactly is an estimate
		return c
	},
}

// clockQueueTick is the finest granularity (tx_pp) with which DPDK's mlx5 guide lets software schedule sends on a ConnectX-6
// Dx. It has a clock queue, whose completions other queues wait for. The guide needs that generation.
const clockQueueTick = 500 * units.Nanosecond

// cx6 is a ConnectX-6 (part 4123) at 200 Gbps Ethernet; cx6ib is it at InfiniBand HDR.
func cx6() Config {
	c := base()
	c.PCIe = pcie.Hosted(pcie.Gen4x16(), pcie.ExtendedTags, 2*pcie.IIOLines)
	c.CoreClock = messageClock(215)
	c.PipelineLatency = mlx5Depth
	c.Units = Units{Units: 16, Request: 64, Answer: 32} // as connectib's, at the brief's rate
	c.TxBuffer = 24 * kilobytePacket
	c.Counter = stage.Counter{Hz: 156_250_000, PPB: 7_000, Bits: 41}
	c.Limiter = packetPacing(200 * units.Gbps)
	c.Transport = lossy(11, 4)
	return c
}

// Preset returns the NIC of that name.
func Preset(name string) (Config, error) {
	f, ok := presets[name]
	if !ok {
		return Config{}, fmt.Errorf("no NIC preset is called %q: take one of %s", name, strings.Join(Presets(), ", "))
	}
	return f(), nil
}

// Presets lists the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }
