package config

import (
	"errors"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// FieldError is what is wrong with one parameter, whose Key is its name in scenarios below
// nic.with.
type FieldError = field.Error

// settings are the parameters as their tags describe them. Their ranges are such that the model's
// arithmetic does not overflow within the longest run, 1000 s. They reach far beyond what hardware has.
var settings = field.Of[Config]("nic")

// Validate returns all that is out of its range, each a *FieldError, joined; if nothing is,
// what does not go together.
func (c *Config) Validate() error {
	if err := settings.CheckAll(c); err != nil {
		return err
	}
	return errors.Join(
		c.PCIe.Rules(), c.Units.rules(), c.Atomics.rules(), c.ReceiveBuffer.rules(), c.Receives.rules(),
		c.Compression.rules(), c.SendTime.rules(), c.Egress.rules(), c.Transport.rules(), c.Offload.rules(), c.State.rules())
}

// Rules across parameters that are in their ranges.

func (c *Units) rules() error {
	if c.Units > 0 && (c.Request < 1 || c.Answer < 1) {
		return field.Bad("nic", "units", c.Units, "choose 1 to 1048576 cycles for units.request and units.answer, or no units")
	}
	return nil
}

func (c *Atomics) rules() error {
	if n := c.Locks; c.InFlight > 0 && (n < 1 || n > 1<<20 || n&(n-1) != 0) {
		return field.Bad("nic", "atomics.locks", n, "choose a power of two up to %d", 1<<20)
	}
	return nil
}

func (c *ReceiveBuffer) rules() error {
	var errs []error
	for _, x := range []struct {
		key          string
		v, most      int
		mostIs, none string
	}{
		{"xoff", c.XOff, c.Bytes, "bytes", "the usual one"},
		{"xon", c.XOn, c.XOff, "xoff", "the usual one"},
		{"mark", c.Mark, c.Bytes, "bytes", "no marks"},
	} {
		if x.v > x.most {
			errs = append(errs, field.Bad("nic", "receive_buffer."+x.key, x.v, "choose at most receive_buffer.%s, %d, or 0 for %s", x.mostIs, x.most, x.none))
		}
	}
	return errors.Join(errs...)
}

func (c *Receives) rules() error {
	if c.Prefetch > 0 && (c.Batch < 1 || c.Batch > c.Prefetch) {
		return field.Bad("nic", "receives.batch", c.Batch, "choose 1 to receives.prefetch, %d", c.Prefetch)
	}
	return nil
}

func (c *Compression) rules() error {
	if c.MaxNum > 0 && (c.Timeout <= 0 || c.Timeout > units.Millisecond) {
		return field.Bad("nic", "compression.timeout", c.Timeout, "choose a time above 0, up to 1ms")
	}
	return nil
}

func (c *State) rules() error {
	if c.Posted && c.Elements == 0 {
		return field.Bad("nic", "state.posted", c.Posted, "requires state.elements")
	}
	for _, x := range []struct {
		key string
		v   units.Bytes
	}{{"bytes", c.Bytes}, {"elements", c.Elements}} {
		if x.v > 0 && (c.Ways < 1 || x.v < units.Bytes(c.Ways)*pcie.CacheLine) {
			return field.Bad("nic", "state.ways", c.Ways, "choose 1 to 64, each of %d of state.%s, %d, or 0 for state.%s", pcie.CacheLine, x.key, x.v, x.key)
		}
	}
	return nil
}
