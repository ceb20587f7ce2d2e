package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/sim/fabric"
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

// Arrive implements fabric.Endpoint: a packet's last bit has reached the MAC.
func (n *NIC) Arrive(x *fabric.Lane, now units.Time, h fabric.Handle, f *fabric.Frame) {
	n.enter(x, now)
	n.receiver.arrive(now, h, f)
}

func (r *receiver) arrive(now units.Time, h fabric.Handle, w *fabric.Frame) {
	if !r.buffer.admit(now, w) {
		r.Release(h)
		return
	}
	f := r.Frames.At(h)
	f.Wire, f.Arrived = *w, now
	parsed := r.parse.Serve(now, now, stage.StallNone, r.Config.ParseCycles)
	queue, context, free := &r.nowhere, parsed, parsed
	if r.units != nil || r.contexts.state.Full() || answered(f.Desc.Header.Opcode) {
		if q := r.pairs.find(f.DstQPN); q != nil {
			queue = &q.rxUntil
			context, free = r.contexts.lookUpReceived(parsed, q, &f.Desc.Header)
		}
	}
	if free > parsed {
		r.transport.Await(parsed, free, stage.StallContext)
	}
	if r.contexts.state.Awaited.Full() && bringsData(f.Desc.Header.Opcode) {
		if q := r.pairs.find(f.DstQPN); q != nil && q.rc != nil {
			element, from := r.lookUpAwaited(parsed, q, f.Desc.Header.PSN)
			if from > parsed {
				r.transport.Await(parsed, from, stage.StallPCIe)
			}
			context = max(context, element)
		}
	}
	done := r.transport.Serve(parsed, r.translation.HeldUntil, stage.StallTranslation, r.Config.TransportCycles)
	if r.units != nil {
		*queue = max(*queue, context)
		done = r.units.receive(done, f.Desc.Header.Opcode, queue)
	}
	done = max(done, context)
	done += r.Config.PipelineLatency
	r.queued.Add(now, 1)
	if r.Spans.Report != nil {
		r.Spans.Packet(f, chip.AtReceive, now, done, r.Net.Packet(h).Src)
	}
	r.Schedule(done, chip.EvReceive, uint64(h))
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
