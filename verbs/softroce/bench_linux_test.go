package softroce

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// BenchmarkGoodput is the payload that RDMA Writes and Reads bring from one
// device to another on the loopback interface, beside the limit: datagrams without
// meaning through sockets with the same options, in messages of the same sizes
// by the same calls, with as many bytes under way. The two alternate, a few
// milliseconds each, and the medians are reported, so that what else the machine
// does weighs on both.
func BenchmarkGoodput(b *testing.B) {
	for _, c := range []struct {
		name string
		op   ib.WROpcode
		mtu  ib.MTU
		opt  string
	}{
		{"Write, MTU 4096", ib.WRRDMAWrite, 4096, ""},
		{"Write, MTU 4096, window 256", ib.WRRDMAWrite, 4096, "window=256"},
		{"Write, MTU 1024", ib.WRRDMAWrite, 1024, ""},
		{"Write, MTU 4096, no GSO", ib.WRRDMAWrite, 4096, "gso=off"},
		{"Write, MTU 1024, no GSO", ib.WRRDMAWrite, 1024, "gso=off"},
		{"Read, MTU 4096", ib.WRRDMARead, 4096, ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			x, y := openPair(b, here+"?"+c.opt, there+"?"+c.opt, c.mtu)
			s := newStream(x, y, c.op)
			o, err := parseOptions(c.opt)
			if err != nil {
				b.Fatal(err)
			}
			p := newPlain(b, int(c.mtu), o.gso, windowOf(o.window, c.mtu))
			defer p.close()
			var roce, plain []float64
			const messages = 32
			b.SetBytes(messages * streamMessage)
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				s.run(messages)
				roce = append(roce, gbps(messages*streamMessage, time.Since(start)))
				b.StopTimer()
				plain = append(plain, p.run(messages*streamMessage))
				b.StartTimer()
			}
			slices.Sort(roce)
			slices.Sort(plain)
			mid := len(roce) / 2
			b.ReportMetric(roce[mid], "Gbps")
			b.ReportMetric(plain[mid], "UDP-Gbps")
			b.ReportMetric(roce[mid]/plain[mid]*100, "%")
		})
	}
}

func gbps(bytes int, d time.Duration) float64 { return float64(bytes) * 8 / float64(d.Nanoseconds()) }

const streamMessage = 1 << 20

// stream is requests of 1 MiB, several under way.
type stream struct {
	x  *end
	wr []verbs.SendWR
	wc []verbs.WC
}

func newStream(x, y *end, op ib.WROpcode) *stream {
	ms, md := x.reg(make([]byte, streamMessage)), y.reg(make([]byte, streamMessage))
	return &stream{x: x, wc: make([]verbs.WC, 8), wr: []verbs.SendWR{{
		Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, streamMessage)}, RemoteAddr: md.Addr(), RKey: md.RKey(),
	}}}
}

func (s *stream) run(messages int) {
	const depth = 8
	for posted, done := 0, 0; done < messages; {
		for posted < messages && posted-done < depth {
			if _, err := s.x.qp.PostSend(s.wr); err != nil {
				s.x.t.Fatal(err)
			}
			posted++
		}
		n, err := s.x.cq.Poll(s.wc)
		if err != nil || n > 0 && s.wc[0].Status != ib.WCSuccess {
			s.x.t.Fatal(err, s.wc[0].Status)
		}
		done += n
	}
}

// plain sends datagrams.
type plain struct {
	w         *udpWire
	from, to  *udpSocket
	batch     batch
	size, mtu int
	window    int64
	received  atomic.Int64
	stop      atomic.Bool
	stopped   chan struct{}
}

func newPlain(b *testing.B, mtu int, gso bool, window int) *plain {
	p := &plain{size: mtu + 16, mtu: mtu, window: int64(window * (mtu + 16)), stopped: make(chan struct{})}
	socket := func(a string) *udpSocket {
		s := &udpSocket{local: netip.MustParseAddrPort(a)}
		fd, err := newUDPSocket(s.local, 1)
		if err == nil {
			err = setUDPOptions(fd, false)
		}
		if err != nil {
			b.Fatal(err)
		}
		s.inbox.init(fd)
		return s
	}
	p.from, p.to = socket("127.47.91.3:4791"), socket("127.47.91.4:4791")
	p.w = &udpWire{sockets: []*udpSocket{p.from}, gso: gso, counters: &wireCounters{}}
	// What an acknowledgement lets go: a quarter of the window.
	p.batch.init()
	p.batch.segments = p.w.segments()
	route := &endpoint.Route{Dst: p.to.local, HopLimit: defaultTTL}
	for range min(window/4, len(p.batch.buf)/p.size, batchMessages) {
		p.batch.add(p.size, route)
	}
	for i := range p.batch.messages {
		m := &p.batch.messages[i]
		p.w.prepare(i, m, p.batch.buf[m.at:m.at+m.n])
	}
	go p.receive()
	return p
}

func (p *plain) receive() {
	defer close(p.stopped)
	fds := []unix.PollFd{{Fd: int32(p.to.fd), Events: unix.POLLIN}}
	for !p.stop.Load() {
		n := p.to.inbox.receive()
		if n == 0 {
			_, _ = unix.Poll(fds, 10)
			continue
		}
		sum := 0
		for i := range n {
			sum += int(p.to.headers[i].len)
		}
		p.received.Add(int64(sum))
	}
}

// run sends so many bytes of payload and returns the rate of what came, in Gbps.
func (p *plain) run(bytes int) float64 {
	total := int64(bytes / p.mtu * p.size)
	start, from := time.Now(), p.received.Load()
	for sent := int64(0); sent < total; sent += int64(p.batch.used) {
		for spin := 0; sent+int64(p.batch.used)-(p.received.Load()-from) > p.window; spin++ {
			if spin > 100_000_000 {
				return 0 // datagrams were lost
			}
		}
		transmit(p.from.fd, p.w.headers[:len(p.batch.messages)], &p.w.waiter, p.w.counters, func(int, unix.Errno) {})
	}
	for p.received.Load()-from < total {
		if time.Since(start) > time.Second {
			return 0
		}
	}
	return gbps(bytes, time.Since(start))
}

func (p *plain) close() {
	p.stop.Store(true)
	<-p.stopped
	_ = unix.Close(p.from.fd)
	_ = unix.Close(p.to.fd)
}

// BenchmarkMessages is how many inline Writes of 8 bytes complete in a second,
// beside datagrams of the same size by the same calls.
func BenchmarkMessages(b *testing.B) {
	x, y := openPair(b, here, there, 1024)
	md := y.reg(make([]byte, 64))
	wr := make([]verbs.SendWR, 16)
	for i := range wr {
		wr[i] = verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: make([]byte, 8), RemoteAddr: md.Addr(), RKey: md.RKey()}
	}
	wr[15].Flags |= verbs.SendSignaled
	wc := make([]verbs.WC, 8)
	// A Write of 8 bytes has 28 of headers and 4 of ICRC.
	p := newPlain(b, 8+16, true, windowOf(0, 1024))
	defer p.close()
	const messages = 16 * 256
	var roce, plain []float64
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		for posted, done := 0, 0; done < messages; {
			for posted < messages && posted-done < 7*16 {
				if _, err := x.qp.PostSend(wr); err != nil {
					b.Fatal(err)
				}
				posted += 16
			}
			n, err := x.cq.Poll(wc)
			if err != nil {
				b.Fatal(err)
			}
			done += 16 * n
		}
		roce = append(roce, messages/time.Since(start).Seconds()/1e6)
		b.StopTimer()
		plain = append(plain, p.run(messages*p.mtu)/8*1e3/float64(p.mtu))
		b.StartTimer()
	}
	slices.Sort(roce)
	slices.Sort(plain)
	mid := len(roce) / 2
	b.ReportMetric(roce[mid], "Mmessages/s")
	b.ReportMetric(plain[mid], "UDP-Mmessages/s")
	b.ReportMetric(roce[mid]/plain[mid]*100, "%")
}

// BenchmarkLatency is half a round trip of Writes of 8 bytes that both ends poll
// memory for.
func BenchmarkLatency(b *testing.B) {
	x, y := openPair(b, here, there, 1024)
	var word [2]uint64 // 0 is written by y, 1 by x
	bytesOf := func(v *uint64) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), 8) }
	mx, my := x.reg(bytesOf(&word[0])), y.reg(bytesOf(&word[1]))
	turn := func(h *end, to verbs.MR, v uint64) error {
		_, err := h.qp.PostSend([]verbs.SendWR{{
			Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline | verbs.SendSignaled, Inline: bytesOf(&v), RemoteAddr: to.Addr(), RKey: to.RKey(),
		}})
		return err
	}
	var stop atomic.Bool
	wait := func(h *end, at *uint64, v uint64) bool {
		wc := make([]verbs.WC, 4)
		for atomic.LoadUint64(at) != v {
			if _, err := h.cq.Poll(wc); err != nil || stop.Load() {
				return false
			}
		}
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for v := uint64(1); wait(y, &word[1], v) && turn(y, mx, v) == nil; v++ {
		}
	}()
	var took []float64
	v := uint64(0)
	for b.Loop() {
		start := time.Now()
		v++
		if turn(x, my, v) != nil || !wait(x, &word[0], v) {
			b.Fatal("it stopped")
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/2e3)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "us-one-way")
	stop.Store(true)
	<-done
}
