package workload

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// RPC is clients that send requests to servers, which answer each. A request and
// its answer go by two connections, one each way.
type RPC struct {
	// Who asks, as at `senders`.
	Clients HostSet `yaml:"clients" eg:"[h0..h5]"`
	// Who answers, as at `senders`. Each request goes to one of them at random; a
	// host does not ask itself.
	Servers HostSet `yaml:"servers" eg:"[h6, h7]"`
	// Size of the requests: the name of a distribution, one size, or a range such as
	// `8KB..32KB`.
	Request Sizes `yaml:"request" eg:"google-rpc" req:"yes"`
	// Size of the responses: the name of a distribution, one size, or a range such as
	// `8KB..32KB`.
	Response Sizes `yaml:"response" eg:"64KiB" req:"yes"`
	// Time that a server takes from a request to its response. It serves all that
	// have come at once.
	Service units.Time `yaml:"service" eg:"2us" range:"[0s,)"`
	// How requests come, and how many are under way.
	Loop `yaml:",inline"`
}

// Storage is clients that read and write blocks of targets' memory: an RDMA Read or
// a Write a block.
type Storage struct {
	// Who reads and writes, as at `senders`.
	Clients HostSet `yaml:"clients" eg:"[h0..h5]"`
	// Whose memory it is, as at `senders`. Each block is of one of them, by `order`;
	// a host has no business with itself.
	Targets HostSet `yaml:"targets" eg:"[h6, h7]"`
	// Share of the requests that read; the others write.
	Reads float64 `yaml:"reads" eg:"0.7" range:"[0,1]" as:"a share"`
	// Size of the blocks: the name of a distribution, one size, or a range such as
	// `8KB..32KB`.
	Block Sizes `yaml:"block" eg:"4KiB" req:"yes"`
	// Whose a client's next block is: `random`, or `turn`, one target after the
	// other. With even arrivals all clients go on to the next target together: an
	// incast that moves from target to target, over connections that are kept.
	Order string `yaml:"order" eg:"turn" one:"random turn"`
	// How requests come, and how many are under way.
	Loop `yaml:",inline"`
}

// Loop is the arrival process of a client's requests: closed, each after another has been
// answered, or open, at times of its own.
type Loop struct {
	// Requests that a client has under way: the queue depth. In a closed loop that
	// is always this number, by default 1. With `rate` it is the most, by default
	// any number; a request beyond it waits, and counts from when it should have
	// started.
	Outstanding int `yaml:"outstanding" eg:"32" range:"[1,2^20]" of:"requests" zero:"1, or with rate any number"`
	// Requests that each client starts.
	Rate float64 `yaml:"rate" apart:"200000" range:"[0.001,1e10]" of:"requests a second" zero:"a closed loop"`
	// With `rate`: `poisson`, at exponential intervals, or `even`, at equal ones.
	Arrivals string `yaml:"arrivals" apart:"even" one:"poisson even"`
	// In a closed loop: time from an answer to the next request.
	Think units.Time `yaml:"think" eg:"5us" range:"[0s,)"`
	// Requests of each client.
	Requests int `yaml:"requests" eg:"1000" range:"[1,)" of:"requests" zero:"as many as there is time for"`
}

func (l *Loop) check(d *tree.Document, path string, w *Workload) {
	w.checkLeftOut(d, path, "message")
	if l.Think > 0 && l.Rate > 0 {
		d.Fail(path+".think", "with a rate no request waits for an answer: leave one of them out")
	}
	if l.Rate > 0 && w.Jitter > 0 {
		d.Fail(path+".jitter", "the start of an open loop is random or meant: leave it out")
	}
}

// pairs returns each client with its servers, itself left out.
func pairs(d *tree.Document, path, clientKey, serverKey string, net *network, clients, servers HostSet) (from []int, to [][]int) {
	errs := len(d.Errs)
	from = net.hosts(d, path+"."+clientKey, clients, -1)
	all := net.hosts(d, path+"."+serverKey, servers, -1)
	if len(d.Errs) > errs {
		return nil, nil
	}
	n := 0
	for _, c := range from {
		var others []int
		for _, s := range all {
			if s != c {
				others = append(others, s)
			}
		}
		if len(others) == 0 {
			d.Fail(path+"."+serverKey, "%s would have nobody but itself: name other hosts", net.HostName(c))
		}
		to = append(to, others)
		n += 2 * len(others)
	}
	checkConns(d, path, n)
	return from, to
}

func checkSizes(d *tree.Document, path string, s Sizes) {
	if s.none() {
		d.Fail(path, "it is missing: name a distribution, one of %s, or give a size", distributionNames())
	} else if s.Most > MaxMessage {
		d.Fail(path, "is %v: choose a size of up to 2GiB", s.Most)
	}
}

func (p *RPC) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	w.checkNotify(d, path)
	p.check(d, path, w)
	checkSizes(d, path+".request", p.Request)
	checkSizes(d, path+".response", p.Response)
	clients, servers := pairs(d, path, "clients", "servers", net, p.Clients, p.Servers)
	if len(d.Errs) > errs {
		return nil
	}
	label := net.label(w.Label)
	request, response := p.Request.distribution(), p.Response.distribution()
	return &traffic{w: w, make: func(stream func(string) des.Stream) machine {
		r := newRequests(w, &p.Loop, label, clients, stream)
		r.service, r.answered = p.Service, true
		for i, c := range clients {
			for _, s := range servers[i] {
				r.pair(i, Conn{Src: c, Dst: s, Operation: w.Operation, Message: request.largest(), Notify: true, Label: label},
					Conn{Src: s, Dst: c, Operation: w.Operation, Message: response.largest(), Notify: true, Label: label})
			}
		}
		r.draw = func(draw *des.Stream, q *ask) {
			q.size = [2]units.Bytes{request.quantile(draw.Float64()), response.quantile(draw.Float64())}
		}
		return r
	}}
}

func (p *Storage) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	w.checkLeftOut(d, path, "operation")
	p.check(d, path, w)
	checkSizes(d, path+".block", p.Block)
	clients, targets := pairs(d, path, "clients", "targets", net, p.Clients, p.Targets)
	if len(d.Errs) > errs {
		return nil
	}
	label := net.label(w.Label)
	block := p.Block.distribution()
	return &traffic{w: w, make: func(stream func(string) des.Stream) machine {
		r := newRequests(w, &p.Loop, label, clients, stream)
		r.inTurn = p.Order == "turn"
		for i, c := range clients {
			for _, s := range targets[i] {
				both := []Conn{
					{Src: c, Dst: s, Operation: Write, Message: block.largest(), Label: label},
					{Src: s, Dst: c, Operation: Read, Message: block.largest(), Label: label},
				}
				if p.Reads == 0 {
					both = both[:1]
				}
				r.pair(i, both...)
			}
		}
		r.draw = func(draw *des.Stream, q *ask) {
			q.second = draw.Float64() < p.Reads
			q.size[0] = block.quantile(draw.Float64())
		}
		return r
	}}
}

// largest returns the size that no other exceeds.
func (d Distribution) largest() units.Bytes {
	return max(units.Bytes(math.Ceil(d.points[len(d.points)-1].size)), 1)
}

// requests is clients with requests under way: the machine of RPC and Storage.
// Client i has, for each of its servers, the connections of a pair.
type requests struct {
	alone
	w        *Workload
	loop     *Loop
	label    int
	service  units.Time
	answered bool // a request is answered by the second connection of its pair
	inTurn   bool // a client goes from pair to pair

	conns    []Conn
	of       []int // by connection: its client
	clients  []client
	clientAt []int // by place: its client, or -1
	servers  []server
	ends     []ends
	draw     func(*des.Stream, *ask)
	live     atomic.Int64 // requests begun and not ended, and clients that will begin more
	more     atomic.Int64 // clients with requests left to begin
}

// client is the state of a client's host.
type client struct {
	draw   des.Stream
	first  []int // the first connection of each pair
	turn   int   // index into first of the next, where they take turns
	gap    units.Time
	left   int   // requests to begin; negative is no bound
	free   int   // requests that may still begin; negative is no bound
	open   int   // requests under way, or that wait
	late   []int // requests that wait for free, from head on
	head   int
	ended  bool
	pool   []ask // by tag
	idle   []int
	timers timers // each begins a request
}

// server is the state of a server's host: the answers to requests whose service has
// begun.
type server struct {
	answers []Post
	idle    []int
	timers  timers // each ends a service
}

// ask is a request under way, or one that waits.
type ask struct {
	conn   int // first of the pair
	second bool
	size   [2]units.Bytes
	start  units.Time
}

func newRequests(w *Workload, loop *Loop, label int, hosts []int, stream func(string) des.Stream) *requests {
	r := &requests{w: w, loop: loop, label: label, clients: make([]client, len(hosts))}
	r.live.Store(int64(len(hosts)))
	r.more.Store(int64(len(hosts)))
	for i, h := range hosts {
		c := &r.clients[i]
		c.draw = stream(fmt.Sprintf("host %d", h))
		c.left, c.free = loop.Requests, loop.Outstanding
		if c.left == 0 {
			c.left = -1
		}
		if loop.Rate > 0 {
			c.gap = max(units.Time(math.Round(float64(float64(units.Second)/loop.Rate))), 1)
			if c.free == 0 {
				c.free = -1
			}
			c.timers.add(w.Start+r.interval(c), i)
			continue
		}
		for range max(c.free, 1) {
			c.timers.add(w.Start+units.Time(float64(c.draw.Float64()*float64(w.Jitter))), i)
		}
		c.free = -1 // the timers bound it
	}
	return r
}

func (r *requests) interval(c *client) units.Time {
	if r.loop.Arrivals == "even" {
		return c.gap
	}
	return max(c.draw.Exp(c.gap), 1)
}

// pair adds the connections of a client to a server: two, or the first alone if the
// second is never used.
func (r *requests) pair(client int, conns ...Conn) {
	r.clients[client].first = append(r.clients[client].first, len(r.conns))
	r.conns = append(r.conns, conns...)
	for range conns {
		r.of = append(r.of, client)
	}
}

func (r *requests) connections() []Conn { return r.conns }

func (r *requests) begin(hosts []int, ends []ends) {
	r.clientAt, r.servers, r.ends = make([]int, len(hosts)), make([]server, len(hosts)), ends
	for place := range r.clientAt {
		r.clientAt[place] = -1
	}
	for i := range r.clients {
		r.clientAt[ends[r.clients[i].first[0]].poster] = i // a pair's first is a Write or a Send
	}
}

func (r *requests) nextOf(place int) units.Time {
	next := r.servers[place].timers.next()
	if i := r.clientAt[place]; i >= 0 {
		next = min(next, r.clients[i].timers.next())
	}
	return next
}

func (r *requests) tickOf(now units.Time, place int, act *Actions) {
	if i := r.clientAt[place]; i >= 0 {
		r.beginDue(now, i, act)
	}
	r.answer(now, &r.servers[place], act)
}

// answer posts the answers whose time has come.
func (r *requests) answer(now units.Time, s *server, act *Actions) {
	for {
		i, ok := s.timers.due(now)
		if !ok {
			return
		}
		act.Posts = append(act.Posts, s.answers[i])
		s.idle = append(s.idle, i)
	}
}

// beginDue begins the requests of a client whose time has come.
func (r *requests) beginDue(now units.Time, i int, act *Actions) {
	c := &r.clients[i]
	for {
		if _, ok := c.timers.due(now); !ok {
			return
		}
		r.request(now, i, act)
	}
}

// request begins a request of a client.
func (r *requests) request(now units.Time, i int, act *Actions) {
	c := &r.clients[i]
	if c.ended {
		return
	}
	if c.left == 0 || r.w.Stop > 0 && now >= r.w.Stop {
		if c.left != 0 {
			r.more.Add(-1)
		}
		c.ended = true
		r.live.Add(-1)
		return
	}
	if c.left > 0 {
		if c.left--; c.left == 0 {
			r.more.Add(-1)
		}
	}
	n := slot(&c.pool, &c.idle)
	q := &c.pool[n]
	*q = ask{conn: c.first[r.pick(c)], start: now}
	r.draw(&c.draw, q)
	c.open++
	r.live.Add(1)
	act.Begun = append(act.Begun, r.task(q))
	if c.free == 0 {
		c.late = append(c.late, n)
	} else {
		c.free--
		r.post(c, n, act)
	}
	if r.loop.Rate > 0 {
		c.timers.add(now+r.interval(c), i)
	}
}

// pick chooses the pair of a client's next request.
func (r *requests) pick(c *client) int {
	if !r.inTurn {
		return c.draw.IntN(len(c.first))
	}
	k := c.turn
	c.turn = (k + 1) % len(c.first)
	return k
}

// slot returns the index of an element of pool that is not in use.
func slot[T any](pool *[]T, idle *[]int) int {
	if last := len(*idle) - 1; last >= 0 {
		n := (*idle)[last]
		*idle = (*idle)[:last]
		return n
	}
	*pool = append(*pool, *new(T))
	return len(*pool) - 1
}

func (r *requests) post(c *client, n int, act *Actions) {
	q := &c.pool[n]
	p := Post{Conn: q.conn, Size: q.size[0], Tag: n}
	if q.second {
		p.Conn++
	}
	if r.answered {
		p.Response = q.size[1]
	}
	act.Posts = append(act.Posts, p)
}

func (r *requests) task(q *ask) Task {
	conn := &r.conns[q.conn]
	t := Task{What: "write", Label: r.label, Src: conn.Src, Dst: conn.Dst, Size: q.size[0], Start: q.start}
	switch {
	case r.answered:
		t.What, t.Size = "rpc", q.size[0]+q.size[1]
		t.Answered, t.Response, t.Service, t.Operation = true, q.size[1], r.service, conn.Operation
	case q.second:
		t.What, t.Src, t.Dst, t.Single, t.Operation = "read", conn.Dst, conn.Src, true, Read
	default:
		t.Single = true
	}
	return t
}

func (r *requests) completed(now units.Time, conn, tag int, act *Actions) {
	if !r.answered {
		r.end(now, r.of[conn], tag, act)
	}
}

func (r *requests) arrived(now units.Time, p Post, act *Actions) {
	client := r.of[p.Conn]
	switch {
	case !r.answered:
	case p.Response > 0:
		s := &r.servers[r.ends[p.Conn].receiver]
		i := slot(&s.answers, &s.idle)
		s.answers[i] = Post{Conn: p.Conn + 1, Size: p.Response, Tag: p.Tag}
		s.timers.add(now+r.service, i)
		r.answer(now, s, act)
	default:
		r.end(now, client, p.Tag, act)
	}
}

func (r *requests) end(now units.Time, i, n int, act *Actions) {
	c := &r.clients[i]
	act.Ended = append(act.Ended, r.task(&c.pool[n]))
	c.open--
	r.live.Add(-1)
	if r.loop.Rate == 0 {
		c.timers.add(now+r.loop.Think, i)
	}
	c.idle = append(c.idle, n)
	if c.free >= 0 {
		c.free++
	}
	if c.head < len(c.late) {
		c.free--
		next := c.late[c.head]
		if c.head++; 2*c.head >= len(c.late) {
			c.late = c.late[:copy(c.late, c.late[c.head:])]
			c.head = 0
		}
		r.post(c, next, act)
	}
	r.beginDue(now, i, act)
}

func (r *requests) mayTurn(now, before units.Time) bool {
	if r.more.Load() > 0 && (r.w.Stop == 0 || before <= r.w.Stop) {
		return false
	}
	for i := range r.clients {
		c := &r.clients[i]
		// Nothing ends a client but a timer, of which an answer may make one.
		if c.open > 0 && (r.loop.Rate > 0 || now+r.loop.Think >= before) || c.open == 0 {
			if !c.ended && c.timers.next() >= before {
				return false
			}
		}
	}
	return true
}

func (r *requests) turned() bool { return r.over() }

func (r *requests) over() bool { return r.live.Load() == 0 }

// SingleRequest returns the Traffic of one request from host 0 to host 1, and of its
// answer, of that many bytes each: for measuring what hosts add to it.
func SingleRequest(op Operation, size units.Bytes) *Traffic {
	r := newRequests(&Workload{Operation: op}, &Loop{Requests: 1}, 0, []int{0}, func(entity string) des.Stream { return des.NewStream(0, entity) })
	r.answered = true
	there := Conn{Src: 0, Dst: 1, Operation: op, Message: size, Notify: true}
	back := there
	back.Src, back.Dst = 1, 0
	r.pair(0, there, back)
	r.draw = func(_ *des.Stream, q *ask) { q.size = [2]units.Bytes{size, size} }
	t := &Traffic{machine: r}
	t.begin()
	return t
}
