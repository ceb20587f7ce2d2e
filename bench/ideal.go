package bench

import (
	"fmt"

	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// The time of a flow on an idle network has a closed form: its packets cross the
// links of its path one after the other, each stored before it is forwarded, and
// the last one's acknowledgement returns. The time that hosts and NICs add is
// measured, by writes of one packet over one switch.

// idleTimes are the times that hosts and NICs add to a flow's completion time, by operation,
// with a payload of a byte and of a full packet.
type idleTimes [3]idleTime

type idleTime struct{ byte, packet units.Time }

// idleOverhead measures the idleTimes of a system whose hosts' links have that
// rate.
func idleOverhead(sys *scenario.System, rate units.Rate) (idleTimes, error) {
	var all idleTimes
	for op := range all {
		if !sys.Carries(workload.Operation(op)) {
			continue
		}
		for _, x := range []struct {
			size units.Bytes
			to   *units.Time
		}{{1, &all[op].byte}, {sys.NIC.MTU, &all[op].packet}} {
			t, err := singlePacket(sys, rate, workload.Operation(op), x.size)
			if err != nil {
				return all, err
			}
			*x.to = t
		}
	}
	return all, nil
}

// idleNetwork is two hosts of a system at a switch, with nothing else to do.
func idleNetwork(sys *scenario.System, rate units.Rate) (*simulation, error) {
	idle := sys.Elsewhere()
	idle.Host.Load = 0
	s, err := newSimulation(idle, fabric.Star(2, fabric.Link{Rate: rate}), 0, 0, false)
	if err != nil {
		return nil, err
	}
	s.duration = units.Second
	return s, nil
}

// singlePacket returns how long a message of one packet takes over an otherwise
// idle switch, beyond what its path takes.
func singlePacket(sys *scenario.System, rate units.Rate, op workload.Operation, size units.Bytes) (units.Time, error) {
	s, err := idleNetwork(sys, rate)
	if err != nil {
		return 0, err
	}
	spec := workload.Flow{Src: 0, Dst: 1, Size: size, Message: size, Stop: units.Never, Operation: op}
	first := true
	s.flows = func() (workload.Flow, bool) {
		ok := first
		first = false
		return spec, ok
	}
	var fct units.Time
	s.onDone = func(f *flow, now units.Time) { fct = now - f.Start }
	if err := s.run(); err != nil {
		return 0, err
	}
	if fct == 0 {
		return 0, fmt.Errorf("a %v of %v over an idle switch did not complete in %v", op, size, s.duration)
	}
	return fct - s.idealFCT(&spec), nil
}

// answerOverhead measures what hosts and NICs add to a request and its answer, half
// each, for the operations of the scenario's requests.
func answerOverhead(s *scenario.Scenario, sys *scenario.System) (idleTimes, error) {
	var all idleTimes
	for _, w := range s.Workloads {
		if _, ok := w.Pattern.(*workload.RPC); !ok || all[w.Operation].packet > 0 {
			continue
		}
		for _, x := range []struct {
			size units.Bytes
			to   *units.Time
		}{{1, &all[w.Operation].byte}, {sys.NIC.MTU, &all[w.Operation].packet}} {
			t, err := singleRequest(sys, s.Topology.HostRate, w.Operation, x.size)
			if err != nil {
				return all, err
			}
			*x.to = t / 2
		}
	}
	return all, nil
}

// singleRequest is singlePacket for a request and its answer of that size each.
func singleRequest(sys *scenario.System, rate units.Rate, op workload.Operation, size units.Bytes) (units.Time, error) {
	s, err := idleNetwork(sys, rate)
	if err != nil {
		return 0, err
	}
	s.flows = func() (workload.Flow, bool) { return workload.Flow{}, false }
	s.traffic = []*workload.Traffic{workload.SingleRequest(op, size)}
	var took units.Time
	s.onTask = func(t *workload.Task, now units.Time) { took = now - t.Start }
	if err := s.run(); err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, fmt.Errorf("a %v of %v over an idle switch was not answered in %v", op, size, s.duration)
	}
	return took - s.crossing(0, 1, size) - s.crossing(1, 0, size), nil
}

// idealAnswer returns how long a request takes to its answer on an idle network.
func (s *simulation) idealAnswer(t *workload.Task) units.Time {
	over, request := &s.answered[t.Operation], t.Size-t.Response
	return s.crossing(t.Src, t.Dst, request) + over.of(s, request) + t.Service + s.crossing(t.Dst, t.Src, t.Response) + over.of(s, t.Response)
}

// idealFCT returns how long a flow takes on an idle network: until its last packet is
// acknowledged.
func (s *simulation) idealFCT(f *workload.Flow) units.Time {
	return s.crossing(f.Src, f.Dst, f.Size) + s.net.BaseDelay(f.Dst, f.Src, s.built.AckFrame()) + s.idle[f.Operation].of(s, f.Size)
}

// of returns the time added to a message of that size.
func (o *idleTime) of(s *simulation, size units.Bytes) units.Time {
	mtu := s.sys.NIC.MTU
	share := float64(min(size, mtu)) / float64(mtu)
	return o.byte + units.Time(float64(o.packet-o.byte)*share)
}

// crossing returns how long that many bytes take from a host's first bit on the wire
// to the last into another host.
func (s *simulation) crossing(src, dst int, size units.Bytes) units.Time {
	mtu := s.sys.NIC.MTU
	full := (size - 1) / mtu // packets before the last
	last := size - full*mtu

	// Propagation and the latency of switches shift all packets alike and are in
	// the round trip of the last packet, with its own serialisation. What comes on
	// top is how long the last packet waits: for the full ones at the first link,
	// and wherever it would otherwise overtake one.
	var fulls, alone, behind units.Time // when the last bit of: the full packets, the last packet without them and after them, has left a link
	var slowest units.Time              // serialisation of a full packet so far
	for _, l := range s.net.Path(nil, src, dst, 0) {
		link := s.net.Topology().Link(l)
		framing := link.Framing.Bytes()
		one, rest := link.Rate.Serialize(s.built.DataFrame(mtu)+framing), link.Rate.Serialize(s.built.DataFrame(last)+framing)
		if full > 0 {
			// Packets of one size leave at the pace of the slowest link.
			fulls -= units.Time(full-1) * slowest
			slowest = max(slowest, one)
			fulls += one + units.Time(full-1)*slowest
		}
		behind = max(behind, fulls) + rest
		alone += rest
	}
	return s.net.BaseDelay(src, dst, s.built.DataFrame(last)) + behind - alone
}
