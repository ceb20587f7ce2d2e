//go:build linux

package ucma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
)

const guidA, guidB = 0x0200_00ff_fe00_0001, 0x0200_00ff_fe00_0002

// hasty gives up in a tenth of a second.
func hasty() cm.Config {
	c := cm.DefaultConfig()
	c.RemoteTimeout, c.LocalTimeout, c.PacketLifetime, c.MaxRetries = 12, 12, 8, 1
	return c
}

func newHost(t testing.TB, addr string, guid uint64, c cm.Config) *Host {
	t.Helper()
	dev, err := verbs.Open("soft:" + addr)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Devices: []Device{{Verbs: dev, NodeGUID: guid}}, CM: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// program is a program that has opened the node.
type program struct {
	t    testing.TB
	f    guest.File
	poll *os.File
	mem  *memory
}

// memory is a program's: what lies at an address.
type memory map[uint64][]byte

func (m *memory) ReadMemory(p []byte, addr uint64) error {
	b, ok := (*m)[addr]
	if !ok || len(b) < len(p) {
		return syscall.EFAULT
	}
	copy(p, b)
	return nil
}

func (m *memory) WriteMemory([]byte, uint64) error { return syscall.EFAULT }

func (h *Host) program(t testing.TB) *program {
	t.Helper()
	mem := &memory{}
	f, poll, errno := h.Open(&guest.Process{PID: 7, Memory: mem})
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() {
		f.Close()
		_ = poll.Close()
	})
	return &program{t, f, poll, mem}
}

// body builds what follows a command's header: values of fixed size, and bytes.
func body(fields ...any) []byte {
	var b bytes.Buffer
	for _, f := range fields {
		if raw, ok := f.([]byte); ok {
			b.Write(raw)
		} else if err := binary.Write(&b, binary.NativeEndian, f); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

const responseAt = 0x7fff_0000

func (p *program) try(op uint32, out int, b []byte) ([]byte, syscall.Errno) {
	p.t.Helper()
	r := p.f.Write(body(op, uint16(len(b)), uint16(out), b))
	if r.Errno == 0 && len(r.Data) > 0 && r.To != responseAt {
		p.t.Fatalf("command %d answers at %#x", op, r.To)
	}
	if len(r.Data) > out {
		p.t.Fatalf("command %d answers %d bytes where there is room for %d", op, len(r.Data), out)
	}
	return r.Data, r.Errno
}

func (p *program) do(op uint32, out int, fields ...any) []byte {
	p.t.Helper()
	data, errno := p.try(op, out, body(fields...))
	if errno != 0 {
		p.t.Fatalf("command %d: %v", op, errno)
	}
	return data
}

func (p *program) create(uid uint64, space roce.PortSpace) uint32 {
	p.t.Helper()
	return binary.NativeEndian.Uint32(p.do(cmdCreateID, 4, uid, uint64(responseAt), uint16(space), [6]byte{}))
}

func in6(a string) []byte {
	b := make([]byte, in6Bytes)
	if a != "" {
		putSockaddr(b, netip.MustParseAddrPort(a))
	}
	return b
}

func (p *program) bind(id uint32, a string) {
	p.t.Helper()
	p.do(cmdBindIP, 0, uint64(responseAt), in6(a), id)
}

// route returns the answer to QUERY_ROUTE.
func (p *program) route(id uint32) []byte {
	p.t.Helper()
	return p.do(cmdQueryRoute, routeBytes, uint64(responseAt), id, uint32(0))
}

func (p *program) listen(uid uint64, space roce.PortSpace, a string, backlog uint32) (id uint32, port uint16) {
	p.t.Helper()
	id = p.create(uid, space)
	p.bind(id, a)
	p.do(cmdListen, 0, id, backlog)
	return id, binary.BigEndian.Uint16(p.route(id)[138:])
}

func (p *program) resolved(uid uint64, space roce.PortSpace, a string) uint32 {
	p.t.Helper()
	id := p.create(uid, space)
	p.do(cmdResolveIP, 0, in6(""), in6(a), id, uint32(2000))
	p.expect(uid, id, evAddrResolved, 0)
	p.do(cmdResolveRoute, 0, id, uint32(2000))
	p.expect(uid, id, evRouteResolved, 0)
	return id
}

func param(qpn uint32, private string) []byte {
	b := make([]byte, connParamBytes)
	(&connParam{qpn: qpn, private: []byte(private), responderResources: 4, initiatorDepth: 3, retryCount: 7, rnrRetryCount: 6}).put(b)
	b[271] = 1
	return b
}

func (p *program) connect(id, qpn uint32, private string) {
	p.t.Helper()
	p.do(cmdConnect, 0, param(qpn, private), id, uint32(0), uint64(0))
}

func (p *program) accept(uid uint64, id, qpn uint32, private string) {
	p.t.Helper()
	p.do(cmdAccept, 0, uid, param(qpn, private), id, uint32(0), uint64(0))
}

// ready does what librdmacm does once its queue pair is in RTS: ACCEPT without
// parameters.
func (p *program) ready(id uint32) {
	p.t.Helper()
	p.do(cmdAccept, 0, uint64(0), make([]byte, connParamBytes), id, uint32(0), uint64(0))
}

func (p *program) readable(wait time.Duration) bool {
	p.t.Helper()
	fds := []unix.PollFd{{Fd: int32(p.poll.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(wait.Milliseconds()))
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(fds, int(wait.Milliseconds()))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return n == 1
}

// next waits for an event and takes it.
func (p *program) next() []byte {
	p.t.Helper()
	if !p.readable(20 * time.Second) {
		p.t.Fatal("no event")
	}
	return p.do(cmdGetEvent, eventBytes, uint64(responseAt))
}

// expect takes the event that is due, and returns its parameters' private data.
func (p *program) expect(uid uint64, id, kind uint32, status int32) (e []byte) {
	p.t.Helper()
	e = p.next()
	gotUID, gotID := binary.NativeEndian.Uint64(e), binary.NativeEndian.Uint32(e[8:])
	gotKind, gotStatus := binary.NativeEndian.Uint32(e[12:]), int32(binary.NativeEndian.Uint32(e[16:]))
	if gotUID != uid || gotID != id && id != 0 || gotKind != kind || gotStatus != status {
		p.t.Fatalf("event %d of %#x (%d), status %d, want %d of %#x (%d), status %d", gotKind, gotUID, gotID, gotStatus, kind, uid, id, status)
	}
	return e
}

func (p *program) quiet() {
	p.t.Helper()
	if p.readable(0) {
		p.t.Fatalf("an event that is not due: %v", p.next()[:20])
	}
	if _, errno := p.try(cmdGetEvent, eventBytes, body(uint64(responseAt))); errno != syscall.EAGAIN {
		p.t.Fatalf("GET_EVENT without an event: %v", errno)
	}
}

func (p *program) destroy(id uint32) (reported uint32) {
	p.t.Helper()
	return binary.NativeEndian.Uint32(p.do(cmdDestroyID, 4, uint64(responseAt), id, uint32(0)))
}

// qpAttr returns the answer to INIT_QP_ATTR.
func (p *program) qpAttr(id uint32, to ib.QPState) []byte {
	p.t.Helper()
	return p.do(cmdInitQPAttr, qpAttrBytes, uint64(responseAt), id, uint32(to))
}

func u32At(b []byte, off int) uint32 { return binary.NativeEndian.Uint32(b[off:]) }

// Two programs connect: events and fields are as librdmacm reads them.
func TestConnect(t *testing.T) {
	a, b := newHost(t, "127.0.20.1", guidA, cm.Config{}).program(t), newHost(t, "127.0.20.2", guidB, cm.Config{}).program(t)
	listener, port := b.listen(0xb0, roce.PortSpaceTCP, "0.0.0.0:0", 5)
	if r := b.route(listener); u32At(r, 0) != 0 || r[196] != 0 {
		t.Error("a listener at all addresses has a device")
	}
	id := a.resolved(0xa0, roce.PortSpaceTCP, netip.AddrPortFrom(netip.MustParseAddr("127.0.20.2"), port).String())
	r := a.route(id)
	if binary.BigEndian.Uint64(r) != guidA || u32At(r, 192) != 1 || r[196] != 1 || u32At(r, 8+48) != 5 ||
		netip.AddrFrom16([16]byte(r[8:])).Unmap().String() != "127.0.20.2" || netip.AddrFrom16([16]byte(r[24:])).Unmap().String() != "127.0.20.1" {
		t.Errorf("route %x", r)
	}
	if mask := u32At(a.qpAttr(id, ib.Init), 0); mask != 0x39 {
		t.Errorf("INIT before the connection: mask %#x", mask)
	}
	a.connect(id, 0x111, "hello")

	e := b.expect(0xb0, 0, evConnectRequest, 0)
	child := u32At(e, 8)
	if p := e[20:]; u32At(p, 0) != 0x111 || p[264] != 56 || !bytes.HasPrefix(p[8:], []byte("hello\x00")) || p[266] != 3 || p[267] != 4 || p[269] != 7 || p[270] != 6 {
		t.Errorf("request %x", p[:272])
	}
	if r := b.route(child); binary.BigEndian.Uint64(r) != guidB || binary.BigEndian.Uint16(r[138:]) != port ||
		!bytes.Equal(r[166:168], a.route(id)[138:140]) || u32At(r, 140) != u32At([]byte{127, 0, 20, 2}, 0) {
		t.Errorf("route of the request %x", r)
	}
	rtr := b.qpAttr(child, ib.RTR)
	if u32At(rtr, 0) != 0x129181 || u32At(rtr, 32) != 0x111 || u32At(rtr, 12) != 5 || rtr[131] != 3 || rtr[40+29] != 1 || rtr[40+30] != 1 ||
		netip.AddrFrom16([16]byte(rtr[40:])).Unmap().String() != "127.0.20.1" {
		t.Errorf("RTR of the request: mask %#x, %x", u32At(rtr, 0), rtr)
	}
	b.accept(0xb1, child, 0x222, "welcome")

	e = a.expect(0xa0, id, evConnectResponse, 0)
	if p := e[20:]; u32At(p, 0) != 0x222 || p[264] != 196 || !bytes.HasPrefix(p[8:], []byte("welcome\x00")) || p[266] != 3 || p[267] != 3 {
		t.Errorf("response %x", p[:272])
	}
	b.quiet() // the RTU leaves only with the program's ACCEPT
	init := a.qpAttr(id, ib.Init)
	if u32At(init, 0) != 0x39 || u32At(init, 36) != 2|4|8 || init[133] != 1 {
		t.Errorf("INIT: %x", init)
	}
	mine, rts := a.qpAttr(id, ib.RTR), a.qpAttr(id, ib.RTS)
	theirs := b.qpAttr(child, ib.RTS)
	if u32At(mine, 24) != u32At(theirs, 28) || u32At(rts, 28) != u32At(rtr, 24) {
		t.Error("the sides count packets from different numbers")
	}
	if u32At(rts, 0) != 0x12e01 || rts[130] != 3 || rts[135] != 7 || rts[136] != 6 || rts[134] == 0 {
		t.Errorf("RTS: mask %#x, %x", u32At(rts, 0), rts)
	}
	a.ready(id)
	b.expect(0xb1, child, evEstablished, 0)

	a.do(cmdDisconnect, 0, id)
	a.expect(0xa0, id, evDisconnected, 0)
	b.expect(0xb1, child, evDisconnected, 0)
	b.do(cmdDisconnect, 0, child) // as librdmacm's programs do
	if n := a.destroy(id); n != 4 {
		t.Errorf("%d events reported, want 4", n)
	}
	if n := b.destroy(child); n != 2 {
		t.Errorf("%d events of the child reported, want 2", n)
	}
	if n := b.destroy(listener); n != 1 {
		t.Errorf("%d events of the listener reported, want 1", n)
	}
	a.quiet()
	b.quiet()
}

func TestRefusals(t *testing.T) {
	ha, hb := newHost(t, "127.0.21.1", guidA, hasty()), newHost(t, "127.0.21.2", guidB, hasty())
	a, b := ha.program(t), hb.program(t)
	_, port := b.listen(0xb0, roce.PortSpaceTCP, "127.0.21.2:0", 1)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.21.2"), port).String()

	id := a.resolved(1, roce.PortSpaceTCP, to)
	a.connect(id, 5, "")
	child := u32At(b.expect(0xb0, 0, evConnectRequest, 0), 8)
	b.do(cmdReject, 0, child, uint8(2), uint8(0), uint16(0), []byte("no"), make([]byte, 254))
	if p := a.expect(1, id, evRejected, 28)[20:]; p[264] != 148 || !bytes.HasPrefix(p[8:], []byte("no\x00")) {
		t.Errorf("rejected with %x", p)
	}

	// The listener takes one request until the program has read it.
	first, second := a.resolved(3, roce.PortSpaceTCP, to), a.resolved(4, roce.PortSpaceTCP, to)
	a.connect(first, 7, "")
	if !b.readable(20 * time.Second) {
		t.Fatal("no request")
	}
	a.connect(second, 8, "")
	a.expect(4, second, evRejected, int32(roce.RejConsumer))
	child = u32At(b.expect(0xb0, 0, evConnectRequest, 0), 8)
	b.destroy(child) // which refuses it
	a.expect(3, first, evRejected, int32(roce.RejConsumer))

	// What the program has not read goes with its listener.
	id = a.resolved(5, roce.PortSpaceTCP, to)
	a.connect(id, 9, "")
	if !b.readable(20 * time.Second) {
		t.Fatal("no request")
	}
	b.f.Close()
	a.expect(5, id, evRejected, int32(roce.RejConsumer))
	if len(hb.ids) != 0 || len(hb.devices[0].conns) != 0 || len(hb.bound) != 0 || len(hb.services) != 0 {
		t.Errorf("left after close: %d identifiers, %d connections, %d ports, %d services", len(hb.ids), len(hb.devices[0].conns), len(hb.bound), len(hb.services))
	}
	b.f, _, _ = hb.Open(&guest.Process{PID: 7}) // for the cleanup to close

	id = a.resolved(6, roce.PortSpaceTCP, "127.0.21.77:5") // nobody is there
	a.connect(id, 10, "")
	a.expect(6, id, evUnreachable, -int32(syscall.ETIMEDOUT))
	id = a.resolved(7, roce.PortSpaceUDP, "127.0.21.77:5")
	a.connect(id, 11, "")
	a.expect(7, id, evUnreachable, -int32(syscall.ETIMEDOUT))
}

// A request may come before its listener, as perftest's with -R does.
func TestRequestBeforeListener(t *testing.T) {
	a, b := newHost(t, "127.0.30.1", guidA, cm.Config{}).program(t), newHost(t, "127.0.30.2", guidB, cm.Config{}).program(t)
	server := b.create(0xb0, roce.PortSpaceTCP)
	b.bind(server, "127.0.30.2:0")
	port := binary.BigEndian.Uint16(b.route(server)[138:])
	id := a.resolved(1, roce.PortSpaceTCP, netip.AddrPortFrom(netip.MustParseAddr("127.0.30.2"), port).String())
	a.connect(id, 5, "early")
	for h := b.f.(*File).host; ; runtime.Gosched() { // until the request is there
		h.mu.Lock()
		n := len(h.early)
		h.mu.Unlock()
		if n == 1 {
			break
		}
	}
	a.quiet()
	b.do(cmdListen, 0, server, uint32(5))
	if e := b.expect(0xb0, 0, evConnectRequest, 0); !bytes.HasPrefix(e[20+8:], []byte("early\x00")) {
		t.Errorf("request %x", e)
	}

	id = a.resolved(2, roce.PortSpaceTCP, "127.0.30.2:1")
	a.connect(id, 6, "")
	a.expect(2, id, evRejected, int32(roce.RejInvalidServiceID))
}

// Datagrams: a look-up by SIDR.
func TestDatagrams(t *testing.T) {
	a, b := newHost(t, "127.0.22.1", guidA, cm.Config{}).program(t), newHost(t, "127.0.22.2", guidB, cm.Config{}).program(t)
	_, port := b.listen(0xb0, roce.PortSpaceUDP, "127.0.22.2:0", 5)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.22.2"), port).String()
	id := a.resolved(1, roce.PortSpaceUDP, to)
	if q := a.qpAttr(id, ib.Init); u32At(q, 0) != 0x71 || u32At(q, 20) != 0x01234567 {
		t.Errorf("INIT: mask %#x, Q_Key %#x", u32At(q, 0), u32At(q, 20))
	}
	a.connect(id, 0x111, "who")
	e := b.expect(0xb0, 0, evConnectRequest, 0)
	if p := e[20:]; p[296] != 180 || !bytes.HasPrefix(p[40:], []byte("who\x00")) {
		t.Errorf("question %x", p)
	}
	child := u32At(e, 8)
	b.accept(0xb1, child, 0x222, "me")
	e = a.expect(1, id, evEstablished, 0)
	if p := e[20:]; u32At(p, 0) != 0x222 || u32At(p, 4) != 0x01234567 || p[296] != 136 || !bytes.HasPrefix(p[40:], []byte("me\x00")) ||
		netip.AddrFrom16([16]byte(p[8:])).Unmap().String() != "127.0.22.2" || p[8+29] != 1 || p[8+30] != 1 {
		t.Errorf("answer %x", p)
	}
	b.quiet()

	other := a.resolved(2, roce.PortSpaceUDP, to)
	a.connect(other, 0x112, "")
	child = u32At(b.expect(0xb0, 0, evConnectRequest, 0), 8)
	b.do(cmdReject, 0, child, make([]byte, 260))
	a.expect(2, other, evUnreachable, int32(roce.SIDRReject))

	other = a.resolved(3, roce.PortSpaceUDP, "127.0.22.2:1")
	a.connect(other, 0x112, "")
	a.expect(3, other, evUnreachable, int32(roce.SIDRUnsupported))
}

// Sluice's own rdma_cm is the other end.
func TestInterworks(t *testing.T) {
	host := newHost(t, "127.0.23.1", guidA, cm.Config{})
	a := host.program(t)
	dev, err := verbs.Open("soft:127.0.23.2")
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 16})
	if err != nil {
		t.Fatal(err)
	}
	qp := func() verbs.QP {
		q, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	l, err := rdmacm.Listen(dev, netip.MustParseAddrPort("127.0.23.2:7471"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan *rdmacm.Conn, 1)
	q1, q2 := qp(), qp()
	go func() {
		defer close(served)
		r, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		p := rdmacm.DefaultParams()
		p.Private = []byte("served")
		c, err := r.Accept(ctx, q1, p)
		if err != nil {
			t.Error(err)
			return
		}
		served <- c
	}()
	id := a.resolved(1, roce.PortSpaceTCP, "127.0.23.2:7471")
	a.connect(id, 0x333, "")
	if p := a.expect(1, id, evConnectResponse, 0)[20:]; u32At(p, 0) != q1.Num() || !bytes.HasPrefix(p[8:], []byte("served\x00")) {
		t.Errorf("response %x", p)
	}
	a.ready(id)
	c := <-served
	if c == nil {
		t.FailNow()
	}
	c.Disconnect()
	a.expect(1, id, evDisconnected, 0)

	_, port := a.listen(2, roce.PortSpaceTCP, "127.0.23.1:0", 5)
	dialed := make(chan error, 1)
	go func() {
		p := rdmacm.DefaultParams()
		p.Private = []byte("dialed")
		d, err := rdmacm.Dial(ctx, dev, netip.AddrPortFrom(netip.MustParseAddr("127.0.23.1"), port), q2, p)
		if err == nil && d.Parameters().RemoteQPN != 0x444 {
			err = errors.New("another queue pair answered")
		}
		dialed <- err
	}()
	e := a.expect(2, 0, evConnectRequest, 0)
	if p := e[20:]; u32At(p, 0) != q2.Num() || !bytes.HasPrefix(p[8:], []byte("dialed\x00")) {
		t.Errorf("request %x", p)
	}
	a.accept(3, u32At(e, 8), 0x444, "")
	a.expect(3, u32At(e, 8), evEstablished, 0)
	if err := <-dialed; err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), q1.Close(), q2.Close(), cq.Close(), pd.Close(), dev.Close()); err != nil {
		t.Error(err)
	}
}

// A lost RTU is made up for by the first packet, which the program reports.
func TestEstablishedByPacket(t *testing.T) {
	a, b := newHost(t, "127.0.24.1", guidA, cm.Config{}).program(t), newHost(t, "127.0.24.2", guidB, cm.Config{}).program(t)
	_, port := b.listen(1, roce.PortSpaceTCP, "127.0.24.2:0", 5)
	id := a.resolved(2, roce.PortSpaceTCP, netip.AddrPortFrom(netip.MustParseAddr("127.0.24.2"), port).String())
	a.connect(id, 5, "")
	child := u32At(b.expect(1, 0, evConnectRequest, 0), 8)
	b.accept(3, child, 6, "")
	a.expect(2, id, evConnectResponse, 0)
	if _, errno := b.try(cmdNotify, 0, body(child, 256+uint32(4))); errno != syscall.EINVAL {
		t.Errorf("an event of 9 bits: %v", errno)
	}
	b.do(cmdNotify, 0, child, uint32(4))
	b.expect(3, child, evEstablished, 0)
	if _, errno := b.try(cmdNotify, 0, body(child, uint32(4))); errno != syscall.EISCONN {
		t.Errorf("again: %v", errno)
	}
	a.ready(id)
	b.quiet()
}

// An identifier moves with its events.
func TestMigrate(t *testing.T) {
	h := newHost(t, "127.0.25.1", guidA, cm.Config{})
	a, b := h.program(t), h.program(t)
	id := a.create(1, roce.PortSpaceTCP)
	a.do(cmdResolveIP, 0, in6(""), in6("127.0.25.9:5"), id, uint32(1))
	a.expect(1, id, evAddrResolved, 0)
	a.do(cmdResolveRoute, 0, id, uint32(1))
	if !a.readable(0) || b.readable(0) {
		t.Fatal("the event is not where its identifier is")
	}
	if n := u32At(b.do(cmdMigrateID, 4, uint64(responseAt), id, uint32(9)), 0); n != 1 {
		t.Errorf("%d events reported, want 1", n)
	}
	a.quiet()
	b.expect(1, id, evRouteResolved, 0)
	if _, errno := a.try(cmdResolveRoute, 0, body(id, uint32(1))); errno != syscall.EINVAL {
		t.Errorf("a command on the old file: %v", errno)
	}
	if n := b.destroy(id); n != 2 {
		t.Errorf("%d events reported at the end, want 2", n)
	}
}

// One node serves all devices: addresses choose among them.
func TestSeveralDevices(t *testing.T) {
	var c Config
	for i, addr := range []string{"127.0.28.1", "127.0.28.2"} {
		dev, err := verbs.Open("soft:" + addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		c.Devices = append(c.Devices, Device{Verbs: dev, NodeGUID: uint64(guidA + i)})
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	p := h.program(t)
	guid := func(id uint32) uint64 { return binary.BigEndian.Uint64(p.route(id)) }
	_, port := p.listen(1, roce.PortSpaceTCP, "0.0.0.0:0", 5)
	for i, src := range []string{"127.0.28.1:0", "127.0.28.2:0"} {
		id := p.create(2, roce.PortSpaceTCP)
		p.bind(id, src)
		if g := guid(id); g != uint64(guidA+i) {
			t.Errorf("bound to %s: GUID %#x", src, g)
		}
		to := []string{"127.0.28.2", "127.0.28.1"}[i]
		p.do(cmdResolveIP, 0, in6(""), in6(netip.AddrPortFrom(netip.MustParseAddr(to), port).String()), id, uint32(9))
		p.expect(2, id, evAddrResolved, 0)
		p.do(cmdResolveRoute, 0, id, uint32(9))
		p.expect(2, id, evRouteResolved, 0)
		p.connect(id, 5, "")
		child := u32At(p.expect(1, 0, evConnectRequest, 0), 8)
		if g := guid(child); g != uint64(guidA+1-i) {
			t.Errorf("a request to %s: GUID %#x", to, g)
		}
		p.accept(3, child, 6, "")
		p.expect(2, id, evConnectResponse, 0)
		p.ready(id)
		p.expect(3, child, evEstablished, 0)
	}
}

// Options reach the queue pair.
func TestOptions(t *testing.T) {
	a, b := newHost(t, "127.0.29.1", guidA, cm.Config{}).program(t), newHost(t, "127.0.29.2", guidB, cm.Config{}).program(t)
	_, port := b.listen(1, roce.PortSpaceTCP, "127.0.29.2:0", 5)
	id := a.create(2, roce.PortSpaceTCP)
	(*a.mem)[0x1000], (*a.mem)[0x2000] = []byte{0x68}, []byte{12}
	a.do(cmdSetOption, 0, uint64(0x1000), id, uint32(0), uint32(optionTOS), uint32(1))
	a.do(cmdSetOption, 0, uint64(0x2000), id, uint32(0), uint32(optionAckTimeout), uint32(1))
	a.do(cmdResolveIP, 0, in6(""), in6(netip.AddrPortFrom(netip.MustParseAddr("127.0.29.2"), port).String()), id, uint32(9))
	a.expect(2, id, evAddrResolved, 0)
	a.do(cmdResolveRoute, 0, id, uint32(9))
	a.expect(2, id, evRouteResolved, 0)
	if r := a.route(id); r[8+55] != 0x68 {
		t.Errorf("traffic class %#x in the route", r[8+55])
	}
	a.connect(id, 5, "")
	child := u32At(b.expect(1, 0, evConnectRequest, 0), 8)
	if q := b.qpAttr(child, ib.RTR); q[40+22] != 0x68 {
		t.Errorf("traffic class %#x at the other side", q[40+22])
	}
	b.accept(3, child, 6, "")
	a.expect(2, id, evConnectResponse, 0)
	if rtr, rts := a.qpAttr(id, ib.RTR), a.qpAttr(id, ib.RTS); rtr[40+22] != 0x68 || rts[134] != 12 {
		t.Errorf("traffic class %#x, timeout %d", rtr[40+22], rts[134])
	}
}

// Ports belong to a port space, and to those who share them.
func TestPorts(t *testing.T) {
	h := newHost(t, "127.0.26.1", guidA, cm.Config{})
	p := h.program(t)
	reuse := func(id uint32) {
		(*p.mem)[0x1000] = []byte{1, 0, 0, 0}
		p.do(cmdSetOption, 0, uint64(0x1000), id, uint32(0), uint32(optionReuseAddr), uint32(4))
	}
	bind := func(id uint32, a string) syscall.Errno {
		_, errno := p.try(cmdBindIP, 0, body(uint64(responseAt), in6(a), id))
		return errno
	}
	first, second, third := p.create(1, roce.PortSpaceTCP), p.create(2, roce.PortSpaceTCP), p.create(3, roce.PortSpaceUDP)
	for _, c := range []struct {
		id   uint32
		addr string
		want syscall.Errno
	}{
		{first, "127.0.26.2:5000", syscall.ENODEV}, {first, "192.0.2.1:5000", syscall.EADDRNOTAVAIL}, {first, "127.0.26.1:5000", 0}, {first, "127.0.26.1:5001", syscall.EINVAL},
		{second, "127.0.26.1:5000", syscall.EADDRINUSE}, {second, "0.0.0.0:5000", syscall.EADDRINUSE}, {third, "0.0.0.0:5000", 0},
	} {
		if got := bind(c.id, c.addr); got != c.want {
			t.Errorf("bind %d to %s: %v, want %v", c.id, c.addr, got, c.want)
		}
	}
	reuse(first)
	reuse(second)
	if errno := bind(second, "127.0.26.1:5000"); errno != 0 {
		t.Errorf("a port that both share: %v", errno)
	}
	p.do(cmdListen, 0, first, uint32(1))
	if _, errno := p.try(cmdListen, 0, body(second, uint32(1))); errno != syscall.EADDRINUSE {
		t.Errorf("a second listener: %v", errno)
	}
	p.destroy(first)
	p.do(cmdListen, 0, second, uint32(1))
	any := p.create(4, roce.PortSpaceTCP)
	p.do(cmdListen, 0, any, uint32(1))
	if port := binary.BigEndian.Uint16(p.route(any)[138:]); port < 32768 {
		t.Errorf("a listener without a port has %d", port)
	}
}

func TestErrors(t *testing.T) {
	h := newHost(t, "127.0.27.1", guidA, cm.Config{})
	p := h.program(t)
	id := p.create(1, roce.PortSpaceTCP)
	other := newHost(t, "127.0.27.2", guidB, cm.Config{}).program(t)
	_, port := other.listen(1, roce.PortSpaceTCP, "127.0.27.2:0", 5)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.27.2"), port).String()
	routed := p.resolved(2, roce.PortSpaceTCP, to)
	ib48 := append(body(uint16(afIB)), make([]byte, 126)...)
	in := append(in6("127.0.27.1:0"), make([]byte, 100)...)
	(*p.mem)[0x1000] = []byte{9, 0, 0, 0}
	for name, c := range map[string]struct {
		op   uint32
		out  int
		body []byte
		want syscall.Errno
	}{
		"no such command":          {numCommands, 0, nil, syscall.EINVAL},
		"a command that is gone":   {cmdGetOption, 0, make([]byte, 24), syscall.ENOSYS},
		"too short":                {cmdListen, 0, make([]byte, 7), syscall.EINVAL},
		"no such identifier":       {cmdListen, 0, body(uint32(99), uint32(1)), syscall.ENOENT},
		"no such port space":       {cmdCreateID, 4, body(uint64(1), uint64(responseAt), uint64(7)), syscall.EINVAL},
		"no room for the response": {cmdCreateID, 3, body(uint64(1), uint64(responseAt), uint64(roce.PortSpaceTCP)), syscall.ENOSPC},
		"no room for an event":     {cmdGetEvent, 300, body(uint64(responseAt)), syscall.ENOSPC},
		"an InfiniBand address":    {cmdBind, 0, body(id, uint16(ibBytes), uint16(0), ib48), syscall.EAFNOSUPPORT},
		"an address of other size": {cmdBind, 0, body(id, uint16(in6Bytes), uint16(0), in), syscall.EINVAL},
		"no route yet":             {cmdConnect, 0, body(param(5, ""), id, uint32(0), uint64(0)), syscall.EINVAL},
		"no address yet":           {cmdResolveRoute, 0, body(id, uint32(1)), syscall.EINVAL},
		"no destination":           {cmdResolveIP, 0, body(in6(""), in6(""), id, uint32(1)), syscall.EINVAL},
		"no connection to accept":  {cmdAccept, 0, body(uint64(1), param(5, ""), id, uint32(0), uint64(0)), syscall.EINVAL},
		"none to reject":           {cmdReject, 0, body(id, make([]byte, 260)), syscall.EINVAL},
		"none to end":              {cmdDisconnect, 0, body(id), syscall.EINVAL},
		"none to notify":           {cmdNotify, 0, body(id, uint32(4)), syscall.EINVAL},
		"attributes for nothing":   {cmdInitQPAttr, qpAttrBytes, body(uint64(responseAt), id, uint32(1)), syscall.EINVAL},
		"attributes for no state":  {cmdInitQPAttr, qpAttrBytes, body(uint64(responseAt), routed, uint32(ib.Err)+1), syscall.EINVAL},
		"for one of 9 bits":        {cmdInitQPAttr, qpAttrBytes, body(uint64(responseAt), routed, 256+uint32(ib.Init)), syscall.EINVAL},
		"an unknown query":         {cmdQuery, addrBytes, body(uint64(responseAt), id, uint32(3)), syscall.ENOSYS},
		"multicast":                {cmdJoinMcast, 4, make([]byte, 152), syscall.EOPNOTSUPP},
		"an unknown option":        {cmdSetOption, 0, body(uint64(0x1000), id, uint32(0), uint32(9), uint32(1)), syscall.ENOSYS},
		"an option of other size":  {cmdSetOption, 0, body(uint64(0x1000), id, uint32(0), uint32(optionTOS), uint32(4)), syscall.EINVAL},
		"an option that is away":   {cmdSetOption, 0, body(uint64(0x2000), id, uint32(0), uint32(optionTOS), uint32(1)), syscall.EFAULT},
		"an option of paths":       {cmdSetOption, 0, body(uint64(0x1000), id, uint32(1), uint32(1), uint32(4)), syscall.ENOSYS},
	} {
		if _, got := p.try(c.op, c.out, c.body); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if r := p.f.Ioctl(1, 2); r.Errno != syscall.ENOTTY {
		t.Errorf("ioctl: %v", r.Errno)
	}
	if r := p.f.Mmap(0, 4096, true); r.Errno != syscall.ENODEV {
		t.Errorf("mmap: %v", r.Errno)
	}
	// An address that nothing leads to: the kernel has no route from a loopback address.
	if _, got := p.try(cmdResolveIP, 0, body(in6(""), in6("192.0.2.1:5"), id, uint32(1))); got != syscall.ENETUNREACH {
		t.Errorf("resolve an address beyond reach: %v", got)
	}
}
