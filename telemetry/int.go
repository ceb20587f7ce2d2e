package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// Per-hop INT over UDP: behind the UDP header comes a shim of four bytes, as P4-INT
// 2.1 has it (section 5.6.2), then a record of eight bytes for each hop, the latest
// hop first, then the BTH. The record is HPCC's (figure 4) and PowerTCP's (section
// 3.6). While it is there the UDP destination port is INTPort, lengths are larger,
// and the ICRC is wrong; a sink takes it off and puts everything back.

// INTPort is the UDP destination port of packets with INT unless the network says
// otherwise. P4-INT leaves it to the network; this one is from the range that IANA
// leaves to private use.
const INTPort = 54791

// Fields of the shim. Its type is one that P4-INT 2.1 leaves unassigned: what follows
// is not INT-MD's header but the records at once.
const (
	shimType      = 4    // P4-INT: 1 INT-MD, 2 a destination's INT, 3 INT-MX
	shimNPT       = 1    // the shim holds the original UDP destination port
	shimOverflow  = 0x02 // of the two reserved bits: there were more than MaxHops hops
	shimReflected = 0x01 // on its way back to the sender: no switch adds to it
	hopWords      = PerHopBytes / 4
)

// INT is a view over a shim and its records: what ParseINT returns.
type INT []byte

// Errors of ParseINT.
var (
	ErrNoINT    = errors.New("telemetry: no INT shim of this form")
	ErrShortINT = errors.New("telemetry: the packet ends within its INT records")
)

// ParseINT reads the payload of a UDP datagram for the INT port. rest is what
// follows the records: a RoCEv2 packet from its BTH on. Both share b's memory.
func ParseINT(b []byte) (v INT, rest []byte, err error) {
	if len(b) < PerHopBaseBytes || b[0]>>4 != shimType || b[0]>>2&3 != shimNPT ||
		b[1]%hopWords != 0 || b[1] > MaxHops*hopWords {
		return nil, nil, ErrNoINT
	}
	n := PerHopBaseBytes + 4*int(b[1])
	if len(b) < n {
		return nil, nil, ErrShortINT
	}
	return INT(b[:n]), b[n:], nil
}

// Hops returns the number of records, at most MaxHops.
func (v INT) Hops() int { return int(v[1]) / hopWords }

// Hop returns the record of the i-th hop in path order, i below Hops.
func (v INT) Hop(i int) HopRecord {
	return HopRecord(binary.BigEndian.Uint64(v[len(v)-PerHopBytes*(i+1):]))
}

// Overflow says that later hops are missing.
func (v INT) Overflow() bool { return v[0]&shimOverflow != 0 }

// Reflected says that the records are those of the other direction, which a
// receiver sends back.
func (v INT) Reflected() bool { return v[0]&shimReflected != 0 }

// Port returns the UDP destination port that the packet had.
func (v INT) Port() uint16 { return binary.BigEndian.Uint16(v[2:]) }

// PutINT writes a shim without records to b, which must have room for
// PerHopBaseBytes, and returns its length. port is the UDP destination port that
// INTPort takes the place of.
func PutINT(b []byte, port uint16) int {
	b[0], b[1] = shimType<<4|shimNPT<<2, 0
	binary.BigEndian.PutUint16(b[2:], port)
	return PerHopBaseBytes
}

// PutReflected writes v, which was received, as a receiver sends it back, and
// returns the length, len(v), for which b must have room. The rest of an acknowledgement follows.
func (v INT) PutReflected(b []byte, port uint16) int {
	n := copy(b[:len(v)], v)
	b[0] |= shimReflected
	binary.BigEndian.PutUint16(b[2:], port)
	return n
}

// PushHop is what a transit switch does to b, which begins with a shim and has
// PerHopBytes of room behind end, where the packet ends: it puts a record before
// the others. It returns the packet's new end, which is the old one if nothing was
// added: at a reflected shim, and at a full one, which is marked.
func PushHop(b []byte, end int, r HopRecord) int {
	v, _, err := ParseINT(b[:end])
	switch {
	case err != nil || v.Reflected():
		return end
	case v.Hops() == MaxHops:
		MarkFull(b)
		return end
	}
	copy(b[PerHopBaseBytes+PerHopBytes:end+PerHopBytes], b[PerHopBaseBytes:end])
	binary.BigEndian.PutUint64(b[PerHopBaseBytes:], uint64(r))
	b[1] += hopWords
	return end + PerHopBytes
}

// MarkFull is what a switch does to b, which begins with a shim, if it has no room for
// its record: it sets the overflow bit.
func MarkFull(b []byte) { b[0] |= shimOverflow }

// HopRecord is a Hop in 64 bits: rate 4, timestamp 24, txBytes 20, qLen 16.
type HopRecord uint64

// Units of a record's fields.
const (
	HopTimeUnit = units.Nanosecond
	HopTxUnit   = 128 // bytes
	HopQUnit    = 80  // bytes: Tofino's cell
)

const (
	rateBits = 4
	timeBits = 24
	txBits   = 20
	qBits    = 16

	qShift    = 0
	txShift   = qShift + qBits
	timeShift = txShift + txBits
	rateShift = timeShift + timeBits
)

// Wraps of a record's fields: the time after which it repeats, and the bytes.
const (
	HopTimeWrap = HopTimeUnit << timeBits                // 16.8 ms
	HopTxWrap   = units.Bytes(HopTxUnit) << txBits       // 134 MB: 2.7 ms at 400 Gbps
	HopQMax     = units.Bytes(HopQUnit) * (1<<qBits - 1) // 5.2 MB; longer queues read as this
	NoRate      = 1<<rateBits - 1                        // the code of a rate that has none
)

// RateCode returns the port's rate as a code of the network's table.
func (r HopRecord) RateCode() uint8 { return uint8(r >> rateShift) }

// Timestamp returns the time in HopTimeUnit, modulo 2^24.
func (r HopRecord) Timestamp() uint32 { return uint32(r>>timeShift) & (1<<timeBits - 1) }

// TxBytes returns the bytes sent in HopTxUnit, modulo 2^20.
func (r HopRecord) TxBytes() uint32 { return uint32(r>>txShift) & (1<<txBits - 1) }

// QLen returns the queue in HopQUnit.
func (r HopRecord) QLen() uint16 { return uint16(r >> qShift) }

// INTFormat is what senders, switches and receivers of a network have to agree on
// besides the layout. It is not changed once in use and may then be shared.
type INTFormat struct {
	Port uint16 // UDP destination port of packets with INT
	// Rates are what the 4 bits of rate stand for; 0 is a code without a rate, as the
	// last, NoRate, always is.
	Rates [NoRate]units.Rate
}

// DefaultINTFormat returns the format with INTPort and the speeds of Ethernet: codes
// 0 to 4 are those that HPCC's simulator has.
func DefaultINTFormat() INTFormat {
	return INTFormat{Port: INTPort, Rates: [NoRate]units.Rate{
		25 * units.Gbps, 50 * units.Gbps, 100 * units.Gbps, 200 * units.Gbps, 400 * units.Gbps,
		800 * units.Gbps, 1600 * units.Gbps, 10 * units.Gbps, 40 * units.Gbps,
		units.Gbps, 2500 * units.Mbps, 5 * units.Gbps, 100 * units.Mbps,
	}}
}

// Validate says what is wrong with f.
func (f *INTFormat) Validate() error {
	if f.Port == 0 {
		return errors.New("telemetry: the UDP port of INT is 0")
	}
	for c, r := range f.Rates {
		if r < 0 {
			return fmt.Errorf("telemetry: INT's rate code %d stands for %v", c, r)
		}
	}
	return nil
}

// RateCode returns the code of a rate, or NoRate if the table has none.
func (f *INTFormat) RateCode(r units.Rate) uint8 {
	for c, have := range f.Rates {
		if have == r && r > 0 {
			return uint8(c)
		}
	}
	return NoRate
}

// Record returns what a switch writes for a hop: everything rounded down, time and
// bytes wrapped, a queue that is too long as HopQMax.
func (f *INTFormat) Record(h Hop) HopRecord {
	return HopRecord(uint64(f.RateCode(h.Rate))<<rateShift |
		uint64(h.Time/HopTimeUnit)&(1<<timeBits-1)<<timeShift |
		uint64(h.TxBytes/HopTxUnit)&(1<<txBits-1)<<txShift |
		uint64(min(max(h.QLen, 0), HopQMax)/HopQUnit)<<qShift)
}

// HopReader undoes the wraps of one path's records. The zero value is ready. A
// sender has one for each queue pair, or whatever else takes one path.
type HopReader struct {
	hops [MaxHops]hopState
}

type hopState struct {
	seen bool
	last HopRecord
	at   units.Time // when last was read, on the reader's clock
	hop  Hop        // last without its wraps
}

// Read sets s to the hops of v in path order. now is the reader's clock, which
// tells how often a timestamp has wrapped since the last Read: of the times that it
// can stand for the nearest one is taken, so that the packets' delays may differ by
// half a wrap, 8 ms. A record older than the last one is read as such.
//
// The first record of a hop begins at the time and the bytes that it says. Read
// reports false if there is nothing to take differences from: a hop was not there
// in the last Read, has a rate without a code, or could have sent more than HopTxWrap
// since. The hops are set all the same and the next Read goes on from them.
func (r *HopReader) Read(f *INTFormat, v INT, now units.Time, s *Stack) bool {
	*s = Stack{N: uint8(v.Hops()), Overflow: v.Overflow()}
	ok := true
	for i := range s.N {
		h, p := &s.Hops[i], &r.hops[i]
		rec := v.Hop(int(i))
		h.QLen = units.Bytes(rec.QLen()) * HopQUnit
		if c := rec.RateCode(); c < NoRate {
			h.Rate = f.Rates[c]
		}
		if !p.seen {
			h.Time = units.Time(rec.Timestamp()) * HopTimeUnit
			h.TxBytes = units.Bytes(rec.TxBytes()) * HopTxUnit
		} else {
			dt := units.Time((rec.Timestamp()-p.last.Timestamp())&(1<<timeBits-1)) * HopTimeUnit
			// Whole wraps that passed besides, rounded to the nearest.
			if gap := now - p.at - dt; gap > -HopTimeWrap/2 {
				dt += (gap + HopTimeWrap/2) / HopTimeWrap * HopTimeWrap
			} else {
				dt -= HopTimeWrap // an older record than the last: its packet was overtaken
			}
			tx := units.Bytes((rec.TxBytes()-p.last.TxBytes())&(1<<txBits-1)) * HopTxUnit
			if dt < 0 && tx > 0 {
				tx -= HopTxWrap
			}
			h.Time, h.TxBytes = p.hop.Time+dt, p.hop.TxBytes+tx
			if dt > 0 && h.Rate > 0 && h.Rate.BytesIn(dt) >= HopTxWrap {
				ok = false
			}
		}
		ok = ok && p.seen && h.Rate > 0
		*p = hopState{seen: true, last: rec, at: now, hop: *h}
	}
	for i := int(s.N); i < MaxHops; i++ {
		r.hops[i].seen = false
	}
	return ok
}

// SetBack sets back the reader's clock, as units.Time.SetBack does.
func (r *HopReader) SetBack(by units.Time) {
	for i := range r.hops {
		r.hops[i].at = r.hops[i].at.SetBack(by)
	}
}

// Near reads a record without a reader's memory, where what it was written from is
// known about as well: within half a wrap of the truth. A model's switches are
// read so.
func (f *INTFormat) Near(r HopRecord, truth Hop) Hop {
	h := Hop{QLen: units.Bytes(r.QLen()) * HopQUnit}
	if c := r.RateCode(); c < NoRate {
		h.Rate = f.Rates[c]
	}
	h.Time = nearest(truth.Time, units.Time(r.Timestamp())*HopTimeUnit, HopTimeWrap)
	h.TxBytes = nearest(truth.TxBytes, units.Bytes(r.TxBytes())*HopTxUnit, HopTxWrap)
	return h
}

// nearest returns what is v modulo wrap and nearest to truth.
func nearest[T ~int64](truth, v, wrap T) T {
	d := (v - truth) % wrap // of truth 0 or more, above -wrap
	switch {
	case d >= wrap/2:
		d -= wrap
	case d < -wrap/2:
		d += wrap
	}
	return truth + d
}
