package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// FirstPacket returns two times of an idle NIC, for a WRITE of payload bytes, 0 included. The first
// is from the host's post until the NIC chooses the first packet: the doorbell with its
// element. The second is from then to the first bit on the wire, less the transmit
// pipeline (FixedLatencies.Send). FirstPacket measures them with one WRITE between two
// such NICs. mtu is that of the path, line the port's rate.
func FirstPacket(c *config.Config, payload int, mtu units.Bytes, line units.Rate) (start, fetch units.Time, err error) {
	e := des.New()
	x, y, err := idlePair(c, e, payload, mtu, line)
	if err != nil {
		return 0, 0, err
	}
	chosen, sent := units.Never, units.Never
	x.nic.OnSpan(func(s *chip.Span) {
		switch s.Place {
		case chip.AtScheduler:
			chosen = min(chosen, s.Begin)
		case chip.AtWire:
			sent = min(sent, s.Begin)
		}
	})
	wr := WR{Request: rc.Request{Op: ib.WRRDMAWrite, Length: uint32(payload), RemoteAddr: y.region.Addr, RKey: y.region.Key}}
	if payload > 0 {
		wr.SGL = []memory.SGE{{Addr: x.region.Addr, Length: uint32(payload), Key: x.region.Key}}
	}
	if err := x.nic.PostSend(x.qpn, &wr); err != nil {
		return 0, 0, err
	}
	x.nic.Ring(0, x.qpn, 1)
	for sent == units.Never && e.Next() != units.Never {
		e.Step()
	}
	return chosen, sent - chosen - c.PipelineLatency, nil
}

// idleEnd is one of two queue pairs of idle NICs, with memory for a message.
type idleEnd struct {
	nic    *NIC
	qpn    uint32
	region memory.Region
}

// idlePair connects two such NICs by a link, for one WRITE.
func idlePair(c *config.Config, e *des.Engine, payload int, mtu units.Bytes, line units.Rate) (x, y idleEnd, err error) {
	var two fabric.Topology
	two.Connect(two.AddHost("h0"), two.AddHost("h1"), fabric.Link{Rate: line, Delay: units.Nanosecond, Framing: c.Framing})
	network := fabric.Default()
	network.MaxFrame = max(network.MaxFrame, frames.FrameBytes(ib.WriteOnly, int(mtu)))
	net, err := fabric.New(e, &two, network, 1)
	if err != nil {
		return x, y, err
	}
	slab := frames.New(net)
	for host, end := range []*idleEnd{&x, &y} {
		if end.nic, err = New(e, net, slab, host, line, *c); err != nil {
			return x, y, err
		}
		if err := end.create(max(payload, 1)); err != nil {
			return x, y, err
		}
	}
	if err := x.connect(&y, mtu); err != nil {
		return x, y, err
	}
	return x, y, y.connect(&x, mtu)
}

// create makes the end's queue pair and its region of length bytes.
func (x *idleEnd) create(length int) error {
	cq, err := x.nic.CreateCQ(1)
	if err != nil {
		return err
	}
	pd := x.nic.AllocPD()
	if x.region, err = x.nic.RegMR(pd, nil, uint64(length), ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
		return err
	}
	x.qpn, err = x.nic.CreateQP(QPConfig{PD: pd, SendCQ: cq, RecvCQ: cq, SendDepth: 1, SGEs: 1})
	return err
}

// connect takes the end's queue pair to RTS.
func (x *idleEnd) connect(to *idleEnd, mtu units.Bytes) error {
	x.nic.Init(x.qpn)
	err := x.nic.ReadyToReceive(x.qpn, Peer{Host: to.nic.chip.Host, QPN: to.qpn}, Congestion{}, rc.Config{MTU: mtu, Access: ib.AccessRemoteWrite})
	if err != nil {
		return err
	}
	return x.nic.ReadyToSend(x.qpn, rc.SendConfig{})
}
