package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Collect says what the packets of connections collect on their way, and how that
// is written. Explicit incast notifications need no request in a packet: they are read and
// returned in any case.
type Collect struct {
	Delay *telemetry.DelayFormat // the largest delay of a hop; nil for no
	INT   *telemetry.INTFormat   // a record for each hop; nil for no
}

func (c *Collect) any() bool { return c.Delay != nil || c.INT != nil }

// Brought is the telemetry of a received packet: its tags, and its INT records,
// which share the driver's memory.
type Brought struct {
	Tags telemetry.FrameTags
	INT  telemetry.INT // nil for none
}

// Carried is the telemetry of an outgoing packet.
type Carried struct {
	// Collects says that the packet collects telemetry on its way.
	Collects bool
	// HasReturns and Returns are a tag that returns to the sender of the packet that
	// carried it, and INT, if not empty, such records.
	HasReturns bool
	Returns    telemetry.DelayTag
	INT        telemetry.INT
}

// collected is a connection's telemetry state; a connection has one where its
// packets collect telemetry.
type collected struct {
	// As the peer's responder: what the next acknowledgement returns.
	hasTag  bool
	tag     telemetry.DelayTag
	records [telemetry.MaxINTBytes]byte
	n       int // of records

	// As requester: the telemetry of the last acknowledgement or READ response.
	told   bool
	report Report
	reader telemetry.HopReader
}

// Report is the network's telemetry for a request, apart from marks.
type Report struct {
	HasMaxDelay                     bool
	MaxHopDelay, ReverseMaxHopDelay units.Time
	Path                            telemetry.Stack
}

func (r *Report) any() bool { return r.HasMaxDelay || r.Path.N > 0 }

// lastReport is what there is to say of a request that completes now, nil for nothing.
func (q *QP) lastReport() *Report {
	if c := q.collected; c != nil && c.told {
		return &c.report
	}
	return nil
}

// noteTelemetry handles the telemetry of a received packet.
func (e *Endpoint) noteTelemetry(now units.Time, q *QP, p *Packet, in *inbound) {
	c := q.collected
	if c == nil {
		return
	}
	t := &p.Brought.Tags
	records := p.Brought.INT
	data := in.Opcode >= ib.ReadResponseFirst && in.Opcode <= ib.ReadResponseOnly
	switch {
	case data: // its way is the one that counts
		if t.HasForward {
			c.report.HasMaxDelay, c.report.MaxHopDelay, c.report.ReverseMaxHopDelay = true, e.delay(&t.Forward), 0
		}
		if len(records) > 0 && !e.reflected(records) {
			e.readPath(now, c, records)
		}
		c.told = c.told || c.report.any()
	case in.Opcode == ib.Acknowledge || in.Opcode == ib.AtomicAcknowledge:
		if t.HasReflected {
			c.report.HasMaxDelay, c.report.MaxHopDelay, c.report.ReverseMaxHopDelay = true, e.delay(&t.Reflected), 0
			if t.HasForward {
				c.report.ReverseMaxHopDelay = e.delay(&t.Forward)
			}
		}
		if len(records) > 0 && e.reflected(records) {
			e.readPath(now, c, records)
		}
		c.told = c.told || c.report.any()
	default: // a request
		if t.HasForward {
			if !c.hasTag || t.Forward.Code >= c.tag.Code {
				c.tag = t.Forward
			}
			c.hasTag = true
		}
		if len(records) > 0 && !e.reflected(records) {
			c.n = copy(c.records[:], records)
		}
	}
}

func (e *Endpoint) delay(t *telemetry.DelayTag) units.Time { return e.cfg.Collect.Delay.Delay(t.Code) }

func (e *Endpoint) reflected(records telemetry.INT) bool {
	return e.cfg.Collect.INT.Form.Reflected(records)
}

func (e *Endpoint) readPath(now units.Time, c *collected, records telemetry.INT) {
	if !c.reader.Read(e.cfg.Collect.INT, records, now, &c.report.Path) {
		// Nothing to compare with: the first, after a long gap, or of a port whose
		// rate has no code.
		c.report.Path.N = 0
		e.Counters.INTUnread++
	}
}

// carry says what a packet of a connection carries, in e.carried.
func (e *Endpoint) carry(q *QP, op ib.Opcode) {
	c := q.collected
	if c == nil {
		return
	}
	e.carried.Collects = true
	if op != ib.Acknowledge && op != ib.AtomicAcknowledge {
		return
	}
	e.carried.HasReturns, e.carried.Returns = c.hasTag, c.tag
	e.carried.INT = telemetry.INT(c.records[:c.n])
	c.hasTag, c.n = false, 0
	if c.tag = (telemetry.DelayTag{}); e.cfg.Collect.Delay == nil {
		e.carried.Collects = false // an acknowledgement's shim is for what it returns
	}
}
