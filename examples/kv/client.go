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
}

// patience is how long a lock or a torn record may last.
const patience = 5 * time.Second

func dial(device string, gid int, engine, server string) (*client, error) {
	dev, err := paced.Open(device, engine)
	if err != nil {
		return nil, err
	}
	c := &client{dev: dev, buf: make([]byte, slotBytes), id: uint64(os.Getpid())<<32 | uint64(time.Now().UnixNano()&0xffffffff)}
	if c.pd, err = c.dev.AllocPD(); err != nil {
		return nil, err
	}
	if c.cq, err = c.dev.CreateCQ(verbs.CQInitAttr{CQE: 16}); err != nil {
		return nil, err
	}
	if c.mr, err = c.pd.RegMR(c.buf, ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	if c.qp, err = c.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: c.cq, RecvCQ: c.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1}}); err != nil {
		return nil, err
	}
	if c.conn, err = net.Dial("tcp", server); err != nil {
		return nil, err
	}
	end, from, err := endpoint(c.dev, gid, c.qp, c.conn)
	if err != nil {
		return nil, err
	}
	me := hello{Endpoint: end, MTU: from.MTU}
	d := json.NewDecoder(io.LimitReader(c.conn, mostHello))
	if err := d.Decode(&c.table); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(c.conn).Encode(me); err != nil {
		return nil, err
	}
	if err := connect(c.qp, me, c.table, from); err != nil {
		return nil, err
	}
	var ready string
	return c, d.Decode(&ready)
}

func (c *client) close() error {
	return errors.Join(c.qp.Close(), c.mr.Close(), c.cq.Close(), c.pd.Close(), c.dev.Close(), c.conn.Close())
}

// do carries out one operation on n bytes of the buffer from local on, and of the
// table from remote on.
func (c *client) do(wr verbs.SendWR, local, n, remote int) error {
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
		if held, unlocked := c.swap(slot, c.id, 0); unlocked != nil || held != c.id {
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
		case held == 0:
			return nil
		case time.Since(start) > patience:
			return fmt.Errorf("slot %d has been locked by %#x for %v", slot, held, patience)
		}
	}
}
