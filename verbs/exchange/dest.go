package exchange

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/verbs"
)

// destSize is the length of an address message.
const destSize = 108

// shortDest is its length on an InfiniBand link, where perftest leaves the GID out.
const shortDest = 59

// binaryDestSize is the length of an address message over rdma_cm: LID, reads, QPN,
// PSN and R_Key in 32 bits each, a gap of as many, the address, the GID, the SRQ
// number and the index of the GID; big-endian.
const binaryDestSize = 56

// Dest is one end's message about one of its queue pairs.
type Dest struct {
	LID      uint16 // 0 on Ethernet
	OutReads uint16 // reads and atomics that it answers at a time; perftest sends 1 where there are none
	QPN      uint32 // 24 bits
	PSN      uint32 // the first that it sends, 24 bits
	RKey     uint32
	VAddr    uint64 // where the other end writes and reads
	GID      netip.Addr
	SRQN     uint32
}

// Endpoint is the part that a connection needs.
func (d *Dest) Endpoint() verbs.Endpoint {
	return verbs.Endpoint{GID: d.GID, LID: d.LID, QPN: d.QPN, PSN: d.PSN}
}

// AppendText appends the message that carries d. It fails if a number is too wide
// or the GID is not set.
func (d *Dest) AppendText(b []byte) ([]byte, error) {
	if d.QPN > 0xffffff || d.PSN > 0xffffff || !d.GID.IsValid() {
		return b, fmt.Errorf("QPN %#x, PSN %#x, GID %v: numbers of 24 bits and an address are needed", d.QPN, d.PSN, d.GID)
	}
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:", d.LID, d.OutReads, d.QPN, d.PSN, d.RKey, d.VAddr)
	for _, x := range d.GID.As16() {
		b = fmt.Appendf(b, "%02x:", x)
	}
	return fmt.Appendf(b, "%08x:\x00", d.SRQN), nil
}

// AppendBinary appends the message that carries d over rdma_cm.
func (d *Dest) AppendBinary(b []byte) ([]byte, error) {
	if d.QPN > 0xffffff || d.PSN > 0xffffff || !d.GID.IsValid() {
		return b, fmt.Errorf("QPN %#x, PSN %#x, GID %v: numbers of 24 bits and an address are needed", d.QPN, d.PSN, d.GID)
	}
	for _, v := range [...]uint32{uint32(d.LID), uint32(d.OutReads), d.QPN, d.PSN, d.RKey, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = binary.BigEndian.AppendUint64(b, d.VAddr)
	gid := d.GID.As16()
	b = append(b, gid[:]...)
	b = binary.BigEndian.AppendUint32(b, d.SRQN)
	return binary.BigEndian.AppendUint32(b, 0), nil // the index of the GID, which means nothing elsewhere
}

// parseBinaryDest reads an address message of binaryDestSize bytes.
func parseBinaryDest(b []byte) (Dest, error) {
	if len(b) != binaryDestSize {
		return Dest{}, fmt.Errorf("%w: an address has %d bytes, not %d", ErrProtocol, binaryDestSize, len(b))
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	if word(0) > 0xffff || word(4) > 0xffff || word(8) > 0xffffff || word(12) > 0xffffff {
		return Dest{}, fmt.Errorf("%w: expected an address, got %s", ErrProtocol, quote(b))
	}
	return Dest{
		LID: uint16(word(0)), OutReads: uint16(word(4)), QPN: word(8), PSN: word(12), RKey: word(16),
		VAddr: binary.BigEndian.Uint64(b[24:]), GID: netip.AddrFrom16([16]byte(b[32:48])).Unmap(), SRQN: word(48),
	}, nil
}

// parseDest reads an address message of destSize bytes.
func parseDest(b []byte) (Dest, error) {
	var d Dest
	if len(b) != destSize {
		return d, fmt.Errorf("%w: an address has %d bytes, not %d", ErrProtocol, destSize, len(b))
	}
	p := parser{rest: b}
	d.LID = uint16(p.number(4))
	d.OutReads = uint16(p.number(4))
	d.QPN = uint32(p.number(6))
	d.PSN = uint32(p.number(6))
	d.RKey = uint32(p.number(8))
	d.VAddr = p.number(16)
	var gid [16]byte
	for i := range gid {
		gid[i] = byte(p.number(2))
	}
	d.SRQN = uint32(p.number(8))
	if p.bad || p.rest[0] != 0 {
		return Dest{}, fmt.Errorf("%w: expected an address, got %s", ErrProtocol, quote(b))
	}
	d.GID = netip.AddrFrom16(gid).Unmap()
	return d, nil
}

// readAddress reads the bytes of an address message that is no short one.
func (c *Conn) readAddress() ([]byte, error) {
	if b := c.ahead; b != nil {
		c.ahead = nil
		return b, nil
	}
	b := make([]byte, destSize)
	if err := c.read("address", b[:shortDest]); err != nil {
		return nil, err
	}
	if b[shortDest-1] == 0 {
		return nil, c.errorf("address", ErrProtocol, "the other end gives no GID, so it is on InfiniBand and not on Ethernet; give it one with its flag -x")
	}
	return b, c.read("address", b[shortDest:])
}

// parser takes fields of fixed width, each with its colon.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) number(digits int) uint64 {
	var raw [8]byte
	n, err := hex.Decode(raw[:], p.rest[:digits])
	if err != nil || p.rest[digits] != ':' {
		p.bad = true
	}
	p.rest = p.rest[digits+1:]
	var v uint64
	for _, x := range raw[:n] {
		v = v<<8 | uint64(x)
	}
	return v
}

// Swap swaps addresses. Once the queue pairs are connected it is the barrier of
// perftest: an end that has sent its address has got so far.
func (c *Conn) Swap(local Dest) (Dest, error) {
	form := local.AppendText
	if c.binary {
		form = local.AppendBinary
	}
	out, err := form(make([]byte, 0, destSize))
	if err != nil {
		return Dest{}, c.errorf("address", verbs.ErrInvalid, "%v", err)
	}
	var remote Dest
	err = c.swap("address", out, func() (err error) {
		remote, err = c.readDest()
		return err
	})
	return remote, err
}

func (c *Conn) readDest() (Dest, error) {
	if c.binary {
		b := make([]byte, binaryDestSize)
		if err := c.read("address", b); err != nil {
			return Dest{}, err
		}
		d, err := parseBinaryDest(b)
		if err != nil {
			err = c.errorf("address", err, "does it run the same test, with the same flags?")
		}
		return d, err
	}
	b, err := c.readAddress()
	if err != nil {
		return Dest{}, err
	}
	if n, ok := parseRenewal(b); ok {
		if c.renewals == 0 {
			return Dest{}, c.errorf("address", ErrProtocol, "%v, and this one makes none; does it have the same flags?", ErrRenewal)
		}
		c.asked = n
		return Dest{}, c.errorf("address", ErrRenewal, "")
	}
	d, err := parseDest(b)
	if err != nil {
		return Dest{}, c.errorf("address", err, "does it run the same test, with the same flags?")
	}
	return d, nil
}
