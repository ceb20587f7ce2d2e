package fakenic

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

type cqe struct {
	wc   verbs.WC
	from *QP // whose send queue gets a place back, nil for receives
}

// CQ is a completion queue.
type CQ struct {
	dev        *Device
	size       int
	channel    *channel
	timestamps bool
	entries    []cqe
	armed      bool
	solicited  bool
}

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	if a.Timestamps && d.ClockHz == 0 {
		return nil, verbs.Errorf("create_cq", d.Name(), verbs.ErrNotSupported, "no timestamps")
	}
	d.objects++
	d.CQs++
	c := &CQ{dev: d, size: a.CQE, timestamps: a.Timestamps}
	if a.Channel != nil {
		c.channel = a.Channel.(*channel)
	}
	return c, nil
}

// Poll implements verbs.CQ.
func (c *CQ) Poll(wc []verbs.WC) (int, error) {
	if c.dev.OnPoll != nil {
		c.dev.OnPoll()
	}
	if c.dev.PollError != nil {
		if err := c.dev.PollError(c.channel != nil); err != nil {
			return 0, err
		}
	}
	if len(c.entries) == 0 {
		c.dev.World.RunUntil(c.dev.World.now + c.dev.World.PollCost)
		return 0, nil
	}
	n := 0
	for n < len(wc) && n < len(c.entries) {
		wc[n] = c.entries[n].wc
		if q := c.entries[n].from; q != nil {
			q.queued--
		}
		n++
	}
	c.entries = append(c.entries[:0], c.entries[n:]...)
	return n, nil
}

// ReqNotify implements verbs.CQ.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	c.armed, c.solicited = true, solicitedOnly
	return nil
}

// Cap implements verbs.CQ.
func (c *CQ) Cap() int { return c.size }

// Close implements verbs.CQ.
func (c *CQ) Close() error {
	c.dev.objects--
	c.dev.CQs--
	return nil
}

func (c *CQ) push(wc verbs.WC, from *QP, solicited bool) {
	if len(c.entries) == c.size {
		panic(fmt.Sprintf("fakenic: a CQ of %d overran", c.size))
	}
	if c.timestamps {
		wc.Timestamp = c.dev.Ticks(c.dev.World.now)
	}
	c.entries = append(c.entries, cqe{wc, from})
	if c.armed && (!c.solicited || solicited || wc.Status != ib.WCSuccess) {
		c.armed = false
		if c.channel != nil {
			c.channel.events = append(c.channel.events, c)
		}
	}
}

type channel struct {
	dev    *Device
	events []*CQ
}

// CreateCompChannel implements verbs.Device.
func (d *Device) CreateCompChannel() (verbs.CompChannel, error) {
	d.objects++
	return &channel{dev: d}, nil
}

// Wait implements verbs.CompChannel.
func (ch *channel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	w := ch.dev.World
	end := units.Never
	if timeout >= 0 {
		end = w.now + units.FromDuration(timeout)
	}
	for {
		if len(ch.events) > 0 {
			c := ch.events[0]
			ch.events = ch.events[1:]
			return c, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if next := w.Next(); next > end || next == units.Never {
			break
		}
		w.step()
	}
	if end == units.Never {
		return nil, ErrStuck
	}
	w.RunUntil(end)
	return nil, verbs.ErrTimeout
}

// Close implements verbs.CompChannel.
func (ch *channel) Close() error {
	ch.dev.objects--
	return nil
}

// Readable reports whether an event waits on a channel of CreateCompChannel, as
// its file descriptor would show.
func Readable(ch verbs.CompChannel) bool { return len(ch.(*channel).events) > 0 }
