package nicmodel

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// notified notes when CNPs come, and lowers the rate for one once.
type notified struct {
	pacer
	after units.Rate
	at    []units.Time
}

func (p *notified) OnCNP(now units.Time) cc.Control {
	p.at = append(p.at, now)
	p.control.Rate = p.after
	return p.control
}

// Marked packets are answered with CNPs, one an interval for each queue pair, which
// reach the engine; and what it answers holds.
func TestNotifications(t *testing.T) {
	const line, slow = 100 * units.Gbps, 5 * units.Gbps
	const interval, span = 20 * units.Microsecond, 2 * units.Millisecond
	for _, c := range []struct {
		name     string
		interval units.Time // at the receivers
		after    units.Rate // of the second sender, once it is told
	}{{"for each interval", interval, line}, {"heeded", interval, slow}, {"off", 0, line}} {
		b := newBed(t, 3, line, preset(t, "cx6dx"), func(c *fabric.Config) {
			for i := range c.Switch.Classes {
				c.Switch.Classes[i].ECN = fabric.ECN{Kmin: 50_000, Kmax: 50_000, Pmax: 1}
				c.Switch.Classes[i].PFC.Lossless = true
			}
		})
		var engines [2]*notified
		var ends [2][2]end
		for i := range engines {
			engines[i] = &notified{pacer: pacer{control: cc.Control{Rate: line, Window: 512 * units.KiB}}, after: line}
			if i == 1 {
				engines[i].after = c.after
			}
			cong := Congestion{Engine: engines[i], ECT: true, BaseRTT: 5 * units.Microsecond, AckPriority: 1}
			peer := Congestion{CNPInterval: c.interval, AckPriority: 1}
			send := plainSend
			send.AckReqEvery = 1
			ends[i][0], ends[i][1] = b.connect(1+i, 0, [2]Congestion{cong, peer}, send, 1024)
			b.stream(ends[i][0], ends[i][1], 1<<20, 4)
		}
		b.e.RunUntil(span)
		if b.net.Port(link(t, b.net, "tor0->h0")).Stats().Marks == 0 {
			t.Fatalf("%s: nothing was marked, so nothing was tested", c.name)
		}
		for i, e := range engines {
			sent, _ := ends[i][1].nic.Notifications(ends[i][1].qpn)
			_, handled := ends[i][0].nic.Notifications(ends[i][0].qpn)
			if c.interval == 0 {
				if sent != 0 || handled != 0 {
					t.Errorf("%s: %d CNPs sent, %d handled", c.name, sent, handled)
				}
				continue
			}
			if handled != uint64(len(e.at)) || sent < handled || sent > handled+1 {
				t.Errorf("%s, sender %d: %d CNPs sent, %d handled, the engine was told of %d", c.name, i, sent, handled, len(e.at))
			}
			gaps := []units.Time{}
			for k := range len(e.at) - 1 {
				gaps = append(gaps, e.at[k+1]-e.at[k])
			}
			// A CNP may wait for a packet at the host's port and one in the switch.
			if len(gaps) == 0 || slices.Min(gaps) < interval-units.Microsecond {
				t.Errorf("%s, sender %d: CNPs come %v apart", c.name, i, gaps)
			}
			if c.after == line && (len(e.at) < int(span/interval)*9/10 || len(e.at) > int(span/interval)) {
				t.Errorf("%s, sender %d: %d CNPs in %d intervals of congestion", c.name, i, len(e.at), span/interval)
			}
		}
		if got := units.RateOf(ends[1][1].nic.Delivered(ends[1][1].qpn).Payload, span); c.after == slow && (got > slow+slow/5 || got < slow-slow/5) {
			t.Errorf("%s: the sender that was told to send %v sent %v", c.name, slow, got)
		}
	}
}

func link(t *testing.T, n *fabric.Network, name string) fabric.LinkID {
	t.Helper()
	l, err := n.Topology().FindLink(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
