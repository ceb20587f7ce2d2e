package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

// Per-hop INT over UDP: behind the UDP header comes a shim, then a record for each hop,
// then the BTH. A form (intLayouts) says where their fields are. While they are there the
// UDP destination port is INTFormat's, lengths are larger, and the ICRC is wrong; a sink
// takes them off and puts everything back.

// INTPort is the UDP destination port of packets with INT unless the network says
// otherwise. P4-INT leaves it to the network; this one is from the range that IANA
// leaves to private use.
const INTPort = 54791

// MaxINTBytes bounds a shim with its records in every form.
const MaxINTBytes = 8 + MaxHops*maxRecordBytes

const maxRecordBytes = 16

// INT is a view over a shim and its records: what INTForm.Parse returns.
type INT []byte

// Errors of Parse.
var (
	errNoINT    = errors.New("telemetry: no INT shim of this form")
	errShortINT = errors.New("telemetry: the packet ends within its INT records")
)

// Parse reads the payload of a UDP datagram for the INT port. rest is what
// follows the records: a RoCEv2 packet from its BTH on. Both share b's memory.
func (f INTForm) Parse(b []byte) (v INT, rest []byte, err error) {
	_, n := intLayouts[f].length(b)
	switch {
	case n == 0:
		return nil, nil, errNoINT
	case len(b) < n:
		return nil, nil, errShortINT
	}
	return INT(b[:n]), b[n:], nil
}

// length returns the shim that b begins with, and its length with the records that it counts:
// 0 if it is none of this form.
func (l *intLayout) length(b []byte) (shim uint64, n int) {
	if len(b) < l.shim {
		return 0, 0
	}
	shim = l.shimOf(b)
	n = int(l.count.of(shim)) << bits.TrailingZeros8(l.counts)
	if l.kind.of(shim) != l.is || n&(l.record-1) != 0 || n > int(l.most)*l.record {
		return 0, 0
	}
	return shim, l.shim + n
}

// Hops returns the number of records of v, at most MaxHops.
func (f INTForm) Hops(v INT) int { return intLayouts[f].hops(v) }

// Hop returns v's record of the i-th hop in path order, i below Hops.
func (f INTForm) Hop(v INT, i int) HopRecord { return intLayouts[f].hop(v, i) }

// Overflow says that later hops are missing in v.
func (f INTForm) Overflow(v INT) bool {
	l := &intLayouts[f]
	return l.overflow.of(l.shimOf(v)) != 0
}

// Reflected says that the records of v are those of the other direction, which a
// receiver sends back.
func (f INTForm) Reflected(v INT) bool {
	l := &intLayouts[f]
	return l.reflected.of(l.shimOf(v)) != 0
}

// Port returns the UDP destination port that the packet of v had.
func (f INTForm) Port(v INT) uint16 {
	l := &intLayouts[f]
	return uint16(l.port.of(l.shimOf(v)))
}

// Put writes a shim without records to b, which must have room for it, and returns its
// length. port is the UDP destination port that the port of INT takes the place of.
func (f INTForm) Put(b []byte, port uint16) int {
	l := &intLayouts[f]
	l.putShim(b, l.kind.put(l.is)|l.port.put(uint64(port)))
	return l.shim
}

// PutReflected writes v, which was received, as a receiver sends it back, and
// returns the length, len(v), for which b must have room. The rest of an acknowledgement follows.
func (f INTForm) PutReflected(b []byte, v INT, port uint16) int {
	l := &intLayouts[f]
	n := copy(b[:len(v)], v)
	shim := l.shimOf(v) &^ l.port.put(l.port.most)
	l.putShim(b, shim|l.reflected.put(1)|l.port.put(uint64(port)))
	return n
}

// Push is what a transit switch does to b, which begins with a shim and has room for a
// record behind end, where the packet ends: it adds a record. It returns the packet's new
// end, which is the old one if nothing was added: at a reflected shim, and at a full one,
// which is marked.
func (f INTForm) Push(b []byte, end int, r HopRecord) int {
	l := &intLayouts[f]
	shim, n := l.length(b[:end])
	switch {
	case n == 0 || n > end || l.reflected.of(shim) != 0:
		return end
	case n == l.shim+int(l.most)*l.record:
		l.putShim(b, shim|l.overflow.put(1))
		return end
	}
	at := l.shim
	if !l.latestFirst {
		at = n
	}
	copy(b[at+l.record:end+l.record], b[at:end])
	l.putRecord(b[at:], r)
	l.putShim(b, shim+l.count.put(uint64(l.record)>>bits.TrailingZeros8(l.counts)))
	return end + l.record
}

// MarkFull is what a switch does to b, which begins with a shim, if it has no room for
// its record: it sets the overflow bit, where the form has one.
func (f INTForm) MarkFull(b []byte) {
	l := &intLayouts[f]
	l.putShim(b, l.shimOf(b)|l.overflow.put(1))
}

func (l *intLayout) shimOf(b []byte) uint64 {
	if l.shim == 4 {
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

func (l *intLayout) putShim(b []byte, shim uint64) {
	if l.shim == 4 {
		binary.BigEndian.PutUint32(b, uint32(shim))
	} else {
		binary.BigEndian.PutUint64(b, shim)
	}
}

func (l *intLayout) hops(v INT) int { return (len(v) - l.shim) >> bits.TrailingZeros8(uint8(l.record)) }

func (l *intLayout) hop(v INT, i int) HopRecord {
	at := l.shim + l.record*i
	if l.latestFirst {
		at = len(v) - l.record*(i+1)
	}
	b := v[at:]
	if l.record == maxRecordBytes {
		return HopRecord{High: binary.BigEndian.Uint64(b), Low: binary.BigEndian.Uint64(b[8:])}
	}
	return HopRecord{Low: binary.BigEndian.Uint64(b)}
}

func (l *intLayout) putRecord(b []byte, r HopRecord) {
	if l.record == maxRecordBytes {
		binary.BigEndian.PutUint64(b, r.High)
		b = b[8:]
	}
	binary.BigEndian.PutUint64(b, r.Low)
}

// HopRecord is a record as a number of 64 or 128 bits, of which a form says what they mean.
type HopRecord struct{ Low, High uint64 }

func (r HopRecord) of(f *bitField) uint64 {
	if f.shift < 64 {
		return f.of(r.Low)
	}
	return f.of(r.High)
}

func (r HopRecord) with(f *bitField, v uint64) HopRecord {
	if f.shift < 64 {
		return HopRecord{r.Low | f.put(v), r.High}
	}
	return HopRecord{r.Low, r.High | f.put(v)}
}

// rateCodes is for how many codes of rates an INTFormat has room.
const rateCodes = 15

// INTFormat is a form with all that senders, switches and receivers of a network have to
// agree on. DefaultINTFormat has it filled in. It is not changed once in use and may then be shared.
type INTFormat struct {
	Form INTForm
	Port uint16 // UDP destination port of packets with INT
	// Rates are what codes of a record's rate stand for; 0 is a code without a rate, as the
	// form's last always is.
	Rates [rateCodes]units.Rate
}

// DefaultINTFormat returns the format with INTPort and the speeds of Ethernet, as many as
// the form has codes for: codes 0 to 4 are those that HPCC's simulator has.
func DefaultINTFormat(form INTForm) INTFormat {
	f := INTFormat{Form: form, Port: INTPort, Rates: [rateCodes]units.Rate{
		25 * units.Gbps, 50 * units.Gbps, 100 * units.Gbps, 200 * units.Gbps, 400 * units.Gbps,
		800 * units.Gbps, 1600 * units.Gbps, 10 * units.Gbps, 40 * units.Gbps,
		units.Gbps, 2500 * units.Mbps, 5 * units.Gbps, 100 * units.Mbps,
	}}
	if form.valid() {
		clear(f.Rates[form.codes():])
	}
	return f
}

// codes is how many codes of rates there are.
func (f INTForm) codes() int { return int(min(intLayouts[f].rate.most, rateCodes)) }

var errINTForm = errors.New("telemetry: unknown form of per-hop INT")

// Validate says what is wrong with f.
func (f *INTFormat) Validate() error {
	if !f.Form.valid() {
		return errINTForm
	}
	if f.Port == 0 {
		return errors.New("telemetry: the UDP port of INT is 0")
	}
	for c, r := range f.Rates {
		switch {
		case r < 0:
			return fmt.Errorf("telemetry: INT's rate code %d stands for %v", c, r)
		case r > 0 && c >= f.Form.codes():
			return fmt.Errorf("telemetry: form %v has rate codes 0 to %d, and %d stands for %v", f.Form, f.Form.codes()-1, c, r)
		}
	}
	return nil
}

// RateCode returns the code of a rate, and whether it has one.
func (f *INTFormat) RateCode(r units.Rate) (code uint8, ok bool) {
	for c := range f.Rates { // by index: the values would be a copy of the table
		if f.Rates[c] == r && r > 0 {
			return uint8(c), true
		}
	}
	return uint8(intLayouts[f.Form].rate.most), false
}

// rate returns the rate of a record, 0 if its code has none.
func (f *INTFormat) rate(l *intLayout, r HopRecord) units.Rate {
	if c := r.of(&l.rate); c < uint64(len(f.Rates)) {
		return f.Rates[c]
	}
	return 0
}

// Record returns what a switch writes for a hop: everything rounded down, time and
// bytes wrapped, a queue that is too long as the field's largest value.
func (f *INTFormat) Record(h Hop) HopRecord {
	l, u := &intLayouts[f.Form], &intUnits[f.Form]
	code, _ := f.RateCode(h.Rate)
	return HopRecord{}.with(&l.rate, uint64(code)).with(&l.time, u.time.into(int64(h.Time))).with(&l.tx, u.tx.into(int64(h.TxBytes))).
		with(&l.queue, min(u.queue.into(int64(max(h.QLen, 0))), l.queue.most))
}

// HopReader undoes the wraps of one path's records. The zero value is ready. A
// sender has one for each queue pair, or whatever else takes one path.
type HopReader struct {
	hops [MaxHops]hopState
}

type hopState struct {
	seen     bool
	time, tx uint64     // as the last record has them
	at       units.Time // when that was read, on the reader's clock
	hop      Hop        // that without its wraps
}

// Read sets s to the hops of v in path order. now is the reader's clock, which
// tells how often a timestamp has wrapped since the last Read: of the times that it
// can stand for the nearest one is taken, so that the packets' delays may differ by
// half a wrap. A record older than the last one is read as such.
//
// The first record of a hop begins at the time and the bytes that it says. Read
// reports false if there is nothing to take differences from: a hop was not there
// in the last Read, has a rate without a code, or could have sent as much since as wraps
// its bytes. The hops are set all the same and the next Read goes on from them.
func (r *HopReader) Read(f *INTFormat, v INT, now units.Time, s *Stack) bool {
	l := &intLayouts[f.Form]
	*s = Stack{N: uint8(l.hops(v)), Overflow: f.Form.Overflow(v)}
	timeWrap, txWrap := l.timeWrap(), l.txWrap()
	ok := true
	for i := range s.N {
		h, p := &s.Hops[i], &r.hops[i]
		rec := l.hop(v, int(i))
		code, sent := rec.of(&l.time), rec.of(&l.tx)
		h.QLen = units.Bytes(rec.of(&l.queue)) * l.queueUnit
		h.Rate = f.rate(l, rec)
		if !p.seen {
			h.Time = units.Time(code) * l.timeUnit
			h.TxBytes = units.Bytes(sent) * l.txUnit
		} else {
			dt := units.Time((code-p.time)&l.time.most) * l.timeUnit
			// Whole wraps that passed besides, rounded to the nearest.
			if gap := now - p.at - dt; gap <= -timeWrap/2 {
				dt -= timeWrap // an older record than the last: its packet was overtaken
			} else if gap >= timeWrap/2 {
				dt += (gap + timeWrap/2) / timeWrap * timeWrap
			}
			tx := units.Bytes((sent-p.tx)&l.tx.most) * l.txUnit
			if dt < 0 && tx > 0 {
				tx -= txWrap
			}
			h.Time, h.TxBytes = p.hop.Time+dt, p.hop.TxBytes+tx
			if dt > 0 && h.Rate > 0 && h.Rate.BytesIn(dt) >= txWrap {
				ok = false
			}
		}
		ok = ok && p.seen && h.Rate > 0
		p.seen, p.time, p.tx, p.at, p.hop = true, code, sent, now, *h
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

// Quantised returns what is read of a hop by a reader that knows the hop about as well: Near
// of its Record, without either.
func (f *INTFormat) Quantised(h Hop) Hop {
	l, u := &intLayouts[f.Form], &intUnits[f.Form]
	if _, ok := f.RateCode(h.Rate); !ok {
		h.Rate = 0
	}
	h.Time = units.Time(u.time.into(int64(h.Time))) * l.timeUnit
	h.TxBytes = units.Bytes(u.tx.into(int64(h.TxBytes))) * l.txUnit
	h.QLen = units.Bytes(min(u.queue.into(int64(max(h.QLen, 0))), l.queue.most)) * l.queueUnit
	return h
}

// Near reads a record without a reader's memory, where what it was written from is
// known about as well: within half a wrap of the truth. A model's switches are
// read so.
func (f *INTFormat) Near(r HopRecord, truth Hop) Hop {
	l, u := &intLayouts[f.Form], &intUnits[f.Form]
	return Hop{
		QLen: units.Bytes(r.of(&l.queue)) * l.queueUnit, Rate: f.rate(l, r),
		Time:    units.Time(u.time.nearest(int64(truth.Time), r.of(&l.time), l.time.most)),
		TxBytes: units.Bytes(u.tx.nearest(int64(truth.TxBytes), r.of(&l.tx), l.tx.most)),
	}
}

// intUnits are the units of each form's fields, made for division: a record is written and
// read for each packet at each switch, and a division by a number of a table takes longer than
// all else.
var intUnits = func() (u [len(intLayouts)]struct{ time, tx, queue unit }) {
	for i := range intLayouts {
		l := &intLayouts[i]
		u[i].time, u[i].tx, u[i].queue = newUnit(uint64(l.timeUnit)), newUnit(uint64(l.txUnit)), newUnit(uint64(l.queueUnit))
	}
	return u
}()

// unit divides by a number d below 2^63, as a multiplication by m, 2^(63+s)/d rounded up,
// where 2^s is the least power of two from d on. That is exact for all int64: m d is above
// 2^(63+s) by less than d, so by 2^s at most, and n times that is below 2^(63+s).
type unit struct {
	d, m uint64
	s    uint8
}

func newUnit(d uint64) unit {
	s := uint8(bits.Len64(d - 1))
	m, rem := bits.Div64(1<<s>>1, uint64(1<<s&1)<<63, d)
	if rem > 0 {
		m++
	}
	return unit{d, m, s}
}

// into returns n/d, rounded towards 0, n's sign kept in two's complement.
func (u *unit) into(n int64) uint64 {
	if n < 0 {
		return uint64(n / int64(u.d))
	}
	q, _ := bits.Mul64(uint64(n)<<1, u.m)
	return q >> (u.s & 63)
}

// nearest returns what is nearest to truth of all that is code times d, where code has wrapped
// at most+1, a power of two.
func (u *unit) nearest(truth int64, code, most uint64) int64 {
	q := u.into(truth)
	d := (code - q) & most
	if d > most>>1 {
		d -= most + 1
	}
	by := int64(q+d)*int64(u.d) - truth
	switch wrap := int64(u.d * (most + 1)); {
	case by >= wrap/2:
		by -= wrap
	case by < -wrap/2:
		by += wrap
	}
	return truth + by
}
