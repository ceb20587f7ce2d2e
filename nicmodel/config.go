package nicmodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Config describes a NIC. Presets returns ready ones; the fields' zero values
// are not useful.
type Config struct {
	PCIe PCIeConfig

	// CoreClock drives every stage but the MAC.
	CoreClock Clock
	// Cycles that each stage is occupied for one unit of its work.
	DoorbellCycles   int64 // a doorbell
	WQECycles        int64 // a work queue element
	SchedulerCycles  int64 // a packet chosen
	PacketiserCycles int64 // a packet built
	ParseCycles      int64 // a packet received
	TransportCycles  int64 // a packet through the transport
	CQECycles        int64 // a completion written

	// PipelineLatency is what a packet spends in each of the transmit and the
	// receive pipeline beside the occupancies above: their depth.
	PipelineLatency units.Time

	// TxPackets is how many packets may be between the scheduler and the wire:
	// enough to cover the DMA's latency at the line rate, and not so many that
	// they make a queue of their own.
	TxPackets int
	// WQEBytes and CQEBytes are what one takes in host memory and on PCIe.
	WQEBytes, CQEBytes int
	// MaxInline is the most data that travels inside a WQE. A single WQE with
	// its inline data reaches the NIC with the doorbell (BlueFlame).
	MaxInline int

	Counter Counter // of completion timestamps

	MaxSGE, MaxRdAtomic int
	MaxQPWR             int
}

func (c *Config) validate() error {
	for _, v := range []struct {
		name string
		v    int64
	}{
		{"core_clock", int64(c.CoreClock)}, {"tx_packets", int64(c.TxPackets)}, {"wqe_bytes", int64(c.WQEBytes)},
		{"cqe_bytes", int64(c.CQEBytes)}, {"max_sge", int64(c.MaxSGE)}, {"counter.hz", int64(c.Counter.Hz)},
		{"max_qp_wr", int64(c.MaxQPWR)},
	} {
		if v.v <= 0 {
			return fmt.Errorf("nic: %s is %d; it must be positive", v.name, v.v)
		}
	}
	if c.Counter.Bits < 8 || c.Counter.Bits > 63 {
		return fmt.Errorf("nic: counter.bits is %d; it must be from 8 to 63", c.Counter.Bits)
	}
	return c.PCIe.validate()
}

// gen3x8 has pcie-bench's figures for an 8-lane third-generation link: 57.88
// Gbps of usable TLP bandwidth (SIGCOMM 2018, its model), 64-bit addressing, and
// a round trip that makes a 64-byte read take 546 ns (their BDW system, median).
func gen3x8() PCIeConfig {
	return PCIeConfig{
		Rate: 63 * units.Gbps, MPS: 256, MRRS: 512, RCB: 64, Headers: PCIeBench,
		ReadLatency: 530 * units.Nanosecond, WriteLatency: 250 * units.Nanosecond,
	}
}

func gen4x16() PCIeConfig {
	p := gen3x8()
	p.Rate = 252 * units.Gbps
	return p
}

func gen5x16() PCIeConfig {
	p := gen3x8()
	p.Rate = 504 * units.Gbps
	return p
}

// base has costs that none of the published measurements was fitted to:
// estimates of the right order, to be replaced stage by stage.
func base() Config {
	return Config{
		PCIe: gen3x8(), CoreClock: 500_000_000,
		DoorbellCycles: 2, WQECycles: 4, SchedulerCycles: 2, PacketiserCycles: 3,
		ParseCycles: 2, TransportCycles: 3, CQECycles: 3,
		PipelineLatency: 50 * units.Nanosecond,
		TxPackets:       16, WQEBytes: 64, CQEBytes: 64, MaxInline: 220,
		MaxSGE: 16, MaxRdAtomic: 16, MaxQPWR: 1 << 15,
	}
}

// presets are by name. Clock rates and counter widths are those the drivers
// report (hca_core_clock; 41 bits on mlx5, 48 on mlx4); host links are the
// product's. Everything else is base's.
var presets = map[string]func() Config{
	// A 10 Gbps NIC with OS bypass, of the time of the TIMELY paper.
	"timely10g": func() Config {
		c := base()
		c.TxPackets = 8
		c.Counter = Counter{Hz: 427_000_000, PPB: 7_000, Bits: 48}
		return c
	},
	"cx5": func() Config {
		c := base()
		c.PCIe = gen4x16()
		c.Counter = Counter{Hz: 156_250_000, PPB: 7_000, Bits: 41}
		return c
	},
	"cx6dx": func() Config {
		c := base()
		c.PCIe = gen4x16()
		c.CoreClock = 1_000_000_000
		c.TxPackets = 24
		c.Counter = Counter{Hz: 1_000_000_000, PPB: 7_000, Bits: 41}
		return c
	},
	"cx7": func() Config {
		c := base()
		c.PCIe = gen5x16()
		c.CoreClock = 1_000_000_000
		c.Counter = Counter{Hz: 1_000_000_000, PPB: 7_000, Bits: 41}
		c.TxPackets = 48
		return c
	},
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
