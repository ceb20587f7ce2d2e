//go:build ibverbs

package ibverbs

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/peer"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
)

// What every provider promises, over devices that are not like a ConnectX as package
// virtual has it: that runs this over libmlx5, with each of its clocks.
func TestPromises(t *testing.T) {
	for name, c := range map[string]struct {
		open     string
		settings map[string]string
	}{
		"plain":         {"ibv:fake0", nil},
		"rates on RC":   {"ibv:fake0", map[string]string{"PROFILE": "connectx", "RATE_LIMIT": "rc,raw"}},
		"narrow clock":  {"ibv:fake0", map[string]string{"PROFILE": "connectx", "CLOCK_BITS": "41", "CLOCK_START": "2199023255000"}},
		"with latency":  {"ibv:fake0", map[string]string{"LATENCY_NS": "20000", "LINE_BPS": "100000000000"}},
		"no extensions": {"ibv:fake0", map[string]string{"LACKS": "extended"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("alone", func(t *testing.T) {
				d := open(t, c.settings, c.open)
				verbstest.Run(t, verbstest.Ends{A: d, B: d, GIDA: -1, GIDB: -1})
			})
			t.Run("shim", func(t *testing.T) {
				set(t, c.settings)
				d, err := verbs.Open(c.open)
				check(t, err)
				s := verbstest.Shimmed(t, d)
				verbstest.Run(t, verbstest.Ends{A: s, B: s, GIDA: -1, GIDB: -1})
			})
		})
	}
}

func TestPeers(t *testing.T) {
	d := open(t, map[string]string{"LATENCY_NS": "20000", "LINE_BPS": "100000000000"})
	l, err := peer.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	there := make([]byte, 9)
	go func() {
		c, err := l.Accept(t.Context(), d, there)
		if err == nil {
			err = errors.Join(c.Wait(t.Context()), c.Close())
		}
		served <- err
	}()
	c, err := peer.Dial(t.Context(), d, l.Addr().String(), []byte("some bytes"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(c.Write(t.Context(), 5, 2, 5), c.Read(t.Context(), 0, 2, 4))
	if err := errors.Join(err, c.Close(), <-served); err != nil {
		t.Fatal(err)
	}
	if string(c.Buffer) != "byte bytes" || string(there) != "\x00\x00bytes\x00\x00" {
		t.Errorf("%q here, %q there", c.Buffer, there)
	}
}

// A file stands for the memory of another device.
func TestDMABuf(t *testing.T) {
	d := open(t, nil)
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(3 << 12); err != nil {
		t.Fatal(err)
	}
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(verbs.CQInitAttr{CQE: 16})
	if err != nil {
		t.Fatal(err)
	}
	const iova, access = 0x7000_0000_1000, ib.AccessLocalWrite | ib.AccessRemoteWrite
	dma := pd.(verbs.DMABufPD)
	if _, err := dma.RegDMABuf(-1, 0, 4096, iova, access); err == nil {
		t.Error("a descriptor that is none was registered")
	}
	if _, err := dma.RegDMABuf(int(f.Fd()), 0, 0, iova, access); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("no bytes: %v", err)
	}
	there, err := dma.RegDMABuf(int(f.Fd()), 1<<12, 4096, iova, access)
	if err != nil {
		t.Fatal(err)
	}
	if there.Addr() != iova || there.Length() != 4096 {
		t.Errorf("%d bytes at %#x", there.Length(), there.Addr())
	}
	here, err := pd.RegMR([]byte("to the GPU"), 0)
	if err != nil {
		t.Fatal(err)
	}
	var qp [2]verbs.QP
	var end [2]verbs.Endpoint
	for i := range qp {
		if qp[i], err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}); err != nil {
			t.Fatal(err)
		}
		_, gid, err := verbs.UsualGID(d, 1)
		if err != nil {
			t.Fatal(err)
		}
		end[i] = verbs.Endpoint{GID: gid, QPN: qp[i].Num()}
	}
	for i := range qp {
		if err := verbs.ConnectRC(qp[i], end[i], end[1-i], verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := qp[0].PostSend([]verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(here, 0, here.Length())}, RemoteAddr: iova + 5, RKey: there.RKey(),
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := verbs.Drain(d, cq, make([]verbs.WC, 1), time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{qp[0], qp[1], here, there, cq, pd} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	got := make([]byte, 12)
	if _, err := f.ReadAt(got, 1<<12+4); err != nil || string(got) != "\x00to the GPU\x00" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDevices(t *testing.T) {
	set(t, map[string]string{"DEVICES": "fake0,mlx5_1"})
	names, err := provider{}.Devices()
	if want := []string{"ibv:fake0", "ibv:mlx5_1"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v: want %v", names, err, want)
	}
}

// Errors of opening name the device and the mend.
func TestOpenErrors(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		cause    error
		says     string
	}{
		{"ibv:mlx5_9", nil, verbs.ErrNoDevice, "take one of [fake0]"},
		{"ibv:fake0", map[string]string{"DEVICES": ""}, verbs.ErrNoDevice, "no RDMA device that libibverbs can use"},
		{"ibv:fake0?timestamps=maybe", nil, verbs.ErrInvalid, `"maybe": choose raw, wallclock or off`},
		{"ibv:fake0?stamps=raw", nil, verbs.ErrInvalid, "unknown option"},
		{"ibv:fake0?%zz", nil, verbs.ErrInvalid, "can't be read"},
		{"ibv:fake0", map[string]string{"FAIL": "open_device:EACCES"}, syscall.EACCES, "/dev/infiniband/uverbs*"},
		{"ibv:fake0", map[string]string{"FAIL": "query_device:EIO,query_device_ex:EIO"}, syscall.EIO, "dmesg"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set(t, c.settings)
			_, err := verbs.Open(c.name)
			if !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%v\nwant %v, %q and the name", err, c.cause, c.says)
			}
		})
	}
}

// A number that libibverbs has no room for is an error, and not another one.
func TestWideNumbers(t *testing.T) {
	d := open(t, nil)
	a := makeEnd(t, d, false)
	for name, err := range map[string]error{
		"inline data": second(a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 1<<32 + 8}})),
		"a CQ":        second(d.CreateCQ(verbs.CQInitAttr{CQE: 1<<32 + 8})),
		"an SRQ":      second(a.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1<<32 + 8, MaxSGE: 1})),
		"pieces":      second(a.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 8, MaxSGE: 1<<32 + 1})),
		"a GID":       second(d.GID(1, 1<<32)),
		"a port":      second(d.GID(1<<32+1, 0)),
		"port 0":      second(d.GID(0, 0)),
		"a port 257":  a.qp.Modify(verbs.QPAttr{State: ib.Init, Port: 257}, verbs.ResetToInitRC),
		"a P_Key":     a.qp.Modify(verbs.QPAttr{State: ib.Init, Port: 1, PKeyIndex: 1 << 16}, verbs.ResetToInitRC|verbs.AttrPKeyIndex),
	} {
		if !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, verbs.ErrInvalid)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A refused call is an error that has the errno, what it means, the object and,
// where there is one, the mend.
func TestRefusedCalls(t *testing.T) {
	for _, c := range []struct {
		fail  string // the call and the errno
		after string // of its calls that go well: opening makes some
		do    func(d *Device, a *end) error
		cause []error
		says  string
	}{
		{"alloc_pd:ENOMEM", ":2", func(d *Device, _ *end) error { _, err := d.AllocPD(); return err }, []error{syscall.ENOMEM}, "ulimit -l"},
		{"reg_mr:ENOMEM", ":1", func(_ *Device, a *end) error { _, err := a.pd.RegMR(make([]byte, 64), 0); return err }, []error{syscall.ENOMEM}, "64 bytes: no memory, or none that may be locked: see `ulimit -l`"},
		{"reg_mr:EPERM", ":1", func(_ *Device, a *end) error { _, err := a.pd.RegMR(make([]byte, 64), 0); return err }, []error{syscall.EPERM}, "LimitMEMLOCK"},
		{"create_cq:ENOMEM", ":2", func(d *Device, _ *end) error { _, err := d.CreateCQ(verbs.CQInitAttr{CQE: 1}); return err }, []error{syscall.ENOMEM}, "ulimit -l"},
		{"create_comp_channel:EIO", "", func(d *Device, _ *end) error { _, err := d.CreateCompChannel(); return err }, []error{syscall.EIO}, "dmesg"},
		{"create_srq:EOPNOTSUPP", "", func(_ *Device, a *end) error {
			_, err := a.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
			return err
		}, []error{syscall.EOPNOTSUPP, verbs.ErrNotSupported}, "create_srq ibv:fake0"},
		{"modify_qp:ENODEV", "", func(_ *Device, a *end) error { return a.qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState) }, []error{syscall.ENODEV, verbs.ErrNoDevice}, "dmesg"},
		{"query_qp:EIO", "", func(_ *Device, a *end) error { _, err := a.qp.Query(); return err }, []error{syscall.EIO}, "qp "},
		{"poll_cq:EIO", "", func(_ *Device, a *end) error { _, err := a.cq.Poll(make([]verbs.WC, 1)); return err }, []error{syscall.EIO}, "poll_cq"},
		{"req_notify_cq:ENODEV", "", func(_ *Device, a *end) error { return a.cq.ReqNotify(false) }, []error{verbs.ErrNoDevice}, "req_notify_cq"},
		{"dereg_mr:EBUSY:0:1", "", func(_ *Device, a *end) error { return a.mr.Close() }, []error{verbs.ErrBusy}, "dereg_mr"},
		{"query_port:EINVAL", "", func(d *Device, _ *end) error { _, err := d.Port(1); return err }, []error{verbs.ErrInvalid}, "query_port"},
	} {
		t.Run(c.fail, func(t *testing.T) {
			d := open(t, map[string]string{"FAIL": c.fail + c.after})
			a := makeEnd(t, d, false)
			err := c.do(d, a)
			for _, cause := range c.cause {
				if !errors.Is(err, cause) {
					t.Errorf("%v: want %v", err, cause)
				}
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: want %q in it", err, c.says)
			}
		})
	}
}

// A post that fails in the midst of a list, also behind the first crossing's 64,
// says how many were taken.
func TestPostFailsInTheMidst(t *testing.T) {
	for _, c := range []struct {
		fail  string
		taken int
		cause error
	}{
		{"post_send_wr:ENOMEM:3", 3, verbs.ErrQueueFull},
		{"post_send_wr:EINVAL:70:1", 70, verbs.ErrInvalid},
		{"post_send:EIO:1:1", 64, syscall.EIO},
	} {
		t.Run(c.fail, func(t *testing.T) {
			a, b := connect(t, open(t, map[string]string{"FAIL": c.fail}), false)
			n, err := a.qp.PostSend(slices.Repeat([]verbs.SendWR{write(a, b, 8)}, 100))
			if n != c.taken || !errors.Is(err, c.cause) {
				t.Errorf("%d taken, %v: want %d, %v", n, err, c.taken, c.cause)
			}
			for range n {
				if wc := one(t, a); wc.Status != ib.WCSuccess {
					t.Fatalf("%+v", wc)
				}
			}
		})
	}
}

// What a device can do is tried, and said.
func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		name                                    string
		open                                    string
		settings                                map[string]string
		raw, wallclock, query, mlx5, rates, odp bool
		hz                                      float64
		bits                                    int
		qpTypes                                 []string
	}{
		{"plain", "ibv:fake0", nil, false, false, false, false, false, false, 0, 0, nil},
		{"connectx", "ibv:fake0", map[string]string{"PROFILE": "connectx"}, true, true, true, true, true, true, 156.25e6, 63, []string{"RAW_PACKET"}},
		{"wallclock", "ibv:fake0?timestamps=wallclock", map[string]string{"PROFILE": "connectx"}, true, true, true, true, true, true, 1e9, 64, []string{"RAW_PACKET"}},
		{"off", "ibv:fake0?timestamps=off", map[string]string{"PROFILE": "connectx"}, true, true, true, true, true, true, 0, 0, []string{"RAW_PACKET"}},
		{"raw alone", "ibv:fake0", map[string]string{"PROFILE": "connectx", "TIMESTAMPS": "raw"}, true, false, true, true, true, true, 156.25e6, 63, []string{"RAW_PACKET"}},
		{"a counter of no rate", "ibv:fake0", map[string]string{"PROFILE": "connectx", "CLOCK_KHZ": "0"}, false, true, false, false, true, true, 0, 0, []string{"RAW_PACKET"}},
		{"no clock query", "ibv:fake0", map[string]string{"PROFILE": "connectx", "LACKS": "query_rt_values"}, true, true, false, true, true, true, 156.25e6, 63, []string{"RAW_PACKET"}},
		{"mlx5 without its clock", "ibv:fake0", map[string]string{"PROFILE": "connectx", "MLX5_CLOCK": "0"}, true, true, true, false, true, true, 156.25e6, 63, []string{"RAW_PACKET"}},
		{"no extended queues", "ibv:fake0", map[string]string{"PROFILE": "connectx", "LACKS": "create_cq_ex"}, false, false, true, true, true, true, 0, 0, []string{"RAW_PACKET"}},
		{"no query_device_ex", "ibv:fake0", map[string]string{"PROFILE": "connectx", "LACKS": "query_device_ex"}, false, true, true, true, false, false, 0, 0, nil},
		{"rates on RC", "ibv:fake0", map[string]string{"RATE_LIMIT": "rc,ud"}, false, false, false, false, true, false, 0, 0, []string{"RC", "UD"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, c.settings, c.open)
			got := d.Capabilities()
			for what, x := range map[string]struct {
				a    Ability
				want bool
			}{
				"raw timestamps": {got.RawTimestamps, c.raw}, "wallclock timestamps": {got.WallclockTimestamps, c.wallclock},
				"clock query": {got.ClockQuery, c.query}, "mlx5 clock": {got.MLX5Clock, c.mlx5}, "rate limit": {got.RateLimit, c.rates}, "ODP": {got.ODP, c.odp},
			} {
				if x.a.Found != x.want || x.a.Why == "" {
					t.Errorf("%s: %+v, want %v", what, x.a, x.want)
				}
			}
			a := d.Attr()
			if a.CoreClockHz != c.hz || a.ClockBits != c.bits || !slices.Equal(got.RateLimitedQPTypes, c.qpTypes) {
				t.Errorf("clock %g Hz, %d bits; rates on %v", a.CoreClockHz, a.ClockBits, got.RateLimitedQPTypes)
			}
			if _, err := d.CreateCQ(verbs.CQInitAttr{CQE: 1, Timestamps: true}); c.hz == 0 && !errors.Is(err, verbs.ErrNotSupported) {
				t.Errorf("a completion queue with timestamps: %v", err)
			} else if c.hz != 0 {
				check(t, err)
				for _, q := range d.cqs {
					check(t, q.Close())
				}
			}
			_, err := d.ReadClock()
			if readable := c.query && (d.mode != wallclock || c.mlx5); readable != (err == nil) || err != nil && !errors.Is(err, verbs.ErrNotSupported) {
				t.Errorf("ReadClock: %v", err)
			}
			if len(got.Ports) != 1 || got.Ports[0].MaxMTU != 4096 || got.Ports[0].BestGID < 0 || len(got.Ports[0].GIDs) == 0 || got.Ports[0].LinkRate != 100e9 {
				t.Errorf("ports %+v", got.Ports)
			}
		})
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// libmlx5 reports EBUSY for a completion that it has taken, with the CQ locked, and loses
// one for which next_poll reports an error.
func TestPollFails(t *testing.T) {
	const wallclock = "ibv:fake0?timestamps=wallclock"
	a, b := connect(t, open(t, map[string]string{"PROFILE": "connectx", "FAIL": "start_poll:EBUSY:1:3"}, wallclock), true)
	for id := range uint64(5) {
		wr := write(a, b, 64)
		wr.WRID = id
		_, err := a.qp.PostSend([]verbs.SendWR{wr})
		check(t, err)
		if wc := one(t, a); wc.WRID != id {
			t.Fatalf("completion %d, expected %d", wc.WRID, id)
		}
	}

	a, b = connect(t, open(t, map[string]string{"PROFILE": "connectx", "FAIL": "next_poll:EIO:0:1"}, wallclock), true)
	_, err := a.qp.PostSend([]verbs.SendWR{write(a, b, 64), write(a, b, 64), write(a, b, 64)})
	check(t, err)
	var wc [4]verbs.WC
	if n, err := a.cq.Poll(wc[:]); n != 1 || err != nil {
		t.Fatalf("%d completions, %v: expected the one before the failure", n, err)
	}
	if n, err := a.cq.Poll(wc[:]); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Fatalf("%d completions, %v: expected that one was lost", n, err)
	}
	if n, err := a.cq.Poll(wc[:]); n != 1 || err != nil {
		t.Fatalf("%d completions, %v: expected the one after it", n, err)
	}
}

// The kernel's rule, by hand: 2 ns a cycle.
func TestMLX5Nanoseconds(t *testing.T) {
	c := MLX5Clock{Nanoseconds0: 1000, LastCycles: 100, Frac: 0, Mult: 2 << 10, Shift: 10, Mask: 1<<20 - 1}
	for ticks, want := range map[uint64]uint64{100: 1000, 150: 1100, 90: 980, 0: 800, 1<<20 + 50: 900, 1<<20 - 1: 798} {
		if got := c.Nanoseconds(ticks); got != want {
			t.Errorf("at %d: %d, want %d", ticks, got, want)
		}
	}
}

// Events are moderated where the driver does that.
func TestModify(t *testing.T) {
	for lacks, want := range map[string]error{"": nil, "modify_cq": verbs.ErrNotSupported} {
		d := open(t, map[string]string{"LACKS": lacks})
		cq, err := d.CreateCQ(verbs.CQInitAttr{CQE: 4})
		check(t, err)
		if err := cq.(verbs.ModifiableCQ).Modify(verbs.CQAttr{Count: 2, Period: 10}); !errors.Is(err, want) {
			t.Errorf("without %q: %v, want %v", lacks, err, want)
		}
		check(t, cq.Close())
		if err := cq.(verbs.ModifiableCQ).Modify(verbs.CQAttr{}); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("of a destroyed queue: %v", err)
		}
	}
}

// A limit where it is granted is kept by the device; elsewhere it is refused and
// the error says what the device does limit.
func TestRateLimit(t *testing.T) {
	for _, c := range []struct {
		limits string
		bps    int64
		want   error
		says   string
	}{
		{"rc", 1e9, nil, ""},
		{"rc", 0, nil, ""},
		{"rc", 500, verbs.ErrInvalid, ""}, // rounds to 1 kbit/s, below the device's 2
		{"rc", -1, verbs.ErrInvalid, "1 kbit/s"},
		{"rc", 1 << 60, verbs.ErrInvalid, "4.29 Tbit/s"},
		{"raw", 1e9, verbs.ErrNotSupported, "RAW_PACKET, not RC"},
		{"none", 1e9, verbs.ErrNotSupported, "limits no queue pairs"},
	} {
		a, _ := connect(t, open(t, map[string]string{"RATE_LIMIT": c.limits, "RATE_MIN_KBPS": "2"}), false)
		err := a.qp.SetRateLimit(c.bps)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d bit/s where %s is limited: %v, want %v and %q", c.bps, c.limits, err, c.want, c.says)
		}
	}
}

// A limit of 8 Mbit/s lets 64 KiB pass in 65.5 ms of the device's clock.
func TestRateLimitIsKept(t *testing.T) {
	d := open(t, map[string]string{"PROFILE": "connectx", "RATE_LIMIT": "rc"})
	a, b := connect(t, d, true)
	check(t, a.qp.SetRateLimit(8e6))
	wr := write(a, b, 4096)
	n, err := a.qp.PostSend(slices.Repeat([]verbs.SendWR{wr}, 17))
	if n != 17 {
		t.Fatal(err)
	}
	first := one(t, a).Timestamp
	var last uint64
	for range 16 {
		last = one(t, a).Timestamp
	}
	if took := float64(last-first) / d.Attr().CoreClockHz; took < 0.0654 || took > 0.0657 {
		t.Errorf("64 KiB took %g s", took)
	}
}

// perftest's choice: RoCE v2, then IPv4.
func TestGIDs(t *testing.T) {
	for _, c := range []struct {
		table string
		best  int // -1: none
		gid0  string
	}{
		{"fe80::1/v1,fe80::1/v2,10.0.0.1/v1,10.0.0.1/v2", 3, "RoCE v2 is GID 1"},
		{"fe80::1/v2,2001:db8::1/v2", 1, ""},
		{"-,-,fe80::1/v2,10.0.0.1/v2,10.0.0.2/v2", 3, "empty"},
		{"10.0.0.1/v1,fe80::1/v2", 1, "take one of RoCE v2"},
		{"10.0.0.1/v1", 0, "take one of RoCE v2"},
		{"-", -1, "empty"},
	} {
		d := open(t, map[string]string{"GIDS": c.table})
		got, err := d.BestGID(1)
		if c.best >= 0 && (err != nil || got != c.best) || c.best < 0 && !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: GID %d, %v; want %d", c.table, got, err, c.best)
		}
		_, err = d.GID(1, 0)
		if c.gid0 == "" && err != nil || c.gid0 != "" && (err == nil || !strings.Contains(err.Error(), c.gid0)) {
			t.Errorf("%s: GID 0: %v; want %q", c.table, err, c.gid0)
		}
	}
}

// An address vector that names no GID of its own goes from one that reaches.
func TestSourceGIDFollowsDestination(t *testing.T) {
	d := open(t, map[string]string{"GIDS": "fe80::1/v1,fe80::1/v2,10.0.0.1/v1,10.0.0.1/v2,2001:db8::1/v2"})
	a, _ := connect(t, d, false)
	for to, want := range map[string]int{"10.0.0.9": 3, "2001:db8::9": 4, "fe80::9": 1} {
		at, err := d.route("test", 1, verbs.AddressVector{GID: addr(to)})
		if err != nil || int(at.grh.sgid_index) != want {
			t.Errorf("to %s from GID %d, %v; want %d", to, at.grh.sgid_index, err, want)
		}
	}
	q, err := a.qp.Query()
	if err != nil || q.AV.SGIDIndex != 3 || q.AV.GID != addr("10.0.0.1") || q.State != ib.RTS {
		t.Errorf("%+v, %v", q, err)
	}
}

// Asynchronous events name their objects, and those of objects that are gone
// come without.
func TestAsyncEvents(t *testing.T) {
	for _, c := range []struct {
		event string
		want  ib.EventType
		of    func(a *end, e verbs.AsyncEvent) bool
	}{
		{"qp_fatal", ib.EventQPFatal, func(a *end, e verbs.AsyncEvent) bool { return e.QP == verbs.QP(a.qp) }},
		{"cq_err", ib.EventCQErr, func(a *end, e verbs.AsyncEvent) bool { return e.CQ == a.cq && e.QP == nil }},
		{"port_err", ib.EventPortErr, func(_ *end, e verbs.AsyncEvent) bool { return e.Port == 1 && e.QP == nil }},
		{"device_fatal", ib.EventDeviceFatal, func(_ *end, e verbs.AsyncEvent) bool { return e.QP == nil && e.CQ == nil }},
	} {
		t.Run(c.event, func(t *testing.T) {
			d := open(t, map[string]string{"EVENTS": c.event + "@post_send:1"})
			a, b := connect(t, d, false)
			if _, err := d.AsyncEvent(t.Context(), 0); !errors.Is(err, verbs.ErrTimeout) {
				t.Errorf("before: %v", err)
			}
			got := make(chan verbs.AsyncEvent, 1)
			go func() {
				e, err := d.AsyncEvent(t.Context(), 30*time.Second)
				if err != nil {
					t.Error(err)
				}
				got <- e
			}()
			_, err := a.qp.PostSend([]verbs.SendWR{write(a, b, 8)})
			check(t, err)
			if e := <-got; e.Type != c.want || !c.of(a, e) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// Netdev and link rate come from the kernel where it has them.
func TestLinkRate(t *testing.T) {
	for _, c := range []struct {
		speed, width uint8
		want         int64
	}{{32, 2, 100e9}, {64, 2, 200e9}, {128, 2, 400e9}, {4, 1, 8e9}, {0, 2, 0}, {32, 3, 0}} {
		if got := linkRate("", c.speed, c.width); got != c.want {
			t.Errorf("speed %d width %d: %d, want %d", c.speed, c.width, got, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join("/sys/class/infiniband", "fake0")); err == nil {
		t.Skip("the machine has a device fake0")
	}
	d := open(t, nil)
	if p, err := d.Port(1); err != nil || p.Netdev != "" || p.LinkRate != 100e9 || p.LinkName != "Ethernet" {
		t.Errorf("%+v, %v", p, err)
	}
}

// Waits end when what they wait on goes.
func TestDestroyEndsWait(t *testing.T) {
	d := open(t, nil)
	ch, err := d.CreateCompChannel()
	check(t, err)
	done := make(chan error)
	go func() { _, err := ch.Wait(t.Context(), -1); done <- err }()
	check(t, ch.Close())
	if err := <-done; !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// Close may come while other goroutines ask for events.
func TestCloseWhileWaiting(t *testing.T) {
	for range 100 {
		opened, err := verbs.Open("ibv:fake0")
		dev := must(t, opened, err).(*Device)
		var started, done sync.WaitGroup
		for range 2 {
			started.Add(1)
			done.Go(func() {
				started.Done()
				for {
					_, err := dev.AsyncEvent(t.Context(), 0)
					if errors.Is(err, verbs.ErrClosed) {
						return
					}
					if !errors.Is(err, verbs.ErrTimeout) {
						t.Errorf("AsyncEvent: %v", err)
						return
					}
				}
			})
		}
		started.Wait()
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		done.Wait()
	}
}
