package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Remote is the buffer of the other end, as its device names it.
type Remote struct {
	Addr   uint64
	RKey   uint32
	Length int // bytes
}

// Conn is one end of a connection. Its objects may be used directly; but for what Conn's
// own methods post, SendCQ has to be left to them while one of them waits. One goroutine at a
// time may call them; Wait may be called from another.
type Conn struct {
	Device         verbs.Device
	PD             verbs.PD
	MR             verbs.MR // of Buffer
	SendCQ, RecvCQ verbs.CQ
	QP             verbs.QP
	Buffer         []byte
	Remote         Remote

	tcp     net.Conn
	last    uint64 // the WRID of the last request of Do
	longest int    // message, of the port; 0 if not known
}

// Write copies n bytes of Buffer, from local on, into the other end's buffer from remote
// on, by RDMA Write, and waits until they are there. More bytes than fit into a message
// (verbs.PortAttr.MaxMsgSize) go by several Writes, one after the other; if one fails, those
// after it are not posted.
func (c *Conn) Write(ctx context.Context, local, remote, n int) error {
	return c.copy(ctx, ib.WRRDMAWrite, local, remote, n)
}

// Read copies n bytes of the other end's buffer, from remote on, into Buffer from local on,
// by RDMA Read, as Write does.
func (c *Conn) Read(ctx context.Context, local, remote, n int) error {
	return c.copy(ctx, ib.WRRDMARead, local, remote, n)
}

func (c *Conn) copy(ctx context.Context, op ib.WROpcode, local, remote, n int) error {
	for _, b := range []struct {
		what      string
		at, bytes int
	}{{"this end's buffer", local, len(c.Buffer)}, {"the other end's buffer", remote, c.Remote.Length}} {
		if b.at < 0 || n < 0 || n > b.bytes-b.at {
			return verbs.Errorf("post_send", c.object(), verbs.ErrInvalid, "%d bytes from %d on: %s has %d", n, b.at, b.what, b.bytes)
		}
	}
	most := ib.MaxMessage
	if c.longest > 0 {
		most = min(most, c.longest)
	}
	for {
		k := min(n, most)
		if err := c.Do(ctx, verbs.SendWR{
			Opcode: op, SGL: []verbs.SGE{verbs.SGEOf(c.MR, local, k)}, RemoteAddr: c.Remote.Addr + uint64(remote), RKey: c.Remote.RKey,
		}); err != nil {
			return err
		}
		if n -= k; n == 0 {
			return nil
		}
		local, remote = local+k, remote+k
	}
}

// Do posts a request, whose WRID and SendSignaled it sets, and polls until it is complete
// or ctx is done. The request is still under way then, and its buffer the device's. A
// request that fails gives a verbs.StatusError; the connection is of no use then.
func (c *Conn) Do(ctx context.Context, wr verbs.SendWR) error {
	c.last++
	wr.WRID = c.last
	wr.Flags |= verbs.SendSignaled
	if _, err := c.QP.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	var wc [1]verbs.WC
	for {
		switch n, err := c.SendCQ.Poll(wc[:]); {
		case err != nil:
			return err
		case n > 0 && wc[0].Status != ib.WCSuccess:
			return verbs.Errorf("poll_cq", c.object(), &verbs.StatusError{WC: wc[0]}, "%v", wr.Opcode)
		case n > 0 && wc[0].WRID == c.last:
			return nil
		case n == 0 && ctx.Err() != nil: // of a request before this one there may be completions
			return verbs.Errorf("poll_cq", c.object(), ctx.Err(), "%v", wr.Opcode)
		}
	}
}

func (c *Conn) object() string { return fmt.Sprintf("qp %#x of %s", c.QP.Num(), c.Device.Name()) }

// Wait waits until the other end has closed its side, or ctx is done, whose error it then
// returns. What the other end has written is then in Buffer.
func (c *Conn) Wait(ctx context.Context) error {
	var err error
	verbs.Blocking(c.Device, func() {
		if err = c.tcp.SetReadDeadline(time.Time{}); err != nil {
			return
		}
		defer onDone(ctx, func() { _ = c.tcp.SetReadDeadline(past) })()
		_, err = io.Copy(io.Discard, c.tcp)
	})
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return verbs.Errorf("wait", c.tcp.RemoteAddr().String(), err, "")
	}
	// To Go the device's writes come before what follows a call of the device.
	_, err = c.QP.Query()
	return err
}

// Close frees what the connection has, and lets the other end know. Buffer is the caller's
// again.
func (c *Conn) Close() error {
	var errs []error
	if c.QP != nil {
		errs = append(errs, c.QP.Close())
	}
	for _, cq := range []verbs.CQ{c.SendCQ, c.RecvCQ} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if c.MR != nil {
		errs = append(errs, c.MR.Close())
	}
	if c.PD != nil {
		errs = append(errs, c.PD.Close())
	}
	return errors.Join(append(errs, c.tcp.Close())...)
}
