// Package simnet builds the network that a scenario's system is simulated by, divided
// into windows or not, and the reduced NICs at it.
package simnet

import (
	"github.com/sluice-rdma/sluice/bench/internal/windows"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Network is the network of a system and the engine that it runs on. At one instant
// handlers that are registered with the engine before there are NICs have their events
// after arrivals at hosts, and before what NICs do by themselves.
type Network struct {
	Sys    *scenario.System
	Engine *des.Engine
	Net    *fabric.Network
	// BaseRTT is the round trip of a full packet over the longest path when nothing
	// else is sent, NICs included.
	BaseRTT units.Time
}

// New builds a network without NICs. cfg is the system's FabricConfig, with what the
// caller adds.
func New(sys *scenario.System, graph *fabric.Topology, cfg fabric.Config, seed uint64) (*Network, error) {
	n := &Network{Sys: sys, Engine: des.New()}
	var err error
	if n.Net, err = fabric.New(n.Engine, graph, cfg, seed); err != nil {
		return nil, err
	}
	n.BaseRTT = n.Net.MaxBaseRTT(n.DataFrame(sys.NIC.MTU), n.AckFrame())
	switch {
	case !sys.Reduced():
		cfg := sys.NICConfig()
		n.BaseRTT += cfg.RoundTripShare()
	case sys.NIC.HostSend == nil: // the latencies of reduced NICs are the network's
		n.BaseRTT -= sys.ReducedLatencies().Send
	}
	return n, nil
}

// Divide has the workers run the network in windows. Call it before adding NICs.
// The error says what prevents it; the network is then unchanged.
func (n *Network) Divide(workers int) error {
	return n.Net.Divide(workers)
}

// Run simulates up to and including a time, or until the engine is stopped.
func (n *Network) Run(until units.Time) { windows.Run(n.Engine, n.Net, until) }

// DataFrame returns the size of the frame that carries payload bytes of a Write, with its
// sender's telemetry.
func (n *Network) DataFrame(payload units.Bytes) units.Bytes {
	return nicmodel.FrameBytes(ib.WriteMiddle, int(payload)) + n.Net.TelemetryBytes(n.Sys.Scheme.Telemetry, 0)
}

// AckFrame returns the size of an acknowledgement in the same way.
func (n *Network) AckFrame() units.Bytes {
	return nicmodel.FrameBytes(ib.Acknowledge, 0) + n.Net.TelemetryBytes(n.Sys.Scheme.Telemetry, 0)
}

// Env is the environment of an engine at a host with that line rate. size is that of
// its flow, 0 if the flow has no end or its size is not known.
func (n *Network) Env(line units.Rate, size units.Bytes) cc.Env {
	return cc.Env{LineRate: line, BaseRTT: n.BaseRTT, MTU: n.Sys.NIC.MTU, FlowSize: size}
}

// Congestion is a NIC's configuration for a queue pair whose engine is not in the
// NIC.
func (n *Network) Congestion() nicmodel.Congestion {
	scheme := &n.Sys.Scheme
	c := nicmodel.Congestion{
		Telemetry: scheme.Telemetry, ECT: scheme.ECN || scheme.CNP,
		AckPriority: uint8(n.Sys.NIC.AckPriority), BaseRTT: n.BaseRTT,
	}
	if scheme.CNP {
		c.CNPInterval = n.Sys.NIC.CNPInterval
		if own, ok := n.Sys.EngineConfig.(cc.CNPSpaced); ok {
			c.CNPInterval = own.CNPInterval()
		}
		c.LossCNPs = scheme.Card
	}
	return c
}
