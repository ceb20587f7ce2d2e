package cm_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// source is a seeded io.Reader.
type source struct{ *rand.ChaCha8 }

func seeded(seed uint64) source {
	var s [32]byte
	for i := range s {
		s[i] = byte(seed >> (i % 8 * 8))
	}
	return source{rand.NewChaCha8(s)}
}

// packet is a datagram under way.
type packet struct {
	at  units.Time
	seq int
	to  int
	mad []byte
}

// channel joins two hosts: it loses, doubles and reorders.
type channel struct {
	hosts             [2]*host
	paths             [2]cm.Path // seen from each
	rng               *rand.Rand
	loss, double      float64
	jitter            units.Time
	lossless          units.Time // nothing is lost from then on
	now               units.Time
	flight            []packet
	seq               int
	log               [2][]cm.Event
	act               func(who int, e cm.Event)
	sent, lost, again int
}

// collect puts on the wire what the hosts have put out, and hands out events.
func (c *channel) collect() {
	for again := true; again; {
		again = false
		for i, h := range c.hosts {
			h.drain()
			for _, o := range h.sent {
				c.transmit(i, o)
			}
			h.sent = h.sent[:0]
			events := slices.Clone(h.events)
			h.events = h.events[:0]
			for _, e := range events {
				again = true
				e.Private = bytes.TrimRight(e.Private, "\x00")
				c.log[i] = append(c.log[i], e)
				c.act(i, e)
			}
		}
	}
}

func (c *channel) transmit(from int, o cm.Outgoing) {
	c.sent++
	if c.now < c.lossless && c.rng.Float64() < c.loss {
		c.lost++
		return
	}
	n := 1
	if c.rng.Float64() < c.double {
		n = 2
		c.again++
	}
	for range n {
		c.seq++
		c.flight = append(c.flight, packet{
			at: c.now + units.Microsecond + units.Time(c.rng.Int64N(int64(c.jitter)+1)), seq: c.seq, to: 1 - from, mad: o.MAD[:],
		})
	}
}

// run lets time pass until nothing is left to happen.
func (c *channel) run(t *rapid.T) {
	for step := 0; ; step++ {
		if step > 20000 {
			t.Fatalf("no end: states at %v with %d datagrams", c.now, c.sent)
		}
		c.collect()
		next, timer := units.Never, -1
		for i, h := range c.hosts {
			if d := h.Deadline(); d < next {
				next, timer = d, i
			}
		}
		first := -1
		for i, p := range c.flight {
			if first < 0 || p.at < c.flight[first].at || p.at == c.flight[first].at && p.seq < c.flight[first].seq {
				first = i
			}
		}
		switch {
		case first >= 0 && c.flight[first].at <= next:
			p := c.flight[first]
			c.flight = slices.Delete(c.flight, first, first+1)
			c.now = p.at
			c.hosts[p.to].Receive(c.now, c.paths[p.to], p.mad)
		case timer >= 0:
			c.now = next
			c.hosts[timer].Expire(c.now)
		default:
			return
		}
	}
}

// newChannel draws a channel; retries is what both ends are configured with.
func newChannel(t *rapid.T, retries uint8) *channel {
	seed := rapid.Uint64().Draw(t, "seed")
	c := &channel{
		rng:   rand.New(rand.NewPCG(seed, 1)),
		paths: [2]cm.Path{toServer, toClient},
		loss:  rapid.Float64Range(0, 0.9).Draw(t, "loss"), double: rapid.Float64Range(0, 0.5).Draw(t, "double"),
		jitter: units.Time(rapid.Int64Range(0, int64(20*units.Second)).Draw(t, "jitter")),
	}
	for i, guid := range []uint64{clientGUID, serverGUID} {
		cfg := cm.DefaultConfig()
		cfg.CAGUID, cfg.Rand = guid, seeded(seed+uint64(i))
		cfg.MaxRetries = retries
		m, err := cm.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.hosts[i] = &host{Manager: m}
	}
	if err := c.hosts[1].Listen(service, 4); err != nil {
		t.Fatal(err)
	}
	return c
}

// agree compares the two ends' parameters.
func agree(t *rapid.T, a, b cm.Parameters) {
	if a.QPN != b.RemoteQPN || b.QPN != a.RemoteQPN || a.SQPSN != b.RQPSN || b.SQPSN != a.RQPSN || a.PathMTU != b.PathMTU ||
		a.MaxRdAtomic != b.MaxDestRdAtomic || b.MaxRdAtomic != a.MaxDestRdAtomic || a.FlowControl != b.FlowControl || a.FlowLabel != b.FlowLabel {
		t.Fatalf("the ends disagree:\n%+v\n%+v", a, b)
	}
}

// TestLossyChannel: whatever the channel does, the ends that come to be connected
// agree on every parameter, each end hears of its end at most once, and both are
// connected or neither is, unless the messages that would have told were lost; then
// the end that is left is released all the same. Nothing remains.
func TestLossyChannel(t *testing.T) {
	both, neither := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := newChannel(t, rapid.Uint8Range(0, 15).Draw(t, "retries"))
		refuse := rapid.IntRange(0, 9).Draw(t, "refuse") == 0
		quiet := rapid.Bool().Draw(t, "quiet") // nothing is lost after a while
		c.lossless = units.Never
		if quiet {
			c.lossless = units.Time(rapid.Int64Range(0, int64(10*units.Second)).Draw(t, "until"))
		}
		request := clientRequest()
		request.InitiatorDepth, request.ResponderResources = rapid.Uint8().Draw(t, "depth"), rapid.Uint8().Draw(t, "resources")
		request.FlowControl = rapid.Bool().Draw(t, "credits")
		server := serverEndpoint()
		server.InitiatorDepth, server.ResponderResources = rapid.Uint8().Draw(t, "depth"), rapid.Uint8().Draw(t, "resources")
		server.FlowControl = rapid.Bool().Draw(t, "credits")

		var par [2]cm.Parameters
		var ids [2]uint32
		var up, down [2]bool
		c.act = func(who int, e cm.Event) {
			h := c.hosts[who]
			switch e.Type {
			case cm.EventRequest:
				if refuse {
					if err := h.Reject(c.now, e.ID, roce.RejConsumer, nil, nil); err != nil {
						t.Fatal(err)
					}
					return
				}
				p, err := h.Accept(c.now, e.ID, server)
				if err != nil {
					t.Fatal(err)
				}
				ids[1], par[1] = e.ID, p
				down[1] = false
			case cm.EventReply:
				par[0] = e.Parameters
				if err := h.Ready(c.now, e.ID, nil); err != nil {
					t.Fatal(err)
				}
				up[0] = true
			case cm.EventEstablished:
				if e.Parameters != par[1] {
					t.Fatalf("parameters changed: %+v, %+v", e.Parameters, par[1])
				}
				up[1] = true
			}
			if e.Type.Ends() && e.ID == ids[who] {
				if down[who] {
					t.Fatalf("end %d heard twice of the end: %+v", who, c.log[who])
				}
				down[who] = true
			}
		}
		id, err := c.hosts[0].Connect(0, request)
		if err != nil {
			t.Fatal(err)
		}
		ids[0] = id
		c.run(t)
		states := [2]cm.State{c.hosts[0].State(ids[0]), c.hosts[1].State(ids[1])}
		switch {
		case states == [2]cm.State{cm.Established, cm.Established}:
			both++
			agree(t, par[0], par[1])
		case states == [2]cm.State{cm.Idle, cm.Idle}:
			neither++
			if !down[0] {
				t.Fatalf("the client has not heard of the end: %v", c.log)
			}
		case c.lost == 0:
			t.Fatalf("states %v though nothing was lost", states)
		}
		if c.lost == 0 && !refuse && c.jitter < units.Second && states[0] != cm.Established {
			t.Fatalf("states %v on a channel that loses nothing: %v", states, c.log)
		}
		// Part, on a channel that loses nothing any more.
		c.lossless = c.now
		for i, h := range c.hosts {
			if h.State(ids[i]) == cm.Established {
				if err := h.Disconnect(c.now, ids[i], nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.run(t)
		for i, h := range c.hosts {
			if h.Connections() != 0 || h.Deadline() != units.Never {
				t.Fatalf("end %d still has %d connections: %v", i, h.Connections(), c.log)
			}
			if up[i] && !down[i] {
				t.Fatalf("end %d was connected and has not heard of the end: %v", i, c.log)
			}
		}
	})
	if both+neither >= 100 && (both == 0 || neither == 0) { // with fewer it may be chance
		t.Errorf("%d connected, %d not: the channel is too good or too bad to show anything", both, neither)
	}
}

// TestFairChannel: with losses that stop before the retries are used up, both
// ends connect; with fewer retries, both learn that they don't.
func TestFairChannel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			fair(t)
		}
	})
}

func fair(t *rapid.T) {
	retries := rapid.Uint8Range(0, 3).Draw(t, "retries")
	refuse := rapid.IntRange(0, 3).Draw(t, "refuse") == 0
	// The server parts as soon as it can. (Without retries a lost DREQ would leave
	// the client alone.)
	hurry := retries > 0 && rapid.Bool().Draw(t, "hurry")
	c := newChannel(t, retries)
	c.jitter %= units.Second
	c.lossless = 5 * units.Second // less than the first wait for an answer
	var server uint32
	c.act = func(who int, e cm.Event) {
		switch e.Type {
		case cm.EventRequest:
			if server != 0 {
				t.Fatalf("a second request for one REQ: %v", c.log)
			}
			server = e.ID
			if refuse {
				if err := c.hosts[who].Reject(c.now, e.ID, roce.RejConsumer, nil, []byte("no")); err != nil {
					t.Fatal(err)
				}
				return
			}
			if _, err := c.hosts[who].Accept(c.now, e.ID, serverEndpoint()); err != nil {
				t.Fatal(err)
			}
			if hurry {
				if err := c.hosts[who].Disconnect(c.now, e.ID, nil); err != nil {
					t.Fatal(err)
				}
			}
		case cm.EventReply:
			if err := c.hosts[who].Ready(c.now, e.ID, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	id, err := c.hosts[0].Connect(0, clientRequest())
	if err != nil {
		t.Fatal(err)
	}
	c.run(t)
	a, b := c.hosts[0].State(id), c.hosts[1].State(server)
	switch {
	case a != b || a != cm.Idle && a != cm.Established:
		t.Fatalf("client %v, server %v: %v", a, b, c.log)
	case refuse || hurry:
		if a != cm.Idle {
			t.Fatalf("not wanted, and yet %v", a)
		}
	case retries >= 2 && a != cm.Established:
		t.Fatalf("not connected, with %d retries: %v", retries, c.log)
	}
	if refuse && retries > 0 {
		last := c.log[0][0]
		if last.Type != cm.EventRejected || last.Reason != roce.RejConsumer || string(last.Private) != "no" {
			t.Fatalf("the client was told %+v", last)
		}
	}
	// Both part at once, or one of them.
	if a == cm.Established {
		c.lossless = c.now
		for i, id := range []uint32{id, server} {
			if i == 0 || rapid.Bool().Draw(t, "both") {
				if err := c.hosts[i].Disconnect(c.now, id, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		begun := c.now
		c.run(t)
		if took := c.now - begun; took > 10*units.Second {
			t.Fatalf("it took %v to part: %v", took, c.log)
		}
	}
	for i, h := range c.hosts {
		ends := 0
		for _, e := range c.log[i] {
			if e.Type.Ends() {
				ends++
			}
		}
		want := 1
		if i == 1 && (refuse || server == 0) {
			want = 0
		}
		if ends != want || h.Connections() != 0 {
			t.Fatalf("end %d heard of %d ends, want %d, and has %d connections: %v", i, ends, want, h.Connections(), c.log)
		}
	}
}
