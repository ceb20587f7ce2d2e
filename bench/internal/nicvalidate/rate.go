package nicvalidate

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// flood is a test of how many requests a second a NIC does. One machine, the server, has
// the NIC in question; the others have the same, and are enough that it is the limit.
type flood struct {
	service  ib.QPType // RC, UC or UD; 0 is RC
	op       ib.WROpcode
	payload  int
	inline   bool
	inbound  bool // the clients post, to the server
	queues   int  // queue pairs of the server, spread over the clients
	threaded bool // each of these is a thread's of its own, which takes time (threads.go); otherwise hosts post and poll in no time
	window   int  // requests outstanding a queue pair
	batch    int  // requests a doorbell
	signal   int  // requests a completion, a multiple of batch; 0 is one each batch
	targets  int  // atomics: addresses of the server's that they go to, in turn; 0 for one
	stride   int  // from one of them to the next if they are taken at random, and READs' too; 0 takes words in turn
	updates  int  // percent of operations that are pairs of atomics; the others are READs
	reads    bool // the figure is reads over PCIe by the server
}

const (
	clients = 7
	// ibMTU is the default of subnet managers.
	ibMTU = 2048
	// fdr is the rate of the K16 machines' links: 4 lanes of 14.0625 Gbps, 64/66.
	fdr = 54_545 * units.Mbps
)

// ports is the link between a K16 machine's NIC and the switch: Connect-IB has two
// ports, and a large part of the rates there needs both. They are modelled as one link
// of twice the rate. The machines with ConnectX-3 have one.
func ports(nic string) fabric.Link {
	l := fabric.Link{Rate: 2 * fdr, Delay: cable, Framing: fabric.InfiniBand}
	if nic == "cx3" {
		l.Rate = fdr
	}
	return l
}

// Warm-up and length of a flood: long enough for what was fetched ahead at first to be
// over, and for queue pairs whose batches come in turns to count evenly.
const (
	warmUp  = 250 * time.Microsecond
	flooded = 300 * time.Microsecond
)

// run returns requests a microsecond.
func (f *flood) run(nic string) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	return f.runOn(cfg, ports(nic))
}

func (f *flood) runOn(cfg nicmodel.Config, link fabric.Link) (float64, error) {
	hosts, err := newHosts(1+clients, false, link, cfg)
	if err != nil {
		return 0, err
	}
	posters := make([]*poster, len(hosts))
	server := hosts[0]
	var receives *receiver // of datagrams that come to the server
	if f.service == ib.UD && f.inbound {
		receives = newReceiver(server)
	}
	for i := range f.queues {
		c := 1 + i%clients
		from, to := server, hosts[c]
		if f.inbound {
			from, to = to, from
		} else {
			c = 0
		}
		l := flow{peer: to, at: uint64(i) * 8192}
		if f.service == ib.UD {
			var at verbs.QP
			l.qp, at, l.to, err = datagramsTo(from, to, f.window, f.inlined())
			if err == nil && receives != nil {
				err = receives.add(at)
			}
		} else {
			l.qp, err = f.connected(from, to)
		}
		if err != nil {
			return 0, err
		}
		if posters[c] == nil {
			posters[c] = newPoster(f, from)
		}
		posters[c].flows = append(posters[c].flows, l)
	}
	for _, p := range posters {
		if p != nil {
			p.fill()
		}
	}
	count := func() (n int, err error) {
		if f.reads {
			return pcieReads(server), nil
		}
		if f.service == ib.UC && f.inbound { // what left may be lost
			return int(server.dev.NIC().Stats().RxPackets), nil
		}
		if receives != nil {
			return receives.done, receives.err
		}
		for _, p := range posters {
			if p != nil {
				n += p.done
				if p.err != nil {
					return 0, p.err
				}
			}
		}
		return n, nil
	}
	// Where a completion is for many, they come at long intervals.
	long := time.Duration(max(1, f.signal/128))
	verbs.Sleep(server.dev, long*warmUp)
	before, err := count()
	if err != nil {
		return 0, err
	}
	verbs.Sleep(server.dev, long*flooded)
	after, err := count()
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64((long * flooded).Microseconds()), nil
}

// connected returns a queue pair that is connected to another machine's.
func (f *flood) connected(from, to *host) (qp verbs.QP, err error) {
	if f.service == ib.UC {
		qp, _, err = connectUC(from, to, f.window, f.inlined(), ibMTU)
	} else {
		qp, _, err = connect(from, to, f.window, 0, f.inlined(), ibMTU)
	}
	return qp, err
}

// pcieReads counts a machine's read requests over PCIe.
func pcieReads(h *host) (n int) {
	for why := nicmodel.ForDoorbell; why <= nicmodel.ForTranslation; why++ {
		n += int(h.dev.NIC().PCIe().Traffic(nicmodel.Upstream, nicmodel.MemRd, why).Packets)
	}
	return n
}

func (f *flood) inlined() int {
	if f.inline {
		return f.payload
	}
	return 0
}

// poster posts a machine's requests: a batch whenever a queue pair has room for one.
type poster struct {
	f       *flood
	host    *host
	flows   []flow
	wrs     []verbs.SendWR
	wcs     []verbs.WC
	sent    uint64
	done    int
	err     error    // the first
	threads *threads // one a queue pair; nil if they take no time
	r       *rand.Rand
}

type flow struct {
	qp   verbs.QP
	to   destination // of datagrams
	peer *host
	out  int
	// since counts the requests posted since one with a completion.
	since int
	at    uint64 // where it writes and reads
}

func newPoster(f *flood, h *host) *poster {
	p := &poster{f: f, host: h, r: rand.New(rand.NewPCG(uint64(f.targets), 1)), wrs: make([]verbs.SendWR, f.batch), wcs: make([]verbs.WC, 64)}
	h.polls = p.poll
	if f.threaded {
		p.threads = newThreads(h, f.queues)
	}
	return p
}

// fill posts what may be outstanding at first, a batch of each queue pair in turn, as their threads do side by side.
func (p *poster) fill() {
	for more := true; more; {
		more = false
		for i := range p.flows {
			more = p.postBatch(i) || more
		}
	}
}

func (p *poster) poll(units.Time) {
	for {
		n, err := p.host.cq.Poll(p.wcs)
		if err != nil || n == 0 {
			p.fail(err)
			return
		}
		for _, wc := range p.wcs[:n] {
			if wc.Status != ib.WCSuccess {
				p.fail(&verbs.StatusError{WC: wc})
				return
			}
			if i := int(wc.WRID); p.threads == nil {
				p.over(i)
			} else {
				p.threads.poll(i, func() { p.over(i) })
			}
		}
	}
}

// over counts a completion, and posts what it makes room for.
func (p *poster) over(i int) {
	n := max(p.f.batch, p.f.signal)
	p.flows[i].out -= n
	p.done += n
	p.post(i)
}

// post posts as many batches as there is room for.
func (p *poster) post(i int) {
	for p.postBatch(i) {
	}
}

// postBatch posts a batch if there is room for it.
func (p *poster) postBatch(i int) bool {
	l := &p.flows[i]
	if l.out+p.f.batch > p.f.window {
		return false
	}
	l.out += p.f.batch
	if p.threads == nil {
		p.send(i, l)
	} else {
		p.threads.post(i, func() { p.send(i, l) })
	}
	return true
}

// send posts a batch.
func (p *poster) send(i int, l *flow) {
	for k := range p.wrs {
		p.wrs[k] = p.request(uint64(i), l)
		p.sent++
	}
	if l.since += p.f.batch; l.since >= p.f.signal {
		p.wrs[len(p.wrs)-1].Flags |= verbs.SendSignaled
		l.since = 0
	}
	if _, err := l.qp.PostSend(p.wrs); err != nil {
		p.fail(err)
	}
}

func (p *poster) request(id uint64, l *flow) verbs.SendWR {
	wr := verbs.SendWR{WRID: id, Opcode: p.f.op}
	if p.f.updates > 0 && p.r.IntN(100+p.f.updates) < 2*p.f.updates { // two of each pair
		wr.Opcode = ib.WRAtomicFetchAndAdd
	}
	if p.f.service == ib.UD {
		l.to.address(&wr)
	} else {
		wr.RemoteAddr, wr.RKey = l.peer.mr.Addr()+l.at, l.peer.mr.RKey()
	}
	if p.f.inline {
		wr.Flags = verbs.SendInline
		wr.Inline = p.host.buf[:p.f.payload]
	} else {
		wr.SGL = []verbs.SGE{verbs.SGEOf(p.host.mr, int(l.at), p.f.payload)}
	}
	if wr.Opcode.IsAtomic() {
		wr.CompareAdd = 1
		wr.SGL = []verbs.SGE{verbs.SGEOf(p.host.mr, int(l.at), 8)}
		wr.RemoteAddr = l.peer.mr.Addr() + p.sent*mix%uint64(max(p.f.targets, 1))*8
	}
	if p.f.stride > 0 {
		wr.RemoteAddr = l.peer.mr.Addr() + uint64(p.r.IntN(max(p.f.targets, 1))*p.f.stride)
	}
	return wr
}

// mix spreads consecutive requests over addresses: an odd number, so that it visits all
// of a power of two of them.
const mix = 2654435761

func (p *poster) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func rateRows() []Measurement {
	const nic = "connectib"
	return []Measurement{
		{Row: "K1", Preset: nic, How: "the most data inline for which a WQE that is fetched takes two cache lines of 64 bytes, and what is left of them; receive: those of 16 datagrams, by PCIe reads", Figure: func(at string) (float64, error) { return wqeBytes(nic, at) }},
		{Row: "K3", Preset: nic, How: "RC WRITE of 29 bytes inline, ten times one by one, and as one list", Figure: func(at string) (float64, error) { return tenWQEs(nic, at) }},
		{Row: "K4", Preset: nic, How: "outbound WRITEs of 32 B inline (two lines), 14 queue pairs; lines: a doorbell each, window 64; by DMA: batches of 16, window 512", Figure: func(at string) (float64, error) {
			switch at {
			case "MMIO lines":
				v, err := (&flood{op: ib.WRRDMAWrite, payload: 32, inline: true, queues: 14, window: 64, batch: 1}).run(nic)
				return 2 * v, err
			case "WQEs by DMA":
				return (&flood{op: ib.WRRDMAWrite, payload: 32, inline: true, queues: 14, window: 512, batch: 16}).run(nic)
			}
			return 0, noPoint(at)
		}},
		{Row: "K5", Preset: nic, How: "as K4, datagrams of 60 B inline, or of none, by 28 queue pairs, since 157 million are more than 14 could do (K12); batches: window 256; nobody posts receives for them", Figure: func(at string) (float64, error) {
			switch at {
			case "single":
				return outboundUD(60, 28, false).run(nic)
			case "batch of 16":
				return outboundUD(60, 28, true).run(nic)
			case "batch of 16, header only":
				return outboundUD(0, 28, true).run(nic)
			}
			return 0, noPoint(at)
		}},
		{Row: "K6", Preset: nic, How: "7 clients, 28 queue pairs each way, datagrams of 60 B inline, or of none, in batches of 16; 1024 receives of 4 KiB at each queue pair, posted again 16 at a time", Figure: func(at string) (float64, error) {
			n, ok := map[string]int{"payload": 60, "header only": 0}[at]
			if !ok {
				return 0, noPoint(at)
			}
			return (&flood{service: ib.UD, op: ib.WRSend, payload: n, inline: true, inbound: true, queues: 28, window: 512, batch: 16}).run(nic)
		}},
		{Row: "K8", Preset: nic, How: "as rdma_bench's rw-tput-receiver has it: 32 queue pairs, lists of 4, one completion in 32, of up to 64 outstanding 16 by the queue pair's limit on READs; 7 clients", Figure: func(at string) (float64, error) {
			n, err := size(at)
			if err != nil {
				return 0, err
			}
			return (&flood{op: ib.WRRDMARead, payload: n, inbound: true, queues: 32, window: 64, batch: 4, signal: 32}).run(nic)
		}},
		{Row: "K10", Preset: nic, How: "as rdma_bench's rw-tput-sender has it: 14 threads with a queue pair each, a doorbell each request, one completion in 32, up to 64 outstanding, of READs 16 by the queue pair's limit; 32 B, for a WRITE inline", Figure: func(at string) (float64, error) {
			f := flood{op: ib.WRRDMARead, payload: 32, queues: 14, threaded: true, window: 64, batch: 1, signal: 32}
			switch at {
			case "WRITE above 28 B":
				f.op, f.inline = ib.WRRDMAWrite, true
			case "READ":
			default:
				return 0, noPoint(at)
			}
			return f.run(nic)
		}},
		{Row: "K11", Preset: nic, How: "as K5", Figure: func(at string) (float64, error) {
			var n int
			var posts string
			if _, err := fmt.Sscanf(at, "%d B, %s", &n, &posts); err != nil || posts != "single" && posts != "batch" {
				return 0, noPoint(at)
			}
			return outboundUD(n, 28, posts == "batch").run(nic)
		}},
		{Row: "K12", Preset: nic, How: "as K5, by 1, 2 or 4 queue pairs", Figure: func(at string) (float64, error) {
			queues := map[string]int{"single": 1, "batch": 1, "batch, 2 queue pairs": 2, "batch, 4 queue pairs": 4}[at]
			if queues == 0 {
				return 0, noPoint(at)
			}
			return outboundUD(60, queues, at != "single").run(nic)
		}},
		{Row: "K15", Preset: nic, How: "as rdma_bench's rw-allsig has it: a queue pair for each of 14 threads; a window of WRITEs of 8 B inline is posted one by one, only the last with a completion, for which the thread waits", Figure: func(at string) (float64, error) {
			window, err := strconv.Atoi(at)
			if err != nil {
				return 0, noPoint(at)
			}
			return (&flood{op: ib.WRRDMAWrite, payload: 8, inline: true, queues: 14, threaded: true, window: window, batch: 1, signal: window}).run(nic)
		}},
		{Row: "K16", Preset: nic, How: "7 clients, 28 queue pairs, 16 fetch-and-adds outstanding each, addresses in turn", Figure: func(at string) (float64, error) {
			n, err := strconv.Atoi(at)
			if err != nil {
				return 0, noPoint(at)
			}
			return (&flood{op: ib.WRAtomicFetchAndAdd, payload: 8, inbound: true, queues: 28, window: 16, batch: 4, targets: n}).run(nic)
		}},
	}
}

// outboundUD is datagrams posted one by one, so that each comes as BlueFlame, or in
// batches of 16, which are fetched.
func outboundUD(payload, queues int, batches bool) *flood {
	f := &flood{service: ib.UD, op: ib.WRSend, payload: payload, inline: true, queues: queues, window: 64, batch: 1}
	if batches {
		f.window, f.batch = 256, 16
	}
	return f
}

// receiver takes datagrams and posts a batch of receives whenever a batch has come to
// a queue pair.
type receiver struct {
	host *host
	qps  []verbs.QP
	used []int // receives of each to post again
	wrs  []verbs.RecvWR
	wcs  []verbs.WC
	done int
	err  error // the first
}

const recvBatch = 16

func newReceiver(h *host) *receiver {
	r := &receiver{host: h, wrs: make([]verbs.RecvWR, recvBatch), wcs: make([]verbs.WC, 64)}
	h.polls = r.poll
	return r
}

// add posts as many receives as the queue pair's queue holds.
func (r *receiver) add(qp verbs.QP) error {
	r.qps, r.used = append(r.qps, qp), append(r.used, 0)
	for range queueDepth / recvBatch {
		if err := r.post(len(r.qps) - 1); err != nil {
			return err
		}
	}
	return nil
}

func (r *receiver) post(i int) error {
	for k := range r.wrs {
		r.wrs[k] = verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{verbs.SGEOf(r.host.mr, i*8192, 4096)}}
	}
	_, err := r.qps[i].PostRecv(r.wrs)
	return err
}

func (r *receiver) poll(units.Time) {
	for r.err == nil {
		n, err := r.host.recv.Poll(r.wcs)
		if err != nil || n == 0 {
			r.err = err
			return
		}
		for _, wc := range r.wcs[:n] {
			i := int(wc.WRID)
			r.done++
			r.used[i]++
			switch {
			case wc.Status != ib.WCSuccess:
				r.err = &verbs.StatusError{WC: wc}
			case r.used[i] == recvBatch:
				r.used[i] = 0
				r.err = r.post(i)
			}
		}
	}
}

// line is a cache line, which WQEs are written and fetched in.
const line = 64

// wqeBytes is row K1.
func wqeBytes(nic, at string) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	service, ok := map[string]ib.QPType{"RC": ib.RC, "UC": ib.UC, "UD": ib.UD}[at]
	switch {
	case at == "receive":
		return fetchReceives(cfg)
	case !ok:
		return 0, noPoint(at)
	}
	const lines = 2 * line // the least that has room for data with each
	for n := lines; n > 0; n-- {
		fetched, err := fetch(cfg, service, n)
		if err != nil {
			return 0, err
		}
		if fetched <= lines {
			return float64(lines - n), nil
		}
	}
	return lines, nil
}

// fetch returns the bytes of a WQE with n bytes inline as the NIC reads it, two with one
// doorbell.
func fetch(cfg nicmodel.Config, service ib.QPType, n int) (int, error) {
	hosts, err := newHosts(2, true, back, cfg)
	if err != nil {
		return 0, err
	}
	a, b := hosts[0], hosts[1]
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: a.buf[:n]}
	var qp verbs.QP
	switch service {
	case ib.UD:
		var to destination
		qp, _, to, err = datagramsTo(a, b, 16, n)
		wr.Opcode = ib.WRSend
		to.address(&wr)
	case ib.UC:
		qp, _, err = connectUC(a, b, 16, n, ibMTU)
	default:
		qp, _, err = connect(a, b, 16, 0, n, ibMTU)
	}
	if err != nil {
		return 0, err
	}
	if service != ib.UD {
		wr.RemoteAddr, wr.RKey = b.mr.Addr(), b.mr.RKey()
	}
	if _, err := qp.PostSend([]verbs.SendWR{wr, wr}); err != nil {
		return 0, err
	}
	verbs.Sleep(a.dev, 20*time.Microsecond)
	link := a.dev.NIC().PCIe()
	got := link.Traffic(nicmodel.Downstream, nicmodel.CplD, nicmodel.ForWQE)
	header, err := headers(cfg.PCIe, "completion")
	return (int(got.Bytes) - int(got.Packets)*int(header)) / 2, err
}

// fetchReceives returns the bytes of a receive of one piece as the NIC reads it, 16 of
// which take as many datagrams.
func fetchReceives(cfg nicmodel.Config) (float64, error) {
	hosts, err := newHosts(2, true, back, cfg)
	if err != nil {
		return 0, err
	}
	a, b := hosts[0], hosts[1]
	from, at, to, err := datagramsTo(a, b, 16, 0)
	if err != nil {
		return 0, err
	}
	for range 16 {
		if _, err := at.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(b.mr, 0, 100)}}}); err != nil {
			return 0, err
		}
		wr := verbs.SendWR{Opcode: ib.WRSend}
		to.address(&wr)
		if _, err := from.PostSend([]verbs.SendWR{wr}); err != nil {
			return 0, err
		}
	}
	verbs.Sleep(a.dev, 50*time.Microsecond)
	var wcs [17]verbs.WC
	if n, err := b.recv.Poll(wcs[:]); err != nil || n != 16 {
		return 0, fmt.Errorf("%d of 16 datagrams came: %w", n, err)
	}
	got := b.dev.NIC().PCIe().Traffic(nicmodel.Downstream, nicmodel.CplD, nicmodel.ForRecvWQE)
	header, err := headers(cfg.PCIe, "completion")
	return (float64(got.Bytes) - float64(got.Packets)*header) / 16, err
}

// tenWQEs is row K3: what the host's stores and the NIC's fetches of WQEs take on PCIe.
func tenWQEs(nic, at string) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	hosts, err := newHosts(2, true, back, cfg)
	if err != nil {
		return 0, err
	}
	a, b := hosts[0], hosts[1]
	qp, _, err := connect(a, b, 16, 0, 29, ibMTU)
	if err != nil {
		return 0, err
	}
	wrs := make([]verbs.SendWR, 10)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: a.buf[:29], RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	}
	switch at {
	case "BlueFlame":
		for i := range wrs {
			if _, err := qp.PostSend(wrs[i : i+1]); err != nil {
				return 0, err
			}
			verbs.Sleep(a.dev, 10*time.Microsecond) // the queue is idle again
		}
	case "doorbell":
		if _, err := qp.PostSend(wrs); err != nil {
			return 0, err
		}
		verbs.Sleep(a.dev, 100*time.Microsecond)
	default:
		return 0, noPoint(at)
	}
	_, fromHost := a.dev.NIC().PCIeBytes()
	bytes := fromHost[nicmodel.ForDoorbell.String()] + fromHost[nicmodel.ForWQE.String()]
	if bytes == 0 {
		return 0, fmt.Errorf("nothing crossed PCIe for ten requests")
	}
	return float64(bytes), nil
}
