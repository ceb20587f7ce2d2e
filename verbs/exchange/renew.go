package exchange

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"syscall"
)

// ErrRenewal is the cause of Swap's error where the other end has called Renew in place of it. The
// exchange goes on: call Renew, too.
var ErrRenewal = errors.New("the other end asks for new connections")

// renewal begins a message that has an address's length and no perftest sends. The number of the
// renewal follows, in hexadecimal, and bytes up to the length.
const renewal = "renewal "

func appendRenewal(n uint32) []byte {
	b := fmt.Appendf(make([]byte, 0, destSize), "%s%08x", renewal, n)
	// No NUL where a short address ends.
	b = append(b, bytes.Repeat([]byte{' '}, destSize-1-len(b))...)
	return append(b, 0)
}

func parseRenewal(b []byte) (n uint32, ok bool) {
	digits, ok := bytes.CutPrefix(b, []byte(renewal))
	if !ok || len(digits) < 8 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(digits[:8]), 16, 32)
	return uint32(v), err == nil
}

// Renew waits until both ends have called it, to make connections anew. Either may be the first: the
// other learns of it by ErrRenewal or Asked. A barrier that one end had begun is void, and to be
// repeated. The first renewal has to come before the first address: it says that both ends know of
// renewals, which perftest does not. Over rdma_cm there are none.
func (c *Conn) Renew() error {
	n := c.renewals + 1
	if err := c.write("renewal", appendRenewal(n)); err != nil {
		return err
	}
	for c.ahead = nil; c.asked < n; {
		b := make([]byte, destSize)
		if err := c.read("renewal", b); err != nil {
			return err
		}
		asked, ok := parseRenewal(b)
		switch {
		case ok && asked == n:
			c.asked = n
		case ok:
			return c.errorf("renewal", ErrProtocol, "expected number %d, got %d", n, asked)
		case n == 1:
			return c.errorf("renewal", ErrProtocol, "the other end makes no connections anew; does it have the same flags?")
		}
	}
	c.renewals = n
	return nil
}

// Asked reports whether the other end has called Renew and waits. It does not block for longer than
// the rest of a message takes whose beginning has arrived.
func (c *Conn) Asked() (bool, error) {
	if c.asked > c.renewals {
		return true, nil
	}
	if c.ahead != nil || !c.pending() {
		return false, nil
	}
	b := make([]byte, destSize)
	if err := c.read("renewal", b); err != nil {
		return false, err
	}
	if n, ok := parseRenewal(b); ok {
		c.asked = n
		return true, nil
	}
	c.ahead = b // the other end's barrier, for the next Swap
	return false, nil
}

// pending reports whether something can be read.
func (c *Conn) pending() bool {
	switch conn := c.c.(type) {
	case interface{ Pending() bool }:
		return conn.Pending() // a connection that may not be read from elsewhere
	case *unread:
		return len(conn.first) > 0 || arrived(conn.TCPConn)
	case syscall.Conn:
		return arrived(conn)
	}
	return false
}

// SwapCount swaps a number.
func (c *Conn) SwapCount(n uint64) (uint64, error) {
	err := c.swap("count", binary.BigEndian.AppendUint64(nil, n), func() error {
		var b [8]byte
		err := c.read("count", b[:])
		n = binary.BigEndian.Uint64(b[:])
		return err
	})
	return n, err
}
