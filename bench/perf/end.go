package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// end is one end of a run.
type end struct {
	cfg       Config
	dev       verbs.Device
	precise   verbs.PreciseClock // nil if the device's clock counts nanoseconds
	simulated bool
	conn      *exchange.Conn
	client    bool
	result    *Result

	greeting exchange.Greeting
	sizes    []int
	from     route.From
	inline   int
	outReads int

	pd             verbs.PD
	mr             verbs.MR
	buf            []byte
	slot           int // bytes of one queue pair's half of the buffer
	head           int // bytes before a message in what is received: the GRH of a datagram
	channel        verbs.CompChannel
	sendCQ, recvCQ verbs.CQ // one and the same where nothing is received
	qps            []verbs.QP
	handles        []verbs.AH // UD: of each queue pair's peer
	local, remote  []exchange.Dest
	// connectCM, if set, connects a queue pair by rdma_cm; conns are what it made.
	connectCM func(ctx context.Context, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error)
	conns     []*rdmacm.Conn

	stall  units.Time // how long nothing may happen
	wc     [16]verbs.WC
	start  units.Time // of the run
	last   units.Time // when something happened
	armed  bool
	looked units.Time // whether the other end is there

	paced   []*paced.QP // the paced ones
	qpStats paced.QPStats
	books   books
	renewal renewal
}

func newEnd(dev verbs.Device, conn *exchange.Conn, cfg Config) *end {
	e := &end{cfg: cfg.settle(), dev: dev, conn: conn, client: conn.Client(), simulated: verbs.Simulated(dev)}
	e.precise, _ = dev.(verbs.PreciseClock)
	if e.cfg.Stall == 0 {
		e.cfg.Stall = time.Minute
		if e.simulated {
			e.cfg.Stall = 2 * time.Second
		}
	}
	e.stall = units.FromDuration(e.cfg.Stall)
	e.renewal.limit = e.cfg.Reconnect
	return e
}

// now reads the device's clock.
func (e *end) now() units.Time {
	if e.precise != nil {
		return e.precise.NowPrecise()
	}
	return units.FromDuration(e.dev.Now())
}

// receives reports whether this end posts receives.
func (e *end) receives() bool {
	return e.cfg.Test.Verb == Send && (e.cfg.Test.Latency || e.cfg.Bidirectional || !e.client)
}

// prepare finds out what the device has, and settles the rest with the other end.
func (e *end) prepare() error {
	c := &e.cfg
	port, err := e.dev.Port(c.Port)
	if err != nil {
		return err
	}
	if port.State != verbs.PortActive {
		return verbs.Errorf("query_port", e.dev.Name(), verbs.ErrState, "port %d is not active", c.Port)
	}
	if most, size := int(port.MaxMsgSize), c.largest(port.ActiveMTU); most > 0 && size > most && c.Service != ib.UD {
		return verbs.Errorf("query_port", e.dev.Name(), verbs.ErrInvalid, "a message of %d bytes is above the longest of port %d, %d", size, c.Port, most)
	}
	if e.from, err = route.Choose(e.dev, c.Port, toward(e.conn, c.GID, c.IPv6)); err != nil {
		return err
	}
	mtu := c.MTU
	switch {
	case mtu == 0:
		mtu = e.from.MTU
	case mtu > port.ActiveMTU:
		return verbs.Errorf("query_port", e.dev.Name(), verbs.ErrInvalid, "a path MTU of %d is above the active MTU of port %d, %d", mtu, c.Port, port.ActiveMTU)
	}
	attr := e.dev.Attr()
	if c.Test.Verb == Atomic && !attr.Atomics {
		return verbs.Errorf("query_device", e.dev.Name(), verbs.ErrNotSupported, "it has no atomics")
	}
	e.inline = e.inlineSize(attr)
	e.outReads = 1
	if c.Test.Verb == Read || c.Test.Verb == Atomic {
		e.outReads = min(attr.MaxQPRdAtom, 255)
		if c.OutReads > 0 {
			e.outReads = min(c.OutReads, e.outReads)
		}
	}
	if e.greeting, err = e.conn.Greet(exchange.DefaultGreeting(mtu)); err != nil {
		return err
	}
	e.sizes = c.sizes(e.greeting.MTU)
	if c.Service == ib.UD {
		e.head = grhBytes
		if c.Size > int(e.greeting.MTU) {
			return verbs.Errorf("query_port", e.dev.Name(), verbs.ErrInvalid, "a datagram of %d bytes is above the path MTU of both ends, %d", c.Size, e.greeting.MTU)
		}
	}
	return nil
}

// grhBytes is what a datagram's receive holds before the message (IBA 11.4.2.1).
const grhBytes = 40

// toward is the other end of an exchange, with what the user says of this one's address.
func toward(conn *exchange.Conn, index int, ipv6 bool) route.To {
	to := route.Over(conn)
	to.Index = index
	if ipv6 {
		to.Family = route.IPv6
	}
	return to
}

// Largest messages that perftest sends inline in latency tests.
const (
	inlineWrite = 220
	inlineSend  = 236
)

func (e *end) inlineSize(attr verbs.DeviceAttr) int {
	want := e.cfg.Inline
	switch {
	case e.cfg.Test.Verb != Write && e.cfg.Test.Verb != Send:
		return 0
	case want >= 0:
		return want // the device says if it is too much
	case !e.cfg.Test.Latency:
		return 0
	case e.cfg.Test.Verb == Write:
		return min(inlineWrite, attr.MaxInlineData)
	}
	return min(inlineSend, attr.MaxInlineData)
}

// allocate makes buffer and queue pairs. The first half of the buffer is what
// this end sends from and reads into, a slot for each queue pair; the second is
// what the other end writes and reads, and where receives go.
func (e *end) allocate() (err error) {
	c := &e.cfg
	line := e.greeting.CacheLine
	e.slot = roundUp(max(e.sizes[len(e.sizes)-1]+e.head, e.greeting.CycleBuffer), line)
	if 2*int64(c.QPs)*int64(e.slot) > maxMemory {
		return verbs.Errorf("reg_mr", e.dev.Name(), verbs.ErrInvalid, "%d queue pairs with %d bytes each way, as the other end has it, need more than %d GiB", c.QPs, e.slot, maxMemory>>30)
	}
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	e.buf = make([]byte, 2*c.QPs*e.slot)
	if e.mr, err = e.pd.RegMR(e.buf, c.Test.access()); err != nil {
		return err
	}
	if c.Events {
		if e.channel, err = e.dev.CreateCompChannel(); err != nil {
			return err
		}
	}
	if e.sendCQ, err = e.dev.CreateCQ(verbs.CQInitAttr{CQE: max(c.TxDepth*c.QPs, 16), Channel: e.channel}); err != nil {
		return err
	}
	e.recvCQ = e.sendCQ
	if e.receives() {
		if e.recvCQ, err = e.dev.CreateCQ(verbs.CQInitAttr{CQE: max(c.RxDepth*c.QPs, 16), Channel: e.channel}); err != nil {
			return err
		}
	}
	for range c.QPs {
		qp, err := e.createQP()
		if err != nil {
			return err
		}
		i := len(e.qps)
		e.qps = append(e.qps, qp)
		e.local = append(e.local, exchange.Dest{
			OutReads: uint16(e.outReads), QPN: qp.Num(), PSN: e.firstPSN(i), RKey: e.mr.RKey(),
			VAddr: e.mr.Addr() + uint64((c.QPs+i)*e.slot), GID: e.from.GID,
		})
	}
	e.remote = make([]exchange.Dest, c.QPs)
	e.paced = e.pacedQPs()
	e.renewal.connected(e.local)
	return nil
}

// createQP makes a queue pair of the test.
func (e *end) createQP() (verbs.QP, error) {
	c, rx := &e.cfg, 1
	if e.receives() {
		rx = c.RxDepth
	}
	return e.pd.CreateQP(verbs.QPInitAttr{
		Type: c.Service, SendCQ: e.sendCQ, RecvCQ: e.recvCQ,
		Cap: verbs.QPCap{MaxSendWR: c.TxDepth, MaxRecvWR: rx, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: e.inline},
	})
}

// firstPSN is the initial PSN of queue pair i: the same in every simulated run, and
// unpredictable elsewhere.
func (e *end) firstPSN(i int) uint32 {
	if e.simulated {
		role := uint64(0)
		if e.client {
			role = 1
		}
		return rand.New(rand.NewPCG(role, uint64(i)+e.renewal.count<<32)).Uint32() & 0xffffff
	}
	return exchange.RandomPSN()
}

// free gives everything back, in the reverse order.
func (e *end) free() error {
	var errs []error
	part(e.conns)
	for _, qp := range e.qps {
		errs = append(errs, qp.Close())
	}
	if e.recvCQ != nil && e.recvCQ != e.sendCQ {
		errs = append(errs, e.recvCQ.Close())
	}
	if e.sendCQ != nil {
		errs = append(errs, e.sendCQ.Close())
	}
	if e.channel != nil {
		errs = append(errs, e.channel.Close())
	}
	for _, ah := range e.handles {
		errs = append(errs, ah.Close())
	}
	if e.mr != nil {
		errs = append(errs, e.mr.Close())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Close())
	}
	return errors.Join(errs...)
}

// poll takes completions from a CQ. Each has succeeded, or it is an error. A lost connection is
// made anew first, if that is wanted.
func (e *end) poll(cq verbs.CQ) ([]verbs.WC, error) {
	if e.renewal.lost != nil {
		return nil, e.recover()
	}
	n, err := cq.Poll(e.wc[:])
	if err != nil {
		return nil, err
	}
	wcs, err := e.sift(e.wc[:n])
	if err != nil {
		return nil, err
	}
	if len(wcs) > 0 {
		e.renewal.broken = false
		e.last = e.now()
		e.look(e.last)
	}
	return wcs, nil
}

func (e *end) failed(wc *verbs.WC) error {
	hint := ""
	switch wc.Status {
	case ib.WCRetryExcErr:
		hint = "the other end does not answer; is it still there, and does the path carry packets of this MTU?"
	case ib.WCRemAccessErr, ib.WCRemInvReqErr, ib.WCLocLenErr:
		hint = "do both ends run the same test with the same size?"
	case ib.WCRemOpErr:
		hint = "see what the other end says"
	}
	if wc.VendorErr != 0 {
		hint += fmt.Sprintf(" (the provider's code is %#x)", wc.VendorErr)
	}
	return verbs.Errorf("poll_cq", fmt.Sprintf("qp %#x of %s", wc.QPN, e.dev.Name()), &verbs.StatusError{WC: *wc}, "%s", hint)
}

// idle is called when there was nothing to do. It fails if that has been so for
// too long.
func (e *end) idle() error {
	now := e.now()
	e.look(now)
	if err := e.asked(now); err != nil {
		return err
	}
	if now-e.last > e.stall {
		return verbs.Errorf("poll_cq", e.dev.Name(), verbs.ErrTimeout, "nothing has completed for %v; is the other end still there, and does it run the same test with the same flags?", e.stall)
	}
	if err := e.parted(now); err != nil {
		return err
	}
	switch {
	case e.channel == nil:
		if !e.simulated {
			runtime.Gosched() // the other end, or the provider, may be in this process
		}
	case !e.armed:
		// Earlier completions are polled once more before the wait.
		e.armed = true
		if e.recvCQ != e.sendCQ {
			if err := e.recvCQ.ReqNotify(false); err != nil {
				return err
			}
		}
		return e.sendCQ.ReqNotify(false)
	default:
		e.armed = false
		wait := e.stall.Duration()
		if !e.simulated || e.renewal.limit > 0 {
			wait = min(wait, lookTime)
		}
		if _, err := e.channel.Wait(context.Background(), wait); err != nil && !errors.Is(err, verbs.ErrTimeout) {
			return err
		}
	}
	return nil
}

const (
	// lookTime is how often an end that waits looks whether the other is still there.
	lookTime = 100 * time.Millisecond
	// leftTime is how long the other end may have left a test that has no last barrier,
	// before what it sent has arrived.
	leftTime = 5 * units.Second
)

// parted fails if the other end has gone in the midst of a test. Before the last barrier
// only an end that has failed goes; write_lat has none.
func (e *end) parted(now units.Time) error {
	if e.simulated || now < e.looked+units.FromDuration(lookTime) {
		return nil
	}
	e.looked = now
	if e.cfg.Test == (Test{Write, true}) && now-e.last < leftTime || !e.conn.Gone() {
		return nil
	}
	return verbs.Errorf("poll_cq", e.dev.Name(), io.EOF, "the other end closed the connection before the test was over; see what it says")
}

// begin is called when a run with messages of a size begins.
func (e *end) begin(size int) {
	e.start = e.now()
	e.last = e.start
	e.openBooks(size, e.start)
}

// progress reports a run's progress: done messages of qps queue pairs.
func (e *end) progress(done, qps uint64, size int) {
	if e.cfg.Progress == nil {
		return
	}
	share := float64(done) / float64(uint64(max(e.cfg.Iterations, 1))*qps)
	if d := e.cfg.Duration; d > 0 {
		share = (e.now() - e.start).Seconds() / d.Seconds()
	}
	e.cfg.Progress(min(share, 1), fmt.Sprintf("%v, %d bytes", e.cfg.Test, size))
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
