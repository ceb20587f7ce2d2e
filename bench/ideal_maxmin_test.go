package bench

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// shape draws a network and flows without end between its hosts.
type shape func(r *des.Stream) (topology string, pairs [][2]int)

// chainOf is 3 to 6 switches in a row, with flows both ways over spans at random. Each
// flow has hosts of its own.
func chainOf(trunk func(r *des.Stream) string) shape {
	return func(r *des.Stream) (string, [][2]int) {
		switches := 3 + r.IntN(4)
		var hosts, links []string
		var pairs [][2]int
		host := func(at int) int {
			name := fmt.Sprintf("h%d", len(hosts))
			hosts, links = append(hosts, name), append(links, fmt.Sprintf("{a: %s, b: s%d}", name, at))
			return len(hosts) - 1
		}
		for range 6 + r.IntN(8) {
			a := r.IntN(switches)
			b := (a + 1 + r.IntN(switches-1)) % switches
			pairs = append(pairs, [2]int{host(a), host(b)})
		}
		var names []string
		for i := range switches {
			names = append(names, fmt.Sprintf("s%d", i))
			if i > 0 {
				links = append(links, fmt.Sprintf("{a: s%d, b: s%d, rate: %s}", i-1, i, trunk(r)))
			}
		}
		return fmt.Sprintf("{kind: graph, host_rate: 100Gbps, hosts: [%s], switches: [%s], links: [%s]}",
			strings.Join(hosts, ", "), strings.Join(names, ", "), strings.Join(links, ", ")), pairs
	}
}

// among is flows between that many hosts of a topology, at random.
func among(topology string, hosts int) shape {
	return func(r *des.Stream) (string, [][2]int) {
		var pairs [][2]int
		for range 8 + r.IntN(12) {
			src := r.IntN(hosts)
			pairs = append(pairs, [2]int{src, (src + 1 + r.IntN(hosts-1)) % hosts})
		}
		return topology, pairs
	}
}

// Whatever the network, the oracle's flows have their max-min fair rates within 2
// percent, and what queues is packets that meet: some hundred microseconds after the
// flows began, and after half of them have left.
func TestIdealIsMaxMinFair(t *testing.T) {
	notUnderRace(t)
	one := func(*des.Stream) string { return "100Gbps" }
	mixed := func(r *des.Stream) string { return []string{"25Gbps", "50Gbps", "100Gbps"}[r.IntN(3)] }
	for _, c := range []struct {
		name  string
		shape shape
		seeds uint64
		sets  []string
	}{
		{"chain", chainOf(one), 20, nil},
		{"chain of staged NICs", chainOf(one), 2, []string{"nic.model=staged", "nic.mode=offload"}},
		{"chain, large packets", chainOf(one), 2, []string{"nic.mtu=4096"}},
		{"chain, small messages", chainOf(one), 2, []string{"workloads[0].message=1500B"}},
		{"chain, reads", chainOf(one), 2, []string{"workloads[0].operation=read"}},
		{"chain, one acknowledgement for 8", chainOf(one), 2, []string{"nic.ack_every=8"}},
		{"chain of unlike links", chainOf(mixed), 6, nil},
		{"leaf-spine", among("{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 4, host_rate: 100Gbps, trunk_rate: 100Gbps}", 12), 4, nil},
		{"fat tree", among("{kind: fat-tree, k: 4, host_rate: 100Gbps, trunk_rate: 100Gbps}", 16), 4, nil},
		{"dumbbell", among("{kind: dumbbell, left: 4, right: 4, host_rate: 100Gbps, trunk_rate: 40Gbps}", 8), 4, nil},
		{"star", among("{kind: star, hosts: 6, host_rate: 25Gbps}", 6), 4, nil},
	} {
		for _, leave := range []bool{false, true} {
			name := c.name
			if leave {
				name += ", half of the flows leave"
			}
			t.Run(name, func(t *testing.T) {
				for seed := range c.seeds {
					if testing.Short() && seed >= 2 {
						break
					}
					idealIsMaxMinFair(t, c.shape, seed, leave, c.sets)
				}
			})
		}
	}
}

func idealIsMaxMinFair(t *testing.T, shape shape, seed uint64, leave bool, sets []string) {
	r := des.NewStream(seed, "ideal")
	topology, pairs := shape(&r)
	var flows []string
	for i, p := range pairs {
		size := "unlimited"
		if leave && i%2 == 1 {
			size = fmt.Sprintf("%dB", 20_000+r.IntN(80_000))
		}
		flows = append(flows, fmt.Sprintf("{src: h%d, dst: h%d, size: %s, label: f%d, start: %dns}", p[0], p[1], size, i, r.IntN(20_000)))
	}
	text := fmt.Sprintf("duration: 900us\nwarmup: 500us\ntopology: %s\nsystems: [{engine: ideal}]\nnic: {model: reduced}\nmeasure: {window: 50us}\nworkloads: [{kind: flows, message: 16KiB, flows: [%s]}]\n",
		topology, strings.Join(flows, ", "))
	s, err := scenario.Parse("ideal.yaml", []byte(text), sets...)
	if err != nil {
		t.Fatal(err)
	}
	sys := s.Systems[0]
	sim, err := newSimulation(sys, s.Graph(), 1, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	sim.flows, sim.duration = s.Flows(1).Next, s.Duration
	m, err := newMeasurement(sim, s, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	sim.measure, m.progress = m, func(float64) {}
	if err := sim.run(); err != nil {
		t.Fatal(err)
	}
	out := results.NewSystem(sys.Name, sys.Engine, scenario.ModeOffload)
	m.report(out)

	want := wantedRates(sim)
	for i := range pairs {
		fair, ok := want[i]
		if !ok {
			if !leave || i%2 == 0 {
				t.Errorf("seed %d: flow %d has no rate", seed, i)
			}
			continue
		}
		l := out.Labels[i]
		if got := float64(l.ThroughputGbps) * 1e9; math.Abs(got/fair-1) > 0.02 {
			t.Errorf("seed %d: flow %d has %.2f Gbps, its share is %.2f", seed, i, got/1e9, fair/1e9)
		}
		if flat := float64(sim.net.BaseDelay(pairs[i][0], pairs[i][1], 4200)+sim.net.BaseDelay(pairs[i][1], pairs[i][0], 100)) / 1e6; float64(l.RTTP99Us) > flat+12 {
			t.Errorf("seed %d: flow %d's round trips are of %.1f us, of %.1f without queues", seed, i, float64(l.RTTP99Us), flat)
		}
	}
	most := 5 * float64(sys.NIC.MTU)
	if sim.oracle.flows[0].Operation == workload.Read {
		most = 5 * 16 * 1024 // a request is answered whole
	}
	if mean := float64(out.Network.QueueAvgBytes); !(mean <= most) {
		t.Errorf("seed %d: a queue has %.0f bytes in the mean", seed, mean)
	}
}

// wantedRates has the max-min fair rate of payload by label: all flows grow alike, each
// until a link that its data take is full of data and of the acknowledgements of data the
// other way. A Write's packet has 82 bytes beside its payload (Ethernet with preamble and
// gap 38, IPv4 20, UDP 8, BTH 12, ICRC 4), its first one 16 of RETH, and an
// acknowledgement 86 in all.
func wantedRates(sim *simulation) map[int]float64 {
	topo, mtu := sim.net.Topology(), sim.sys.NIC.MTU
	type grown struct {
		label     int
		to, back  []fabric.LinkID
		data, ack float64 // bytes on the wire for each of payload
		rate      float64
	}
	var flows []*grown
	for _, f := range sim.oracle.flows {
		message := f.Message
		packets := (message + mtu - 1) / mtu
		g := &grown{
			label: f.Label,
			to:    sim.net.Path(nil, f.Src, f.Dst, f.flowHash()), back: sim.net.Path(nil, f.Dst, f.Src, f.flowHash()),
			data: float64(message+packets*(62+20)+16) / float64(message),
		}
		if f.Operation == workload.Read {
			g.ack = 98. / float64(message)
		} else {
			acks := (packets + units.Bytes(sim.sys.NIC.AckEvery) - 1) / units.Bytes(sim.sys.NIC.AckEvery)
			g.ack = float64(acks*(66+20)) / float64(message)
		}
		flows = append(flows, g)
	}
	// Rates of data for given acknowledgements, then the acknowledgements of these rates,
	// halfway each time.
	acks := make([]float64, topo.Links())
	for range 200 {
		left, on := make([]float64, topo.Links()), make([]float64, topo.Links())
		open := map[*grown]bool{}
		for l := range left {
			left[l] = float64(topo.Link(fabric.LinkID(l)).Rate) - acks[l]
		}
		for _, g := range flows {
			g.rate, open[g] = 0, true
		}
		for len(open) > 0 {
			clear(on)
			for g := range open {
				for _, l := range g.to {
					on[l] += g.data
				}
			}
			step := math.Inf(1)
			for l, n := range on {
				if n > 1e-6 {
					step = min(step, left[l]/n)
				}
			}
			for _, g := range flows {
				if open[g] {
					g.rate += step
					for _, l := range g.to {
						left[l] -= step * g.data
					}
				}
			}
			for g := range open {
				for _, l := range g.to {
					if left[l] < 1 {
						delete(open, g)
					}
				}
			}
		}
		next := make([]float64, len(acks))
		for _, g := range flows {
			for _, l := range g.back {
				next[l] += g.rate * g.ack
			}
		}
		for l := range acks {
			acks[l] += (next[l] - acks[l]) / 2
		}
	}
	rates := map[int]float64{}
	for _, g := range flows {
		rates[g.label] = g.rate
	}
	return rates
}
