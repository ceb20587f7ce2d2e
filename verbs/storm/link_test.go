package storm

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fault"
)

// A connection request of before, sent again to a process that has crashed since, makes an end that
// the client knows nothing of. What the client has completed is not held against its memory.
func TestStray(t *testing.T) {
	faults, err := fault.ParseSchedule(strings.NewReader(`drop 0>2 #12
corrupt 1>0 #1 bit 853446628
crash 1 at 5.987203325ms for 12ns
forge 0>1 #0 as 4238605670
forge 0>1 #15 as 627800976
forge 0>1 #28 as 3587695269`))
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Shim, c.Seed, c.Faults = "timely", 4377, faults
	if r, err := Run(t.Context(), c); err != nil || r.Failure != "" {
		t.Errorf("%+v, %v", r.Failure, err)
	}
}

// linkScript is a connection of which the client has written something, the server's end, and a
// stray that came after it.
type linkScript struct {
	run                   *run
	link                  *link
	client, server, stray *end
}

func newLinkScript(ofServer bool) *linkScript {
	s := &linkScript{run: &run{cfg: Default(), engine: des.New()}}
	s.link = s.run.link(linkID{0, 1, 0}, 7)
	plans := [2]*plan{drawWrite(1), drawWrite(2)}
	made := func(side int, qpn uint32) *end {
		e := &end{link: s.link, nonce: 7, side: side, p: &Process{ID: side, run: s.run}, plan: plans[side], theirs: plans[1-side], hello: hello{qpn: qpn}}
		e.offer = make([]byte, e.theirs.theirs)
		e.theirs.fillTheirs(e.offer)
		s.link.join(e)
		return e
	}
	s.client, s.server = made(0, 10), made(1, 20)
	s.client.started = ofServer
	s.stray = made(1, 21)
	s.link.answered(s.server.hello.qpn)
	s.client.started = true
	return s
}

// drawWrite draws a plan that begins with a WRITE.
func drawWrite(stream uint64) *plan {
	for seed := uint64(0); ; seed++ {
		if p := drawPlan(rand.New(rand.NewPCG(seed, stream))); p.ops[0].op == ib.WRRDMAWrite && p.ops[0].size > 8 {
			return p
		}
	}
}

// writes carries out the first request of one end in the memory of another.
func writes(from, to *end) {
	o := &from.plan.ops[0]
	copy(to.offer[o.at:], o.data)
}

// Ends of a connection are held against each other, and a stray against nothing at all.
func TestLink(t *testing.T) {
	for _, c := range []struct {
		name   string
		script func(s *linkScript)
		want   string
	}{
		{"what is completed is there", func(s *linkScript) {
			s.client.posted, s.client.completed = 1, 1
			writes(s.client, s.server)
		}, ""},
		{"what is completed is not there", func(s *linkScript) {
			s.client.posted, s.client.completed = 1, 1
		}, "client's requests: request 0 has completed, and its bytes are not there"},
		{"what is completed is at the stray", func(s *linkScript) {
			s.client.posted, s.client.completed = 1, 1
			writes(s.client, s.stray)
		}, "connection {0 1 0}"}, // which end is over first says of what
		{"the stray has bytes", func(s *linkScript) {
			writes(s.client, s.stray)
			s.client.posted = 1
		}, "the memory of an end to which nobody was connected has changed"},
		{"the stray completes", func(s *linkScript) { s.stray.posted, s.stray.completed = 1, 1 }, "1 requests and 0 messages of an end to which nobody"},
		{"the stray receives", func(s *linkScript) { s.stray.received = 1 }, "0 requests and 1 messages of an end to which nobody"},
		{"the stray writes", func(s *linkScript) {
			s.stray.posted = 1
			writes(s.server, s.client)
		}, ""},
		{"nobody has posted what is written", func(s *linkScript) {
			writes(s.server, s.client)
		}, "server's requests: request 0 was never posted, and its bytes are there"},
	} {
		for _, connected := range []bool{false, true} { // as the stray comes
			for _, last := range []int{0, 1, 2} {
				s := newLinkScript(connected)
				c.script(s)
				ends := []*end{s.client, s.server, s.stray}
				for i := range ends {
					ends[(last+1+i)%3].gone()
				}
				if got := s.run.result.Failure; (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
					t.Errorf("%s, connected %v, end %d last: %q, want %q", c.name, connected, last, got, c.want)
				}
				if len(s.run.links) > 0 {
					t.Errorf("%s: the link is kept", c.name)
				}
			}
		}
	}
}

// A queue pair that is used again does not take late packets of its last connection: its peer begins
// elsewhere.
func TestBeginElsewhere(t *testing.T) {
	c := Default()
	c.Shim, c.Seed = "timely", 10566
	if r, err := Run(t.Context(), c); err != nil || r.Failure != "" {
		t.Errorf("%v, %v", r.Failure, err)
	}
	var b begins
	k := flowKey{1, 7}
	b.add(k, 0xfffffe)
	for psn, want := range map[uint32]bool{0xfffffe: false, 5: false, 0xfffd: false, 0xfffe: true, 0xff0000: false, 0xfefffe: true, 0x800000: true} {
		if got := b.apart(k, psn); got != want {
			t.Errorf("%#x after 0xfffffe: %v, want %v", psn, got, want)
		}
	}
	if !b.apart(flowKey{2, 7}, 5) || !b.apart(flowKey{1, 8}, 5) {
		t.Error("another queue pair, or another host's, begins where it wants")
	}
}
