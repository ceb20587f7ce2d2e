package pcie

import (
	"errors"

	"github.com/sluice-rdma/sluice/internal/field"
)

// within is a Config where it stands in a NIC's.
type within struct {
	PCIe *Config `yaml:"pcie"`
}

var settings = field.Of[within]("nic")

func (c *Config) validate() error {
	if err := settings.CheckAll(&within{c}); err != nil {
		return err
	}
	return c.Rules()
}

// Rules holds parameters that are in their ranges against each other.
func (c *Config) Rules() error {
	var errs []error
	if err := c.Peer.rules(); err != nil {
		errs = append(errs, err)
	}
	if c.FEC > 0 && c.Headers != Flit {
		errs = append(errs, field.Bad("nic", "pcie.fec", c.FEC, "requires pcie.headers flit: earlier generations correct no errors"))
	}
	if c.RCB > c.MPS {
		errs = append(errs, field.Bad("nic", "pcie.rcb", c.RCB, "choose at most pcie.mps, %d", c.MPS))
	}
	if c.ReadCompletion > 0 && c.ReadCompletion < c.RCB {
		errs = append(errs, field.Bad("nic", "pcie.read_completion", c.ReadCompletion, "choose pcie.rcb, %d, or more", c.RCB))
	}
	if m := &c.Memory; m.Rate > 0 && c.PostedCredits == 0 && c.PostedData == 0 {
		errs = append(errs, field.Bad("nic", "pcie.memory.rate", m.Rate, "requires pcie.posted_credits or pcie.posted_data, which hold the NIC up while memory is busy"))
	} else if m.Rate == 0 && (m.Load > 0 || m.Outstanding > 0) {
		errs = append(errs, field.Bad("nic", "pcie.memory.load", m.Load, "requires pcie.memory.rate"))
	}
	if m := &c.Memory; (m.Load > 0) != (m.Outstanding > 0) {
		errs = append(errs, field.Bad("nic", "pcie.memory.outstanding", m.Outstanding, "choose what processors that ask for pcie.memory.load, %v, have under way, such as 10 lines of 64 bytes for each core, or 0 for both", m.Load))
	}
	if p := c.IOMMU.PageSize; c.IOMMU.Entries > 0 && (p < 4096 || p&(p-1) != 0) {
		errs = append(errs, field.Bad("nic", "pcie.iommu.page_size", p, "choose a power of two from 4096"))
	}
	return errors.Join(errs...)
}
