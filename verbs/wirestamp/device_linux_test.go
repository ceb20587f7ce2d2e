package wirestamp

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
)

// carried is a completion with what was known of it at the time.
type carried struct {
	wc             verbs.WC
	posted, polled uint64
}

// run posts requests one or several at a time, and returns their completions with
// the times around them.
func run(t *testing.T, e *end, wrs []verbs.SendWR, each func(*carried)) {
	t.Helper()
	posted := make([]uint64, len(wrs))
	next, done := 0, 0
	wc := make([]verbs.WC, 16)
	last := time.Now()
	for done < len(wrs) {
		if next < len(wrs) && next-done < 32 {
			posted[next] = watcher.ReadClock()
			switch _, err := e.QP.PostSend(wrs[next : next+1]); {
			case errors.Is(err, verbs.ErrQueueFull):
			case err != nil:
				t.Fatal(err)
			default:
				next++
			}
		}
		n, err := e.CQ.Poll(wc)
		must(t, err)
		polled := watcher.ReadClock()
		for i := range wc[:n] {
			w := &wc[i]
			if w.Status != ib.WCSuccess || w.WRID != uint64(done) {
				t.Fatalf("completion %d: request %d, %v", done, w.WRID, w.Status)
			}
			each(&carried{*w, posted[done], polled})
			done++
			last = time.Now()
		}
		if time.Since(last) > time.Minute {
			t.Fatalf("only %d of %d completed", done, len(wrs))
		}
	}
}

// mixture is requests of every kind that the responder answers, of sizes around
// the path MTU of 1024.
func mixture(e *[2]end, n int) []verbs.SendWR {
	sizes := []int{1, 1023, 1024, 1025, 4096, 16384, 70000}
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		w := &wrs[i]
		size := sizes[i%len(sizes)]
		*w = verbs.SendWR{WRID: uint64(i), Flags: verbs.SendSignaled, RemoteAddr: e[1].MR.Addr(), RKey: e[1].MR.RKey()}
		switch i % 5 {
		case 0, 1:
			w.Opcode = ib.WRRDMAWrite
		case 2, 3:
			w.Opcode = ib.WRRDMARead
		case 4:
			w.Opcode, size = ib.WRAtomicFetchAndAdd, 8
		}
		w.SGL = []verbs.SGE{verbs.SGEOf(e[0].MR, 0, size)}
	}
	return wrs
}

// order says what is wrong with the times of a completion whose stamps are all
// there.
func order(q verbs.QP, c *carried) string {
	s, ok := q.(Stamper).Stamps(&c.wc)
	first, last, sent := q.(verbs.SentTimestampQP).SentTimestamps(&c.wc)
	switch {
	case !ok:
		return "no stamps"
	case !s.Whole():
		return "not all stamps"
	case !sent || first != s.First || last != s.Last || c.wc.Timestamp != s.Acked:
		return "stamps in two versions"
	case c.posted > s.First || s.First > s.Last || s.Last > s.Acked || s.Acked > c.polled:
		return "stamps out of order"
	}
	return ""
}

// Every request of a connection gets its stamps, whose times are in the order in
// which things happen: over IPv4 and IPv6, by both kinds of hook, with and without
// segmentation offload. PSNs wrap around on the way.
func TestStamps(t *testing.T) {
	old := defaults
	old.attach = tchook.AttachClsact
	for _, c := range []struct {
		name, options string
		set           settings
		gid           int
	}{
		{"v4", "", defaults, 0},
		{"v6", "", defaults, 1},
		{"one by one", "?gso=off", defaults, 0},
		{"packet mode", "?mode=packet", defaults, 0},
		{"clsact", "", old, 0},
		{"clsact v6", "?window=512", old, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			a := w.wrap(t, w.open(t, 0, c.options), c.set)
			e := watchertest.Connect(t, [2]verbs.Device{a, w.open(t, 1, c.options)}, c.gid, 0xffff00, lasting)
			const n = 200
			repeated := false
			var bad []string
			run(t, &e[0], mixture(&e, n), func(x *carried) {
				if why := order(e[0].QP, x); why != "" {
					bad = append(bad, why)
				}
				s, _ := e[0].QP.(Stamper).Stamps(&x.wc)
				repeated = repeated || s.Retransmitted
			})
			st := a.Stats()
			// A packet socket gets an acknowledgement before the ingress hook does, so
			// that a completion can be polled before its stamp is there.
			early := 0
			if c.options == "?mode=packet" {
				early = int(st.Unstamped)
			}
			// A busy machine may lose packets in a socket's buffer; then the rare
			// acknowledgement is one that its requester dropped.
			if len(bad) > early && !repeated && st.Lost == 0 {
				t.Errorf("%d of %d, such as: %s", len(bad), n, bad[0])
			}
			if st.Stamped+st.Unstamped != n || st.Stamped < n*9/10 || st.Others != 0 || st.Lost != 0 {
				t.Errorf("%+v", st)
			}
			t.Logf("%s: %+v", a.Hook(), st)
		})
	}
}

// Retransmissions are told, and the first transmission counts: also where the
// acknowledgement was lost behind the hook.
func TestStampsUnderLoss(t *testing.T) {
	for _, c := range []struct {
		name   string
		losing int
	}{{"requests", 1}, {"acknowledgements", 0}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.drop(t, c.losing, 1<<16/50)
			a := w.wrap(t, w.open(t, 0, "?gso=off"), defaults)
			e := watchertest.Connect(t, [2]verbs.Device{a, w.open(t, 1, "?gso=off")}, 0, 0xfffff0, lossy)
			const n = 300
			again := 0
			run(t, &e[0], mixture(&e, n), func(x *carried) {
				s, ok := e[0].QP.(Stamper).Stamps(&x.wc)
				if s.Retransmitted {
					again++
				}
				if ok && s.Acked == 0 {
					return // a race of a timer with the acknowledgement: counted below
				}
				if ok && s.First == 0 && s.Retransmitted {
					return // the host dropped the first packet before the hook: counted below
				}
				if why := order(e[0].QP, x); why != "" {
					t.Errorf("request %d: %s: %+v", x.wc.WRID, why, s)
				}
			})
			st := a.Stats()
			if again == 0 || st.Stamped < n*9/10 || st.Stamped+st.Unstamped != n || st.Retransmitted > uint64(again) || st.Unsent > n/10 {
				t.Errorf("%d were sent again: %+v", again, st)
			}
			t.Logf("%+v", st)
		})
	}
}

// Without room in the ring stamps are lost and counted, and completions have the
// time of polling.
func TestLostStamps(t *testing.T) {
	w := newWorld(t)
	set := defaults
	set.ring = os.Getpagesize()
	a := w.wrap(t, w.open(t, 0, "?window=512"), set)
	e := watchertest.Connect(t, [2]verbs.Device{a, w.open(t, 1, "?window=512")}, 0, 5, lasting)
	wrs := make([]verbs.SendWR, 60)
	for i := range wrs {
		wrs[i] = verbs.SendWR{
			WRID: uint64(i), Opcode: ib.WRRDMAWrite, RemoteAddr: e[1].MR.Addr(), RKey: e[1].MR.RKey(),
			SGL: []verbs.SGE{verbs.SGEOf(e[0].MR, 0, 2048)},
		}
	}
	// Unsignaled requests, each with two packets and an acknowledgement now and
	// then, until the ring has overflowed; nobody polls a completion meanwhile.
	last := &wrs[len(wrs)-1]
	last.Flags = verbs.SendSignaled
	for round := 0; a.src.lost() == 0; round++ {
		if round == 20 {
			t.Fatal("a ring of one page takes all stamps")
		}
		if n, err := e[0].QP.PostSend(wrs); err != nil {
			t.Fatalf("after %d: %v", n, err)
		}
		var wc [1]verbs.WC
		inner := e[0].CQ.(*cq)
		for n := 0; n == 0; {
			var err error
			n, err = inner.CQ.Poll(wc[:]) // behind the wrapper's back
			must(t, err)
		}
	}
	before := watcher.ReadClock()
	last.WRID = 1000
	must(t, post(e[0].QP, last))
	var wc [1]verbs.WC
	for n := 0; n == 0; {
		var err error
		n, err = e[0].CQ.Poll(wc[:])
		must(t, err)
	}
	st := a.Stats()
	if st.Lost == 0 || st.Unstamped != 1 || wc[0].Timestamp < before || wc[0].Timestamp > watcher.ReadClock() {
		t.Errorf("%+v, timestamp %d", st, wc[0].Timestamp)
	}
	if _, _, ok := e[0].QP.(verbs.SentTimestampQP).SentTimestamps(&wc[0]); ok {
		t.Error("a sending time of a packet that was not stamped")
	}
	// And it recovers.
	last.WRID = 1001
	must(t, post(e[0].QP, last))
	for n := 0; n == 0; {
		var err error
		n, err = e[0].CQ.Poll(wc[:])
		must(t, err)
	}
	if st := a.Stats(); st.Stamped != 1 {
		t.Errorf("%+v", st)
	}
}

func post(q verbs.QP, wr *verbs.SendWR) error {
	_, err := q.PostSend([]verbs.SendWR{*wr})
	return err
}

// A queue pair that was reset and connected anew is stamped from its new PSN on,
// receives are others, and a channel's events name the CQ that it was made with.
func TestLife(t *testing.T) {
	w := newWorld(t)
	a := w.wrap(t, w.open(t, 0, ""), defaults)
	if a.Attr().CoreClockHz != 1e9 || a.Attr().ClockBits != 64 || a.Netdev() != "v0" {
		t.Errorf("%+v on %s", a.Attr(), a.Netdev())
	}
	if n, err := a.ReadClock(); err != nil || n == 0 {
		t.Errorf("clock %d, %v", n, err)
	}
	b := w.open(t, 1, "")
	e := watchertest.Connect(t, [2]verbs.Device{a, b}, 0, 100, lasting)
	for round := range uint32(3) {
		if round > 0 {
			for i := range e {
				must(t, e[i].QP.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState))
			}
			watchertest.Join(t, &e, int(round%2), 1000*round, lasting)
		}
		run(t, &e[0], mixture(&e, 20), func(x *carried) {
			if why := order(e[0].QP, x); why != "" {
				t.Errorf("round %d, request %d: %s", round, x.wc.WRID, why)
			}
		})
	}

	// A receive at the stamped end.
	if _, err := e[0].QP.PostRecv([]verbs.RecvWR{{WRID: 5, SGL: []verbs.SGE{verbs.SGEOf(e[0].MR, 0, 64)}}}); err != nil {
		t.Fatal(err)
	}
	before := watcher.ReadClock()
	must(t, post(e[1].QP, &verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(e[1].MR, 0, 64)}}))
	var wc [1]verbs.WC
	if _, err := verbs.Drain(a, e[0].CQ, wc[:], time.Minute); err != nil {
		t.Fatal(err)
	}
	if wc[0].Opcode != ib.WCRecv || wc[0].Timestamp < before || a.Stats().Others != 1 {
		t.Errorf("%+v, %+v", wc[0], a.Stats())
	}
	if _, ok := e[0].QP.(Stamper).Stamps(&wc[0]); ok {
		t.Error("a receive has stamps")
	}

	ch, err := a.CreateCompChannel()
	must(t, err)
	cq, err := a.CreateCQ(verbs.CQInitAttr{CQE: 16, Channel: ch})
	must(t, err)
	pd, err := a.AllocPD()
	must(t, err)
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	must(t, err)
	must(t, qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState))
	must(t, cq.ReqNotify(false))
	_, err = qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}})
	must(t, err)
	fired, err := ch.Wait(t.Context(), time.Minute)
	if err != nil || fired != cq {
		t.Errorf("%v, %v", fired, err)
	}
	if n, err := cq.Poll(wc[:]); n != 1 || err != nil || wc[0].Status != ib.WCWRFlushErr {
		t.Errorf("%d, %v, %+v", n, err, wc[0])
	}
	must(t, errors.Join(qp.Close(), cq.Close(), ch.Close(), pd.Close()))
}

// Stamped devices are held to all that providers are.
func TestVerbs(t *testing.T) {
	w := newWorld(t)
	a, b := w.wrap(t, w.open(t, 0, ""), defaults), w.open(t, 1, "")
	verbstest.Run(t, verbstest.Ends{A: a, B: b})
	must(t, errors.Join(a.Close(), b.Close()))
}

func TestVerbsShimmed(t *testing.T) {
	w := newWorld(t)
	a, b := w.wrap(t, w.open(t, 0, ""), defaults), w.open(t, 1, "")
	verbstest.Run(t, verbstest.Ends{A: verbstest.Shimmed(t, a), B: verbstest.Shimmed(t, b)})
}

func TestPollingAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	a := w.wrap(t, w.open(t, 0, ""), defaults)
	e := watchertest.Connect(t, [2]verbs.Device{a, w.open(t, 1, "")}, 0, 100, lasting)
	wrs := []verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: e[1].MR.Addr(), RKey: e[1].MR.RKey(),
		SGL: []verbs.SGE{verbs.SGEOf(e[0].MR, 0, 16384)},
	}}
	wc := make([]verbs.WC, 16)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := e[0].QP.PostSend(wrs); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0; {
			n, _ = e[0].CQ.Poll(wc)
			e[0].QP.(verbs.SentTimestampQP).SentTimestamps(&wc[0])
		}
	}); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// hardware is a device of a vendor.
type hardware struct{ verbs.Device }

func (hardware) Name() string           { return "ibv:mlx5_0" }
func (hardware) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{VendorID: 0x2c9} }
func (hardware) Port(int) (verbs.PortAttr, error) {
	return verbs.PortAttr{Netdev: "no-such-interface"}, nil
}

// software is one of none.
type software struct{ hardware }

func (software) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{} }

type simulated struct {
	hardware
	verbs.Runner
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		dev    verbs.Device
		cause  error
		phrase string
	}{
		{hardware{}, verbs.ErrNotSupported, "pass no hook"},
		{simulated{}, verbs.ErrNotSupported, "simulated"},
		{software{}, nil, "no-such-interface"},
	} {
		_, err := Wrap(c.dev, "")
		if err == nil || c.cause != nil && !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.phrase) {
			t.Errorf("%v, want one with %q", err, c.phrase)
		}
	}
}

// Without privileges the error says which are missing; with the two that it names,
// it works.
func TestPrivileges(t *testing.T) {
	if os.Getenv("WIRESTAMP_TEST_AS") != "" {
		s, err := Wrap(onLoopback{}, "")
		if err == nil {
			err = s.src.Close()
		}
		if err != nil {
			os.Stdout.WriteString(err.Error())
		}
		return
	}
	watchertest.NeedBPF(t)
	for _, c := range []struct {
		name string
		caps []uintptr
		want string
	}{
		{"none", nil, "requires CAP_BPF and CAP_NET_ADMIN"},
		{"both", []uintptr{watchertest.CapBPF, watchertest.CapNetAdmin}, ""},
	} {
		out, err := watchertest.AsUser(t, "WIRESTAMP_TEST_AS="+c.name, c.caps, "-test.run", "^TestPrivileges$")
		if err != nil {
			t.Fatalf("%s: %v: %s", c.name, err, out)
		}
		said, _, _ := strings.Cut(out, "PASS")
		if c.want == "" && said != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}

type onLoopback struct{ software }

func (onLoopback) Port(int) (verbs.PortAttr, error) { return verbs.PortAttr{Netdev: "lo"}, nil }
