package softroce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/chosen"
	"github.com/sluice-rdma/sluice/verbs/internal/events"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// device is a network interface as a verbs.Device. It is also a
// verbs.ClockReader, and has methods that no interface of package verbs asks for:
// see the package's documentation.
type device struct {
	name  string
	link  link // as it was when the device was opened
	opt   options
	mtu   ib.MTU
	watch *watch // of the interface; nil in a World
	clock clock
	wire  wire

	counters wireCounters
	polls    atomic.Uint64 // applications' polls that looked at the network
	waiting  atomic.Int32  // applications in CompChannel.Wait
	nap      atomic.Int64  // nanoseconds; see pollNap
	shapeAt  atomic.Int64  // when the link has something to do, in nanoseconds of the clock
	wake     chan struct{} // ends a nap

	// mu guards what follows and the endpoint.
	mu      sync.Mutex
	core    *endpoint.Endpoint
	port    port
	out     sender // the wire, or in a test one with faults
	sending bool   // a goroutine empties the endpoint; it alone uses batch
	pausing bool   // who sends is to let alone have its turn
	batch   batch
	shaper  *shaper // nil for none
	timer   alarm
	loses   loses
	died    bool // by Die
	timerAt units.Time
	origin  units.LongTime // of all instants that the lock guards
	closed  bool
	objects int // completion channels

	helper chan struct{} // wakes the goroutine that sends what an application's calls leave over
	done   chan struct{} // closed by Close
	tasks  sync.WaitGroup

	changing   sync.Mutex    // who changes the port holds it, and takes mu after it
	gone       chan struct{} // closed when the interface is gone; nil in a World
	received   chan struct{} // closed when receive has ended
	wireClosed bool          // guarded by mu; set by who pauses, or by Close

	chosen     chosen.Set
	events     events.Queue
	eventReady chan struct{}
	descriptor descriptor // of events

	mads madQueue
}

// portZone marks the UDP port in a GID whose device has another than 4791.
const portZone = "port"

func open(name string, l link, o options) (*device, error) {
	bad := func(cause error, format string, args ...any) (*device, error) {
		return nil, verbs.Errorf("open", name, cause, format, args...)
	}
	mtu, err := l.pathMTU(o.collect.bytes())
	if err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	if o.Turns == nil {
		o.Turns = &l.loop
	}
	d, err := newDevice(name, l, o, mtu, clock{start: time.Now()}, rand.Reader)
	if err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	if err := d.startWatch(); err != nil {
		return nil, err
	}
	if d.wire, err = d.openWire(); err != nil {
		d.watch.Close()
		var op *verbs.OpError
		if errors.As(err, &op) {
			return nil, err
		}
		return bad(err, "")
	}
	d.out = d.wire
	d.muteWire() // until there is a handler
	d.timer = time.AfterFunc(time.Hour, d.expire)
	d.timer.Stop()
	d.tasks.Go(d.help)
	d.tasks.Go(func() {
		defer close(d.received)
		d.receive()
	})
	d.tasks.Go(d.follow)
	return d, nil
}

// newDevice returns a device without its wire and its timer.
func newDevice(name string, l link, o options, mtu ib.MTU, c clock, random io.Reader) (*device, error) {
	d := &device{
		name: name, link: l, opt: o, mtu: mtu, clock: c, timerAt: units.Never,
		wake: make(chan struct{}, 1), helper: make(chan struct{}, 1), done: make(chan struct{}), received: make(chan struct{}), eventReady: make(chan struct{}, 1),
	}
	if c.world == nil {
		d.gone = make(chan struct{})
	}
	d.mads.left = madBurst * (units.Second / madsPerSecond)
	d.nap.Store(int64(pollNap))
	d.port = port{active: l.ready, up: l.ready, name: l.name, rate: l.rate, mtu: mtu, gids: newGIDs(l.addrs)}
	var err error
	d.core, err = endpoint.New(endpoint.Config{
		Name: name, GIDs: l.addrs, MTU: mtu, Rand: random, MaxQPs: o.MaxQP, Window: func(mtu ib.MTU) int { return windowOf(o.Window, &o.Shape, mtu) }, Resolve: d.resolve, OnEvent: d.raise,
		Collect: o.collect.core(), Turnaround: *o.Turns,
	})
	d.batch.init()
	d.shapeAt.Store(math.MaxInt64)
	d.shaper = d.newShaper(o.Shape)
	return d, err
}

func (d *device) newShaper(s Shape) *shaper {
	return newShaper(s, !d.link.addrs[0].Is4(), d.clock.world == nil)
}

// resolve finds the way to an address: which of the device's own addresses it
// goes from, and the peer's port.
func (d *device) resolve(av verbs.AddressVector) (endpoint.Route, error) {
	r := endpoint.Route{TrafficClass: av.TrafficClass, HopLimit: av.HopLimit, GID: av.SGIDIndex}
	if r.TrafficClass == 0 {
		r.TrafficClass = d.opt.Class
	}
	if r.HopLimit == 0 {
		r.HopLimit = 64
	}
	to, port := av.GID, uint16(roce.Port)
	if text, ok := strings.CutPrefix(to.Zone(), portZone); ok {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return r, fmt.Errorf("the zone of the peer's address %v is not a UDP port: write %%%s14791", to, portZone)
		}
		port = uint16(n)
	}
	to = to.WithZone("").Unmap()
	if err := av.CheckSinglePort(); err != nil {
		return r, err
	}
	switch {
	case av.StaticRate > 0:
		return r, fmt.Errorf("%w: a static rate: pace by verbs/paced", verbs.ErrNotSupported)
	case !to.IsValid() || to.IsUnspecified() || to.IsMulticast():
		return r, fmt.Errorf("%v is not the address of a peer", av.GID)
	case r.GID < 0 || r.GID >= len(d.port.gids):
		return r, fmt.Errorf("the port has no GID %d: it has %d", r.GID, len(d.port.gids))
	}
	r.Dst = netip.AddrPortFrom(to, port)
	own, ok := d.port.at(r.GID)
	if ok && matches(own, to) {
		return r, nil
	}
	if r.GID == 0 { // not chosen, perhaps
		for i := range d.port.gids {
			if a, ok := d.port.at(i); ok && matches(a, to) {
				r.GID = i
				return r, nil
			}
		}
	}
	if !ok {
		return r, fmt.Errorf("GID %d is empty: the interface no longer has the address", r.GID)
	}
	return r, fmt.Errorf("%v can't be reached from GID %d, %v: they are of different kinds", to, r.GID, own)
}

// matches reports whether packets can go from one address to the other as far as
// their kinds go.
func matches(from, to netip.Addr) bool {
	return from.Is4() == to.Is4() && (from.Is4() || from.IsLinkLocalUnicast() == to.IsLinkLocalUnicast())
}

// Name implements verbs.Device.
func (d *device) Name() string { return d.name }

// Attr implements verbs.Device.
func (d *device) Attr() verbs.DeviceAttr {
	guid := uint64(0)
	for _, b := range d.link.mac {
		guid = guid<<8 | uint64(b)
	}
	if len(d.link.mac) == 6 { // EUI-64
		guid = guid>>24<<40 | 0xfffe<<24 | guid&0xffffff
		guid ^= 2 << 56
	}
	return verbs.DeviceAttr{
		NodeGUID: guid, FirmwareVersion: "soft",
		MaxQP: d.opt.MaxQP, MaxQPWR: endpoint.MaxQPWR, MaxSGE: endpoint.MaxSGE,
		MaxCQ: endpoint.MaxCQ, MaxCQE: endpoint.MaxCQE, MaxMR: endpoint.MaxMR, MaxMRSize: endpoint.MaxMRSize, MaxPD: endpoint.MaxPD,
		MaxSRQ: endpoint.MaxSRQ, MaxSRQWR: endpoint.MaxQPWR,
		MaxQPRdAtom: endpoint.MaxRdAtomic, MaxQPInitRdAtom: endpoint.MaxRdAtomic, MaxInlineData: endpoint.MaxInline,
		PhysPorts: 1, Atomics: true, CoreClockHz: 1e9, ClockBits: 63,
	}
}

// Port implements verbs.Device.
func (d *device) Port(num int) (verbs.PortAttr, error) {
	if num != 1 {
		return verbs.PortAttr{}, verbs.Errorf("query_port", d.name, verbs.ErrInvalid, "port %d does not exist: the device has port 1", num)
	}
	d.mu.Lock()
	p := d.port
	d.mu.Unlock()
	speed := p.rate
	switch {
	case d.opt.Rate > 0:
		speed = int64(d.opt.Rate)
	case d.opt.Shape.Rate > 0:
		speed = int64(d.opt.Shape.Rate)
	case speed <= 0: // as of the loopback
		speed = defaultRate
	}
	return verbs.PortAttr{
		State: p.state(), ActiveMTU: p.mtu, MaxMTU: 4096, LinkRate: speed, MaxMsgSize: ib.MaxMessage, GIDs: len(p.gids), PKeys: 1, LinkName: "Ethernet", Netdev: p.name,
	}, nil
}

// PKey implements verbs.PKeyDevice.
func (d *device) PKey(port, index int) (uint16, error) {
	if port != 1 || index != 0 {
		return 0, verbs.Errorf("query_pkey", d.name, verbs.ErrInvalid, "port %d has no P_Key %d: port 1 has P_Key 0", port, index)
	}
	return roce.DefaultPKey, nil
}

// GID implements verbs.Device. A place whose address the interface no longer has is
// the zero GID, as in the kernel's table.
func (d *device) GID(port, index int) (netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if port != 1 || index < 0 || index >= len(d.port.gids) {
		return netip.Addr{}, verbs.Errorf("query_gid", d.name, verbs.ErrInvalid, "port %d has no GID %d: port 1 has GIDs 0 to %d", port, index, len(d.port.gids)-1)
	}
	a, ok := d.port.at(index)
	switch {
	case !ok:
		return netip.IPv6Unspecified(), nil
	case d.opt.Port != roce.Port:
		return netip.AddrFrom16(a.As16()).WithZone(portZone + strconv.Itoa(int(d.opt.Port))), nil
	}
	return a, nil
}

// unusable returns why a call can make nothing new of the device, with its lock held.
func (d *device) unusable(op string) error {
	switch {
	case d.closed:
		return verbs.Errorf(op, d.name, verbs.ErrClosed, "")
	case d.died:
		return verbs.Errorf(op, d.name, verbs.ErrNoDevice, "the device has failed for good: close it, and open it anew")
	case d.port.gone:
		return verbs.Errorf(op, d.name, verbs.ErrNoDevice, "interface %s is gone, and the device with it: close it, and open it anew where there is one of that name", d.port.name)
	}
	return nil
}

// Now implements verbs.Device.
func (d *device) Now() time.Duration { return d.clock.read().Duration() }

// ReadClock implements verbs.ClockReader.
func (d *device) ReadClock() (uint64, error) { return uint64(d.Now()), nil }

// Close implements verbs.Device.
func (d *device) Close() error {
	d.mu.Lock()
	n := d.core.Objects() + d.objects
	switch {
	case d.closed:
		d.mu.Unlock()
		return verbs.Errorf("close_device", d.name, verbs.ErrClosed, "")
	case n > 0:
		d.mu.Unlock()
		return verbs.Errorf("close_device", d.name, verbs.ErrBusy, "%d objects made from it still exist", n)
	}
	d.closed = true
	d.descriptor.close()
	d.timer.Stop()
	d.mu.Unlock()
	close(d.done)
	d.wire.stop()
	if d.watch != nil {
		d.watch.Stop()
	}
	d.tasks.Wait()
	for { // the timer's function may be at it
		d.mu.Lock()
		busy := d.sending
		d.mu.Unlock()
		if !busy {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	d.closeWire()
	if d.watch != nil {
		d.watch.Close()
	}
	return nil
}

// closeWire frees the wire's sockets, which nobody uses any more, once.
func (d *device) closeWire() {
	d.mu.Lock()
	was := d.wireClosed
	d.wireClosed = true
	d.mu.Unlock()
	if !was {
		d.wire.close()
	}
}

// raise takes an event of the endpoint, which runs with the lock held.
func (d *device) raise(v endpoint.Event) {
	e := verbs.AsyncEvent{Type: v.Type, Port: 1}
	if v.QP != nil {
		e.QP = v.QP.Owner.(*queuePair)
	}
	if v.CQ != nil {
		e.CQ = v.CQ.Owner.(*completionQueue)
	}
	if v.SRQ != nil {
		e.SRQ = v.SRQ.Owner.(*sharedQueue)
	}
	d.add(e)
}

// raisePort takes an event of the port or of the whole device, with the lock held.
func (d *device) raisePort(t ib.EventType) {
	e := verbs.AsyncEvent{Type: t, Port: 1}
	if t == ib.EventDeviceFatal {
		e.Port = 0
	}
	d.add(e)
}

// Gone implements verbs.LostDevice.
func (d *device) Gone() <-chan struct{} { return d.gone }

func (d *device) add(e verbs.AsyncEvent) {
	d.events.Add(e)
	d.descriptor.set(true)
	signal(d.eventReady)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// AsyncEvent implements verbs.Device.
func (d *device) AsyncEvent(ctx context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	var e verbs.AsyncEvent
	err := d.wait(ctx, timeout, d.eventReady, func() (ok bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if e, ok = d.events.Take(); ok {
			signal(d.eventReady) // there may be more
		}
		d.descriptor.set(d.events.Waiting())
		return ok
	})
	if err != nil {
		return e, verbs.Errorf("get_async_event", d.name, err, "")
	}
	return e, nil
}

// wait waits until ctx is done and up to timeout, without end if it is negative, for take
// to succeed, which it may after ready was signalled.
func (d *device) wait(ctx context.Context, timeout time.Duration, ready <-chan struct{}, take func() bool) error {
	if take() {
		return nil
	}
	if timeout == 0 {
		return verbs.ErrTimeout
	}
	if d.clock.world != nil {
		return d.clock.world.wait(ctx, timeout, ready, take)
	}
	var late <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		late = t.C
	}
	for {
		select {
		case <-ready:
			if take() {
				return nil
			}
		case <-late:
			if take() {
				return nil
			}
			return verbs.ErrTimeout
		case <-ctx.Done():
			return ctx.Err()
		case <-d.done:
			return verbs.ErrClosed
		}
	}
}

// Counters returns what happened to the device's packets, by name: those of the
// kernel's hw_counters where it has one for it. Transport counters are sums over
// the queue pairs that exist.
func (d *device) Counters() map[string]uint64 {
	d.mu.Lock()
	c, t := d.core.Counters, d.core.Transport()
	lost := uint64(0)
	if d.shaper != nil {
		lost = d.shaper.lost
	}
	failures := d.loses
	d.mu.Unlock()
	ringDrops := uint64(0)
	if w, ok := d.wire.(ringer); ok {
		ringDrops = w.ringDrops()
	}
	return map[string]uint64{
		"rcvd_pkts": c.RxPackets, "rcvd_bytes": c.RxBytes, "sent_pkts": c.TxPackets, "sent_bytes": c.TxBytes,
		"rx_icrc_encapsulated": d.counters.badICRC.Load(), "rx_malformed": d.counters.malformed.Load() + c.Malformed,
		"tx_refused": d.counters.sendErrors.Load(), "tx_shape_lost": lost, "tx_failure_lost": failures.lostSent, "rx_failure_lost": failures.lostArrive, "rx_bad_pkey": c.BadPKey, "rx_no_qp": c.NoQP, "rx_int_unread": c.INTUnread, "rx_ring_dropped": ringDrops,
		"rx_wrong_service": c.WrongService, "rx_wrong_source": c.WrongSource, "rx_mads_dropped": c.MADsDropped,
		"qkey_viol_cntr": c.BadQKey, "rx_ud_no_receive": c.UDNoReceive, "rx_ud_too_long": c.UDTooLong,
		"rx_dropped_by_qp": c.DroppedByQP, "local_key_faults": c.LocalFaults, "remote_key_faults": c.RemoteKeyFaults,
		"np_cnp_sent": c.CNPsSent, "rp_cnp_handled": c.CNPsHandled, "rp_cnp_ignored": c.CNPsIgnored,
		"np_ecn_marked_roce_packets": c.ECNMarked,
		"packet_seq_err":             t.PacketSeqErr, "implied_nak_seq_err": t.ImpliedNakSeqErr,
		"local_ack_timeout_err": t.LocalAckTimeoutErr, "rnr_nak_retry_err": t.RNRNakRetryErr,
		"out_of_sequence": t.OutOfSequence, "duplicate_request": t.DuplicateRequest, "out_of_buffer": t.OutOfBuffer,
		"retransmitted_pkts": t.RetransmittedPackets, "rx_write_requests": t.RxWriteRequests,
		"rx_read_requests": t.RxReadRequests, "rx_atomic_requests": t.RxAtomicRequests,
		"req_remote_invalid_request": t.ReqRemoteInvalid, "req_remote_access_errors": t.ReqRemoteAccessErrors,
		"resp_remote_access_errors": t.RespRemoteAccessErrors, "resp_local_length_error": t.RespLocalLengthError,
		"retry_exceeded_err": t.RetryExceeded, "rnr_nak_retry_exceeded_err": t.RNRRetryExceeded,
	}
}
