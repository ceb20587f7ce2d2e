package simverbs

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// CQ implements verbs.CQ and verbs.ModifiableCQ.
type CQ struct {
	dev     *Device
	num     uint32
	cap     int
	channel *CompChannel
	users   int
	gone    bool
	// What the last Poll returned, for QP.CompletionTelemetry.
	polled []nicmodel.CQE
	n      int
}

const pollBatch = 64

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	if err := d.usable("create_cq"); err != nil {
		return nil, err
	}
	c := &CQ{dev: d, cap: a.CQE, polled: make([]nicmodel.CQE, pollBatch)}
	if a.Channel != nil {
		ch, ok := a.Channel.(*CompChannel)
		if !ok || ch.dev != d || ch.gone {
			return nil, verbs.Errorf("create_cq", d.name, verbs.ErrInvalid, "give a completion channel of this device")
		}
		c.channel = ch
	}
	num, err := d.nic.CreateCQ(a.CQE)
	if err != nil {
		return nil, verbs.Errorf("create_cq", d.name, verbs.ErrInvalid, "%v", err)
	}
	c.num = num
	if a.Timestamps {
		d.nic.StampCQ(num)
	}
	if c.channel != nil {
		c.channel.users++
		d.nic.OnEvent(num, func(now units.Time) {
			c.channel.fired = append(c.channel.fired, c)
			if d.onEvent != nil {
				d.onEvent(now)
			}
		})
	}
	d.nic.OnCompletion(num, func(now units.Time, _ bool) {
		if d.onCompletion != nil {
			d.onCompletion(now)
		}
	})
	if d.cqs == nil {
		d.cqs = map[uint32]*CQ{}
	}
	d.cqs[num] = c
	d.objects++
	return c, nil
}

// Poll implements verbs.CQ.
func (c *CQ) Poll(wc []verbs.WC) (int, error) {
	w := c.dev.world
	if c.gone {
		return 0, verbs.Errorf("poll_cq", c.dev.name, verbs.ErrClosed, "")
	}
	if c.dev.nic.Overrun(c.num) {
		return 0, verbs.Errorf("poll_cq", c.dev.name, verbs.ErrQueueFull, "the queue of %d completions has overrun; make it as large as the work that may be outstanding", c.cap)
	}
	fails := c.dev.chosen.Any()
	if fails {
		if err := c.dev.chosen.Poll(c.dev.name, c.uses); err != nil {
			return 0, err
		}
	}
	c.n = c.dev.nic.PollCQ(c.dev.nic.Now(), c.num, c.polled[:min(len(wc), pollBatch)])
	for i := range c.n {
		e := &c.polled[i]
		wc[i] = verbs.WC{
			WRID: e.WRID, Status: e.Status, Opcode: e.Opcode, ByteLen: e.ByteLen, Imm: e.Imm, QPN: e.QPN, SrcQP: e.SrcQPN, Timestamp: e.Timestamp,
			VendorErr: connectx.VendorErr(e.Status, e.Opcode&ib.WCRecv != 0),
		}
		if fails {
			c.dev.chosen.Polled(&wc[i], breaker{c.dev})
		}
		if s := wc[i].Status; s != ib.WCSuccess && s != ib.WCWRFlushErr && c.dev.onFailed != nil {
			c.dev.onFailed(&wc[i])
		}
		if e.HasImm {
			wc[i].Flags |= verbs.WCWithImm
		}
		if e.HasGRH {
			wc[i].Flags |= verbs.WCGRH
			if !e.IPv6 {
				wc[i].Flags |= verbs.WCIPv4
			}
		}
		if e.Solicited {
			wc[i].Flags |= verbs.WCSolicited
		}
		if e.HasInv {
			wc[i].Flags |= verbs.WCWithInv
		}
	}
	if c.n == 0 && len(wc) > 0 && w.interactive {
		// A loop that polls must not stop time.
		if err := w.actors.Wait(c.dev.nic.Now()+PollCost, nil); err != nil {
			return 0, err
		}
	}
	return c.n, nil
}

// uses reports whether a queue pair completes here.
func (c *CQ) uses(qpn uint32) bool {
	q := c.dev.qps[qpn]
	return q != nil && (q.sendCQ == c || q.recvCQ == c)
}

// ReqNotify implements verbs.CQ.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	if c.channel == nil {
		return verbs.Errorf("req_notify_cq", c.dev.name, verbs.ErrInvalid, "the queue was made without a completion channel")
	}
	if c.gone {
		return verbs.Errorf("req_notify_cq", c.dev.name, verbs.ErrClosed, "")
	}
	c.dev.nic.ReqNotify(c.dev.nic.Now(), c.num, solicitedOnly)
	return nil
}

// Modify implements verbs.ModifiableCQ: what holds events of a queue with a channel
// back.
func (c *CQ) Modify(a verbs.CQAttr) error {
	if c.gone {
		return verbs.Errorf("modify_cq", c.dev.name, verbs.ErrClosed, "")
	}
	c.dev.nic.ModerateCQ(c.num, a.Count, a.Period)
	return nil
}

// Resize implements verbs.ResizableCQ.
func (c *CQ) Resize(cqe int) error {
	if c.gone {
		return verbs.Errorf("resize_cq", c.dev.name, verbs.ErrClosed, "")
	}
	if err := c.dev.nic.ResizeCQ(c.num, cqe); err != nil {
		return verbs.Errorf("resize_cq", c.dev.name, verbs.ErrInvalid, "%v", err)
	}
	c.cap = cqe
	return nil
}

// Cap implements verbs.CQ.
func (c *CQ) Cap() int { return c.cap }

// Close implements verbs.CQ.
func (c *CQ) Close() error {
	if c.gone {
		return verbs.Errorf("destroy_cq", c.dev.name, verbs.ErrClosed, "")
	}
	if c.users > 0 {
		return verbs.Errorf("destroy_cq", c.dev.name, verbs.ErrBusy, "%d queue pairs use it", c.users)
	}
	if err := c.dev.nic.DestroyCQ(c.num); err != nil {
		return verbs.Errorf("destroy_cq", c.dev.name, verbs.ErrBusy, "%v", err)
	}
	if c.channel != nil {
		c.channel.users--
		c.channel.fired = slices.DeleteFunc(c.channel.fired, func(f *CQ) bool { return f == c })
	}
	c.gone = true
	delete(c.dev.cqs, c.num)
	c.dev.events.Forget(verbs.AsyncEvent{CQ: c})
	c.dev.objects--
	return nil
}

// CompChannel implements verbs.CompChannel.
type CompChannel struct {
	dev   *Device
	fired []*CQ
	users int
	gone  bool
}

// Wait implements verbs.CompChannel.
func (h *CompChannel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	w := h.dev.world
	until := h.dev.deadline(timeout)
	for len(h.fired) == 0 {
		if h.dev.nic.Now() >= until {
			return nil, verbs.Errorf("get_cq_event", h.dev.name, verbs.ErrTimeout, "")
		}
		if err := w.actors.WaitContext(ctx, until, func() bool { return len(h.fired) > 0 }); err != nil {
			return nil, verbs.Errorf("get_cq_event", h.dev.name, err, "")
		}
	}
	c := h.fired[0]
	h.fired = h.fired[:copy(h.fired, h.fired[1:])]
	return c, nil
}

// Close implements verbs.CompChannel.
func (h *CompChannel) Close() error {
	switch {
	case h.gone:
		return verbs.Errorf("destroy_comp_channel", h.dev.name, verbs.ErrClosed, "")
	case h.users > 0:
		return verbs.Errorf("destroy_comp_channel", h.dev.name, verbs.ErrBusy, "%d completion queues use it", h.users)
	}
	h.gone = true
	h.dev.objects--
	return nil
}
