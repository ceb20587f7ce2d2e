// Readback writes a file's worth of bytes into the memory of a peer by RDMA
// Write, reads them back by RDMA Read, and checks that they are the same.
//
//	go run ./examples/readback
//	go run ./examples/readback -client sim:lab/h3 -server sim:lab/h5 -bytes 4194304 -cc timely
//
// Both ends are in one process, so that it runs by itself; a real application
// would exchange the three numbers of verbs.Endpoint and the region's address
// and key over a connection of its own. Nothing in it knows which provider the
// devices come from.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "readback:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("readback", flag.ContinueOnError)
	clientName := flags.String("client", "sim:lab/h0", "device that writes and reads")
	serverName := flags.String("server", "sim:lab/h1", "device whose memory is written")
	size := flags.Int("bytes", 1<<20, "how many bytes")
	engine := flags.String("cc", "timely", "rate engine that paces the client; none for no pacing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *size < 1 {
		return fmt.Errorf("-bytes is %d: give at least 1", *size)
	}

	server, err := newEnd(*serverName, "", *size)
	if err != nil {
		return err
	}
	client, err := newEnd(*clientName, *engine, *size)
	if err != nil {
		return err
	}
	if err := verbs.ConnectRC(server.qp, server.here, client.here, verbs.DefaultRC()); err != nil {
		return err
	}
	if err := verbs.ConnectRC(client.qp, client.here, server.here, verbs.DefaultRC()); err != nil {
		return err
	}

	want := make([]byte, *size)
	for i := range want {
		want[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	// Run makes the function an application of the device: on a simulated one
	// that is what lets time pass while it polls.
	return verbs.Run(client.dev, func() error {
		copy(client.buf, want)
		took, err := client.do(ib.WRRDMAWrite, server.mr)
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		fmt.Fprintf(out, "wrote %d bytes in %v\n", *size, took)
		clear(client.buf)
		if took, err = client.do(ib.WRRDMARead, server.mr); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		fmt.Fprintf(out, "read %d bytes in %v\n", *size, took)
		if !bytes.Equal(client.buf, want) {
			return fmt.Errorf("the bytes that came back are not those that were written")
		}
		fmt.Fprintln(out, "the bytes are the same")
		return nil
	})
}

// end is one end of the connection.
type end struct {
	dev  verbs.Device
	cq   verbs.CQ
	qp   verbs.QP
	mr   verbs.MR
	buf  []byte
	here verbs.Endpoint
}

// newEnd opens a device and makes what an end needs on it. With an engine the
// device's queue pairs are paced; the application can't tell but by the clock.
func newEnd(name, engine string, size int) (*end, error) {
	e := &end{buf: make([]byte, size)}
	var err error
	if e.dev, err = verbs.Open(name); err != nil {
		return nil, err
	}
	if engine != "" {
		c := paced.DefaultConfig()
		c.Scheme = engine
		if e.dev, err = paced.Wrap(e.dev, c); err != nil {
			return nil, err
		}
	}
	pd, err := e.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	if e.mr, err = pd.RegMR(e.buf, ib.AccessLocalWrite|ib.AccessRemoteRead|ib.AccessRemoteWrite); err != nil {
		return nil, err
	}
	if e.cq, err = e.dev.CreateCQ(verbs.CQInitAttr{CQE: 16}); err != nil {
		return nil, err
	}
	if e.qp, err = pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	}); err != nil {
		return nil, err
	}
	gid, err := e.dev.GID(1, 0)
	e.here = verbs.Endpoint{GID: gid, QPN: e.qp.Num()}
	return e, err
}

// do carries one operation between the whole buffer and the peer's region, and
// polls until it is done.
func (e *end) do(op ib.WROpcode, peer verbs.MR) (time.Duration, error) {
	start := e.dev.Now()
	_, err := e.qp.PostSend([]verbs.SendWR{{
		WRID: 1, Opcode: op, Flags: verbs.SendSignaled,
		SGL:        []verbs.SGE{verbs.SGEOf(e.mr, 0, len(e.buf))},
		RemoteAddr: peer.Addr(), RKey: peer.RKey(),
	}})
	if err != nil {
		return 0, err
	}
	if _, err := verbs.Drain(e.dev, e.cq, make([]verbs.WC, 1), 10*time.Second); err != nil {
		return 0, err
	}
	return e.dev.Now() - start, nil
}
