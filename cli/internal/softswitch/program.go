package softswitch

import (
	"github.com/sluice-rdma/sluice/cli/internal/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/units"
)

// pipeline makes a P4 program a program of the switch. It is used by the goroutine
// that drives the switch.
type pipeline struct {
	*p4.Pipeline
	verdict p4.Verdict
	in      p4.Intrinsic
	copies  []plane.Copy
}

// Ingress implements plane.Program.
func (p *pipeline) Ingress(frame []byte, m *plane.Meta) []plane.Copy {
	p.in = p4.Intrinsic{IngressPort: m.IngressPort, Length: m.Length, IngressTime: m.IngressTime}
	p.Pipeline.Ingress(frame, &p.in, &p.verdict)
	return p.queued()
}

// queued returns the copies that the verdict wants queued.
func (p *pipeline) queued() []plane.Copy {
	p.copies = p.copies[:0]
	for _, k := range p.verdict.Copies {
		p.copies = append(p.copies, plane.Copy{Port: k.EgressPort, Len: units.Bytes(k.Len()), State: k})
	}
	return p.copies
}

// Egress implements plane.Program.
func (p *pipeline) Egress(state any, m *plane.Meta) ([]byte, []plane.Copy) {
	k := state.(*p4.Packet)
	k.EnqueueTime, k.DequeueTime = m.EnqueueTime, m.DequeueTime
	k.EnqueueDepth, k.DequeueDepth = p4.Depth(m.EnqueueDepth), p4.Depth(m.DequeueDepth)
	p.Pipeline.Egress(k, &p.verdict)
	var frame []byte
	if len(p.verdict.Sent) > 0 {
		frame = p.verdict.Sent[0].Data
	}
	return frame, p.queued()
}

// Release implements plane.Program.
func (p *pipeline) Release(state any) { p.Pipeline.Release(state.(*p4.Packet)) }
