package perf

import (
	"errors"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// maxPeak is how many messages a run may have whose peak is found: 16 bytes of
// memory each.
const maxPeak = 1 << 22

// meter counts messages over time.
type meter struct {
	from, to units.Time // what lies between counts; to is Never until it is known
	count    uint64
	last     units.Time // the last that counted
}

// window is when messages count in a test of a duration that begins now.
func (e *end) window(now units.Time) meter {
	c := &e.cfg
	if c.Duration == 0 {
		return meter{from: now, to: units.Never}
	}
	return meter{from: now + units.FromDuration(c.Margin), to: now + units.FromDuration(c.Duration-c.Margin)}
}

func (m *meter) add(now units.Time, n uint64) {
	if now >= m.from && now <= m.to {
		m.count += n
		m.last = now
	}
}

// bandwidth is what a meter has counted of messages of a size.
func (m *meter) bandwidth(size int) *Bandwidth {
	b := &Bandwidth{stats.Unmeasured, stats.Unmeasured, stats.Unmeasured}
	span := m.to - m.from
	if m.to == units.Never {
		span = m.last - m.from
	}
	if m.count > 0 && span > 0 {
		b.set(float64(m.count)/span.Microseconds(), size)
	}
	return b
}

// set takes a rate in messages per microsecond.
func (b *Bandwidth) set(mpps float64, size int) {
	b.MessageRateMpps = stats.Float(mpps)
	b.ThroughputGbps = gbps(mpps, size)
}

func gbps(mpps float64, size int) stats.Float {
	return stats.Float(mpps * float64(size) * 8 / 1000)
}

// sender posts the requests of a bandwidth test and takes their completions.
type sender struct {
	e     *end
	size  int
	mod   int    // requests for each completion
	each  uint64 // messages of a queue pair; no end with a duration
	stop  units.Time
	meter meter

	step, steps int // how a small message walks through its slot
	wrs         []verbs.SendWR
	sgl         []verbs.SGE
	flows       []progress

	sent, done uint64
	posted     []units.Time // when, for the peak; nil if that is not wanted
	completed  []mark
}

// progress is how far a queue pair is.
type progress struct{ sent, done uint64 }

func (e *end) newSender(size int) *sender {
	c := &e.cfg
	s := &sender{
		e: e, size: size, mod: c.moderation(size), each: uint64(c.Iterations),
		wrs: make([]verbs.SendWR, c.PostList), sgl: make([]verbs.SGE, c.PostList), flows: make([]progress, c.QPs),
	}
	s.step, s.steps = e.walk(size)
	e.renewal.sender = s
	if all := s.each * uint64(c.QPs); c.Duration == 0 && !c.NoPeak && all <= maxPeak {
		s.posted = make([]units.Time, 0, all)
		s.completed = make([]mark, 0, all/uint64(s.mod)+uint64(c.QPs))
	}
	return s
}

// walk is the distance between two small messages in a slot, and how many places
// there are. Those above half the cycle buffer stay at the beginning.
func (e *end) walk(size int) (step, steps int) {
	if size > e.greeting.CycleBuffer/2 {
		return 0, 1
	}
	step = roundUp(size, e.greeting.CacheLine)
	return step, max(e.greeting.CycleBuffer/step, 1)
}

// begin starts the clock.
func (s *sender) begin(now units.Time) {
	s.meter, s.stop = s.e.window(now), units.Never
	if d := s.e.cfg.Duration; d > 0 {
		s.each, s.stop = 1<<63, now+units.FromDuration(d)
	}
}

// over reports whether all is done, or the time is up.
func (s *sender) over() bool {
	if s.stop != units.Never {
		return s.e.now() >= s.stop
	}
	return s.done >= s.each*uint64(len(s.flows))
}

// post posts what there is room for.
func (s *sender) post() error {
	list, depth := uint64(len(s.wrs)), uint64(s.e.cfg.TxDepth)
	for k := range s.flows {
		f := &s.flows[k]
		for f.sent < s.each {
			n := list - f.sent%list // a whole list, but for what a renewal left of one
			if f.sent-f.done+n > depth {
				break
			}
			for j := range n {
				s.fill(int(j), k, f.sent+j)
			}
			if s.posted != nil {
				now := s.e.now()
				for range n {
					s.posted = append(s.posted, now)
				}
			}
			if err := s.e.postSend(k, s.wrs[:n]); err != nil {
				return err
			}
			f.sent += n
			s.sent += n
		}
	}
	return nil
}

// Work request IDs name the queue pair and how many of its messages are done when
// the request is.
const wridShift = 48

// fill makes request j of a list: message n of queue pair k.
func (s *sender) fill(j, k int, n uint64) {
	e := s.e
	at := int(n%uint64(s.steps)) * s.step
	from := k*e.slot + at
	wr := &s.wrs[j]
	*wr = verbs.SendWR{
		WRID: uint64(k)<<wridShift | (n+1)&(1<<wridShift-1), Opcode: e.opcode(),
		RemoteAddr: e.remote[k].VAddr + uint64(at), RKey: e.remote[k].RKey,
	}
	if (n+1)%uint64(s.mod) == 0 || n+1 == s.each {
		wr.Flags = verbs.SendSignaled
	}
	if s.size <= e.inline {
		wr.Flags |= verbs.SendInline
		wr.Inline = e.buf[from : from+s.size]
	} else {
		s.sgl[j] = verbs.SGEOf(e.mr, from, s.size)
		wr.SGL = s.sgl[j : j+1]
	}
	if e.cfg.Test.Verb == Atomic && !e.cfg.CompareSwap {
		wr.CompareAdd = 1
	}
}

func (e *end) opcode() ib.WROpcode {
	switch {
	case e.cfg.Test.Verb == Write:
		return ib.WRRDMAWrite
	case e.cfg.Test.Verb == Read:
		return ib.WRRDMARead
	case e.cfg.Test.Verb == Send:
		return ib.WRSend
	case e.cfg.CompareSwap:
		return ib.WRAtomicCmpAndSwp
	}
	return ib.WRAtomicFetchAndAdd
}

// take counts completions that were polled at an instant.
func (s *sender) take(wcs []verbs.WC, now units.Time) {
	for i := range wcs {
		f := &s.flows[wcs[i].WRID>>wridShift]
		s.count(f, wcs[i].WRID&(1<<wridShift-1)-f.done, now)
	}
}

// count counts n more messages of a queue pair.
func (s *sender) count(f *progress, n uint64, now units.Time) {
	f.done += n
	s.done += n
	s.e.books.count(n, now)
	s.meter.add(now, n)
	if s.posted != nil {
		s.completed = append(s.completed, mark{now, s.done})
	}
}

// row is the result.
func (s *sender) row() *Row {
	b := s.meter.bandwidth(s.size)
	if s.posted != nil {
		b.PeakGbps = gbps(peak(s.posted, s.completed)*float64(units.Microsecond), s.size)
	}
	return s.e.closeBooks(&Row{Bytes: s.size, Iterations: s.meter.count, Bandwidth: b}, s.e.now())
}

// send runs a bandwidth test in which this end only sends.
func (e *end) send(size int) (*Row, error) {
	s := e.newSender(size)
	e.begin(size)
	s.begin(e.last)
	for turn := uint64(0); !s.over(); turn++ {
		if err := s.post(); err != nil {
			return nil, err
		}
		wcs, err := e.poll(e.sendCQ)
		if err != nil {
			return nil, err
		}
		s.take(wcs, e.last)
		if len(wcs) == 0 {
			if err := e.idle(); err != nil {
				return nil, err
			}
		}
		if turn%1024 == 0 {
			e.progress(s.done, uint64(len(s.flows)), size)
		}
	}
	return s.row(), nil
}

// receiver posts receives and takes their completions.
type receiver struct {
	e       *end
	size    int
	each    uint64
	stop    units.Time
	meter   meter
	started bool
	first   uint64 // the first message starts the clock and does not count against it

	step, steps int
	wrs         []verbs.RecvWR
	sgl         []verbs.SGE
	posted      []uint64 // by queue pair
	got         []uint64 // by queue pair
	done        uint64
}

func (e *end) newReceiver(size int) (*receiver, error) {
	c := &e.cfg
	r := &receiver{
		e: e, size: size, each: uint64(c.Iterations), stop: units.Never,
		wrs: make([]verbs.RecvWR, len(e.wc)), sgl: make([]verbs.SGE, len(e.wc)),
		posted: make([]uint64, c.QPs), got: make([]uint64, c.QPs),
	}
	e.renewal.receiver = r
	r.step, r.steps = e.walk(size + e.head)
	if c.Duration > 0 {
		r.each = 1 << 63
	}
	if err := r.fillAll(); err != nil {
		return nil, err
	}
	return r, nil
}

// fillAll posts receives of the queue pairs that are used.
func (r *receiver) fillAll() error {
	for k := range r.posted {
		if err := r.fill(k); err != nil || r.e.cfg.Test.Latency {
			return err
		}
	}
	return nil
}

// fill posts receives of queue pair k, up to its depth and to the number that will come.
func (r *receiver) fill(k int) error {
	for {
		n := min(uint64(r.e.cfg.RxDepth)-(r.posted[k]-r.got[k]), r.each-r.posted[k], uint64(len(r.wrs)))
		if n == 0 {
			return nil
		}
		if err := r.post(k, n); err != nil {
			return err
		}
	}
}

// post posts n receives of queue pair k.
func (r *receiver) post(k int, n uint64) error {
	e := r.e
	for j := range n {
		at := (e.cfg.QPs+k)*e.slot + int((r.posted[k]+j)%uint64(r.steps))*r.step
		r.sgl[j] = verbs.SGEOf(e.mr, at, r.size+e.head)
		r.wrs[j] = verbs.RecvWR{WRID: uint64(k), SGL: r.sgl[j : j+1]}
	}
	r.posted[k] += n
	_, err := e.qps[k].PostRecv(r.wrs[:n])
	return err
}

// take counts receives and posts as many again, up to the number that will come.
func (r *receiver) take(wcs []verbs.WC, now units.Time) error {
	r.note(wcs, now)
	for i := range wcs {
		if err := r.fill(int(wcs[i].WRID)); err != nil {
			return err
		}
	}
	return nil
}

// note counts receives.
func (r *receiver) note(wcs []verbs.WC, now units.Time) {
	if len(wcs) == 0 {
		return
	}
	if !r.started {
		r.started = true
		r.meter = r.e.window(now)
		if d := r.e.cfg.Duration; d > 0 {
			r.stop = now + units.FromDuration(d)
		} else {
			r.first = uint64(len(wcs))
		}
	} else {
		r.meter.add(now, uint64(len(wcs)))
	}
	for i := range wcs {
		r.got[wcs[i].WRID]++
	}
	r.done += uint64(len(wcs))
}

func (r *receiver) over() bool {
	if r.e.cfg.Duration > 0 {
		return r.started && r.e.now() >= r.stop
	}
	return r.done >= r.each*uint64(len(r.posted))
}

// lost returns the number of missing messages that an unreliable service may have lost.
func (r *receiver) lost() uint64 {
	if all := r.each * uint64(len(r.posted)); r.e.cfg.Duration == 0 && r.done < all {
		return all - r.done
	}
	return 0
}

func (r *receiver) row() *Row {
	return r.e.closeBooks(&Row{Bytes: r.size, Iterations: r.first + r.meter.count, Lost: r.lost(), Bandwidth: r.meter.bandwidth(r.size)}, r.e.now())
}

// waited looks at what idle says: that nothing more comes is no error where
// messages may be lost and some have come.
func (r *receiver) waited(err error) (over bool, _ error) {
	if err != nil && r.started && r.e.cfg.Service != ib.RC && errors.Is(err, verbs.ErrTimeout) {
		return true, nil
	}
	return false, err
}

// unreliable shortens the wait for what may be lost.
func (e *end) unreliable() (restore func()) {
	before := e.stall
	if e.cfg.Service != ib.RC {
		e.stall /= 10
	}
	return func() { e.stall = before }
}

// receive runs a bandwidth test in which this end only receives.
func (e *end) receive(r *receiver) (*Row, error) {
	defer e.unreliable()()
	e.begin(r.size)
	for turn := uint64(0); !r.over(); turn++ {
		wcs, err := e.poll(e.recvCQ)
		if err != nil {
			return nil, err
		}
		if err := r.take(wcs, e.last); err != nil {
			return nil, err
		}
		e.books.count(uint64(len(wcs)), e.last)
		if len(wcs) == 0 {
			if over, err := r.waited(e.idle()); over || err != nil {
				return r.row(), err
			}
		}
		if turn%1024 == 0 {
			e.progress(r.done, uint64(len(r.posted)), r.size)
		}
	}
	return r.row(), nil
}

// exchangeSends runs a bandwidth test in which both ends send and receive. The
// server begins when it has received something, as perftest's does.
func (e *end) exchangeSends(r *receiver) (*Row, error) {
	s := e.newSender(r.size)
	defer e.unreliable()()
	e.begin(r.size)
	sending := false
	for !sending || !s.over() || !(r.over() || e.cfg.Duration > 0) {
		if !sending && (e.client || r.started) {
			sending = true
			s.begin(e.now())
		}
		if sending {
			if err := s.post(); err != nil {
				return nil, err
			}
		}
		got, err := e.poll(e.recvCQ)
		if err != nil {
			return nil, err
		}
		if err := r.take(got, e.last); err != nil {
			return nil, err
		}
		received := len(got)
		e.books.count(uint64(received), e.last)
		if got, err = e.poll(e.sendCQ); err != nil {
			return nil, err
		}
		s.take(got, e.last)
		if received+len(got) == 0 {
			over, err := r.waited(e.idle())
			if err != nil {
				return nil, err
			}
			if over {
				break
			}
		}
	}
	row := s.row()
	row.Lost = r.lost()
	return row, nil
}
