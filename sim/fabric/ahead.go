package fabric

import (
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/prefetch"
	"github.com/sluice-rdma/sluice/telemetry"
)

// Foresight is an Endpoint that can have its memory fetched before it is run: first
// what leads to the rest.
type Foresight interface {
	Foresee()
	ForeseeMore()
}

// busyNode is the number of events a node must have had in its last window for its
// memory to be fetched ahead of the next: it costs a few nanoseconds a port. Fetched ahead
// for hosts of two events, too, incast255 took 28 percent more CPU time, and perm1024 as much.
const busyNode = 12

// foresight is the number of nodes by which the fetch of a node's pointers runs ahead.
const foresight = 3

// foresee prefetches the memory that leads to the state of a node that will run
// soon.
func (n *Network) foresee(d *Division, node int32) {
	v := &n.nodes[node]
	if !v.isSwitch {
		n.foreseeHost(d, v)
		return
	}
	ports := uintptr(v.count)
	prefetch.Lines(unsafe.Pointer(&n.ports[v.first]), ports*unsafe.Sizeof(port{}))
	prefetch.Lines(unsafe.Pointer(&n.inlets[v.first]), ports*unsafe.Sizeof(inlet{}))
	prefetch.Lines(unsafe.Pointer(&d.due[3*v.first]), ports*3*unsafe.Sizeof(d.due[0]))
	prefetch.Lines(unsafe.Pointer(&d.told[d.from][v.first]), ports*unsafe.Sizeof(tally{}))
	prefetch.Lines(unsafe.Pointer(&d.known[v.first]), ports*unsafe.Sizeof(tally{}))
}

func (n *Network) foreseeHost(d *Division, v *nodeState) {
	at := v.first
	prefetch.Line(unsafe.Pointer(&n.ports[at]))
	prefetch.Line(unsafe.Pointer(&n.inlets[at]))
	prefetch.Line(unsafe.Pointer(&d.due[3*at]))
	prefetch.Line(unsafe.Pointer(&d.told[d.from][at]))
	prefetch.Line(unsafe.Pointer(&d.known[at]))
	prefetch.Line(unsafe.Pointer(&d.alarms[v.index]))
	if p, ok := n.ends[v.index].(Foresight); ok {
		p.Foresee()
	}
}

// foreseeMore prefetches the memory that a node that runs next will touch.
func (n *Network) foreseeMore(d *Division, node int32) {
	v := &n.nodes[node]
	for i := v.first; i < v.first+v.count; i++ {
		// Before the first is taken, the other end may be setting head.
		if in := &n.inlets[i]; in.taken != 0 && in.n < chunkEntries {
			foreseeEntries(in.head, in.n)
		}
		if o := &n.ports[i].wire; o.tail != nil && o.n < chunkEntries {
			foreseeEntries(o.tail, o.n)
		}
	}
	if !v.isSwitch {
		if p, ok := n.ends[v.index].(Foresight); ok {
			p.ForeseeMore()
		}
		return
	}
	queues := uintptr(v.count * n.prios)
	prefetch.Lines(unsafe.Pointer(&n.queues[v.first*n.prios]), queues*unsafe.Sizeof(queue{}))
	if len(n.holds) > 0 {
		prefetch.Lines(unsafe.Pointer(&n.holds[v.first*n.prios]), queues*unsafe.Sizeof(hold{}))
	}
}

// foreseeEntries prefetches the entries of a chunk from the n-th on, up to five: more than two
// lines were not worth it.
func foreseeEntries(c *chunk, n uint8) {
	prefetch.Lines(unsafe.Pointer(c.at(n)), uintptr(min(chunkEntries-n, 5))*unsafe.Sizeof(entry{}))
}

// foreseeNext prefetches the memory for the packets that will be taken from a link soon, of
// which next is the first and known are there: that of the entries after it, and that of its
// next record.
func (x *Lane) foreseeNext(in *inlet, next *entry, known uint32) {
	n := x.n
	if in.n < chunkEntries-3 {
		const after = 3 * unsafe.Sizeof(*next)
		prefetch.Beyond(unsafe.Pointer(next), after)
	} else if known-in.taken > uint32(chunkEntries-in.n) {
		prefetch.Line(unsafe.Pointer(x.chunk(in.head.next)))
	}
	if tel := next.tel(); telemetry.Kind(tel&kindMask) == telemetry.PerHop {
		prefetch.Line(unsafe.Pointer(&n.slab.recordsOf(next.handle())[tel&recordsMask>>recordsShift&7]))
	}
}

// packetsAhead is the number of packets of a host by which the fetch of a packet's memory runs ahead.
const packetsAhead = 2

// foreseePackets prefetches the first of the packets that are on the link to a host.
func (x *Lane) foreseePackets(in *inlet, packets uint32) {
	for i := range min(packets, uint32(chunkEntries-in.n)) {
		prefetch.Line(unsafe.Pointer(x.n.packet(in.head.at(in.n + uint8(i)).handle())))
	}
}

// foreseePacket prefetches a packet that will be taken after the next one on a link.
func (x *Lane) foreseePacket(in *inlet, known uint32) {
	if known-in.taken <= packetsAhead {
		return
	}
	var next *entry
	if i := in.n + packetsAhead; i < chunkEntries {
		next = in.head.at(i)
	} else {
		next = x.chunk(in.head.next).at(i - chunkEntries)
	}
	prefetch.Line(unsafe.Pointer(x.n.packet(next.handle())))
}
