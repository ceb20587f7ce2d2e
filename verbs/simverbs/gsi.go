package simverbs

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Requests that queue pair 1 holds. Datagrams beyond them are lost.
const (
	gsiSends = 64
	gsiRecvs = 256
)

// gsi is queue pair 1 of a device: a verbs.MADDevice. Its datagrams go through the NIC and over the wire as those of
// other queue pairs do.
type gsi struct {
	dev         *Device
	cq          uint32
	handle      func(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte)
	sends       []byte // places of datagrams that are sent, in turns
	sent        int
	sendAt      nicmodel.Region
	recvs       []byte // places of datagrams that come, behind their headers
	recvAt      nicmodel.Region
	completions [pollBatch]nicmodel.CQE
}

// GSI returns the device's general services interface, made at the first call. It is for simulators that drive the device
// from events: connection managers of applications run in real time, so the Device itself is no verbs.MADDevice.
func (d *Device) GSI() (verbs.MADDevice, error) {
	if err := d.usable("open_gsi"); err != nil {
		return nil, err
	}
	if d.gsi != nil {
		return d.gsi, nil
	}
	g := &gsi{dev: d, sends: make([]byte, gsiSends*roce.MADBytes), recvs: make([]byte, gsiRecvs*gsiRecvBytes)}
	if err := g.open(); err != nil {
		return nil, verbs.Errorf("open_gsi", d.name, verbs.ErrInvalid, "%v", err)
	}
	d.gsi = g
	return g, nil
}

const gsiRecvBytes = rc.GRHBytes + roce.MADBytes

func (g *gsi) open() (err error) {
	nic := g.dev.nic
	pd := nic.AllocPD()
	if g.sendAt, err = nic.RegMR(pd, g.sends, 0, 0); err != nil {
		return err
	}
	if g.recvAt, err = nic.RegMR(pd, g.recvs, 0, ib.AccessLocalWrite); err != nil {
		return err
	}
	if g.cq, err = nic.CreateCQ(gsiSends + gsiRecvs); err != nil {
		return err
	}
	if _, err = nic.CreateQP(nicmodel.QPConfig{
		Type: ib.UD, GSI: true, PD: pd, SendCQ: g.cq, RecvCQ: g.cq, SendDepth: gsiSends, RecvDepth: gsiRecvs, SGEs: 1, SigAll: true,
	}); err != nil {
		return err
	}
	nic.OnCompletion(g.cq, func(now units.Time, _ bool) { g.complete(now) })
	nic.Init(roce.GSIQP)
	nic.SetQKey(roce.GSIQP, roce.GSIQKey)
	for i := range gsiRecvs {
		if err := g.postRecv(i); err != nil {
			return err
		}
	}
	if err := nic.ReadyToReceive(roce.GSIQP, nicmodel.Peer{}, nicmodel.Congestion{}, rc.Config{MTU: portMTU}); err != nil {
		return err
	}
	return nic.ReadyToSend(roce.GSIQP, rc.SendConfig{})
}

func (g *gsi) postRecv(place int) error {
	return g.dev.nic.RecvQueue(roce.GSIQP).PostRecv(uint64(place), []nicmodel.SGE{
		{Addr: g.recvAt.Addr + uint64(place*gsiRecvBytes), Length: gsiRecvBytes, Key: g.recvAt.Key},
	})
}

// HandleMAD implements verbs.MADDevice. f is called as an event of the simulation.
func (g *gsi) HandleMAD(f func(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte)) {
	g.handle = f
}

// SendMAD implements verbs.MADDevice.
func (g *gsi) SendMAD(to verbs.AddressVector, qpn uint32, mad []byte) error {
	d := g.dev
	bad := func(cause error, format string, args ...any) error {
		return verbs.Errorf("send_mad", d.name, cause, format, args...)
	}
	if err := d.usable("send_mad"); err != nil {
		return err
	}
	if len(mad) != roce.MADBytes {
		return bad(verbs.ErrInvalid, "%d bytes, expected a datagram's %d", len(mad), roce.MADBytes)
	}
	host, err := d.peerOf(to.GID)
	if err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	at := g.sent % gsiSends * roce.MADBytes
	wr := nicmodel.WR{
		Request: rc.Request{Op: ib.WRSend, Length: roce.MADBytes},
		SGL:     []nicmodel.SGE{{Addr: g.sendAt.Addr + uint64(at), Length: roce.MADBytes, Key: g.sendAt.Key}},
		To: nicmodel.Peer{
			Host: host, QPN: qpn, Priority: d.priority(to.SL), IPv6: byIPv6(to.GID), FlowHash: flowHash(d.nic.Host(), host, roce.GSIQP, qpn, to.FlowLabel),
		},
		QKey: roce.GSIQKey,
	}
	if d.nic.Room(roce.GSIQP) == 0 {
		return bad(verbs.ErrQueueFull, "%d datagrams are on their way to the wire", gsiSends)
	}
	copy(g.sends[at:], mad)
	if err := d.nic.PostSend(roce.GSIQP, &wr); err != nil {
		return bad(verbs.ErrQueueFull, "%v", err)
	}
	g.sent++
	d.nic.Ring(d.nic.Now(), roce.GSIQP, 1)
	return nil
}

// complete takes the completions that are visible.
func (g *gsi) complete(now units.Time) {
	for {
		n := g.dev.nic.PollCQ(now, g.cq, g.completions[:])
		if n == 0 {
			return
		}
		for i := range n {
			if e := &g.completions[i]; e.Opcode&ib.WCRecv != 0 {
				g.received(e)
			}
		}
	}
}

// received hands a datagram on. Over InfiniBand it tells no address.
func (g *gsi) received(e *nicmodel.CQE) {
	b := g.recvs[int(e.WRID)*gsiRecvBytes:][:gsiRecvBytes]
	if e.Status != ib.WCSuccess {
		return // it is flushed
	}
	if e.HasGRH && e.ByteLen == gsiRecvBytes && g.handle != nil && !g.dev.gone {
		local, src := readGRH(b, e.IPv6)
		g.handle(local, netip.AddrPortFrom(src, roce.Port), e.SrcQPN, b[rc.GRHBytes:])
	}
	_ = g.postRecv(int(e.WRID)) // there is room: its own
}
