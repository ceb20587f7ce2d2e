package endpoint

import (
	"container/heap"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// This file is a wire in memory, in simulated time: devices joined by a network
// that drops, duplicates, reorders, corrupts and marks.

type world struct {
	batches bool // packets that arrive at about the same time are received together
	pumped  int  // packets asked for
	t       testing.TB
	now     units.Time
	seq     int
	events  eventHeap
	rng     *rand.Rand
	hosts   []*host
	free    []*flight

	// What the wire does, as probabilities.
	drop, duplicate, reorder, corrupt, mark float64
	latency                                 units.Time
	window                                  int // of queue pairs that are connected from now on

	// tap sees every packet before the wire does, and may change it; it returns
	// whether it goes on.
	tap func(from *host, to *Route, packet []byte) bool

	// collect is what packets of hosts that are added from now on collect, and
	// switches says what one of them brings of what it carries.
	collect  Collect
	switches func(from *host, c *Carried, records []byte) Brought

	badICRC, dropped int
}

// flight is a packet on the wire.
type flight struct {
	to   *host
	p    Packet
	data [MaxPacket]byte
	n    int
	ints [telemetry.MaxINTBytes + 8]byte
	ref  int
}

type event struct {
	at  units.Time
	seq int
	f   *flight // arrives; or
	h   *host   // its timer is due
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// host is a device with a protection domain and a completion queue.
type host struct {
	w      *world
	e      *Endpoint
	addr   netip.AddrPort
	pd     *PD
	cq     *CQ
	events []Event
	timer  units.Time
	fired  int  // completion events
	absent bool // it takes what comes and sends nothing
}

func newWorld(t testing.TB, seed uint64, hosts int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 3)), latency: 5 * units.Microsecond, window: 64}
	for i := range hosts {
		w.add(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))
	}
	return w
}

// source is a stream of random bytes from a seed.
type source struct{ *rand.ChaCha8 }

func (s source) Read(b []byte) (int, error) { return s.ChaCha8.Read(b) }

func seeded(a, b uint64) io.Reader {
	var seed [32]byte
	for i := range 8 {
		seed[i], seed[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	return source{rand.NewChaCha8(seed)}
}

func (w *world) add(addr netip.Addr) *host {
	h := &host{w: w, addr: netip.AddrPortFrom(addr, 4791), timer: units.Never}
	var err error
	h.e, err = New(Config{
		Name: "test:" + addr.String(), GIDs: []netip.Addr{addr}, MTU: 4096, Window: func(ib.MTU) int { return w.window }, MaxQPs: MaxQP,
		Rand: seeded(w.rng.Uint64(), 1), Collect: w.collect,
		Resolve: func(av verbs.AddressVector) (Route, error) {
			return Route{Dst: netip.AddrPortFrom(av.GID, 4791), TrafficClass: av.TrafficClass, HopLimit: 64}, nil
		},
		OnEvent: func(v Event) { h.events = append(h.events, v) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	h.pd = newPD(h.e)
	if h.cq, err = h.e.CreateCQ(1<<12, func() { h.fired++ }); err != nil {
		w.t.Fatal(err)
	}
	w.hosts = append(w.hosts, h)
	return h
}

func (w *world) at(t units.Time, v event) {
	w.seq++
	v.at, v.seq = t, w.seq
	heap.Push(&w.events, v)
}

// next takes a packet by Next and by NextOutgoing in turns.
func (h *host) next(buf []byte) (int, *Route) {
	h.w.pumped++
	if h.w.pumped%2 == 0 {
		return h.e.Next(h.w.now, buf)
	}
	o := h.e.NextOutgoing(h.w.now, buf)
	if o == nil {
		return 0, nil
	}
	at := o.Header
	for _, p := range o.Pieces {
		at += copy(buf[at:], p)
	}
	return o.Len, o.To
}

// pump puts on the wire what h has to send, and sets its timer.
func (h *host) pump() {
	w := h.w
	h.e.Begin()
	for !h.absent {
		f := w.flight()
		n, to := h.next(f.data[:])
		if n == 0 {
			w.release(f)
			break
		}
		f.n = n
		putICRC(h.addr, to.Dst, f.data[:n])
		f.p.Brought = Brought{}
		if c := &h.e.carried; w.switches != nil {
			f.p.Brought = w.switches(h, c, f.ints[:])
		}
		if w.tap == nil || w.tap(h, to, f.data[:n]) {
			w.carry(h.addr, to, f)
		}
		w.release(f)
	}
	if at := h.e.Deadline(); at < h.timer {
		h.timer = at
		w.at(at, event{h: h})
	}
}

func (w *world) flight() *flight {
	if n := len(w.free); n > 0 {
		f := w.free[n-1]
		w.free = w.free[:n-1]
		f.ref = 1
		return f
	}
	return &flight{ref: 1}
}

func (w *world) release(f *flight) {
	if f.ref--; f.ref == 0 {
		w.free = append(w.free, f)
	}
}

func putICRC(src, dst netip.AddrPort, b []byte) {
	p, _ := roce.NewPath(src, dst)
	p.PutICRC(b, 0)
}

func goodICRC(src, dst netip.AddrPort, b []byte) bool {
	p, err := roce.NewPath(src, dst)
	return err == nil && p.CheckICRC(b, 0)
}

func (w *world) host(a netip.Addr) *host {
	for _, h := range w.hosts {
		if h.addr.Addr() == a {
			return h
		}
	}
	return nil
}

// carry is the network: f arrives, or not, or twice, or late, or changed.
func (w *world) carry(src netip.AddrPort, to *Route, f *flight) {
	f.to = w.host(to.Dst.Addr())
	if f.to == nil || w.rng.Float64() < w.drop {
		w.dropped++
		return
	}
	f.p = Packet{Src: src, TrafficClass: to.TrafficClass, HopLimit: to.HopLimit, Brought: f.p.Brought}
	if to.TrafficClass&3 != 0 && w.rng.Float64() < w.mark {
		f.p.TrafficClass |= roce.ECNCE
	}
	if w.rng.Float64() < w.corrupt {
		f.data[w.rng.IntN(f.n)] ^= 1 << w.rng.IntN(8)
	}
	copies := 1
	if w.rng.Float64() < w.duplicate {
		copies = 2
	}
	for range copies {
		delay := w.latency
		if w.rng.Float64() < w.reorder {
			delay += units.Time(w.rng.Int64N(int64(20 * w.latency)))
		}
		f.ref++
		w.at(w.now+delay, event{f: f})
	}
}

// inject puts a packet of somebody else's making on the wire.
func (w *world) inject(src netip.AddrPort, to *host, packet []byte) {
	f := w.flight()
	f.p.Brought = Brought{}
	f.n = copy(f.data[:], packet)
	putICRC(src, to.addr, f.data[:f.n])
	w.carry(src, &Route{Dst: to.addr}, f)
	w.release(f)
}

// step runs the next event, and reports whether there was one until then.
func (w *world) step(until units.Time) bool {
	if len(w.events) == 0 || w.events[0].at > until {
		w.now = max(w.now, until)
		return false
	}
	v := heap.Pop(&w.events).(event)
	w.now = v.at
	if v.h != nil {
		if v.h.timer == v.at {
			v.h.timer = units.Never
			v.h.e.Expire(w.now)
			v.h.pump()
		}
		return true
	}
	all := []*flight{v.f}
	for w.batches && len(w.events) > 0 && w.events[0].f != nil && w.events[0].f.to == v.f.to && w.events[0].at < w.now+w.latency {
		all = append(all, heap.Pop(&w.events).(event).f)
	}
	var good []Packet
	for _, f := range all {
		if goodICRC(f.p.Src, f.to.addr, f.data[:f.n]) {
			f.p.Data, f.p.Stamp = f.data[:f.n], f.to.e.stampOf(w.now)
			good = append(good, f.p)
		} else {
			w.badICRC++
		}
	}
	if w.batches {
		v.f.to.e.ReceiveAll(w.now, good)
	} else if len(good) > 0 {
		v.f.to.e.Receive(w.now, &v.f.p)
	}
	if len(good) > 0 {
		v.f.to.pump()
	}
	for _, f := range all {
		w.release(f)
	}
	return true
}

// run runs for a span of time.
func (w *world) run(d units.Time) {
	for until := w.now + d; w.step(until); {
	}
}

// settle runs until nothing happens any more.
func (w *world) settle() {
	for len(w.events) > 0 {
		if w.now > 100*units.Second {
			w.t.Fatal("the world does not come to rest")
		}
		w.step(units.Never)
	}
}

// pair is a connection with what both ends need for it.
type pair struct {
	w    *world
	a, b *host
	x, y *QP
}

func (w *world) newQP(h *host, typ ib.QPType, srq *RecvQueue) *QP {
	w.t.Helper()
	q, err := h.pd.CreateQP(QPInit{
		Type: typ, SendCQ: h.cq, RecvCQ: h.cq, SRQ: srq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 128},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

type modifier struct {
	q   *QP
	now units.Time
	verbs.QP
}

func (m modifier) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	return m.q.Modify(m.now, a, mask)
}

func (w *world) connect(x, y *QP, a, b *host, p verbs.RCParams, tc uint8) {
	w.t.Helper()
	one := verbs.Endpoint{GID: a.addr.Addr(), QPN: x.Num(), PSN: uint32(w.rng.Uint32() & maxPSN)}
	two := verbs.Endpoint{GID: b.addr.Addr(), QPN: y.Num(), PSN: uint32(w.rng.Uint32() & maxPSN)}
	if err := verbs.ConnectRC(modifier{q: x, now: w.now}, one, two, p); err != nil {
		w.t.Fatal(err)
	}
	if err := verbs.ConnectRC(modifier{q: y, now: w.now}, two, one, p); err != nil {
		w.t.Fatal(err)
	}
	x.route.TrafficClass, y.route.TrafficClass = tc, tc
}

func newPair(t testing.TB, seed uint64, p verbs.RCParams) *pair {
	t.Helper()
	w := newWorld(t, seed, 2)
	l := &pair{w: w, a: w.hosts[0], b: w.hosts[1]}
	l.x, l.y = w.newQP(l.a, ib.RC, nil), w.newQP(l.b, ib.RC, nil)
	w.connect(l.x, l.y, l.a, l.b, p, 0)
	return l
}

const allAccess = ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic

func (h *host) reg(n int, access ib.AccessFlags) (*MR, []byte) {
	h.w.t.Helper()
	buf := make([]byte, n)
	m, err := h.pd.RegMR(buf, access)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return m, buf
}

func sge(m *MR, off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: m.Addr() + uint64(off), Length: uint32(n), LKey: m.Key()}}
}

// post posts one request and lets it out.
func (h *host) post(q *QP, wr verbs.SendWR) {
	h.w.t.Helper()
	if _, err := q.PostSend(h.w.now, []verbs.SendWR{wr}); err != nil {
		h.w.t.Fatal(err)
	}
	h.pump()
}

func (h *host) recv(q *QP, wr verbs.RecvWR) {
	h.w.t.Helper()
	if _, err := q.PostRecv(h.w.now, []verbs.RecvWR{wr}); err != nil {
		h.w.t.Fatal(err)
	}
}

// poll takes all completions.
func (h *host) poll() []verbs.WC {
	h.w.t.Helper()
	wc := make([]verbs.WC, 256)
	var all []verbs.WC
	for {
		n, err := h.cq.Poll(wc)
		if err != nil {
			h.w.t.Fatal(err)
		}
		if n == 0 {
			return all
		}
		all = append(all, wc[:n]...)
	}
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// rcExpected is the PSN that the queue pair expects next.
func (q *QP) rcExpected() units.PSN { return units.MakePSN(q.attr.RQPSN) }
