package bench

import (
	"fmt"

	"github.com/sluice-rdma/sluice/fabric"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// What a flow would take on an idle network has a closed form: its packets cross
// the links of its path one after the other, each stored before it is forwarded,
// and the last one's acknowledgement comes back. What hosts and NICs add is
// measured, by writes of one packet over one switch.

// idleTimes is what hosts and NICs add to a flow's completion time, by operation,
// with a payload of a byte and of a full packet.
type idleTimes [3]struct{ byte, packet units.Time }

// idleOverhead measures the idleTimes of a system whose hosts' links have that
// rate.
func idleOverhead(sys *scenario.System, rate units.Rate) (idleTimes, error) {
	var all idleTimes
	for op := range all {
		if sys.Reduced() && scenario.Operation(op) != scenario.Write {
			continue // it has no others
		}
		for _, x := range []struct {
			size units.Bytes
			to   *units.Time
		}{{1, &all[op].byte}, {units.Bytes(sys.NIC.MTU), &all[op].packet}} {
			t, err := singlePacket(sys, rate, scenario.Operation(op), x.size)
			if err != nil {
				return all, err
			}
			*x.to = t
		}
	}
	return all, nil
}

// singlePacket returns how long a message of one packet takes over an otherwise
// idle switch, beyond what its path takes.
func singlePacket(sys *scenario.System, rate units.Rate, op scenario.Operation, size units.Bytes) (units.Time, error) {
	idle := sys.Elsewhere()
	idle.Host.Load = 0
	s, err := newSimulation(idle, fabric.Star(2, fabric.Link{Rate: rate}), 0)
	if err != nil {
		return 0, err
	}
	spec := scenario.Flow{Src: 0, Dst: 1, Size: size, Message: size, Stop: units.Never, Operation: op}
	first := true
	s.flows = func() (scenario.Flow, bool) {
		ok := first
		first = false
		return spec, ok
	}
	s.duration = units.Second
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

// idealFCT returns how long a flow takes on an idle network.
func (s *simulation) idealFCT(f *scenario.Flow) units.Time {
	mtu := units.Bytes(s.sys.NIC.MTU)
	full := (f.Size - 1) / mtu // packets before the last
	last := f.Size - full*mtu

	// Propagation and the latency of switches shift all packets alike and are in
	// the round trip of the last packet, with its own serialisation. What comes on
	// top is how long the last packet waits: for the full ones at the first link,
	// and wherever it would otherwise overtake one.
	var fulls, alone, behind units.Time // when the last bit of: the full packets, the last packet without them and after them, has left a link
	var slowest units.Time              // serialisation of a full packet so far
	for _, l := range s.net.Path(nil, f.Src, f.Dst, 0) {
		link := s.net.Topology().Link(l)
		framing := link.Framing.Bytes()
		one, rest := link.Rate.Serialize(s.dataFrame(int(mtu))+framing), link.Rate.Serialize(s.dataFrame(int(last))+framing)
		if full > 0 {
			// Packets of one size leave at the pace of the slowest link.
			fulls -= units.Time(full-1) * slowest
			slowest = max(slowest, one)
			fulls += one + units.Time(full-1)*slowest
		}
		behind = max(behind, fulls) + rest
		alone += rest
	}
	overhead := &s.idle[f.Operation]
	share := float64(min(f.Size, mtu)) / float64(mtu)
	return s.net.BaseRTT(f.Src, f.Dst, s.dataFrame(int(last)), s.ackFrame()) + behind - alone +
		overhead.byte + units.Time(float64(overhead.packet-overhead.byte)*share)
}
