package exchange

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Version is the version of perftest whose messages this package sends.
const Version = "6.06"

// oldest is the first version that has this exchange.
const oldest = 5.70

// Bounds on what the other end may ask for: it decides the size of a buffer.
const (
	maxCycleBuffer = 16 << 20
	maxCacheLine   = 4096
)

// Greeting holds what two ends settle before they make their queue pairs.
type Greeting struct {
	// Version is that of the program, at most 15 characters that begin with a
	// decimal number.
	Version string
	// CycleBuffer is the size of a buffer in bytes, 1 B to 16 MiB; a page in perftest.
	// Messages of up to half that size walk through the buffer, in steps of whole
	// cache lines.
	CycleBuffer int
	CacheLine   int // bytes, 1 to 4096
	MTU         ib.MTU
}

// DefaultGreeting returns what perftest says on most machines: pages of 4096
// bytes, cache lines of 64.
func DefaultGreeting(mtu ib.MTU) Greeting {
	return Greeting{Version: Version, CycleBuffer: 4096, CacheLine: 64, MTU: mtu}
}

// Greet swaps greetings and returns what both ends then use: the other's version,
// the larger buffer and line, the smaller MTU.
func (c *Conn) Greet(local Greeting) (Greeting, error) {
	var g Greeting
	var out, in [16]byte
	if len(local.Version) >= len(out) || !local.MTU.Valid() {
		return g, c.errorf("version", verbs.ErrInvalid, "the version %q or the path MTU %d can't be told to perftest", local.Version, local.MTU)
	}
	copy(out[:], local.Version)
	err := c.swap("version", out[:], func() (err error) {
		if err = c.read("version", in[:]); err == nil {
			g.Version, err = c.parseVersion(in[:])
		}
		return err
	})
	if err != nil {
		return g, err
	}
	if g.CycleBuffer, err = c.swapSize("cycle buffer", local.CycleBuffer, maxCycleBuffer); err != nil {
		return g, err
	}
	if g.CacheLine, err = c.swapSize("cache line", local.CacheLine, maxCacheLine); err != nil {
		return g, err
	}
	err = c.swap("path MTU", []byte{mtuCode(local.MTU), 0}, func() error {
		var b [2]byte
		if err := c.read("path MTU", b[:]); err != nil {
			return err
		}
		if b[0] < '1' || b[0] > '5' || b[1] != 0 {
			return c.errorf("path MTU", ErrProtocol, "%q, expected a digit from 1 to 5 and a NUL", b[:])
		}
		g.MTU = min(local.MTU, 128<<(b[0]-'0'))
		return nil
	})
	return g, err
}

// mtuCode is the digit of ibv_mtu: 1 for 256 up to 5 for 4096.
func mtuCode(m ib.MTU) byte {
	code := byte('0')
	for m > 128 {
		m >>= 1
		code++
	}
	return code
}

func (c *Conn) parseVersion(b []byte) (string, error) {
	text, padding, ok := bytes.Cut(b, []byte{0})
	v := string(text)
	for _, r := range padding {
		ok = ok && r == 0
	}
	// The number is what atof reads of it: "5.70" of "5.70-rc1".
	number := v
	if end := strings.IndexFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		number = v[:end]
	}
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case !ok || err != nil || !printable(v):
		return "", c.errorf("version", ErrProtocol, "%s is no version; is the other end perftest 4.5 or newer, or sluice perf?", quote(b))
	case f < oldest:
		return "", c.errorf("version", ErrProtocol, "the other end has version %s, and its messages changed with 5.70: use perftest 4.5 or newer", v)
	}
	return v, nil
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r > '~' {
			return false
		}
	}
	return true
}

// swapSize swaps a size and returns the larger.
func (c *Conn) swapSize(what string, local, most int) (int, error) {
	agreed := local
	err := c.swap(what, binary.BigEndian.AppendUint32(nil, uint32(local)), func() error {
		var b [4]byte
		if err := c.read(what, b[:]); err != nil {
			return err
		}
		remote := int32(binary.BigEndian.Uint32(b[:]))
		if remote < 1 || int(remote) > most {
			return c.errorf(what, ErrProtocol, "%d bytes are not between 1 and %d", remote, most)
		}
		agreed = max(local, int(remote))
		return nil
	})
	return agreed, err
}
