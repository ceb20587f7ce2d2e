package pcie

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// PeerConfig describes another PCIe device whose memory the NIC reads and writes, such as a GPU's
// behind its BAR (GPUDirect RDMA): payload of regions that NIC.RegPeer registers. These transfers cross the
// NIC's link as others do, and none of the host's memory and caches. Queues and completions stay in the host's memory.
type PeerConfig struct {
	// Rate is that of each direction of the device's own link, for whole TLPs, as of the NIC's; 0 is no such device.
	Rate units.Rate `yaml:"rate" eg:"227Gbps" range:"[1Mbps,100Tbps]" zero:"no peer"`
	// ReadRate is with what rate its data come back at most, where the device or the root
	// complex on the way gives less than Rate; 0 is Rate.
	ReadRate units.Rate `yaml:"read_rate" eg:"27Gbps" range:"[1Mbps,100Tbps]" zero:"pcie.peer.rate"`
	// ReadLatency and WriteLatency are in place of the host's.
	ReadLatency units.Time `yaml:"read_latency" eg:"800ns" range:"[0,100ms]"`
	// WriteLatency is from the NIC to the device's memory.
	WriteLatency units.Time `yaml:"write_latency" eg:"300ns" range:"[0,100ms]"`
	// ThroughIOMMU says that the way leads through the root complex and its IOMMU (ACS redirect), and
	// not through a switch alone.
	ThroughIOMMU bool `yaml:"through_iommu" eg:"true"`
}

func (c *PeerConfig) rules() error {
	if c.Rate == 0 && *c != (PeerConfig{}) {
		return field.Bad("nic", "pcie.peer.rate", c.Rate, "choose the rate of the device's link, such as 227Gbps, or leave out the rest of pcie.peer")
	}
	return nil
}

// peerLink is the peer's link: when each direction is free.
type peerLink struct {
	in, out units.Time
}

// peerReads returns when a read's data have left the peer, which gets the request at t; the read is of n bytes and
// takes the
// headers of answers completions.
func (p *Link) peerReads(t units.Time, n, answers int) units.Time {
	c := &p.cfg.Peer
	rate := c.Rate
	if c.ReadRate > 0 {
		rate = min(rate, c.ReadRate)
	}
	p.peer.out = max(p.peer.out, t) + rate.Serialize(units.Bytes(n+answers*p.cfg.Headers.Completion()))
	return p.peer.out
}

// peerTakes returns how long after t, when a write has left the NIC's link, the peer's link has carried it, beyond the
// time that it takes there by itself.
func (p *Link) peerTakes(t units.Time, n, packets int) (behind units.Time) {
	took := p.cfg.Peer.Rate.Serialize(units.Bytes(n + packets*p.cfg.Headers.Request()))
	// Cut through: it begins there as it does here.
	p.peer.in = max(p.peer.in, t-took) + took
	return p.peer.in - t
}
