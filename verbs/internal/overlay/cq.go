package overlay

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// CQ is a completion queue of a Device. It implements verbs.CQ, and verbs.ModifiableCQ
// as far as the one below does.
type CQ[Q Conn, V any] struct {
	verbs.CQ
	dev     *Device[Q, V]
	watched bool
	numbers []uint32    // of senders, in order; guarded by the layer's lock
	senders []sender[Q] // by number; guarded by the layer's lock

	// The result of the last Poll, for the goroutine that polled.
	polled []completion[V]
	next   int // the one after the last one requested
}

// sender is a queue pair that sends here.
type sender[Q any] struct {
	*state
	q Q
}

// completion is a completion of a send request, and what is known of it.
type completion[V any] struct {
	wrid  uint64
	qpn   uint32
	value V
}

// CreateCQ implements verbs.Device.
func (d *Device[Q, V]) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	c := &CQ[Q, V]{dev: d, watched: d.layer.Watches(&a)}
	if a.Channel != nil {
		ch, ok := a.Channel.(*channel[Q, V])
		if !ok || ch.dev != d {
			return nil, verbs.Errorf("create_cq", d.Name(), verbs.ErrInvalid, "Channel must be made by this device")
		}
		a.Channel = ch.CompChannel
	}
	var err error
	if c.CQ, err = d.Device.CreateCQ(a); err != nil {
		return nil, err
	}
	d.layer.Mu.Lock()
	defer d.layer.Mu.Unlock()
	d.inner[c.CQ] = c
	return c, nil
}

// Watched reports whether the layer sees what a Poll returned.
func (c *CQ[Q, V]) Watched() bool { return c.watched }

// Poll implements verbs.CQ.
func (c *CQ[Q, V]) Poll(wc []verbs.WC) (int, error) {
	n, err := c.CQ.Poll(wc)
	if n == 0 || !c.watched {
		return n, err
	}
	c.polled, c.next = c.polled[:0], 0
	c.dev.layer.Mu.Lock()
	defer c.dev.layer.Mu.Unlock()
	c.dev.layer.Polled(c, wc[:n])
	return n, err
}

// Sender returns the queue pair of a successful completion of a send request, if its
// connection has begun. After a failure no request succeeds. The lock is held.
func (c *CQ[Q, V]) Sender(w *verbs.WC) (q Q, ok bool) {
	i, ok := c.place(w.QPN)
	if !ok || !c.senders[i].live {
		return q, false
	}
	s := &c.senders[i]
	if w.Status != ib.WCSuccess {
		s.failed = true
		return q, false
	}
	return s.q, w.Opcode < ib.WCRecv
}

// Put notes what is known of a completion that a Poll is about to return, for Find.
func (c *CQ[Q, V]) Put(w *verbs.WC, v V) {
	c.polled = append(c.polled, completion[V]{w.WRID, w.QPN, v})
}

// Find returns what was put for a completion that the last Poll returned, nil if
// nothing was. Calls in the order of the completions need no search. Only the
// goroutine that polls may call Find.
func (c *CQ[Q, V]) Find(wc *verbs.WC) *V {
	for k := range c.polled {
		i := c.next + k
		if i >= len(c.polled) {
			i -= len(c.polled)
		}
		if p := &c.polled[i]; p.wrid == wc.WRID && p.qpn == wc.QPN {
			c.next = i + 1
			return &p.value
		}
	}
	return nil
}

// Modify implements verbs.ModifiableCQ.
func (c *CQ[Q, V]) Modify(a verbs.CQAttr) error {
	if m, ok := c.CQ.(verbs.ModifiableCQ); ok {
		return m.Modify(a)
	}
	return verbs.Errorf("modify_cq", c.dev.Name(), verbs.ErrNotSupported, "the device does not hold events back")
}

// Close implements verbs.CQ.
func (c *CQ[Q, V]) Close() error {
	if err := c.CQ.Close(); err != nil {
		return err
	}
	c.dev.layer.Mu.Lock()
	defer c.dev.layer.Mu.Unlock()
	delete(c.dev.inner, c.CQ)
	return nil
}

// place finds a queue pair number among the senders.
func (c *CQ[Q, V]) place(num uint32) (int, bool) { return slices.BinarySearch(c.numbers, num) }

// insert and drop keep the senders in order. The lock is held.
func (c *CQ[Q, V]) insert(num uint32, s *state, q Q) {
	i, _ := c.place(num)
	c.numbers = slices.Insert(c.numbers, i, num)
	c.senders = slices.Insert(c.senders, i, sender[Q]{s, q})
}

func (c *CQ[Q, V]) drop(num uint32, s *state) {
	if i, ok := c.place(num); ok && c.senders[i].state == s {
		c.numbers = slices.Delete(c.numbers, i, i+1)
		c.senders = slices.Delete(c.senders, i, i+1)
	}
}

// channel is a completion channel whose events name the CQs here.
type channel[Q Conn, V any] struct {
	verbs.CompChannel
	dev *Device[Q, V]
}

// CreateCompChannel implements verbs.Device.
func (d *Device[Q, V]) CreateCompChannel() (verbs.CompChannel, error) {
	ch, err := d.Device.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &channel[Q, V]{ch, d}, nil
}

// Wait implements verbs.CompChannel.
func (ch *channel[Q, V]) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	inner, err := ch.CompChannel.Wait(ctx, timeout)
	if err != nil {
		return nil, err
	}
	ch.dev.layer.Mu.Lock()
	defer ch.dev.layer.Mu.Unlock()
	if c, ok := ch.dev.inner[inner].(verbs.CQ); ok {
		return c, nil
	}
	return inner, nil
}
