package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/dcqcn"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
)

// nth is a wire that loses one packet, by its number among all to one host.
type nth struct {
	to, n int
	seen  int
}

func (w *nth) Carry(_ units.Time, _, to int) fault.Fate {
	if to != w.to {
		return fault.Fate{}
	}
	w.seen++
	return fault.Fate{Drop: w.seen == w.n}
}

// One packet of a message is lost. The responder notifies of the gap, once, and slow restart lowers the requester's rate, once;
// neither where the NIC has none, or where the engine knows it not.
func TestSlowRestart(t *testing.T) {
	for _, c := range []struct {
		name    string
		preset  string
		engine  bool
		want    Restarts // at the requester
		cnps    uint64
		halved  bool
		handled uint64
	}{
		{"ConnectX-5", "cx5", true, Restarts{Used: 1, Trans: 1}, 1, true, 1},
		{"ConnectX-4 Lx", "cx4lx", true, Restarts{}, 0, false, 0},
		{"without an engine", "cx5", false, Restarts{}, 0, false, 0},
	} {
		b := newBed(t, 2, 100*units.Gbps, preset(t, c.preset), nil)
		wire := &nth{to: 1, n: 20}
		for _, n := range b.nics {
			n.Impair(wire)
		}
		var cong [2]Congestion
		if c.engine {
			for i := range cong {
				e, err := dcqcn.NewCard(dcqcn.DefaultCardConfig(), cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 4 * units.Microsecond, MTU: 1024})
				if err != nil {
					t.Fatal(err)
				}
				cong[i] = Congestion{Engine: e, ECT: true, CNPInterval: 4 * units.Microsecond, LossCNPs: true}
			}
		}
		x, y := b.connect(0, 1, cong, rc.SendConfig{Timeout: 14, RetryCount: 7}, 1024)
		const size = 100 * 1024
		from, to := x.region(t, pattern(size, 1)), y.region(t, make([]byte, size))
		b.post(x, WR{
			Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: size, RemoteAddr: to.Addr, RKey: to.Key},
			SGL:     []memory.SGE{{Addr: from.Addr, Length: size, Key: from.Key}},
		})
		b.e.RunUntil(400 * units.Microsecond) // a ConnectX-4 Lx takes half of it to react
		if all := b.poll(x); len(all) != 1 || all[0].Status != ib.WCSuccess {
			t.Fatalf("%s: completions %+v", c.name, all)
		}
		_, handled := x.nic.Notifications(x.qpn)
		if got, far := x.nic.Restarts(x.qpn), y.nic.Restarts(y.qpn); got != c.want || far != (Restarts{CNPs: c.cnps}) || handled != c.handled {
			t.Errorf("%s: the requester counts %+v, the responder %+v, and %d notifications came", c.name, got, far, handled)
		}
		if rate := x.nic.Control(x.qpn).Rate; c.engine && (rate < 60*units.Gbps) != c.halved {
			t.Errorf("%s: a rate of %v after the loss", c.name, rate)
		}
		if n := x.nic.Counters(x.qpn).PacketSeqErr; n != 1 {
			t.Errorf("%s: %d sequence errors, expected 1", c.name, n)
		}
	}
}
