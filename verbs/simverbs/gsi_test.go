package simverbs_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// mads is two devices with queue pair 1, on a network that a simulator drives.
type mads struct {
	engine *des.Engine
	devs   [2]*simverbs.Device
	gsi    [2]verbs.MADDevice
	sent   []nicmodel.Sent // by the first, without contents
}

func newMADs(t *testing.T) *mads { return newMADsOn(t, fabric.Default()) }

func newMADsOn(t *testing.T, cfg fabric.Config) *mads {
	t.Helper()
	preset, err := nicmodel.Preset("cx6dx")
	if err != nil {
		t.Fatal(err)
	}
	m := &mads{engine: des.New()}
	const rate = 100 * units.Gbps
	net, err := fabric.New(m.engine, fabric.Star(2, fabric.Link{Rate: rate, Delay: 500 * units.Nanosecond}), cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	world, frames := simverbs.NewWorld(m.engine, net), nicmodel.NewFrames(net)
	for i := range m.devs {
		nic, err := nicmodel.New(m.engine, net, frames, i, rate, preset)
		if err != nil {
			t.Fatal(err)
		}
		m.devs[i] = world.AddDevice("", nic, nil)
		if m.gsi[i], err = m.devs[i].GSI(); err != nil {
			t.Fatal(err)
		}
	}
	m.devs[0].NIC().OnTransmit(func(_ units.Time, p *nicmodel.Sent) {
		c := *p
		c.Payload, c.Header, c.Frame = bytes.Clone(p.Payload), nil, &fabric.Frame{Size: p.Frame.Size}
		m.sent = append(m.sent, c)
	})
	return m
}

// TestMADs sends datagrams between the queue pairs 1 of two devices: they are on the wire, and come whole, from the right address.
func TestMADs(t *testing.T) {
	for _, c := range []struct {
		first, second string
		size          int32 // of a packet
	}{
		{"10.0.0.1", "10.0.0.2", 14 + 20 + 8 + 12 + 8 + 256 + 4 + 4},
		{"fd00::a00:1", "fd00::a00:2", 14 + 40 + 8 + 12 + 8 + 256 + 4 + 4},
	} {
		t.Run(c.first, func(t *testing.T) { testMADs(t, netip.MustParseAddr(c.first), netip.MustParseAddr(c.second), c.size) })
	}
}

func testMADs(t *testing.T, first, second netip.Addr, size int32) {
	m := newMADs(t)
	type got struct {
		Local   netip.Addr
		Src     netip.AddrPort
		SrcQPN  uint32
		Content byte
	}
	var came []got
	m.gsi[1].HandleMAD(func(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte) {
		if len(mad) != roce.MADBytes || !bytes.Equal(mad, bytes.Repeat(mad[:1], roce.MADBytes)) {
			t.Errorf("a datagram of %d bytes came: % x", len(mad), mad)
		}
		came = append(came, got{local, src, srcQPN, mad[0]})
	})
	const rounds, each = 12, 40 // more than queue pair 1 has places for
	var want []got
	for i := range rounds * each {
		if err := m.gsi[0].SendMAD(verbs.AddressVector{GID: second}, roce.GSIQP, bytes.Repeat([]byte{byte(i)}, roce.MADBytes)); err != nil {
			t.Fatal(err)
		}
		want = append(want, got{second, netip.AddrPortFrom(first, roce.Port), roce.GSIQP, byte(i)})
		if i%each == each-1 {
			m.engine.RunUntil(m.engine.Now() + units.Millisecond)
		}
	}
	if d := cmp.Diff(want, came, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Errorf("what came (-want +got):\n%s", d)
	}
	if len(m.sent) != len(want) {
		t.Fatalf("%d packets on the wire, expected %d", len(m.sent), len(want))
	}
	if p := m.sent[0]; p.SrcQP != roce.GSIQP || p.DstQP != roce.GSIQP || p.QKey != roce.GSIQKey || len(p.Payload) != roce.MADBytes || p.Frame.Size != size {
		t.Errorf("on the wire from queue pair %d to %d, Q_Key %#x, %d bytes in %d, expected a frame of %d", p.SrcQP, p.DstQP, p.QKey, len(p.Payload), p.Frame.Size, size)
	}
}

// TestMADErrors has SendMAD refuse what can't be sent, and a device that has died neither send nor receive.
func TestMADErrors(t *testing.T) {
	m := newMADs(t)
	to, mad := verbs.AddressVector{GID: netip.MustParseAddr("10.0.0.2")}, make([]byte, roce.MADBytes)
	m.gsi[1].HandleMAD(func(netip.Addr, netip.AddrPort, uint32, []byte) { t.Error("a datagram came to a device that has died") })
	for name, c := range map[string]struct {
		to   verbs.AddressVector
		mad  []byte
		want error
	}{
		"too short":  {to, mad[1:], verbs.ErrInvalid},
		"no address": {verbs.AddressVector{GID: netip.MustParseAddr("10.0.0.3")}, mad, verbs.ErrInvalid},
	} {
		if err := m.gsi[0].SendMAD(c.to, roce.GSIQP, c.mad); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
	}
	var err error
	sent := 0
	for ; err == nil && sent < 1000; sent++ {
		err = m.gsi[0].SendMAD(to, roce.GSIQP, mad)
	}
	if !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("after %d at once: %v, expected %v", sent, err, verbs.ErrQueueFull)
	}
	m.devs[1].Die()
	m.engine.RunUntil(m.engine.Now() + units.Millisecond)
	if err := m.gsi[1].SendMAD(to, roce.GSIQP, mad); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("a device that has died: %v, expected %v", err, verbs.ErrNoDevice)
	}
}

// TestServiceLevels has what is sent at service levels go over a network with a single priority: levels without one of their
// own have the least.
func TestServiceLevels(t *testing.T) {
	cfg := fabric.Default()
	cfg.Priorities = 1
	m := newMADsOn(t, cfg)
	to := verbs.AddressVector{GID: netip.MustParseAddr("10.0.0.2"), SL: 7}
	mads := 0
	m.gsi[1].HandleMAD(func(netip.Addr, netip.AddrPort, uint32, []byte) { mads++ })
	if err := m.gsi[0].SendMAD(to, roce.GSIQP, make([]byte, roce.MADBytes)); err != nil {
		t.Fatal(err)
	}
	var hosts [2]*host
	for i := range hosts {
		hosts[i] = newHost(t, m.devs[i])
	}
	p := verbs.DefaultRC()
	p.SL = 3
	a, b := hosts[0], hosts[1]
	if err := errors.Join(verbs.ConnectRC(a.qp, a.me, b.me, p), verbs.ConnectRC(b.qp, b.me, a.me, p)); err != nil {
		t.Fatal(err)
	}
	ah, err := a.pd.CreateAH(to)
	if err != nil {
		t.Fatal(err)
	}
	var pairs [2]verbs.QP
	for i, h := range hosts {
		if pairs[i], err = h.pd.CreateQP(verbs.QPInitAttr{Type: ib.UD, SendCQ: h.cq, RecvCQ: h.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			pairs[i].Modify(verbs.QPAttr{State: ib.Init, Port: 1, QKey: 5}, verbs.ResetToInitUD),
			pairs[i].Modify(verbs.QPAttr{State: ib.RTR}, verbs.InitToRTRUD), pairs[i].Modify(verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSUD)); err != nil {
			t.Fatal(err)
		}
	}
	var regions [2]verbs.MR
	for i, h := range hosts {
		if regions[i], err = h.pd.RegMR(make([]byte, 8), ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
			t.Fatal(err)
		}
	}
	sge := []verbs.SGE{{Addr: regions[0].Addr(), Length: 8, LKey: regions[0].LKey()}}
	if _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, SGL: sge, RemoteAddr: regions[1].Addr(), RKey: regions[1].RKey(), Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	if _, err := pairs[0].PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: sge, AH: ah, RemoteQPN: pairs[1].Num(), RemoteQKey: 5, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	m.engine.RunUntil(units.Millisecond)
	var wc [4]verbs.WC
	n, err := a.cq.Poll(wc[:])
	if err != nil || n != 2 || wc[0].Status != ib.WCSuccess || wc[1].Status != ib.WCSuccess || mads != 1 {
		t.Errorf("%d completions %v and %d datagrams, %v: expected 2 and 1", n, wc[:n], mads, err)
	}
}
