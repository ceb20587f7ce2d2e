package nicmodel

import (
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Stages parse and transport, as far as they take time: what they then do is in
// transport.go.
//
// Cost: ParseCycles and TransportCycles a packet, then a processing unit where there
// are any, and the depth of the pipeline. Transport stalls when as many contexts are
// being fetched as can be (StallContext), and behind translations that requests hold
// (StallTranslation); a packet whose own context is on its way waits without it.

// Arrive implements fabric.Endpoint: a packet's last bit has reached the MAC.
func (n *NIC) Arrive(_ *fabric.Lane, now units.Time, h fabric.Handle) {
	parsed := n.parse.Serve(now, now, StallNone, n.cfg.ParseCycles)
	queue, context, free := &n.nowhere, parsed, parsed
	if n.rxUnits != nil || n.contexts.full() {
		if q := n.qp(n.frames.frames[h].dstQPN); q != nil {
			queue = &q.rxUntil
			context, free = n.needContext(parsed, q)
		}
	}
	if free > parsed {
		n.transport.await(parsed, free, StallContext)
	}
	done := n.transport.Serve(parsed, n.rxHeld, StallTranslation, n.cfg.TransportCycles)
	if n.rxUnits != nil {
		*queue = max(*queue, context)
		done = n.rxUnits.serve(done, n.frames.frames[h].desc.Header.Opcode, queue)
	}
	done = max(done, context)
	done += n.cfg.PipelineLatency
	n.inReceive.add(now, 1)
	if n.onSpan != nil {
		n.packetSpan(&n.frames.frames[h], AtReceive, now, done, n.net.Packet(h).Src)
	}
	n.engine.Schedule(done, &n.src, n.id, evReceive, uint64(h))
}
