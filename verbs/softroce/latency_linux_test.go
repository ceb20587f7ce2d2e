package softroce_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// BenchmarkAddedLatency has what one Write of 64 bytes at a time takes, by the device alone
// and with TIMELY's shim over it, in turns:
//
//   - post: from before the call that posts it until its packet is on the wire, by the
//     kernel's stamp of its arrival at the peer on the same machine;
//   - poll: from the kernel's stamp of the acknowledgement until the poll that returns the
//     completion has returned;
//   - all: from before the post to after that poll.
//
// Percentiles are of all iterations; added- is the shim's less the device's.
func BenchmarkAddedLatency(b *testing.B) {
	open := func(name string) verbs.Device {
		dev, err := verbs.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = dev.Close() })
		return dev
	}
	config := paced.DefaultConfig()
	config.Scheme = "timely"
	shim, err := paced.Wrap(open("soft:127.0.41.2"), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = shim.Close() })
	other := open("soft:127.0.41.3")
	paths := []*timedPath{newTimedPath(b, open("soft:127.0.41.1"), other), newTimedPath(b, shim, other)}
	var took [2][3][]float64 // us
	for first := 0; b.Loop(); first = 1 - first {
		for _, i := range []int{first, 1 - first} {
			post, poll, all, err := paths[i].write()
			if err != nil {
				b.Fatal(err)
			}
			for k, d := range [...]float64{post, poll, all} {
				took[i][k] = append(took[i][k], d)
			}
		}
	}
	for k, part := range []string{"post", "poll", "all"} {
		for i := range took {
			slices.Sort(took[i][k])
		}
		for _, p := range []struct {
			name  string
			share float64
		}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}} {
			at := func(i int) float64 { return took[i][k][int(float64(len(took[i][k])-1)*p.share)] }
			b.ReportMetric(at(0), part+"-"+p.name+"-us")
			b.ReportMetric(at(1)-at(0), "added-"+part+"-"+p.name+"-us")
		}
	}
}

// timedPath is a connection from one device to another whose completions have timestamps.
type timedPath struct {
	dev, peer  verbs.Device
	cq, peerCQ verbs.CQ
	qp, peerQP verbs.QP
	wr         [1]verbs.SendWR
	recv       [1]verbs.RecvWR
}

func newTimedPath(b *testing.B, dev, peer verbs.Device) *timedPath {
	b.Helper()
	p := &timedPath{dev: dev, peer: peer}
	const size = 64
	var mrs [2]verbs.MR
	var at [2]verbs.Endpoint
	for i, d := range []verbs.Device{dev, peer} {
		pd, err1 := d.AllocPD()
		cq, err2 := d.CreateCQ(verbs.CQInitAttr{CQE: 64, Timestamps: true})
		if err := errors.Join(err1, err2); err != nil {
			b.Fatal(err)
		}
		qp, err1 := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
		mr, err2 := pd.RegMR(make([]byte, size), ib.AccessLocalWrite|ib.AccessRemoteWrite)
		gid, err3 := d.GID(1, 0)
		if err := errors.Join(err1, err2, err3); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = errors.Join(qp.Close(), mr.Close(), cq.Close(), pd.Close()) })
		mrs[i], at[i] = mr, verbs.Endpoint{GID: gid, QPN: qp.Num(), PSN: uint32(i)}
		if i == 0 {
			p.qp, p.cq = qp, cq
		} else {
			p.peerQP, p.peerCQ = qp, cq
		}
	}
	rc := verbs.DefaultRC()
	if err := errors.Join(verbs.ConnectRC(p.qp, at[0], at[1], rc), verbs.ConnectRC(p.peerQP, at[1], at[0], rc)); err != nil {
		b.Fatal(err)
	}
	p.wr[0] = verbs.SendWR{
		Opcode: ib.WRRDMAWriteWithImm, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mrs[0], 0, size)},
		RemoteAddr: mrs[1].Addr(), RKey: mrs[1].RKey(),
	}
	return p
}

// write does one Write, and returns in us what its parts took.
func (p *timedPath) write() (post, poll, all float64, err error) {
	if _, err := p.peerQP.PostRecv(p.recv[:]); err != nil {
		return 0, 0, 0, err
	}
	there, err := p.peer.(verbs.ClockReader).ReadClock()
	if err != nil {
		return 0, 0, 0, err
	}
	start := time.Now()
	if _, err := p.qp.PostSend(p.wr[:]); err != nil {
		return 0, 0, 0, err
	}
	acked, err := await(p.cq)
	if err != nil {
		return 0, 0, 0, err
	}
	all = float64(time.Since(start).Nanoseconds()) / 1000
	here, err := p.dev.(verbs.ClockReader).ReadClock()
	if err != nil {
		return 0, 0, 0, err
	}
	arrived, err := await(p.peerCQ)
	ticks := 1e6 / p.peer.Attr().CoreClockHz
	return float64(int64(arrived-there)) * ticks, float64(int64(here-acked)) * ticks, all, err
}

// await polls for a completion, and returns its timestamp.
func await(cq verbs.CQ) (uint64, error) {
	var wc [1]verbs.WC
	for {
		n, err := cq.Poll(wc[:])
		switch {
		case err != nil:
			return 0, err
		case n > 0 && wc[0].Status != ib.WCSuccess:
			return 0, wc[0].Status
		case n > 0:
			return wc[0].Timestamp, nil
		}
	}
}
