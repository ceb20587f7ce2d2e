// Readback writes into the memory of a peer, paced, and reads it back. Both ends are in one
// process here: readback [CLIENT SERVER], such as soft:127.0.0.1 soft:127.0.0.2.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	_ "github.com/sluice-rdma/sluice/cc/all" // the rate engines
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/peer"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs" // devices sim:NETWORK/HOST
	_ "github.com/sluice-rdma/sluice/verbs/softroce" // devices soft:INTERFACE
)

func main() {
	devices := append(os.Args[1:], "sim:lab/h0", "sim:lab/h1")
	if err := run(context.Background(), devices[0], devices[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client, server string, out io.Writer) error {
	a, errA := paced.Open(client, "timely")
	b, errB := verbs.Open(server)
	l, errL := peer.Listen(ctx, "127.0.0.1:0")
	if err := errors.Join(errA, errB, errL); err != nil {
		return err
	}
	want := bytes.Repeat([]byte("sluice"), 200_000)
	write := func() error {
		defer func() { _ = l.Close() }() // no other client comes
		c, err := peer.Dial(ctx, a, l.Addr().String(), bytes.Clone(want))
		if err != nil {
			return err
		}
		start := a.Now()
		err = c.Write(ctx, 0, 0, len(want))
		fmt.Fprintf(out, "%d bytes written in %v\n", len(want), a.Now()-start)
		clear(c.Buffer)
		err = errors.Join(err, c.Read(ctx, 0, 0, len(want)))
		fmt.Fprintln(out, "the bytes that came back are the same:", bytes.Equal(c.Buffer, want))
		return errors.Join(err, c.Close())
	}
	serve := func() error {
		c, err := l.Accept(ctx, b, make([]byte, len(want)))
		if err != nil {
			return err
		}
		return errors.Join(c.Wait(ctx), c.Close())
	}
	return errors.Join(verbs.Run(a, write, serve), a.Close(), b.Close())
}
