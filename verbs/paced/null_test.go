package paced_test

import (
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// nullDevice is a provider that completes each request as it is posted, and
// costs as little as one can: to measure the shim, and to use it from several
// goroutines.
type nullDevice struct {
	verbs.Device
	mu   sync.Mutex // guards time and qps
	time units.Time
	qps  uint32
	// start, if set, lets a reading of the clock cost what one of the host's
	// does; one goroutine uses the device then. If host is set, the clock is the
	// host's.
	start time.Time
	taken time.Duration
	host  bool
}

func (d *nullDevice) Name() string           { return "null:0" }
func (d *nullDevice) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{MaxQPWR: 4096, MaxCQE: 1 << 20} }
func (d *nullDevice) Now() time.Duration     { return d.NowPrecise().Duration() }
func (d *nullDevice) NowPrecise() units.Time {
	switch {
	case d.host:
		return units.FromDuration(time.Since(d.start))
	case !d.start.IsZero():
		d.taken = time.Since(d.start)
		return d.time
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.time
}
func (d *nullDevice) Port(int) (verbs.PortAttr, error) {
	return verbs.PortAttr{LinkRate: int64(100 * units.Gbps)}, nil
}
func (d *nullDevice) GID(int, int) (netip.Addr, error) { return netip.Addr{}, nil }
func (d *nullDevice) AllocPD() (verbs.PD, error)       { return &nullPD{dev: d}, nil }
func (d *nullDevice) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	return &nullCQ{ring: make([]verbs.WC, a.CQE)}, nil
}

type nullPD struct {
	verbs.PD
	dev *nullDevice
}

func (p *nullPD) Dealloc() error { return nil }

func (p *nullPD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	p.dev.qps++
	return &nullQP{num: p.dev.qps, cq: a.SendCQ.(*nullCQ)}, nil
}

type nullCQ struct {
	verbs.CQ
	mu         sync.Mutex // what a real provider costs at least
	ring       []verbs.WC
	head, tail int
}

func (c *nullCQ) Poll(wc []verbs.WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(wc) && c.head != c.tail {
		wc[n] = c.ring[c.head%len(c.ring)]
		c.head++
		n++
	}
	return n, nil
}

func (c *nullCQ) Destroy() error { return nil }

type nullQP struct {
	verbs.QP
	num uint32
	cq  *nullCQ
}

func (q *nullQP) Num() uint32                                 { return q.num }
func (q *nullQP) Type() ib.QPType                             { return ib.RC }
func (q *nullQP) Modify(verbs.QPAttr, verbs.QPAttrMask) error { return nil }
func (q *nullQP) Destroy() error                              { return nil }
func (q *nullQP) PostSend(wrs []verbs.SendWR) (int, error) {
	c := q.cq
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range wrs {
		c.ring[c.tail%len(c.ring)] = verbs.WC{WRID: wrs[i].WRID, QPN: q.num}
		c.tail++
	}
	return len(wrs), nil
}
