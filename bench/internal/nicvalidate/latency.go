package nicvalidate

import (
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// back is a cable of 2 m between two machines.
var back = fabric.Link{Rate: 100 * units.Gbps, Delay: cable + correction(100*units.Gbps)}

// qdr is InfiniBand of 32 Gbps after coding, hdr of 200 Gbps, by cables of 2 m.
var (
	qdr = fabric.Link{Rate: 32 * units.Gbps, Delay: cable, Framing: fabric.InfiniBand}
	hdr = fabric.Link{Rate: 200 * units.Gbps, Delay: cable + correction(200*units.Gbps), Framing: fabric.InfiniBand}
)

// oneAtATime returns the microseconds of a request from its post to its completion.
func oneAtATime(nic string, direct bool, link fabric.Link, op ib.WROpcode, size int, mtu ib.MTU) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	l := blindLoad{
		service: ib.RC, op: op, payload: size, machines: 2, queues: 1, threads: 1, window: 1, signal: 1, mtu: mtu, direct: direct, link: link,
		nics: []nicmodel.Config{cfg},
	}
	rate, err := l.run()
	return 1 / rate, err
}

func latencyRows() []Measurement {
	return []Measurement{
		{Row: "L1", Preset: "cx5", How: "two machines back to back by 2 m at 100 Gbps, on PCIe 3.0 x8; 8 B inline, 100 round trips", Figure: func(at string) (float64, error) {
			cfg, err := preset("cx5")
			if err != nil {
				return 0, err
			}
			cfg.PCIe = slower(cfg.PCIe)
			switch at {
			case "WRITE":
				return pingPong(cfg, true, back, writePong, 8, 1024)
			case "SEND":
				return pingPong(cfg, true, back, sendPong, 8, 1024)
			}
			return 0, noPoint(at)
		}},
		{Row: "L3", Preset: "cx3", How: "two machines at one switch of 100 ns, cables of 2 m, 32 Gbps after coding, path MTU 2048; 100 round trips", Figure: func(at string) (float64, error) {
			n, err := size(at)
			if err != nil {
				return 0, err
			}
			cfg, err := preset("cx3")
			if err != nil {
				return 0, err
			}
			return pingPong(cfg, false, qdr, writePong, n, ibMTU)
		}},
		{Row: "L4", Preset: "cx3", How: "machines and link as L3; one READ at a time", Figure: func(at string) (float64, error) {
			n, err := size(at)
			if err != nil {
				return 0, err
			}
			return oneAtATime("cx3", false, qdr, ib.WRRDMARead, n, ibMTU)
		}},
		{Row: "L5", Preset: "cx6ib", How: "two machines back to back by 2 m at 200 Gbps, on their processors: what virtual machines and the fabric add is not in the model", Figure: func(at string) (float64, error) {
			n, err := size(at)
			if err != nil {
				return 0, err
			}
			cfg, err := preset("cx6ib")
			if err != nil {
				return 0, err
			}
			return pingPong(cfg, true, hdr, writePong, n, 4096)
		}},
		{Row: "L6", Preset: "cx5", How: "two machines back to back by 2 m at 100 Gbps; what virtual functions add is not in the model", Figure: func(at string) (float64, error) {
			cfg, err := preset("cx5")
			if err != nil {
				return 0, err
			}
			switch at {
			case "WRITE":
				return pingPong(cfg, true, back, writePong, 2, 1024)
			case "SEND":
				return pingPong(cfg, true, back, sendPong, 2, 1024)
			case "READ":
				return oneAtATime("cx5", true, back, ib.WRRDMARead, 2, 1024)
			case "FETCH_ADD":
				return oneAtATime("cx5", true, back, ib.WRAtomicFetchAndAdd, 8, 1024)
			}
			return 0, noPoint(at)
		}},
	}
}

// slower is a NIC's link in a slot of the third generation with 8 lanes.
func slower(c nicmodel.PCIeConfig) nicmodel.PCIeConfig {
	c.Rate = nfp6000().Rate
	return c
}

// side is one end of a ping-pong.
type side struct {
	*host
	qp   verbs.QP
	peer *host
	size int
	n    byte // of the message that it sent last
	wr   [1]verbs.SendWR
	wc   [16]verbs.WC
}

// pong sends a message, or reports whether one has come since the last time.
type pong struct {
	op      ib.WROpcode
	arrived func(s *side) (bool, error)
}

var writePong = pong{ib.WRRDMAWrite, func(s *side) (bool, error) {
	// As perftest does it: the last byte of the message is its number.
	at := bufferBytes/2 + s.size - 1
	if s.buf[at] != s.n+1 {
		return false, nil
	}
	return true, nil
}}

var sendPong = pong{ib.WRSend, func(s *side) (bool, error) {
	n, err := s.recv.Poll(s.wc[:1])
	if err != nil || n == 0 {
		return false, err
	}
	if s.wc[0].Status != ib.WCSuccess {
		return false, &verbs.StatusError{WC: s.wc[0]}
	}
	_, err = s.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(s.mr, bufferBytes/2, s.size)}}})
	return true, err
}}

// inlineLimit is perftest's for WRITEs.
const inlineLimit = 220

// pollEvery is the period of a host's polls: the resolution of the result.
const pollEvery = time.Nanosecond

// pingPong returns half the mean round trip, in microseconds. A host takes postTime for what it sends and pollTime to note what has come.
func pingPong(cfg nicmodel.Config, direct bool, link fabric.Link, p pong, size int, mtu ib.MTU) (float64, error) {
	hosts, err := newHosts(2, direct, link, cfg)
	if err != nil {
		return 0, err
	}
	inline := min(inlineLimit, cfg.MaxInline)
	qa, qb, err := connect(hosts[0], hosts[1], 64, queueDepth, inline, mtu)
	if err != nil {
		return 0, err
	}
	sides := [2]*side{{host: hosts[0], qp: qa, peer: hosts[1], size: size}, {host: hosts[1], qp: qb, peer: hosts[0], size: size}}
	for _, s := range sides {
		for range 8 {
			if _, err := s.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(s.mr, bufferBytes/2, size)}}}); err != nil {
				return 0, err
			}
		}
	}
	const trips, limit = 100, time.Millisecond
	from := hosts[0].dev.Now()
	for trip := range trips {
		for turn := range 2 {
			// The first to send has received all earlier messages.
			s, r := sides[turn], sides[1-turn]
			if err := s.send(p.op, byte(trip)+1, inline); err != nil {
				return 0, err
			}
			r.n = byte(trip)
			for start := s.dev.Now(); ; {
				ok, err := p.arrived(r)
				if err != nil {
					return 0, err
				}
				if ok {
					verbs.Sleep(r.dev, pollTime.Duration())
					break
				}
				if s.dev.Now()-start > limit {
					return 0, verbs.ErrTimeout
				}
				verbs.Sleep(s.dev, pollEvery)
			}
		}
	}
	return float64((hosts[0].dev.Now() - from).Nanoseconds()) / (2 * trips * 1000), nil
}

func (s *side) send(op ib.WROpcode, n byte, inline int) error {
	s.buf[s.size-1] = n
	wr := &s.wr[0]
	*wr = verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: s.peer.mr.Addr() + bufferBytes/2, RKey: s.peer.mr.RKey()}
	if s.size <= inline {
		wr.Flags |= verbs.SendInline
		wr.Inline = s.buf[:s.size]
	} else {
		wr.SGL = []verbs.SGE{verbs.SGEOf(s.mr, 0, s.size)}
	}
	for { // what was sent before has completed
		got, err := s.cq.Poll(s.wc[:])
		if err != nil {
			return err
		}
		if got == 0 {
			break
		}
	}
	// The request reaches the NIC at the end of the post, as with threads.
	verbs.Sleep(s.dev, postTime.Duration())
	_, err := s.qp.PostSend(s.wr[:])
	return err
}
