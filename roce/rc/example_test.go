package rc_test

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// endpoint is a driver: a queue pair, one memory region that the peer may read
// and write under key 1, and a wire that is a function.
type endpoint struct {
	qp     *rc.QP
	recv   *rc.RecvQueue
	memory []byte
	local  map[uint32][]byte // buffers of send requests, by slot
	inbox  map[uint32][]byte // buffers of receives, by slot
	wire   func(h *rc.Header, payload []byte)
	eff    rc.Effects
}

// base is the region's first address in its host's address space.
const base = 0x10000

func newEndpoint() *endpoint {
	recv, err := rc.NewRecvQueue(16)
	if err != nil {
		panic(err)
	}
	qp, err := rc.New(rc.Config{
		MTU: 1024, SendDepth: 16, Recv: recv, MaxDestRdAtomic: 4, MinRNRTimer: 12,
		Access: ib.AccessRemoteWrite | ib.AccessRemoteRead,
	})
	if err != nil {
		panic(err)
	}
	if err := qp.ReadyToSend(rc.SendConfig{Timeout: 14, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 4}); err != nil {
		panic(err)
	}
	return &endpoint{
		qp: qp, recv: recv, memory: make([]byte, 4096), local: map[uint32][]byte{}, inbox: map[uint32][]byte{},
	}
}

// transmit sends all that may be sent now. A real driver would pace requests,
// and ask Fresh where time passes between describing and sending.
func (e *endpoint) transmit(now units.Time) {
	var d rc.Descriptor
	for e.qp.NextResponse(now, &d) || e.qp.NextRequest(now, &d) {
		var payload []byte
		switch d.Source {
		case rc.SourceRequest:
			payload = e.local[d.Slot][d.Offset:][:d.Payload]
		case rc.SourceMemory:
			payload = e.memory[d.VA-base:][:d.Payload]
		}
		if e.qp.Fresh(&d) {
			e.wire(&d.Header, payload)
		}
	}
}

// receive takes a packet from the wire.
func (e *endpoint) receive(now units.Time, h *rc.Header, payload []byte) {
	eff := &e.eff
	e.qp.Receive(now, h, len(payload), eff)
	if eff.Do&rc.DoCheck != 0 {
		c := &eff.Check
		ok := !c.Invalidate && c.RKey == 1 && c.VA >= base && c.VA+uint64(c.Length) <= base+uint64(len(e.memory))
		e.qp.Checked(now, ok, eff)
	}
	if eff.Do&rc.DoPlace != 0 {
		switch p := &eff.Place; p.Kind {
		case rc.PlaceMemory:
			copy(e.memory[p.VA-base:], payload)
		case rc.PlaceRecv:
			copy(e.inbox[p.Slot][p.Offset:], payload)
		case rc.PlaceRead:
			copy(e.local[p.Slot][p.Offset:], payload)
		}
	}
	if eff.Do&rc.DoRecv != 0 {
		r := &eff.Recv
		fmt.Printf("receive %d: %q, %v\n", r.ID, e.inbox[r.Slot][:r.Bytes], r.Status)
		e.recv.Free(r.Slot)
	}
	var c rc.SendCompletion
	for e.qp.PollSend(&c) {
		fmt.Printf("request %d: %v, %v\n", c.ID, c.Opcode, c.Status)
	}
	if at := e.qp.Deadline(); at <= now { // a real driver sets a timer
		e.qp.Expire(now, eff)
	}
	e.transmit(now)
}

func (e *endpoint) post(r rc.Request, buffer []byte) {
	r.Length, r.Signaled = uint32(len(buffer)), true
	slot, err := e.qp.PostSend(&r)
	if err != nil {
		panic(err)
	}
	e.local[slot] = buffer
}

// Two endpoints over a wire without time or loss: a Write, a Send and a Read of
// what was written, then a Write to where nothing may be written.
func Example() {
	a, b := newEndpoint(), newEndpoint()
	var now units.Time
	a.wire = func(h *rc.Header, payload []byte) { b.receive(now, h, payload) }
	b.wire = func(h *rc.Header, payload []byte) { a.receive(now, h, payload) }

	slot, err := b.recv.Post(rc.Recv{ID: 7, Length: 64})
	if err != nil {
		panic(err)
	}
	b.inbox[slot] = make([]byte, 64)

	back := make([]byte, 16)
	a.post(rc.Request{ID: 1, Op: ib.WRRDMAWrite, RemoteAddr: base, RKey: 1}, []byte("bytes in memory."))
	a.post(rc.Request{ID: 2, Op: ib.WRSend}, []byte("look there"))
	a.post(rc.Request{ID: 3, Op: ib.WRRDMARead, RemoteAddr: base, RKey: 1}, back)
	a.transmit(now)
	fmt.Printf("read back: %q\n", back)

	a.post(rc.Request{ID: 4, Op: ib.WRRDMAWrite, RemoteAddr: base + 4090, RKey: 1}, []byte("too far"))
	a.transmit(now)
	fmt.Println(a.qp.State(), b.qp.State())

	// Output:
	// request 1: RDMA_WRITE, success
	// receive 7: "look there", success
	// request 2: SEND, success
	// request 3: RDMA_READ, success
	// read back: "bytes in memory."
	// request 4: RDMA_WRITE, remote access error
	// ERR ERR
}
