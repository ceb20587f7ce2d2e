//go:build ibverbs

package ibverbs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/fakeverbs"
	"github.com/sluice-rdma/sluice/verbs"
)

// TestMain runs the tests on a libibverbs made for tests, in place of the
// machine's. The loader wants to know before the program starts, so this starts it again.
func TestMain(m *testing.M) {
	const again = "SLUICE_TEST_FAKEVERBS"
	if os.Getenv(again) != "" {
		os.Exit(m.Run())
	}
	status, err := func() (int, error) {
		dir, err := os.MkdirTemp("", "fakeverbs")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		if err := fakeverbs.Compile(dir); err != nil {
			return 1, err
		}
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = fakeverbs.Environ(dir, again+"=1")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = cmd.Run()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return exit.ExitCode(), nil
		}
		return 0, err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// set sets what the fake devices are like, and unsets what is not given.
func set(t testing.TB, settings map[string]string) {
	for k, v := range settings {
		t.Setenv("FAKEVERBS_"+k, v)
	}
}

// open opens fake0, or another name, and closes it when the test ends.
func open(t testing.TB, settings map[string]string, name ...string) *Device {
	t.Helper()
	set(t, settings)
	full := "ibv:fake0"
	if len(name) > 0 {
		full = name[0]
	}
	d, err := verbs.Open(full)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.(*Device)
}

// end is a device with all that a connection needs.
type end struct {
	dev *Device
	pd  verbs.PD
	cq  verbs.CQ
	qp  *QP
	buf []byte
	mr  verbs.MR
}

// must returns v, or ends the test.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func makeEnd(t testing.TB, d *Device, stamps bool) *end {
	t.Helper()
	pd, err := d.AllocPD()
	e := &end{dev: d, pd: must(t, pd, err), buf: make([]byte, 4096)}
	cq, err := d.CreateCQ(verbs.CQInitAttr{CQE: 256, Timestamps: stamps})
	e.cq = must(t, cq, err)
	qp, err := e.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: e.cq, RecvCQ: e.cq, Cap: verbs.QPCap{
		MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64}})
	e.qp = must(t, qp, err).(*QP)
	mr, err := e.pd.RegMR(e.buf, ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead)
	e.mr = must(t, mr, err)
	t.Cleanup(func() {
		for _, f := range []func() error{e.qp.Close, e.mr.Close, e.cq.Close, e.pd.Close} {
			if err := f(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return e
}

// connect makes two connected ends on a device.
func connect(t testing.TB, d *Device, stamps bool) (a, b *end) {
	t.Helper()
	a, b = makeEnd(t, d, stamps), makeEnd(t, d, stamps)
	index := must2(t)(d.BestGID(1))
	gid, err := d.GID(1, index)
	must(t, gid, err)
	for _, x := range [][2]*end{{a, b}, {b, a}} {
		if err := verbs.ConnectRC(x[0].qp, verbs.Endpoint{GID: gid, QPN: x[0].qp.Num()}, verbs.Endpoint{GID: gid, QPN: x[1].qp.Num()}, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// must2 is must for a call's two results.
func must2(t testing.TB) func(int, error) int {
	return func(v int, err error) int { t.Helper(); return must(t, v, err) }
}

// write is a signaled Write of n bytes from a to b.
func write(a, b *end, n int) verbs.SendWR {
	return verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(a.mr, 0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
}

// one waits for a completion.
func one(t testing.TB, e *end) verbs.WC {
	t.Helper()
	var wc [1]verbs.WC
	for start := time.Now(); time.Since(start) < 30*time.Second; {
		if n, err := e.cq.Poll(wc[:]); err != nil {
			t.Fatal(err)
		} else if n == 1 {
			return wc[0]
		}
	}
	t.Fatal("no completion")
	return wc[0]
}
