package plane

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-rdma/sluice/units"
)

// Limits.
const (
	MaxPorts = 256
	// LeastFrame and MostFrame bound Config.Frame.
	LeastFrame = 64
	MostFrame  = 1 << 16
)

// Config configures a Switch. It is read once.
type Config struct {
	Ports []PortConfig
	// Frame is the longest frame in bytes, with what a program may add to it.
	Frame int
	// Program decides where frames go; without one the switch is a learning bridge.
	Program Program
}

// Totals counts what belongs to no port.
type Totals struct {
	TooLong   uint64 // frames that were dropped as longer than Config.Frame
	Discarded uint64 // frames that the program dropped, or the bridge as not for another port
	NoPort    uint64 // copies that the program sent to a port that is not there
	Flooded   uint64 // frames that the bridge sent to all ports but one
}

// Switch is the switch. It is not safe for concurrent use.
type Switch struct {
	cfg   Config
	ports []port
	pool  pool
	table macTable
	now   units.Time
	meta  Meta // of the frame in hand

	Totals Totals
}

// New returns a switch at time 0.
func New(cfg Config) (*Switch, error) {
	switch {
	case len(cfg.Ports) < 1 || len(cfg.Ports) > MaxPorts:
		return nil, fmt.Errorf("%d ports: 1 to %d", len(cfg.Ports), MaxPorts)
	case cfg.Frame < LeastFrame || cfg.Frame > MostFrame:
		return nil, fmt.Errorf("frames of up to %d bytes: %d to %d", cfg.Frame, LeastFrame, MostFrame)
	}
	s := &Switch{cfg: cfg, ports: make([]port, len(cfg.Ports)), pool: pool{size: Headroom + cfg.Frame}}
	for i, c := range cfg.Ports {
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("port %d: %w", i, err)
		}
		s.ports[i] = port{cfg: c, delays: hdrhistogram.New(1, longestDelay, delayDigits)}
	}
	return s, nil
}

// Receive takes a frame that came at a port at the time now, which it does not keep. A
// time before that of the last call counts as that.
func (s *Switch) Receive(now units.Time, from int, frame []byte) {
	s.Advance(now)
	now = s.now
	c := &s.ports[from].counters
	c.RxPackets++
	c.RxBytes += uint64(len(frame))
	if len(frame) > s.cfg.Frame {
		s.Totals.TooLong++
		return
	}
	s.meta = Meta{IngressPort: uint16(from), Length: units.Bytes(len(frame)), IngressTime: now}
	if s.cfg.Program != nil {
		copies := s.cfg.Program.Ingress(frame, &s.meta)
		if len(copies) == 0 {
			s.Totals.Discarded++
		}
		s.queueCopies(now, copies)
		return
	}
	s.bridge(now, uint16(from), frame)
}

// bridge forwards by what was learnt.
func (s *Switch) bridge(now units.Time, from uint16, frame []byte) {
	if len(frame) < 2*macBytes {
		s.Totals.Discarded++
		return
	}
	dst, src := macOf(frame), macOf(frame[macBytes:])
	if dst.reserved() {
		s.Totals.Discarded++
		return
	}
	s.table.learn(now, src, from)
	if !dst.group() {
		if to, ok := s.table.find(now, dst); ok {
			if to == from {
				s.Totals.Discarded++
				return
			}
			s.queueFrame(now, to, frame)
			return
		}
	}
	s.Totals.Flooded++
	for to := range s.ports {
		if to != int(from) {
			s.queueFrame(now, uint16(to), frame)
		}
	}
}

// queueFrame queues a copy of a frame.
func (s *Switch) queueFrame(now units.Time, to uint16, frame []byte) {
	o := &s.ports[to]
	if !o.room(units.Bytes(len(frame))) {
		o.counters.Drops++
		return
	}
	p := s.pool.get()
	p.put(frame) // it fits: Receive has looked
	p.meta = s.meta
	p.meta.EgressPort = to
	o.enqueue(now, p)
}

// queueCopies queues what a program has made.
func (s *Switch) queueCopies(now units.Time, copies []Copy) {
	for _, c := range copies {
		if int(c.Port) >= len(s.ports) {
			s.Totals.NoPort++
			s.cfg.Program.Release(c.State)
			continue
		}
		o := &s.ports[c.Port]
		if !o.room(c.Len) {
			o.counters.Drops++
			s.cfg.Program.Release(c.State)
			continue
		}
		p := s.pool.get()
		p.n, p.state = int(c.Len), c.State
		p.meta = s.meta
		p.meta.EgressPort = c.Port
		o.enqueue(now, p)
	}
}

// Advance takes off the queues what is due until now, in the order of the times
// at which it is.
func (s *Switch) Advance(now units.Time) {
	s.now = max(s.now, now)
	for {
		next, at := -1, s.now
		for i := range s.ports {
			if o := &s.ports[i]; o.queue.first != nil && (o.due() < at || next < 0 && o.due() == at) {
				next, at = i, o.due()
			}
		}
		if next < 0 {
			return
		}
		s.depart(at, &s.ports[next])
	}
}

// depart takes the first packet off a queue and puts it on the wire.
func (s *Switch) depart(at units.Time, o *port) {
	p := o.dequeue(at)
	if s.cfg.Program != nil {
		s.meta = p.meta
		frame, more := s.cfg.Program.Egress(p.state, &s.meta)
		p.state = nil
		fits := p.put(frame)
		s.meta = p.meta
		s.queueCopies(at, more)
		if len(frame) == 0 || !fits {
			if fits {
				s.Totals.Discarded++
			} else {
				s.Totals.TooLong++
			}
			s.pool.put(p)
			return
		}
	}
	o.serialize(at, p)
}

// Next returns a frame whose last bit has left the port by now, or nil. It is the
// caller's until Free.
func (s *Switch) Next(now units.Time, port int) *Packet {
	o := &s.ports[port]
	if o.wire.first == nil || o.wire.first.left > now {
		return nil
	}
	return o.wire.pop()
}

// Free takes back a packet that Next returned.
func (s *Switch) Free(p *Packet) { s.pool.put(p) }

// Deadline returns when Advance or Next has something to do next, or units.Never.
func (s *Switch) Deadline() units.Time {
	at := units.Never
	for i := range s.ports {
		o := &s.ports[i]
		if o.queue.first != nil {
			at = min(at, o.due())
		}
		if o.wire.first != nil {
			at = min(at, o.wire.first.left)
		}
	}
	return at
}

// Counters returns a port's counters.
func (s *Switch) Counters(port int) Counters {
	o := &s.ports[port]
	c := o.counters
	c.Depth = Depth{o.queue.packets, o.queue.bytes}
	return c
}

// Delays is the distribution of a port's queueing delays in nanoseconds. It
// belongs to the switch.
func (s *Switch) Delays(port int) *hdrhistogram.Histogram { return s.ports[port].delays }

// ResetDelays forgets the delays and the largest queues so far.
func (s *Switch) ResetDelays() {
	for i := range s.ports {
		o := &s.ports[i]
		o.delays.Reset()
		o.counters.MaxDepth = Depth{o.queue.packets, o.queue.bytes}
	}
}
