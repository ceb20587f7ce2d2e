//go:build ibverbs

package virtual_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/ibverbs"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// What TestProvider tells the process that it starts.
const (
	clockStart = 1 << 40
	clockPPB   = 123_456
	rawStart   = "SLUICE_TEST_RAW_START"
)

// TestProvider runs verbs/ibverbs over the real libibverbs and libmlx5 and two devices:
// the tests in this file whose names begin with TestOver.
func TestProvider(t *testing.T) {
	lib := virtualLibrary(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, realTime := range []bool{false, true} {
		t.Run(fmt.Sprintf("real time %v", realTime), func(t *testing.T) {
			before := rawNow(t)
			h, _ := devices(t, 2, virtual.Config{ClockStart: clockStart, ClockPPB: clockPPB, RealTime: realTime})
			after := rawNow(t)
			args := []string{"-test.run", "^TestOver", "-test.v"}
			if testing.Short() {
				args = append(args, "-test.short")
			}
			cmd := exec.CommandContext(t.Context(), self, args...)
			cmd.Env = append(h.Environ(os.Environ(), lib), fmt.Sprintf("%s=%d %d", rawStart, before, after))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for _, name := range []string{"TestOverVerbs", "TestOverClock", "TestOverTimestamps", "TestOverPostBeforeRTS", "TestOverWallclock"} {
				if !strings.Contains(string(out), "--- PASS: "+name+" ") {
					t.Errorf("%s did not pass\n%s", name, out)
				}
			}
		})
	}
}

func rawNow(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// started is between which readings of the raw clock the devices were made. Without
// devices the test is skipped.
func started(t *testing.T) (from, to int64) {
	t.Helper()
	if _, err := fmt.Sscan(os.Getenv(rawStart), &from, &to); err != nil {
		t.Skipf("no device: TestProvider starts this test with %s", rawStart)
	}
	return from, to
}

func openBoth(t *testing.T) (a, b verbs.Device) {
	t.Helper()
	var both [2]verbs.Device
	for i := range both {
		dev, err := verbs.Open("ibv:mlx5_" + strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		both[i] = dev
	}
	return both[0], both[1]
}

func TestOverVerbs(t *testing.T) {
	started(t)
	a, b := openBoth(t)
	verbstest.Run(t, verbstest.Ends{A: a, B: b, Port: 1, GIDA: -1, GIDB: -1})
}

// The device's counter, read through libmlx5 from a page that traps, is that of the raw
// clock with the offset and the drift that the device was made with.
func TestOverClock(t *testing.T) {
	from, to := started(t)
	dev, _ := openBoth(t)
	reader, ok := dev.(verbs.ClockReader)
	if !ok {
		t.Fatal("the device's clock can't be read")
	}
	last := uint64(0)
	for range 200 {
		before := rawNow(t)
		ticks, err := reader.ReadClock()
		after := rawNow(t)
		if err != nil {
			t.Fatal(err)
		}
		// 1 GHz; the device was made between from and to.
		at := func(ns int64) float64 { return clockStart + float64(ns)*(1+clockPPB/1e9) }
		low, high := at(before-to)-10, at(after-from)+10
		if got := float64(ticks); got < low || got > high {
			t.Fatalf("%d ticks, expected between %.0f and %.0f", ticks, low, high)
		}
		if ticks < last {
			t.Fatalf("%d ticks after %d", ticks, last)
		}
		last = ticks
	}
}

// Completions are stamped by the counter that can be read: each between two readings.
func TestOverTimestamps(t *testing.T) {
	started(t)
	dev, _ := openBoth(t)
	stamps(t, dev, func() (uint64, error) { return dev.(verbs.ClockReader).ReadClock() })
}

// Wallclock timestamps are the time of day, whether libmlx5 computes it from the counter
// and the clock info page or the device writes it into completions (RealTime).
func TestOverWallclock(t *testing.T) {
	started(t)
	dev, err := verbs.Open("ibv:mlx5_0?timestamps=wallclock")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	stamps(t, dev, func() (uint64, error) { return uint64(time.Now().UnixNano()), nil })
}

// stamps has a queue pair write to itself, and holds the completions' timestamps to what
// a clock shows before and after.
func stamps(t *testing.T, dev verbs.Device, clock func() (uint64, error)) {
	t.Helper()
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 16, Timestamps: true})
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	gid, err := dev.GID(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := verbs.Endpoint{GID: gid, QPN: qp.Num()}
	if err := verbs.ConnectRC(qp, end, end, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegMR(make([]byte, 64), verbs.DefaultRC().Access)
	if err != nil {
		t.Fatal(err)
	}
	// The kernel slews its clocks, and they are read one after the other: ns.
	const apart = 100_000
	for range 20 {
		before, err1 := clock()
		_, err2 := qp.PostSend([]verbs.SendWR{{
			Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 8)}, RemoteAddr: mr.Addr() + 32, RKey: mr.RKey(),
		}})
		var wc [1]verbs.WC
		_, err3 := verbs.Drain(dev, cq, wc[:], 10*time.Second)
		after, err4 := clock()
		for _, err := range []error{err1, err2, err3, err4} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if ts := wc[0].Timestamp; ts+apart < before || ts > after+apart {
			t.Errorf("a completion at %d, between readings of %d and %d", ts, before, after)
		}
	}
	for _, destroy := range []func() error{qp.Destroy, mr.Dereg, pd.Dealloc, cq.Destroy} {
		if err := destroy(); err != nil {
			t.Error(err)
		}
	}
}

// libmlx5 calls a queue that was not in RTS full (ENOMEM). Who polled for room would do so
// for ever.
func TestOverPostBeforeRTS(t *testing.T) {
	started(t)
	dev, _ := openBoth(t)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 16})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := qp.PostRecv([]verbs.RecvWR{{}}); !errors.Is(err, verbs.ErrState) {
		t.Errorf("post_recv in RESET: %v", err)
	}
	for _, to := range []ib.QPState{ib.Reset, ib.Init, ib.Err} {
		mask := verbs.AttrState
		if to == ib.Init {
			mask = verbs.ResetToInitRC
		}
		if err := qp.Modify(verbs.QPAttr{State: to, Port: 1}, mask); err != nil {
			t.Fatal(err)
		}
		if n, err := qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite}}); n != 0 || !errors.Is(err, verbs.ErrState) {
			t.Errorf("post_send in %v: %d taken, %v; expected an error of state", to, n, err)
		}
	}
	for _, f := range []func() error{qp.Destroy, cq.Destroy, pd.Dealloc} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
}
