package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// client works on a server's table, on one goroutine.
type client struct {
	conn  net.Conn
	dev   verbs.Device
	pd    verbs.PD
	cq    verbs.CQ
	qp    verbs.QP
	mr    verbs.MR
	buf   []byte // a slot
	id    uint64 // what it locks with
	table hello

	ends settings
	lost int // connections that were made anew
}

// settings say where a client connects, and how.
type settings struct {
	device, engine, server string
	gid                    int
	// reconnect is how long a request may take that loses its connection: it is repeated over a new one. 0 is an error at once.
	reconnect time.Duration
	outage    func(took time.Duration) // told how long such a request took
}

// patience is how long a lock or a torn record may last.
const patience = 5 * time.Second

func dial(ends settings) (*client, error) {
	dev, err := paced.Open(ends.device, ends.engine)
	if err != nil {
		return nil, err
	}
	c := &client{dev: dev, ends: ends, buf: make([]byte, slotBytes), id: uint64(os.Getpid())<<32 | uint64(time.Now().UnixNano()&0xffffffff)}
	if c.pd, err = c.dev.AllocPD(); err != nil {
		return nil, err
	}
	if c.cq, err = c.dev.CreateCQ(verbs.CQInitAttr{CQE: 16}); err != nil {
		return nil, err
	}
	if c.mr, err = c.pd.RegMR(c.buf, ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	return c, c.connect(patience)
}

// connect makes a queue pair and has the server connect it, within a time.
func (c *client) connect(within time.Duration) (err error) {
	if c.qp, err = c.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: c.cq, RecvCQ: c.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1}}); err != nil {
		return err
	}
	if c.conn, err = net.DialTimeout("tcp", c.ends.server, within); err != nil {
		return err
	}
	if err := c.conn.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	end, from, err := endpoint(c.dev, c.ends.gid, c.qp, c.conn)
	if err != nil {
		return err
	}
	me := hello{Endpoint: end, MTU: from.MTU}
	d := json.NewDecoder(io.LimitReader(c.conn, mostHello))
	c.table = hello{}
	if err := d.Decode(&c.table); err != nil {
		return err
	}
	if err := json.NewEncoder(c.conn).Encode(me); err != nil {
		return err
	}
	if err := connect(c.qp, me, c.table, from); err != nil {
		return err
	}
	var ready string
	return errors.Join(d.Decode(&ready), c.conn.SetDeadline(time.Time{}))
}

// disconnect frees what connect has made.
func (c *client) disconnect() (err error) {
	if c.qp != nil {
		err, c.qp = c.qp.Close(), nil
	}
	if c.conn != nil {
		err, c.conn = errors.Join(err, c.conn.Close()), nil
	}
	return err
}

// connectAgain connects anew until a time.
func (c *client) connectAgain(until time.Time) error {
	for {
		err := c.disconnect()
		if err == nil {
			err = c.connect(max(time.Until(until), time.Millisecond))
		}
		if err == nil {
			c.lost++
			return nil
		}
		if time.Now().After(until) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // a server that does not answer signals nobody
	}
}

func (c *client) close() error {
	return errors.Join(c.disconnect(), c.mr.Close(), c.cq.Close(), c.pd.Close(), c.dev.Close())
}

// do carries out one operation on n bytes of the buffer from local on, and of the
// table from remote on. One that loses its connection is repeated, if that is wanted; it may have been carried out before.
func (c *client) do(wr verbs.SendWR, local, n, remote int) error {
	start := time.Now()
	until, before := start.Add(c.ends.reconnect), c.lost
	for {
		err := c.once(wr, local, n, remote)
		if !loses(err) || c.ends.reconnect == 0 {
			if err == nil && c.lost > before {
				c.ends.outage(time.Since(start))
			}
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("the connection was lost again and again for %v: %w", c.ends.reconnect, err)
		}
		if again := c.connectAgain(until); again != nil {
			return fmt.Errorf("%w, and no new connection within %v: %w", err, c.ends.reconnect, again)
		}
	}
}

// loses reports whether a request's error is the loss of its connection.
func loses(err error) bool {
	return errors.Is(err, ib.WCRetryExcErr) || errors.Is(err, ib.WCWRFlushErr)
}

func (c *client) once(wr verbs.SendWR, local, n, remote int) error {
	wr.Flags = verbs.SendSignaled
	wr.SGL = []verbs.SGE{verbs.SGEOf(c.mr, local, n)}
	wr.RemoteAddr, wr.RKey = c.table.Addr+uint64(remote), c.table.RKey
	if _, err := c.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	_, err := verbs.Drain(c.dev, c.cq, make([]verbs.WC, 1), 10*time.Second)
	return err
}

// swap changes the lock of a slot and returns what it was.
func (c *client) swap(slot int, from, to uint64) (uint64, error) {
	err := c.do(verbs.SendWR{Opcode: ib.WRAtomicCmpAndSwp, CompareAdd: from, Swap: to}, 0, lockBytes, slot*slotBytes)
	return binary.NativeEndian.Uint64(c.buf), err // atomics return in the host's order
}

// read fetches a slot's record. Its value is valid until the next call.
func (c *client) read(slot int) (key string, value []byte, err error) {
	if err := c.do(verbs.SendWR{Opcode: ib.WRRDMARead}, lockBytes, slotBytes-lockBytes, slot*slotBytes+lockBytes); err != nil {
		return "", nil, err
	}
	return decode(c.buf[lockBytes:])
}

func (c *client) get(key string) ([]byte, error) {
	for i := range probes {
		slot := place(key, i)
		found, value, err := c.read(slot)
		for start := time.Now(); errors.Is(err, errTorn) && time.Since(start) < patience; {
			found, value, err = c.read(slot)
		}
		switch {
		case err != nil:
			return nil, err
		case found == key:
			return value, nil
		case found == "":
			return nil, fmt.Errorf("%s: %w", key, errAbsent)
		}
	}
	return nil, fmt.Errorf("%s: %w", key, errAbsent)
}

func (c *client) put(key string, value []byte) error {
	for i := range probes {
		slot := place(key, i)
		if err := c.lock(slot); err != nil {
			return err
		}
		found, _, err := c.read(slot)
		// Nobody writes while the lock is held: a torn record is one whose writer
		// died, and is written anew.
		mine := errors.Is(err, errTorn) || err == nil && (found == "" || found == key)
		if mine {
			var n int
			if n, err = encode(c.buf[lockBytes:], key, value); err == nil {
				err = c.do(verbs.SendWR{Opcode: ib.WRRDMAWrite}, lockBytes, n, slot*slotBytes+lockBytes)
			}
		}
		before := c.lost
		if held, unlocked := c.swap(slot, c.id, 0); unlocked != nil || held != c.id && c.lost == before { // a repeated one may find it done
			return errors.Join(err, unlocked, fmt.Errorf("slot %d was not locked any more", slot))
		}
		if mine || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", key, errFull)
}

func (c *client) lock(slot int) error {
	for start := time.Now(); ; {
		switch held, err := c.swap(slot, 0, c.id); {
		case err != nil:
			return err
		case held == 0 || held == c.id: // by a swap before the connection was lost
			return nil
		case time.Since(start) > patience:
			return fmt.Errorf("slot %d has been locked by %#x for %v", slot, held, patience)
		}
	}
}
