package bench

import (
	"errors"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// place locates a queue pair's messages in the region of its host: one
// behind the other in a buffer, and over again.
type place struct{ base, size, next units.Bytes }

// newPlace returns the place of a queue pair with messages of up to message bytes. Where
// buffers overlap, there are more than the region has room for.
func newPlace(qpn uint32, buffer, message units.Bytes) place {
	p := place{size: buffer}
	if buffer > 0 {
		room := max((units.Bytes(memoryBytes)-message)/buffer, 1)
		p.base = units.Bytes(index(qpn)) % room * buffer
	}
	return p
}

// take returns the offset of the next message, of n bytes.
func (p *place) take(n units.Bytes) int {
	if p.next+n > p.size {
		p.next = 0
	}
	at := p.base + p.next
	p.next += n
	return int(at)
}

// findMemory says where the messages of a flow lie.
func (f *flow) findMemory() error {
	v := &f.poster.sim.sys.Verbs
	if !v.MRPerQP {
		f.local, f.remote = f.poster.active.mr, f.peer.passive.mr
		f.localAt = newPlace(f.qp.Num(), v.Buffer, f.Message)
		f.remoteAt = newPlace(f.peerQP.Num(), v.Buffer, f.Message)
		return nil
	}
	var err error
	length := max(v.Buffer, f.Message)
	if f.local, err = f.poster.active.register(uint64(length)); err != nil {
		return err
	}
	f.localAt, f.remoteAt = place{size: v.Buffer}, place{size: v.Buffer}
	f.remote, err = f.peer.passive.register(uint64(length))
	return err
}

// freeMemory gives up regions of the flow's own, at a time.
func (f *flow) freeMemory(at units.Time) error {
	if !f.poster.sim.sys.Verbs.MRPerQP {
		return nil
	}
	return errors.Join(f.local.(*simverbs.MR).CloseAt(at), f.remote.(*simverbs.MR).CloseAt(at))
}

// quiet is messages for which no completion was requested.
type quiet struct {
	messages int
	bytes    units.Bytes
}

// A flow's request with a completion also covers the requests before it. Its WRID is
// the number of bytes and, in the low 16 bits, the number of messages that it covers.
const quietBits = 16

func (q quiet) wrid() uint64 { return uint64(q.bytes)<<quietBits | uint64(q.messages) }

// completed counts the messages that a completion covers.
func (f *flow) completed(wrid uint64) {
	f.done += units.Bytes(wrid >> quietBits)
	f.outstanding -= int(wrid & (1<<quietBits - 1))
}

// postedAhead is the number of messages a flow keeps posted: enough, too, for some to be
// under way while others are put together.
func postedAhead(f *flow) int {
	sys := f.poster.sim.sys
	ahead := units.Bytes(postAhead)
	if f.poster.shim != nil && sys.Shim.Outstanding == 0 {
		// A bound that follows the link is not to be replaced by this one.
		ahead = max(ahead, f.poster.bound+max(sys.Shim.Segment, f.Message))
	}
	return int(max(4, (ahead+f.Message-1)/f.Message, units.Bytes(2*sys.Verbs.PostList+sys.Verbs.CQMod-1)))
}

// post posts messages as long as there are some and enough are not under way.
func (f *flow) post(now units.Time) error {
	limit := f.depth()
	v := &f.poster.sim.sys.Verbs
	for {
		n := v.PostList
		switch {
		case f.Size > 0:
			left := (f.Size - f.posted + f.Message - 1) / f.Message
			n = int(min(units.Bytes(n), left))
		case now >= f.Stop && f.quiet.messages > 0 && f.quiet.messages == f.outstanding:
			// There is nothing more to send, and no completion would report the last
			// messages: one more message does.
			n = 1
		case now >= f.Stop:
			n = 0
		}
		if n == 0 || n > limit-f.outstanding {
			return nil
		}
		for range n {
			size := f.Message
			if f.Size > 0 {
				size = min(size, f.Size-f.posted)
			}
			f.quiet.messages++
			f.quiet.bytes += size
			last := f.posted+size == f.Size || now >= f.Stop
			signaled := last || f.quiet.messages == v.CQMod
			f.add(size, f.quiet.wrid(), signaled)
			if signaled {
				f.quiet = quiet{}
			}
		}
		if f.Every > 0 {
			if err := f.poster.nic.WaitUntil(f.qp.Num(), f.sendAt); err != nil {
				return err
			}
			f.sendAt += f.Every
		}
		if err := f.poster.ring(f); err != nil {
			return err
		}
	}
}

// add makes a request for one message. It is posted with others by host.ring.
func (f *flow) add(n units.Bytes, id uint64, signaled bool) {
	op := [...]ib.WROpcode{workload.Write: ib.WRRDMAWrite, workload.Read: ib.WRRDMARead, workload.Send: ib.WRSend}[f.Operation]
	if op == ib.WRRDMAWrite && f.kept.notifies() {
		op = ib.WRRDMAWriteWithImm
	}
	h := f.poster
	wr := verbs.SendWR{WRID: id, Opcode: op}
	if op != ib.WRSend {
		wr.RemoteAddr, wr.RKey = f.remote.Addr()+uint64(f.remoteAt.take(n)), f.remote.RKey()
	}
	if signaled {
		wr.Flags = verbs.SendSignaled
	}
	if op != ib.WRRDMARead && n <= h.sim.sys.Verbs.InlineSize {
		wr.Flags |= verbs.SendInline
		wr.Inline = h.zeros[:n]
	} else {
		h.pieces = append(h.pieces, verbs.SGEOf(f.local, f.localAt.take(n), int(n)))
	}
	h.requests = append(h.requests, wr)
	f.posted += n
	f.outstanding++
}

// ring posts the requests that a flow has added, with one doorbell.
func (h *host) ring(f *flow) error {
	requests, pieces := h.requests, h.pieces
	h.requests, h.pieces = nil, nil
	// Not before: the list of pieces may have moved as it grew.
	piece := 0
	for i := range requests {
		if wr := &requests[i]; wr.Flags&verbs.SendInline == 0 {
			wr.SGL = pieces[piece : piece+1]
			piece++
		}
	}
	idle := f.outstanding == len(requests)
	_, err := f.qp.PostSend(requests)
	h.requests, h.pieces = requests[:0], pieces[:0]
	if err == nil && idle && f.kept != nil {
		h.say(notice{at: h.nic.Now(), kind: flowBusy, flow: f})
	}
	return err
}
