package workload_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
)

// puppet runs a Traffic: messages take as long as it likes, but keep their order on
// a connection. It notes what happened.
type puppet struct {
	t     *workload.Traffic
	now   units.Time
	queue [][]workload.Post // by connection
	sent  []units.Bytes
	begun []workload.Task
	ended []workload.Task
	late  []units.Time // how long each ended task took
	took  func(conn int) units.Time
	due   []units.Time // of the first message on each connection
	posts []workload.Post
}

func newPuppet(t *workload.Traffic, took func(conn int) units.Time) *puppet {
	n := len(t.Connections())
	p := &puppet{t: t, now: t.Start, queue: make([][]workload.Post, n), sent: make([]units.Bytes, n), due: make([]units.Time, n), took: took}
	p.do(t.Tick(p.now))
	p.turns()
	return p
}

// turns has hosts do what is due by itself, and then what they do together.
func (p *puppet) turns() {
	for place := range p.t.Hosts() {
		if p.t.NextOf(place) <= p.now {
			p.do(p.t.TickOf(p.now, place))
		}
	}
	p.do(p.t.Settle(p.now))
}

// next returns when something is due that is no message.
func (p *puppet) next() units.Time {
	at := p.t.Next()
	for place := range p.t.Hosts() {
		at = min(at, p.t.NextOf(place))
	}
	return at
}

func (p *puppet) do(act *workload.Actions) {
	for _, x := range act.Posts {
		if len(p.queue[x.Conn]) == 0 {
			p.due[x.Conn] = p.now + p.took(x.Conn)
		}
		p.queue[x.Conn] = append(p.queue[x.Conn], x)
		p.sent[x.Conn] += x.Size
		p.posts = append(p.posts, x)
	}
	p.begun = append(p.begun, act.Begun...)
	for _, task := range act.Ended {
		p.ended = append(p.ended, task)
		p.late = append(p.late, p.now-task.Start)
	}
}

// step lets the next thing happen, and reports whether there was one before end.
func (p *puppet) step(end units.Time) bool {
	first, at := -1, p.next()
	for c := range p.queue {
		if len(p.queue[c]) > 0 && (p.due[c] < at || first < 0 && p.due[c] <= at) {
			first, at = c, p.due[c]
		}
	}
	if at >= end || p.t.Over() {
		return false
	}
	p.now = at
	if first < 0 {
		if p.t.Next() <= at {
			p.do(p.t.Tick(at))
		}
		p.turns()
		return true
	}
	x := p.queue[first][0]
	p.queue[first] = p.queue[first][1:]
	if len(p.queue[first]) > 0 {
		p.due[first] = at + p.took(first)
	}
	if p.t.Connections()[first].Notify {
		p.do(p.t.Arrived(at, x))
		p.do(p.t.Settle(at))
	}
	if !p.t.Over() {
		p.do(p.t.Completed(at, first, x.Tag))
		p.do(p.t.Settle(at))
	}
	return true
}

func (p *puppet) run(end units.Time) {
	for p.step(end) {
	}
}

func (p *puppet) total() (n units.Bytes) {
	for _, s := range p.sent {
		n += s
	}
	return n
}

// trafficOf makes the one Traffic of a scenario on two racks of eight.
func trafficOf(t testing.TB, keys string) *workload.Traffic {
	t.Helper()
	all := parse(t, network16+"workloads: [{"+keys+"}]").Traffic(1)
	if len(all) != 1 {
		t.Fatalf("%d workloads of messages, want 1", len(all))
	}
	return all[0]
}

func constant(d units.Time) func(int) units.Time { return func(int) units.Time { return d } }

// Where every message takes the same time and connections do not disturb each
// other, a collective takes as many of them as it has steps one after the other.
func TestCollectives(t *testing.T) {
	const us = units.Microsecond
	cases := []struct {
		keys  string
		steps units.Time // in a row
		bytes units.Bytes
		conns int
	}{
		{"kind: all-reduce, hosts: 8, size: 1000B", 14, 14 * 1000, 8},
		{"kind: all-reduce, hosts: 2, size: 3B", 2, 2 * 3, 2},
		{"kind: all-reduce, hosts: 7, size: 8B, algorithm: tree", 4, 12 * 8, 12},
		{"kind: all-reduce, hosts: 3, size: 1000B, algorithm: tree, chunks: 4", 2 + 3, 4 * 1000, 4},
		{"kind: all-to-all, hosts: 5, size: 1KB", 1, 20 * 1000, 20},
		{"kind: all-to-all, hosts: 5, size: 1KB, algorithm: rounds", 4, 20 * 1000, 20},
	}
	for _, c := range cases {
		p := newPuppet(trafficOf(t, c.keys), constant(us))
		p.run(units.Second)
		if !p.t.Over() || len(p.begun) != 1 || len(p.ended) != 1 {
			t.Errorf("%s: over %v, %d begun, %d ended", c.keys, p.t.Over(), len(p.begun), len(p.ended))
			continue
		}
		if p.late[0] != c.steps*us || p.total() != c.bytes || len(p.sent) != c.conns {
			t.Errorf("%s: %v for %v over %d connections, want %v for %v over %d", c.keys, p.late[0], p.total(), len(p.sent), c.steps*us, c.bytes, c.conns)
		}
	}
}

func TestIterations(t *testing.T) {
	const us = units.Microsecond
	starts := func(keys string) (at []units.Time) {
		p := newPuppet(trafficOf(t, "kind: all-reduce, hosts: 2, size: 1KB, gap: 3us, start: 1us, "+keys), constant(us))
		p.run(20 * us)
		for _, task := range p.begun {
			at = append(at, task.Start)
		}
		return at
	}
	if got := starts("iterations: 3"); !slices.Equal(got, []units.Time{us, 6 * us, 11 * us}) {
		t.Errorf("iterations start at %v", got)
	}
	if got := starts("iterations: 0"); len(got) != 4 {
		t.Errorf("without end, iterations start at %v", got)
	}
	if got := starts("iterations: 9, stop: 8us"); !slices.Equal(got, []units.Time{us, 6 * us}) {
		t.Errorf("stopped, iterations start at %v", got)
	}
}

// In whatever order messages arrive, a rank of a ring sends a chunk on only after it
// came, every rank has sent 2 (n-1) chunks, and in total the vector goes round 2 (n-1)
// times. The other collectives also send what they must, and end.
func TestCollectivesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "hosts")
		size := units.Bytes(rapid.IntRange(n*4, 100_000).Draw(t, "size"))
		keys := rapid.SampledFrom([]string{
			"kind: all-reduce", "kind: all-reduce, algorithm: tree, chunks: 4", "kind: all-to-all", "kind: all-to-all, algorithm: rounds",
		}).Draw(t, "keys")
		s, err := scenario.Parse("test.yaml", []byte(network16+fmt.Sprintf("workloads: [{%s, hosts: %d, size: %dB, iterations: 2}]", keys, n, size)))
		if err != nil {
			t.Fatal(err)
		}
		p := newPuppet(s.Traffic(1)[0], func(int) units.Time { return units.Time(rapid.IntRange(1, 1000).Draw(t, "took")) })
		arrived := make([]int, n) // chunks that each rank of a ring has got
		sent := make([]int, n)
		ring := keys == "kind: all-reduce"
		note := func() {
			if !ring {
				return
			}
			for _, x := range p.posts {
				sent[x.Conn]++
				if sent[x.Conn]-1 > arrived[x.Conn] {
					t.Fatalf("rank %d sends its message %d when %d have come", x.Conn, sent[x.Conn], arrived[x.Conn])
				}
			}
			p.posts = p.posts[:0]
		}
		note()
		for {
			before := make([]int, n)
			for c := range p.queue {
				if ring {
					before[c] = len(p.queue[c])
				}
			}
			posted := len(p.posts)
			if !p.step(units.Second) {
				break
			}
			if ring {
				added := make([]int, n)
				for _, x := range p.posts[posted:] {
					added[x.Conn]++
				}
				for c := range p.queue {
					if before[c]+added[c] > len(p.queue[c]) {
						arrived[(c+1)%n]++
					}
				}
			}
			note()
		}
		per := map[bool]units.Bytes{true: 2 * units.Bytes(n-1) * size, false: units.Bytes(n*(n-1)) * size}[strings.Contains(keys, "reduce")]
		if !p.t.Over() || len(p.ended) != 2 || p.total() != 2*per {
			t.Fatalf("over %v, %d iterations, %v sent, want %v", p.t.Over(), len(p.ended), p.total(), 2*per)
		}
	})
}

func TestClosedLoop(t *testing.T) {
	const us = units.Microsecond
	// A request takes 1 us there, 2 us at the server and 1 us back; after 6 us
	// comes the next: 10 us a turn.
	p := newPuppet(trafficOf(t, "kind: rpc, clients: [h0, h1], servers: [h8], request: 100B, response: 1KB, service: 2us, think: 6us, requests: 7"), constant(us))
	p.run(units.Second)
	if !p.t.Over() || len(p.ended) != 14 || p.total() != 14*1100 {
		t.Fatalf("over %v, %d requests, %v", p.t.Over(), len(p.ended), p.total())
	}
	for i, task := range p.ended {
		if p.late[i] != 4*us || task.Size != 1100 || task.Start != units.Time(i/2)*10*us || task.Single {
			t.Errorf("request %d took %v: %+v", i, p.late[i], task)
		}
	}
	// With 3 outstanding there are always 3, also without an end.
	p = newPuppet(trafficOf(t, "kind: storage, clients: [h0], targets: all, block: 4KiB, reads: 0.3, outstanding: 3"), constant(us))
	for p.step(100 * us) {
		under := 0
		for _, q := range p.queue {
			under += len(q)
		}
		if under != 3 {
			t.Fatalf("%d blocks under way, want 3", under)
		}
	}
	reads, conns := 0, p.t.Connections()
	for _, task := range p.ended {
		if !task.Single || task.Size != 4*units.KiB || (task.Src == 0) == (task.Dst == 0) {
			t.Fatalf("task %+v", task)
		}
		if task.Dst == 0 {
			reads++
		}
	}
	if share := float64(reads) / float64(len(p.ended)); share < 0.15 || share > 0.45 {
		t.Errorf("%d of %d blocks were read", reads, len(p.ended))
	}
	for _, c := range conns {
		if (c.Operation == workload.Read) != (c.Dst == 0) || c.Notify {
			t.Errorf("connection %+v", c)
		}
	}
}

// Requests count from when they should have started: of arrivals every 2 us, one at
// a time, each 5 us long, the k-th waits for those before it.
func TestOpenLoopCountsWaiting(t *testing.T) {
	const us = units.Microsecond
	p := newPuppet(trafficOf(t, "kind: storage, clients: [h0], targets: [h8], block: 1KiB, rate: 500000, arrivals: even, outstanding: 1, requests: 100"), constant(5*us))
	p.run(units.Second)
	if !p.t.Over() || len(p.ended) != 100 {
		t.Fatalf("over %v, %d ended", p.t.Over(), len(p.ended))
	}
	for k := range p.ended {
		if start := units.Time(k+1) * 2 * us; p.ended[k].Start != start || p.begun[k].Start != start {
			t.Fatalf("request %d starts at %v, want %v", k, p.ended[k].Start, start)
		}
		if want := 5*us + units.Time(k)*3*us; p.late[k] != want {
			t.Fatalf("request %d took %v, want %v", k, p.late[k], want)
		}
	}
	// Without a bound nothing waits at the client.
	p = newPuppet(trafficOf(t, "kind: storage, clients: [h0], targets: [h8], block: 1KiB, rate: 500000, requests: 100"), constant(5*us))
	for len(p.begun) < 100 && p.step(units.Second) {
	}
	under := 0
	for _, q := range p.queue {
		under += len(q)
	}
	if under+len(p.ended) != 100 {
		t.Errorf("%d under way and %d ended of 100", under, len(p.ended))
	}
}

// In turn, with even arrivals, clients go from target to target together, and a target
// that is the client itself is left out.
func TestStorageInTurn(t *testing.T) {
	const us = units.Microsecond
	p := newPuppet(trafficOf(t, "kind: storage, clients: [h0..h3], targets: [h3, h8, h9], order: turn, reads: 0, block: 1KiB, rate: 100000, arrivals: even, requests: 7"), constant(us))
	p.run(units.Second)
	if len(p.begun) != 28 {
		t.Fatalf("%d requests", len(p.begun))
	}
	for i, task := range p.begun {
		targets := []int{3, 8, 9}
		if task.Src == 3 {
			targets = targets[1:]
		}
		if k := i / 4; task.Dst != targets[k%len(targets)] || task.Start != units.Time(k+1)*10*us {
			t.Errorf("request %d from %d to %d at %v", k, task.Src, task.Dst, task.Start)
		}
	}
}

// Poisson arrivals have the rate that is asked for.
func TestOpenLoopRate(t *testing.T) {
	p := newPuppet(trafficOf(t, "kind: rpc, clients: [h0, h1], servers: [h8], request: 1B, response: 1B, rate: 1000000, stop: 10ms"), constant(units.Nanosecond))
	p.run(units.Second)
	if n := len(p.ended); !p.t.Over() || n < 19_400 || n > 20_600 { // 20000, and 4 standard deviations
		t.Errorf("over %v, %d requests", p.t.Over(), n)
	}
}

func TestOnOff(t *testing.T) {
	const us = units.Microsecond
	p := newPuppet(trafficOf(t, "kind: on-off, senders: [h0, h1], receivers: [h8], on: 10us, off: 30us, step: 5us, bursts: 3, message: 1MiB"), constant(4*us))
	p.run(units.Second)
	if !p.t.Over() || len(p.begun) != 6 || len(p.ended) != 6 {
		t.Fatalf("over %v, %d begun, %d ended", p.t.Over(), len(p.begun), len(p.ended))
	}
	var total units.Bytes
	for i, task := range p.ended {
		// Two are completed within 10 us, and replaced: 6 of 4 us each.
		k, host := i/2, task.Src
		if start := units.Time(k)*40*us + units.Time(host)*5*us; task.Start != start || p.late[i] != 24*us || task.Size != 6*units.MiB {
			t.Errorf("burst %d: %+v took %v, want a start at %v", i, task, p.late[i], start)
		}
		total += task.Size
	}
	if total != p.total() {
		t.Errorf("bursts have %v, posted were %v", total, p.total())
	}
	// Bursts closer together than they take to drain.
	p = newPuppet(trafficOf(t, "kind: on-off, senders: [h0], receivers: [h8], on: 10us, off: 1us, bursts: 5, random: true"), constant(9*us))
	p.run(units.Second)
	if !p.t.Over() || len(p.ended) != 5 {
		t.Errorf("over %v, %d of 5 bursts ended", p.t.Over(), len(p.ended))
	}
	p = newPuppet(trafficOf(t, "kind: on-off, senders: [h0, h1], receivers: [h8, h9], on: 10us, off: 10us, stop: 45us"), constant(us))
	p.run(units.Second)
	if last := p.ended[len(p.ended)-1]; !p.t.Over() || len(p.ended) != 6 || last.Start != 40*us {
		t.Errorf("stopped: over %v, %d bursts, the last %+v", p.t.Over(), len(p.ended), last)
	}
}

func TestRotatingIncast(t *testing.T) {
	s := parse(t, network16+"workloads: [{kind: rotating-incast, hosts: [h2..h5], fan_in: 2, size: 1KB, period: 10us, rounds: 5, start: 1us}]")
	var got []string
	for _, f := range take(s, 1, 100) {
		got = append(got, fmt.Sprintf("%d>%d@%d", f.Src, f.Dst, f.Start/units.Microsecond))
	}
	if want := "3>2@1 4>2@1 4>3@11 5>3@11 5>4@21 2>4@21 2>5@31 3>5@31 3>2@41 4>2@41"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if n := len(take(parse(t, network16+"workloads: [{kind: rotating-incast, size: 1KB, period: 10us}]"), 1, 1000)); n != 16*15 {
		t.Errorf("%d flows, want one round a host of all others", n)
	}
}

// The same seed makes the same choices; another makes others.
func TestTrafficIsRepeatable(t *testing.T) {
	const text = network16 + "workloads: [{kind: rpc, request: google-rpc, response: hadoop, rate: 1e6}]"
	posts := func(seed uint64) []workload.Post {
		p := newPuppet(parse(t, text).Traffic(seed)[0], constant(units.Microsecond))
		p.run(100 * units.Microsecond)
		return p.posts
	}
	a, b, c := posts(1), posts(1), posts(2)
	if len(a) < 1000 || !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("%d posts; the same for the same seed: %v; for another: %v", len(a), slices.Equal(a, b), slices.Equal(a, c))
	}
}

func TestTrafficErrors(t *testing.T) {
	const rpc, storage, reduce, onoff, rotating = "kind: rpc, request: 1KB, response: 1KB", "kind: storage, block: 1KB", "kind: all-reduce, size: 1MB", "kind: on-off, receivers: [h8], senders: 2, on: 1us", "kind: rotating-incast, size: 1KB, period: 1us"
	for keys, want := range map[string]string{
		rpc + ", operation: read":                      "operation: with read no receiver would know",
		rpc + ", message: 1KB":                         "message: a workload of kind rpc has no use for it",
		rpc + ", outstanding: -1":                      "outstanding: is -1",
		rpc + ", rate: -5":                             "rate: is -5: choose 0.001 to 1e10 requests a second",
		rpc + ", rate: 5, arrivals: odd":               `arrivals: is "odd": choose poisson or even`,
		rpc + ", rate: 5, think: 1us":                  "think: with a rate no request waits",
		rpc + ", rate: 5, jitter: 1us":                 "jitter: the start of an open loop",
		rpc + ", think: -1us":                          "think: is -1us",
		rpc + ", requests: -1":                         "requests: is -1",
		rpc + ", service: -1us":                        "service: is -1us",
		rpc + ", clients: [h0], servers: [h0]":         "servers: h0 would have nobody but itself",
		rpc + ", clients: [h77]":                       `clients[0]: there is no host "h77"`,
		"kind: rpc, response: 1KB":                     "request: it is missing: name a distribution",
		"kind: rpc, request: 1KB, response: odd":       `response: no size distribution is called "odd"`,
		"kind: storage, block: 3GiB":                   "block: is 3GiB: choose a size of up to 2GiB",
		storage + ", order: odd":                       `order: is "odd": choose random or turn`,
		storage + ", reads: 1.5":                       "reads: is 1.5: choose a share",
		storage + ", operation: send":                  "operation: a workload of kind storage has no use",
		"kind: all-reduce":                             "size: it is missing",
		"kind: all-reduce, size: 3GiB":                 "size: is 3GiB",
		"kind: all-reduce, size: 3B":                   "size: is 3B: choose at least a byte for each of the 16 chunks",
		reduce + ", hosts: 1":                          "hosts: a collective needs at least two",
		reduce + ", algorithm: star":                   `algorithm: is "star": choose ring or tree`,
		reduce + ", chunks: 4":                         "chunks: a ring has as many chunks as hosts",
		reduce + ", algorithm: tree, chunks: 0":        "chunks: is 0",
		reduce + ", iterations: -1":                    "iterations: is -1",
		reduce + ", gap: -1us":                         "gap: is -1us",
		reduce + ", operation: read":                   "operation: with read no receiver",
		reduce + ", jitter: 1us":                       "jitter: a workload of kind all-reduce has no use",
		"kind: all-to-all, size: 1KB, algorithm: tree": `algorithm: is "tree": choose direct or rounds`,
		onoff + ", off: -1us":                          "off: is -1us",
		onoff + ", step: -1us":                         "step: is -1us",
		onoff + ", bursts: -1":                         "bursts: is -1",
		"kind: on-off, receivers: [h8], on: 1us":       "senders: h8 would send to itself",
		"kind: on-off, senders: 2, on: 1us":            "receivers: they are missing",
		"kind: on-off, senders: 2, receivers: [h8]":    "on: it is missing",
		rotating + ", fan_in: 16":                      "fan_in: is 16: choose 1 to 15",
		rotating + ", rounds: -1":                      "rounds: is -1",
		rotating + ", hosts: 1":                        "hosts: an incast needs at least two",
		"kind: rotating-incast, size: 1KB":             "period: it is missing",
		"kind: rotating-incast, period: 1us":           "size: it is missing",
		"kind: all-reduce, algorithm: tree, chunks: 65536, size: 1GiB, hosts: 1": "hosts: a collective needs",
	} {
		_, err := scenario.Parse("test.yaml", []byte(network16+"workloads:\n  - {"+keys+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "test.yaml:5: workloads[0].") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", keys, err, want)
		}
	}
}
