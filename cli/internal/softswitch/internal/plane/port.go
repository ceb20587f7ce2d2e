package plane

import (
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-rdma/sluice/units"
)

// PortConfig is a port's egress.
type PortConfig struct {
	// Rate is that of the link, in bits of frames, which are counted from the
	// destination address to the end, without the check sequence; 0 for no bound.
	Rate units.Rate
	// Buffer and Packets bound the queue: what does not fit is dropped. At least
	// one frame of the largest size always fits.
	Buffer  units.Bytes
	Packets int
	// ECN is the queue's length from which on an ECN-capable packet that comes is
	// marked; 0 for never.
	ECN units.Bytes
}

// Defaults of a port's buffer.
const (
	DefaultBuffer  = 1 << 20
	DefaultPackets = 1 << 14
)

// Validate reports what can't be.
func (c *PortConfig) Validate() error {
	switch {
	case c.Rate < 0:
		return fmt.Errorf("a rate of %v: give one above 0, or none for no bound", c.Rate)
	case c.Buffer <= 0 || c.Buffer > units.GiB:
		return fmt.Errorf("a buffer of %v: give more than 0 and at most 1GiB", c.Buffer)
	case c.Packets <= 0 || c.Packets > 1<<20:
		return fmt.Errorf("a buffer of %d packets: 1 to %d", c.Packets, 1<<20)
	case c.ECN < 0:
		return errors.New("an ECN threshold below 0: give a queue length, or 0 for none")
	}
	return nil
}

// Counters are a port's. Bytes are of frames.
type Counters struct {
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64
	Drops              uint64 // packets that found the queue full
	Marked             uint64 // packets that were marked congestion experienced
	Depth              Depth  // of the queue now
	MaxDepth           Depth  // each the largest so far
}

// port is an output: packets leave by it.
type port struct {
	cfg   PortConfig
	queue fifo
	wire  fifo       // dequeued, until the driver takes them
	busy  units.Time // until when the link serialises what was dequeued last
	rem   uint64     // of the last serialisation, see units.Rate.SerializeRem

	counters Counters
	delays   *hdrhistogram.Histogram // nanoseconds in the queue
}

const (
	longestDelay = 100_000_000_000 // in the histogram, nanoseconds
	delayDigits  = 2
)

// room reports whether the queue takes a packet of n bytes.
func (o *port) room(n units.Bytes) bool {
	q := &o.queue
	return q.packets < o.cfg.Packets && (q.packets == 0 || q.bytes+n <= o.cfg.Buffer)
}

// enqueue puts a packet, which there is room for, into the queue.
func (o *port) enqueue(now units.Time, p *Packet) {
	q := &o.queue
	p.meta.EnqueueTime, p.meta.EnqueueDepth = now, Depth{q.packets, q.bytes}
	p.mark = o.cfg.ECN > 0 && q.bytes >= o.cfg.ECN
	q.push(p)
	c := &o.counters
	c.MaxDepth.Packets = max(c.MaxDepth.Packets, q.packets)
	c.MaxDepth.Bytes = max(c.MaxDepth.Bytes, q.bytes)
}

// due returns when the first packet of the queue, if there is one, may leave it.
func (o *port) due() units.Time { return max(o.busy, o.queue.first.meta.EnqueueTime) }

// dequeue takes the first packet off the queue at the time that it is due.
func (o *port) dequeue(at units.Time) *Packet {
	p := o.queue.pop()
	p.meta.DequeueTime, p.meta.DequeueDepth = at, Depth{o.queue.packets, o.queue.bytes}
	// A delay is never beyond the histogram's range by more than clamping mends.
	_ = o.delays.RecordValue(min(int64((at-p.meta.EnqueueTime)/units.Nanosecond), longestDelay))
	return p
}

// serialize puts a packet on the wire behind those before it.
func (o *port) serialize(at units.Time, p *Packet) {
	if p.mark && markCE(p.Bytes()) {
		o.counters.Marked++
	}
	if o.cfg.Rate > 0 {
		var t units.Time
		t, o.rem = o.cfg.Rate.SerializeRem(units.Bytes(p.n), o.rem)
		o.busy = at + t
		p.left = o.busy
	} else {
		p.left = at
	}
	o.wire.push(p)
	o.counters.TxPackets++
	o.counters.TxBytes += uint64(p.n)
}
