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

func (*Topology) variantKinds() []string { return topologyKinds }

func (*Topology) variantOf(kind string) any {
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

var workloadKinds = []string{"incast", "permutation", "flows", "poisson", "trace", "rotating-incast", "all-to-all", "all-reduce", "rpc", "storage", "on-off"}

func (*Workload) variantKinds() []string { return workloadKinds }

func (*Workload) variantOf(kind string) any {
	switch kind {
	case "incast":
		return &Incast{Senders: HostSet{All: true}, Connections: 1, Rounds: 1}
	case "permutation":
		return &Permutation{Hosts: HostSet{All: true}, Connections: 1}
	case "flows":
		return &FlowList{}
	case "poisson":
		return &Poisson{Hosts: HostSet{All: true}, LoadOn: "hosts", To: "any"}
	case "trace":
		return &Trace{Format: traceAuto, Hosts: HostSet{All: true}}
	case "rotating-incast":
		return &RotatingIncast{Hosts: HostSet{All: true}}
	case "all-to-all":
		return &AllToAll{Hosts: HostSet{All: true}, Algorithm: "direct", Iterations: 1}
	case "all-reduce":
		return &AllReduce{Hosts: HostSet{All: true}, Algorithm: "ring", Chunks: 1, Iterations: 1}
	case "rpc":
		return &RPC{Clients: HostSet{All: true}, Servers: HostSet{All: true}, Loop: Loop{Arrivals: "poisson"}}
	case "storage":
		return &Storage{Clients: HostSet{All: true}, Targets: HostSet{All: true}, Reads: 0.5, Order: "random", Loop: Loop{Arrivals: "poisson"}}
	case "on-off":
		return &OnOff{Senders: HostSet{All: true}}
	}
	return nil
}
