package workload

import (
	"fmt"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// OnOff is senders that send as fast as they may for a while, and then nothing for
// a while: bursts, or steps of load. A sender keeps its connection from burst to
// burst. Results count a burst as a flow, which ends when its last message has
// been acknowledged.
type OnOff struct {
	// Who sends, as at `senders` of an incast.
	Senders HostSet `yaml:"senders" eg:"[h0..h3]"`
	// To whom: the first sender to the first, the second to the second, and over
	// again. A host may not come to send to itself.
	Receivers HostSet `yaml:"receivers" eg:"[h7]" req:"yes"`
	// How long a burst is.
	On units.Time `yaml:"on" eg:"100us" req:"yes" range:"(0s,)"`
	// Time between the end of a burst and the start of the next.
	Off units.Time `yaml:"off" eg:"300us" range:"[0s,)"`
	// Whether `on` and `off` are means of exponential distributions.
	Random bool `yaml:"random" eg:"true"`
	// Each sender's first burst starts this later than that of the one before.
	Step units.Time `yaml:"step" eg:"50us" range:"[0s,)"`
	// Bursts of each sender.
	Bursts int `yaml:"bursts" eg:"10" range:"[1,)" of:"bursts" zero:"as many as there is time for"`
}

// burstMessage is the default size of a burst's messages.
const burstMessage = 64 * units.KiB

// burstAhead is the part of a burst that is posted and not completed.
const burstAhead = 256 * units.KiB

func (p *OnOff) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	if !p.Receivers.All && p.Receivers.Count == 0 && len(p.Receivers.Names) == 0 {
		d.Fail(path+".receivers", "they are missing: name hosts, such as [h7]")
	}
	senders := net.hosts(d, path+".senders", p.Senders, -1)
	receivers := net.hosts(d, path+".receivers", p.Receivers, -1)
	if len(d.Errs) > errs {
		return nil
	}
	for i, from := range senders {
		if from == receivers[i%len(receivers)] {
			d.Fail(path+".senders", "%s would send to itself: name other hosts, or in another order", net.HostName(from))
			return nil
		}
	}
	label := net.label(w.Label)
	message := w.Message
	if message == 0 {
		message = burstMessage
	}
	return &traffic{w: w, make: func(stream func(string) des.Stream) machine {
		o := &onOff{spec: p, stop: w.Stop, message: message, ahead: int(max(4, burstAhead/message))}
		o.live.Store(int64(len(senders)))
		for i, from := range senders {
			o.conns = append(o.conns, Conn{Src: from, Dst: receivers[i%len(receivers)], Operation: w.Operation, Message: message, Share: true, Label: label})
			s := burstSender{draw: stream(fmt.Sprintf("host %d", from)), left: p.Bursts}
			s.next = w.Start + units.Time(i)*p.Step
			if w.Jitter > 0 {
				s.next += units.Time(float64(s.draw.Float64() * float64(w.Jitter)))
			}
			o.senders = append(o.senders, s)
		}
		return o
	}}
}

type onOff struct {
	alone
	spec    *OnOff
	stop    units.Time
	message units.Bytes
	ahead   int
	conns   []Conn
	senders []burstSender
	timers  []timers     // by place: a sender's burst begins
	live    atomic.Int64 // senders whose bursts are not all over
}

type burstSender struct {
	draw   des.Stream
	at     int // the place of who posts its messages
	left   int
	next   units.Time // of the next burst, or of the end, or Never
	until  units.Time // of the latest burst
	posted int        // messages of it under way
	burst  int        // its number
	bytes  units.Bytes
	start  units.Time
	older  []olderBurst // whose messages are still under way
	last   bool         // there will be no other
}

type olderBurst struct {
	posted int
	task   Task
}

func (o *onOff) connections() []Conn { return o.conns }

func (o *onOff) begin(hosts []int, ends []ends) {
	o.timers = make([]timers, len(hosts))
	for i := range o.senders {
		s := &o.senders[i]
		s.at = ends[i].poster
		o.timers[s.at].add(s.next, i)
	}
}

func (o *onOff) nextOf(place int) units.Time { return o.timers[place].next() }

func (o *onOff) span(s *burstSender, mean units.Time) units.Time {
	if o.spec.Random {
		return max(s.draw.Exp(mean), 1)
	}
	return mean
}

func (o *onOff) tickOf(now units.Time, place int, act *Actions) {
	for {
		i, ok := o.timers[place].due(now)
		if !ok {
			return
		}
		s := &o.senders[i]
		s.next = units.Never
		if o.stop > 0 && now >= o.stop { // so that its latest burst was the last
			s.last = true
			if s.posted == 0 && len(s.older) == 0 {
				o.live.Add(-1)
			}
			continue
		}
		if s.posted > 0 {
			s.older = append(s.older, olderBurst{s.posted, o.task(i)})
		}
		s.burst++
		s.start, s.bytes, s.posted = now, 0, 0
		s.until = now + o.span(s, o.spec.On)
		if o.stop > 0 {
			s.until = min(s.until, o.stop)
		}
		act.Begun = append(act.Begun, o.task(i))
		for range o.ahead {
			o.post(i, act)
		}
		if s.left--; s.left != 0 { // it is negative where there is no bound
			s.next = s.until + o.span(s, o.spec.Off)
			o.timers[place].add(s.next, i)
		} else {
			s.last = true
		}
	}
}

func (o *onOff) post(i int, act *Actions) {
	s := &o.senders[i]
	s.posted++
	s.bytes += o.message
	act.Posts = append(act.Posts, Post{Conn: i, Size: o.message, Tag: s.burst})
}

func (o *onOff) task(i int) Task {
	s, c := &o.senders[i], &o.conns[i]
	return Task{What: "burst", Label: c.Label, Src: c.Src, Dst: c.Dst, Size: s.bytes, Start: s.start}
}

func (o *onOff) completed(now units.Time, i, tag int, act *Actions) {
	s := &o.senders[i]
	if len(s.older) > 0 && tag != s.burst { // messages complete in order
		old := &s.older[0]
		if old.posted--; old.posted == 0 {
			act.Ended = append(act.Ended, old.task)
			s.older = s.older[:copy(s.older, s.older[1:])]
		}
		return
	}
	s.posted--
	if now < s.until {
		o.post(i, act)
		return
	}
	if s.posted == 0 {
		act.Ended = append(act.Ended, o.task(i))
		if s.last {
			o.live.Add(-1)
		}
	}
}

func (o *onOff) arrived(units.Time, Post, *Actions) {}

func (o *onOff) mayTurn(_, before units.Time) bool {
	for i := range o.senders {
		if s := &o.senders[i]; !s.last && (s.next >= before || o.stop == 0 || s.next < o.stop) {
			return false
		}
	}
	return true
}

func (o *onOff) turned() bool { return o.over() }

func (o *onOff) over() bool { return o.live.Load() == 0 }
