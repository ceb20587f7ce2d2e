package scenario

import (
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
			Alpha:         1,
			INT:           true,
			Telemetry:     Telemetry{Form: formExact, Clock: "v1model"},
			PFC:           PFC{Enabled: true, WatchdogAction: watchdogDrop},
			EIN:           EIN{Window: 50},
		},
		NIC: NIC{
			Model:       ModelStaged,
			Preset:      "cx6dx",
			Mode:        ModeAuto,
			MTU:         1024,
			AckEvery:    1,
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

var topologyKinds = []string{"star", "dumbbell", "chain", "leaf-spine", "three-tier", "fat-tree", "rdcn", "graph"}

// VariantKinds implements tree.Variant.
func (*Topology) VariantKinds() []string { return topologyKinds }

// VariantOf implements tree.Variant.
func (*Topology) VariantOf(kind string) any {
	switch kind {
	case "star":
		return &Star{}
	case "dumbbell":
		return &Dumbbell{}
	case "chain":
		return &Chain{}
	case "leaf-spine":
		return &LeafSpine{ParallelLinks: 1}
	case "three-tier":
		return &ThreeTier{}
	case "fat-tree":
		return &FatTree{Oversubscription: 1}
	case "rdcn":
		return &RDCN{}
	case "graph":
		return &Graph{}
	}
	return nil
}
