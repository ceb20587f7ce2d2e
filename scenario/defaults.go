package scenario

import (
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Default returns a scenario with every default and neither topology, systems
// nor workloads. The defaults of a topology's and a workload's own keys are at
// their kinds.
func Default() *Scenario {
	return &Scenario{
		Seed:     1,
		Duration: 10 * units.Millisecond,
		Topology: Topology{
			HostRate:  100 * units.Gbps,
			HostDelay: 500 * units.Nanosecond,
			Framing:   "ethernet",
		},
		Fabric: Fabric{
			SwitchLatency: 600 * units.Nanosecond,
			Buffer:        16 * units.MiB,
			Queue:         fabric.Queue{Alpha: 1},
			INT:           true,
			Telemetry:     Telemetry{Form: formExact, PerHop: firstPerHop, Clock: "v1model"},
			PFC:           PFC{Enabled: true, WatchdogAction: watchdogDrop},
			EIN:           EIN{Window: 50},
		},
		NIC: NIC{
			Model:       ModelStaged,
			Preset:      "cx6dx",
			Mode:        modeAuto,
			MTU:         1024,
			AckEvery:    1,
			Ports:       1,
			CNPInterval: 50 * units.Microsecond,
			Timeout:     14, // 67 ms, perftest's and many an application's
			RetryCount:  7,
			RNRRetry:    7,
			SendDepth:   128,
			MaxRdAtomic: 16,
		},
		Shim: Shim{
			Segment:        16 * units.KiB,
			CalibrateEvery: units.Millisecond,
			Clock:          ClockCalibrated,
		},
		Host:  Host{Burst: 20 * units.Microsecond},
		Verbs: Verbs{PostList: 1, CQMod: 1, HugePages: true},
		Measure: Measure{
			Sample: 100 * units.Microsecond,
			Window: 100 * units.Microsecond,
		},
	}
}

// topologyKinds are the shapes of networks with their defaults, in the order of the
// reference.
var topologyKinds = []struct {
	name  string
	shape func() Shape
}{
	{"star", func() Shape { return &Star{} }},
	{"dumbbell", func() Shape { return &Dumbbell{} }},
	{"chain", func() Shape { return &Chain{} }},
	{"leaf-spine", func() Shape { return &LeafSpine{ParallelLinks: 1, Planes: 1} }},
	{"three-tier", func() Shape { return &ThreeTier{} }},
	{"fat-tree", func() Shape { return &FatTree{Oversubscription: 1} }},
	{"rdcn", func() Shape { return &RDCN{} }},
	{"graph", func() Shape { return &Graph{} }},
}

// VariantKinds implements tree.Variant.
func (*Topology) VariantKinds() []string {
	var names []string
	for _, k := range topologyKinds {
		names = append(names, k.name)
	}
	return names
}

// VariantOf implements tree.Variant.
func (*Topology) VariantOf(kind string) any {
	for _, k := range topologyKinds {
		if k.name == kind {
			return k.shape()
		}
	}
	return nil
}
