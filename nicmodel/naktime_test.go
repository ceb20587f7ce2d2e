package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// One packet of a Write is lost. What a card takes to make a NAK and to react to it delays the repetition by so much, and what is on its way
// meanwhile is sent again; without a loss it costs nothing, and with selective repeat neither.
func TestNAKTime(t *testing.T) {
	const size = 400 * 1024
	run := func(nak units.Time, loss config.LossRecovery, lose bool) (took units.Time, again uint64) {
		cfg := preset(t, "cx5")
		cfg.Transport.NAKTime, cfg.Transport.Loss = nak, loss
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		if lose {
			wire := &nth{to: 1, n: 20}
			for _, n := range b.nics {
				n.Impair(wire)
			}
		}
		x, y := b.connect(0, 1, [2]Congestion{}, rc.SendConfig{Timeout: 14, RetryCount: 7}, 1024)
		from, to := x.region(t, pattern(size, 1)), y.region(t, make([]byte, size))
		b.post(x, WR{
			Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: size, RemoteAddr: to.Addr, RKey: to.Key},
			SGL:     []memory.SGE{{Addr: from.Addr, Length: size, Key: from.Key}},
		})
		b.e.RunUntil(200 * units.Microsecond)
		all := b.poll(x)
		if len(all) != 1 || all[0].Status != ib.WCSuccess {
			t.Fatalf("completions %+v", all)
		}
		return all[0].Visible, x.nic.Counters(x.qpn).RetransmittedPackets
	}
	const nak = 6 * units.Microsecond
	before, few := run(0, config.GoBackN, true)
	after, more := run(nak, config.GoBackN, true)
	if d := after - before; d < nak-100*units.Nanosecond || d > nak+100*units.Nanosecond {
		t.Errorf("%v longer to a NAK is %v longer to the end", nak, d)
	}
	// At 100 Gbps a packet of 1 KiB leaves each 88 ns.
	if got, want := int(more-few), int(nak/(88*units.Nanosecond)); got < want-2 || got > want+2 {
		t.Errorf("%d packets more were sent again, expected some %d", got, want)
	}
	for _, c := range []struct {
		name string
		loss config.LossRecovery
		lose bool
	}{{"nothing lost", config.GoBackN, false}, {"selective repeat", config.SelectiveRepeat, true}} {
		x, _ := run(0, c.loss, c.lose)
		if y, _ := run(nak, c.loss, c.lose); x != y {
			t.Errorf("%s: done at %v, and at %v with a time to a NAK", c.name, x, y)
		}
	}
}
