package cwnd

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func packets(cwnd float64) Packets {
	return NewPackets(testEnv, Rules{Initial: cwnd, Least: 0.01, Most: 100, Cut: 0.5, ResetAfter: 5, MinRate: 1e6})
}

// A window of a packet or more is not paced; below, a packet goes each rtt/cwnd.
func TestPacketsAnswer(t *testing.T) {
	for _, c := range []struct {
		cwnd float64
		rtt  units.Time
		want cc.Control
	}{
		{62.5, 20 * us, cc.Control{Rate: 25 * units.Gbps, Window: 62_500}},
		{1, 20 * us, cc.Control{Rate: 25 * units.Gbps, Window: 1000}},
		{0.25, 20 * us, cc.Control{Rate: 100 * units.Mbps, Window: 1000}},
		{0.25, 80 * us, cc.Control{Rate: 25 * units.Mbps, Window: 1000}},
		{0.25, units.Second, cc.Control{Rate: units.Mbps, Window: 1000}}, // the least
		{0.25, 1, cc.Control{Rate: 25 * units.Gbps, Window: 1000}},
	} {
		w := packets(c.cwnd)
		w.Observe(&cc.Ack{RTT: c.rtt})
		if got := w.Answer(true); got != c.want || w.Control() != got {
			t.Errorf("%v packets in %v are %+v, then %+v, want %+v", c.cwnd, c.rtt, got, w.Control(), c.want)
		}
	}
}

func TestAShorterRTTAloneDoesNotRaiseTheRate(t *testing.T) {
	w := packets(0.25)
	w.Observe(&cc.Ack{RTT: 80 * us})
	slow := w.Answer(false)
	if slow.Rate != 25*units.Mbps {
		t.Errorf("a longer RTT leaves the rate at %v", slow.Rate)
	}
	w.Observe(&cc.Ack{RTT: 20 * us})
	if got := w.Answer(false); got != slow {
		t.Errorf("where it may not grow, a shorter RTT takes %+v to %+v", slow, got)
	}
	w.Observe(&cc.Ack{}) // says nothing of the RTT
	if got := w.Answer(true); got.Rate != 100*units.Mbps {
		t.Errorf("where it may grow, the rate is %v", got.Rate)
	}
}

func TestAckedIsAWindowAtTheMost(t *testing.T) {
	for _, c := range []struct {
		cwnd  float64
		acked int32
		want  float64
	}{{16, 3, 3}, {16, 100, 16}, {0.5, 1, 1}, {0.5, 7, 1}} {
		w := packets(c.cwnd)
		if got := w.Acked(&cc.Ack{Packets: c.acked}); got != c.want {
			t.Errorf("with a window of %v, %d packets count for %v, want %v", c.cwnd, c.acked, got, c.want)
		}
	}
}

// Whatever made the window fall, it does not again within a round trip of 20 us, nor
// at its very end where the next is to come after it.
func TestDecreasesOnceARoundTrip(t *testing.T) {
	falls := map[string]func(*Packets){
		"a loss":    func(w *Packets) { w.OnLoss(1000 * us) },
		"a timeout": func(w *Packets) { w.OnTimeout(1000 * us) },
		"the law":   func(w *Packets) { w.Set(16, 1000*us) },
	}
	for name, fall := range falls {
		for after, next := range map[bool]units.Time{false: 1020 * us, true: 1020*us + 1} {
			w := packets(32)
			w.After = after
			if !w.MayDecrease(0) {
				t.Errorf("%s: the first decrease waits", name)
			}
			fall(&w)
			w.Set(16, 1005*us) // no fall: it does not count
			w.OnLoss(next - 1)
			w.OnTimeout(next - 1)
			if w.Cwnd != 16 || w.MayDecrease(next-1) {
				t.Errorf("%s: a loss or a timeout within the round trip leaves %v packets of 16", name, w.Cwnd)
			}
			if w.OnLoss(next); w.Cwnd != 8 {
				t.Errorf("%s, After %v: a loss a round trip later leaves %v packets of 16", name, after, w.Cwnd)
			}
		}
	}
}

func TestTimeoutsAndLosses(t *testing.T) {
	w := packets(32)
	for i, want := range []float64{16, 8, 4, 2, 0.01, 0.01} {
		if w.OnTimeout(units.Time(i+1) * units.Millisecond); w.Cwnd != want {
			t.Errorf("timeout %d: the window is %v, want %v", i+1, w.Cwnd, want)
		}
	}
	for name, interrupt := range map[string]func(*Packets){
		"a loss":             func(w *Packets) { w.OnLoss(4001 * us) },
		"an acknowledgement": func(w *Packets) { w.Observe(&cc.Ack{RTT: 20 * us}) },
	} {
		w = packets(32)
		for i := range units.Time(4) {
			w.OnTimeout((i + 1) * units.Millisecond)
		}
		interrupt(&w)
		if w.OnTimeout(5 * units.Millisecond); w.Cwnd == w.Least {
			t.Errorf("%s does not interrupt the row of timeouts", name)
		}
	}
	// The threshold itself does not wait for a round trip.
	w = packets(32)
	for range 5 {
		w.OnTimeout(units.Millisecond)
	}
	if w.Cwnd != w.Least {
		t.Errorf("five timeouts at once leave a window of %v", w.Cwnd)
	}
	before := w.Control()
	if w.OnCNP(6*units.Millisecond) != before {
		t.Error("a CNP changed the control")
	}
}

func TestPacketsStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := packets(rapid.Float64Range(0, 1e3).Draw(t, "initial"))
		now := units.Time(0)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now += units.Time(rapid.Int64Range(0, 1e8).Draw(t, "gap"))
			before := w.Cwnd
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				w.OnLoss(now)
			case 1:
				w.OnTimeout(now)
			default:
				w.Observe(&cc.Ack{RTT: units.Time(rapid.Int64Range(0, 1e9).Draw(t, "RTT"))})
				w.Set(w.Cwnd*math.Exp(rapid.Float64Range(-3, 3).Draw(t, "ln factor")), now)
				w.Answer(rapid.Bool().Draw(t, "may grow"))
			}
			c := w.Control()
			if w.Cwnd < w.Least || w.Cwnd > w.Most || c.Rate < units.Mbps || c.Rate > testEnv.LineRate || c.Window < testEnv.MTU {
				t.Fatalf("%v packets of %v to %v, %+v", w.Cwnd, w.Least, w.Most, c)
			}
			if w.Cwnd < before && w.MayDecrease(now) {
				t.Fatalf("a fall from %v to %v is not remembered", before, w.Cwnd)
			}
		}
	})
}
