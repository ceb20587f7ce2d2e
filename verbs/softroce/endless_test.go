package softroce

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// traffic has two programs write to each other over links that lose packets, from start
// on, and returns when which of their packets left, after that, and how long requests
// took by timestamps.
func traffic(t *testing.T, start time.Duration) (trace []string) {
	t.Helper()
	c := DefaultWorld()
	c.Shape = Shape{Rate: 10 * units.Gbps, Delay: 3 * units.Microsecond, Loss: 0.05, Seed: 7}
	from := units.Never
	c.Sent = func(now units.Time, src, _ netip.AddrPort, _ uint8, _ uint16, p []byte) {
		trace = append(trace, fmt.Sprintf("%v from %v: %v, %d bytes", now-from, src.Addr(), roce.BTH(p).Opcode(), len(p)))
	}
	w, err := NewWorld(des.New(), 2, c)
	if err != nil {
		t.Fatal(err)
	}
	run := func() error {
		var qps [2]verbs.QP
		var cqs [2]verbs.CQ
		var mrs [2]verbs.MR
		var ends [2]verbs.Endpoint
		for i := range 2 {
			d := w.Device(i)
			pd, err := d.AllocPD()
			if err != nil {
				return err
			}
			if cqs[i], err = d.CreateCQ(verbs.CQInitAttr{CQE: 256, Timestamps: true}); err != nil {
				return err
			}
			qps[i], err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cqs[i], RecvCQ: cqs[i], Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}})
			if err != nil {
				return err
			}
			if mrs[i], err = pd.RegMR(make([]byte, 1<<16), ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
				return err
			}
			gid, err := d.GID(1, 0)
			if err != nil {
				return err
			}
			ends[i] = verbs.Endpoint{GID: gid, QPN: qps[i].Num()}
		}
		p := verbs.DefaultRC()
		p.PathMTU, p.Timeout = 1024, 5 // 131 us
		for i := range 2 {
			if err := verbs.ConnectRC(qps[i], ends[i], ends[1-i], p); err != nil {
				return err
			}
		}
		w.Device(0).(verbs.Runner).Sleep(start - w.Device(0).Now())
		from = w.engine.Now()
		for round := range 20 {
			i := round & 1
			// Sends, of which some find no receive: RNR waits are in it.
			if _, err := qps[i].PostSend([]verbs.SendWR{
				{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(mrs[i], 0, 1<<16)}, RemoteAddr: mrs[1-i].Addr(), RKey: mrs[1-i].RKey()},
				{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mrs[i], 0, 100)}},
			}); err != nil {
				return err
			}
			verbs.Sleep(w.Device(0), 100*time.Microsecond)
			posted := w.Device(1 - i).Now()
			if _, err := qps[1-i].PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(mrs[1-i], 0, 100)}}}); err != nil {
				return err
			}
			for _, at := range []int{i, 1 - i} {
				var wc [1]verbs.WC
				if _, err := verbs.Drain(w.Device(at), cqs[at], wc[:], time.Second); err != nil {
					return err
				}
				trace = append(trace, fmt.Sprintf("%v: %v after %v", w.engine.Now()-from, wc[0].Status, time.Duration(wc[0].Timestamp)-posted))
			}
		}
		return nil
	}
	if err := verbs.Run(w.Device(0), run); err != nil {
		t.Fatal(err)
	}
	return trace
}

// Packets leave as ever, losses and waits among them, where the device's instants are set
// back (13 days after it was opened) in the middle, and after 80 days.
func TestInstantsAreSetBack(t *testing.T) {
	const start = time.Second
	want := traffic(t, start)
	run := time.Duration(longestRun / units.Nanosecond)
	for _, at := range []time.Duration{
		run - 10*time.Microsecond, run - 50*time.Microsecond, run - 300*time.Microsecond, run - time.Millisecond,
		run - 1500*time.Microsecond, run - 2*time.Millisecond, run - 3*time.Millisecond, 80 * 24 * time.Hour,
	} {
		got := traffic(t, at)
		if slices.Equal(got, want) {
			continue
		}
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("from %v on, line %d of %d: %q, expected %q", at, i, len(want), got[i], want[i])
			}
		}
		t.Fatalf("from %v on: %d lines, expected %d", at, len(got), len(want))
	}
}

// A device's instants go on after 106 days, where the picoseconds of an int64 end, and
// after ten years; its counter goes on with its clock.
func TestTheDevicesClockDoesNotEnd(t *testing.T) {
	const day = 24 * time.Hour
	off := false
	l := link{name: "test", mtu: 1500, addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	o := options{Port: roce.Port, MaxQP: 8, Turns: &off, Shape: Shape{Delay: units.Microsecond}}
	for _, age := range []time.Duration{0, 13 * day, 106*day + 18*time.Hour, 107 * day, 214 * day, 3652 * day} {
		d, err := newDevice("soft:test", l, o, 1024, clock{start: time.Now()}, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		d.now()
		d.mads.spend(d.now())
		for range 3 {
			d.clock.start = d.clock.start.Add(-age)
			before := d.now()
			after := d.now()
			if before < 0 || after < before || after > longestRun {
				t.Errorf("%v: instants %v and %v", age, before, after)
			}
			if c, now := d.long(after).Duration(), d.Now(); c > now || now-c > time.Minute {
				t.Errorf("%v: the instant %v is %v by the device's clock, which shows %v", age, after, c, now)
			}
			if !d.mads.spend(after) {
				t.Errorf("%v: no management datagram is let in", age)
			}
			if d.due() {
				t.Errorf("%v: an idle link has something to do", age)
			}
		}
	}
}
