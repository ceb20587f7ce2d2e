package softroce

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
)

// BenchmarkOverVeth is transfers over virtual Ethernet by each of the modes, beside
// datagrams without meaning by UDP sockets: Gb/s of payload, or million messages a second,
// the medians of rounds that alternate. Each mode has a pair of interfaces of its own, as
// an XDP program changes what a pair does.
func BenchmarkOverVeth(b *testing.B) {
	for _, c := range []struct {
		contest
		interfaceMTU int
	}{
		{contest{ib.WRRDMAWrite, 1 << 20, 1024, "", 1, 8}, 1500},
		{contest{ib.WRRDMAWrite, 1 << 20, 2048, "", 1, 16}, 2400},
		{contest{ib.WRRDMAWrite, 64 << 10, 1024, "", 1, 128}, 1500},
		{contest{ib.WRRDMARead, 1 << 20, 1024, "", 1, 8}, 1500},
		{contest{ib.WRRDMAWrite, 8, 1024, "", 32, 4096}, 1500},
	} {
		b.Run(fmt.Sprintf("%v,%d B,MTU %d", c.op, c.size, c.mtu), func(b *testing.B) {
			inNamespace(b, func(enter func(func())) { overVeth(b, enter, &c.contest, c.interfaceMTU) })
		})
	}
}

func overVeth(b *testing.B, enter func(func()), c *contest, mtu int) {
	pair := func(i int) {
		for _, args := range []string{
			fmt.Sprintf("link add bench%d type veth peer name peer%d netns %s", i, i, otherSpace),
			fmt.Sprintf("addr add 10.47.%d.1/24 dev bench%d", 100+i, i),
			fmt.Sprintf("link set bench%d mtu %d up", i, mtu),
			fmt.Sprintf("-n %s addr add 10.47.%d.2/24 dev peer%d", otherSpace, 100+i, i),
			fmt.Sprintf("-n %s link set peer%d mtu %d up", otherSpace, i, mtu),
		} {
			if err := ip(args); err != nil {
				b.Skipf("no virtual interfaces here: %v", err)
			}
		}
		b.Cleanup(func() { _ = ip(fmt.Sprintf("link del bench%d", i)) })
	}
	type runner struct {
		name string
		run  func() time.Duration
		rate []float64
	}
	modes := []mode{modeUDP, modePacket, modeXDP}
	var all []*runner
	for i, m := range modes {
		pair(i)
		var x, y *end
		x = openEnd(b, fmt.Sprintf("soft:10.47.%d.1?mode=%s", 100+i, m))
		enter(func() { y = openEnd(b, fmt.Sprintf("soft:10.47.%d.2?mode=%s", 100+i, m)) })
		if y == nil {
			b.FailNow()
		}
		if err := errors.Join(verbs.ConnectRC(x.qp, x.me, y.me, params(c.mtu)), verbs.ConnectRC(y.qp, y.me, x.me, params(c.mtu))); err != nil {
			b.Fatal(err)
		}
		s := newStream(x, y, c)
		all = append(all, &runner{name: string(m), run: func() time.Duration {
			start := time.Now()
			s.run(c.round)
			return time.Since(start)
		}})
	}
	pair(len(modes))
	packet, window := min(c.size, int(c.mtu)), windowOf(0, &Shape{}, c.mtu)
	together := window / 4
	if c.small() {
		together = c.list
		packet += roce.RETHBytes
	}
	var to *udpSocket
	from := plainSocket(b, fmt.Sprintf("10.47.%d.1:4791", 100+len(modes)))
	enter(func() { to = plainSocket(b, fmt.Sprintf("10.47.%d.2:4791", 100+len(modes))) })
	p := newPlain(b, from, to, packet, true, window, together)
	defer p.close()
	all = append(all, &runner{name: "UDP", run: func() time.Duration { return p.run(c.round * ((c.size + int(c.mtu) - 1) / int(c.mtu))) }})

	unit := float64(c.round*c.size*8) / 1e9
	if c.small() {
		unit = float64(c.round) / 1e6
	}
	b.SetBytes(int64(len(all) * c.round * c.size))
	for b.Loop() {
		for _, r := range all {
			if took := r.run(); took > 0 {
				r.rate = append(r.rate, unit/took.Seconds())
			}
		}
	}
	for _, r := range all {
		if len(r.rate) > 0 {
			b.ReportMetric(median(r.rate), r.name)
		}
	}
}
