package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// DMAConfig describes a DMA engine by itself: a PCIe device that moves data and
// nothing else, such as those that PCIe is measured with.
type DMAConfig struct {
	PCIe  PCIeConfig
	Clock Clock
	// IssueCycles is how long the engine is occupied by one transfer before it can
	// take the next.
	IssueCycles int64
	// Internal is the rate at which a transfer's data moves between the PCIe
	// interface and the device's memory, once all of it is on the one side.
	Internal units.Rate
}

// NFP6000 is the device of pcie-bench (Neugebauer et al., SIGCOMM 2018) in its
// Broadwell system: PCIe 3.0 x8 with 57.88 Gbps at the transaction layer. The read
// latency and the internal rate are fitted to its read latencies of 64 to 2048 bytes; its
// engine takes some 47 million transfers a second.
func NFP6000() DMAConfig {
	p := gen3x8()
	p.Rate = 57_880 * units.Mbps
	p.ReadLatency = 524 * units.Nanosecond
	return DMAConfig{PCIe: p, Clock: 1_200_000_000, IssueCycles: 25, Internal: 62 * units.Gbps}
}

// DMA is a DMA engine on a PCIe link of its own. It has no events: each transfer is
// asked for at an instant, no earlier than the one before, and says when it is done.
type DMA struct {
	cfg    DMAConfig
	link   pcie
	engine Stage
	moved  units.Time // when the way to the device's memory is free
}

// NewDMA returns an engine and its link, idle. It fails for a configuration that
// lacks a rate, a clock or a size.
func NewDMA(c DMAConfig) (*DMA, error) {
	switch {
	case c.PCIe.Rate <= 0 || c.Internal <= 0:
		return nil, fmt.Errorf("dma: rates of %v on PCIe and %v inside; both must be positive", c.PCIe.Rate, c.Internal)
	case c.PCIe.MPS <= 0 || c.PCIe.MRRS <= 0:
		return nil, fmt.Errorf("dma: MPS %d and MRRS %d; both must be positive", c.PCIe.MPS, c.PCIe.MRRS)
	case c.Clock == 0 || c.IssueCycles < 0:
		return nil, fmt.Errorf("dma: %d cycles of %d Hz a transfer; give a clock", c.IssueCycles, c.Clock)
	}
	return &DMA{cfg: c, link: pcie{PCIeConfig: c.PCIe}, engine: Stage{Name: "dma", clock: c.Clock}}, nil
}

// Free returns when the engine can take the next transfer.
func (d *DMA) Free() units.Time { return d.engine.Free() }

// Read fetches n bytes of host memory, asked for at t, and returns when all are in
// the device's memory.
func (d *DMA) Read(t units.Time, n int) units.Time {
	issued := d.engine.Serve(t, t, StallNone, d.cfg.IssueCycles)
	return d.move(d.link.read(issued, n, ForPayload), n)
}

// Write stores n bytes in host memory, asked for at t. It returns when the device has
// handed the last to the link, and when the host's processors see them.
func (d *DMA) Write(t units.Time, n int) (sent, visible units.Time) {
	issued := d.engine.Serve(t, t, StallNone, d.cfg.IssueCycles)
	return d.link.write(d.move(issued, n), n, ForPayload)
}

// move takes n bytes between the link's end and the device's memory.
func (d *DMA) move(t units.Time, n int) units.Time {
	d.moved = max(t, d.moved) + d.cfg.Internal.Serialize(units.Bytes(n))
	return d.moved
}

// Bytes returns the bytes that crossed the link to the host and from it.
func (d *DMA) Bytes() (toHost, fromHost units.Bytes) {
	return d.link.bytes[upstream][ForPayload], d.link.bytes[downstream][ForPayload]
}
