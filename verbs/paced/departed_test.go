package paced_test

import (
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// slowDevice takes its time: a post takes 30 us, of which the request leaves at the
// 20th (its first packet) and the 25th (its last), and a poll takes 10 us and finds
// what was posted before it. Its counter is the host's clock.
type slowDevice struct {
	verbs.Device
	verbs.PD
	verbs.QP
	verbs.CQ

	now    units.Time
	posted []verbs.WC
	polled [2]uint64 // when the packets of what was polled left

	stamps bool // there are timestamps
	sent   bool // and those of sending
}

const (
	postTakes, firstLeaves, lastLeaves = 30 * units.Microsecond, 20 * units.Microsecond, 25 * units.Microsecond
	pollTakes, acked                   = 10 * units.Microsecond, 28 * units.Microsecond
)

func (d *slowDevice) Name() string { return "slow" }
func (d *slowDevice) Attr() verbs.DeviceAttr {
	if d.stamps {
		return verbs.DeviceAttr{CoreClockHz: 1e9, ClockBits: 64}
	}
	return verbs.DeviceAttr{}
}
func (d *slowDevice) Port(int) (verbs.PortAttr, error) { return verbs.PortAttr{LinkRate: 100e9}, nil }
func (d *slowDevice) Now() time.Duration               { return d.now.Duration() }
func (d *slowDevice) NowPrecise() units.Time           { return d.now }
func (d *slowDevice) ReadClock() (uint64, error)       { return ticks(d.now), nil }
func (d *slowDevice) AllocPD() (verbs.PD, error)       { return d, nil }
func (d *slowDevice) Close() error                     { return nil }
func (d *slowDevice) CreateCQ(verbs.CQInitAttr) (verbs.CQ, error) {
	return &slowCQ{slowDevice: d}, nil
}
func (d *slowDevice) CreateQP(verbs.QPInitAttr) (verbs.QP, error) {
	if d.sent {
		return &sentQP{slowQP{slowDevice: d}}, nil
	}
	return &slowQP{slowDevice: d}, nil
}

func ticks(t units.Time) uint64 { return uint64(t / units.Nanosecond) }

type slowCQ struct{ *slowDevice }

func (c *slowCQ) Poll(wc []verbs.WC) (int, error) {
	c.now += pollTakes
	n := copy(wc, c.posted)
	c.posted = c.posted[n:]
	return n, nil
}
func (c *slowCQ) ReqNotify(bool) error { return nil }
func (c *slowCQ) Cap() int             { return 64 }
func (c *slowCQ) Close() error         { return nil }

type slowQP struct{ *slowDevice }

func (q *slowQP) Num() uint32                                 { return 7 }
func (q *slowQP) Type() ib.QPType                             { return ib.RC }
func (q *slowQP) Modify(verbs.QPAttr, verbs.QPAttrMask) error { return nil }
func (q *slowQP) Query() (verbs.QPAttr, error)                { return verbs.QPAttr{}, nil }
func (q *slowQP) PostRecv([]verbs.RecvWR) (int, error)        { return 0, nil }
func (q *slowQP) Close() error                                { return nil }
func (q *slowQP) PostSend(wrs []verbs.SendWR) (int, error) {
	for i := range wrs {
		q.posted = append(q.posted, verbs.WC{WRID: wrs[i].WRID, QPN: 7, Timestamp: ticks(q.now + acked)})
	}
	q.polled = [2]uint64{ticks(q.now + firstLeaves), ticks(q.now + lastLeaves)}
	q.now += postTakes
	return len(wrs), nil
}

// sentQP knows when its packets left.
type sentQP struct{ slowQP }

func (q *sentQP) SentTimestamps(*verbs.WC) (first, last uint64, ok bool) {
	return q.polled[0], q.polled[1], true
}

// A round trip leaves nothing out that posting and polling took where only the
// time of polling is known; with timestamps it ends where the acknowledgement came,
// and with those of sending it begins there.
func TestWhatARoundTripHolds(t *testing.T) {
	const us = units.Microsecond
	// 4096 bytes in packets of 1024, at 100 Gbps: the rest before the last packet
	// takes 245.76 ns, so the last packet's time, 25 us, decides.
	const rest, whole = 245_760, 327_680 // ps
	for _, c := range []struct {
		name         string
		stamps, sent bool
		clock        paced.RTTClock
		want         units.Time // RTT
		slack        units.Time // of calibration
	}{
		{"polled", false, false, paced.CalibratedClock, postTakes + pollTakes, 0},
		{"stamped", true, false, paced.CalibratedClock, acked, us},
		{"stamped on both ways", true, true, paced.CalibratedClock, acked - lastLeaves + rest, us},
		{"by the NIC", true, true, paced.NICClock, acked - firstLeaves, 0},
		{"by a NIC that stamps completions only", true, false, paced.NICClock, acked, us},
		{"by a NIC that stamps nothing", false, true, paced.NICClock, postTakes + pollTakes, 0},
		{"by software", true, true, paced.SoftwareClock, postTakes + pollTakes, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &slowDevice{stamps: c.stamps, sent: c.sent}
			cfg := paced.DefaultConfig()
			cfg.Clock = c.clock
			cfg.Engine = func(cc.Env) (cc.Engine, error) { return slowly{}, nil }
			var rtts, net []units.Time
			cfg.Observe = func(_ *paced.QP, a *cc.Ack, _ cc.Control) {
				rtts, net = append(rtts, a.RTT), append(net, a.NetRTT)
			}
			s, err := paced.Wrap(d, cfg)
			if err != nil {
				t.Fatal(err)
			}
			pd, _ := s.AllocPD()
			cq, err := s.CreateCQ(verbs.CQInitAttr{CQE: 16})
			if err != nil {
				t.Fatal(err)
			}
			qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 16}})
			if err != nil {
				t.Fatal(err)
			}
			if err := verbs.ConnectRC(qp, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
			const n = 10
			wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 4096}}}
			for range n {
				if _, err := qp.PostSend([]verbs.SendWR{wr}); err != nil {
					t.Fatal(err)
				}
			}
			var wc [16]verbs.WC
			for got, turns := 0, 0; got < n; turns++ {
				k, err := cq.Poll(wc[:])
				if err != nil || turns > 10000 {
					t.Fatalf("%d of %d after %d polls: %v", got, n, turns, err)
				}
				got += k
			}
			for i := range rtts {
				if d := rtts[i] - c.want; d < -c.slack || d > c.slack || rtts[i]-net[i] != whole {
					t.Errorf("sample %d: %v, %v without serialisation; want %v", i, rtts[i], net[i], c.want)
				}
			}
			if len(rtts) != n || s.Stats().SentTime != map[bool]uint64{true: n}[c.sent && c.stamps && c.clock != paced.SoftwareClock] {
				t.Errorf("%d samples, %+v", len(rtts), s.Stats())
			}
		})
	}
}

// slowly paces so that one segment is out at a time.
type slowly struct{}

func (slowly) Control() cc.Control               { return cc.Control{Rate: 100 * units.Mbps, Window: cc.Unlimited} }
func (s slowly) OnAck(*cc.Ack) cc.Control        { return s.Control() }
func (s slowly) OnLoss(units.Time) cc.Control    { return s.Control() }
func (s slowly) OnTimeout(units.Time) cc.Control { return s.Control() }
func (s slowly) OnCNP(units.Time) cc.Control     { return s.Control() }
