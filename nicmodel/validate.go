package nicmodel

import (
	"errors"
	"slices"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Parameters are kept in ranges in which the model's arithmetic does not overflow within
// the longest run, 1000 s. They reach far beyond what hardware has.
const (
	mostCycles  = 1 << 20
	mostLatency = 100 * units.Millisecond
	leastRate   = units.Mbps
	mostRate    = 100 * units.Tbps
	mostPhase   = 1_000_000 * units.Second
	mostEntries = 1 << 24 // of a cache
	mostSlots   = 1 << 16 // of what goes on at a time
	leastBuffer = 16 << 10
	mostBuffer  = 1 << 30

	leastTxBuffer = 4096 + slotBytes // a longest packet
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
		c.PCIe.rules(), c.Units.rules(), c.Atomics.rules(), c.ReceiveBuffer.rules(), c.Receives.rules(),
		c.Compression.rules(), c.Limiter.rules(), c.SendTime.rules(), c.Egress.rules(), functionRules(c.Functions), c.Transport.rules(), c.Offload.rules(), c.State.rules(), c.Translation.rules())
}

func (c *PCIeConfig) validate() error {
	if err := errors.Join(c.ranges()...); err != nil {
		return err
	}
	return c.rules()
}

// in checks a range; zero, unless empty, says what 0 means.
func in[T ~int | ~int64 | ~uint64](key string, v, low, high T, zero string) error {
	return field.Range("nic", key, v, low, high, zero)
}

func bad(key string, v any, want string, args ...any) error {
	return field.Bad("nic", key, v, want, args...)
}

// ranges holds each parameter against its range, which it has whatever the others are.
func (c *Config) ranges() []error {
	return slices.Concat(c.PCIe.ranges(), []error{
		in("core_clock", c.CoreClock, 1e6, 1e12, ""),
		in("doorbell_cycles", c.DoorbellCycles, 0, mostCycles, ""),
		in("wqe_cycles", c.WQECycles, 0, mostCycles, ""),
		in("scheduler_cycles", c.SchedulerCycles, 0, mostCycles, ""),
		in("packetiser_cycles", c.PacketiserCycles, 0, mostCycles, ""),
		in("parse_cycles", c.ParseCycles, 0, mostCycles, ""),
		in("transport_cycles", c.TransportCycles, 0, mostCycles, ""),
		in("cqe_cycles", c.CQECycles, 0, mostCycles, ""),
		in("pipeline_latency", c.PipelineLatency, 0, mostLatency, ""),
		in("tx_buffer", c.TxBuffer, leastTxBuffer, mostBuffer, ""),
		in("cqe_bytes", c.CQEBytes, 1, boundary, ""),
		in("max_inline", c.MaxInline, 0, boundary, ""),
		in("wqe_fetch", c.WQEFetch, 0, mostSlots, "all"),
		in("wqe_prefetch", c.WQEPrefetch, 0, mostSlots, "all"),
		in("atomics.in_flight", c.Atomics.InFlight, 0, mostSlots, "no unit"),
		in("atomics.cycles", c.Atomics.Cycles, 0, mostCycles, ""),
		in("receive_buffer.bytes", c.ReceiveBuffer.Bytes, leastBuffer, mostBuffer, "no limit"),
		in("receive_buffer.xoff", c.ReceiveBuffer.XOff, 0, mostBuffer, ""),
		in("receive_buffer.xon", c.ReceiveBuffer.XOn, 0, mostBuffer, ""),
		in("receive_buffer.mark", c.ReceiveBuffer.Mark, 0, mostBuffer, ""),
		in("receives.prefetch", c.Receives.Prefetch, 0, 1<<12, "receives at hand"),
		in("compression.max_num", c.Compression.MaxNum, 2, 1024, "no compression"),
		in("limiter.rates", c.Limiter.Rates, 0, mostSlots, "no limit"),
		in("limiter.min_rate", c.Limiter.MinRate, 0, mostRate, "no bound"),
		in("limiter.max_rate", c.Limiter.MaxRate, 0, mostRate, "no bound"),
		in("limiter.step", c.Limiter.Step, 0, units.Gbps, ""),
		in("limiter.tick", c.Limiter.Tick, 0, units.Millisecond, ""),
		in("limiter.burst", c.Limiter.Burst, 0, 1<<32-1, ""),
		in("send_time.tick", c.SendTime.Tick, 0, units.Millisecond, "no send times"),
		in("send_time.jitter", c.SendTime.Jitter, 0, units.Millisecond, ""),
		in("interrupt.latency", c.Interrupt.Latency, 0, units.Second, ""),
		in("state.bytes", c.State.Bytes, cacheLine, mostBuffer, "no limit"),
		in("state.elements", c.State.Elements, cacheLine, mostBuffer, "one memory"),
		in("state.ways", c.State.Ways, 0, 64, ""),
		in("state.fetches", c.State.Fetches, 0, mostSlots, "no limit"),
		in("state.context", c.State.Context, 1, boundary, ""),
		in("counter.hz", c.Counter.Hz, 1, 1e12, ""),
		in("counter.ppb", c.Counter.PPB, -1e8, 1e8, ""),
		in("counter.bits", c.Counter.Bits, 8, 63, ""),
		in("counter.phase", c.Counter.Phase, 0, mostPhase, ""),
		in("max_sge", c.MaxSGE, 1, 256, ""),
		in("max_rd_atomic", c.MaxRdAtomic, 1, 255, ""),
		in("max_qp_wr", c.MaxQPWR, 1, 1<<16, ""),
		in("units.units", c.Units.Units, 0, 1<<12, "none"),
		in("units.request", c.Units.Request, 0, mostCycles, ""),
		in("units.answer", c.Units.Answer, 0, mostCycles, ""),
	}, c.Queues.ranges(), c.Transport.ranges(), c.Offload.ranges())
}

func (c *PCIeConfig) ranges() []error {
	return append(c.Peer.ranges(),
		in("pcie.rate", c.Rate, leastRate, mostRate, ""),
		in("pcie.mps", c.MPS, 16, boundary, ""),
		in("pcie.mrrs", c.MRRS, 16, boundary, ""),
		in("pcie.rcb", c.RCB, 1, boundary, ""),
		in("pcie.read_completion", c.ReadCompletion, 16, boundary, "MPS"),
		in("pcie.headers", int(c.Headers), int(PCIeBench), int(Flit), ""),
		in("pcie.fec", c.FEC, 0, mostLatency, ""),
		in("pcie.tags", c.Tags, 0, mostSlots, "no limit"),
		in("pcie.nonposted_credits", c.NonPostedCredits, 0, mostSlots, "no limit"),
		in("pcie.nonposted_hold", c.NonPostedHold, 0, mostLatency, ""),
		in("pcie.posted_credits", c.PostedCredits, 0, mostSlots, "no limit"),
		in("pcie.posted_data", c.PostedData, dataCredit, mostBuffer, "no limit"),
		in("pcie.posted_hold", c.PostedHold, 0, mostLatency, ""),
		in("pcie.read_latency", c.ReadLatency, 0, mostLatency, ""),
		in("pcie.write_latency", c.WriteLatency, 0, mostLatency, ""),
		in("pcie.socket_latency", c.SocketLatency, 0, mostLatency, ""),
		in("pcie.push_latency", c.PushLatency, 0, mostLatency, ""),
		in("pcie.read_issue", c.ReadIssue, 0, mostLatency, ""),
		in("pcie.write_issue", c.WriteIssue, 0, mostLatency, ""),
		in("pcie.read_setup", c.ReadSetup, 0, mostLatency, ""),
		in("pcie.write_setup", c.WriteSetup, 0, mostLatency, ""),
		in("pcie.staging_rate", c.StagingRate, leastRate, mostRate, "no copy"),
		in("pcie.host_cache.size", c.HostCache.Size, 0, mostCache, ""),
		in("pcie.host_cache.writes", c.HostCache.Writes, 0, mostCache, ""),
		in("pcie.host_cache.miss", c.HostCache.Miss, 0, mostLatency, ""),
		in("pcie.memory.rate", c.Memory.Rate, units.Gbps, mostRate, "no bound"),
		in("pcie.memory.load", c.Memory.Load, 0, mostRate, "no load"),
		in("pcie.memory.outstanding", c.Memory.Outstanding, 0, mostBuffer, ""),
		in("pcie.iommu.entries", c.IOMMU.Entries, 0, mostEntries, "no IOMMU"),
		in("pcie.iommu.miss", c.IOMMU.Miss, 0, mostLatency, ""),
		in("pcie.iommu.walkers", c.IOMMU.Walkers, 0, mostSlots, "one a miss"),
	)
}

// Rules across parameters, of those that are in their ranges.

func (c *PCIeConfig) rules() error {
	var errs []error
	if err := c.Peer.rules(); err != nil {
		errs = append(errs, err)
	}
	if c.FEC > 0 && c.Headers != Flit {
		errs = append(errs, bad("pcie.fec", c.FEC, "requires pcie.headers flit: earlier generations correct no errors"))
	}
	if c.RCB > c.MPS {
		errs = append(errs, bad("pcie.rcb", c.RCB, "choose at most pcie.mps, %d", c.MPS))
	}
	if c.ReadCompletion > 0 && c.ReadCompletion < c.RCB {
		errs = append(errs, bad("pcie.read_completion", c.ReadCompletion, "choose pcie.rcb, %d, or more", c.RCB))
	}
	if m := &c.Memory; m.Rate > 0 && c.PostedCredits == 0 && c.PostedData == 0 {
		errs = append(errs, bad("pcie.memory.rate", m.Rate, "requires pcie.posted_credits or pcie.posted_data, which hold the NIC up while memory is busy"))
	} else if m.Rate == 0 && (m.Load > 0 || m.Outstanding > 0) {
		errs = append(errs, bad("pcie.memory.load", m.Load, "requires pcie.memory.rate"))
	}
	if m := &c.Memory; (m.Load > 0) != (m.Outstanding > 0) {
		errs = append(errs, bad("pcie.memory.outstanding", m.Outstanding, "choose what processors that ask for pcie.memory.load, %v, have under way, such as 10 lines of 64 bytes for each core, or 0 for both", m.Load))
	}
	if p := c.IOMMU.PageSize; c.IOMMU.Entries > 0 && (p < 4096 || p&(p-1) != 0) {
		errs = append(errs, bad("pcie.iommu.page_size", p, "choose a power of two from 4096"))
	}
	return errors.Join(errs...)
}

func (c *UnitsConfig) rules() error {
	if c.Units > 0 && (c.Request < 1 || c.Answer < 1) {
		return bad("units", c.Units, "choose 1 to %d cycles for units.request and units.answer, or no units", mostCycles)
	}
	return nil
}

func (c *AtomicsConfig) rules() error {
	if n := c.Locks; c.InFlight > 0 && (n < 1 || n > 1<<20 || n&(n-1) != 0) {
		return bad("atomics.locks", n, "choose a power of two up to %d", 1<<20)
	}
	return nil
}

func (c *ReceiveBufferConfig) rules() error {
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
			errs = append(errs, bad("receive_buffer."+x.key, x.v, "choose at most receive_buffer.%s, %d, or 0 for %s", x.mostIs, x.most, x.none))
		}
	}
	return errors.Join(errs...)
}

func (c *ReceivesConfig) rules() error {
	if c.Prefetch > 0 && (c.Batch < 1 || c.Batch > c.Prefetch) {
		return bad("receives.batch", c.Batch, "choose 1 to receives.prefetch, %d", c.Prefetch)
	}
	return nil
}

func (c *CompressionConfig) rules() error {
	if c.MaxNum > 0 && (c.Timeout <= 0 || c.Timeout > units.Millisecond) {
		return bad("compression.timeout", c.Timeout, "choose a time above 0, up to 1ms")
	}
	return nil
}

func (c *LimiterConfig) rules() error {
	if c.MaxRate > 0 && c.MaxRate < c.MinRate {
		return bad("limiter.max_rate", c.MaxRate, "choose at least limiter.min_rate, %v", c.MinRate)
	}
	return nil
}

func (c *StateConfig) rules() error {
	if least := max(c.Ways, 1) * cacheLine; c.Bytes > 0 && (c.Ways < 1 || c.Bytes < units.Bytes(least)) {
		return bad("state.ways", c.Ways, "choose 1 to 64, each of %d of state.bytes, %d, or 0 for state.bytes", cacheLine, c.Bytes)
	}
	if least := max(c.Ways, 1) * cacheLine; c.Elements > 0 && (c.Ways < 1 || c.Elements < units.Bytes(least)) {
		return bad("state.ways", c.Ways, "choose 1 to 64, each of %d of state.elements, %d, or 0 for state.elements", cacheLine, c.Elements)
	}
	return nil
}

func (c *TranslationConfig) rules() error {
	var errs []error
	for _, x := range []struct {
		key string
		v   units.Bytes
	}{{"translation.page_size", c.PageSize}, {"translation.huge_page_size", c.HugePageSize}} {
		if x.v != 0 && (x.v < leastPage || x.v > mostPage || x.v&(x.v-1) != 0) {
			errs = append(errs, bad(x.key, x.v, "choose a power of two from %v to %v, or 0 for the usual one", leastPage, mostPage))
		}
	}
	return errors.Join(errs...)
}
