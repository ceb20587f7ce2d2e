package softroce

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
)

// openBoth opens a device here and one in the namespace of inNamespace.
func openBoth(t *testing.T, enter func(func()), here, there string) (a, b *end) {
	t.Helper()
	a = openEnd(t, "soft:sluice0"+here)
	enter(func() { b = openEnd(t, "soft:sluice1"+there) })
	if b == nil {
		t.FailNow()
	}
	return a, b
}

// All that a provider promises, over virtual Ethernet.
func TestXDP(t *testing.T) {
	inNamespace(t, func(enter func(func())) {
		a, b := openBoth(t, enter, "?mode=xdp", "?mode=xdp")
		verbstest.Run(t, verbstest.Ends{A: a.dev, B: b.dev, GIDA: -1, GIDB: -1})
	})
}

// connect connects the first queue pairs of both by one of their addresses.
func connect(t *testing.T, a, b *end, gid int) {
	t.Helper()
	from, err1 := a.dev.GID(1, gid)
	to, err2 := b.dev.GID(1, gid)
	a.me.GID, b.me.GID = from, to
	if err := errors.Join(err1, err2, verbs.ConnectRC(a.qp, a.me, b.me, verbs.DefaultRC()), verbs.ConnectRC(b.qp, b.me, a.me, verbs.DefaultRC())); err != nil {
		t.Fatal(err)
	}
}

// Every mode talks to every other, over each of the addresses.
func TestXDPMeetsTheOthers(t *testing.T) {
	inNamespace(t, func(enter func(func())) {
		for _, modes := range [][2]string{{"xdp", "xdp"}, {"xdp", "udp"}, {"udp", "xdp"}, {"xdp", "packet"}, {"packet", "xdp"}} {
			for gid, family := range []string{"IPv4", "IPv6", "link-local"} {
				t.Run(fmt.Sprintf("%s to %s, %s", modes[0], modes[1], family), func(t *testing.T) {
					a, b := openBoth(t, enter, "?mode="+modes[0], "?mode="+modes[1])
					connect(t, a, b, gid)
					writeAndRead(t, a, b)
				})
			}
		}
	})
}

// writeAndRead moves bytes there and back, all of which pass the checks on the way.
func writeAndRead(t *testing.T, a, b *end) {
	t.Helper()
	const n = 300_000
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(i) ^ byte(i>>8)
	}
	src, dst := bytes.Clone(want), make([]byte, n)
	ms, md := a.reg(src), b.reg(dst)
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		if _, err := a.do(verbs.SendWR{Opcode: op, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, n)}, RemoteAddr: md.Addr(), RKey: md.RKey()}); err != nil {
			t.Fatal(err)
		}
		b.look()
		if !bytes.Equal(dst, want) || !bytes.Equal(src, want) {
			t.Errorf("%v: other bytes came", op)
		}
		clear(src)
	}
	for _, h := range []*end{a, b} {
		c := h.look().Counters()
		for _, name := range []string{"rx_icrc_encapsulated", "rx_malformed", "tx_refused"} {
			if c[name] > 0 {
				t.Errorf("%s: %s is %d", h.dev.Name(), name, c[name])
			}
		}
	}
}
