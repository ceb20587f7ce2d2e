package dctcplaw

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

const (
	us  = units.Microsecond
	mtu = 1000
)

var defaults = Params{G: 1.0 / 16, InitialAlpha: 1, InitialCwnd: 10, MinCwnd: 2}

// path acknowledges packets of one flow whose window is always full.
type path struct {
	Window
	acked, sent units.Bytes
}

func newPath(p Params) *path {
	f := &path{Window: New(p, mtu)}
	f.sent = f.Bytes()
	return f
}

// ack acknowledges n packets one by one, each with that mark, and sends what the
// window then allows.
func (f *path) ack(n int, ecn bool) {
	for range n {
		f.acked += mtu
		f.Ack(&cc.Ack{RTT: 20 * us, Bytes: mtu, Packets: 1, Acked: f.acked, Sent: f.sent, ECN: ecn}, false)
		f.sent = max(f.sent, f.acked+f.Bytes()/mtu*mtu)
	}
}

// round acknowledges all that is outstanding.
func (f *path) round(ecn bool) { f.ack(int((f.sent-f.acked)/mtu), ecn) }

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// RFC 3390: 4380 bytes, but no more than four packets and no fewer than two.
func TestInitialWindow(t *testing.T) {
	for size, want := range map[units.Bytes]float64{256: 1024, 1024: 4096, 1440: 4380, 1500: 4380, 4096: 8192} {
		if got := New(Params{}, size).Cwnd; got != want {
			t.Errorf("with packets of %v the first window is %v, want %v", size, got, want)
		}
	}
}

func TestSlowStartDoublesAndEndsWithAMark(t *testing.T) {
	f := newPath(defaults)
	for want := 10_000.0; want < 1e6; want *= 2 {
		if f.Cwnd != want {
			t.Fatalf("the window is %v, want %v", f.Cwnd, want)
		}
		f.round(false)
	}
	if !f.SlowStart() {
		t.Error("slow start is over without a mark")
	}
	// Alpha has gone from 1 by 15/16 a round trip; the first mark takes half of it.
	before, alpha := f.Cwnd, f.Alpha
	f.ack(1, true)
	if f.SlowStart() || alpha >= 1 {
		t.Errorf("slow start goes on; alpha is %v", alpha)
	}
	if want := before * (1 - f.Alpha/2); !near(f.Cwnd, want) {
		t.Errorf("after a mark the window is %v, want %v", f.Cwnd, want)
	}
}

// Section 3.3: alpha <- (1-g) alpha + g F and cwnd <- cwnd (1 - alpha/2), each once a
// window of data; else a packet more.
func TestCutsOnceAWindowByHalfOfAlpha(t *testing.T) {
	p := defaults
	p.InitialCwnd = 64
	f := newPath(p)
	f.ack(1, true) // the first acknowledgement has seen nothing to estimate alpha from
	if f.Cwnd != 32_000 || f.Alpha != 1 {
		t.Fatalf("with an alpha of 1 a mark leaves %v of 64000, alpha %v", f.Cwnd, f.Alpha)
	}
	f.ack(62, true)
	if f.Cwnd != 32_000 {
		t.Fatalf("marks of the same window of data leave %v", f.Cwnd)
	}
	// The rest of it without a mark: 63 of 64 were marked.
	f.ack(1, false)
	if want := 15.0/16 + 1.0/16*63/64; !near(f.Alpha, want) {
		t.Errorf("alpha is %v, want %v", f.Alpha, want)
	}
	alpha := f.Alpha
	cwnd := f.Cwnd
	f.round(false)
	if want := alpha * 15 / 16; !near(f.Alpha, want) {
		t.Errorf("after a window without a mark alpha is %v, want %v", f.Alpha, want)
	}
	if f.Cwnd < cwnd+900 || f.Cwnd > cwnd+2000 {
		t.Errorf("a window of data without a mark takes %v to %v, want about a packet more", cwnd, f.Cwnd)
	}
}

func TestNeitherGrowsNorFallsWithoutCause(t *testing.T) {
	for name, a := range map[string]cc.Ack{
		"application-limited":   {RTT: 20 * us, AppLimited: true},
		"no round trip":         {},
		"a window half used":    {RTT: 20 * us},
		"held":                  {RTT: 20 * us, Scale: -1},
		"held, with a mark":     {RTT: 20 * us, Scale: -1, ECN: true},
		"recovering":            {RTT: 20 * us, Scale: 1},
		"recovering, with mark": {RTT: 20 * us, Scale: 1, ECN: true},
	} {
		w := New(defaults, mtu)
		w.ssthresh = 0
		a.Bytes, a.Packets, a.Acked = mtu, 1, 100_000
		a.Sent = a.Acked + 9*mtu
		if name == "a window half used" {
			a.Sent = a.Acked + 4*mtu
		}
		if a.Scale == 1 {
			w.recover = a.Acked + 1
		}
		w.Ack(&a, a.Scale < 0)
		if w.Cwnd != 10_000 {
			t.Errorf("%s: the window goes from 10000 to %v", name, w.Cwnd)
		}
	}
}

func TestLossesAndTimeouts(t *testing.T) {
	p := defaults
	p.InitialCwnd = 64
	f := newPath(p)
	f.ack(1, false)
	f.Loss()
	if f.Cwnd != 32_500 {
		t.Errorf("a loss leaves %v of 65000", f.Cwnd)
	}
	f.Loss()
	if f.ack(1, true); f.Cwnd != 32_500 {
		t.Errorf("another loss and a mark in the same window leave %v", f.Cwnd)
	}
	f.round(false)
	before := f.Cwnd
	if f.Loss(); f.Cwnd != before/2 {
		t.Errorf("a loss in the next leaves %v of %v", f.Cwnd, before)
	}
	f.round(false)
	before = f.Cwnd
	f.Timeout()
	f.Timeout()
	if f.Cwnd != 1000 || f.ssthresh != before/2 {
		t.Errorf("two timeouts leave %v, slow start to %v of %v", f.Cwnd, f.ssthresh, before)
	}
	f.sent = f.acked + f.Bytes()
	f.round(false)
	if f.Cwnd != 2000 {
		t.Errorf("then a round trip leaves %v", f.Cwnd)
	}
	w := New(defaults, mtu)
	for range 10 {
		w.Loss()
	}
	if w.Cwnd != 2000 {
		t.Errorf("losses leave %v, want the least, two packets", w.Cwnd)
	}
}

// Whatever is marked, alpha stays a share and the window within its bounds.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newPath(Params{
			G: rapid.Float64Range(1e-3, 1).Draw(t, "g"), InitialAlpha: rapid.Float64Range(0, 1).Draw(t, "alpha"),
			InitialCwnd: rapid.Float64Range(1, 100).Draw(t, "cwnd"), MinCwnd: 1,
		})
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.IntRange(0, 12).Draw(t, "event") {
			case 0:
				f.Loss()
			case 1:
				f.Timeout()
			default:
				f.ack(rapid.IntRange(1, 20).Draw(t, "packets"), rapid.Bool().Draw(t, "mark"))
			}
			if !(f.Alpha >= 0 && f.Alpha <= 1) || !(f.Cwnd >= mtu && f.Cwnd <= MaxPackets*mtu) {
				t.Fatalf("alpha %v, window %v", f.Alpha, f.Cwnd)
			}
		}
	})
}
