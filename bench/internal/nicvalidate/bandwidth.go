package nicvalidate

import (
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func bandwidthRows() []Measurement {
	ops := map[string]ib.WROpcode{"WRITE": ib.WRRDMAWrite, "READ": ib.WRRDMARead, "SEND": ib.WRSend}
	return []Measurement{
		{Row: "LB1", Preset: "cx5", How: "as L1; one queue pair, 1 MiB at a time, 4 under way, path MTU 1024", Figure: func(at string) (float64, error) {
			op, ok := ops[at]
			if !ok {
				return 0, noPoint(at)
			}
			cfg, err := preset("cx5")
			if err != nil {
				return 0, err
			}
			cfg.PCIe = slower(cfg.PCIe)
			return bandwidth(cfg, back, op, bufferBytes, 1024)
		}},
	}
}

// bandwidth returns Gbps of messages of one queue pair between two machines back to back,
// with four under way.
func bandwidth(cfg nicmodel.Config, link fabric.Link, op ib.WROpcode, size int, mtu ib.MTU) (float64, error) {
	hosts, err := newHosts(2, true, link, cfg)
	if err != nil {
		return 0, err
	}
	a, b := hosts[0], hosts[1]
	const underWay, first, last = 4, 4, 12
	qa, qb, err := connect(a, b, underWay, 2*last, 0, mtu)
	if err != nil {
		return 0, err
	}
	if op == ib.WRSend {
		for range last + underWay {
			if _, err := qb.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(b.mr, 0, size)}}}); err != nil {
				return 0, err
			}
		}
	}
	wr := []verbs.SendWR{{Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}}
	var failed error
	over := 0
	var from, until units.Time
	var wcs [underWay]verbs.WC
	a.polls = func(now units.Time) {
		n, err := a.cq.Poll(wcs[:])
		for i := range n {
			if wcs[i].Status != ib.WCSuccess {
				err = &verbs.StatusError{WC: wcs[i]}
			}
			switch over++; over {
			case first:
				from = now
			case last:
				until = now
			}
			if over < last && err == nil {
				_, err = qa.PostSend(wr)
			}
		}
		if failed == nil {
			failed = err
		}
	}
	for range underWay {
		if _, err := qa.PostSend(wr); err != nil {
			return 0, err
		}
	}
	for range 1000 {
		if verbs.Sleep(a.dev, 100*time.Microsecond); failed != nil || until > 0 {
			break
		}
	}
	switch {
	case failed != nil:
		return 0, failed
	case until == 0:
		return 0, verbs.ErrTimeout
	}
	return float64(last-first) * float64(size) * 8 / (until - from).Nanoseconds(), nil
}
