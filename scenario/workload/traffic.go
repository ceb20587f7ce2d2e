package workload

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Traffic is a workload whose messages follow from one another, over connections
// that it keeps: collectives, requests and responses, bursts. It is a plain state
// machine: whoever runs it opens the connections at Start, tells it the time,
// what has completed and what has arrived, and does what it answers.
//
// What a host does follows from what that host knows. So the methods that act for a
// host (TickOf for it, Completed for the poster of a message, Arrived for its receiver)
// touch that host's state alone and may be called concurrently with those of other
// hosts, where a message is posted before it arrives, in the memory model's sense. The
// others are called when no host acts.
//
// The pointer that a method returns is valid until the next call for the same host, or
// for none.
type Traffic struct {
	// Workload is the index of the workload.
	Workload int
	// Start is the time to open the connections and to call Tick first.
	Start units.Time

	machine machine
	class   int
	conns   []Conn
	hosts   []int
	ends    []ends    // by connection
	acts    []Actions // by place of a host, and behind them those of none
}

// ends are the places of the hosts at both ends of a connection.
type ends struct{ poster, receiver int }

// Conn is a connection of a Traffic: a queue pair at each end, data one way.
type Conn struct {
	// Src and Dst are host indices. The data go from Src to Dst, also for a Read,
	// which Dst posts.
	Src, Dst  int
	Operation Operation
	// Message is the size of the largest message.
	Message units.Bytes
	// Depth bounds the messages that are under way at once; what is posted
	// beyond waits. 0 is the send queue's depth.
	Depth int
	// Notify says that Dst must learn of each message: a Write carries immediate
	// data. A Read is known to Dst by its completion, and a Send by its receive.
	Notify bool
	// Class is one more than the priority of the data packets; 0 is the NIC's.
	Class int
	// Function is that of the NICs at both ends.
	Function int
	// Share says that the connection sends all it can, and so has a share of the
	// network that may be fair or not.
	Share bool
	// Label names the connection's group in results: an index into
	// Scenario.Labels().
	Label int
}

// Post is a message to post on a connection.
type Post struct {
	Conn int // index into Connections
	Size units.Bytes
	Tag  int // comes back with Completed
	// Response is the size of what the receiver answers, or 0.
	Response units.Bytes
}

// Task is a piece of work that results count as they count a flow: a request with
// its response, a block read, an iteration of a collective.
type Task struct {
	What            string // "read", "write", "rpc", "burst", or the collective's kind
	Label, Src, Dst int
	Size            units.Bytes
	// Start is the task's due time. One that had to wait, because
	// as many as may be were under way, counts from here all the same, so that
	// no slow answer hides the requests that it held up.
	Start units.Time
	// Class is one more than the priority of the data packets; 0 is the NIC's.
	Class int
	// Single says that the task is one message from Src to Dst, which has a
	// completion time in an idle network. So has one that is Answered: a message of
	// Size - Response there, then Service, and a message of Response back. Operation
	// is theirs.
	Single, Answered bool
	Response         units.Bytes
	Service          units.Time
	Operation        Operation
	// Collective is the size of a collective's operation as nccl-tests counts it, and
	// BusFactor what its bus bandwidth is of its algorithm bandwidth. 0 of other tasks.
	Collective units.Bytes
	BusFactor  float64
}

// Actions lists a Traffic's requests to its driver.
type Actions struct {
	Posts []Post
	Begun []Task
	Ended []Task

	_ [7]uint64 // those of two hosts share no cache line
}

// machine is a Traffic's state. What it wants done it appends to act. Hosts are named by
// their place in Traffic.Hosts.
type machine interface {
	connections() []Conn
	// begin tells it the places of the hosts of its connections.
	begin(hosts []int, ends []ends)
	next() units.Time
	tick(now units.Time, act *Actions)
	nextOf(place int) units.Time
	tickOf(now units.Time, place int, act *Actions)
	completed(now units.Time, conn, tag int, act *Actions)
	arrived(now units.Time, p Post, act *Actions)
	turned() bool
	settle(now units.Time, act *Actions)
	mayTurn(now, before units.Time) bool
	over() bool
}

// traffic is a plan of messages that follow from one another. It has no flows.
type traffic struct {
	w    *Workload
	make func(stream func(entity string) des.Stream) machine
}

func (*traffic) start(func(string) des.Stream) flowSource { return &listSource{} }

// Connections lists the connections, in the order in which to open them.
func (t *Traffic) Connections() []Conn { return t.conns }

// Hosts lists the hosts of the connections, in ascending order: a host's place is its
// index there.
func (t *Traffic) Hosts() []int { return t.hosts }

// Poster returns the place of the host that posts on a connection.
func (t *Traffic) Poster(conn int) int { return t.ends[conn].poster }

// Receiver returns the place of the host that Arrived is called for.
func (t *Traffic) Receiver(conn int) int { return t.ends[conn].receiver }

// Next returns when to call Tick: units.Never if only a host can change anything.
// It may change with every call of Tick and Settle.
func (t *Traffic) Next() units.Time { return t.machine.next() }

// Tick says that Next's time has come, or Start's: what hosts do together.
func (t *Traffic) Tick(now units.Time) *Actions {
	act := t.clear(len(t.hosts))
	t.machine.tick(now, act)
	return t.classed(act)
}

// NextOf returns when to call TickOf for the host at a place, or units.Never. It may
// change with every call for that host, and with Tick.
func (t *Traffic) NextOf(place int) units.Time { return t.machine.nextOf(place) }

// TickOf says that NextOf's time has come.
func (t *Traffic) TickOf(now units.Time, place int) *Actions {
	act := t.clear(place)
	t.machine.tickOf(now, place, act)
	return t.classed(act)
}

// Completed says that the poster of a message knows that it has been carried out.
func (t *Traffic) Completed(now units.Time, conn, tag int) *Actions {
	act := t.clear(t.ends[conn].poster)
	t.machine.completed(now, conn, tag, act)
	return t.classed(act)
}

// Arrived says that the receiver knows that a message has arrived; for a Read that is its
// completion.
func (t *Traffic) Arrived(now units.Time, p Post) *Actions {
	act := t.clear(t.ends[p.Conn].receiver)
	t.machine.arrived(now, p, act)
	return t.classed(act)
}

// Turned reports whether what hosts have done makes something follow for all of them,
// which Settle does: an iteration of a collective is at its end, or the Traffic over.
func (t *Traffic) Turned() bool { return t.machine.turned() }

// Settle does what follows for all hosts, where Turned says so.
func (t *Traffic) Settle(now units.Time) *Actions {
	act := t.clear(len(t.hosts))
	t.machine.settle(now, act)
	return t.classed(act)
}

// MayTurn reports whether what hosts do from now on and before a time may be more than
// each one's own matter, if every message that has been posted arrives and completes at
// once, and none that is posted in that time does: a collective's iteration may end, or
// the Traffic be over.
func (t *Traffic) MayTurn(now, before units.Time) bool { return t.machine.mayTurn(now, before) }

// Over reports that nothing will be posted any more and all tasks have ended, as of the
// latest Settle.
func (t *Traffic) Over() bool { return t.machine.over() }

// begin gives the hosts their places.
func (t *Traffic) begin() {
	t.conns = t.machine.connections()
	places := map[int]int{}
	for i := range t.conns {
		places[t.conns[i].Src], places[t.conns[i].Dst] = 0, 0
	}
	t.hosts = slices.Sorted(maps.Keys(places))
	for place, h := range t.hosts {
		places[h] = place
	}
	for i := range t.conns {
		c := &t.conns[i]
		e := ends{poster: places[c.Src], receiver: places[c.Dst]}
		if c.Operation == Read {
			e.poster = e.receiver
		}
		t.ends = append(t.ends, e)
	}
	t.acts = make([]Actions, len(t.hosts)+1)
	t.machine.begin(t.hosts, t.ends)
}

func (t *Traffic) clear(place int) *Actions {
	act := &t.acts[place]
	act.Posts, act.Begun, act.Ended = act.Posts[:0], act.Begun[:0], act.Ended[:0]
	return act
}

// classed tells the tasks their class.
func (t *Traffic) classed(act *Actions) *Actions {
	for i := range act.Begun {
		act.Begun[i].Class = t.class
	}
	for i := range act.Ended {
		act.Ended[i].Class = t.class
	}
	return act
}

// alone is the part of a machine whose hosts do nothing together.
type alone struct{}

func (alone) next() units.Time            { return units.Never }
func (alone) tick(units.Time, *Actions)   {}
func (alone) settle(units.Time, *Actions) {}

// together is the part of one whose hosts do nothing by themselves at a time.
type together struct{}

func (together) nextOf(int) units.Time            { return units.Never }
func (together) tickOf(units.Time, int, *Actions) {}

// maxConns bounds the connections of a Traffic.
const maxConns = 1 << 16

// checkConns refuses a workload with more.
func checkConns(d *tree.Document, path string, n int) {
	if n > maxConns {
		d.Fail(path, "it would keep %d connections: choose fewer hosts, so that there are at most %d", n, maxConns)
	}
}

// checkLeftOut refuses keys of every workload that one kind has no use for.
func (w *Workload) checkLeftOut(d *tree.Document, path string, keys ...string) {
	for _, key := range keys {
		if d.Given(path+"."+key) && !w.isZero(key) {
			d.Fail(path+"."+key, "a workload of kind %s has no use for it: leave it out", w.Kind)
		}
	}
}

func (w *Workload) isZero(key string) bool {
	switch key {
	case "message":
		return w.Message == 0
	case "jitter":
		return w.Jitter == 0
	case "stop":
		return w.Stop == 0
	case "operation":
		return w.Operation == Write
	}
	panic(fmt.Sprintf("scenario: no key %q of a workload", key))
}

// checkNotify refuses Reads where the receiver has to act on what arrives.
func (w *Workload) checkNotify(d *tree.Document, path string) {
	if w.Operation == Read {
		d.Fail(path+".operation", "with read no receiver would know what has come: choose write or send")
	}
}

// timers is a heap of what is due when; of equal times the first added is first.
type timers struct {
	heap []timer
	n    uint64
}

type timer struct {
	at   units.Time
	n    uint64
	what int
}

func (t *timer) before(u *timer) bool { return t.at < u.at || t.at == u.at && t.n < u.n }

func (t *timers) add(at units.Time, what int) {
	t.heap = append(t.heap, timer{at, t.n, what})
	t.n++
	i := len(t.heap) - 1
	for i > 0 && t.heap[i].before(&t.heap[(i-1)/2]) {
		t.heap[i], t.heap[(i-1)/2] = t.heap[(i-1)/2], t.heap[i]
		i = (i - 1) / 2
	}
}

// next is the time of the first, or Never.
func (t *timers) next() units.Time {
	if len(t.heap) == 0 {
		return units.Never
	}
	return t.heap[0].at
}

// due takes the first off if its time has come.
func (t *timers) due(now units.Time) (what int, ok bool) {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return 0, false
	}
	what = t.heap[0].what
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap = t.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return what, true
		}
		if child+1 < last && t.heap[child+1].before(&t.heap[child]) {
			child++
		}
		if !t.heap[child].before(&t.heap[i]) {
			return what, true
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}
