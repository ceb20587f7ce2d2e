package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// formatVersion is the version of the format. A Reader refuses any other.
const formatVersion = 1

// magic begins a file: a byte that no text has, the name, and an end of line that a
// transfer as text would spoil.
const magic = "\x93SLUICE\r\n"

// Limits on what a Reader accepts.
const (
	maxHeader  = 1 << 20 // bytes of a stream's description
	maxChunk   = 1 << 20 // bytes of a chunk's records
	maxStreams = 1024
)

// Kinds of blocks.
const (
	blockStream = 1 // the description of a stream, JSON
	blockChunk  = 2 // records of a stream
	blockEnd    = 3 // nothing follows
)

// Stream describes one recorded device.
type Stream struct {
	Device string   `json:"device"`
	Engine string   `json:"engine"`              // what paced it: a scheme's name, or other words
	Set    []string `json:"set,omitempty"`       // the engine's settings, KEY=VALUE
	Line   int64    `json:"line_rate_bps"`       // cc.Env.LineRate
	Base   float64  `json:"base_rtt_us"`         // cc.Env.BaseRTT
	MTU    int64    `json:"mtu"`                 // cc.Env.MTU
	Note   string   `json:"note,omitempty"`      // where and how it was recorded
	Time   string   `json:"time,omitempty"`      // when, RFC 3339
	Sim    bool     `json:"simulated,omitempty"` // times are of a model
}

// Env returns the environment that the stream's engines were made with.
func (s *Stream) Env() cc.Env {
	return cc.Env{LineRate: units.Rate(s.Line), BaseRTT: units.Time(math.Round(s.Base * float64(units.Microsecond))), MTU: units.Bytes(s.MTU)}
}

// Record is one update of an engine: the acknowledgement that it got, and its answer.
type Record struct {
	Stream  int    // index into Reader.Streams
	QPN     uint32 // the queue pair
	Ack     cc.Ack // Path points into the Record
	Control cc.Control

	path telemetry.Stack
}

// Flags of a record.
const (
	flagFirst = 1 << iota // of the queue pair in this chunk: differences are to zero
	flagECN
	flagEIN
	flagMaxDelay
	flagPath
	flagAppLimited
	flagScale   // a scale other than 1 follows
	flagControl // the control differs from the record before
	flagCircuit
	flagEnds // Held and Hops follow
	flagAll  = 1<<iota - 1
)

// last is what the differences of a queue pair's next record are to.
type last struct {
	now, rtt, serialise units.Time
	acked, sent         units.Bytes
	bytes               units.Bytes
	packets             int32
	control             cc.Control
	hops                [telemetry.MaxHops]telemetry.Hop
}

// mostRecord is the most that a record takes: fourteen numbers, the scale, the hops, and
// for each hop four.
const mostRecord = 14*binary.MaxVarintLen64 + 8 + 1 + 4*telemetry.MaxHops*binary.MaxVarintLen64

// encode appends a record. b has room for mostRecord bytes.
func encode(b []byte, qpn uint32, first bool, l *last, a *cc.Ack, c cc.Control) []byte {
	flags := uint64(0)
	set := func(on bool, flag uint64) {
		if on {
			flags |= flag
		}
	}
	if first {
		*l = last{}
	}
	set(first, flagFirst)
	set(a.ECN, flagECN)
	set(a.EIN, flagEIN)
	set(a.Circuit, flagCircuit)
	ends := a.Held != 0 || a.Hops != 0
	set(ends, flagEnds)
	set(a.HasMaxDelay, flagMaxDelay)
	set(a.Path != nil, flagPath)
	set(a.AppLimited, flagAppLimited)
	set(a.Scale != 1, flagScale)
	set(c != l.control, flagControl)
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendUvarint(b, uint64(qpn))
	serialise := a.RTT - a.NetRTT
	b = binary.AppendVarint(b, int64(a.Now-l.now))
	b = binary.AppendVarint(b, int64(a.Now-a.SentAt-a.RTT)) // 0 but where one was clamped
	b = binary.AppendVarint(b, int64(a.RTT-l.rtt))
	b = binary.AppendVarint(b, int64(serialise-l.serialise))
	b = binary.AppendVarint(b, int64(a.Bytes-l.bytes))
	b = binary.AppendVarint(b, int64(a.Packets)-int64(l.packets))
	b = binary.AppendVarint(b, int64(a.Acked-l.acked-a.Bytes))
	b = binary.AppendVarint(b, int64(a.Sent-l.sent-a.Bytes))
	l.now, l.rtt, l.serialise, l.bytes, l.packets, l.acked, l.sent = a.Now, a.RTT, serialise, a.Bytes, a.Packets, a.Acked, a.Sent
	if ends {
		b = binary.AppendVarint(b, int64(a.Held))
		b = append(b, a.Hops)
	}
	if a.Scale != 1 {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(a.Scale))
	}
	if c != l.control {
		b = binary.AppendVarint(b, int64(c.Rate-l.control.Rate))
		b = binary.AppendUvarint(b, uint64(c.Window)+1) // unlimited is the largest, and 0 after it
		l.control = c
	}
	if a.HasMaxDelay {
		b = binary.AppendVarint(b, int64(a.MaxHopDelay))
		b = binary.AppendVarint(b, int64(a.ReverseMaxHopDelay))
	}
	if a.Path != nil {
		n := uint64(a.Path.N) << 1
		if a.Path.Overflow {
			n |= 1
		}
		b = binary.AppendUvarint(b, n)
		for i := range a.Path.Path() {
			h, p := &a.Path.Hops[i], &l.hops[i]
			b = binary.AppendVarint(b, int64(h.TxBytes-p.TxBytes))
			b = binary.AppendVarint(b, int64(h.QLen))
			b = binary.AppendVarint(b, int64(h.Time-p.Time))
			b = binary.AppendVarint(b, int64(h.Rate-p.Rate))
			*p = *h
		}
	}
	return b
}

// ErrCorrupt is what a Reader's errors about content wrap.
var ErrCorrupt = errors.New("not a recording, or a damaged one")

// cursor reads numbers off the front of a chunk.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

// decode reads one record. find returns the base of a queue pair's differences, nil
// if the queue pair has no record in the chunk yet, or a fresh one if first.
func (c *cursor) decode(r *Record, find func(qpn uint32, first bool) *last) error {
	flags := c.uvarint()
	qpn := c.uvarint()
	if c.bad || flags > flagAll || qpn > math.MaxUint32 {
		return fmt.Errorf("%w: a record with flags %#x of queue pair %d", ErrCorrupt, flags, qpn)
	}
	l := find(uint32(qpn), flags&flagFirst != 0)
	if l == nil {
		return fmt.Errorf("%w: the first record of queue pair %d in a chunk does not say so", ErrCorrupt, qpn)
	}
	r.QPN = uint32(qpn)
	a := &r.Ack
	*a = cc.Ack{}
	a.Now = l.now + units.Time(c.varint())
	clamped := units.Time(c.varint())
	a.RTT = l.rtt + units.Time(c.varint())
	a.SentAt = a.Now - clamped - a.RTT
	serialise := l.serialise + units.Time(c.varint())
	a.NetRTT = a.RTT - serialise
	a.Bytes = l.bytes + units.Bytes(c.varint())
	packets := int64(l.packets) + c.varint()
	a.Acked = l.acked + a.Bytes + units.Bytes(c.varint())
	a.Sent = l.sent + a.Bytes + units.Bytes(c.varint())
	if packets < math.MinInt32 || packets > math.MaxInt32 {
		return fmt.Errorf("%w: %d packets acknowledged", ErrCorrupt, packets)
	}
	a.Packets = int32(packets)
	l.now, l.rtt, l.serialise, l.bytes, l.packets, l.acked, l.sent = a.Now, a.RTT, serialise, a.Bytes, a.Packets, a.Acked, a.Sent
	a.ECN, a.EIN, a.HasMaxDelay, a.AppLimited = flags&flagECN != 0, flags&flagEIN != 0, flags&flagMaxDelay != 0, flags&flagAppLimited != 0
	a.Circuit = flags&flagCircuit != 0
	if flags&flagEnds != 0 {
		a.Held = units.Time(c.varint())
		if len(c.b) < 1 {
			return fmt.Errorf("%w: a record ends early", ErrCorrupt)
		}
		a.Hops, c.b = c.b[0], c.b[1:]
	}
	a.Scale = 1
	if flags&flagScale != 0 {
		if len(c.b) < 8 {
			return fmt.Errorf("%w: a record ends early", ErrCorrupt)
		}
		a.Scale = math.Float64frombits(binary.LittleEndian.Uint64(c.b))
		c.b = c.b[8:]
	}
	if flags&flagControl != 0 {
		l.control.Rate += units.Rate(c.varint())
		l.control.Window = units.Bytes(c.uvarint() - 1)
	}
	r.Control = l.control
	if a.HasMaxDelay {
		a.MaxHopDelay, a.ReverseMaxHopDelay = units.Time(c.varint()), units.Time(c.varint())
	}
	if flags&flagPath != 0 {
		n := c.uvarint()
		if n>>1 > telemetry.MaxHops {
			return fmt.Errorf("%w: %d hops", ErrCorrupt, n>>1)
		}
		r.path = telemetry.Stack{N: uint8(n >> 1), Overflow: n&1 != 0}
		for i := range r.path.Path() {
			h, p := &r.path.Hops[i], &l.hops[i]
			h.TxBytes = p.TxBytes + units.Bytes(c.varint())
			h.QLen = units.Bytes(c.varint())
			h.Time = p.Time + units.Time(c.varint())
			h.Rate = p.Rate + units.Rate(c.varint())
			*p = *h
		}
		a.Path = &r.path
	}
	if c.bad {
		return fmt.Errorf("%w: a record ends early", ErrCorrupt)
	}
	return nil
}
