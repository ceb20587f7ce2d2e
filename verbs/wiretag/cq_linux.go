package wiretag

import (
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// cq is a completion queue. It implements verbs.CQ.
type cq struct {
	verbs.CQ
	dev *Device
	qps []*qp // RC queue pairs that send here, by number; guarded by dev.mu

	// What the last Poll returned, for who polled.
	polled []completion
	next   int // the one after that last asked for
}

// completion is a completion of a send request and what was reported of it.
type completion struct {
	wrid   uint64
	qpn    uint32
	report report
}

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	c := &cq{dev: d}
	if a.Channel != nil {
		ch, ok := a.Channel.(*channel)
		if !ok || ch.dev != d {
			return nil, verbs.Errorf("create_cq", d.Name(), verbs.ErrInvalid, "Channel must be made by this device")
		}
		a.Channel = ch.CompChannel
	}
	var err error
	if c.CQ, err = d.Device.CreateCQ(a); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inner[c.CQ] = c
	return c, nil
}

// Poll implements verbs.CQ.
func (c *cq) Poll(wc []verbs.WC) (int, error) {
	n, err := c.CQ.Poll(wc)
	if n == 0 || c.dev.mode == Reflect {
		return n, err
	}
	c.attribute(wc[:n])
	return n, err
}

// attribute finds what was reported of completions. With tags that is in the ring: the
// kernel put it there before the packet reached the transport.
func (c *cq) attribute(wc []verbs.WC) {
	d := c.dev
	c.polled, c.next = c.polled[:0], 0
	d.mu.Lock()
	defer d.mu.Unlock()
	d.src.take(d.onEvent)
	for i := range wc {
		w := &wc[i]
		q := c.sender(w)
		if q == nil {
			continue
		}
		r, ok := report{}, false
		if q.path != nil {
			r, ok = d.latest(q.path)
			d.probe(q.path)
		} else if s, known := q.queue.Complete(w.WRID); known && s.Acked != 0 {
			r, ok = q.reports.of(s.Acked)
		}
		if !ok {
			d.stats.Unreported++
			continue
		}
		d.stats.Reported++
		c.polled = append(c.polled, completion{w.WRID, w.QPN, r})
	}
}

// sender returns the queue pair that a successful completion of a send request is of,
// nil if it is none that is known. After a failure nothing succeeds any more.
func (c *cq) sender(w *verbs.WC) *qp {
	i, ok := byNumber(c.qps, w.QPN)
	if !ok || !c.qps[i].known && c.qps[i].path == nil {
		return nil
	}
	q := c.qps[i]
	if w.Status != ib.WCSuccess {
		q.failed = true
		return nil
	}
	if w.Opcode >= ib.WCRecv {
		return nil
	}
	return q
}

// find returns what was reported of a completion that the last Poll returned. Who asks
// in the order of the completions searches nothing.
func (c *cq) find(wc *verbs.WC) *report {
	for k := range c.polled {
		i := c.next + k
		if i >= len(c.polled) {
			i -= len(c.polled)
		}
		if p := &c.polled[i]; p.wrid == wc.WRID && p.qpn == wc.QPN {
			c.next = i + 1
			return &p.report
		}
	}
	return nil
}

// Destroy implements verbs.CQ.
func (c *cq) Destroy() error {
	if err := c.CQ.Destroy(); err != nil {
		return err
	}
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	delete(c.dev.inner, c.CQ)
	return nil
}

// insert and drop keep qps in order. The lock is held.
func (c *cq) insert(q *qp) {
	i, _ := byNumber(c.qps, q.num)
	c.qps = slices.Insert(c.qps, i, q)
}

func (c *cq) drop(q *qp) {
	if i, ok := byNumber(c.qps, q.num); ok && c.qps[i] == q {
		c.qps = slices.Delete(c.qps, i, i+1)
	}
}

// channel is a completion channel whose events name the CQs here.
type channel struct {
	verbs.CompChannel
	dev *Device
}

// CreateCompChannel implements verbs.Device.
func (d *Device) CreateCompChannel() (verbs.CompChannel, error) {
	ch, err := d.Device.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &channel{ch, d}, nil
}

// Wait implements verbs.CompChannel.
func (ch *channel) Wait(timeout time.Duration) (verbs.CQ, error) {
	inner, err := ch.CompChannel.Wait(timeout)
	if err != nil {
		return nil, err
	}
	ch.dev.mu.Lock()
	defer ch.dev.mu.Unlock()
	if c, ok := ch.dev.inner[inner].(*cq); ok {
		return c, nil
	}
	return inner, nil
}
