package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// receiver models the time of the stages parse and transport; transport does their
// work.
//
// Cost: ParseCycles and TransportCycles a packet, then a processing unit where there
// are any, and the depth of the pipeline. Transport stalls when as many contexts are
// being fetched as can be (StallContext), and behind translations that requests hold
// (StallTranslation); a packet whose own context is on its way waits without it.
type receiver struct {
	*chip.Chip
	pairs       *pairs
	contexts    *contexts
	translation *memory.Translation

	parse, transport stage.Stage
	units            *processingUnits // or nil
	nowhere          units.Time       // serialises what is for no queue pair
	queued           stage.Gauge
	buffer           receiveBuffer
}

// bringsData reports whether a packet is one of an answer that brings data.
func bringsData(op ib.Opcode) bool {
	return op.Operation() >= ib.ReadResponseFirst.Operation() && op.Operation() <= ib.ReadResponseOnly.Operation() || op == ib.AtomicAcknowledge
}

// lookUpAwaited returns when the element of the request that a received packet answers is available, which
// is needed at t, and until when the stage in front of it is stalled. No packet passes an earlier one of its queue pair.
func (r *receiver) lookUpAwaited(t units.Time, q *qp, psn units.PSN) (ready, free units.Time) {
	ready, free = t, t
	if slot, ok := q.rc.AnswerTo(psn); ok && q.sq[slot].awaited {
		ready, free = r.contexts.state.NeedAwaited(t, q.elementAt(slot), q.wqeAddr(slot), q.wqeBytes(&q.sq[slot]))
	}
	q.awaitedAt = max(q.awaitedAt, ready)
	return q.awaitedAt, free
}

// lookUp returns when what the transport needs of a packet's queue pair is on the chip, and when the packets before it are
// out of the units. missed says that the element that an answer needs was not there.
func (r *receiver) lookUp(parsed units.Time, f *frames.Frame) (queue *units.Time, known units.Time, missed bool) {
	queue, known = &r.nowhere, parsed
	if r.units != nil || r.contexts.state.Full() || answered(f.Desc.Header.Opcode) {
		if q := r.pairs.find(f.DstQPN); q != nil {
			context, free := r.contexts.lookUpReceived(parsed, q, &f.Desc.Header)
			if free > parsed {
				r.transport.Await(parsed, free, stage.StallContext)
			}
			queue, known = &q.rxUntil, context
		}
	}
	if r.contexts.state.Elements.Full() && bringsData(f.Desc.Header.Opcode) {
		if q := r.pairs.find(f.DstQPN); q != nil && q.rc != nil {
			element, from := r.lookUpAwaited(parsed, q, f.Desc.Header.PSN)
			if from > parsed {
				r.transport.Await(parsed, from, stage.StallPCIe)
			}
			known, missed = max(known, element), element > parsed
		}
	}
	return queue, known, missed
}

// take has the stages work on a packet, and returns when the transport has it.
func (r *receiver) take(now units.Time, f *frames.Frame) units.Time {
	parsed := r.parse.Serve(now, now, stage.StallNone, r.Config.ParseCycles)
	queue, known, missed := r.lookUp(parsed, f)
	done := r.transport.Serve(parsed, r.translation.HeldUntil, stage.StallTranslation, r.Config.TransportCycles)
	if r.units != nil {
		*queue = max(*queue, known)
		done = r.units.receive(done, f.Desc.Header.Opcode, r.units.passes(missed), queue)
	}
	return max(done, known) + r.Config.PipelineLatency
}
