package scenario

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Offload reports whether the system's engine runs inside the NIC.
func (s *System) Offload() bool {
	if s.NIC.Mode == modeAuto {
		return s.Reduced() || s.needsSwitches() || s.pathed
	}
	return s.NIC.Mode == ModeOffload
}

// Reduced reports whether the system's NICs are reduced ones.
func (s *System) Reduced() bool { return s.NIC.Model == ModelReduced }

// Carries reports whether the system's NICs have an operation: staged ones have all, reduced
// ones no SENDs, and READs unless receivers grant.
func (s *System) Carries(op workload.Operation) bool {
	return !s.Reduced() || op == workload.Write || op == workload.Read && s.Scheme.NewReceiver == nil
}

// ReducedLatencies returns the fixed latencies of the system's reduced NICs: those
// of the scenario, and where it says nothing the preset's.
func (s *System) ReducedLatencies() nicmodel.FixedLatencies {
	l := s.nic.FixedLatencies()
	for i, to := range []*units.Time{&l.Send, &l.Receive, &l.Completion} {
		if v := *s.NIC.latencies()[i].v; v != nil {
			*to = *v
		}
	}
	return l
}

// needsSwitches reports whether the engine needs something that only an
// acknowledgement of a packet carries.
func (s *System) needsSwitches() bool {
	c := &s.Scheme
	return c.Telemetry != telemetry.None || c.ECN || c.EIN || c.CNP || c.Circuit || c.NewReceiver != nil || c.Oracle
}

// NewEngine makes the system's engine for one flow.
func (s *System) NewEngine(env cc.Env) (cc.Engine, error) {
	return s.Scheme.New(s.EngineConfig, env)
}

// NewReceiver makes what decides at one host what is sent to it, for schemes whose
// Scheme.NewReceiver is not nil.
func (s *System) NewReceiver(env cc.Env) (cc.Receiver, error) {
	return s.Scheme.NewReceiver(s.EngineConfig, env)
}

// ConfigMap returns the engine's configuration by the names it has in a
// scenario.
func (s *System) ConfigMap() map[string]any {
	m := map[string]any{}
	for _, item := range tree.Encode(s.EngineConfig) {
		m[item.Key.(string)] = item.Value
	}
	return m
}

// maxFrame is the largest frame that the system sends, from MAC header to FCS:
// MAC header and FCS 18, IPv4 20, UDP 8, BTH 12, RETH 16, immediate data 4, ICRC
// 4, and what telemetry adds.
func (s *System) maxFrame() units.Bytes {
	return s.NIC.MTU + 82 + s.Scheme.Telemetry.WireBytes(s.Fabric.Telemetry.int(), telemetry.MaxHops)
}

// FabricConfig returns the system's fabric as package fabric takes it. Of its
// priorities those up to the most urgent in use exist, by the engine too.
func (s *System) FabricConfig() fabric.Config {
	f := &s.Fabric
	sw := fabric.SwitchConfig{Latency: f.SwitchLatency, Buffer: f.Buffer, INT: f.INT, Report: f.report(s.maxFrame())}
	for i := range sw.Classes {
		sw.Classes[i] = f.class(i)
	}
	c := fabric.Config{Priorities: max(s.NIC.Priority+1, s.NIC.AckPriority+1, s.priority+1, s.Scheme.Classes), Reroute: f.Reroute, MaxFrame: s.maxFrame(), Switch: sw, INT: f.Telemetry.int()}
	if s.Reduced() && s.nic != nil { // one that is at fault is an error of its own
		l := s.ReducedLatencies()
		c.HostSend, c.HostReceive = l.Send, l.Receive
	}
	c.Circuits = fabric.CircuitConfig{VOQ: f.Circuits.VOQ, Announced: f.Circuits.AnnouncedVOQ, Ahead: f.Circuits.Ahead, Guard: f.Circuits.Guard}
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
	for _, x := range f.Failures {
		c.Failures = append(c.Failures, x.fabricFailure())
	}
	return c
}

// Elsewhere returns the system without what is about certain switches, links and
// circuits: for a network that is not the scenario's.
func (s *System) Elsewhere() *System {
	one := *s
	one.Fabric.Switches, one.Fabric.Faults, one.Fabric.Failures = nil, nil, nil
	one.Fabric.Circuits = Circuits{}
	one.Fabric.Program, one.Fabric.ProgramDefine, one.Fabric.ProgramEntries = "", nil, ""
	return &one
}

// NICConfig returns the system's NIC: its preset, with the parameters that the
// scenario changes.
func (s *System) NICConfig() nicmodel.Config { return *s.nic }
