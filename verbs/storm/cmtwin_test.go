package storm

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// managerPair is two connection managers with their twins, and what is on the way.
type managerPair struct {
	t    *testing.T
	run  *run
	side [2]*manager
	addr [2]netip.Addr
	now  units.Time
	call [2]uint32 // the connection
}

func newManagerPair(t *testing.T) *managerPair {
	t.Helper()
	m := &managerPair{t: t, run: &run{cfg: Default(), engine: des.New()}}
	for i := range m.side {
		c := cm.DefaultConfig()
		random := &firstRead{Reader: randomBytes{rand.New(rand.NewPCG(1, uint64(i)))}}
		c.CAGUID, c.Rand, c.MTU = uint64(i)+1, random, portMTU
		core, err := cm.New(c)
		if err != nil {
			t.Fatal(err)
		}
		m.side[i] = newManager(&Process{ID: i, run: m.run}, core, c, random.first)
		m.addr[i] = netip.AddrFrom4([4]byte{10, 0, 0, byte(i) + 1})
	}
	if err := m.side[1].Listen(service, backlogs); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *managerPair) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *managerPair) endpoint(i int) cm.Endpoint {
	return cm.Endpoint{QPN: 7 + uint32(i), ResponderResources: 4, InitiatorDepth: 4 + uint8(i), RNRRetryCount: 7}
}

// ask sends the request for a connection.
func (m *managerPair) ask() {
	var err error
	m.call[0], err = m.side[0].Connect(m.now, cm.Request{
		Path: cm.Path{Local: m.addr[0], Remote: m.addr[1]}, ServiceID: service, Endpoint: m.endpoint(0), PathMTU: 1024, RetryCount: 7, HopLimit: 64,
	})
	m.check(err)
}

// carry has messages and events come until there are none. Both sides do what a program would.
func (m *managerPair) carry() {
	for moved := true; moved; {
		moved = false
		for i, from := range m.side {
			var o cm.Outgoing
			for from.NextMAD(&o) {
				moved = true
				m.now += units.Microsecond
				m.side[1-i].Receive(m.now, cm.Path{Local: m.addr[1-i], Remote: m.addr[i]}, o.MAD[:])
			}
			var e cm.Event
			for from.NextEvent(&e) {
				moved = true
				switch e.Type {
				case cm.EventRequest:
					m.call[1] = e.ID
					_, err := from.Accept(m.now, e.ID, m.endpoint(1))
					m.check(err)
				case cm.EventReply:
					m.check(from.Ready(m.now, e.ID, nil))
				}
			}
		}
	}
	for _, s := range m.side {
		s.twin.quiet()
	}
}

// A connection manager's twin finds messages, events, states, counters and times that are not what they
// must be, and nothing where all is well.
func TestManagerTwin(t *testing.T) {
	var o cm.Outgoing
	var e cm.Event
	for _, c := range []struct {
		name, want string
		script     func(m *managerPair)
	}{
		{"all is well", "", func(m *managerPair) {
			m.ask()
			m.carry()
			m.check(m.side[0].Disconnect(m.now, m.call[0]))
			m.carry()
			for m.side[0].Connections()+m.side[1].Connections() > 0 {
				m.now = min(m.side[0].Deadline(), m.side[1].Deadline())
				for _, s := range m.side {
					s.Expire(m.now)
				}
				m.carry()
			}
		}},
		{"it is asked again, and given up", "", func(m *managerPair) {
			m.ask()
			for m.side[0].Connections() > 0 {
				for m.side[0].NextMAD(&o) || m.side[0].NextEvent(&e) {
				}
				m.side[0].twin.quiet()
				m.now = m.side[0].Deadline()
				m.side[0].Expire(m.now)
			}
		}},
		{"a message is not sent", "is not sent", func(m *managerPair) {
			m.ask()
			m.side[0].Manager.NextMAD(&o)
			m.side[0].twin.quiet()
		}},
		{"a message is sent twice", "nothing is due", func(m *managerPair) {
			m.ask()
			m.side[0].NextMAD(&o)
			m.side[0].twin.sends(&o)
		}},
		{"a message is another", "expected", func(m *managerPair) {
			m.ask()
			m.side[0].Manager.NextMAD(&o)
			o.MAD[60] ^= 1
			m.side[0].twin.sends(&o)
		}},
		{"an event does not come", "does not come", func(m *managerPair) {
			m.ask()
			m.side[0].NextMAD(&o)
			m.side[1].Receive(m.now, cm.Path{Local: m.addr[1], Remote: m.addr[0]}, o.MAD[:])
			m.side[1].events = nil
			m.side[1].twin.quiet()
		}},
		{"an event says something else", "the event", func(m *managerPair) {
			m.ask()
			m.side[0].NextMAD(&o)
			m.side[1].Receive(m.now, cm.Path{Local: m.addr[1], Remote: m.addr[0]}, o.MAD[:])
			m.side[1].events[0].Parameters.MaxRdAtomic++
			m.side[1].NextEvent(&e)
		}},
		{"a counter counts too much", "counts", func(m *managerPair) {
			m.ask()
			m.side[0].Counters.Stale++
			m.carry()
		}},
		{"it is called too late", "is to be called at", func(m *managerPair) {
			m.ask()
			m.side[0].NextMAD(&o)
			m.side[0].twin.calls[0].deadline -= units.Nanosecond
			m.side[0].twin.quiet()
		}},
		{"a connection is in another state", "expected", func(m *managerPair) {
			m.ask()
			m.carry()
			m.side[0].twin.calls[0].state = cm.TimeWait
			m.side[0].twin.quiet()
		}},
		{"what the state forbids succeeds", "Ready of", func(m *managerPair) {
			m.ask()
			m.side[0].twin.ready(m.call[0], nil, nil)
		}},
		{"a refusal is told to the other side", "", func(m *managerPair) {
			m.ask()
			m.side[0].NextMAD(&o)
			m.side[1].Receive(m.now, cm.Path{Local: m.addr[1], Remote: m.addr[0]}, o.MAD[:])
			m.side[1].NextEvent(&e)
			m.check(m.side[1].Reject(m.now, e.ID, roce.RejConsumer, nil, []byte("no")))
			m.carry()
			if s := m.side[0].State(m.call[0]); s != cm.TimeWait {
				m.t.Errorf("the refused connection is %v", s)
			}
		}},
	} {
		m := newManagerPair(t)
		c.script(m)
		if got := m.run.result.Failure; c.want == "" && got != "" || c.want != "" && !(strings.Contains(got, "rule 24:") && strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, expected rule 24 and %q", c.name, got, c.want)
		}
	}
}
