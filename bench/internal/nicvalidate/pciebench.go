package nicvalidate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// The rows PB1 and on are pcie-bench's raw data of the device and host of P3. A point's
// name says what was done, in this order: what for ("read", "write-read", "write"), how
// many bytes, and after a comma each of
//
//	window 1 MiB    addresses are anywhere in so much memory; else in 8 KiB
//	cold            the host's cache had been emptied of it; else the host has written it
//	remote          memory of the other socket, whose processors have written it
//	remote, near    memory of the other socket, which those of the device's have written
//	iommu           addresses are translated, by pages of 4 KiB
//	by command      the device's processors do it, without the DMA engine
//	offset 1        addresses are this many bytes past the start of a cache line

// pbTest is a point of those rows.
type pbTest struct {
	op        string
	size      int
	window    int
	offset    int
	cold      bool
	remote    bool
	near      bool
	iommu     bool
	byCommand bool
	mps, mrrs int // of other hosts; 0 is nfp6000's
}

func parsePB(at string) (*pbTest, error) {
	parts := strings.Split(at, ", ")
	c := &pbTest{window: 8192}
	if _, err := fmt.Sscanf(parts[0], "%s %d B", &c.op, &c.size); err != nil {
		return nil, noPoint(at)
	}
	for _, p := range parts[1:] {
		var n int
		var unit string
		switch {
		case p == "cold":
			c.cold = true
		case p == "remote":
			c.remote = true
		case p == "near":
			c.near = true
		case p == "iommu":
			c.iommu = true
		case p == "by command":
			c.byCommand = true
		case scanned(p, "window %d %s", &n, &unit):
			c.window = n << map[string]int{"KiB": 10, "MiB": 20}[unit]
		case scanned(p, "offset %d", &n):
			c.offset = n
		default:
			return nil, noPoint(at)
		}
	}
	if c.op != "read" && c.op != "write" && c.op != "write-read" {
		return nil, noPoint(at)
	}
	return c, nil
}

func scanned(text, format string, into ...any) bool {
	_, err := fmt.Sscanf(text, format, into...)
	return err == nil
}

// bdw returns the Broadwell host's part beside nfp6000. The added latency
// of memory is fitted to PB5, the other socket to PB7, the IO-TLB to PB10 and its
// walkers to PB12. The root complex takes 64 writes, an estimate: more than are sent
// during a walk.
func (c *pbTest) bdw() nicmodel.PCIeConfig {
	p := nfp6000()
	h, err := nicmodel.HostOf("broadwell")
	if err != nil {
		panic(err) // it is part of the program
	}
	p.HostCache = h.Cache
	if c.remote {
		p.SocketLatency = 53 * units.Nanosecond
	}
	if c.iommu {
		p.IOMMU = nicmodel.IOMMUConfig{Entries: 118, PageSize: 4096, Miss: 290 * units.Nanosecond, Walkers: 6}
		p.PostedCredits = 64
	}
	p.MPS, p.MRRS = cmp.Or(c.mps, p.MPS), cmp.Or(c.mrrs, p.MRRS)
	if c.byCommand {
		p.ReadSetup, p.WriteSetup, p.StagingRate, p.WriteIssue = 0, 0, 0, 0
	}
	return p
}

// link is the device after the host has done with the memory what the test says.
func (c *pbTest) link() (*nicmodel.PCIe, error) {
	p, err := nicmodel.NewPCIe(c.bdw())
	if err != nil || c.cold || c.remote && !c.near {
		return p, err
	}
	for at := 0; at < c.window+c.size; at += line {
		p.Touch(uint64(at), line)
	}
	return p, nil
}

// addresses are multiples of the size in whole cache lines, at random in the window.
func (c *pbTest) addresses() func() uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	stride := (c.size + line - 1) / line * line
	return func() uint64 { return uint64(r.IntN(max(1, c.window/stride))*stride + c.offset) }
}

// latency is the mean in nanoseconds of one transfer at a time, a read after a write
// beginning when the write has left the device.
func (c *pbTest) latency() (float64, error) {
	p, err := c.link()
	if err != nil {
		return 0, err
	}
	const samples, idle = 4000, 300 * units.Nanosecond
	warm := 0
	if c.op == "write-read" || c.iommu {
		warm = 60_000 // what the device's writes have of the cache, and the IO-TLB, fill
	}
	addr := c.addresses()
	var t, sum units.Time
	for i := range warm + samples {
		a := addr()
		begin := t
		if c.op == "write-read" {
			t = writeOf(p, t, a, c.size)
		}
		t = readOf(p, t, a, c.size)
		if i >= warm {
			sum += t - begin
		}
		t += idle
	}
	return sum.Nanoseconds() / samples, nil
}

func pbLatency(at string) (float64, error) {
	c, err := parsePB(at)
	if err != nil {
		return 0, err
	}
	return c.latency()
}

func pbThroughput(at string) (float64, error) {
	c, err := parsePB(at)
	if err != nil {
		return 0, err
	}
	return c.throughput()
}

// throughput is the payload in Gbps.
func (c *pbTest) throughput() (float64, error) {
	p, err := c.link()
	if err != nil {
		return 0, err
	}
	switch c.op {
	case "read":
		return sustained(p, c.size, c.addresses(), readOf), nil
	case "write":
		return sustained(p, c.size, c.addresses(), writeOf), nil
	}
	return 0, noPoint(c.op)
}

func pbRows() []Measurement {
	row := func(id, how string, figure func(at string) (float64, error)) Measurement {
		return Measurement{Row: id, Preset: "nfp6000", How: how, Figure: figure}
	}
	const (
		alone = "one at a time; after a write, the read is asked for when the write has left the device"
		many  = "as P8 and P9, at random addresses"
	)
	return []Measurement{
		row("P4", "as PB1; the host is modelled as Broadwell's, as no figure of this one was used", pbLatency), row("P6", "as P4", pbLatency),
		row("P10", "as P8; the host as P4's", pbThroughput), row("P11", "as PB14", pbThroughput),
		row("PB1", alone, pbLatency), row("PB2", "", pbLatency), row("PB3", "", pbLatency), row("PB4", "", pbLatency),
		row("PB5", "at random addresses, from lines that no processor has touched, or from a window that one has, once, in turn", pbLatency),
		row("PB6", "", pbLatency), row("PB7", "", pbLatency), row("PB8", "", pbLatency),
		row("PB9", many, pbThroughput),
		row("PB10", "an IO-TLB of 118 pages of 4 KiB, 290 ns a walk", pbLatency), row("PB11", "", pbLatency),
		row("PB12", "6 walks at a time; the host takes 64 writes", pbThroughput),
		row("PB13", many, pbThroughput), row("PB14", many, pbThroughput),
		row("PB15", many, pbThroughput), row("PB16", many, pbThroughput),
	}
}
