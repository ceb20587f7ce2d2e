package workload

var kinds = []string{"incast", "permutation", "flows", "poisson", "trace", "rotating-incast", "all-to-all", "all-reduce", "rpc", "storage", "on-off"}

// VariantKinds implements tree.Variant.
func (*Workload) VariantKinds() []string { return kinds }

// VariantOf implements tree.Variant.
func (*Workload) VariantOf(kind string) any {
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
