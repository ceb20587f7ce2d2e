package nicvalidate

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// nfp6000 is the device of pcie-bench and its Broadwell host. What a link carries is
// row P2, the headers P1. Read latency and the rate of the copy inside the device are fitted
// to row P3. The engine takes 47 million transfers a second, as pcie-bench says of it.
func nfp6000() nicmodel.PCIeConfig {
	const issue = units.Second / 47_000_000
	return nicmodel.PCIeConfig{
		Rate: 57_880 * units.Mbps, MPS: 256, MRRS: 512, RCB: 64, Headers: nicmodel.PCIeBench,
		ReadLatency: 538 * units.Nanosecond, WriteLatency: 250 * units.Nanosecond,
		ReadIssue: issue, WriteIssue: issue, StagingRate: 62 * units.Gbps,
	}
}

// underway is how many transfers pcie-bench's device keeps under way in throughput
// tests: enough that the engine and the link limit it, not this.
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
		{Row: "P8", Preset: "nfp6000", How: fmt.Sprintf("%d reads under way", underway), Figure: func(at string) (float64, error) {
			return throughput(at, func(p *nicmodel.PCIe, t units.Time, addr uint64, n int) units.Time {
				return p.Read(t, addr, n, nicmodel.ForPayload)
			})
		}},
		{Row: "P9", Preset: "nfp6000", How: fmt.Sprintf("%d writes under way", underway), Figure: func(at string) (float64, error) {
			return throughput(at, func(p *nicmodel.PCIe, t units.Time, addr uint64, n int) units.Time {
				sent, _ := p.Write(t, addr, n, nicmodel.ForPayload)
				return sent
			})
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
	sent, _ := p.Write(0, 0, 1_000_000, nicmodel.ForPayload)
	wire := p.Traffic(nicmodel.Upstream, nicmodel.MemWr, nicmodel.ForPayload).Bytes
	return float64(wire) * 8 / sent.Nanoseconds(), nil
}

// throughput is the payload in Gbps of transfers of a size, one after the other in a
// window of memory, each asked for when an earlier one is done.
func throughput(at string, transfer func(p *nicmodel.PCIe, t units.Time, addr uint64, n int) units.Time) (float64, error) {
	n, err := size(at)
	if err != nil {
		return 0, err
	}
	p, err := nicmodel.NewPCIe(nfp6000())
	if err != nil {
		return 0, err
	}
	const transfers, window = 20_000, 8192
	done := make([]units.Time, underway) // sorted; when each of those under way is
	var last, from units.Time
	for i := range transfers {
		at := done[0]
		end := transfer(p, at, uint64(i*n%window), n)
		k, _ := slices.BinarySearch(done[1:], end)
		copy(done, done[1:k+1])
		done[k] = end
		last = max(last, end)
		if i == transfers/10 {
			from = last
		}
	}
	return float64(transfers-transfers/10-1) * float64(n) * 8 / (last - from).Nanoseconds(), nil
}
