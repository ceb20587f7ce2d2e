package softroce

import (
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

const benchMessage = 1 << 20

// BenchmarkWriteBandwidth is the goodput of RDMA Writes of 1 MiB between two
// devices on the loopback interface.
func BenchmarkWriteBandwidth(b *testing.B) {
	for _, c := range []struct {
		name string
		mtu  ib.MTU
		opt  string
	}{{"MTU 4096", 4096, ""}, {"MTU 1024", 1024, ""}, {"MTU 4096 without GSO", 4096, "?gso=off"}} {
		b.Run(c.name, func(b *testing.B) {
			bandwidth(b, ib.WRRDMAWrite, c.mtu, c.opt)
		})
	}
}

// BenchmarkReadBandwidth is the same for RDMA Reads.
func BenchmarkReadBandwidth(b *testing.B) { bandwidth(b, ib.WRRDMARead, 4096, "") }

func bandwidth(b *testing.B, op ib.WROpcode, mtu ib.MTU, opt string) {
	opt += os.Getenv("BOPT")
	x, y := openPair(b, here+opt, there+opt, mtu)
	ms, md := x.reg(make([]byte, benchMessage)), y.reg(make([]byte, benchMessage))
	wr := []verbs.SendWR{{
		Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, benchMessage)}, RemoteAddr: md.Addr(), RKey: md.RKey(),
	}}
	const depth = 8
	wc := make([]verbs.WC, depth)
	b.SetBytes(benchMessage)
	b.ReportAllocs()
	out, posted, done := 0, 0, 0
	for b.Loop() {
		// One message an iteration, with depth of them under way.
		for out < depth {
			if _, err := x.qp.PostSend(wr); err != nil {
				b.Fatal(err)
			}
			posted++
			out++
		}
		for n := 0; n == 0; {
			var err error
			if n, err = x.cq.Poll(wc[:1]); err != nil || n > 0 && wc[0].Status != ib.WCSuccess {
				b.Fatal(err, wc[0].Status)
			}
			out -= n
			done += n
		}
	}
	b.ReportMetric(float64(done)*benchMessage*8/b.Elapsed().Seconds()/1e9, "Gbps")
	for out > 0 {
		n, err := x.cq.Poll(wc)
		if err != nil {
			b.Fatal(err)
		}
		out -= n
	}
}

// BenchmarkMessages is how many inline Writes of 8 bytes complete in a second.
func BenchmarkMessages(b *testing.B) {
	x, y := openPair(b, here, there, 1024)
	md := y.reg(make([]byte, 64))
	wr := make([]verbs.SendWR, 16)
	for i := range wr {
		wr[i] = verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: make([]byte, 8), RemoteAddr: md.Addr(), RKey: md.RKey()}
	}
	wr[15].Flags |= verbs.SendSignaled
	wc := make([]verbs.WC, 8)
	out := 0
	b.ReportAllocs()
	for b.Loop() {
		for out < 7 {
			if _, err := x.qp.PostSend(wr); err != nil {
				b.Fatal(err)
			}
			out++
		}
		for n := 0; n == 0; {
			var err error
			if n, err = x.cq.Poll(wc); err != nil {
				b.Fatal(err)
			}
			out -= n
		}
	}
	b.ReportMetric(float64(b.N)*16/b.Elapsed().Seconds()/1e6, "Mmessages/s")
	for out > 0 {
		n, err := x.cq.Poll(wc)
		if err != nil {
			b.Fatal(err)
		}
		out -= n
	}
}

// BenchmarkLatency is half a round trip of Writes of 8 bytes that both ends poll
// memory for.
func BenchmarkLatency(b *testing.B) {
	x, y := openPair(b, here, there, 1024)
	var word [2]uint64 // 0 is written by y, 1 by x
	bytesOf := func(i int) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&word[i])), 8) }
	mx, my := x.reg(bytesOf(0)), y.reg(bytesOf(1))
	stop := make(chan struct{})
	turn := func(h *end, to verbs.MR, seen *uint64, v uint64) bool {
		wr := []verbs.SendWR{{
			Opcode: ib.WRAtomicCmpAndSwp, RemoteAddr: to.Addr(), RKey: to.RKey(),
		}}
		_ = wr
		one := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline | verbs.SendSignaled, Inline: unsafe.Slice((*byte)(unsafe.Pointer(&v)), 8), RemoteAddr: to.Addr(), RKey: to.RKey()}}
		if _, err := h.qp.PostSend(one); err != nil {
			b.Error(err)
			return false
		}
		return true
	}
	wait := func(h *end, at *uint64, v uint64) bool {
		wc := make([]verbs.WC, 4)
		for atomic.LoadUint64(at) != v {
			if _, err := h.cq.Poll(wc); err != nil {
				b.Error(err)
				return false
			}
			select {
			case <-stop:
				return false
			default:
			}
		}
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for v := uint64(1); wait(y, &word[1], v) && turn(y, mx, &word[1], v); v++ {
		}
	}()
	v := uint64(0)
	for b.Loop() {
		v++
		if !turn(x, my, &word[0], v) || !wait(x, &word[0], v) {
			b.Fatal("stopped")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2/1e3, "us-one-way")
	close(stop)
	<-done
}

// BenchmarkPlainUDP is the limit of BenchmarkWriteBandwidth: datagrams without
// meaning through the same sockets, in messages of the same sizes, by the same
// calls, with as many bytes under way, which the receiver grants.
func BenchmarkPlainUDP(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
		gso  bool
	}{{"MTU 4096", 4096 + 16, true}, {"MTU 1024", 1024 + 16, true}, {"MTU 4096 without GSO", 4096 + 16, false}} {
		b.Run(c.name, func(b *testing.B) { plainUDP(b, c.size, c.gso) })
	}
}

func plainUDP(b *testing.B, size int, gso bool) {
	var counters wireCounters
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
	from, to := socket("127.47.91.3:4791"), socket("127.47.91.4:4791")
	w := &udpWire{sockets: []*udpSocket{from}, gso: gso, counters: &counters}

	// The message of BenchmarkWriteBandwidth, in the same pieces.
	var batch batch
	batch.init()
	batch.segments = w.segments()
	packets := benchMessage / (size - 16)
	route := &endpoint.Route{Dst: to.local, HopLimit: defaultTTL}
	perBatch := min(packets, len(batch.buf)/size)
	for range perBatch {
		batch.add(size, route)
		if len(batch.messages) == batchMessages {
			break
		}
	}
	for i := range batch.messages {
		m := &batch.messages[i]
		w.prepare(i, m, batch.buf[m.at:m.at+m.n])
	}
	var received atomic.Int64
	var stop atomic.Bool
	over := make(chan struct{})
	go func() {
		defer close(over)
		fds := []unix.PollFd{{Fd: int32(to.fd), Events: unix.POLLIN}}
		for !stop.Load() {
			n := to.inbox.receive()
			if n == 0 {
				_, _ = unix.Poll(fds, 10)
				continue
			}
			sum := 0
			for i := range n {
				sum += int(to.headers[i].len)
			}
			received.Add(int64(sum))
		}
	}()
	sent := int64(0)
	window := int64(defaultWindow * size)
	b.SetBytes(benchMessage)
	stuck := 0
	start := received.Load()
	for b.Loop() {
		for n := int64(0); n < int64(packets*size); {
			for sent-received.Load() > window { // lost, or not there yet
				if stuck++; stuck > 1_000_000 {
					sent, stuck = received.Load(), 0
				}
			}
			transmit(from.fd, w.headers[:len(batch.messages)], &w.waiter, &counters, func(int, unix.Errno) {})
			sent += int64(batch.used)
			n += int64(batch.used)
		}
	}
	got := float64(received.Load()-start) * float64(size-16) / float64(size)
	b.ReportMetric(got*8/b.Elapsed().Seconds()/1e9, "Gbps")
	stop.Store(true)
	<-over
	unix.Close(from.fd)
	unix.Close(to.fd)
}
