package nicvalidate

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-rdma/sluice/fabric"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// flood is a test of how many requests a second a NIC does. One machine, the server, has
// the NIC in question; the others have the same, and are enough that it is the limit.
// Hosts post and poll in no time.
type flood struct {
	op      ib.WROpcode
	payload int
	inline  bool
	inbound bool // the clients post, to the server
	queues  int  // queue pairs of the server, spread over the clients
	window  int  // requests outstanding a queue pair
	batch   int  // requests a doorbell; each batch's last has a completion
	targets int  // atomics: addresses of the server's that they go to, in turn; 0 for one
}

const (
	clients = 7
	// ibMTU is what subnet managers set unless told otherwise.
	ibMTU = 2048
	// fdr is what the K16 machines' links carry: 4 lanes of 14.0625 Gbps, 64/66.
	fdr = 54_545 * units.Mbps
)

// ports is the link between a K16 machine's NIC and the switch: Connect-IB has two
// ports, and a large part of the rates there needs both. They are modelled as one link
// of twice the rate.
func ports(c nicmodel.Config) fabric.Link {
	return fabric.Link{Rate: 2 * fdr, Delay: cable, Framing: fabric.InfiniBand}
}

// Warm-up and length of a flood.
const (
	warmUp  = 30 * time.Microsecond
	flooded = 100 * time.Microsecond
)

// run returns requests a microsecond.
func (f *flood) run(nic string) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	hosts, err := newHosts(1+clients, false, ports(cfg), cfg)
	if err != nil {
		return 0, err
	}
	posters := make([]*poster, len(hosts))
	server := hosts[0]
	for i := range f.queues {
		c := 1 + i%clients
		from, to := server, hosts[c]
		if f.inbound {
			from, to = to, from
		} else {
			c = 0
		}
		qp, _, err := connect(from, to, f.window, f.inlined(), ibMTU)
		if err != nil {
			return 0, err
		}
		if posters[c] == nil {
			posters[c] = newPoster(f, from)
		}
		posters[c].add(qp, to, i)
	}
	for _, p := range posters {
		if p != nil {
			p.fill()
		}
	}
	count := func() (n int, err error) {
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
	verbs.Sleep(server.dev, warmUp)
	before, err := count()
	if err != nil {
		return 0, err
	}
	verbs.Sleep(server.dev, flooded)
	after, err := count()
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64(flooded.Microseconds()), nil
}

func (f *flood) inlined() int {
	if f.inline {
		return f.payload
	}
	return 0
}

// poster posts a machine's requests: a batch whenever a queue pair has room for one.
type poster struct {
	f     *flood
	host  *host
	flows []flow
	wrs   []verbs.SendWR
	wcs   []verbs.WC
	sent  uint64
	done  int
	err   error // the first
}

type flow struct {
	qp   verbs.QP
	peer *host
	out  int
	at   uint64 // where it writes and reads
}

func newPoster(f *flood, h *host) *poster {
	p := &poster{f: f, host: h, wrs: make([]verbs.SendWR, f.batch), wcs: make([]verbs.WC, 64)}
	h.polls = p.poll
	return p
}

func (p *poster) add(qp verbs.QP, peer *host, i int) {
	p.flows = append(p.flows, flow{qp: qp, peer: peer, at: uint64(i) * 8192})
}

func (p *poster) fill() {
	for i := range p.flows {
		p.post(i)
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
			p.flows[wc.WRID].out -= p.f.batch
			p.done += p.f.batch
			p.post(int(wc.WRID))
		}
	}
}

// post posts as many batches as there is room for.
func (p *poster) post(i int) {
	l := &p.flows[i]
	for l.out+p.f.batch <= p.f.window {
		for k := range p.wrs {
			p.wrs[k] = p.request(uint64(i), l)
			p.sent++
		}
		p.wrs[len(p.wrs)-1].Flags |= verbs.SendSignaled
		if _, err := l.qp.PostSend(p.wrs); err != nil {
			p.fail(err)
			return
		}
		l.out += p.f.batch
	}
}

func (p *poster) request(id uint64, l *flow) verbs.SendWR {
	wr := verbs.SendWR{WRID: id, Opcode: p.f.op, RemoteAddr: l.peer.mr.Addr() + l.at, RKey: l.peer.mr.RKey()}
	if p.f.inline {
		wr.Flags = verbs.SendInline
		wr.Inline = p.host.buf[:p.f.payload]
	} else {
		wr.SGL = []verbs.SGE{verbs.SGEOf(p.host.mr, int(l.at), p.f.payload)}
	}
	if p.f.op.IsAtomic() {
		wr.CompareAdd = 1
		wr.RemoteAddr = l.peer.mr.Addr() + p.sent*mix%uint64(max(p.f.targets, 1))*8
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

// ud says that a row needs unreliable datagrams; the figure is left out until a
// device makes such queue pairs.
func ud(string) (float64, error) {
	return 0, &Missing{"UD queue pairs over the model"}
}

func rateRows() []Measurement {
	const nic = "connectib"
	return []Measurement{
		{Row: "K1", Preset: nic, How: "the most data inline for which a WQE that is fetched takes one cache line of 64 bytes, and what is left of it", Figure: func(at string) (float64, error) { return wqeBytes(nic, at) }},
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
		{Row: "K5", Preset: nic, Figure: ud},
		{Row: "K6", Preset: nic, Figure: ud},
		{Row: "K8", Preset: nic, How: "7 clients, 28 queue pairs, 16 READs outstanding each", Figure: func(at string) (float64, error) {
			n, err := size(at)
			if err != nil {
				return 0, err
			}
			return (&flood{op: ib.WRRDMARead, payload: n, inbound: true, queues: 28, window: 16, batch: 4}).run(nic)
		}},
		{Row: "K10", Preset: nic, How: "14 queue pairs, one for each core of the paper's machine; a doorbell and a completion each request; WRITE: 32 B inline, window 64; READ: 32 B, 16 outstanding", Figure: func(at string) (float64, error) {
			switch at {
			case "WRITE above 28 B":
				return (&flood{op: ib.WRRDMAWrite, payload: 32, inline: true, queues: 14, window: 64, batch: 1}).run(nic)
			case "READ":
				return (&flood{op: ib.WRRDMARead, payload: 32, queues: 14, window: 16, batch: 1}).run(nic)
			}
			return 0, noPoint(at)
		}},
		{Row: "K11", Preset: nic, Figure: ud},
		{Row: "K12", Preset: nic, Figure: ud},
		{Row: "K15", Preset: nic, How: "14 queue pairs, WRITEs of 32 B inline, batches of up to 16 and no larger than a quarter of the window", Figure: func(at string) (float64, error) {
			window, err := strconv.Atoi(at)
			if err != nil {
				return 0, noPoint(at)
			}
			return (&flood{op: ib.WRRDMAWrite, payload: 32, inline: true, queues: 14, window: window, batch: min(window/4, 16)}).run(nic)
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

// line is a cache line, which WQEs are written and fetched in.
const line = 64

// wqeBytes is row K1.
func wqeBytes(nic, at string) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	switch at {
	case "RC":
	case "UC", "UD":
		return 0, &Missing{at + " queue pairs over the model"}
	case "receive":
		return 0, &Missing{"receive WQEs on PCIe"}
	default:
		return 0, noPoint(at)
	}
	for n := line; n > 0; n-- {
		fetched, err := fetch(cfg, n)
		if err != nil {
			return 0, err
		}
		if fetched <= line {
			return float64(line - n), nil
		}
	}
	return line, nil
}

// fetch returns the bytes of a WQE with n bytes inline as the NIC reads it, two with one
// doorbell.
func fetch(cfg nicmodel.Config, n int) (int, error) {
	hosts, err := newHosts(2, true, ports(cfg), cfg)
	if err != nil {
		return 0, err
	}
	a, b := hosts[0], hosts[1]
	qp, _, err := connect(a, b, 16, n, ibMTU)
	if err != nil {
		return 0, err
	}
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: a.buf[:n], RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	if _, err := qp.PostSend([]verbs.SendWR{wr, wr}); err != nil {
		return 0, err
	}
	verbs.Sleep(a.dev, 20*time.Microsecond)
	link := a.dev.NIC().PCIe()
	got := link.Traffic(nicmodel.Downstream, nicmodel.CplD, nicmodel.ForWQE)
	header, err := headers(cfg.PCIe, "completion")
	return (int(got.Bytes) - int(got.Packets)*int(header)) / 2, err
}

// tenWQEs is row K3: what the host's stores and the NIC's fetches of WQEs take on PCIe.
func tenWQEs(nic, at string) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	hosts, err := newHosts(2, true, ports(cfg), cfg)
	if err != nil {
		return 0, err
	}
	a, b := hosts[0], hosts[1]
	qp, _, err := connect(a, b, 16, 29, ibMTU)
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
