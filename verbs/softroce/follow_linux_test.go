package softroce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
)

// hosts are two hosts, each in a network namespace, with v0 and v1 between them.
type hosts struct {
	t  *testing.T
	ns [2]netns.NsHandle
}

func newHosts(t *testing.T) *hosts {
	h := &hosts{t: t, ns: [2]netns.NsHandle{watchertest.Namespace(t), watchertest.Namespace(t)}}
	h.join()
	return h
}

func (h *hosts) join() {
	h.t.Helper()
	h.in(0, func() error {
		v := netlink.NewVeth(netlink.NewLinkAttrs())
		v.Name, v.PeerName, v.PeerNamespace = "v0", "v1", netlink.NsFd(h.ns[1])
		if err := netlink.LinkAdd(v); err != nil {
			h.t.Skipf("no virtual interfaces here: %v", err)
		}
		return nil
	})
	for i := range h.ns {
		h.in(i, func() error {
			watchertest.Host(h.t, fmt.Sprintf("v%d", i), watchertest.Addresses[i][0])
			return nil
		})
	}
}

func (h *hosts) in(host int, f func() error) {
	h.t.Helper()
	var err error
	if watchertest.In(h.t, h.ns[host], func() { err = f() }); err != nil {
		h.t.Fatal(err)
	}
}

// with calls f for an interface of a host.
func (h *hosts) with(host int, f func(netlink.Link) error) {
	h.t.Helper()
	h.in(host, func() error {
		l, err := netlink.LinkByName(fmt.Sprintf("v%d", host))
		if err != nil {
			return err
		}
		return f(l)
	})
}

func (h *hosts) down(host int) { h.t.Helper(); h.with(host, netlink.LinkSetDown) }
func (h *hosts) up(host int)   { h.t.Helper(); h.with(host, netlink.LinkSetUp) }
func (h *hosts) gone(host int) { h.t.Helper(); h.with(host, netlink.LinkDel) }

func (h *hosts) address(host int, text string, change func(netlink.Link, *netlink.Addr) error) {
	h.t.Helper()
	h.with(host, func(l netlink.Link) error {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		return change(l, a)
	})
}

func (h *hosts) open(host int, options string) *end {
	h.t.Helper()
	var e *end
	if strings.Contains(options, "xdp") { // for the room of its frames
		h.with(host, func(l netlink.Link) error { return netlink.LinkSetMTU(l, 3000) })
	}
	h.in(host, func() error { e = openEnd(h.t, fmt.Sprintf("soft:v%d%s", host, options)); return nil })
	// The carrier comes a moment after both ends are up.
	for e.port().State != verbs.PortActive {
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel tells of it, and the device here takes note some time after
	}
	for {
		if _, err := e.dev.AsyncEvent(context.Background(), 0); err != nil {
			return e
		}
	}
}

func (e *end) port() verbs.PortAttr {
	e.t.Helper()
	p, err := e.dev.Port(1)
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

// table are the GIDs as text, "::" for none.
func (e *end) table() (all []string) {
	e.t.Helper()
	for i := range e.port().GIDs {
		a, err := e.dev.GID(1, i)
		if err != nil {
			e.t.Fatal(err)
		}
		all = append(all, a.String())
	}
	return all
}

// patience is for what takes milliseconds on any machine that still does anything.
const patience = 20 * time.Second

// expects reads asynchronous events, which have to be these, in this order.
func (e *end) expects(types ...ib.EventType) {
	e.t.Helper()
	for _, want := range types {
		got, err := e.dev.AsyncEvent(context.Background(), patience)
		if err != nil || got.Type != want || got.Port != 1 || got.QP != nil {
			e.t.Fatalf("event %+v, %v; want %v", got, err, want)
		}
	}
}

// transfer sends one byte and waits for what it ends with.
func (e *end) transfer(to *end) (send, recv ib.WCStatus) {
	e.t.Helper()
	buf := make([]byte, 64)
	for _, x := range []*end{e, to} {
		mr, err := x.pd.RegMR(buf, ib.AccessLocalWrite)
		if err != nil {
			e.t.Fatal(err)
		}
		defer mr.Close()
		if x == to {
			_, err = x.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 64)}}})
		} else {
			_, err = x.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 1)}, Flags: verbs.SendSignaled}})
		}
		if err != nil {
			e.t.Fatal(err)
		}
	}
	return e.completion(), to.completion()
}

func (e *end) completion() ib.WCStatus {
	e.t.Helper()
	var wc [1]verbs.WC
	for late := time.Now().Add(patience); time.Now().Before(late); {
		if n, err := e.cq.Poll(wc[:]); err != nil {
			e.t.Fatal(err)
		} else if n > 0 {
			return wc[0].Status
		}
	}
	e.t.Fatal("no completion")
	return 0
}

// connect connects two ends; the first sends from a place of its GID table.
func (h *hosts) connect(x, y *end, gid int, timeout uint8) {
	h.t.Helper()
	p := params(1024)
	p.Timeout, p.RetryCnt = timeout, 7
	from := p
	from.SGIDIndex = gid
	if err := errors.Join(verbs.ConnectRC(x.qp, x.me, y.me, from), verbs.ConnectRC(y.qp, y.me, x.me, p)); err != nil {
		h.t.Fatal(err)
	}
}

func TestPortEvents(t *testing.T) {
	for _, options := range []string{"", "?mode=packet", "?mode=xdp"} {
		t.Run(options, func(t *testing.T) {
			h := newHosts(t)
			x, y := h.open(0, options), h.open(1, options)
			const lasting = 18 // 1 s a time, eight times
			h.connect(x, y, 0, lasting)
			check := func(what string, active bool, table ...string) {
				t.Helper()
				state := verbs.PortDown
				if active {
					state = verbs.PortActive
				}
				if p, got := x.port(), x.table(); p.State != state || fmt.Sprint(got) != fmt.Sprint(table) {
					t.Errorf("%s: state %d, GIDs %v; want %d, %v", what, p.State, got, state, table)
				}
			}
			h.down(0)
			x.expects(ib.EventPortErr)
			check("down", false, "10.9.0.1")
			y.expects(ib.EventPortErr) // no carrier
			h.up(0)
			x.expects(ib.EventPortActive)
			y.expects(ib.EventPortActive)
			check("up", true, "10.9.0.1")
			if s, r := x.transfer(y); s != ib.WCSuccess || r != ib.WCSuccess {
				t.Errorf("after down and up: %v, %v", s, r)
			}
			h.down(1)
			x.expects(ib.EventPortErr)
			check("no carrier", false, "10.9.0.1")
			h.up(1)
			x.expects(ib.EventPortActive)

			h.address(0, "10.9.0.3/24", netlink.AddrAdd)
			x.expects(ib.EventGIDChange)
			check("an address more", true, "10.9.0.1", "10.9.0.3")
			h.address(0, "fd09::5/64", netlink.AddrAdd)
			x.expects(ib.EventGIDChange)
			check("an IPv6 address", true, "10.9.0.1", "10.9.0.3", "fd09::5")
			h.address(0, "10.9.0.3/24", netlink.AddrDel)
			x.expects(ib.EventGIDChange)
			check("one less", true, "10.9.0.1", "::", "fd09::5")
			h.address(0, "10.9.0.4/24", netlink.AddrAdd)
			x.expects(ib.EventGIDChange)
			check("another in its place", true, "10.9.0.1", "10.9.0.4", "fd09::5")

			// A connection by the address that came in that place.
			qp := x.qp
			x.qp = x.newQP()
			was := x.me
			x.me = verbs.Endpoint{GID: netip.MustParseAddr("10.9.0.4"), QPN: x.qp.Num()}
			old := y.qp
			y.qp = y.newQP()
			y.me.QPN = y.qp.Num()
			h.connect(x, y, 1, lasting)
			if s, r := x.transfer(y); s != ib.WCSuccess || r != ib.WCSuccess {
				t.Errorf("by an address that came later: %v, %v", s, r)
			}
			// Its place stays its own while the queue pair is there.
			h.address(0, "10.9.0.4/24", netlink.AddrDel)
			x.expects(ib.EventGIDChange)
			h.address(0, "10.9.0.6/24", netlink.AddrAdd)
			x.expects(ib.EventGIDChange)
			check("a place in use", true, "10.9.0.1", "::", "fd09::5", "10.9.0.6")
			h.address(0, "10.9.0.4/24", netlink.AddrAdd)
			x.expects(ib.EventGIDChange)
			check("it is back", true, "10.9.0.1", "10.9.0.4", "fd09::5", "10.9.0.6")
			if s, r := x.transfer(y); s != ib.WCSuccess || r != ib.WCSuccess {
				t.Errorf("when its address was back: %v, %v", s, r)
			}
			x.me = was
			if err := errors.Join(x.qp.Close(), y.qp.Close()); err != nil {
				t.Fatal(err)
			}
			x.qp, y.qp = qp, old

			h.with(0, func(l netlink.Link) error { return netlink.LinkSetMTU(l, 600) })
			for x.port().ActiveMTU != 512 {
				time.Sleep(time.Millisecond) //nolint:forbidigo // no event tells of it, as with the kernel's drivers
			}
			if p := x.port(); p.LinkRate != 10_000_000_000 {
				t.Errorf("rate %d, the driver says 10 Gbps", p.LinkRate)
			}
		})
	}
}

// What an interface's end ends: requests that wait, and new ones, by an error that says
// so, under an interface of the same name too.
func TestInterfaceGone(t *testing.T) {
	for _, options := range []string{"", "?mode=packet", "?mode=xdp"} {
		t.Run(options, func(t *testing.T) {
			h := newHosts(t)
			x, y := h.open(0, options), h.open(1, options)
			h.connect(x, y, 0, 20)
			buf := make([]byte, 64)
			mr, err := x.pd.RegMR(buf, ib.AccessLocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer mr.Close()
			if _, err := x.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 64)}}}); err != nil {
				t.Fatal(err)
			}
			h.gone(0)
			h.join()
			for {
				e, err := x.dev.AsyncEvent(context.Background(), patience)
				if err != nil {
					t.Fatal(err)
				}
				if e.Type == ib.EventDeviceFatal {
					break
				}
				if e.Type != ib.EventPortErr && e.Type != ib.EventGIDChange {
					t.Errorf("event %v", e.Type)
				}
			}
			if s := x.completion(); s != ib.WCWRFlushErr {
				t.Errorf("a receive that waited: %v", s)
			}
			if _, err := x.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 1)}, Flags: verbs.SendSignaled}}); err != nil {
				t.Errorf("a request in error: %v", err)
			} else if s := x.completion(); s != ib.WCWRFlushErr {
				t.Errorf("a request afterwards: %v", s)
			}
			if p := x.port(); p.State != verbs.PortDown || fmt.Sprint(x.table()) != "[::]" {
				t.Errorf("state %d, GIDs %v", p.State, x.table())
			}
			fails := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, verbs.ErrNoDevice) {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err = x.dev.AllocPD()
			fails("a PD", err)
			_, err = x.dev.CreateCQ(verbs.CQInitAttr{CQE: 1})
			fails("a CQ", err)
			_, err = x.dev.CreateCompChannel()
			fails("a channel", err)
			_, err = x.pd.RegMR(buf, 0)
			fails("a region", err)
			_, err = x.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: x.cq, RecvCQ: x.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
			fails("a queue pair", err)
			_, err = x.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
			fails("an SRQ", err)
			if err := x.qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
				t.Errorf("reset: %v", err)
			}
			fails("a connection", verbs.ConnectRC(x.qp, x.me, y.me, params(1024)))
			// The new interface has a device of its own.
			h.open(0, "")
		})
	}
}

// Retransmission repairs what a link that was down has lost.
func TestLinkDownWithinRetries(t *testing.T) {
	h := newHosts(t)
	x, y := h.open(0, ""), h.open(1, "")
	h.connect(x, y, 0, 14) // 67 ms, eight times
	buf := make([]byte, 1<<16)
	from, err := x.pd.RegMR(buf, ib.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	into, err := y.pd.RegMR(make([]byte, 1<<16), ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	h.down(0)
	x.expects(ib.EventPortErr)
	if _, err := x.qp.PostSend([]verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(from, 0, 1<<16)}, RemoteAddr: into.Addr(), RKey: into.RKey(), Flags: verbs.SendSignaled,
	}}); err != nil {
		t.Fatal(err)
	}
	h.up(0)
	x.expects(ib.EventPortActive)
	if s := x.completion(); s != ib.WCSuccess {
		t.Errorf("a WRITE that was posted while the link was down: %v", s)
	}
}

// A device of one address follows that one alone; any of the loopback's network is there
// as long as the network is.
func TestAddressFollows(t *testing.T) {
	h := newHosts(t)
	h.with(0, netlink.LinkSetUp)
	var one, lo *end
	h.in(0, func() error {
		l, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			return err
		}
		one, lo = openEnd(t, "soft:10.9.0.1"), openEnd(t, "soft:127.0.0.9")
		return nil
	})
	for one.port().State != verbs.PortActive {
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel tells of it, and the device here takes note some time after
	}
	for {
		if _, err := one.dev.AsyncEvent(context.Background(), 0); err != nil {
			break
		}
	}
	h.address(0, "10.9.7.2/24", netlink.AddrAdd)
	h.address(0, "10.9.0.1/24", netlink.AddrDel)
	one.expects(ib.EventGIDChange)
	if got := fmt.Sprint(one.table()); got != "[::]" {
		t.Errorf("without its address: %s", got)
	}
	h.address(0, "10.9.0.1/24", netlink.AddrAdd)
	one.expects(ib.EventGIDChange)
	if got := fmt.Sprint(one.table()); got != "[10.9.0.1]" {
		t.Errorf("with its address: %s", got)
	}
	if e, err := one.dev.AsyncEvent(context.Background(), 0); err == nil {
		t.Errorf("event %v", e.Type)
	}
	h.in(0, func() error {
		l, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetUp(l))
	})
	lo.expects(ib.EventPortErr, ib.EventPortActive)
	if got := fmt.Sprint(lo.table()); got != "[127.0.0.9]" {
		t.Errorf("of the loopback: %s", got)
	}
}
