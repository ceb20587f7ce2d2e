package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// FirstPacket returns what an idle NIC takes from a host's posting of one WRITE until it
// chooses its first packet, for the doorbell with its element, and from then to the
// first bit on the wire, for so many bytes of payload, less the transmit pipeline
// (FixedLatencies.Send). It is measured: two NICs of the kind write once. mtu is that of
// the path, line the port's rate.
func (c *Config) FirstPacket(payload int, mtu units.Bytes, line units.Rate) (start, fetch units.Time, err error) {
	e := des.New()
	var two fabric.Topology
	two.Connect(two.AddHost("h0"), two.AddHost("h1"), fabric.Link{Rate: line, Delay: units.Nanosecond, Framing: c.Framing})
	network := fabric.Default()
	network.MaxFrame = max(network.MaxFrame, FrameBytes(ib.WriteOnly, int(mtu)))
	net, err := fabric.New(e, &two, network, 1)
	if err != nil {
		return 0, 0, err
	}
	frames := NewFrames(net)
	var nics [2]*NIC
	var qpns [2]uint32
	var regions [2]Region
	for i := range nics {
		n, err := New(e, net, frames, i, line, *c)
		if err != nil {
			return 0, 0, err
		}
		cq, err := n.CreateCQ(1)
		if err != nil {
			return 0, 0, err
		}
		pd := n.AllocPD()
		if regions[i], err = n.RegMR(pd, nil, uint64(max(payload, 1)), ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
			return 0, 0, err
		}
		if qpns[i], err = n.CreateQP(QPConfig{PD: pd, SendCQ: cq, RecvCQ: cq, SendDepth: 1, SGEs: 1}); err != nil {
			return 0, 0, err
		}
		nics[i] = n
	}
	for i, n := range nics {
		n.Init(qpns[i])
		err := n.ReadyToReceive(qpns[i], Peer{Host: 1 - i, QPN: qpns[1-i]}, Congestion{}, rc.Config{MTU: mtu, Access: ib.AccessRemoteWrite})
		if err != nil {
			return 0, 0, err
		}
		if err := n.ReadyToSend(qpns[i], rc.SendConfig{}); err != nil {
			return 0, 0, err
		}
	}
	chosen, sent := units.Never, units.Never
	nics[0].OnSpan(func(s *Span) {
		switch s.Place {
		case AtScheduler:
			chosen = min(chosen, s.Begin)
		case AtWire:
			sent = min(sent, s.Begin)
		}
	})
	err = nics[0].PostSend(qpns[0], &WR{
		Request: rc.Request{Op: ib.WRRDMAWrite, Length: uint32(payload), RemoteAddr: regions[1].Addr, RKey: regions[1].Key},
		SGL:     []SGE{{regions[0].Addr, uint32(payload), regions[0].Key}},
	})
	if err != nil {
		return 0, 0, err
	}
	nics[0].Ring(0, qpns[0], 1)
	for sent == units.Never && e.Next() != units.Never {
		e.Step()
	}
	return chosen, sent - chosen - c.PipelineLatency, nil
}
