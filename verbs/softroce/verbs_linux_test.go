package softroce

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

func TestWrongUseIsAnError(t *testing.T) {
	a, b := openPair(t, here, there, 1024)
	caps := verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	fresh, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, Cap: caps})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	create := func(a *end, init verbs.QPInitAttr) error {
		_, err := a.pd.CreateQP(init)
		return err
	}
	connect := func(change func(*verbs.Endpoint, *verbs.RCParams)) func() error {
		return func() error {
			q := a.newQP()
			defer q.Close()
			to, p := b.me, verbs.DefaultRC()
			change(&to, &p)
			return verbs.ConnectRC(q, verbs.Endpoint{QPN: q.Num()}, to, p)
		}
	}
	open := func(name string) func() error {
		return func() error {
			_, err := verbs.Open("soft:" + name)
			return err
		}
	}
	send := func(wr verbs.SendWR) func() error {
		return func() error { _, err := a.qp.PostSend([]verbs.SendWR{wr}); return err }
	}
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"post_send in RESET": {func() error { _, err := fresh.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite}}); return err }, verbs.ErrState},
		"post_recv in RESET": {func() error { _, err := fresh.PostRecv([]verbs.RecvWR{{}}); return err }, verbs.ErrState},
		"RESET to RTS":       {func() error { return fresh.Modify(verbs.QPAttr{State: ib.RTS}, verbs.AttrState) }, verbs.ErrState},
		"INIT without port":  {func() error { return fresh.Modify(verbs.QPAttr{State: ib.Init}, verbs.AttrState) }, verbs.ErrInvalid},
		"INIT on port 2":     {func() error { return fresh.Modify(verbs.QPAttr{State: ib.Init, Port: 2}, verbs.ResetToInitRC) }, verbs.ErrInvalid},
		"attributes in RTS":  {func() error { return a.qp.Modify(verbs.QPAttr{Timeout: 1}, verbs.AttrTimeout) }, verbs.ErrNotSupported},
		"raw packets":        {func() error { return create(a, verbs.QPInitAttr{Type: 8, SendCQ: a.cq, RecvCQ: a.cq, Cap: caps}) }, verbs.ErrNotSupported},
		"no CQ":              {func() error { return create(a, verbs.QPInitAttr{Type: ib.RC, Cap: caps}) }, verbs.ErrInvalid},
		"another's CQ":       {func() error { return create(a, verbs.QPInitAttr{Type: ib.RC, SendCQ: b.cq, RecvCQ: a.cq, Cap: caps}) }, verbs.ErrInvalid},
		"no send queue":      {func() error { return create(a, verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq}) }, verbs.ErrInvalid},
		"remote write only":  {func() error { _, err := a.pd.RegMR(make([]byte, 1), ib.AccessRemoteWrite); return err }, verbs.ErrInvalid},
		"empty region":       {func() error { _, err := a.pd.RegMR(nil, 0); return err }, verbs.ErrInvalid},
		"unknown access":     {func() error { _, err := a.pd.RegMR(make([]byte, 1), 1<<20); return err }, verbs.ErrInvalid},
		"no completions":     {func() error { _, err := a.dev.CreateCQ(verbs.CQInitAttr{}); return err }, verbs.ErrInvalid},
		"too many pieces":    {send(verbs.SendWR{Opcode: ib.WRSend, SGL: make([]verbs.SGE, 5)}), verbs.ErrInvalid},
		"no operation":       {send(verbs.SendWR{Opcode: 200}), verbs.ErrInvalid},
		"inline read":        {send(verbs.SendWR{Opcode: ib.WRRDMARead, Flags: verbs.SendInline}), verbs.ErrInvalid},
		"too much inline":    {send(verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 257)}), verbs.ErrInvalid},
		"misaligned atomic":  {send(verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, RemoteAddr: 1, SGL: []verbs.SGE{{Length: 8}}}), verbs.ErrInvalid},
		"short atomic":       {send(verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGL: []verbs.SGE{{Length: 4}}}), verbs.ErrInvalid},
		"too long":           {send(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 1 << 31}, {Length: 1}}}), verbs.ErrInvalid},
		"send to from RC": {func() error {
			ah, err := a.pd.CreateAH(verbs.AddressVector{GID: b.me.GID})
			if err != nil {
				t.Error(err)
			}
			defer ah.Close()
			_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, AH: ah, RemoteQPN: 1}})
			return err
		}, verbs.ErrInvalid},
		"arm without a channel": {func() error { return a.cq.ReqNotify(false) }, verbs.ErrInvalid},
		"busy CQ":               {func() error { return a.cq.Close() }, verbs.ErrBusy},
		"busy PD":               {func() error { return a.pd.Close() }, verbs.ErrBusy},
		"busy device":           {func() error { return a.dev.Close() }, verbs.ErrBusy},
		"port 2":                {func() error { _, err := a.dev.Port(2); return err }, verbs.ErrInvalid},
		"GID 99":                {func() error { _, err := a.dev.GID(1, 99); return err }, verbs.ErrInvalid},

		"path MTU too large":     {connect(func(_ *verbs.Endpoint, p *verbs.RCParams) { p.PathMTU = 8192 }), verbs.ErrInvalid},
		"odd path MTU":           {connect(func(_ *verbs.Endpoint, p *verbs.RCParams) { p.PathMTU = 1000 }), verbs.ErrInvalid},
		"no peer":                {connect(func(e *verbs.Endpoint, _ *verbs.RCParams) { e.GID = netip.Addr{} }), verbs.ErrInvalid},
		"peer of another family": {connect(func(e *verbs.Endpoint, _ *verbs.RCParams) { e.GID = netip.MustParseAddr("fd00::1") }), verbs.ErrInvalid},
		"peer at a wrong port":   {connect(func(e *verbs.Endpoint, _ *verbs.RCParams) { e.GID = netip.MustParseAddr("::1").WithZone("portx") }), verbs.ErrInvalid},
		"peer QP of 25 bits":     {connect(func(e *verbs.Endpoint, _ *verbs.RCParams) { e.QPN = 1 << 24 }), verbs.ErrInvalid},
		"too many reads":         {connect(func(_ *verbs.Endpoint, p *verbs.RCParams) { p.MaxRdAtomic = 200 }), verbs.ErrInvalid},
		"service level 8":        {connect(func(_ *verbs.Endpoint, p *verbs.RCParams) { p.SL = 8 }), verbs.ErrInvalid},

		"address taken":        {open(here[5:]), verbs.ErrBusy},
		"no such interface":    {open("nix0"), verbs.ErrNoDevice},
		"no such address":      {open("203.0.113.7"), verbs.ErrNoDevice},
		"unknown option":       {open("lo?speed=1"), verbs.ErrInvalid},
		"odd mode":             {open("lo?mode=fast"), verbs.ErrInvalid},
		"port 0":               {open("lo?port=0"), verbs.ErrInvalid},
		"window 0":             {open("lo?window=0"), verbs.ErrInvalid},
		"rate without a unit":  {open("lo?rate=10"), verbs.ErrInvalid},
		"odd gso":              {open("lo?gso=1"), verbs.ErrInvalid},
		"odd tclass":           {open("lo?tclass=256"), verbs.ErrInvalid},
		"packet mode and port": {open("lo?mode=packet&port=99"), verbs.ErrInvalid},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	stuck := a.newQP()
	defer stuck.Close()
	nobody := verbs.Endpoint{GID: netip.MustParseAddr("127.47.91.99"), QPN: 5}
	if err := verbs.ConnectRC(stuck, verbs.Endpoint{}, nobody, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	for i := range 129 {
		_, err := stuck.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendInline}})
		if i < 128 && err != nil || i == 128 && !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("post %d on a queue of 128: %v", i, err)
		}
	}
}

func TestEventChannel(t *testing.T) {
	a, b := openPair(t, here, there, 1024)
	ch, err := a.dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := a.dev.CreateCQ(verbs.CQInitAttr{CQE: 16, Channel: ch})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}, SigAll: true})
	if err != nil {
		t.Fatal(err)
	}
	peer := b.newQP()
	x, y := verbs.Endpoint{GID: a.me.GID, QPN: qp.Num()}, verbs.Endpoint{GID: b.me.GID, QPN: peer.Num()}
	if err := errors.Join(verbs.ConnectRC(qp, x, y, verbs.DefaultRC()), verbs.ConnectRC(peer, y, x, verbs.DefaultRC())); err != nil {
		t.Fatal(err)
	}
	wc := make([]verbs.WC, 1)
	for range 100 {
		if err := cq.ReqNotify(false); err != nil {
			t.Fatal(err)
		}
		if _, err := qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite}}); err != nil {
			t.Fatal(err)
		}
		got, err := ch.Wait(t.Context(), 10*time.Second)
		if err != nil || got != cq {
			t.Fatal(got, err)
		}
		if n, err := cq.Poll(wc); n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
			t.Fatal(n, err, wc[0].Status)
		}
	}
	for _, wait := range []time.Duration{0, time.Millisecond} {
		if _, err := ch.Wait(t.Context(), wait); !errors.Is(err, verbs.ErrTimeout) {
			t.Errorf("a wait of %v for nothing gave %v", wait, err)
		}
	}
	if err := ch.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a channel in use was destroyed: %v", err)
	}

	if err := errors.Join(qp.Close(), peer.Close(), cq.Close(), ch.Close()); err != nil {
		t.Error(err)
	}
}

func TestAsyncEvent(t *testing.T) {
	a, b := openPair(t, here, there, 1024)
	m := a.reg(make([]byte, 8))
	go func() { // the other may wait by then, or not yet
		_, _ = a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{verbs.SGEOf(m, 0, 8)}, RemoteAddr: 4096, RKey: 1}})
	}()
	ev, err := b.dev.AsyncEvent(t.Context(), 10*time.Second)
	if err != nil || ev.Type != ib.EventQPAccessErr || ev.QP != b.qp {
		t.Errorf("event %+v, %v", ev, err)
	}
	wc := make([]verbs.WC, 1)
	if _, err := verbs.Drain(a.dev, a.cq, wc, 10*time.Second); err == nil || wc[0].Status != ib.WCRemAccessErr {
		t.Errorf("completion %v, %v", wc[0].Status, err)
	}
}

// The kernel's time stamps, on the device's counter.
func TestTimestamps(t *testing.T) {
	for _, p := range []string{"IPv4", "IPv6", "packet mode"} {
		t.Run(p, func(t *testing.T) {
			a, _ := openPair(t, pairs[p][0], pairs[p][1], 1024)
			clock := a.dev.(verbs.ClockReader)
			attr := a.dev.Attr()
			if attr.CoreClockHz != 1e9 || attr.ClockBits != 63 {
				t.Errorf("a counter of %g Hz, %d bits", attr.CoreClockHz, attr.ClockBits)
			}
			last := uint64(0)
			for range 20 {
				before, err := clock.ReadClock()
				if err != nil {
					t.Fatal(err)
				}
				wc, err := a.do(verbs.SendWR{Opcode: ib.WRRDMAWrite})
				if err != nil {
					t.Fatal(err)
				}
				after, _ := clock.ReadClock()
				// The two clocks run at one rate but for adjustments by NTP.
				const slack = 100_000
				if wc.Timestamp+slack < before || wc.Timestamp > after || wc.Timestamp <= last {
					t.Errorf("time stamp %d, between %d and %d, after %d", wc.Timestamp, before, after, last)
				}
				last = wc.Timestamp
			}
		})
	}
}

func TestStamp(t *testing.T) {
	const wall, mono = 1_000_000_000_000, 5_000_000_000
	for name, c := range map[string]struct {
		kernel int64
		want   uint64
	}{
		"fresh":                      {wall, mono},
		"a millisecond old":          {wall - 1_000_000, mono - 1_000_000},
		"none":                       {0, mono},
		"the wall clock went back":   {wall + 1, mono},
		"the wall clock went onward": {wall - 3600_000_000_000, mono},
	} {
		if got := stamp(c.kernel, wall, mono); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := stamp(wall-1000, wall, 10); got != 0 {
		t.Errorf("from before the device was opened: %d", got)
	}
}

// With all packets marked on their way, the requester is told.
func TestMarks(t *testing.T) {
	for _, p := range []string{"IPv4", "IPv6", "packet mode"} {
		t.Run(p, func(t *testing.T) {
			mark := func(name string) string {
				if strings.Contains(name, "?") {
					return name + "&tclass=3"
				}
				return name + "?tclass=3"
			}
			a, b := openPair(t, mark(pairs[p][0]), mark(pairs[p][1]), 1024)
			if _, err := a.do(verbs.SendWR{Opcode: ib.WRRDMAWrite}); err != nil {
				t.Fatal(err)
			}
			// A notification goes out before the acknowledgement. Where the host is busy, the
			// packets come over more than the 50 us in which there is one.
			if n := a.qp.(verbs.CNPQP).CNPs(); n == 0 {
				t.Error("no notification came")
			}
			wc := make([]verbs.WC, 1)
			if _, err := a.qp.PostSend([]verbs.SendWR{{WRID: 8, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}}); err != nil {
				t.Fatal(err)
			}
			if _, err := verbs.Drain(a.dev, a.cq, wc, 10*time.Second); err != nil {
				t.Fatal(err)
			}
			var report verbs.Telemetry
			if !a.qp.(verbs.TelemetryQP).CompletionTelemetry(&wc[0], &report) || !report.ECN {
				t.Error("the completion does not show the mark")
			}
			if k := a.qp.(verbs.TelemetryQP).TelemetryKinds(); k != verbs.ReportsECN|verbs.ReportsTurnaround {
				t.Errorf("it says that it reports %05b, want ECN and turnarounds alone", k)
			}
			b.dev.(*device).mu.Lock()
			defer b.dev.(*device).mu.Unlock()
			if c := b.dev.(*device).core.Counters; c.ECNMarked < 2 || c.CNPsSent < 1 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestUnreliableConnection(t *testing.T) {
	for name, where := range pairs {
		t.Run(name, func(t *testing.T) {
			a, b := openPair(t, where[0], where[1], 1024)
			caps := verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}
			var q [2]verbs.QP
			for i, h := range []*end{a, b} {
				var err error
				if q[i], err = h.pd.CreateQP(verbs.QPInitAttr{Type: ib.UC, SendCQ: h.cq, RecvCQ: h.cq, Cap: caps}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { q[i].Close() })
			}
			for i, h := range []*end{b, a} { // the other one
				for _, m := range []struct {
					a    verbs.QPAttr
					mask verbs.QPAttrMask
				}{
					{verbs.QPAttr{State: ib.Init, Port: 1, Access: ib.AccessRemoteWrite}, verbs.ResetToInitUC},
					{verbs.QPAttr{State: ib.RTR, PathMTU: 1024, DestQPN: q[1-i].Num(), RQPSN: 5, AV: verbs.AddressVector{GID: h.me.GID}}, verbs.InitToRTRUC},
					{verbs.QPAttr{State: ib.RTS, SQPSN: 5}, verbs.RTRToRTSUC},
				} {
					if err := q[i].Modify(m.a, m.mask); err != nil {
						t.Fatal(err)
					}
				}
			}
			in, data := make([]byte, 10000), bytes.Repeat([]byte("unreliable"), 1000)
			from, to := a.reg(data), b.reg(in)
			if _, err := q[1].PostRecv([]verbs.RecvWR{{WRID: 4}}); err != nil {
				t.Fatal(err)
			}
			wr := verbs.SendWR{
				WRID: 3, Opcode: ib.WRRDMAWriteWithImm, Imm: 9, Flags: verbs.SendSignaled,
				SGL: []verbs.SGE{verbs.SGEOf(from, 0, 10000)}, RemoteAddr: to.Addr(), RKey: to.RKey(),
			}
			if _, err := q[0].PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
			wc := make([]verbs.WC, 1)
			for _, h := range []*end{a, b} {
				if _, err := verbs.Drain(h.dev, h.cq, wc, 10*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if wc[0].WRID != 4 || wc[0].Imm != 9 || wc[0].ByteLen != 10000 || !bytes.Equal(in, data) {
				t.Errorf("%+v", wc[0])
			}
		})
	}
}

func TestDatagrams(t *testing.T) {
	a, b := openPair(t, here, there, 1024)
	const qkey = 0x1ee7
	ready := func(h *end) verbs.QP {
		q, err := h.pd.CreateQP(verbs.QPInitAttr{Type: ib.UD, SendCQ: h.cq, RecvCQ: h.cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		for _, m := range []struct {
			a    verbs.QPAttr
			mask verbs.QPAttrMask
		}{
			{verbs.QPAttr{State: ib.Init, Port: 1, QKey: qkey}, verbs.ResetToInitUD},
			{verbs.QPAttr{State: ib.RTR}, verbs.AttrState},
			{verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSUD},
		} {
			if err := q.Modify(m.a, m.mask); err != nil {
				t.Fatal(err)
			}
		}
		return q
	}
	x, y := ready(a), ready(b)
	buf := make([]byte, 2048)
	m := b.reg(buf)
	if _, err := y.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(m, 0, 2048)}}}); err != nil {
		t.Fatal(err)
	}
	out := a.reg(bytes.Repeat([]byte("datagram"), 100))
	ah, err := a.pd.CreateAH(verbs.AddressVector{GID: b.me.GID})
	if err != nil {
		t.Fatal(err)
	}
	wr := verbs.SendWR{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(out, 0, 800)}, AH: ah, RemoteQPN: y.Num(), RemoteQKey: qkey}
	if _, err := x.PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	if err := ah.Close(); err != nil {
		t.Fatal(err)
	}
	wc := make([]verbs.WC, 1)
	if _, err := verbs.Drain(b.dev, b.cq, wc, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if wc[0].ByteLen != 840 || wc[0].SrcQP != x.Num() || wc[0].Flags != verbs.WCGRH|verbs.WCIPv4 || !bytes.HasPrefix(buf[40:], []byte("datagramdatagram")) {
		t.Errorf("%+v", wc[0])
	}
	if ip := roce.IPv4(buf[20:40]); ip.Src() != a.me.GID || ip.TTL() != 64 {
		t.Errorf("GRH from %v, TTL %d", ip.Src(), ip.TTL())
	}
}

func TestManagementDatagrams(t *testing.T) {
	a, b := openEnd(t, here), openEnd(t, there)
	type got struct {
		local netip.Addr
		src   netip.AddrPort
		qpn   uint32
		mad   []byte
	}
	came := make(chan got, 1)
	var dev verbs.MADDevice = b.dev.(*device)
	dev.HandleMAD(func(local netip.Addr, src netip.AddrPort, qpn uint32, mad []byte) {
		// It may call the device.
		if err := dev.SendMAD(verbs.AddressVector{GID: src.Addr()}, qpn, mad); err != nil {
			t.Error(err)
		}
		came <- got{local, src, qpn, bytes.Clone(mad)}
	})
	back := make(chan []byte, 1)
	a.dev.(verbs.MADDevice).HandleMAD(func(_ netip.Addr, _ netip.AddrPort, _ uint32, mad []byte) { back <- bytes.Clone(mad) })
	data := bytes.Repeat([]byte{7}, roce.MADBytes)
	if err := a.dev.(verbs.MADDevice).SendMAD(verbs.AddressVector{GID: b.me.GID}, 1, data); err != nil {
		t.Fatal(err)
	}
	select {
	case g := <-came:
		if g.local != b.me.GID || g.src != netip.AddrPortFrom(a.me.GID, roce.Port) || g.qpn != 1 || !bytes.Equal(g.mad, data) {
			t.Errorf("%+v", g)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the datagram did not come")
	}
	if got := <-back; !bytes.Equal(got, data) {
		t.Error("the answer differs")
	}
	dev.HandleMAD(nil)
}

// Packets whose ICRC is wrong are counted and do nothing.
func TestCorruptPackets(t *testing.T) {
	a, b := openPair(t, here, there, 1024)
	d := b.dev.(*device)
	fd, err := newUDPSocket(netip.MustParseAddrPort("127.47.91.5:4791"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	path, err := roce.NewPath(netip.MustParseAddrPort("127.47.91.5:4791"), netip.AddrPortFrom(b.me.GID, roce.Port))
	if err != nil {
		t.Fatal(err)
	}
	handled := 0
	d.HandleMAD(func(netip.Addr, netip.AddrPort, uint32, []byte) { handled++ })
	p := roce.GSI(1, roce.DefaultPKey)
	packet := make([]byte, roce.HeaderBytes(p.Opcode)+roce.MADBytes+roce.ICRCBytes)
	p.Put(packet)
	r := rand.New(rand.NewPCG(1, 1))
	const n = 200
	for range n {
		path.PutICRC(packet, uint16(r.Uint32())) // any identification: it is hidden
		sent := bytes.Clone(packet)
		sent[5+r.IntN(len(sent)-5)] ^= 1 << r.IntN(8)
		if err := unix.Sendto(fd, sent, 0, &unix.SockaddrInet4{Addr: b.me.GID.As4(), Port: roce.Port}); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Sendto(fd, []byte("too short"), 0, &unix.SockaddrInet4{Addr: b.me.GID.As4(), Port: roce.Port}); err != nil {
		t.Fatal(err)
	}
	// Something good behind them shows that they have been looked at.
	if _, err := a.do(verbs.SendWR{Opcode: ib.WRRDMAWrite}); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := d.counters.badICRC.Load(); got != n || d.counters.malformed.Load() != 1 || handled != 0 {
		t.Errorf("%d of %d found, %d malformed, %d came through", got, n, d.counters.malformed.Load(), handled)
	}
}

// faultyWire loses, doubles and swaps what it sends.
type faultyWire struct {
	sender
	rng *rand.Rand
	out batch
}

func (w *faultyWire) segments() int { return 1 }

func (w *faultyWire) send(b *batch) {
	w.out.used, w.out.messages, w.out.segments = 0, w.out.messages[:0], 1
	put := func(m *message) {
		if len(w.out.messages) < batchMessages && len(w.out.buf)-w.out.used >= m.n {
			copy(w.out.buf[w.out.used:], b.buf[m.at:m.at+m.n])
			w.out.add(m.n, &m.route)
		}
	}
	for i := range b.messages {
		if w.rng.Float64() < 0.01 && i > 0 {
			b.messages[i], b.messages[i-1] = b.messages[i-1], b.messages[i]
		}
	}
	for i := range b.messages {
		m := &b.messages[i]
		switch p := w.rng.Float64(); {
		case p < 0.01:
		case p < 0.02:
			put(m)
			put(m)
		default:
			put(m)
		}
	}
	w.sender.send(&w.out)
}

func (h *end) makeFaulty(seed uint64) {
	d := h.dev.(*device)
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &faultyWire{sender: d.out, rng: rand.New(rand.NewPCG(seed, 1))}
	w.out.init()
	d.out = w
}

// Over real sockets, with real timers, from several goroutines at once: every
// queue pair's writes and reads are what they should be.
func TestManyQueuePairsOverAFaultyWire(t *testing.T) {
	a, b := openEnd(t, here), openEnd(t, there)
	a.makeFaulty(1)
	b.makeFaulty(2)
	const n, rounds = 200_000, 4
	var wg sync.WaitGroup
	for i := range 6 {
		x, y := &end{t: t, dev: a.dev, pd: a.pd}, &end{t: t, dev: b.dev, pd: b.pd, cq: b.cq}
		var err error
		if x.cq, err = a.dev.CreateCQ(verbs.CQInitAttr{CQE: 64}); err != nil {
			t.Fatal(err)
		}
		x.qp, y.qp = x.newQP(), y.newQP()
		x.me, y.me = verbs.Endpoint{GID: a.me.GID, QPN: x.qp.Num()}, verbs.Endpoint{GID: b.me.GID, QPN: y.qp.Num()}
		p := params([]ib.MTU{256, 1024, 4096}[i%3])
		p.Timeout = 16 // 268 ms: a busy machine stands still for half a second, which is seven of the default
		if err := errors.Join(verbs.ConnectRC(x.qp, x.me, y.me, p), verbs.ConnectRC(y.qp, y.me, x.me, p)); err != nil {
			t.Fatal(err)
		}
		local, back, remote := make([]byte, n), make([]byte, n), make([]byte, n)
		ml, mb, mr := x.reg(local), x.reg(back), y.reg(remote)
		r := rand.New(rand.NewPCG(uint64(i), 5))
		wg.Go(func() {
			for round := range rounds {
				for k := range local {
					local[k] = byte(r.Uint32())
				}
				for _, wr := range []verbs.SendWR{
					{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(ml, 0, n)}},
					{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{verbs.SGEOf(mb, 0, n)}},
				} {
					wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
					if _, err := x.do(wr); err != nil {
						t.Errorf("queue pair %d, round %d, %v: %v", i, round, wr.Opcode, err)
						return
					}
				}
				if !bytes.Equal(local, back) {
					t.Errorf("queue pair %d, round %d: other bytes came back", i, round)
					return
				}
			}
		})
		t.Cleanup(func() {
			if err := errors.Join(x.qp.Close(), y.qp.Close(), x.cq.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Atomics of the device and of the program meet on one word.
func TestAtomicsAreAtomic(t *testing.T) {
	a, b := openPair(t, here, there, 1024)
	word := make([]byte, 8)
	m, back := b.reg(word), a.reg(make([]byte, 8))
	const n = 200
	for range n {
		if _, err := a.do(verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, CompareAdd: 3, SGL: []verbs.SGE{verbs.SGEOf(back, 0, 8)}, RemoteAddr: m.Addr(), RKey: m.RKey()}); err != nil {
			t.Fatal(err)
		}
	}
	b.look()
	if got := binary.NativeEndian.Uint64(word); got != 3*n {
		t.Errorf("%d, want %d", got, 3*n)
	}
}

// Nothing is left running once a device is closed.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		a, b := openPair(t, here, there, 1024)
		if _, err := a.do(verbs.SendWR{Opcode: ib.WRRDMAWrite}); err != nil {
			t.Fatal(err)
		}
		ch, err := a.dev.CreateCompChannel()
		if err != nil {
			t.Fatal(err)
		}
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
		for _, h := range []*end{a, b} {
			if err := errors.Join(h.qp.Close(), h.cq.Close(), h.pd.Close(), h.dev.Close()); err != nil {
				t.Fatal(err)
			}
			// What openEnd has promised to close.
			h.dev, h.pd, h.cq, h.qp = closed{}, closed{}, closed{}, closed{}
		}
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) { //nolint:forbidigo // until goroutines have ended
		after := runtime.NumGoroutine()
		if after <= before {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// closed stands for objects that are gone already.
type closed struct {
	verbs.Device
	verbs.PD
	verbs.CQ
	verbs.QP
}

func (closed) Close() error                                   { return nil }
func (closed) CreateCQ(verbs.CQInitAttr) (verbs.CQ, error)    { return nil, verbs.ErrClosed }
func (closed) CreateQP(verbs.QPInitAttr) (verbs.QP, error)    { return nil, verbs.ErrClosed }
func (closed) Poll([]verbs.WC) (int, error)                   { return 0, verbs.ErrClosed }
func (closed) PostSend([]verbs.SendWR) (int, error)           { return 0, verbs.ErrClosed }
func (closed) PostRecv([]verbs.RecvWR) (int, error)           { return 0, verbs.ErrClosed }
func (closed) RegMR([]byte, ib.AccessFlags) (verbs.MR, error) { return nil, verbs.ErrClosed }
func (closed) Modify(verbs.QPAttr, verbs.QPAttrMask) error    { return verbs.ErrClosed }
func (closed) AsyncEvent(context.Context, time.Duration) (verbs.AsyncEvent, error) {
	return verbs.AsyncEvent{}, verbs.ErrClosed
}

// A wait ends when the device is closed under it.
func TestCloseEndsWaits(t *testing.T) {
	dev, err := verbs.Open(here)
	if err != nil {
		t.Fatal(err)
	}
	waits, ended := make(chan struct{}), make(chan error)
	go func() {
		close(waits)
		_, err := dev.AsyncEvent(t.Context(), -1)
		ended <- err
	}()
	<-waits
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("the wait ended with %v", err)
	}
	if err := dev.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("a second Close gave %v", err)
	}
	if _, err := dev.AllocPD(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("AllocPD after Close gave %v", err)
	}
}

// A completion queue that is polled though its device is closed leaves alone what
// has got the numbers of the device's sockets since.
func TestPollAfterClose(t *testing.T) {
	a, b := openPair(t, here, there, 1024)
	if _, err := a.do(verbs.SendWR{Opcode: ib.WRRDMAWrite}); err != nil {
		t.Fatal(err)
	}
	cq := a.cq
	fd := a.dev.(*device).wire.(*udpWire).sockets[0].fd
	for _, h := range []*end{a, b} {
		if err := errors.Join(h.qp.Close(), h.cq.Close(), h.pd.Close(), h.dev.Close()); err != nil {
			t.Fatal(err)
		}
		h.dev, h.pd, h.cq, h.qp = closed{}, closed{}, closed{}, closed{}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if pair[0] != fd { // another has taken it meanwhile, or not
		if err := unix.Dup3(pair[0], fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, x := range []int{pair[0], pair[1], fd} {
			_ = unix.Close(x)
		}
	}()
	if _, err := unix.Write(pair[1], []byte("for another")); err != nil {
		t.Fatal(err)
	}
	_, _ = cq.Poll(make([]verbs.WC, 1))
	got := make([]byte, 64)
	if n, err := unix.Read(pair[0], got); err != nil || string(got[:n]) != "for another" {
		t.Errorf("%q, %v: the poll has taken it", got[:max(n, 0)], err)
	}
}

func TestDevices(t *testing.T) {
	names, err := verbs.Devices()
	if err != nil || !slices.Contains(names, "soft:lo") {
		t.Errorf("devices %v, %v", names, err)
	}
	h := openEnd(t, here)
	p, err := h.dev.Port(1)
	if err != nil || p.State != verbs.PortActive || p.ActiveMTU != 4096 || p.Netdev != "lo" || p.GIDs != 1 || p.LinkRate != defaultRate {
		t.Errorf("port %+v, %v", p, err)
	}
	if h.me.GID != netip.MustParseAddr(here[5:]) {
		t.Errorf("GID %v", h.me.GID)
	}
}

func TestPathMTU(t *testing.T) {
	for mtu, want := range map[int]ib.MTU{65536: 4096, 4176: 4096, 4175: 2048, 1500: 1024, 1103: 512, 600: 512, 336: 256, 335: 0} {
		l := link{name: "x", mtu: mtu}
		got, err := l.pathMTU(0)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("netdev MTU %d: path MTU %d, %v; want %d", mtu, got, err, want)
		}
	}
}

// The shim paces and steers by the kernel's time stamps.
func TestPaced(t *testing.T) {
	a, b := openEnd(t, here+"?rate=1Gbps"), openEnd(t, there+"?rate=1Gbps")
	c := paced.DefaultConfig()
	c.Scheme = "timely"
	shim, err := paced.Wrap(a.dev, c)
	if err != nil {
		t.Fatal(err)
	}
	a.dev = shim // which closes the device below it
	pd, err := shim.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := shim.CreateCQ(verbs.CQInitAttr{CQE: 16})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	me := verbs.Endpoint{GID: a.me.GID, QPN: qp.Num()}
	if err := errors.Join(verbs.ConnectRC(qp, me, b.me, verbs.DefaultRC()), verbs.ConnectRC(b.qp, b.me, me, verbs.DefaultRC())); err != nil {
		t.Fatal(err)
	}
	const n = 500_000
	src, dst := bytes.Repeat([]byte{1, 2, 3, 4, 5}, n/5), make([]byte, n)
	md := b.reg(dst)
	ms, err := pd.RegMR(src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, n)}, RemoteAddr: md.Addr(), RKey: md.RKey()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := verbs.Drain(shim, cq, make([]verbs.WC, 1), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	b.look()
	if !bytes.Equal(src, dst) {
		t.Error("other bytes came")
	}
	if s := shim.Stats(); s.NICTime == 0 {
		t.Errorf("no sample by the kernel's time stamps: %+v", s)
	}
	if err := errors.Join(qp.Close(), ms.Close(), cq.Close(), pd.Close()); err != nil {
		t.Error(err)
	}
}

// otherSpace is the network namespace that inNamespace makes. Names are the machine's, whatever namespace a test is in.
var otherSpace = fmt.Sprint("sluice-test-", os.Getpid())

func ip(args string) error {
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

// inNamespace runs f on a thread in a network namespace of its own that a pair of
// virtual interfaces joins to this one: 10.47.91.1 here, .2 there, and likewise
// fd47::1 and fd47::2.
func inNamespace(t testing.TB, f func(enter func(func()))) {
	t.Helper()
	name := otherSpace
	_ = ip("netns del " + name)
	if err := ip("netns add " + name); err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	t.Cleanup(func() {
		if err := ip("netns del " + name); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { _ = ip("link del sluice0") }) // at once; with the namespace it goes later
	for _, args := range []string{
		"link add sluice0 type veth peer name sluice1 netns " + name,
		"addr add 10.47.91.1/24 dev sluice0", "addr add fd47::1/64 dev sluice0 nodad", "link set sluice0 up",
		"-n " + name + " addr add 10.47.91.2/24 dev sluice1", "-n " + name + " addr add fd47::2/64 dev sluice1 nodad", "-n " + name + " link set sluice1 up",
	} {
		if err := ip(args); err != nil {
			t.Skipf("no virtual interfaces here: %v", err)
		}
	}
	// Link-local addresses are tentative at first.
	for i := 0; ; i++ {
		out, _ := exec.Command("ip", "addr", "show", "dev", "sluice0").Output()
		peer, _ := exec.Command("ip", "-n", name, "addr", "show", "dev", "sluice1").Output()
		if all := string(out) + string(peer); !strings.Contains(all, "tentative") && strings.Count(all, "fe80::") == 2 {
			break
		}
		if i == 100 {
			t.Skip("the interfaces get no link-local addresses")
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // until the kernel has addresses
	}
	f(func(inside func()) {
		done := make(chan struct{})
		go func() { // its thread ends with it, as it is not unlocked
			defer close(done)
			runtime.LockOSThread()
			fd, err := unix.Open("/var/run/netns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				t.Error(err)
				return
			}
			inside()
		}()
		<-done
	})
}

// Over virtual Ethernet: a real MTU, several GIDs, link-local addresses.
func TestEthernet(t *testing.T) {
	inNamespace(t, func(enter func(func())) {
		for _, mode := range []string{"udp", "packet"} {
			t.Run(mode, func(t *testing.T) {
				a := openEnd(t, "soft:sluice0?mode="+mode)
				var b *end
				enter(func() { b = openEnd(t, "soft:sluice1?mode="+mode) })
				if b == nil {
					t.FailNow()
				}
				port, err := a.dev.Port(1)
				if err != nil || port.ActiveMTU != 1024 || port.GIDs != 3 || port.Netdev != "sluice0" || port.LinkRate != 10_000_000_000 {
					t.Errorf("port %+v, %v", port, err)
				}
				for i := range port.GIDs {
					x, y := a.newQP(), b.newQP()
					from, err1 := a.dev.GID(1, i)
					to, err2 := b.dev.GID(1, i)
					if err := errors.Join(err1, err2); err != nil {
						t.Fatal(err)
					}
					one, two := verbs.Endpoint{GID: from, QPN: x.Num()}, verbs.Endpoint{GID: to, QPN: y.Num()}
					if err := errors.Join(verbs.ConnectRC(x, one, two, verbs.DefaultRC()), verbs.ConnectRC(y, two, one, verbs.DefaultRC())); err != nil {
						t.Fatal(err)
					}
					const n = 300_000
					src, dst := bytes.Repeat([]byte{byte(i), 1, 2}, n/3), make([]byte, n)
					ms, md := a.reg(src), b.reg(dst)
					old := a.qp
					a.qp = x
					_, err := a.do(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, n)}, RemoteAddr: md.Addr(), RKey: md.RKey()})
					a.qp = old
					b.look()
					if err != nil {
						t.Errorf("%v to %v: %v", from, to, err)
					} else if !bytes.Equal(src, dst) {
						t.Errorf("%v to %v: other bytes came", from, to)
					}
					if err := errors.Join(x.Close(), y.Close()); err != nil {
						t.Error(err)
					}
				}
				for _, h := range []*end{a, b} {
					d := h.look()
					if n := d.counters.badICRC.Load() + d.counters.malformed.Load(); n > 0 {
						t.Errorf("%s: %d bad ICRCs, %d malformed", d.name, d.counters.badICRC.Load(), d.counters.malformed.Load())
					}
				}
			})
		}
	})
}

// Who polls once and then sleeps gets what comes at once: the goroutine that receives
// does not stay away because of that poll, as it does from who only polls.
func TestWaitEndsTheNap(t *testing.T) {
	const text = "ping"
	var ends [2]*end
	var queues [2]verbs.CQ
	var channels [2]verbs.CompChannel
	var bufs [2]verbs.MR
	for i, where := range []string{here, there} {
		h := openEnd(t, where)
		h.dev.(*device).nap.Store(int64(time.Hour))
		ch, err := h.dev.CreateCompChannel()
		if err != nil {
			t.Fatal(err)
		}
		cq, err := h.dev.CreateCQ(verbs.CQInitAttr{CQE: 16, Channel: ch})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.qp.Close(); err != nil {
			t.Fatal(err)
		}
		own := h.cq
		h.cq = cq
		h.qp = h.newQP()
		h.me.QPN = h.qp.Num()
		h.cq = own
		ends[i], queues[i], channels[i], bufs[i] = h, cq, ch, h.reg(make([]byte, 64))
		t.Cleanup(func() {
			if err := errors.Join(h.qp.Close(), cq.Close(), ch.Close()); err != nil {
				t.Error(err)
			}
			h.qp = h.newQP()
		})
	}
	x, y := ends[0], ends[1]
	if err := errors.Join(verbs.ConnectRC(x.qp, x.me, y.me, params(1024)), verbs.ConnectRC(y.qp, y.me, x.me, params(1024))); err != nil {
		t.Fatal(err)
	}
	// take waits for the receive as programs do that sleep: arm, look, wait.
	take := func(i int) error {
		for {
			if err := queues[i].ReqNotify(false); err != nil {
				return err
			}
			var wc [4]verbs.WC
			n, err := queues[i].Poll(wc[:])
			if err != nil {
				return err
			}
			for _, c := range wc[:n] {
				if c.Status != ib.WCSuccess {
					return &verbs.StatusError{WC: c}
				}
				if c.Opcode == ib.WCRecv {
					return nil
				}
			}
			if _, err := channels[i].Wait(context.Background(), 30*time.Second); err != nil {
				return err
			}
		}
	}
	send := []verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte(text)}}
	const rounds = 200
	play := func(i int) error {
		h := ends[i]
		recv := []verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(bufs[i], 0, 64)}}}
		for range rounds {
			if _, err := h.qp.PostRecv(recv); err != nil {
				return err
			}
			if i == 0 {
				if _, err := h.qp.PostSend(send); err != nil {
					return err
				}
			}
			if err := take(i); err != nil {
				return err
			}
			if i == 1 {
				if _, err := h.qp.PostSend(send); err != nil {
					return err
				}
			}
		}
		return nil
	}
	other := make(chan error, 1)
	go func() { other <- play(1) }()
	if err := errors.Join(play(0), <-other); err != nil {
		t.Fatal(err)
	}
}
