package simverbs_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func newMADs(t *testing.T) *mads {
	t.Helper()
	preset, err := nicmodel.Preset("cx6dx")
	if err != nil {
		t.Fatal(err)
	}
	m := &mads{engine: des.New()}
	const rate = 100 * units.Gbps
	net, err := fabric.New(m.engine, fabric.Star(2, fabric.Link{Rate: rate, Delay: 500 * units.Nanosecond}), fabric.Default(), 1)
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
		c.Payload, c.Header = bytes.Clone(p.Payload), nil
		m.sent = append(m.sent, c)
	})
	return m
}

// TestMADs sends datagrams between the queue pairs 1 of two devices: they are on the wire, and come whole, from the right address.
func TestMADs(t *testing.T) {
	m := newMADs(t)
	type got struct {
		Local   netip.Addr
		Src     netip.AddrPort
		SrcQPN  uint32
		Content byte
	}
	var came []got
	first, second := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
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
	if p := m.sent[0]; p.SrcQP != roce.GSIQP || p.DstQP != roce.GSIQP || p.QKey != roce.GSIQKey || len(p.Payload) != roce.MADBytes {
		t.Errorf("on the wire from queue pair %d to %d, Q_Key %#x, %d bytes", p.SrcQP, p.DstQP, p.QKey, len(p.Payload))
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
