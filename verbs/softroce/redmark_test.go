//go:build linux

package softroce

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// The attacks of ReDMArk (Rothenberger, Taranov, Perrig and Hoefler, USENIX
// Security 2021) against a device, by the paper's numbers: V1 to V10 are
// vulnerabilities, A1 to A6 attacks that use them. docs/softroce.md has the table
// of what protects and what does not; where nothing does, the test here shows that.

// victim is a connection between two devices, with memory at the server that the
// client may write, and an attacker who can put any packet before the server.
type victim struct {
	t              *testing.T
	client, server *end
	memory         []byte
	mr             verbs.MR
}

func newVictim(t *testing.T) *victim {
	v := &victim{t: t, memory: make([]byte, 4096)}
	v.client, v.server = openPair(t, here, there, 1024)
	v.mr = v.server.reg(v.memory)
	return v
}

func (v *victim) device() *device { return v.server.dev.(*device) }

// inject gives the server a packet that claims to come from an address, as if the
// attacker had made its ICRC right: it is no secret.
func (v *victim) inject(from netip.Addr, p roce.Packet, payload []byte) {
	v.t.Helper()
	p.PKey = roce.DefaultPKey
	p.Pad = roce.Pad(len(payload))
	b := make([]byte, endpoint.MaxPacket+64)
	n := p.Put(b)
	n += copy(b[n:], payload)
	n += roce.PutPad(b[n:], p.Pad)
	v.device().deliver([]endpoint.Packet{{Data: b[:n+roce.ICRCBytes], Src: netip.AddrPortFrom(from, 54321), HopLimit: 64}})
}

// write is a packet that would write over the victim's memory, if it is let.
func (v *victim) write(psn units.PSN) roce.Packet {
	return roce.Packet{
		Header: rc.Header{Opcode: ib.WriteOnly, PSN: psn, VA: v.mr.Addr(), RKey: v.mr.RKey(), DMALen: 64, AckReq: true},
		DestQP: v.server.qp.Num(),
	}
}

var loot = bytes.Repeat([]byte{0x66}, 64)

// unharmed checks that memory is as it was and the connection works.
func (v *victim) unharmed(what string) {
	v.t.Helper()
	d := v.server.look()
	if bytes.IndexByte(v.memory, 0x66) >= 0 {
		v.t.Fatalf("%s: the memory was written", what)
	}
	if _, err := v.client.do(verbs.SendWR{Opcode: ib.WRRDMAWrite}); err != nil {
		v.t.Fatalf("%s: the connection is gone: %v", what, err)
	}
	a, err := v.server.qp.Query()
	if err != nil || a.State != ib.RTS {
		v.t.Fatalf("%s: the queue pair is in %v, %v", what, a.State, err)
	}
	_ = d
}

func (v *victim) counters() endpoint.Counters {
	d := v.device()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.Counters
}

// expected is the PSN that the server waits for: what a blind attacker has to
// guess, and one on the path can read.
func (v *victim) expected(sent uint32) units.PSN { return units.MakePSN(v.client.me.PSN + sent) }

// V1, V2, V3: keys that can be predicted from earlier ones or from another
// device's. V4: regions that follow one another. V5: queue pair numbers that
// count up.
func TestNumbersCannotBePredicted(t *testing.T) {
	const n = 2000
	draw := func(h *end) (keys, addrs, qpns []uint64) {
		buf := make([]byte, 8)
		for range n {
			m, err := h.pd.RegMR(buf, ib.AccessRemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			q := h.newQP()
			keys, addrs, qpns = append(keys, uint64(m.RKey())), append(addrs, m.Addr()>>12), append(qpns, uint64(q.Num()))
			if err := errors.Join(m.Close(), q.Close()); err != nil {
				t.Fatal(err)
			}
		}
		return keys, addrs, qpns
	}
	a, b := openEnd(t, here), openEnd(t, there)
	k1, a1, q1 := draw(a)
	k2, a2, q2 := draw(b)
	for _, c := range []struct {
		name  string
		bits  int
		one   []uint64
		other []uint64
	}{{"R_Key", 32, k1, k2}, {"address", 48, a1, a2}, {"queue pair number", 24, q1, q2}} {
		// Each bit is set in half of them, changes in half of the steps, and
		// agrees with the other device's in half. Ten standard deviations of
		// chance are 224.
		for bit := range c.bits {
			set, changed, agree := 0, 0, 0
			for i, v := range c.one {
				set += int(v >> bit & 1)
				agree += int((v ^ c.other[i]) >> bit & 1)
				if i > 0 {
					changed += int((v ^ c.one[i-1]) >> bit & 1)
				}
			}
			for _, got := range []int{set, changed, agree} {
				if got < n/2-224 || got > n/2+224 {
					t.Errorf("%s: bit %d is set in %d, changes in %d, differs from the other device's in %d of %d", c.name, bit, set, changed, agree, n)
					break
				}
			}
		}
		// Nor do they count up by a constant.
		steps := map[uint64]int{}
		for i := 1; i < n; i++ {
			if steps[c.one[i]-c.one[i-1]]++; steps[c.one[i]-c.one[i-1]] > 5 {
				t.Errorf("%s: one step comes again and again", c.name)
				break
			}
		}
	}
}

// A1: an attacker who is not the peer, by address, gets nowhere, whatever he knows.
func TestInjectionFromElsewhere(t *testing.T) {
	v := newVictim(t)
	before := v.counters().WrongSource
	n := uint64(0)
	for op := ib.Opcode(0); op < 32; op++ {
		p := v.write(v.expected(0))
		p.Opcode = op
		if roce.HeaderBytes(op) == 0 {
			continue
		}
		data := loot
		if !roce.HasPayload(op) {
			data = nil
		}
		v.inject(netip.MustParseAddr("127.47.91.66"), p, data)
		n++
	}
	if got := v.counters().WrongSource - before; got != n {
		t.Errorf("%d of %d packets were counted as from a wrong source", got, n)
	}
	v.unharmed("injection from elsewhere")
}

// retransmitted counts the packets that h's connection has sent again.
func (h *end) retransmitted() uint64 {
	d := h.dev.(*device)
	d.mu.Lock()
	defer d.mu.Unlock()
	return h.qp.(*queuePair).core.Transport().RetransmittedPackets
}

// A1: an attacker who sends in the peer's name (it takes a network that lets him)
// has to guess 24 bits of queue pair number and 24 bits of PSN.
func TestInjectionInThePeersName(t *testing.T) {
	v := newVictim(t)
	peer := v.client.me.GID
	// A wrong queue pair number.
	for i := range uint32(1000) {
		p := v.write(v.expected(0))
		if p.DestQP = (v.server.qp.Num() + 1 + i) & 0xffffff; p.DestQP < 2 {
			continue
		}
		v.inject(peer, p, loot)
	}
	if got := v.counters().NoQP; got < 990 {
		t.Errorf("%d packets met no queue pair", got)
	}
	v.unharmed("guesses of the queue pair number")
	// A wrong PSN: behind, it is an old packet that is not carried out; before,
	// it is out of sequence.
	for _, d := range []int32{-1 << 22, -1000, -1, 1, 2, 1000, 1 << 22} {
		v.inject(peer, v.write(v.expected(1).Add(d)), loot)
	}
	c := v.server.qp.(*queuePair).core.Transport()
	// On a busy machine the peer itself may send again what was only late.
	again := v.client.retransmitted()
	if c.DuplicateRequest < 3 || c.DuplicateRequest > 3+again || c.OutOfSequence != 4 {
		t.Errorf("%d duplicates, %d sent again, %d out of sequence", c.DuplicateRequest, again, c.OutOfSequence)
	}
	v.unharmed("guesses of the PSN")
}

// A1, V8: who can read the connection's packets knows queue pair number, PSN, key
// and address, and nothing in RoCEv2 tells his packet from the peer's. This test
// shows that it is so.
func TestInjectionByWhoKnowsAllIsNotStopped(t *testing.T) {
	v := newVictim(t)
	v.inject(v.client.me.GID, v.write(v.expected(0)), loot)
	v.server.look()
	if !bytes.Equal(v.memory[:64], loot) {
		t.Error("the injected packet was stopped: tell docs/softroce.md by what")
	}
}

// A2: a packet that would bring the queue pair to the error state is one more
// guess of PSN and number away; behind or before the expected PSN it does nothing.
func TestErrorStateByInjection(t *testing.T) {
	v := newVictim(t)
	bad := map[string]func(p *roce.Packet){
		"reserved opcode":    func(p *roce.Packet) { p.Opcode = 21 },
		"middle of nothing":  func(p *roce.Packet) { p.Opcode = ib.WriteMiddle },
		"key of nobody":      func(p *roce.Packet) { p.RKey ^= 1 },
		"outside the region": func(p *roce.Packet) { p.VA += 4090 },
		"around the end":     func(p *roce.Packet) { p.VA = ^uint64(10) },
		"another length":     func(p *roce.Packet) { p.DMALen = 65 },
		"too long":           func(p *roce.Packet) { p.DMALen = 1<<31 + 1 },
		"misaligned atomic":  func(p *roce.Packet) { p.Opcode, p.VA = ib.FetchAdd, p.VA|1 },
	}
	for name, spoil := range bad {
		for _, d := range []int32{-1000, -1, 1, 1000} {
			p := v.write(v.expected(0).Add(d))
			spoil(&p)
			data := loot
			if !roce.HasPayload(p.Opcode) {
				data = nil
			}
			v.inject(v.client.me.GID, p, data)
		}
		if q, _ := v.server.qp.Query(); q.State != ib.RTS {
			t.Fatalf("%s: the queue pair is in %v", name, q.State)
		}
	}
	// Answers to what was not asked do nothing either.
	for _, s := range []uint8{rc.SyndromeAccess, rc.SyndromeInvalid, rc.SyndromeOperation, rc.SyndromeRNR | 1} {
		p := roce.Packet{Header: rc.Header{Opcode: ib.Acknowledge, Syndrome: s, PSN: v.expected(0)}, DestQP: v.server.qp.Num()}
		v.inject(v.client.me.GID, p, nil)
	}
	v.unharmed("packets that would be fatal")
	// With everything guessed the specification wants the queue pair to fail, and
	// so it does; memory is safe.
	p := v.write(v.expected(1))
	p.RKey ^= 1
	v.inject(v.client.me.GID, p, loot)
	if q, _ := v.server.qp.Query(); q.State != ib.Err {
		t.Errorf("after a fatal packet with the right PSN the queue pair is in %v: tell docs/softroce.md", q.State)
	}
	if bytes.IndexByte(v.memory, 0x66) >= 0 {
		t.Error("the memory was written")
	}
	if ev, err := v.server.dev.AsyncEvent(t.Context(), time.Second); err != nil || ev.Type != ib.EventQPAccessErr {
		t.Errorf("event %+v, %v", ev, err)
	}
}

// A3, V9: a client who has a connection of his own and another's key. Protection
// domains keep them apart; each wrong guess of a key costs a connection.
func TestAnothersKey(t *testing.T) {
	v := newVictim(t)
	// The server gives the second client a protection domain of its own.
	pd, err := v.server.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	eve := openEnd(t, "soft:127.47.91.66")
	second := &end{t: t, dev: v.server.dev, pd: pd, cq: v.server.cq}
	attack := func(domain *end) (ib.WCStatus, ib.QPState) {
		x, y := eve.newQP(), domain.newQP()
		one, two := verbs.Endpoint{GID: eve.me.GID, QPN: x.Num()}, verbs.Endpoint{GID: v.server.me.GID, QPN: y.Num()}
		if err := errors.Join(verbs.ConnectRC(x, one, two, params(1024)), verbs.ConnectRC(y, two, one, params(1024))); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(x.Close(), y.Close()); err != nil {
				t.Error(err)
			}
		}()
		if _, err := x.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: loot, RemoteAddr: v.mr.Addr(), RKey: v.mr.RKey()}}); err != nil {
			t.Fatal(err)
		}
		wc := make([]verbs.WC, 1)
		_, _ = verbs.Drain(eve.dev, eve.cq, wc, 10*time.Second)
		a, _ := y.Query()
		return wc[0].Status, a.State
	}
	if status, state := attack(second); status != ib.WCRemAccessErr || state != ib.Err {
		t.Errorf("with another's key: %v, and the connection is in %v", status, state)
	}
	v.unharmed("another's key")
	// In one protection domain nothing keeps them apart.
	if status, _ := attack(v.server); status != ib.WCSuccess {
		t.Errorf("in the same protection domain: %v: tell docs/softroce.md", status)
	}
	if err := pd.Close(); err != nil {
		t.Error(err)
	}
}

// A3: a key that is gone stays gone.
func TestStaleKey(t *testing.T) {
	v := newVictim(t)
	buf := make([]byte, 64)
	m, err := v.server.pd.RegMR(buf, all)
	if err != nil {
		t.Fatal(err)
	}
	addr, key := m.Addr(), m.RKey()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for range 100 { // later ones do not get it
		again, err := v.server.pd.RegMR(buf, all)
		if err != nil {
			t.Fatal(err)
		}
		if again.RKey() == key && again.Addr() == addr {
			t.Fatal("key and address are in use again")
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = v.client.do(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: loot, RemoteAddr: addr, RKey: key})
	if !errors.Is(err, ib.WCRemAccessErr) {
		t.Errorf("a write with a stale key: %v", err)
	}
	v.server.look()
	if bytes.IndexByte(buf, 0x66) >= 0 {
		t.Error("the buffer that was given back was written")
	}
}

// A4: a client who opens ever more queue pairs meets a limit, and existing
// ones go on.
func TestQueuePairsAreLimited(t *testing.T) {
	a, b := openPair(t, here+"?maxqp=4", there, 1024)
	var more []verbs.QP
	for range 3 {
		more = append(more, a.newQP())
	}
	if _, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 1}}); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a fifth queue pair: %v", err)
	}
	if a.dev.Attr().MaxQP != 4 {
		t.Errorf("the device says that it takes %d", a.dev.Attr().MaxQP)
	}
	if _, err := b.do(verbs.SendWR{Opcode: ib.WRRDMAWrite}); err != nil {
		t.Error(err)
	}
	for _, q := range more {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A5: a flood takes time, which no endpoint can help, but neither memory nor any
// state: not a byte is allocated for a packet that is refused.
func TestFloodLeavesNothing(t *testing.T) {
	v := newVictim(t)
	p := v.write(v.expected(0))
	p.PKey = roce.DefaultPKey
	var packets []endpoint.Packet
	for i := range 3 {
		q := p
		src := netip.AddrPortFrom(v.client.me.GID, 1)
		switch i {
		case 0:
			q.DestQP ^= 1
		case 1:
			src = netip.MustParseAddrPort("127.47.91.66:1")
		case 2:
			q.PSN = q.PSN.Add(-5)
		}
		b := make([]byte, 200)
		n := q.Put(b)
		packets = append(packets, endpoint.Packet{Data: b[:n+64+roce.ICRCBytes], Src: src})
	}
	d := v.device()
	if n := testing.AllocsPerRun(1000, func() {
		d.mu.Lock()
		for i := range packets {
			d.core.Receive(0, &packets[i])
		}
		d.mu.Unlock()
	}); n != 0 {
		t.Errorf("%v allocations for three packets that are refused", n)
	}
	v.unharmed("a flood")
}

// spoofedMAD is a management datagram that anybody may send to the server, with its ICRC.
func (v *victim) spoofedMAD(from netip.AddrPort) []byte {
	v.t.Helper()
	p := roce.GSI(1, roce.DefaultPKey)
	p.DestQP = roce.GSIQP
	b := make([]byte, 512)
	n := p.Put(b) + roce.MADBytes + roce.ICRCBytes
	path, err := roce.NewPath(from, netip.AddrPortFrom(v.server.me.GID, roce.Port))
	if err != nil {
		v.t.Fatal(err)
	}
	path.PutICRC(b[:n], 0)
	return b[:n]
}

// A5, to queue pair 1, where anybody's datagrams are taken: a datagram costs no memory,
// and above the budget the kernel drops them, so that a connection goes on.
func TestFloodOfMADs(t *testing.T) {
	v := newVictim(t)
	from := netip.MustParseAddrPort("127.47.91.7:4791")
	mad := v.spoofedMAD(from)
	d := v.device()
	handled := 0
	d.HandleMAD(func(netip.Addr, netip.AddrPort, uint32, []byte) { handled++ })
	packets := []endpoint.Packet{{Data: mad, Src: from}}
	if n := testing.AllocsPerRun(1000, func() { d.deliver(packets) }); n != 0 {
		t.Errorf("%v allocations a datagram", n)
	}
	if handled == 0 {
		t.Fatal("none was handled")
	}
	d.HandleMAD(func(netip.Addr, netip.AddrPort, uint32, []byte) {})

	fd, err := newUDPSocket(from, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet4{Addr: v.server.me.GID.As4(), Port: roce.Port}
	const least = 200_000
	var sent atomic.Int64
	stop := make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for range 64 {
				if unix.Sendto(fd, mad, 0, to) == nil {
					sent.Add(1)
				}
			}
		}
	})
	writes := 0
	for ; sent.Load() < least && !t.Failed(); writes++ {
		if _, err := v.client.do(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: make([]byte, 64), RemoteAddr: v.mr.Addr(), RKey: v.mr.RKey()}); err != nil {
			t.Errorf("after %d datagrams and %d writes: %v", sent.Load(), writes, err)
		}
	}
	close(stop)
	flood.Wait()
	if c := d.Counters(); c["rcvd_pkts"] > uint64(sent.Load())*3/4 {
		t.Errorf("of %d datagrams and %d writes %d came up from the kernel", sent.Load(), writes, c["rcvd_pkts"])
	}
	v.unharmed("a flood of management datagrams")
}

// A5: mutes double while the flood goes on, up to a bound, and begin anew after a pause.
func TestMutesGrow(t *testing.T) {
	last := time.Duration(0)
	var got []time.Duration
	for range 9 {
		last = nextMute(last, 300*units.Millisecond) // a busy machine's threads have waited so long
		got = append(got, last/time.Millisecond)
	}
	if want := []time.Duration{10, 20, 40, 80, 160, 320, 640, 1280, 1280}; !slices.Equal(got, want) {
		t.Errorf("mutes of %v ms, expected %v", got, want)
	}
	if got := nextMute(last, 2*units.Second); got != firstMute {
		t.Errorf("after a pause a mute of %v, expected %v", got, firstMute)
	}
}

// A5: where nobody handles management datagrams, the kernel drops all of them.
func TestNobodyHandlesMADs(t *testing.T) {
	v := newVictim(t)
	from := netip.MustParseAddrPort("127.47.91.8:4791")
	fd, err := newUDPSocket(from, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	mad, to := v.spoofedMAD(from), &unix.SockaddrInet4{Addr: v.server.me.GID.As4(), Port: roce.Port}
	d := v.device()
	received := func() uint64 {
		before := d.Counters()["rcvd_pkts"]
		for range 100 {
			if err := unix.Sendto(fd, mad, 0, to); err != nil {
				t.Fatal(err)
			}
		}
		// What comes behind them over the same socket has been received: so would they have been.
		if _, err := v.client.do(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: make([]byte, 64), RemoteAddr: v.mr.Addr(), RKey: v.mr.RKey()}); err != nil {
			t.Fatal(err)
		}
		return d.Counters()["rcvd_pkts"] - before
	}
	if n := received(); n > 10 {
		t.Errorf("%d packets came up for one write", n)
	}
	d.HandleMAD(func(netip.Addr, netip.AddrPort, uint32, []byte) {})
	if n := received(); n <= 10 {
		t.Errorf("with a handler %d packets came up", n)
	}
	d.HandleMAD(nil)
	if n := received(); n > 10 {
		t.Errorf("without it again %d packets came up for one write", n)
	}
}

// V10: only what was registered can be reached, whatever the key says.
func TestBeyondTheRegion(t *testing.T) {
	for _, off := range []int64{-1, -4096, 4096 - 63, 4096, 1 << 40} {
		t.Run(strconv.FormatInt(off, 10), func(t *testing.T) {
			h, peer := openPair(t, here, there, 1024)
			whole := make([]byte, 3*4096)
			m := peer.reg(whole[4096:8192])
			_, err := h.do(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: loot, RemoteAddr: m.Addr() + uint64(off), RKey: m.RKey()})
			if !errors.Is(err, ib.WCRemAccessErr) {
				t.Errorf("%v", err)
			}
			peer.look()
			if bytes.IndexByte(whole, 0x66) >= 0 {
				t.Fatal("memory was written")
			}
		})
	}
}
