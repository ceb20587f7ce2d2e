package pcie

import "github.com/sluice-rdma/sluice/units"

// Gen3x8 has pcie-bench's figures for an 8-lane third-generation link: 57.88
// Gbps of usable TLP bandwidth (SIGCOMM 2018, its model), 64-bit addressing, and
// a round trip that makes a 64-byte read take 546 ns (their BDW system, median).
func Gen3x8() Config {
	return Config{
		Rate: 57_880 * units.Mbps, MPS: 256, MRRS: 512, RCB: 64, Headers: PCIeBench,
		ReadLatency: 530 * units.Nanosecond, WriteLatency: 250 * units.Nanosecond,
	}
}

// LaneBytes is a third-generation link with the bytes and the rate of a lane, 984.6
// MB/s, that Kalia et al. count (ATC 2016, figure 2a), their host's read completions of 128
// bytes (section 2.1), and the latency with which an atomic at one address takes 1/2.24 us (figure 14).
func LaneBytes(lanes int) Config {
	c := Gen3x8()
	c.Rate = units.Rate(lanes) * 7_876_800_000
	c.Headers = Kalia
	c.ReadCompletion = 128
	c.ReadLatency = 435 * units.Nanosecond
	return c
}

// Gen4x16 carries what pcie-bench's model leaves of such a link: coding and
// the data link layer's packets are taken off.
func Gen4x16() Config {
	p := Gen3x8()
	p.Rate = sixteenLanes[4]
	return p
}

// Gen5x16 is the same of the next generation.
func Gen5x16() Config {
	p := Gen3x8()
	p.Rate = sixteenLanes[5]
	return p
}

// Tags of a device that has no others (PCIe 2.2.6.2), and of one with extended tags.
const (
	PlainTags    = 32
	ExtendedTags = 256
)

// Hosted gives a link the tags of the device and the posted credits of a host: iio cache lines of
// writes, a header credit for each. Agarwal et al. (SIGCOMM 2023) see the write buffer of a
// host with PCIe 3.0 x16 hold up to 93, and Vuppalapati et al. (SIGCOMM 2024) an unloaded write take
// 300 ns through it; both are recalled and not checked. Hosts of later generations have as many
// times more as their link is faster: an estimate.
func Hosted(c Config, tags, iio int) Config {
	c.Tags, c.PostedCredits, c.PostedData, c.PostedHold = tags, iio, iio*CacheLine, 300*units.Nanosecond
	c.NonPostedCredits, c.NonPostedHold = nonPosted*iio/IIOLines, 50*units.Nanosecond
	return c
}

// nonPosted is the non-posted header credits of a port of 16 lanes (PCIe 2.0) in the datasheet of Xeon C5500/C3500 (volume 1, table 76). It has half
// as many for 8 lanes. Later generations have as many times more as their link is faster: an estimate.
const nonPosted = 72
