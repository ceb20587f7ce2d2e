package softroce

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// contest is a kind of transfer from one device to another on the loopback
// interface beside the limit: datagrams without meaning through sockets with the same
// options, in packets of the same size, as many of them to a call by the same
// segmentation, with as many under way. The two alternate, a few milliseconds each,
// so that what else the machine does weighs on both.
type contest struct {
	op      ib.WROpcode
	size    int // of a message, in bytes
	mtu     ib.MTU
	options string // of the devices
	list    int    // requests that are posted together, the last of them signaled
	round   int    // requests of a round
}

var contests = []contest{
	{ib.WRRDMAWrite, 1 << 20, 4096, "", 1, 32},
	{ib.WRRDMAWrite, 1 << 20, 4096, "window=256", 1, 32},
	{ib.WRRDMAWrite, 1 << 20, 1024, "", 1, 32},
	{ib.WRRDMAWrite, 1 << 20, 4096, "gso=off", 1, 16},
	{ib.WRRDMAWrite, 1 << 20, 1024, "gso=off", 1, 4},
	{ib.WRRDMAWrite, 64 << 10, 4096, "", 1, 512},
	{ib.WRRDMARead, 1 << 20, 4096, "", 1, 32},
	{ib.WRRDMARead, 1 << 20, 4096, "gso=off", 1, 16},
	{ib.WRRDMAWrite, 8, 1024, "", 32, 8192},
	{ib.WRRDMAWrite, 8, 1024, "gso=off", 32, 2048},
}

// small is whether messages are counted, not bytes.
func (c *contest) small() bool { return c.size < int(c.mtu) }

// packets is how many a message takes.
func (c *contest) packets() int { return (c.size + int(c.mtu) - 1) / int(c.mtu) }

// name is that of a sub-benchmark.
func (c *contest) name() string { return strings.ReplaceAll(c.String(), "\t", ",") }

func (c *contest) String() string {
	op := "Write"
	if c.op == ib.WRRDMARead {
		op = "Read"
	}
	size := fmt.Sprintf("%d B", c.size)
	if c.size >= 1<<10 {
		size = fmt.Sprintf("%d KiB", c.size>>10)
	}
	options := c.options
	if options == "" {
		options = "-"
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s", op, size, c.mtu, options)
}

const (
	metricSoft, metricLimit, metricShare = "softroce", "UDP", "%" // Gbps, or million messages a second
)

func (c *contest) run(b *testing.B) {
	x, y := openPair(b, here+"?"+c.options, there+"?"+c.options, c.mtu)
	s := newStream(x, y, c)
	o, err := parseOptions(c.options)
	if err != nil {
		b.Fatal(err)
	}
	packet := min(c.size, int(c.mtu))
	window := min(windowOf(o.Window, &o.Shape, c.mtu), s.depth*c.packets())
	together := window / 4 // what an acknowledgement lets go
	if c.small() {
		together = c.list
		packet += roce.RETHBytes
	}
	p := newPlain(b, plainSocket(b, "127.47.91.3:4791"), plainSocket(b, "127.47.91.4:4791"), packet, o.GSO, window, together)
	defer p.close()
	var soft, limit, share []float64
	b.SetBytes(int64(c.round * c.size))
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		s.run(c.round)
		took := time.Since(start)
		b.StopTimer()
		plain := p.run(c.round * c.packets())
		unit := float64(c.round*c.size*8) / 1e9
		if c.small() {
			unit = float64(c.round) / 1e6
		}
		// The limit lost datagrams if it took no time.
		if plain > 0 {
			soft = append(soft, unit/took.Seconds())
			limit = append(limit, unit/plain.Seconds())
			share = append(share, plain.Seconds()/took.Seconds()*100)
		}
		b.StartTimer()
	}
	if len(share) == 0 {
		b.Fatal("the limit lost datagrams in each round")
	}
	b.ReportMetric(median(soft), metricSoft)
	b.ReportMetric(median(limit), metricLimit)
	b.ReportMetric(median(share), metricShare)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return quantile.Of(v, 0.5)
}

// BenchmarkBesideUDP is what softroce reaches beside plain UDP: Gbps of payload, or
// million messages a second, the medians of all rounds, and the median of the rounds'
// ratios.
func BenchmarkBesideUDP(b *testing.B) {
	for i := range contests {
		c := &contests[i]
		b.Run(c.name(), c.run)
	}
}

var besideUDP = flag.Bool("beside-udp", false, "print a table of softroce's speed beside plain UDP's, and run nothing else (make bench-roce)")

func TestMain(m *testing.M) {
	flag.Parse()
	if *besideUDP {
		os.Exit(printTable(os.Stdout))
	}
	os.Exit(m.Run())
}

// printTable runs all contests and returns what the process ends with.
func printTable(to io.Writer) int {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "op\tmessage\tMTU\toptions\tsoftroce\tplain UDP\t\tshare\trounds\t")
	for i := range contests {
		c := &contests[i]
		r := testing.Benchmark(c.run)
		if r.N == 0 {
			_ = w.Flush()
			_, _ = fmt.Fprintf(to, "%v: failed\n", c)
			return 1
		}
		unit := "Gb/s"
		if c.small() {
			unit = "M/s"
		}
		_, _ = fmt.Fprintf(w, "%v\t%.2f\t%.2f\t%s\t%.0f %%\t%d\t\n", c, r.Extra[metricSoft], r.Extra[metricLimit], unit, r.Extra[metricShare], r.N)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintln(to, "Gb/s of payload, M/s million messages a second: medians of alternating rounds; share: the median of the rounds' ratios.")
	return 0
}

// stream is requests of one kind, several under way.
type stream struct {
	x     *end
	wr    []verbs.SendWR
	wc    []verbs.WC
	depth int // requests under way
}

func newStream(x, y *end, c *contest) *stream {
	ms, md := x.reg(make([]byte, c.size)), y.reg(make([]byte, c.size))
	s := &stream{x: x, wc: make([]verbs.WC, 8), wr: make([]verbs.SendWR, c.list), depth: max(8, 3*c.list)}
	for i := range s.wr {
		wr := &s.wr[i]
		*wr = verbs.SendWR{Opcode: c.op, RemoteAddr: md.Addr(), RKey: md.RKey()}
		if c.small() {
			wr.Flags, wr.Inline = verbs.SendInline, make([]byte, c.size)
		} else {
			wr.SGL = []verbs.SGE{verbs.SGEOf(ms, 0, c.size)}
		}
	}
	s.wr[c.list-1].Flags |= verbs.SendSignaled
	return s
}

// run carries out a number of requests.
func (s *stream) run(requests int) {
	for posted, done := 0, 0; done < requests; {
		for posted < requests && posted-done < s.depth {
			if _, err := s.x.qp.PostSend(s.wr); err != nil {
				s.x.t.Fatal(err)
			}
			posted += len(s.wr)
		}
		n, err := s.x.cq.Poll(s.wc)
		if err != nil || n > 0 && s.wc[0].Status != ib.WCSuccess {
			s.x.t.Fatal(err, s.wc[0].Status)
		}
		done += n * len(s.wr)
	}
}

// plain sends datagrams, from a buffer that is as large as a large message.
type plain struct {
	w        *udpWire
	from, to *udpSocket
	batch    batch
	source   []byte
	at       int // in source, where the next batch begins
	size     int // of a packet
	window   int64
	received atomic.Int64
	stop     atomic.Bool
	stopped  chan struct{}
}

const plainSource = 1 << 20

// plainYield is after how many looks at the counter the sender yields: as often as
// CQ.Poll does, which makes a system call in each.
const plainYield = 16 << 10

// plainSocket opens a socket of newPlain's.
func plainSocket(b *testing.B, at string) *udpSocket {
	s := &udpSocket{local: netip.MustParseAddrPort(at)}
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

// newPlain prepares packets of so much payload, with BTH and ICRC, of which as
// many as together go by one call.
func newPlain(b *testing.B, from, to *udpSocket, payload int, gso bool, window, together int) *plain {
	p := &plain{from: from, to: to, size: payload + roce.BTHBytes + roce.ICRCBytes, stopped: make(chan struct{})}
	p.window = int64(window * p.size)
	p.w = &udpWire{sockets: []*udpSocket{p.from}, gso: gso, counters: &wireCounters{}}
	p.batch.init()
	p.batch.segments = p.w.segments()
	route := &endpoint.Route{Dst: p.to.local, HopLimit: defaultTTL}
	for range min(together, len(p.batch.buf)/p.size, batchMessages) {
		p.batch.add(p.size, route)
	}
	p.source = make([]byte, plainSource+p.batch.used)
	for i := range p.batch.messages {
		m := &p.batch.messages[i]
		p.w.prepare(i, m, p.source[m.at:m.at+m.n])
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

// run sends packets and returns the time until all had come, 0 if they have not.
func (p *plain) run(packets int) time.Duration {
	total := int64(packets * p.size)
	start, from := time.Now(), p.received.Load()
	for sent := int64(0); sent < total; sent += int64(p.batch.used) {
		for spin := 0; sent+int64(p.batch.used)-(p.received.Load()-from) > p.window; spin++ {
			if spin > 100_000_000 {
				return 0
			}
			if spin%plainYield == plainYield-1 {
				yieldThread()
			}
		}
		for i := range p.batch.messages {
			p.w.iovs[i].Base = &p.source[p.at+p.batch.messages[i].at]
		}
		p.at = (p.at + p.batch.used) % plainSource
		transmit(p.from.fd, p.w.headers[:len(p.batch.messages)], &p.w.waiter, p.w.counters, func(int, unix.Errno) {})
	}
	for p.received.Load()-from < total {
		if time.Since(start) > time.Second {
			return 0
		}
	}
	return time.Since(start)
}

func (p *plain) close() {
	p.stop.Store(true)
	<-p.stopped
	_ = unix.Close(p.from.fd)
	_ = unix.Close(p.to.fd)
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
	b.ReportMetric(median(took), "us-one-way")
	stop.Store(true)
	<-done
}
