package nicvalidate

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// nfp6000 is the device of pcie-bench and its Broadwell host. The link's rate is row P2,
// the headers P1. The rate of the copies inside the device, and the whole time of a DMA
// read, are fitted to row P3. The host's share of that time is fitted to PB1, where the
// device's processors read without the engine. The engine takes 47 million writes a
// second, as pcie-bench reports. It has 32 tags: lspci of that machine shows ExtTag-, and
// a tag without extension has 5 bits.
func nfp6000() nicmodel.PCIeConfig {
	return nicmodel.PCIeConfig{
		Rate: 57_880 * units.Mbps, MPS: 256, MRRS: 512, RCB: 64, Headers: nicmodel.PCIeBench,
		ReadLatency: 478 * units.Nanosecond, WriteLatency: 250 * units.Nanosecond, PushLatency: 61 * units.Nanosecond,
		Tags: 32, WriteIssue: units.Second / 47_000_000, StagingRate: 62 * units.Gbps,
		ReadSetup: 60 * units.Nanosecond, WriteSetup: 193 * units.Nanosecond,
	}
}

// underway is the number of transfers pcie-bench's device keeps under way in throughput
// tests: enough that the engine, its tags and the link limit it, not this.
const underway = 64

func pcieRows() []Measurement {
	return []Measurement{
		{Row: "P1", Preset: "nfp6000", How: "bytes of a transfer of 64 bytes on the link, less the 64", Figure: func(at string) (float64, error) { return headers(nfp6000(), at) }},
		{Row: "P2", How: "writes of 1 MB, TLPs with their headers", Figure: usable},
		{Row: "P3", Preset: "nfp6000", How: "one read at a time, from cache-line-aligned memory", Figure: func(at string) (float64, error) {
			n, err := size(at)
			if err != nil {
				return 0, err
			}
			p, err := nicmodel.NewPCIe(nfp6000())
			if err != nil {
				return 0, err
			}
			return p.Read(0, 0, n, nicmodel.ForPayload).Nanoseconds(), nil
		}},
		{Row: "P8", Preset: "nfp6000", How: fmt.Sprintf("%d reads under way, of which the device's 32 tags let as many out", underway), Figure: func(at string) (float64, error) {
			return throughput(at, readOf)
		}},
		{Row: "P9", Preset: "nfp6000", How: fmt.Sprintf("%d writes under way", underway), Figure: func(at string) (float64, error) {
			return throughput(at, writeOf)
		}},
		{Row: "K2", Preset: "connectib", How: "as P1", Figure: func(at string) (float64, error) {
			c, err := preset("connectib")
			if err != nil {
				return 0, err
			}
			return headers(c.PCIe, at)
		}},
	}
}

// size reads "64 B".
func size(at string) (n int, err error) {
	if _, err = fmt.Sscanf(at, "%d B", &n); err != nil {
		return 0, noPoint(at)
	}
	return n, nil
}

func headers(c nicmodel.PCIeConfig, at string) (float64, error) {
	p, err := nicmodel.NewPCIe(c)
	if err != nil {
		return 0, err
	}
	const n = 64
	p.Read(0, 0, n, nicmodel.ForPayload)
	switch at {
	case "request":
		return float64(p.Traffic(nicmodel.Upstream, nicmodel.MemRd, nicmodel.ForPayload).Bytes), nil
	case "completion":
		return float64(p.Traffic(nicmodel.Downstream, nicmodel.CplD, nicmodel.ForPayload).Bytes - n), nil
	}
	return 0, noPoint(at)
}

// usable is row P2: the link of a preset of that generation and width.
func usable(at string) (float64, error) {
	var c nicmodel.PCIeConfig
	if at == "gen3 x8" {
		c = nfp6000()
	} else {
		name := map[string]string{"gen3 x16": "connectib", "gen4 x16": "cx6dx", "gen5 x16": "cx7"}[at]
		if name == "" {
			return 0, noPoint(at)
		}
		nic, err := preset(name)
		if err != nil {
			return 0, err
		}
		c = nic.PCIe
	}
	p, err := nicmodel.NewPCIe(c)
	if err != nil {
		return 0, err
	}
	p.Write(0, 0, 1_000_000, nicmodel.ForPayload)
	wire := p.Traffic(nicmodel.Upstream, nicmodel.MemWr, nicmodel.ForPayload).Bytes
	return float64(wire) * 8 / p.Free(nicmodel.Upstream).Nanoseconds(), nil
}

// throughput is the payload in Gbps of transfers of a size, one after the other in a
// window of memory.
func throughput(at string, transfer transfer) (float64, error) {
	n, err := size(at)
	if err != nil {
		return 0, err
	}
	p, err := nicmodel.NewPCIe(nfp6000())
	if err != nil {
		return 0, err
	}
	return sustained(p, n, inTurn(n), transfer), nil
}

// transfer does one and returns when the device can do another in its place.
type transfer func(p *nicmodel.PCIe, t units.Time, addr uint64, n int) units.Time

func readOf(p *nicmodel.PCIe, t units.Time, addr uint64, n int) units.Time {
	return p.Read(t, addr, n, nicmodel.ForPayload)
}

func writeOf(p *nicmodel.PCIe, t units.Time, addr uint64, n int) units.Time {
	sent, _ := p.Write(t, addr, n, nicmodel.ForPayload)
	return sent
}

// inTurn returns addresses one after the other in 8 KiB.
func inTurn(n int) func() uint64 {
	at := 0
	return func() uint64 {
		at += n
		return uint64((at - n) % 8192)
	}
}

// sustained is the payload in Gbps of transfers of n bytes, each requested when an
// earlier one is done.
func sustained(p *nicmodel.PCIe, n int, addr func() uint64, transfer transfer) float64 {
	const transfers = 20_000
	done := make([]units.Time, underway) // sorted; when each of those under way is
	var last, from units.Time
	for i := range transfers {
		end := transfer(p, done[0], addr(), n)
		k, _ := slices.BinarySearch(done[1:], end)
		copy(done, done[1:k+1])
		done[k] = end
		last = max(last, end)
		if i == transfers/10 {
			from = last
		}
	}
	return float64(transfers-transfers/10-1) * float64(n) * 8 / (last - from).Nanoseconds()
}
