package paced_test

import (
	"fmt"
	"log"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

// A program writes a megabyte at the pace that TIMELY allows. But for Wrap, it is
// what it would be on the provider's device.
func ExampleWrap() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	provider, err := verbs.Open("sim:example/h0")
	check(err)
	config := paced.DefaultConfig()
	config.Scheme = "timely"
	dev, err := paced.Wrap(provider, config)
	check(err)
	peer, err := verbs.Open("sim:example/h1") // needs no shim: it only receives
	check(err)

	open := func(dev verbs.Device) (verbs.CQ, verbs.QP, verbs.MR, verbs.Endpoint) {
		pd, err := dev.AllocPD()
		check(err)
		cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 16})
		check(err)
		qp, err := pd.CreateQP(verbs.QPInitAttr{
			Type: ib.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		check(err)
		mr, err := pd.RegMR(make([]byte, 1<<20), ib.AccessLocalWrite|ib.AccessRemoteWrite)
		check(err)
		gid, err := dev.GID(1, 0)
		check(err)
		return cq, qp, mr, verbs.Endpoint{GID: gid, QPN: qp.Num()}
	}
	cq, qp, mr, here := open(dev)
	_, peerQP, peerMR, there := open(peer)
	check(verbs.ConnectRC(qp, here, there, verbs.DefaultRC()))
	check(verbs.ConnectRC(peerQP, there, here, verbs.DefaultRC()))

	check(verbs.Run(dev, func() error {
		_, err := qp.PostSend([]verbs.SendWR{{
			WRID: 1, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 1<<20)}, RemoteAddr: peerMR.Addr(), RKey: peerMR.RKey(),
		}})
		if err != nil {
			return err
		}
		var wc [1]verbs.WC
		_, err = verbs.Drain(dev, cq, wc[:], time.Second)
		fmt.Println(wc[0].WRID, wc[0].Status, wc[0].ByteLen)
		return err
	}))
	s := dev.Stats()
	fmt.Println(s.Segments, "segments, RTT samples:", s.Samples)
	// Output:
	// 1 success 1048576
	// 64 segments, RTT samples: 64
}
