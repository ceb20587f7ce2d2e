package storm_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/storm"
)

// pinger sends one message to process 1, which waits for it. It connects by messages
// outside of RDMA, and does not allow for a crash of either.
func pinger(p *storm.Process) error {
	dev := p.Device()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 4})
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	if err != nil {
		return err
	}
	here := verbs.Endpoint{GID: p.Address(p.ID), QPN: qp.Num(), PSN: p.Rand.Uint32() & 0xffffff}
	p.Send(1-p.ID, here)
	var there verbs.Endpoint
	for ok := false; !ok; {
		p.Sleep(time.Microsecond)
		var msg any
		if _, msg, ok = p.Receive(); ok {
			there = msg.(verbs.Endpoint)
		}
	}
	rc := verbs.DefaultRC()
	rc.Timeout = 8 // 1 ms
	if err := verbs.ConnectRC(qp, here, there, rc); err != nil {
		return err
	}
	sgl := []verbs.SGE{verbs.SGEOf(mr, 0, 64)}
	if p.ID == 0 {
		_, err = qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: sgl}})
	} else {
		_, err = qp.PostRecv([]verbs.RecvWR{{SGL: sgl}})
	}
	if err != nil {
		return err
	}
	if _, err := verbs.Drain(dev, cq, make([]verbs.WC, 1), 100*time.Millisecond); err != nil {
		return err
	}
	p.Sleep(20 * time.Millisecond) // the acknowledgement may have been lost: stay to repeat it
	return errors.Join(qp.Close(), cq.Close(), mr.Close(), pd.Close())
}

// A program of one's own: it stands the loss of packets, and not a crash of its peer.
func Example() {
	c := storm.Default()
	c.Processes, c.Program = 2, pinger
	for _, faults := range []fault.Schedule{
		{{Kind: fault.Drop, A: 0, B: 1, Packet: 0}, {Kind: fault.Drop, A: 1, B: 0, Packet: 0}},
		{{Kind: fault.Crash, A: 1, At: 5 * units.Microsecond, For: units.Microsecond}},
	} {
		c.Faults = faults
		r, err := storm.Run(context.Background(), c)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d packets; failure: %q\n", r.Packets, r.Failure)
	}
	// Output:
	// 5 packets; failure: ""
	// 8 packets; failure: "at 8.40872ms: process 0: poll_cq soft:h0: transport retry counter exceeded"
}
