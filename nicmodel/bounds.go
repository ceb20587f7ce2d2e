package nicmodel

import (
	"fmt"

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
)

// bound is a parameter by its name in scenarios, with its range.
type bound struct {
	name         string
	v, low, high int64
}

func keep(bounds []bound) error {
	for _, b := range bounds {
		if b.v < b.low || b.v > b.high {
			return fmt.Errorf("nic: %s is %d; it must be from %d to %d", b.name, b.v, b.low, b.high)
		}
	}
	return nil
}

func (c *Config) bounds() error {
	err := keep([]bound{
		{"core_clock", int64(c.CoreClock), 1e6, 1e12},
		{"doorbell_cycles", c.DoorbellCycles, 0, mostCycles},
		{"wqe_cycles", c.WQECycles, 0, mostCycles},
		{"scheduler_cycles", c.SchedulerCycles, 0, mostCycles},
		{"packetiser_cycles", c.PacketiserCycles, 0, mostCycles},
		{"parse_cycles", c.ParseCycles, 0, mostCycles},
		{"transport_cycles", c.TransportCycles, 0, mostCycles},
		{"cqe_cycles", c.CQECycles, 0, mostCycles},
		{"tx_packets", int64(c.TxPackets), 1, 1 << 16},
		{"cqe_bytes", int64(c.CQEBytes), 1, boundary},
		{"max_inline", int64(c.MaxInline), 0, boundary},
		{"wqe_fetch", int64(c.WQEFetch), 0, 1 << 16},
		{"wqe_prefetch", int64(c.WQEPrefetch), 0, 1 << 16},
		{"wqe_cache", int64(c.WQECache), 0, 1 << 24},
		{"atomics.cycles", c.Atomics.Cycles, 0, mostCycles},
		{"counter.hz", int64(c.Counter.Hz), 1, 1e12},
		{"counter.ppb", c.Counter.PPB, -1e8, 1e8},
		{"max_sge", int64(c.MaxSGE), 1, 256},
		{"max_rd_atomic", int64(c.MaxRdAtomic), 1, 255},
		{"max_qp_wr", int64(c.MaxQPWR), 1, 1 << 16},
	})
	if err != nil {
		return err
	}
	for _, u := range []struct {
		name string
		*UnitsConfig
	}{{"tx_units", &c.TxUnits}, {"rx_units", &c.RxUnits}} {
		err := keep([]bound{
			{u.name + ".send", u.Send, 0, mostCycles},
			{u.name + ".write", u.Write, 0, mostCycles},
			{u.name + ".read", u.Read, 0, mostCycles},
			{u.name + ".atomic", u.Atomic, 0, mostCycles},
			{u.name + ".response", u.Response, 0, mostCycles},
			{u.name + ".ack", u.Ack, 0, mostCycles},
		})
		if err != nil {
			return err
		}
	}
	if t := c.PipelineLatency; t < 0 || t > mostLatency {
		return fmt.Errorf("nic: pipeline_latency is %v; it must be from 0 to %v", t, mostLatency)
	}
	if t := c.Counter.Phase; t < 0 || t > mostPhase {
		return fmt.Errorf("nic: counter.phase is %v; it must be from 0 to %v", t, mostPhase)
	}
	return nil
}

func (c *PCIeConfig) bounds() error {
	if err := keep([]bound{{"pcie.mps", int64(c.MPS), 16, boundary}, {"pcie.mrrs", int64(c.MRRS), 16, boundary}}); err != nil {
		return err
	}
	if r := c.Rate; r < leastRate || r > mostRate {
		return fmt.Errorf("nic: pcie.rate is %v; it must be from %v to %v", r, leastRate, mostRate)
	}
	if r := c.StagingRate; r != 0 && (r < leastRate || r > mostRate) {
		return fmt.Errorf("nic: pcie.staging_rate is %v; it must be from %v to %v, or 0 for no copy", r, leastRate, mostRate)
	}
	for _, b := range []struct {
		name string
		v    units.Time
	}{
		{"read_latency", c.ReadLatency}, {"write_latency", c.WriteLatency}, {"posted_hold", c.PostedHold},
		{"socket_latency", c.SocketLatency}, {"read_issue", c.ReadIssue}, {"write_issue", c.WriteIssue}, {"iommu.miss", c.IOMMU.Miss},
		{"push_latency", c.PushLatency}, {"read_setup", c.ReadSetup}, {"write_setup", c.WriteSetup}, {"host_cache.miss", c.HostCache.Miss},
	} {
		if b.v < 0 || b.v > mostLatency {
			return fmt.Errorf("nic: pcie.%s is %v; it must be from 0 to %v", b.name, b.v, mostLatency)
		}
	}
	return nil
}
