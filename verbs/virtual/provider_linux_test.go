//go:build ibverbs

package virtual_test

import (
	"bytes"
	"context"
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

	realTimeClock = "SLUICE_TEST_REAL_TIME" // set if the devices have one
	direct        = "SLUICE_TEST_DIRECT"    // the option, "on" or "off"
)

// TestProvider runs verbs/ibverbs over the real libibverbs and libmlx5 and two devices:
// the tests in this file whose names begin with TestOver, with requests posted by Go and by libmlx5.
func TestProvider(t *testing.T) {
	lib := virtualLibrary(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		realTime bool
		direct   string
	}{{false, "on"}, {false, "off"}, {true, "on"}} {
		t.Run(fmt.Sprintf("direct=%s, real time %v", c.direct, c.realTime), func(t *testing.T) {
			before := rawNow(t)
			h, _ := devices(t, 2, virtual.Config{ClockStart: clockStart, ClockPPB: clockPPB, RealTime: c.realTime})
			after := rawNow(t)
			args := []string{"-test.run", "^TestOver", "-test.v"}
			if testing.Short() {
				args = append(args, "-test.short")
			}
			cmd := exec.CommandContext(t.Context(), self, args...)
			cmd.Env = append(h.Environ(os.Environ(), lib), fmt.Sprintf("%s=%d %d", rawStart, before, after), direct+"="+c.direct)
			if c.realTime {
				cmd.Env = append(cmd.Env, realTimeClock+"=1")
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for _, name := range []string{"TestOverVerbs", "TestOverClock", "TestOverTimestamps", "TestOverPostBeforeRTS", "TestOverWallclock", "TestOverModeration", "TestOverScatter"} {
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

// openBoth opens the devices. Without options they have the test's way to post.
func openBoth(t *testing.T, options ...string) (a, b verbs.Device) {
	t.Helper()
	var both [2]verbs.Device
	for i := range both {
		dev := openOne(t, i, options...)
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		both[i] = dev
	}
	return both[0], both[1]
}

// openOne opens a device, which the caller closes.
func openOne(t *testing.T, i int, options ...string) verbs.Device {
	t.Helper()
	if len(options) == 0 {
		options = []string{"?direct=" + os.Getenv(direct)}
	}
	dev, err := verbs.Open("ibv:mlx5_" + strconv.Itoa(i) + strings.Join(options, ""))
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

func TestOverVerbs(t *testing.T) {
	started(t)
	for _, options := range [][]string{nil, {"?timestamps=wallclock"}} {
		t.Run(strings.Join(options, ""), func(t *testing.T) {
			a, b := openBoth(t, options...)
			verbstest.Run(t, verbstest.Ends{A: a, B: b, Port: 1, GIDA: -1, GIDB: -1})
		})
	}
	t.Run("shim", func(t *testing.T) {
		a, b := verbstest.Shimmed(t, openOne(t, 0)), verbstest.Shimmed(t, openOne(t, 1))
		verbstest.Run(t, verbstest.Ends{A: a, B: b, Port: 1, GIDA: -1, GIDB: -1})
	})
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
	now := func() (uint64, error) { return uint64(time.Now().UnixNano()), nil }
	stamps(t, dev, now)
	// The counter in ns is the clock of completions unless the device has another for those.
	reader := dev.(verbs.ClockReader)
	if _, err := reader.ReadClock(); os.Getenv(realTimeClock) != "" {
		if !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("ReadClock, which is not of the clock of completions: %v", err)
		}
		return
	} else if err != nil {
		t.Fatal(err)
	}
	stamps(t, dev, reader.ReadClock)
}

// stamps has a queue pair write to itself, and holds the completions' timestamps to what
// a clock shows before and after.
func stamps(t *testing.T, dev verbs.Device, clock func() (uint64, error)) {
	t.Helper()
	l := loopTo(t, dev)
	// The kernel slews its clocks, and they are read one after the other: ns.
	const apart = 100_000
	for range 20 {
		before, err1 := clock()
		wc := l.write(t)
		after, err2 := clock()
		for _, err := range []error{err1, err2} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if ts := wc.Timestamp; ts+apart < before || ts > after+apart {
			t.Errorf("a completion at %d, between readings of %d and %d", ts, before, after)
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
	for _, f := range []func() error{qp.Close, cq.Close, pd.Close} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
}

// Events wait for the number of completions, or the time, that ibv_modify_cq set.
func TestOverModeration(t *testing.T) {
	started(t)
	dev, _ := openBoth(t)
	l := loopTo(t, dev)
	cq := l.cq.(verbs.ModifiableCQ)
	write := func(n int) {
		t.Helper()
		for range n {
			if err := l.cq.ReqNotify(false); err != nil {
				t.Fatal(err)
			}
			l.write(t)
		}
	}
	event := func(wait time.Duration) error {
		_, err := l.channel.Wait(context.Background(), wait)
		return err
	}
	if err := cq.Modify(verbs.CQAttr{Period: 4096}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a period of 4096 us: %v, expected %v", err, verbs.ErrInvalid)
	}
	if err := cq.Modify(verbs.CQAttr{Count: 4}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		write(3) // and polled: they count all the same
		if err := event(0); !errors.Is(err, verbs.ErrTimeout) {
			t.Errorf("an event of 3 completions, expected one of 4: %v", err)
		}
		write(1)
		if err := event(10 * time.Second); err != nil {
			t.Fatalf("no event of 4 completions: %v", err)
		}
	}
	if err := cq.Modify(verbs.CQAttr{Count: 1000, Period: 100}); err != nil {
		t.Fatal(err)
	}
	write(1)
	if err := event(10 * time.Second); err != nil {
		t.Errorf("no event after 100 us: %v", err)
	}
}

// What a READ of few bytes brings is in its CQE, and libmlx5 puts it into its place as the
// program polls.
func TestOverScatter(t *testing.T) {
	started(t)
	dev, _ := openBoth(t)
	l := loopTo(t, dev)
	for _, n := range []int{1, 8, 31, 32} {
		fill(l.buf[32:], byte(n))
		clear(l.buf[:32])
		if err := l.cq.ReqNotify(false); err != nil {
			t.Fatal(err)
		}
		if _, err := l.qp.PostSend([]verbs.SendWR{{
			Opcode: ib.WRRDMARead, SGL: []verbs.SGE{verbs.SGEOf(l.mr, 0, n)}, RemoteAddr: l.mr.Addr() + 32, RKey: l.mr.RKey(),
		}}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.channel.Wait(context.Background(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(l.buf[:32], make([]byte, 32)) {
			t.Errorf("a READ of %d bytes was written before it was polled", n)
		}
		var wc [1]verbs.WC
		if k, err := l.cq.Poll(wc[:]); err != nil || k != 1 || wc[0].Status != ib.WCSuccess || !bytes.Equal(l.buf[:n], l.buf[32:32+n]) {
			t.Errorf("a READ of %d bytes: %d completions, %+v, %v; %x, expected %x", n, k, wc[0], err, l.buf[:n], l.buf[32:32+n])
		}
	}
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = seed + byte(i) | 1
	}
}

// loopback is a queue pair that is connected to itself.
type loopback struct {
	dev     verbs.Device
	channel verbs.CompChannel
	cq      verbs.CQ
	qp      verbs.QP
	mr      verbs.MR
	buf     []byte // the region
}

func loopTo(t *testing.T, dev verbs.Device) *loopback {
	t.Helper()
	l := &loopback{dev: dev}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	l.channel, err = dev.CreateCompChannel()
	must(err)
	l.cq, err = dev.CreateCQ(verbs.CQInitAttr{CQE: 16, Timestamps: true, Channel: l.channel})
	must(err)
	pd, err := dev.AllocPD()
	must(err)
	l.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SigAll: true, SendCQ: l.cq, RecvCQ: l.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	must(err)
	gid, err := dev.GID(1, 0)
	must(err)
	end := verbs.Endpoint{GID: gid, QPN: l.qp.Num()}
	must(verbs.ConnectRC(l.qp, end, end, verbs.DefaultRC()))
	l.buf = make([]byte, 64)
	l.mr, err = pd.RegMR(l.buf, verbs.DefaultRC().Access)
	must(err)
	t.Cleanup(func() {
		for _, destroy := range []func() error{l.qp.Close, l.mr.Close, pd.Close, l.cq.Close, l.channel.Close} {
			if err := destroy(); err != nil {
				t.Error(err)
			}
		}
	})
	return l
}

// write has the queue pair write to itself, and returns the completion.
func (l *loopback) write(t *testing.T) verbs.WC {
	t.Helper()
	if _, err := l.qp.PostSend([]verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(l.mr, 0, 8)}, RemoteAddr: l.mr.Addr() + 32, RKey: l.mr.RKey(),
	}}); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := verbs.Drain(l.dev, l.cq, wc[:], 10*time.Second); err != nil {
		t.Fatal(err)
	}
	return wc[0]
}
