package softroce

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// What is here locks the device around the endpoint's objects.

type domain struct {
	dev  *device
	core *endpoint.PD
}

// AllocPD implements verbs.Device.
func (d *device) AllocPD() (verbs.PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unusable("alloc_pd"); err != nil {
		return nil, err
	}
	core, err := d.core.AllocPD()
	if err != nil {
		return nil, err
	}
	return &domain{dev: d, core: core}, nil
}

// Close implements verbs.PD.
func (p *domain) Close() error {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	return p.core.Close()
}

type region struct {
	dev  *device
	core *endpoint.MR
}

// RegMR implements verbs.PD.
func (p *domain) RegMR(buf []byte, access ib.AccessFlags) (verbs.MR, error) {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if err := p.dev.unusable("reg_mr"); err != nil {
		return nil, err
	}
	m, err := p.core.RegMR(buf, access)
	if err != nil {
		return nil, err
	}
	return &region{p.dev, m}, nil
}

// RegMemory implements verbs.MemoryPD. Bytes are read as the packet that carries them
// leaves, with the device's lock held, and written as they arrive. Atomics are atomic
// among those of this device. addr and iova have the same offset within a page.
func (p *domain) RegMemory(m verbs.Memory, addr, length, iova uint64, access ib.AccessFlags) (verbs.MR, error) {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if err := p.dev.unusable("reg_mr"); err != nil {
		return nil, err
	}
	r, err := p.core.RegMemory(m, addr, length, iova, access)
	if err != nil {
		return nil, err
	}
	return &region{p.dev, r}, nil
}

func (m *region) Addr() uint64           { return m.core.Addr() }
func (m *region) Length() int            { return m.core.Length() }
func (m *region) LKey() uint32           { return m.core.Key() }
func (m *region) RKey() uint32           { return m.core.Key() }
func (m *region) Access() ib.AccessFlags { return m.core.Access() }

// SetAccess implements verbs.ReaccessibleMR.
func (m *region) SetAccess(access ib.AccessFlags) error {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	return m.core.SetAccess(access)
}

// Close implements verbs.MR. Payload is copied under the lock, so no goroutine
// still copies it afterwards.
func (m *region) Close() error {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	return m.core.Close()
}

type window struct {
	dev  *device
	core *endpoint.MW
}

// AllocMW implements verbs.WindowPD.
func (p *domain) AllocMW(t ib.MWType) (verbs.MW, error) {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if err := p.dev.unusable("alloc_mw"); err != nil {
		return nil, err
	}
	w, err := p.core.AllocMW(t)
	if err != nil {
		return nil, err
	}
	return &window{p.dev, w}, nil
}

func (w *window) Type() ib.MWType { return w.core.Type() }

// RKey implements verbs.MW.
func (w *window) RKey() uint32 {
	w.dev.mu.Lock()
	defer w.dev.mu.Unlock()
	return w.core.Key()
}

// Close implements verbs.MW.
func (w *window) Close() error {
	w.dev.mu.Lock()
	defer w.dev.mu.Unlock()
	return w.core.Close()
}

type sharedQueue struct {
	dev  *device
	core *endpoint.RecvQueue
}

// CreateSRQ implements verbs.PD.
func (p *domain) CreateSRQ(a verbs.SRQInitAttr) (verbs.SRQ, error) {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if err := p.dev.unusable("create_srq"); err != nil {
		return nil, err
	}
	s, err := p.core.CreateSRQ(a)
	if err != nil {
		return nil, err
	}
	out := &sharedQueue{p.dev, s}
	s.Owner = out
	return out, nil
}

// PostRecv implements verbs.SRQ.
func (s *sharedQueue) PostRecv(wrs []verbs.RecvWR) (int, error) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return s.core.PostRecv(wrs)
}

// SetRecvSource implements verbs.SourcedRecv.
func (s *sharedQueue) SetRecvSource(r verbs.RecvSource) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.core.SetSource(r)
}

// SetLimit implements verbs.LimitSRQ. What a verbs.RecvSource still has is not counted.
func (s *sharedQueue) SetLimit(n int) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return s.core.SetLimit(n)
}

// Close implements verbs.SRQ.
func (s *sharedQueue) Close() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if err := s.core.Close(); err != nil {
		return err
	}
	s.dev.events.Forget(verbs.AsyncEvent{SRQ: s, Port: 1})
	s.dev.descriptor.set(s.dev.events.Waiting())
	return nil
}

// addressHandle implements verbs.AH. The endpoint finds its own in it.
type addressHandle struct {
	*endpoint.AH
	dev *device
}

// CreateAH implements verbs.PD.
func (p *domain) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if err := p.dev.unusable("create_ah"); err != nil {
		return nil, err
	}
	a, err := p.core.CreateAH(av)
	if err != nil {
		return nil, err
	}
	return &addressHandle{a, p.dev}, nil
}

// Close implements verbs.AH.
func (a *addressHandle) Close() error {
	a.dev.mu.Lock()
	defer a.dev.mu.Unlock()
	return a.AH.Close()
}

// queuePair implements verbs.QP, verbs.TelemetryQP, verbs.CNPQP and verbs.RepairsQP.
type queuePair struct {
	dev  *device
	core *endpoint.QP
}

// CreateQP implements verbs.PD.
func (p *domain) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	d := p.dev
	init := endpoint.QPInit{Type: a.Type, Cap: a.Cap, SigAll: a.SigAll}
	send, ok1 := a.SendCQ.(*completionQueue)
	recv, ok2 := a.RecvCQ.(*completionQueue)
	if !ok1 || !ok2 || send.dev != d || recv.dev != d {
		return nil, verbs.Errorf("create_qp", d.name, verbs.ErrInvalid, "give a send and a receive CQ of this device")
	}
	init.SendCQ, init.RecvCQ = send.core, recv.core
	if a.SRQ != nil {
		s, ok := a.SRQ.(*sharedQueue)
		if !ok || s.dev != d {
			return nil, verbs.Errorf("create_qp", d.name, verbs.ErrInvalid, "the SRQ belongs to another device")
		}
		init.SRQ = s.core
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unusable("create_qp"); err != nil {
		return nil, err
	}
	q, err := p.core.CreateQP(init)
	if err != nil {
		return nil, err
	}
	out := &queuePair{d, q}
	q.Owner = out
	return out, nil
}

func (q *queuePair) Num() uint32     { return q.core.Num() }
func (q *queuePair) Type() ib.QPType { return q.core.Type() }

// CNPs implements verbs.CNPQP.
func (q *queuePair) CNPs() uint64 { return q.core.CNPs() }

// Repairs implements verbs.RepairsQP.
func (q *queuePair) Repairs() verbs.Repairs {
	q.dev.mu.Lock()
	c := q.core.Transport()
	q.dev.mu.Unlock()
	return verbs.Repairs{
		Retransmitted: c.RetransmittedPackets, SequenceErrors: c.PacketSeqErr + c.ImpliedNakSeqErr,
		Timeouts: c.LocalAckTimeoutErr, RNRNAKs: c.RNRNakRetryErr,
	}
}

// PostSend implements verbs.QP. It puts on the wire what may go at once.
func (q *queuePair) PostSend(wrs []verbs.SendWR) (int, error) {
	if c := &q.dev.chosen; c.Any() {
		object := fmt.Sprintf("qp %d of %s", q.core.Num(), q.dev.name)
		return c.PostSend(q.core.Num(), object, len(wrs), func(n int) (int, error) { return q.postSend(wrs[:n]) })
	}
	return q.postSend(wrs)
}

func (q *queuePair) postSend(wrs []verbs.SendWR) (int, error) {
	d := q.dev
	d.mu.Lock()
	n, err := q.core.PostSend(d.now(), wrs)
	d.flush()
	return n, err
}

// PostRecv implements verbs.QP.
func (q *queuePair) PostRecv(wrs []verbs.RecvWR) (int, error) {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	return q.core.PostRecv(d.now(), wrs)
}

// SetRecvSource implements verbs.SourcedRecv. A queue pair with an SRQ ignores it.
func (q *queuePair) SetRecvSource(r verbs.RecvSource) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	q.core.SetRecvSource(r)
}

// Modify implements verbs.QP.
func (q *queuePair) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	d := q.dev
	d.mu.Lock()
	err := d.unusable("modify_qp")
	if err == nil || d.port.gone && mask&verbs.AttrState != 0 && (a.State == ib.Err || a.State == ib.Reset) {
		err = q.core.Modify(d.now(), a, mask)
	}
	d.flush()
	return err
}

// Query implements verbs.QP.
func (q *queuePair) Query() (verbs.QPAttr, error) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.core.Query()
}

// Close implements verbs.QP.
func (q *queuePair) Close() error {
	if err := q.close(); err != nil {
		return err
	}
	if q.dev.chosen.Any() {
		q.dev.chosen.Forget(q.core.Num())
	}
	return nil
}

func (q *queuePair) close() error {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	if err := q.core.Close(); err != nil {
		return err
	}
	q.dev.events.Forget(verbs.AsyncEvent{QP: q, Port: 1})
	q.dev.descriptor.set(q.dev.events.Waiting())
	return nil
}

// CompletionTelemetry implements verbs.TelemetryQP: the telemetry of the request's
// packets, or its responses.
func (q *queuePair) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	return q.core.SendCQ().Telemetry(wc, t)
}

// TelemetryKinds implements verbs.TelemetryQP: switches mark packets, and what else
// they do the device's options say.
func (q *queuePair) TelemetryKinds() verbs.TelemetryKinds {
	k := q.dev.opt.collect.kinds()
	if *q.dev.opt.Turns {
		k |= verbs.ReportsTurnaround
	}
	return k
}

// completionQueue implements verbs.CQ.
type completionQueue struct {
	dev     *device
	core    *endpoint.CQ
	channel *channel
	empty   int // polls in a row that found nothing; for the goroutine that polls
}

// CreateCQ implements verbs.Device.
func (d *device) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unusable("create_cq"); err != nil {
		return nil, err
	}
	c := &completionQueue{dev: d}
	var notify func()
	if a.Channel != nil {
		ch, ok := a.Channel.(*channel)
		if !ok || ch.dev != d || ch.gone {
			return nil, verbs.Errorf("create_cq", d.name, verbs.ErrInvalid, "the channel belongs to another device")
		}
		c.channel = ch
		notify = func() { ch.fire(c) }
	}
	core, err := d.core.CreateCQ(a.CQE, notify)
	if err != nil {
		return nil, err
	}
	c.core, core.Owner = core, c
	if c.channel != nil {
		c.channel.users++
	}
	return c, nil
}

// yieldEvery is after how many polls that found nothing the goroutine lets other
// goroutines and other threads run. One of them may be the peer that it waits for:
// where the processors are shared, one that never yields waits for its time slice to end.
const yieldEvery = 16

// Poll implements verbs.CQ. When it finds nothing it receives from the network
// itself: a loop that polls moves its own packets, without a change of goroutine.
func (c *completionQueue) Poll(wc []verbs.WC) (int, error) {
	s := &c.dev.chosen
	if !s.Any() {
		return c.poll(wc)
	}
	if err := s.Poll(c.dev.name, c.uses); err != nil {
		return 0, err
	}
	n, err := c.poll(wc)
	for i := range wc[:n] {
		s.Polled(&wc[i], breaker{c.dev})
	}
	return n, err
}

func (c *completionQueue) poll(wc []verbs.WC) (int, error) {
	n, err := c.core.Poll(wc)
	if n > 0 || err != nil || len(wc) == 0 {
		c.empty = 0
		return n, err
	}
	if c.dev.clock.world != nil {
		return c.dev.clock.world.pollAgain(c.core, wc)
	}
	if c.dev.pollWire() {
		if n, err = c.core.Poll(wc); n > 0 || err != nil {
			return n, err
		}
	}
	if c.empty++; c.empty == yieldEvery {
		c.empty = 0
		runtime.Gosched()
		yieldThread()
	}
	return 0, nil
}

// ReqNotify implements verbs.CQ.
func (c *completionQueue) ReqNotify(solicitedOnly bool) error { return c.core.ReqNotify(solicitedOnly) }

// Resize implements verbs.ResizableCQ.
func (c *completionQueue) Resize(cqe int) error {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	return c.core.Resize(cqe)
}

// Cap implements verbs.CQ.
func (c *completionQueue) Cap() int { return c.core.Cap() }

// Close implements verbs.CQ.
func (c *completionQueue) Close() error {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.core.Close(); err != nil {
		return err
	}
	d.events.Forget(verbs.AsyncEvent{CQ: c, Port: 1})
	d.descriptor.set(d.events.Waiting())
	if c.channel != nil {
		c.channel.users--
		c.channel.forget(c)
	}
	return nil
}

// channel implements verbs.CompChannel.
type channel struct {
	dev   *device
	users int // guarded by the device's lock
	gone  bool

	mu         sync.Mutex // guards fired and descriptor
	fired      []*completionQueue
	descriptor descriptor
	ready      chan struct{}
}

// CreateCompChannel implements verbs.Device.
func (d *device) CreateCompChannel() (verbs.CompChannel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unusable("create_comp_channel"); err != nil {
		return nil, err
	}
	d.objects++
	return &channel{dev: d, ready: make(chan struct{}, 1)}, nil
}

func (h *channel) fire(c *completionQueue) {
	h.mu.Lock()
	h.fired = append(h.fired, c)
	h.descriptor.set(true)
	h.mu.Unlock()
	signal(h.ready)
}

// forget drops the events of a queue that is destroyed.
func (h *channel) forget(c *completionQueue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.fired[:0]
	for _, f := range h.fired {
		if f != c {
			kept = append(kept, f)
		}
	}
	h.fired = kept
	h.descriptor.set(len(kept) > 0)
}

// Wait implements verbs.CompChannel.
func (h *channel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	if timeout != 0 { // no goroutine polls for a sleeping one
		h.dev.waiting.Add(1)
		defer h.dev.waiting.Add(-1)
		signal(h.dev.wake)
	}
	var c *completionQueue
	err := h.dev.wait(ctx, timeout, h.ready, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.fired) == 0 {
			return false
		}
		c = h.fired[0]
		h.fired = h.fired[:copy(h.fired, h.fired[1:])]
		if len(h.fired) > 0 {
			signal(h.ready)
		}
		h.descriptor.set(len(h.fired) > 0)
		return true
	})
	if err != nil {
		return nil, verbs.Errorf("get_cq_event", h.dev.name, err, "")
	}
	return c, nil
}

// Close implements verbs.CompChannel.
func (h *channel) Close() error {
	d := h.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case h.gone:
		return verbs.Errorf("destroy_comp_channel", d.name, verbs.ErrClosed, "")
	case h.users > 0:
		return verbs.Errorf("destroy_comp_channel", d.name, verbs.ErrBusy, "%d completion queues use it", h.users)
	}
	h.gone = true
	h.mu.Lock()
	defer h.mu.Unlock()
	h.descriptor.close()
	d.objects--
	return nil
}
