package config

import (
	"errors"
	"slices"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/nicmodel/internal/bounds"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

const (
	leastTxBuffer = 4096 + SlotBytes // a longest packet
	mostRecord    = 4096             // bytes of what the NIC keeps in host memory of one thing
)

// FieldError is what is wrong with one parameter, whose Key is its name in scenarios below
// nic.with.
type FieldError = field.Error

// Validate returns all that is out of its range, each a *FieldError, joined; if nothing is,
// what does not go together.
func (c *Config) Validate() error {
	if err := errors.Join(c.ranges()...); err != nil {
		return err
	}
	return errors.Join(
		c.PCIe.Rules(), c.Units.rules(), c.Atomics.rules(), c.ReceiveBuffer.rules(), c.Receives.rules(),
		c.Compression.rules(), c.Limiter.rules(), c.SendTime.rules(), c.Egress.rules(), functionRules(c.Functions), c.Transport.rules(), c.Offload.rules(), c.State.rules(), c.Translation.rules())
}

// ranges holds each parameter against its range, which it has whatever the others are.
func (c *Config) ranges() []error {
	return slices.Concat(c.PCIe.Ranges(), []error{
		bounds.In("core_clock", c.CoreClock, 1e6, 1e12, ""),
		bounds.In("doorbell_cycles", c.DoorbellCycles, 0, bounds.MostCycles, ""),
		bounds.In("wqe_cycles", c.WQECycles, 0, bounds.MostCycles, ""),
		bounds.In("scheduler_cycles", c.SchedulerCycles, 0, bounds.MostCycles, ""),
		bounds.In("packetiser_cycles", c.PacketiserCycles, 0, bounds.MostCycles, ""),
		bounds.In("parse_cycles", c.ParseCycles, 0, bounds.MostCycles, ""),
		bounds.In("transport_cycles", c.TransportCycles, 0, bounds.MostCycles, ""),
		bounds.In("cqe_cycles", c.CQECycles, 0, bounds.MostCycles, ""),
		bounds.In("pipeline_latency", c.PipelineLatency, 0, bounds.MostLatency, ""),
		bounds.In("tx_buffer", c.TxBuffer, leastTxBuffer, bounds.MostBuffer, ""),
		bounds.In("cqe_bytes", c.CQEBytes, 1, mostRecord, ""),
		bounds.In("max_inline", c.MaxInline, 0, mostRecord, ""),
		bounds.In("wqe_fetch", c.WQEFetch, 0, bounds.MostSlots, "all"),
		bounds.In("wqe_prefetch", c.WQEPrefetch, 0, bounds.MostSlots, "all"),
		bounds.In("atomics.in_flight", c.Atomics.InFlight, 0, bounds.MostSlots, "no unit"),
		bounds.In("atomics.cycles", c.Atomics.Cycles, 0, bounds.MostCycles, ""),
		bounds.In("receive_buffer.bytes", c.ReceiveBuffer.Bytes, bounds.LeastBuffer, bounds.MostBuffer, "no limit"),
		bounds.In("receive_buffer.xoff", c.ReceiveBuffer.XOff, 0, bounds.MostBuffer, ""),
		bounds.In("receive_buffer.xon", c.ReceiveBuffer.XOn, 0, bounds.MostBuffer, ""),
		bounds.In("receive_buffer.mark", c.ReceiveBuffer.Mark, 0, bounds.MostBuffer, ""),
		bounds.In("receives.prefetch", c.Receives.Prefetch, 0, 1<<12, "receives at hand"),
		bounds.In("compression.max_num", c.Compression.MaxNum, 2, 1024, "no compression"),
		bounds.In("limiter.rates", c.Limiter.Rates, 0, bounds.MostSlots, "no limit"),
		bounds.In("limiter.min_rate", c.Limiter.MinRate, 0, bounds.MostRate, "no bound"),
		bounds.In("limiter.max_rate", c.Limiter.MaxRate, 0, bounds.MostRate, "no bound"),
		bounds.In("limiter.step", c.Limiter.Step, 0, units.Gbps, ""),
		bounds.In("limiter.tick", c.Limiter.Tick, 0, units.Millisecond, ""),
		bounds.In("limiter.burst", c.Limiter.Burst, 0, 1<<32-1, ""),
		bounds.In("send_time.tick", c.SendTime.Tick, 0, units.Millisecond, "no send times"),
		bounds.In("send_time.jitter", c.SendTime.Jitter, 0, units.Millisecond, ""),
		bounds.In("interrupt.latency", c.Interrupt.Latency, 0, units.Second, ""),
		bounds.In("state.bytes", c.State.Bytes, pcie.CacheLine, bounds.MostBuffer, "no limit"),
		bounds.In("state.elements", c.State.Elements, pcie.CacheLine, bounds.MostBuffer, "one memory"),
		bounds.In("state.ways", c.State.Ways, 0, 64, ""),
		bounds.In("state.fetches", c.State.Fetches, 0, bounds.MostSlots, "no limit"),
		bounds.In("state.context", c.State.Context, 1, mostRecord, ""),
		bounds.In("counter.hz", c.Counter.Hz, 1, 1e12, ""),
		bounds.In("counter.ppb", c.Counter.PPB, -1e8, 1e8, ""),
		bounds.In("counter.bits", c.Counter.Bits, 8, 63, ""),
		bounds.In("counter.phase", c.Counter.Phase, 0, bounds.MostPhase, ""),
		bounds.In("max_sge", c.MaxSGE, 1, 256, ""),
		bounds.In("max_rd_atomic", c.MaxRdAtomic, 1, 255, ""),
		bounds.In("max_qp_wr", c.MaxQPWR, 1, 1<<16, ""),
		bounds.In("units.units", c.Units.Units, 0, 1<<12, "none"),
		bounds.In("units.request", c.Units.Request, 0, bounds.MostCycles, ""),
		bounds.In("units.answer", c.Units.Answer, 0, bounds.MostCycles, ""),
	}, c.Queues.ranges(), c.Transport.ranges(), c.Offload.ranges())
}

// Rules across parameters, of those that are in their ranges.

func (c *Units) rules() error {
	if c.Units > 0 && (c.Request < 1 || c.Answer < 1) {
		return bounds.Bad("units", c.Units, "choose 1 to %d cycles for units.request and units.answer, or no units", bounds.MostCycles)
	}
	return nil
}

func (c *Atomics) rules() error {
	if n := c.Locks; c.InFlight > 0 && (n < 1 || n > 1<<20 || n&(n-1) != 0) {
		return bounds.Bad("atomics.locks", n, "choose a power of two up to %d", 1<<20)
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
			errs = append(errs, bounds.Bad("receive_buffer."+x.key, x.v, "choose at most receive_buffer.%s, %d, or 0 for %s", x.mostIs, x.most, x.none))
		}
	}
	return errors.Join(errs...)
}

func (c *Receives) rules() error {
	if c.Prefetch > 0 && (c.Batch < 1 || c.Batch > c.Prefetch) {
		return bounds.Bad("receives.batch", c.Batch, "choose 1 to receives.prefetch, %d", c.Prefetch)
	}
	return nil
}

func (c *Compression) rules() error {
	if c.MaxNum > 0 && (c.Timeout <= 0 || c.Timeout > units.Millisecond) {
		return bounds.Bad("compression.timeout", c.Timeout, "choose a time above 0, up to 1ms")
	}
	return nil
}

func (c *Limiter) rules() error {
	if c.MaxRate > 0 && c.MaxRate < c.MinRate {
		return bounds.Bad("limiter.max_rate", c.MaxRate, "choose at least limiter.min_rate, %v", c.MinRate)
	}
	return nil
}

func (c *State) rules() error {
	if least := max(c.Ways, 1) * pcie.CacheLine; c.Bytes > 0 && (c.Ways < 1 || c.Bytes < units.Bytes(least)) {
		return bounds.Bad("state.ways", c.Ways, "choose 1 to 64, each of %d of state.bytes, %d, or 0 for state.bytes", pcie.CacheLine, c.Bytes)
	}
	if least := max(c.Ways, 1) * pcie.CacheLine; c.Elements > 0 && (c.Ways < 1 || c.Elements < units.Bytes(least)) {
		return bounds.Bad("state.ways", c.Ways, "choose 1 to 64, each of %d of state.elements, %d, or 0 for state.elements", pcie.CacheLine, c.Elements)
	}
	return nil
}

func (c *Translation) rules() error {
	var errs []error
	for _, x := range []struct {
		key string
		v   units.Bytes
	}{{"translation.page_size", c.PageSize}, {"translation.huge_page_size", c.HugePageSize}} {
		if x.v != 0 && (x.v < leastPage || x.v > mostPage || x.v&(x.v-1) != 0) {
			errs = append(errs, bounds.Bad(x.key, x.v, "choose a power of two from %v to %v, or 0 for the usual one", leastPage, mostPage))
		}
	}
	return errors.Join(errs...)
}
