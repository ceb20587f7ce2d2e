package softroce

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// departure is a packet that has left a device's link: how many bytes it has from the Base
// Transport Header to the ICRC.
type departure struct {
	at    units.Time
	bytes int
}

// shaped runs f over two devices whose own wires take next to no time, and returns what
// has left the first.
func shaped(t *testing.T, s Shape, f func(w *World) error) []departure {
	t.Helper()
	var sent []departure
	c := DefaultWorld()
	c.Rate, c.Latency, c.Shape = 100_000*units.Gbps, 0, s
	c.Sent = func(now units.Time, src, _ netip.AddrPort, _ uint8, _ uint16, p []byte) {
		if src.Addr() == netip.AddrFrom4([4]byte{10, 0, 0, 1}) {
			sent = append(sent, departure{now, len(p)})
		}
	}
	w, err := NewWorld(des.New(), 2, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := verbs.Run(w.Device(0), func() error { return f(w) }); err != nil {
		t.Fatal(err)
	}
	return sent
}

// sendMADs sends n datagrams from the first device and waits for d.
func sendMADs(w *World, n int, d time.Duration) error {
	gid, err := w.Device(1).GID(1, 0)
	if err != nil {
		return err
	}
	for range n {
		if err := w.devices[0].SendMAD(verbs.AddressVector{GID: gid}, 1, make([]byte, roce.MADBytes)); err != nil {
			return err
		}
	}
	w.Device(0).(verbs.Runner).Sleep(d)
	return nil
}

// Packets leave one after the other at the rate, counted as bytes on an Ethernet link, and
// arrive a delay later. A link that has been idle sends at once.
func TestShapeInSimulatedTime(t *testing.T) {
	s := Shape{Rate: 3 * units.Gbps, Delay: 5 * units.Microsecond}
	const n, pause = 40, 100 * time.Microsecond
	sent := shaped(t, s, func(w *World) error {
		if err := sendMADs(w, n, pause); err != nil {
			return err
		}
		return sendMADs(w, n, pause)
	})
	if len(sent) != 2*n {
		t.Fatalf("%d packets, want %d", len(sent), 2*n)
	}
	for i, d := range sent {
		// A datagram is 12 + 8 + 256 + 4 bytes, then UDP 8, IPv4 20, Ethernet 14 + 4 + 20.
		const wire = 280 + 8 + 20 + 38
		began := units.FromDuration(time.Duration(i/n) * pause)
		want := began + units.Time(math.Round(float64(i%n+1)*wire*8/3*1000)) + 5*units.Microsecond
		if late := d.at - want; d.bytes != 280 || late < -units.Nanosecond || late > 3*units.Nanosecond {
			t.Fatalf("packet %d of %d bytes left at %v, want %v", i, d.bytes, d.at, want)
		}
	}
}

// What a link can't take yet stays with its queue pairs, so that a long write takes as long
// as its wire bytes do, whatever the delay.
func TestShapePacesTransport(t *testing.T) {
	const bytes, mtu = 1 << 20, 1024
	for _, delay := range []units.Time{0, 20 * units.Microsecond} {
		var took time.Duration
		shaped(t, Shape{Rate: 10 * units.Gbps, Delay: delay}, func(w *World) error {
			var qps [2]verbs.QP
			var cq verbs.CQ
			var mrs [2]verbs.MR
			var ends [2]verbs.Endpoint
			for i := range 2 {
				d := w.Device(i)
				pd, err := d.AllocPD()
				if err != nil {
					return err
				}
				c, err := d.CreateCQ(verbs.CQInitAttr{CQE: 16})
				if err != nil {
					return err
				}
				if i == 0 {
					cq = c
				}
				if mrs[i], err = pd.RegMR(make([]byte, bytes), ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
					return err
				}
				if qps[i], err = pd.CreateQP(verbs.QPInitAttr{
					Type: ib.RC, SendCQ: c, RecvCQ: c, Cap: verbs.QPCap{MaxSendWR: 16, MaxSendSGE: 1},
				}); err != nil {
					return err
				}
				gid, err := d.GID(1, 0)
				if err != nil {
					return err
				}
				ends[i] = verbs.Endpoint{GID: gid, QPN: qps[i].Num()}
			}
			p := verbs.DefaultRC()
			p.PathMTU = mtu
			for i, q := range qps {
				if err := verbs.ConnectRC(q, ends[i], ends[1-i], p); err != nil {
					return err
				}
			}
			start := w.Device(0).Now()
			if _, err := qps[0].PostSend([]verbs.SendWR{{
				Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mrs[0], 0, bytes)},
				RemoteAddr: mrs[1].Addr(), RKey: mrs[1].RKey(),
			}}); err != nil {
				return err
			}
			wc := make([]verbs.WC, 1)
			for n := 0; n == 0; {
				var err error
				if n, err = cq.Poll(wc); err != nil {
					return err
				}
			}
			if took = w.Device(0).Now() - start; wc[0].Status != ib.WCSuccess {
				return fmt.Errorf("completion %+v", wc[0])
			}
			c := w.devices[0].Counters()
			if lost, again := c["tx_shape_lost"], c["retransmitted_pkts"]; lost != 0 || again != 0 {
				return fmt.Errorf("%d packets lost, %d sent again", lost, again)
			}
			return nil
		})
		// 1024 packets of 12 + 1024 + 4 bytes with 66 around them, one of which has a RETH of
		// 16; then the way there and the acknowledgement's, of 12 + 4 + 4 + 66, back.
		want := units.Time(((1024+16+66)*1024+16+86)*8*100) + 2*delay
		if got := units.FromDuration(took); got < want || got > want+200*units.Nanosecond {
			t.Errorf("delay %v: %v for %d bytes, want %v", delay, got, bytes, want)
		}
	}
}

// Losses come from the seed alone.
func TestShapeLoses(t *testing.T) {
	run := func(seed uint64) (sent []departure, lost uint64) {
		sent = shaped(t, Shape{Loss: 0.1, Seed: seed}, func(w *World) error {
			for range 100 {
				if err := sendMADs(w, 50, time.Microsecond); err != nil {
					return err
				}
			}
			lost = w.devices[0].Counters()["tx_shape_lost"]
			return nil
		})
		return sent, lost
	}
	sent, lost := run(1)
	again, _ := run(1)
	other, _ := run(2)
	if !slices.Equal(sent, again) {
		t.Error("the same seed loses other packets")
	}
	if slices.Equal(sent, other) {
		t.Error("another seed loses the same packets")
	}
	// 5000 draws at 0.1: a standard deviation of 21.
	if lost < 400 || lost > 600 || len(sent)+int(lost) != 5000 {
		t.Errorf("%d lost and %d sent of 5000", lost, len(sent))
	}
}

// A link with packets to send makes up for the time in which nobody looked at it, up to
// maxLate; an idle one does not, and a full one leaves packets with their queue pairs.
func TestShapeMakesUp(t *testing.T) {
	w, err := NewWorld(des.New(), 2, DefaultWorld())
	if err != nil {
		t.Fatal(err)
	}
	d := w.devices[0]
	gid, err := w.Device(1).GID(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	post := func(n int) {
		for range n {
			if err := d.core.SendMAD(verbs.AddressVector{GID: gid}, 1, make([]byte, roce.MADBytes)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const wire = 346 * 8 * units.Microsecond / 1000 // at 1 Gbps
	s := newShaper(Shape{Rate: units.Gbps}, false, false)
	step := func(now units.Time, want int) {
		t.Helper()
		s.fill(&d.batch, d.core, now, d.out)
		got := 0
		for _, m := range d.batch.messages {
			got += m.segments
		}
		if got != want {
			t.Errorf("at %v: %d packets leave, want %d", now, got, want)
		}
	}
	now := 7 * units.Microsecond
	post(30)
	step(now, 0)
	if at := s.next(d.core.Pending()); at != now+wire {
		t.Errorf("next at %v, want %v", at, now+wire)
	}
	step(now+wire, 1)
	step(now+10*wire, 9) // nobody looked
	step(now+30*wire, 20)
	step(now+50*wire, 0)
	if at := s.next(d.core.Pending()); at != units.Never {
		t.Errorf("an idle link has something to do at %v", at)
	}
	post(2)
	step(now+60*wire, 0) // it was idle: no credit
	step(now+61*wire, 1)
	step(now+62*wire, 1)

	// 64 packets at 1 Mbps last 177 ms; of late ones, maxLate is made up for.
	s = newShaper(Shape{Rate: units.Mbps}, false, false)
	post(64)
	step(now, 0)
	step(now+100*units.Millisecond, 1+int(maxLate/(1000*wire)))

	// What is on the way is bounded.
	s = newShaper(Shape{Delay: units.Second}, false, false)
	for step(now, 0); !d.core.Pending(); step(now, 0) {
		post(60)
	}
	if left := lineDepth - s.n; left != 0 || !d.core.Pending() {
		t.Errorf("room for %d packets more, pending %v", left, d.core.Pending())
	}
	if at := s.next(true); at != now+units.Second {
		t.Errorf("a full link has something to do at %v, want at the first arrival", at)
	}
}

func TestShapeOptions(t *testing.T) {
	o, err := parseOptions("shape=10Gbps&delay=5us&loss=0.1%&seed=0x7&window=64")
	if want := (Shape{Rate: 10 * units.Gbps, Delay: 5 * units.Microsecond, Loss: 0.001, Seed: 7}); err != nil || o.Shape != want || o.Window != 64 {
		t.Errorf("%+v, error %v, want %+v", o.Shape, err, want)
	}
	for query, want := range map[string]string{
		"shape=10":           `option shape: rate "10": unit missing`,
		"shape=0Gbps":        `option shape: "0Gbps": choose a positive rate`,
		"shape=-1Gbps":       "choose a positive rate",
		"delay=5":            `option delay: time "5": unit missing`,
		"delay=-5us":         "choose 0s to 10s",
		"delay=11s":          "choose 0s to 10s",
		"loss=0.1":           "choose 0% to 100%, such as 0.1%",
		"loss=%":             "choose 0% to 100%, such as 0.1%",
		"loss=101%":          "choose 0% to 100%",
		"loss=-1%":           "choose 0% to 100%",
		"loss=NaN%":          "choose 0% to 100%",
		"loss=1%&seed=x":     "choose 0 to 18446744073709551615, such as 7",
		"seed=1":             "option seed requires loss",
		"shape=1Gbps&seed=1": "option seed requires loss",
	} {
		if _, err := parseOptions(query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", query, err, want)
		}
	}
	for query, want := range map[string]string{
		"port=0":          `option port: "0": choose 1 to 65535`,
		"port=65536":      `option port: "65536": choose 1 to 65535`,
		"mode=raw":        `option mode: "raw": choose udp, packet or xdp`,
		"gso=yes":         `option gso: "yes": choose on or off`,
		"turnaround=":     `option turnaround: "": choose on or off`,
		"window=0":        `option window: "0": choose 1 to 65536 packets; leave it out for the usual window`,
		"maxqp=many":      `option maxqp: "many": choose 1 to 65536 queue pairs`,
		"tclass=256":      `option tclass: "256": choose 0 to 255`,
		"rate=0bps":       `option rate: "0bps": choose a positive rate; leave it out for what the interface says`,
		"speed=1&fast=on": "option fast: unknown option, expected port, mode, gso, turnaround, window, maxqp, tclass, rate, shape, delay, loss, seed, telemetry, tagtype, base, step, intport, intrates",
	} {
		if _, err := parseOptions(query); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", query, err, want)
		}
	}
	if o, err := parseOptions("port=14791&mode=packet&gso=off&turnaround=on&maxqp=10&tclass=0x2&rate=10Gbps&rate=20Gbps"); err != nil ||
		o.Port != 14791 || o.Mode != modePacket || o.GSO || !*o.Turns || o.MaxQP != 10 || o.Class != 2 || o.Rate != 20*units.Gbps {
		t.Errorf("%+v, error %v", o, err)
	}
	c := DefaultWorld()
	c.Shape.Loss = 2
	if _, err := NewWorld(des.New(), 1, c); err == nil || !strings.Contains(err.Error(), "Shape") {
		t.Errorf("a World with a loss of 2: error %v", err)
	}
}

// A packet over a link takes no memory, whether it waits or not.
func TestShapeDoesNotAllocate(t *testing.T) {
	for _, s := range []Shape{{Rate: units.Gbps}, {Rate: units.Gbps, Delay: units.Millisecond, Loss: 0.1}} {
		w, err := NewWorld(des.New(), 2, DefaultWorld())
		if err != nil {
			t.Fatal(err)
		}
		d := w.devices[0]
		gid, err := w.Device(1).GID(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		l := newShaper(s, false, true)
		mad := make([]byte, roce.MADBytes)
		now := units.Time(0)
		round := func() {
			for range 8 {
				if err := d.core.SendMAD(verbs.AddressVector{GID: gid}, 1, mad); err != nil {
					t.Fatal(err)
				}
			}
			for at := l.next(true); at != units.Never; at = l.next(d.core.Pending()) {
				now = max(now, at)
				l.fill(&d.batch, d.core, now, d.out)
			}
		}
		for range 20 {
			round()
		}
		if n := testing.AllocsPerRun(100, round); n != 0 {
			t.Errorf("%+v: %v allocations for 8 packets", s, n)
		}
	}
}
