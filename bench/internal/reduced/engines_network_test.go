package reduced_test

import (
	"math"
	"os"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/reduced"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// network is flows of one engine over the fabric and the reduced NIC.
type network struct {
	t       testing.TB
	scheme  cc.Scheme
	engine  *des.Engine
	net     *fabric.Network
	fleet   *reduced.Fleet
	base    units.Time // RTT of the longest path
	flows   []*netFlow
	ended   int
	failed  int        // flows that ended with an error
	timeout units.Time // of the transport
	// acksAmongData has acknowledgements wait in the queues of the data that go their
	// way, where else they go before data.
	acksAmongData bool
}

type netFlow struct {
	reduced.Flow
	ref    reduced.Ref
	engine *witness
}

const (
	netMTU       = 4096
	sharedBuffer = 64 * units.MiB
	// ackFrame is without what telemetry adds.
	ackFrame = 66
)

// witness holds an engine to what package cc promises of its answers, and notes
// the least of them.
type witness struct {
	cc.Engine
	t    testing.TB
	name string
	line units.Rate
}

func (w *witness) see(c cc.Control) cc.Control {
	least := units.Bytes(1)
	if _, granted := w.Engine.(cc.Granted); granted {
		least = 0
	}
	if c.Rate <= 0 || c.Rate > w.line || c.Window < least {
		w.t.Fatalf("%s answered %+v on a link of %v", w.name, c, w.line)
	}
	if e, ok := w.Engine.(cc.Inspector); ok {
		e.Inspect(func(name string, value float64) {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				w.t.Fatalf("%s: %s is %v", w.name, name, value)
			}
		})
	}
	return c
}

func (w *witness) OnAck(a *cc.Ack) cc.Control          { return w.see(w.Engine.OnAck(a)) }
func (w *witness) OnLoss(now units.Time) cc.Control    { return w.see(w.Engine.OnLoss(now)) }
func (w *witness) OnTimeout(now units.Time) cc.Control { return w.see(w.Engine.OnTimeout(now)) }
func (w *witness) OnCNP(now units.Time) cc.Control     { return w.see(w.Engine.OnCNP(now)) }

// grantedWitness is a witness of an engine that waits for grants.
type grantedWitness struct{ *witness }

func (w grantedWitness) OnGrant(now units.Time, sent units.Bytes, g cc.Grant) cc.Control {
	return w.see(w.Engine.(cc.Granted).OnGrant(now, sent, g))
}

// allows is the rate that the engine's answer comes to over the base RTT.
func (w *witness) allows(base units.Time) units.Rate {
	c := w.Control()
	if c.Window >= units.GiB {
		return c.Rate
	}
	return min(c.Rate, units.RateOf(max(c.Window, netMTU), base))
}

// netSchemes returns the schemes that the reduced NIC can drive.
func netSchemes() (all []cc.Scheme) {
	for _, s := range cc.Schemes() {
		if s.Oracle {
			continue // the reference for the others
		}
		all = append(all, s)
	}
	return all
}

// newNetwork puts a scheme on a topology. rate is what ECN's thresholds are for.
func newNetwork(t testing.TB, s cc.Scheme, topo *fabric.Topology, rate units.Rate, change func(*fabric.Config)) *network {
	n := &network{t: t, scheme: s, engine: des.New()}
	c := fabric.Default()
	c.Priorities = max(2, s.Classes) // acknowledgements go before data
	c.MaxFrame = netMTU + 400
	// What is shared, and headroom for what a link holds.
	c.Switch.Buffer = sharedBuffer
	for l := range fabric.LinkID(topo.Links()) {
		link := topo.Link(l)
		c.Switch.Buffer += units.Bytes(c.Priorities) * (link.Rate.BytesIn(2*link.Delay) + 64*units.KiB)
	}
	for i := range c.Switch.Classes {
		k := &c.Switch.Classes[i]
		k.PFC.Lossless = true
		k.EIN = fabric.Notice{Gradient: 0.25, Window: 50, HighWater: units.MB}
	}
	probe, err := fabric.New(des.New(), topo, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	data := nicmodel.FrameBytes(ib.WriteMiddle, netMTU)
	n.base = probe.MaxBaseRTT(data, ackFrame)
	for i := range c.Switch.Classes {
		// DCTCP's step, a seventh of the path's content (SIGCOMM 2010, section
		// 3.4), and no less than a few packets.
		k := &c.Switch.Classes[i]
		mark := max(rate.BytesIn(n.base)/7, 5*netMTU)
		k.ECN = fabric.ECN{Kmin: mark, Kmax: mark, Pmax: 1, AtRate: rate}
		k.EIN.HighWater = 4 * mark
	}
	if change != nil {
		change(&c)
	}
	if n.net, err = fabric.New(n.engine, topo, c, 1); err != nil {
		t.Fatal(err)
	}
	// Well above the round trip with the buffer full, or the transport would take
	// queues for losses.
	timeout := uint8(1)
	for n.timeout = 8192 * units.Nanosecond; n.timeout < 2*(n.base+rate.Serialize(sharedBuffer)); n.timeout *= 2 {
		timeout++
	}
	cfg := reduced.Config{MTU: netMTU, AckEvery: 1, Timeout: timeout, RetryCount: 7, SendDepth: 128, Classes: s.Classes > 0}
	if s.NewReceiver != nil {
		cfg.Receiver = func(_ int, line units.Rate) (cc.Receiver, error) {
			return s.NewReceiver(s.DefaultConfig(), cc.Env{LineRate: line, BaseRTT: n.base, MTU: netMTU})
		}
	}
	n.fleet, err = reduced.New(n.engine, n.net, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.fleet.OnDone(func(d *reduced.Done) {
		n.ended++
		if d.Status != ib.WCSuccess {
			n.failed++
		}
	})
	return n
}

// add starts a flow of that size, 0 for one without end, at the engine's Now.
func (n *network) add(src, dst int, size units.Bytes) *netFlow {
	return n.addUntil(src, dst, size, units.Never)
}

// addUntil starts a flow which starts no further message at stop.
func (n *network) addUntil(src, dst int, size units.Bytes, stop units.Time) *netFlow {
	line := n.net.LineRate(src)
	e, err := n.scheme.New(n.scheme.DefaultConfig(), cc.Env{LineRate: line, BaseRTT: n.base, MTU: netMTU, FlowSize: size})
	if err != nil {
		n.t.Fatalf("%s: %v", n.scheme.Name, err)
	}
	f := &netFlow{engine: &witness{Engine: e, t: n.t, name: n.scheme.Name, line: line}}
	f.Flow = reduced.Flow{
		ID: uint64(len(n.flows)), Src: src, Dst: dst, Size: size, Stop: stop,
		// Four are posted ahead: twice what the path holds.
		Message:  max(units.MiB, line.BytesIn(n.base)/2),
		FlowHash: uint32(len(n.flows)) * 2654435761,
		Congestion: nicmodel.Congestion{
			Engine: f.engine, Telemetry: n.scheme.Telemetry, ECT: n.scheme.ECN || n.scheme.CNP,
			CNPInterval: 50 * units.Microsecond,
			AckPriority: uint8(max(2, n.scheme.Classes) - 1), BaseRTT: n.base,
		},
	}
	if n.acksAmongData {
		f.Congestion.AckPriority = 0
	}
	if _, granted := e.(cc.Granted); granted {
		f.Congestion.Engine = grantedWitness{f.engine}
	}
	if f.ref, err = n.fleet.Start(&f.Flow); err != nil {
		n.t.Fatal(err)
	}
	n.flows = append(n.flows, f)
	return f
}

func (n *network) delivered(f *netFlow) units.Bytes { return n.fleet.Delivered(f.ref).Payload }

// capacities returns the payload that each link carries, in bits per second, and
// paths the links of each flow.
func (n *network) capacities() (capacity []float64, paths [][]int) {
	topo := n.net.Topology()
	frame := nicmodel.FrameBytes(ib.WriteMiddle, netMTU) + n.net.TelemetryBytes(n.scheme.Telemetry, 0)
	for l := range fabric.LinkID(topo.Links()) {
		link := topo.Link(l)
		capacity = append(capacity, float64(link.Rate)*netMTU/float64(frame+link.Framing.Bytes()))
	}
	for _, f := range n.flows {
		var path []int
		for _, l := range n.net.Path(nil, f.Src, f.Dst, f.FlowHash) {
			path = append(path, int(l))
		}
		paths = append(paths, path)
	}
	return capacity, paths
}

// large reports whether the long variants are asked for.
func large() bool { return os.Getenv("SLUICE_LARGE") != "" }
