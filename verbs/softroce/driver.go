package softroce

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// wire is how packets come and go. What comes, with a good ICRC, is handed to
// device.deliver.
type wire interface {
	sender
	// receive waits for packets and hands them over. It returns false once stop
	// was called. One goroutine calls it.
	receive() bool
	// poll hands over the packets that are there, and reports whether there were
	// any. It does not wait: neither for packets nor for another goroutine that is
	// at it.
	poll() bool
	// readdress makes the wire that of another GID table, while nobody sends. What it
	// can't have in the table it marks as not present.
	readdress(table []gidEntry)
	// stop makes receive return; close frees the sockets, which must no longer be in
	// use.
	stop()
	close()
}

// sender puts packets on the wire.
type sender interface {
	// segments returns the most packets of one size that send takes as one
	// message, 1 without segmentation offload.
	segments() int
	// path returns the IP and UDP headers of a packet where the sender knows them
	// beforehand. Packets then reach send with their ICRCs, the k-th of a message with
	// identification k. It returns nil where send computes the ICRCs.
	path(*endpoint.Route) *roce.Path
	// send puts packets on the wire. It may wait for room.
	// What can't be sent is lost: the transport sends it again. One goroutine at
	// a time calls it.
	send(*batch)
}

// ringer is a wire whose kernel counts the packets that it drops for want of room.
type ringer interface{ ringDrops() uint64 }

// wireCounters count what happens below the endpoint.
type wireCounters struct {
	badICRC    atomic.Uint64
	malformed  atomic.Uint64 // not whole, or no RoCEv2 at all
	sendErrors atomic.Uint64 // messages that the kernel refused
	sendCalls  atomic.Uint64
}

// callRounds is how many batches an application's call sends before it leaves the
// rest to the helper.
const callRounds = 2

// flush sends all packets that are ready. The caller holds the lock, and flush
// releases it. If another goroutine is sending already, that one goes on until
// nothing is left.
func (d *device) flush() {
	if d.sending || d.pausing || !d.due() || d.closed {
		d.rearm()
		d.mu.Unlock()
		return
	}
	if d.clock.world != nil {
		d.empty(-1) // nothing else helps, and it takes no time
		return
	}
	if !d.empty(callRounds) {
		signal(d.helper)
	}
}

// due reports whether there may be something to send. The caller holds the lock.
func (d *device) due() bool {
	if d.shaper == nil {
		return d.core.Pending()
	}
	now := d.now()
	return d.shaper.next(d.core.Pending()) <= now
}

// empty sends up to rounds batches, and reports whether nothing is left. The
// caller holds the lock; it is released in between and on return.
func (d *device) empty(rounds int) bool {
	d.sending = true
	for ; rounds != 0 && !d.closed && !d.pausing; rounds-- {
		out := d.out
		if d.shaper == nil {
			d.batch.fill(d.core, d.now(), out)
		} else {
			d.shaper.fill(&d.batch, d.core, d.now(), out)
		}
		if len(d.batch.messages) == 0 {
			break
		}
		if d.losesSent() {
			continue
		}
		d.mu.Unlock()
		wireSends()
		out.send(&d.batch)
		d.mu.Lock()
	}
	d.sending = false
	left := d.due()
	d.rearm()
	d.mu.Unlock()
	return !left
}

// help sends what applications' calls have left over.
func (d *device) help() {
	for {
		select {
		case <-d.helper:
		case <-d.done:
			return
		}
		d.mu.Lock()
		if d.sending || d.pausing || d.closed {
			d.mu.Unlock()
			continue
		}
		d.empty(-1)
	}
}

// pause has nobody send until resume. One goroutine at a time pauses.
func (d *device) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pausing = true
	for d.sending {
		d.mu.Unlock()
		time.Sleep(10 * time.Microsecond) // who sends looks after each batch
		d.mu.Lock()
	}
}

func (d *device) resume() {
	d.mu.Lock()
	d.pausing = false
	d.flush()
}

// rearm sets the timer to the endpoint's earliest deadline, or when its link has something
// to do, if that is earlier than what it is set to. The caller holds the lock.
func (d *device) rearm() {
	at := d.core.Deadline()
	if d.shaper != nil && !d.sending { // who sends does this afterwards
		next := d.shaper.next(d.core.Pending())
		d.shapeAt.Store(int64(d.long(next).Duration()))
		at = min(at, next)
	}
	if at < d.timerAt && !d.closed {
		d.timerAt = at
		left := at - d.clock.read().Sub(d.origin) // no earlier instant is void
		d.timer.Reset(max(0, left).Duration())
	}
}

// expire runs when the timer is due.
func (d *device) expire() {
	d.mu.Lock()
	d.timerAt = units.Never
	if d.closed {
		d.mu.Unlock()
		return
	}
	d.core.Expire(d.now())
	d.flush()
}

// pollNap is how long the receiving goroutine sleeps while an application polls, which
// receives too. It bounds how long packets wait if the application stops polling and
// does not call Wait, which ends the nap.
const pollNap = 500 * time.Microsecond

// receive takes packets in until the device is closed.
func (d *device) receive() {
	nap := time.NewTimer(pollNap)
	defer nap.Stop()
	for polls := d.polls.Load(); d.wire.receive(); {
		now := d.polls.Load()
		if now == polls {
			continue
		}
		polls = now
		select {
		case <-d.wake: // of goroutines that waited before the nap
		default:
		}
		if d.waiting.Load() > 0 {
			continue // it polled before it went to wait
		}
		nap.Reset(time.Duration(d.nap.Load()))
		select {
		case <-nap.C:
		case <-d.wake:
		case <-d.done:
		}
	}
}

// deliver passes packets to the endpoint and sends the packets that they trigger.
func (d *device) deliver(packets []endpoint.Packet) {
	wireReceives()
	d.mu.Lock()
	if d.closed || d.losesReceived(len(packets)) {
		d.mu.Unlock()
		return
	}
	now := d.now()
	d.core.ReceiveAll(now, packets)
	if d.mads.n > 0 {
		d.deliverMADs()
	}
	d.flush()
}

// pollWire takes in what has come, and reports whether there was anything.
func (d *device) pollWire() bool {
	d.polls.Add(1)
	if at := d.shapeAt.Load(); at != math.MaxInt64 && at <= int64(d.Now()) {
		d.mu.Lock()
		d.flush()
	}
	return d.wire.poll()
}
