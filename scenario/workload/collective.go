package workload

import (
	"sync/atomic"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Collectives: operations of all hosts together, in which a message is sent when
// the data it is made of have come. Computing takes no time.
//
// The ring all-reduce is that of Patarasuk and Yuan (JPDC 2009): n ranks, the
// vector cut into n chunks, n-1 steps that reduce and n-1 that gather; every rank
// sends 2 (n-1)/n of the vector. The tree all-reduce sends each chunk up a
// balanced binary tree, a rank when its children's have come, and down again; one
// tree, where NCCL has two complementary ones.
//
// The size and the factor of an operation's bus bandwidth are those of nccl-tests
// (doc/PERFORMANCE.md, and AlltoAllGetBw): of an all-reduce the vector and 2 (n-1)/n,
// whatever the algorithm; of an all-to-all n times what goes to each, and (n-1)/n.

// AllToAll is every host sending to every other, iteration by iteration.
type AllToAll struct {
	// Who takes part, as at `senders`.
	Hosts HostSet `yaml:"hosts" eg:"8"`
	// Bytes from each host to each other.
	Size units.Bytes `yaml:"size" eg:"256KiB" req:"yes" range:"(0,2GiB]"`
	// `direct` sends all at once. `rounds` sends in round k to the k-th next
	// host, and starts a round when the last one's data have come.
	Algorithm string `yaml:"algorithm" eg:"rounds" one:"direct rounds"`
	// How often; an iteration starts when all hosts are done with the last.
	Iterations int `yaml:"iterations" eg:"10" range:"[1,)" zero:"as many as there is time for"`
	// Time between the end of an iteration and the start of the next.
	Gap units.Time `yaml:"gap" eg:"100us" range:"[0s,)"`
}

// AllReduce is hosts that sum up a vector each, so that each has the sum.
type AllReduce struct {
	// Who takes part, as at `senders`: the ranks, in this order.
	Hosts HostSet `yaml:"hosts" eg:"8"`
	// Bytes of the vector.
	Size units.Bytes `yaml:"size" eg:"16MiB" req:"yes" range:"(0,2GiB]"`
	// `ring`, of as many chunks as hosts, or `tree`, a binary tree up and down.
	Algorithm string `yaml:"algorithm" eg:"tree" one:"ring tree"`
	// Chunks in which a tree sends the vector, one behind the other.
	Chunks int `yaml:"chunks" eg:"16" range:"[1,2^16]"`
	// How often; an iteration starts when all hosts are done with the last.
	Iterations int `yaml:"iterations" eg:"10" range:"[1,)" zero:"as many as there is time for"`
	// Time between the end of an iteration and the start of the next.
	Gap units.Time `yaml:"gap" eg:"100us" range:"[0s,)"`
}

// maxSteps bounds the messages of an iteration.
const maxSteps = 1 << 22

func (p *AllToAll) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	hosts := checkCollective(d, path, w, net, p.Hosts)
	n := len(hosts)
	checkConns(d, path+".hosts", n*(n-1))
	if len(d.Errs) > errs {
		return nil
	}
	label := net.label(w.Label)
	return collectivePlan(w, label, hosts, p.Size, p.Iterations, p.Gap, func(c *collective) {
		c.allToAll(n, p.Size, p.Algorithm == "rounds")
		// The buffer of a rank, with the part that stays there.
		c.counted, c.factor = units.Bytes(n)*p.Size, float64(n-1)/float64(n)
	})
}

func (p *AllReduce) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	if p.Algorithm == "ring" && p.Chunks != 1 {
		d.Fail(path+".chunks", "a ring has as many chunks as hosts: leave it out")
	}
	hosts := checkCollective(d, path, w, net, p.Hosts)
	n := len(hosts)
	pieces, steps := n, 2*n*(n-1)
	if p.Algorithm == "tree" {
		pieces, steps = p.Chunks, 2*(n-1)*p.Chunks
	}
	switch {
	case len(d.Errs) > errs:
		return nil
	case p.Size < units.Bytes(pieces):
		d.Fail(path+".size", "is %v: choose at least a byte for each of the %d chunks", p.Size, pieces)
		return nil
	case steps > maxSteps:
		d.Fail(path, "an iteration has %d messages: choose fewer hosts or chunks, so that there are at most %d", steps, maxSteps)
		return nil
	}
	label := net.label(w.Label)
	chunk := func(i int) units.Bytes {
		return p.Size*units.Bytes(i+1)/units.Bytes(pieces) - p.Size*units.Bytes(i)/units.Bytes(pieces)
	}
	return collectivePlan(w, label, hosts, p.Size, p.Iterations, p.Gap, func(c *collective) {
		c.counted, c.factor = p.Size, float64(2*(n-1))/float64(n)
		if p.Algorithm == "tree" {
			c.tree(n, pieces, chunk)
			return
		}
		c.ring(n, chunk)
	})
}

// checkCollective checks what collectives have in common and returns the ranks.
func checkCollective(d *tree.Document, path string, w *Workload, net *network, set HostSet) []int {
	w.checkLeftOut(d, path, "message", "jitter")
	w.checkNotify(d, path)
	errs := len(d.Errs)
	hosts := net.hosts(d, path+".hosts", set, -1)
	if len(hosts) < 2 && len(d.Errs) == errs {
		d.Fail(path+".hosts", "a collective needs at least two hosts")
	}
	return hosts
}

func collectivePlan(w *Workload, label int, hosts []int, size units.Bytes, iterations int, gap units.Time, build func(*collective)) plan {
	return &traffic{w: w, make: func(func(string) des.Stream) machine {
		c := &collective{w: w, label: label, hosts: hosts, size: size, left: iterations, endless: iterations == 0, gap: gap, at: w.Start}
		build(c)
		c.missing = make([]int32, len(c.steps))
		return c
	}}
}

// collective sends the messages of an iteration in the order of their dependencies: a
// message is posted when all messages for which it waits have arrived.
type collective struct {
	together
	w       *Workload
	label   int
	hosts   []int
	size    units.Bytes
	left    int // iterations to begin, unless endless
	endless bool
	gap     units.Time
	counted units.Bytes // Task.Collective and Task.BusFactor of an iteration
	factor  float64

	conns   []Conn
	steps   []collectiveStep
	missing []int32      // of each step: messages that it still waits for
	posted  atomic.Int64 // messages of this iteration
	open    atomic.Int64 // messages that have not arrived
	runs    bool         // an iteration
	at      units.Time   // of the next one, or Never
	begun   units.Time   // of this one
}

// collectiveStep is a message of an iteration.
type collectiveStep struct {
	conn  int32
	waits int32   // the number of messages that it waits for
	frees []int32 // the steps that wait for this one
	size  units.Bytes
}

// collectiveDepth bounds the messages under way on a connection.
const collectiveDepth = 16

func (c *collective) connect(from, to int, most units.Bytes) int {
	c.conns = append(c.conns, Conn{
		Src: c.hosts[from], Dst: c.hosts[to], Operation: c.w.Operation, Message: most, Depth: collectiveDepth, Notify: true, Label: c.label,
	})
	return len(c.conns) - 1
}

// step sets what a step sends, and which steps it waits for.
func (c *collective) step(i, conn int, size units.Bytes, after ...int) {
	s := &c.steps[i]
	s.conn, s.size, s.waits = int32(conn), size, int32(len(after))
	for _, other := range after {
		c.steps[other].frees = append(c.steps[other].frees, int32(i))
	}
}

// allToAll: in step (i, k) rank i sends to the k-th rank after it.
func (c *collective) allToAll(n int, size units.Bytes, rounds bool) {
	c.steps = make([]collectiveStep, n*(n-1))
	at := func(rank, k int) int { return k*n - n + rank }
	for k := 1; k < n; k++ {
		for i := range n {
			conn := c.connect(i, (i+k)%n, size)
			if rounds && k > 1 {
				c.step(at(i, k), conn, size, at((i-k+1+n)%n, k-1))
			} else {
				c.step(at(i, k), conn, size)
			}
		}
	}
}

// ring: in step (i, k) rank i sends its next one chunk (i-k) mod n, which in step
// k-1 came from the one before it.
func (c *collective) ring(n int, chunk func(int) units.Bytes) {
	rounds := 2 * (n - 1)
	c.steps = make([]collectiveStep, n*rounds)
	for i := range n {
		c.connect(i, (i+1)%n, largest(n, chunk))
	}
	for k := range rounds {
		for i := range n {
			size := chunk(((i-k)%n + n) % n)
			if k == 0 {
				c.step(i, i, size)
			} else {
				c.step(k*n+i, i, size, (k-1)*n+(i-1+n)%n)
			}
		}
	}
}

// tree: rank i's children are 2i+1 and 2i+2, and rank 0 is the root. Of each chunk
// there is a step up from every other rank, and one down to it.
func (c *collective) tree(n, chunks int, chunk func(int) units.Bytes) {
	most := largest(chunks, chunk)
	c.steps = make([]collectiveStep, 2*(n-1)*chunks)
	up, down := make([]int, n), make([]int, n)
	for i := 1; i < n; i++ {
		up[i], down[i] = c.connect(i, (i-1)/2, most), c.connect((i-1)/2, i, most)
	}
	for k := range chunks {
		upStep := func(i int) int { return 2*(n-1)*k + i - 1 }
		downStep := func(i int) int { return 2*(n-1)*k + n - 1 + i - 1 }
		children := func(i int) (steps []int) {
			for _, child := range []int{2*i + 1, 2*i + 2} {
				if child < n {
					steps = append(steps, upStep(child))
				}
			}
			return steps
		}
		for i := 1; i < n; i++ {
			c.step(upStep(i), up[i], chunk(k), children(i)...)
			if parent := (i - 1) / 2; parent == 0 {
				c.step(downStep(i), down[i], chunk(k), children(0)...)
			} else {
				c.step(downStep(i), down[i], chunk(k), downStep(parent))
			}
		}
	}
}

func largest(n int, chunk func(int) units.Bytes) (most units.Bytes) {
	for i := range n {
		most = max(most, chunk(i))
	}
	return most
}

func (c *collective) connections() []Conn { return c.conns }

func (c *collective) next() units.Time { return c.at }

func (c *collective) begin([]int, []ends) {}

func (c *collective) tick(now units.Time, act *Actions) {
	if c.at > now {
		return
	}
	c.at, c.runs = units.Never, true
	c.left--
	c.begun = now
	c.posted.Store(0)
	c.open.Store(int64(len(c.steps)))
	act.Begun = append(act.Begun, c.task())
	for i := range c.steps {
		if c.missing[i] = c.steps[i].waits; c.missing[i] == 0 {
			c.post(i, act)
		}
	}
}

func (c *collective) post(step int, act *Actions) {
	s := &c.steps[step]
	act.Posts = append(act.Posts, Post{Conn: int(s.conn), Size: s.size, Tag: step})
	c.posted.Add(1)
}

// task is an iteration: of all hosts, and so of none in particular.
func (c *collective) task() Task {
	return Task{
		What: c.w.Kind, Label: c.label, Src: c.hosts[0], Dst: c.hosts[0], Size: c.size, Start: c.begun,
		Collective: c.counted, BusFactor: c.factor,
	}
}

func (c *collective) completed(units.Time, int, int, *Actions) {}

// arrived has the receiver post what it has waited for: the steps that a message frees are
// all its.
func (c *collective) arrived(_ units.Time, p Post, act *Actions) {
	for _, next := range c.steps[p.Tag].frees {
		if c.missing[next]--; c.missing[next] == 0 {
			c.post(int(next), act)
		}
	}
	c.open.Add(-1)
}

func (c *collective) turned() bool { return c.open.Load() == 0 && (c.runs || c.over()) }

func (c *collective) settle(now units.Time, act *Actions) {
	if !c.runs || c.open.Load() > 0 {
		return
	}
	c.runs = false
	act.Ended = append(act.Ended, c.task())
	if at := now + c.gap; (c.endless || c.left > 0) && (c.w.Stop == 0 || at < c.w.Stop) {
		c.at = at
	}
}

func (c *collective) mayTurn(units.Time, units.Time) bool {
	return c.runs && c.posted.Load() == int64(len(c.steps)) || c.over()
}

func (c *collective) over() bool { return !c.runs && c.at == units.Never }
