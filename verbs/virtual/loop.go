//go:build linux

package virtual

import (
	gocontext "context" // the name is that of a program's here
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
)

// loop is the goroutine that serves a context's queues. While there is something to do it
// looks again and again. Then it protects the UAR pages, so that the next doorbell is a
// fault, arms the completion queues of the back end, and sleeps until one of the two, a
// command, or a timer. Without userfaultfd it naps, up to napLongest.
type loop struct {
	watch   *guest.Watch // nil without userfaultfd
	channel verbs.CompChannel
	engine  *mlx5.Engine

	mu       sync.Mutex
	mappings map[uint64]mapping // by page: where the program has it

	awake    chan struct{}
	waiting  chan struct{} // asks the channel's goroutine to wait for an event
	sleeping atomic.Bool
	faulted  atomic.Bool // since the loop last looked
	done     chan struct{}
	tasks    sync.WaitGroup
}

// mapping is a program's mapping of a UAR page.
type mapping struct {
	addr      uint64
	lost      bool // can't be watched: the program has unmapped it
	protected bool
}

func newLoop(w *guest.Watch, ch verbs.CompChannel) *loop {
	return &loop{
		watch: w, channel: ch, mappings: map[uint64]mapping{},
		awake: make(chan struct{}, 1), waiting: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

func (l *loop) start(e *mlx5.Engine) {
	l.engine = e
	l.tasks.Go(l.serve)
	go l.listen() // it notices the end when its wait ends, and uses nothing but the channel until then
	if l.watch != nil {
		go l.seeFaults() // until guest closes the watch, when the process is gone
	}
}

// wake ends the loop's sleep.
func (l *loop) wake() {
	select {
	case l.awake <- struct{}{}:
	default:
	}
}

// onMapped notes where the program has mapped a UAR page.
func (l *loop) onMapped(cookie, addr uint64) {
	if cookie == notUAR {
		return
	}
	l.mu.Lock()
	l.mappings[cookie] = mapping{addr: addr}
	l.mu.Unlock()
	l.wake()
}

// onFreed forgets a UAR page that the program has freed.
func (l *loop) onFreed(cookie uint64) {
	l.mu.Lock()
	delete(l.mappings, cookie)
	l.mu.Unlock()
}

// looksBeforeSleep is the number of vain looks of the loop before it sleeps. It is few: where
// programs that poll have all processors, a thread that sleeps gets one when it is woken,
// and a thread that spins loses it.
const looksBeforeSleep = 20

// storeWithin bounds how long a store takes that a fault announced. It happens when the
// program's thread runs again, and the page must not be protected until then.
const storeWithin = 2 * time.Millisecond

func (l *loop) serve() {
	empty := 0
	nap := minNap
	for {
		select {
		case <-l.done:
			return
		default:
		}
		if l.engine.Scan() {
			empty, nap = 0, minNap
			continue
		}
		if empty++; empty < looksBeforeSleep {
			continue
		}
		nap = l.sleep(nap)
		if l.faulted.Swap(false) {
			l.expectStore()
		}
	}
}

// expectStore waits until the store that a fault announced has happened.
func (l *loop) expectStore() {
	for end := time.Now().Add(storeWithin); !l.engine.Scan() && time.Now().Before(end); {
		time.Sleep(storePoll)
	}
}

// storePoll is the time for which the loop leaves the processor to the program that
// stores.
const storePoll = 20 * time.Microsecond

// minNap is the first of the naps of a loop that nobody wakes; each is twice as long as the one
// before.
const minNap = 50 * time.Microsecond

// sleep waits until there may be something to do, and returns how long the next nap is.
func (l *loop) sleep(nap time.Duration) time.Duration {
	watched := l.protect()
	defer l.release()
	l.sleeping.Store(true)
	defer l.sleeping.Store(false)
	if err := l.engine.Arm(); err != nil || l.engine.Scan() {
		return minNap
	}
	select {
	case l.waiting <- struct{}{}:
	default:
	}
	var late <-chan time.Time
	wait, timed := l.engine.Due()
	if mustPoll := l.engine.MustPoll(); mustPoll || !watched {
		if !timed || nap < wait {
			wait, timed = nap, true
		}
		nap = min(2*nap, napLongest)
	}
	if timed {
		t := time.NewTimer(wait)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-l.done:
	case <-l.awake:
		return minNap
	case <-late:
	}
	return nap
}

// protect has doorbells wake the loop, and reports whether all do.
func (l *loop) protect() bool {
	if l.watch == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := true
	for page, m := range l.mappings {
		if !m.lost {
			m.lost = l.watch.Protect(m.addr, pageBytes) != nil
			m.protected = !m.lost
			l.mappings[page] = m
		}
		all = all && !m.lost
	}
	return all
}

// release lets stores go on.
func (l *loop) release() {
	if l.watch == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for page, m := range l.mappings {
		if m.protected {
			_ = l.watch.Release(m.addr, pageBytes) // fails if the program has unmapped it
			m.protected = false
			l.mappings[page] = m
		}
	}
}

func (l *loop) seeFaults() {
	for {
		if _, err := l.watch.Fault(); err != nil {
			return
		}
		l.faulted.Store(true)
		l.wake()
	}
}

// How long the channel's goroutine waits for an event at a time. A back end that has a
// waiter receives by itself instead of leaving that to who polls, so nobody waits
// needlessly.
const (
	shortWait = 5 * time.Millisecond
	longWait  = 200 * time.Millisecond
)

// listen wakes the loop when a completion queue of the back end has an event.
func (l *loop) listen() {
	for {
		select {
		case <-l.done:
			return
		case <-l.waiting:
		}
		for wait := shortWait; ; wait = min(2*wait, longWait) {
			_, err := l.channel.Wait(gocontext.Background(), wait)
			if err == nil {
				l.wake()
			}
			if !l.sleeping.Load() {
				break
			}
			select {
			case <-l.done:
				return
			default:
			}
		}
	}
}

// stop ends the loop. No doorbell is seen any more, and none is held up.
func (l *loop) stop() {
	close(l.done)
	l.tasks.Wait()
}
