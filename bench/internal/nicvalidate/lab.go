package nicvalidate

import (
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// host is one machine: its device and what most measurements need of it.
type host struct {
	engine *des.Engine
	dev    *simverbs.Device
	pd     verbs.PD
	cq     verbs.CQ // of sends
	recv   verbs.CQ // of receives
	buf    []byte
	mr     verbs.MR
	gid    netip.Addr
	polls  func(now units.Time) // runs when a completion has become visible
}

const (
	bufferBytes = 1 << 20
	queueDepth  = 1024
)

// A cable of 2 m, and a switch from port to port: InfiniScale IV's data sheet says 100 ns.
const (
	cable         = 10 * units.Nanosecond
	switchLatency = 100 * units.Nanosecond
)

// correction is the delay that the receiving end of a link adds to each packet: with lanes of 25 Gbps and more, blocks of
// RS(544,514), of symbols of 10 bits, come in whole before their errors are corrected, which takes 37 cycles at 1 GHz in what
// contributions to IEEE 802.3dj assume (recalled and not checked). Slower lanes have none here, nor has the
// link that is made of two ports of FDR.
func correction(rate units.Rate) units.Time {
	const (
		block   = 544 * 10 / 8 // bytes
		correct = 37 * units.Nanosecond
	)
	if rate < 100*units.Gbps || rate == 2*fdr {
		return 0
	}
	return rate.Serialize(block) + correct
}

// newHosts makes machines with these NICs in turn: two back to back, or more around one
// lossless switch.
func newHosts(n int, direct bool, link fabric.Link, cfgs ...nicmodel.Config) ([]*host, error) {
	var topology *fabric.Topology
	if direct {
		topology = &fabric.Topology{}
		topology.Connect(topology.AddHost("h0"), topology.AddHost("h1"), link)
		n = 2
	} else {
		topology = fabric.Star(n, link)
	}
	network := fabric.Default()
	network.Switch.Latency = switchLatency
	for i := range network.Switch.Classes {
		network.Switch.Classes[i].PFC.Lossless = true
	}
	e := des.New()
	net, err := fabric.New(e, topology, network, 1)
	if err != nil {
		return nil, err
	}
	w := simverbs.NewWorld(e, net)
	frames := nicmodel.NewFrames(net)
	hosts := make([]*host, n)
	for i := range hosts {
		nic, err := nicmodel.New(e, net, frames, i, link.Rate, cfgs[i%len(cfgs)])
		if err != nil {
			return nil, err
		}
		if hosts[i], err = newHost(w.AddDevice(fmt.Sprintf("validate/h%d", i), nic, nil)); err != nil {
			return nil, err
		}
		hosts[i].engine = e
	}
	return hosts, nil
}

func newHost(dev *simverbs.Device) (*host, error) {
	h := &host{dev: dev, buf: make([]byte, bufferBytes)}
	var err error
	if h.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	all := ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic
	if h.mr, err = h.pd.RegMR(h.buf, all); err != nil {
		return nil, err
	}
	for _, cq := range []*verbs.CQ{&h.cq, &h.recv} {
		if *cq, err = dev.CreateCQ(verbs.CQInitAttr{CQE: 1 << 16, Timestamps: true}); err != nil {
			return nil, err
		}
	}
	if h.gid, err = dev.GID(1, 0); err != nil {
		return nil, err
	}
	dev.OnCompletion(func(now units.Time) {
		if h.polls != nil {
			h.polls(now)
		}
	})
	return h, nil
}

// newQP makes a queue pair for depth outstanding requests and the given number of
// receives.
func (h *host) newQP(service ib.QPType, depth, receives, inline int) (verbs.QP, error) {
	return h.pd.CreateQP(verbs.QPInitAttr{
		Type: service, SendCQ: h.cq, RecvCQ: h.recv,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: inline},
	})
}

// connect makes a reliable connection between two machines, whose queues hold depth
// requests and receives.
func connect(a, b *host, depth, receives, inline int, mtu ib.MTU) (qa, qb verbs.QP, err error) {
	var qps [2]verbs.QP
	var ends [2]verbs.Endpoint
	for i, h := range []*host{a, b} {
		if qps[i], err = h.newQP(ib.RC, depth, receives, inline); err != nil {
			return nil, nil, err
		}
		ends[i] = verbs.Endpoint{GID: h.gid, QPN: qps[i].Num()}
	}
	p := verbs.DefaultRC()
	p.PathMTU = mtu
	for i := range qps {
		if err := verbs.ConnectRC(qps[i], ends[i], ends[1-i], p); err != nil {
			return nil, nil, err
		}
	}
	return qps[0], qps[1], nil
}

// step is a change of a queue pair's state.
type step struct {
	attr verbs.QPAttr
	mask verbs.QPAttrMask
}

func take(qp verbs.QP, steps ...step) error {
	for _, s := range steps {
		if err := qp.Modify(s.attr, s.mask); err != nil {
			return err
		}
	}
	return nil
}

// connectUC makes an unreliable connection between two machines.
func connectUC(a, b *host, depth, inline int, mtu ib.MTU) (qa, qb verbs.QP, err error) {
	var qps [2]verbs.QP
	hosts := [2]*host{a, b}
	for i, h := range hosts {
		if qps[i], err = h.newQP(ib.UC, depth, 0, inline); err != nil {
			return nil, nil, err
		}
	}
	for i := range qps {
		if err := take(qps[i],
			step{verbs.QPAttr{State: ib.Init, Port: 1, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite}, verbs.ResetToInitUC},
			step{verbs.QPAttr{
				State: ib.RTR, PathMTU: mtu, DestQPN: qps[1-i].Num(), AV: verbs.AddressVector{GID: hosts[1-i].gid, HopLimit: 64},
			}, verbs.InitToRTRUC},
			step{verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSUC},
		); err != nil {
			return nil, nil, err
		}
	}
	return qps[0], qps[1], nil
}

// destination is the destination of datagrams.
type destination struct {
	ah  verbs.AH
	qpn uint32
}

const qkey = 0x11111111

func (d destination) address(wr *verbs.SendWR) {
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = d.ah, d.qpn, qkey
}

// datagrams makes a datagram queue pair that is ready to send.
func (h *host) datagrams(depth, inline int) (verbs.QP, error) {
	qp, err := h.newQP(ib.UD, depth, queueDepth, inline)
	if err != nil {
		return nil, err
	}
	return qp, take(qp,
		step{verbs.QPAttr{State: ib.Init, Port: 1, QKey: qkey}, verbs.ResetToInitUD},
		step{verbs.QPAttr{State: ib.RTR}, verbs.InitToRTRUD},
		step{verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSUD},
	)
}

// datagramsTo makes a datagram queue pair of each of two machines, and what sends from
// a's to b's need.
func datagramsTo(a, b *host, depth, inline int) (from, to verbs.QP, d destination, err error) {
	if from, err = a.datagrams(depth, inline); err != nil {
		return nil, nil, d, err
	}
	if to, err = b.datagrams(1, 0); err != nil {
		return nil, nil, d, err
	}
	d.qpn = to.Num()
	d.ah, err = a.pd.CreateAH(verbs.AddressVector{GID: b.gid, HopLimit: 64})
	return from, to, d, err
}
