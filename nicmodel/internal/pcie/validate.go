package pcie

import (
	"errors"

	"github.com/sluice-rdma/sluice/nicmodel/internal/bounds"
	"github.com/sluice-rdma/sluice/units"
)

func (c *Config) validate() error {
	if err := errors.Join(c.Ranges()...); err != nil {
		return err
	}
	return c.Rules()
}

// Ranges holds each parameter against its range.
func (c *Config) Ranges() []error {
	return append(c.Peer.ranges(),
		bounds.In("pcie.rate", c.Rate, bounds.LeastRate, bounds.MostRate, ""),
		bounds.In("pcie.mps", c.MPS, 16, boundary, ""),
		bounds.In("pcie.mrrs", c.MRRS, 16, boundary, ""),
		bounds.In("pcie.rcb", c.RCB, 1, boundary, ""),
		bounds.In("pcie.read_completion", c.ReadCompletion, 16, boundary, "MPS"),
		bounds.In("pcie.headers", int(c.Headers), int(PCIeBench), int(Flit), ""),
		bounds.In("pcie.fec", c.FEC, 0, bounds.MostLatency, ""),
		bounds.In("pcie.tags", c.Tags, 0, bounds.MostSlots, "no limit"),
		bounds.In("pcie.nonposted_credits", c.NonPostedCredits, 0, bounds.MostSlots, "no limit"),
		bounds.In("pcie.nonposted_hold", c.NonPostedHold, 0, bounds.MostLatency, ""),
		bounds.In("pcie.posted_credits", c.PostedCredits, 0, bounds.MostSlots, "no limit"),
		bounds.In("pcie.posted_data", c.PostedData, dataCredit, bounds.MostBuffer, "no limit"),
		bounds.In("pcie.posted_hold", c.PostedHold, 0, bounds.MostLatency, ""),
		bounds.In("pcie.read_latency", c.ReadLatency, 0, bounds.MostLatency, ""),
		bounds.In("pcie.write_latency", c.WriteLatency, 0, bounds.MostLatency, ""),
		bounds.In("pcie.socket_latency", c.SocketLatency, 0, bounds.MostLatency, ""),
		bounds.In("pcie.push_latency", c.PushLatency, 0, bounds.MostLatency, ""),
		bounds.In("pcie.read_issue", c.ReadIssue, 0, bounds.MostLatency, ""),
		bounds.In("pcie.write_issue", c.WriteIssue, 0, bounds.MostLatency, ""),
		bounds.In("pcie.read_setup", c.ReadSetup, 0, bounds.MostLatency, ""),
		bounds.In("pcie.write_setup", c.WriteSetup, 0, bounds.MostLatency, ""),
		bounds.In("pcie.staging_rate", c.StagingRate, bounds.LeastRate, bounds.MostRate, "no copy"),
		bounds.In("pcie.host_cache.size", c.HostCache.Size, 0, mostCache, ""),
		bounds.In("pcie.host_cache.writes", c.HostCache.Writes, 0, mostCache, ""),
		bounds.In("pcie.host_cache.miss", c.HostCache.Miss, 0, bounds.MostLatency, ""),
		bounds.In("pcie.memory.rate", c.Memory.Rate, units.Gbps, bounds.MostRate, "no bound"),
		bounds.In("pcie.memory.load", c.Memory.Load, 0, bounds.MostRate, "no load"),
		bounds.In("pcie.memory.outstanding", c.Memory.Outstanding, 0, bounds.MostBuffer, ""),
		bounds.In("pcie.iommu.entries", c.IOMMU.Entries, 0, bounds.MostEntries, "no IOMMU"),
		bounds.In("pcie.iommu.miss", c.IOMMU.Miss, 0, bounds.MostLatency, ""),
		bounds.In("pcie.iommu.walkers", c.IOMMU.Walkers, 0, bounds.MostSlots, "one a miss"),
	)
}

// Rules holds parameters that are in their ranges against each other.
func (c *Config) Rules() error {
	var errs []error
	if err := c.Peer.rules(); err != nil {
		errs = append(errs, err)
	}
	if c.FEC > 0 && c.Headers != Flit {
		errs = append(errs, bounds.Bad("pcie.fec", c.FEC, "requires pcie.headers flit: earlier generations correct no errors"))
	}
	if c.RCB > c.MPS {
		errs = append(errs, bounds.Bad("pcie.rcb", c.RCB, "choose at most pcie.mps, %d", c.MPS))
	}
	if c.ReadCompletion > 0 && c.ReadCompletion < c.RCB {
		errs = append(errs, bounds.Bad("pcie.read_completion", c.ReadCompletion, "choose pcie.rcb, %d, or more", c.RCB))
	}
	if m := &c.Memory; m.Rate > 0 && c.PostedCredits == 0 && c.PostedData == 0 {
		errs = append(errs, bounds.Bad("pcie.memory.rate", m.Rate, "requires pcie.posted_credits or pcie.posted_data, which hold the NIC up while memory is busy"))
	} else if m.Rate == 0 && (m.Load > 0 || m.Outstanding > 0) {
		errs = append(errs, bounds.Bad("pcie.memory.load", m.Load, "requires pcie.memory.rate"))
	}
	if m := &c.Memory; (m.Load > 0) != (m.Outstanding > 0) {
		errs = append(errs, bounds.Bad("pcie.memory.outstanding", m.Outstanding, "choose what processors that ask for pcie.memory.load, %v, have under way, such as 10 lines of 64 bytes for each core, or 0 for both", m.Load))
	}
	if p := c.IOMMU.PageSize; c.IOMMU.Entries > 0 && (p < 4096 || p&(p-1) != 0) {
		errs = append(errs, bounds.Bad("pcie.iommu.page_size", p, "choose a power of two from 4096"))
	}
	return errors.Join(errs...)
}
