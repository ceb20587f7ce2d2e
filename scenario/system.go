package scenario

import (
	"reflect"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/fabric"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Offload reports whether the system's engine runs inside the NIC.
func (s *System) Offload() bool {
	if s.NIC.Mode == ModeAuto {
		return s.needsSwitches()
	}
	return s.NIC.Mode == ModeOffload
}

// needsSwitches reports whether the engine needs something that only an
// acknowledgement of a packet carries.
func (s *System) needsSwitches() bool {
	return s.Scheme.Telemetry != telemetry.None || s.Scheme.ECN || s.Scheme.EIN
}

// NewEngine makes the system's engine for one flow.
func (s *System) NewEngine(env cc.Env) (cc.Engine, error) {
	return s.Scheme.New(s.EngineConfig, env)
}

// ConfigMap returns the engine's configuration by the names it has in a
// scenario.
func (s *System) ConfigMap() map[string]any {
	m := map[string]any{}
	for _, item := range structYAML(reflect.ValueOf(s.EngineConfig).Elem()) {
		m[item.Key.(string)] = item.Value
	}
	return m
}

// MaxFrame is the largest frame that the system sends, from MAC header to FCS:
// MAC header and FCS 18, IPv4 20, UDP 8, BTH 12, RETH 16, immediate data 4, ICRC
// 4, and what telemetry adds.
func (s *System) MaxFrame() units.Bytes {
	return units.Bytes(s.NIC.MTU) + 82 + s.Scheme.Telemetry.WireBytes(telemetry.MaxHops)
}

// FabricConfig returns the system's fabric as package fabric takes it. Of its
// priorities those up to the most urgent in use exist, all of one kind.
func (s *System) FabricConfig() fabric.Config {
	f := &s.Fabric
	sw := fabric.SwitchConfig{Latency: f.SwitchLatency, Buffer: f.Buffer, INT: f.INT}
	for i := range sw.Classes {
		sw.Classes[i] = fabric.Class{
			Alpha: f.Alpha,
			ECN:   fabric.ECN{Kmin: f.ECN.Kmin, Kmax: f.ECN.Kmax, Pmax: f.ECN.Pmax, AtRate: f.ECN.AtRate},
			PFC:   fabric.PFC{Lossless: f.PFC.Enabled, XOFF: f.PFC.XOFF, XON: f.PFC.XON, Headroom: f.PFC.Headroom},
		}
	}
	c := fabric.Config{Priorities: max(s.NIC.Priority, s.NIC.AckPriority) + 1, MaxFrame: s.MaxFrame(), Switch: sw}
	for name, differs := range f.Switches {
		one := sw
		if differs.Buffer != nil {
			one.Buffer = *differs.Buffer
		}
		if differs.INT != nil {
			one.INT = *differs.INT
		}
		if differs.SwitchLatency != nil {
			one.Latency = *differs.SwitchLatency
		}
		if c.Switches == nil {
			c.Switches = map[string]fabric.SwitchConfig{}
		}
		c.Switches[name] = one
	}
	for _, x := range f.Faults {
		c.Faults = append(c.Faults, fabric.Fault{Link: x.Link, Loss: x.Loss})
	}
	return c
}

// NICConfig returns the system's NIC preset.
func (s *System) NICConfig() (nicmodel.Config, error) { return nicmodel.Preset(s.NIC.Preset) }
