package cm_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// The other side's and this side's IDs in these tests.
const (
	theirs = 0x55b561ac
	ours   = 0xf465766b
	tid    = 0x77
)

type putter interface {
	Put([]byte, uint64) (roce.MAD, error)
}

func mad(t testing.TB, m putter) []byte {
	t.Helper()
	b := make([]byte, roce.MADBytes)
	if _, err := m.Put(b, tid); err != nil {
		t.Fatal(err)
	}
	return b
}

// request is the captured REQ with a change.
func request(t testing.TB, change func(*roce.REQ)) []byte {
	t.Helper()
	var r roce.REQ
	if err := r.Decode(captured(t)["REQ"]); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&r)
	}
	return mad(t, &r)
}

func reply(t testing.TB, change func(*roce.REP)) []byte {
	t.Helper()
	var r roce.REP
	if err := r.Decode(captured(t)["REP"]); err != nil {
		t.Fatal(err)
	}
	r.LocalCommID, r.RemoteCommID = theirs, ours
	if change != nil {
		change(&r)
	}
	return mad(t, &r)
}

// passive returns a server in a state, its connection having the ID ours.
func passive(t testing.TB, s cm.State) *host {
	t.Helper()
	h := newHost(t, serverGUID, func(c *cm.Config) { c.Rand = words(0x100, ours, 0x999, 0x99a, 0x99b) })
	if err := h.Listen(service, 1); err != nil {
		t.Fatal(err)
	}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if s == cm.Idle {
		return h
	}
	h.Receive(0, toClient, request(t, nil))
	if s != cm.REQReceived {
		_, err := h.Accept(0, ours, serverEndpoint())
		step(err)
	}
	if s == cm.Established || s == cm.DREQSent || s == cm.TimeWait {
		h.Receive(0, toClient, mad(t, &roce.RTU{LocalCommID: theirs, RemoteCommID: ours}))
	}
	if s == cm.DREQSent || s == cm.TimeWait {
		step(h.Disconnect(0, ours, nil))
	}
	if s == cm.TimeWait {
		h.Receive(0, toClient, mad(t, &roce.DREP{LocalCommID: theirs, RemoteCommID: ours}))
	}
	h.settle(s)
	return h
}

// active returns a client in a state, its connection having the ID ours.
func active(t testing.TB, s cm.State) *host {
	t.Helper()
	h := newHost(t, clientGUID, func(c *cm.Config) { c.Rand = words(0x100, ours, 0x999, 0x99a, 0x99b) })
	if s == cm.Idle {
		return h
	}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.Connect(0, clientRequest())
	step(err)
	if s != cm.REQSent {
		h.Receive(0, toServer, reply(t, nil))
	}
	if s == cm.Established || s == cm.DREQSent || s == cm.TimeWait {
		step(h.Ready(0, ours, nil))
	}
	if s == cm.DREQSent || s == cm.TimeWait {
		step(h.Disconnect(0, ours, nil))
	}
	if s == cm.TimeWait {
		h.Receive(0, toServer, mad(t, &roce.DREP{LocalCommID: theirs, RemoteCommID: ours}))
	}
	h.settle(s)
	return h
}

func (h *host) settle(s cm.State) {
	h.t.Helper()
	h.drain()
	h.sent, h.events = nil, nil
	if got := h.State(ours); got != s {
		h.t.Fatalf("set up in state %v, want %v", got, s)
	}
}

// TestEveryMessageInEveryState is the table of IBA figures 127 to 130, with what
// this package adds: what a message does to the state, what is answered and what
// the application hears.
func TestEveryMessageInEveryState(t *testing.T) {
	const none = roce.Attribute(0)
	req := func(t testing.TB) []byte { return request(t, nil) }
	// Of the same ID, but not the same request.
	reqPSN := func(t testing.TB) []byte { return request(t, func(r *roce.REQ) { r.StartingPSN ^= 1 }) }
	reqService := func(t testing.TB) []byte { return request(t, func(r *roce.REQ) { r.ServiceID ^= 1 }) }
	rep := func(t testing.TB) []byte { return reply(t, nil) }
	rtu := func(t testing.TB) []byte { return mad(t, &roce.RTU{LocalCommID: theirs, RemoteCommID: ours}) }
	dreq := func(t testing.TB) []byte {
		return mad(t, &roce.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: 0x16})
	}
	dreqOther := func(t testing.TB) []byte { // for a queue pair that is another's
		return mad(t, &roce.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: 0x17})
	}
	drep := func(t testing.TB) []byte { return mad(t, &roce.DREP{LocalCommID: theirs, RemoteCommID: ours}) }
	rej := func(t testing.TB) []byte {
		return mad(t, &roce.REJ{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersNone, Reason: roce.RejConsumer})
	}
	mraREQ := func(t testing.TB) []byte {
		return mad(t, &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREQ, ServiceTimeout: 22})
	}
	mraREP := func(t testing.TB) []byte {
		return mad(t, &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREP, ServiceTimeout: 22})
	}
	for _, c := range []struct {
		name   string
		make   func(testing.TB, cm.State) *host
		in     cm.State
		msg    func(testing.TB) []byte
		to     cm.State
		answer roce.Attribute
		event  cm.EventType
	}{
		{"passive", passive, cm.Idle, req, cm.REQReceived, none, cm.EventRequest},
		{"passive", passive, cm.REQReceived, req, cm.REQReceived, roce.AttrMRA, 0},
		{"passive", passive, cm.REPSent, req, cm.REPSent, roce.AttrREP, 0},
		{"passive", passive, cm.REPSent, reqPSN, cm.REPSent, roce.AttrREJ, 0},
		{"passive", passive, cm.REPSent, reqService, cm.REPSent, roce.AttrREJ, 0},
		{"passive", passive, cm.Established, reqPSN, cm.Established, roce.AttrREP, 0},
		{"passive", passive, cm.Established, reqService, cm.Established, roce.AttrREJ, 0},
		{"passive", passive, cm.Established, dreqOther, cm.Established, none, 0},
		{"passive", passive, cm.REPSent, dreqOther, cm.REPSent, none, 0},
		{"passive", passive, cm.TimeWait, dreqOther, cm.TimeWait, none, 0},
		{"passive", passive, cm.Established, req, cm.Established, none, 0},
		{"passive", passive, cm.DREQSent, req, cm.DREQSent, none, 0},
		{"passive", passive, cm.TimeWait, req, cm.TimeWait, none, 0},

		{"passive", passive, cm.Idle, rtu, cm.Idle, roce.AttrREJ, 0},
		{"passive", passive, cm.REQReceived, rtu, cm.REQReceived, none, 0},
		{"passive", passive, cm.REPSent, rtu, cm.Established, none, cm.EventEstablished},
		{"passive", passive, cm.Established, rtu, cm.Established, none, 0},
		{"passive", passive, cm.DREQSent, rtu, cm.DREQSent, none, 0},
		{"passive", passive, cm.TimeWait, rtu, cm.TimeWait, none, 0},
		{"active", active, cm.REQSent, rtu, cm.REQSent, none, 0},
		{"active", active, cm.Established, rtu, cm.Established, none, 0},

		{"active", active, cm.Idle, rep, cm.Idle, roce.AttrREJ, 0},
		{"active", active, cm.REQSent, rep, cm.REPReceived, none, cm.EventReply},
		{"active", active, cm.REPReceived, rep, cm.REPReceived, roce.AttrMRA, 0},
		{"active", active, cm.Established, rep, cm.Established, roce.AttrRTU, 0},
		{"active", active, cm.DREQSent, rep, cm.DREQSent, none, 0},
		{"active", active, cm.TimeWait, rep, cm.TimeWait, roce.AttrREJ, 0},
		{"passive", passive, cm.REPSent, rep, cm.REPSent, none, 0},
		{"passive", passive, cm.Established, rep, cm.Established, none, 0},

		{"active", active, cm.Idle, dreq, cm.Idle, roce.AttrDREP, 0},
		{"active", active, cm.REQSent, dreq, cm.REQSent, none, 0},
		{"active", active, cm.REPReceived, dreq, cm.REPReceived, none, 0},
		{"active", active, cm.Established, dreq, cm.TimeWait, roce.AttrDREP, cm.EventDisconnected},
		{"active", active, cm.DREQSent, dreq, cm.TimeWait, roce.AttrDREP, cm.EventDisconnected},
		{"active", active, cm.TimeWait, dreq, cm.TimeWait, roce.AttrDREP, 0},
		{"passive", passive, cm.REPSent, dreq, cm.TimeWait, roce.AttrDREP, cm.EventDisconnected},
		{"passive", passive, cm.REQReceived, dreq, cm.REQReceived, none, 0},

		{"active", active, cm.Idle, drep, cm.Idle, none, 0},
		{"active", active, cm.Established, drep, cm.Established, none, 0},
		{"active", active, cm.DREQSent, drep, cm.TimeWait, none, cm.EventDisconnected},
		{"active", active, cm.TimeWait, drep, cm.TimeWait, none, 0},

		{"active", active, cm.Idle, rej, cm.Idle, none, 0},
		{"active", active, cm.REQSent, rej, cm.TimeWait, none, cm.EventRejected},
		{"active", active, cm.REPReceived, rej, cm.TimeWait, none, cm.EventRejected},
		{"active", active, cm.Established, rej, cm.TimeWait, none, cm.EventDisconnected},
		{"active", active, cm.DREQSent, rej, cm.TimeWait, none, cm.EventDisconnected},
		{"active", active, cm.TimeWait, rej, cm.TimeWait, none, 0},
		{"passive", passive, cm.REQReceived, rej, cm.TimeWait, none, cm.EventRejected},
		{"passive", passive, cm.REPSent, rej, cm.TimeWait, none, cm.EventRejected},
		{"passive", passive, cm.Established, rej, cm.TimeWait, none, cm.EventDisconnected},

		{"active", active, cm.Idle, mraREQ, cm.Idle, none, 0},
		{"active", active, cm.REQSent, mraREQ, cm.REQSent, none, 0},
		{"active", active, cm.REQSent, mraREP, cm.REQSent, none, 0},
		{"active", active, cm.Established, mraREQ, cm.Established, none, 0},
		{"passive", passive, cm.REPSent, mraREP, cm.REPSent, none, 0},
	} {
		h := c.make(t, c.in)
		path := toServer
		if c.name == "passive" {
			path = toClient
		}
		msg := c.msg(t)
		what := c.name + " " + c.in.String() + " " + roce.MAD(msg).Attribute().String()
		h.Receive(units.Second, path, msg)
		h.drain()
		if got := h.State(ours); got != c.to {
			t.Errorf("%s: state %v, want %v", what, got, c.to)
		}
		answer := none
		if len(h.sent) > 0 {
			answer = roce.MAD(h.sent[0].MAD[:]).Attribute()
		}
		if answer != c.answer || len(h.sent) > 1 {
			t.Errorf("%s: answered by %d messages, the first %v, want %v", what, len(h.sent), answer, c.answer)
		}
		var event cm.EventType
		if len(h.events) > 0 {
			event = h.events[0].Type
		}
		if event != c.event || len(h.events) > 1 {
			t.Errorf("%s: events %v, want %v", what, h.events, c.event)
		}
		if answer == roce.AttrREJ || answer == roce.AttrDREP {
			m := roce.MAD(h.sent[0].MAD[:])
			from := uint32(ours)
			if answer == roce.AttrREJ && roce.MAD(msg).Attribute() == roce.AttrREQ {
				from = 0 // who refuses a REQ makes no ID for it
			}
			if m.LocalCommID() != from || m.RemoteCommID() != theirs || m.TransactionID() != tid {
				t.Errorf("%s: answer from %#x to %#x of transaction %#x", what, m.LocalCommID(), m.RemoteCommID(), m.TransactionID())
			}
		}
		// From a stranger, or with his ID, the same message does nothing.
		if c.to != c.in && c.in != cm.Idle {
			h = c.make(t, c.in)
			h.Receive(units.Second, cm.Path{Local: path.Local, Remote: netip.MustParseAddr("10.77.0.66")}, msg)
			h.noMAD()
			h.noEvent()
			if h.State(ours) != c.in || h.Counters.WrongSource != 1 {
				t.Errorf("%s: a stranger's brought it to %v, %d counted", what, h.State(ours), h.Counters.WrongSource)
			}
			if c.in != cm.REQSent { // where the other side's ID is not known yet
				binary.BigEndian.PutUint32(msg[24:], theirs+1)
				h.Receive(units.Second, path, msg)
				h.noEvent()
				if h.State(ours) != c.in {
					t.Errorf("%s: one with a wrong ID brought it to %v", what, h.State(ours))
				}
			}
		}
	}
}

func TestRetries(t *testing.T) {
	// 4.096 us * 2^20 to answer, and twice 4.096 us * 2^18 under way.
	const every = 4096 * units.Nanosecond << 20 * 3 / 2
	for _, c := range []struct {
		name string
		h    *host
		what roce.Attribute
		last roce.Attribute
		end  cm.EventType
	}{
		{"REQ", active(t, cm.REQSent), roce.AttrREQ, roce.AttrREJ, cm.EventUnreachable},
		{"REP", passive(t, cm.REPSent), roce.AttrREP, roce.AttrREJ, cm.EventUnreachable},
		{"DREQ", active(t, cm.DREQSent), roce.AttrDREQ, 0, cm.EventDisconnected},
	} {
		now := units.Time(0)
		for i := range 15 {
			now += every
			if got := c.h.Deadline(); got != now {
				t.Fatalf("%s: deadline %d is %v, want %v", c.name, i, got, now)
			}
			c.h.Expire(now - 1)
			c.h.noMAD()
			c.h.Expire(now)
			if m := c.h.oneMAD(); m.Attribute() != c.what {
				t.Fatalf("%s: sent a %v again", c.name, m.Attribute())
			}
			c.h.noEvent()
		}
		c.h.Expire(now + every)
		c.h.event(c.end)
		if c.last == 0 {
			c.h.noMAD()
		} else {
			var r roce.REJ
			m := c.h.oneMAD()
			if err := r.Decode(m); err != nil {
				t.Fatal(err)
			}
			if r.Reason != roce.RejTimeout || r.InfoLength != 8 || r.Message != roce.AnswersNone {
				t.Errorf("%s: given up with %+v", c.name, r)
			}
		}
		if got := c.h.Counters.Retransmitted; got != 15 {
			t.Errorf("%s: %d retransmissions counted", c.name, got)
		}
		if s := c.h.State(ours); s != cm.TimeWait {
			t.Errorf("%s: state %v", c.name, s)
		}
		c.h.Expire(c.h.Deadline())
		c.h.event(cm.EventTimeWaitExit)
		if c.h.Connections() != 0 {
			t.Errorf("%s: the connection is still there", c.name)
		}
	}
}

// TestMRA: the wait that it asks for replaces the usual one, and the retries go on
// afterwards.
func TestMRA(t *testing.T) {
	h := active(t, cm.REQSent)
	h.Receive(units.Second, toServer, mad(t, &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREQ, ServiceTimeout: 23}))
	want := units.Second + 4096*units.Nanosecond<<23 + 2*(4096*units.Nanosecond<<18)
	if h.Deadline() != want {
		t.Errorf("deadline %v, want %v", h.Deadline(), want)
	}
	h.Expire(want)
	if m := h.oneMAD(); m.Attribute() != roce.AttrREQ {
		t.Errorf("sent a %v", m.Attribute())
	}
	// One for hours is held to 69 s.
	h.Receive(want, toServer, mad(t, &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREQ, ServiceTimeout: 31}))
	if h.Deadline() != want+69*units.Second {
		t.Errorf("deadline %v after an MRA of hours", h.Deadline()-want)
	}
	h.Receive(want, toServer, reply(t, nil))
	h.event(cm.EventReply)
}

func TestRequestsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*roce.REQ)
		reason roce.RejectReason
		info   string
	}{
		{"no listener", func(r *roce.REQ) { r.ServiceID++ }, roce.RejInvalidServiceID, ""},
		{"unreliable connection", func(r *roce.REQ) { r.TransportType = roce.TransportUC }, roce.RejInvalidTransport, ""},
		{"path MTU", func(r *roce.REQ) { r.PathMTU = 5 }, roce.RejInvalidMTU, "\x04"},
		{"no path MTU", func(r *roce.REQ) { r.PathMTU = 9 }, roce.RejInvalidMTU, "\x04"},
		{"another's GID", func(r *roce.REQ) { r.Primary.RemoteGID[15]++ }, roce.RejInvalidGID, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x4d\x00\x02"},
	} {
		h := newHost(t, serverGUID, func(c *cm.Config) { c.Rand, c.MTU = words(1), 2048 })
		if err := h.Listen(service, 1); err != nil {
			t.Fatal(err)
		}
		h.Receive(0, toClient, request(t, c.change))
		h.noEvent()
		var r roce.REJ
		m := h.oneMAD()
		if err := r.Decode(m); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.Reason != c.reason || r.Message != roce.AnswersREQ || r.RemoteCommID != theirs || string(r.Info[:r.InfoLength]) != c.info || m.TransactionID() != tid {
			t.Errorf("%s: %+v", c.name, r)
		}
		if h.Connections() != 0 {
			t.Errorf("%s: it left a connection", c.name)
		}
	}
}

func TestRequestsThatAreDropped(t *testing.T) {
	h := passive(t, cm.Idle)
	count := func(name string, n *uint64, path cm.Path, b []byte) {
		t.Helper()
		h.Receive(0, path, b)
		h.noMAD()
		h.noEvent()
		if *n != 1 {
			t.Errorf("%s: counted %d", name, *n)
		}
	}
	other := func(r *roce.REQ) { r.LocalCommID, r.LocalQPN = 5, 0x99 }
	count("queue pair 1", &h.Counters.BadField, toClient, request(t, func(r *roce.REQ) { other(r); r.LocalQPN = 1 }))
	count("another's address", &h.Counters.WrongSource, toClient, request(t, func(r *roce.REQ) { other(r); r.Primary.LocalGID[15]++ }))
	cut := request(t, nil)
	count("length", &h.Counters.Malformed[roce.BadMADLength], toClient, cut[:255])
	cut[1] = 3
	count("class", &h.Counters.Malformed[roce.NotCM], toClient, cut)
	if h.Connections() != 0 {
		t.Errorf("%d connections", h.Connections())
	}

	full := newHost(t, serverGUID, func(c *cm.Config) { c.Rand, c.MaxConnections = words(1, 2, 3), 1 })
	if err := full.Listen(service, 9); err != nil {
		t.Fatal(err)
	}
	full.Receive(0, toClient, request(t, nil))
	full.event(cm.EventRequest)
	full.Receive(0, toClient, request(t, other))
	full.noEvent()
	if _, err := full.Connect(0, cm.Request{Path: toClient, PathMTU: 256, Endpoint: cm.Endpoint{QPN: 7}}); !errors.Is(err, cm.ErrFull) || full.Counters.TableFull != 1 {
		t.Errorf("the table is full: %v, %d counted", err, full.Counters.TableFull)
	}
}

// TestBacklog: where requests fill a listener's queue, one from who fills it takes the place of his oldest, and one of
// another, who finds nobody above his share, is dropped; each is counted.
func TestBacklog(t *testing.T) {
	h := passive(t, cm.REQReceived) // by a queue of one
	from := func(a netip.Addr, id, qpn uint32) {
		t.Helper()
		h.Receive(0, cm.Path{Local: toClient.Local, Remote: a}, request(t, func(r *roce.REQ) {
			r.LocalCommID, r.LocalQPN, r.Primary.LocalGID = id, qpn, roce.GIDOf(a)
		}))
	}
	from(netip.MustParseAddr("10.77.0.9"), 9, 0x99)
	h.noMAD()
	h.noEvent()
	if h.Counters.Backlog != 1 || h.State(ours) != cm.REQReceived {
		t.Errorf("another's request: %d counted, the one that waits is %v", h.Counters.Backlog, h.State(ours))
	}
	from(toClient.Remote, 10, 0x9a)
	h.drain()
	if h.Counters.Backlog != 2 || h.State(ours) == cm.REQReceived || h.Connections() != 1 {
		t.Errorf("his own: %d counted, the one that waited is %v, %d connections", h.Counters.Backlog, h.State(ours), h.Connections())
	}
}

// TestRejectedAgain: who missed the REJ gets it again, with its private data.
func TestRejectedAgain(t *testing.T) {
	h := passive(t, cm.REQReceived)
	if err := h.Reject(0, ours, roce.RejConsumer, nil, []byte("no")); err != nil {
		t.Fatal(err)
	}
	first := h.oneMAD()
	h.Receive(units.Second, toClient, request(t, nil))
	sameMAD(t, "REJ to a REQ", h.oneMAD(), first, true)

	h = active(t, cm.REPReceived)
	if err := h.Reject(0, ours, roce.RejConsumer, nil, []byte("no")); err != nil {
		t.Fatal(err)
	}
	first = h.oneMAD()
	h.Receive(units.Second, toServer, reply(t, nil))
	sameMAD(t, "REJ to a REP", h.oneMAD(), first, true)
	h.noEvent()

	// A server that has given up its REP says so to an RTU that comes too late.
	h = passive(t, cm.REPSent)
	for h.State(ours) == cm.REPSent {
		h.Expire(h.Deadline())
	}
	h.drain()
	want := h.sent[len(h.sent)-1].MAD
	h.sent = nil
	h.Receive(h.Deadline()-1, toClient, mad(t, &roce.RTU{LocalCommID: theirs, RemoteCommID: ours}))
	sameMAD(t, "REJ to an RTU", h.oneMAD(), want[:], true)
}

// TestTimeoutByName: a client that gives up does not know the server's ID, and
// names itself by device and ID.
func TestTimeoutByName(t *testing.T) {
	h := passive(t, cm.REQReceived)
	r := roce.REJ{LocalCommID: theirs, Message: roce.AnswersNone, Reason: roce.RejTimeout, InfoLength: 8}
	r.Info = binary.BigEndian.AppendUint64(nil, clientGUID+1)
	h.Receive(0, toClient, mad(t, &r))
	h.noEvent()
	r.Info = binary.BigEndian.AppendUint64(nil, clientGUID)
	h.Receive(0, toClient, mad(t, &r))
	if e := h.event(cm.EventRejected); e.Reason != roce.RejTimeout || e.ID != ours {
		t.Errorf("event %+v", e)
	}
	if _, err := h.Accept(0, ours, serverEndpoint()); !errors.Is(err, cm.ErrState) {
		t.Errorf("accepted though the client has gone: %v", err)
	}
}

// TestStale: a device that has restarted uses a queue pair, or an ID, that an old
// connection has. The new one is refused and the old one released.
func TestStale(t *testing.T) {
	for name, change := range map[string]func(*roce.REQ){
		"queue pair": func(r *roce.REQ) { r.LocalCommID++ },
		"ID":         func(r *roce.REQ) { r.LocalQPN++ },
	} {
		h := passive(t, cm.Established)
		h.Receive(0, toClient, request(t, change))
		if m := h.oneMAD(); m.Attribute() != roce.AttrREP {
			t.Fatalf("%s: a %v asks whether the connection stands", name, m.Attribute())
		}
		h.noEvent()
		if d := h.Deadline(); d != units.Second {
			t.Fatalf("%s: the peer has %v to answer", name, d)
		}
		h.Expire(units.Second)
		if e := h.event(cm.EventDisconnected); e.ID != ours || e.Reason != roce.RejStaleConnection {
			t.Errorf("%s: %+v", name, e)
		}
		if len(h.sent) != 2 {
			t.Fatalf("%s: %d messages", name, len(h.sent))
		}
		var r roce.REJ
		if err := r.Decode(h.sent[0].MAD[:]); err != nil || r.Reason != roce.RejStaleConnection {
			t.Errorf("%s: %v %+v", name, err, r)
		}
		if m := roce.MAD(h.sent[1].MAD[:]); m.Attribute() != roce.AttrDREQ {
			t.Errorf("%s: a %v followed", name, m.Attribute())
		}
		h.sent = nil
		h.Receive(0, toClient, mad(t, &roce.DREP{LocalCommID: theirs, RemoteCommID: ours}))
		h.noEvent() // it has been told
		if h.State(ours) != cm.TimeWait {
			t.Errorf("%s: state %v", name, h.State(ours))
		}
	}
}

// TestForgedRestart: a REQ that somebody sends in the peer's name leaves a connection
// alone that the peer still has.
func TestForgedRestart(t *testing.T) {
	server, client := passive(t, cm.Established), active(t, cm.Established)
	server.Receive(0, toClient, request(t, func(r *roce.REQ) { r.LocalCommID++ }))
	rep := server.oneMAD()
	// A real client's answer to a REP that comes again, whose IDs are the server's.
	client.Receive(0, toServer, reply(t, nil))
	if m := client.oneMAD(); m.Attribute() != roce.AttrRTU {
		t.Fatalf("a client answers the REP by %v", m.Attribute())
	}
	for range 3 { // however often it comes
		server.Receive(1, toClient, request(t, func(r *roce.REQ) { r.LocalCommID += 2 }))
	}
	server.noMAD()
	server.Receive(units.Millisecond, toClient, mad(t, &roce.RTU{LocalCommID: rep.RemoteCommID(), RemoteCommID: rep.LocalCommID()}))
	server.Expire(100 * units.Second)
	server.noMAD()
	server.noEvent()
	if server.State(ours) != cm.Established || server.Counters.Forged != 1 || server.Counters.Probed != 1 {
		t.Errorf("state %v, %+v", server.State(ours), server.Counters)
	}
	// One who does not know the IDs can't answer in its place, nor for a service that
	// nobody listens on.
	server.Receive(0, toClient, request(t, func(r *roce.REQ) { r.LocalCommID++; r.ServiceID++ }))
	if m := server.oneMAD(); m.Attribute() != roce.AttrREJ {
		t.Errorf("without a listener: %v", m.Attribute())
	}
	if server.State(ours) != cm.Established {
		t.Errorf("state %v", server.State(ours))
	}
}

// A connection that is released while its peer is probed ends, though no answer comes: the REQ that
// contradicts it is forgotten, and comes again if it is honest.
func TestReleasedWhileProbed(t *testing.T) {
	server := passive(t, cm.Established)
	server.Receive(0, toClient, request(t, func(r *roce.REQ) { r.LocalCommID++ }))
	server.oneMAD() // the REP, once more
	if err := server.Disconnect(1, ours, nil); err != nil {
		t.Fatal(err)
	}
	if m := server.oneMAD(); m.Attribute() != roce.AttrDREQ {
		t.Fatalf("it is released by %v", m.Attribute())
	}
	var o cm.Outgoing
	for range 100 {
		if server.Deadline() == units.Never {
			break
		}
		server.Expire(server.Deadline())
		for server.NextMAD(&o) {
			if m := roce.MAD(o.MAD[:]); m.Attribute() != roce.AttrDREQ {
				t.Errorf("a %v is sent", m.Attribute())
			}
		}
	}
	if server.Connections() != 0 {
		t.Errorf("it is in state %v for ever", server.State(ours))
	}
}

// flood sends n REQs from as many queue pairs of an address, and returns when.
func (h *host) flood(now units.Time, from cm.Path, first, n uint32) {
	h.t.Helper()
	b := request(h.t, nil)
	var r roce.REQ
	if err := r.Decode(b); err != nil {
		h.t.Fatal(err)
	}
	r.Primary.LocalGID = roce.GIDOf(from.Remote)
	for i := range n {
		r.LocalCommID, r.LocalQPN = first+i, 100+(first+i)%(1<<23)
		h.Receive(now, from, mad(h.t, &r))
	}
}

// requested returns the connection of the newest request since the last call, 0 for none.
func (h *host) requested() (id uint32) {
	h.drain()
	for _, e := range h.events {
		if e.Type == cm.EventRequest {
			id = e.ID
		}
	}
	h.sent, h.events = nil, nil
	return id
}

// TestFloodOfRequests: requests that nobody means keep nobody out. An honest client's
// has its place, whoever floods, and what the flood leaves is bounded.
func TestFloodOfRequests(t *testing.T) {
	elsewhere := cm.Path{Local: serverAddr, Remote: netip.MustParseAddr("10.77.0.99")}
	server := func(most int) *host {
		h := newHost(t, serverGUID, func(c *cm.Config) { c.Rand, c.MaxConnections = seeded(1), most })
		if err := h.Listen(service, 8); err != nil {
			t.Fatal(err)
		}
		return h
	}
	waits := func(h *host, id uint32) bool { h.drain(); return h.State(id) == cm.REQReceived }

	h := server(100)
	h.Receive(0, toClient, request(t, nil))
	honest := h.event(cm.EventRequest).ID
	h.flood(1, elsewhere, 1000, 5000)
	if !waits(h, honest) || h.Connections() > 8 {
		t.Errorf("another address' flood: the request waits: %v; %d connections", waits(h, honest), h.Connections())
	}

	// In its own name: the oldest goes, and it comes in again when it tries again.
	h = server(100)
	h.Receive(0, toClient, request(t, nil))
	honest = h.event(cm.EventRequest).ID
	h.flood(1, toClient, 1000, 5000)
	if waits(h, honest) || h.Connections() > 8 {
		t.Errorf("a flood in its name: %d connections", h.Connections())
	}
	h.events = nil
	h.Receive(2, toClient, request(t, nil))
	if again := h.event(cm.EventUnreachable); again.ID == honest {
		t.Error("the newest went")
	}

	// The application rejects each: the table has room for later requests.
	h = server(100)
	for i := range uint32(1000) {
		h.flood(units.Time(i), elsewhere, 1000+i, 1)
		if err := h.Reject(units.Time(i), h.requested(), roce.RejConsumer, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	h.Receive(2000, toClient, request(t, nil))
	if h.requested() == 0 {
		t.Error("after 1000 rejected requests no more come in")
	}

	// It accepts each, and none is followed by an RTU: the honest one is served all
	// the same, and after its own patience the server has forgotten the flood.
	h = server(65536)
	now := units.Time(0)
	accepted := 0
	for i := range uint32(3000) {
		now += units.Second / 950
		h.flood(now, elsewhere, 1000+i, 1)
		if _, err := h.Accept(now, h.requested(), serverEndpoint()); err == nil {
			accepted++
		}
		h.Expire(now)
	}
	h.Receive(now, toClient, request(t, nil))
	if _, err := h.Accept(now, h.requested(), serverEndpoint()); err != nil {
		t.Errorf("the honest one, after %d of the flood: %v", accepted, err)
	}
	if h.Connections() > 1024+8 {
		t.Errorf("%d connections", h.Connections())
	}
	for h.Deadline() != units.Never {
		now = h.Deadline()
		h.Expire(now)
	}
	if h.drain(); h.Connections() != 0 || now > 5*60*units.Second {
		t.Errorf("%d connections are left after %v", h.Connections(), now)
	}
}

// TestPatience: how long a REP waits for its RTU is the server's to say.
func TestPatience(t *testing.T) {
	h := newHost(t, serverGUID, func(c *cm.Config) {
		c.Rand, c.LocalTimeout, c.RemoteTimeout, c.PacketLifetime = seeded(1), 18, 18, 13
	})
	if err := h.Listen(service, 1); err != nil {
		t.Fatal(err)
	}
	h.Receive(0, toClient, request(t, func(r *roce.REQ) { r.LocalCMTimeout, r.MaxCMRetries, r.Primary.LocalAckTimeout = 31, 15, 31 }))
	if _, err := h.Accept(0, h.event(cm.EventRequest).ID, serverEndpoint()); err != nil {
		t.Fatal(err)
	}
	for h.drain(); len(h.events) == 0; h.drain() {
		now := h.Deadline()
		if now > 20*units.Second {
			t.Fatalf("it still waits after %v", now)
		}
		h.Expire(now)
	}
	h.event(cm.EventUnreachable)
}

// TestThousandAtOnce: a thousand clients of one address that ask within a second are
// all served.
func TestThousandAtOnce(t *testing.T) {
	const n = 1000
	h := newHost(t, serverGUID, func(c *cm.Config) { c.Rand = seeded(1) })
	if err := h.Listen(service, 128); err != nil {
		t.Fatal(err)
	}
	now := units.Time(0)
	done := map[uint32]bool{}
	for round := 0; len(done) < n; round++ {
		if round == 16 {
			t.Fatalf("%d of %d after the clients' retries", len(done), n)
		}
		for i := range uint32(n) {
			if done[i] {
				continue
			}
			h.flood(now, toClient, 1000+i, 1)
			// The application takes a request up every other millisecond, the client
			// answers the REP a round trip later.
			if now += units.Millisecond; i%2 == 1 {
				continue
			}
			h.drain()
			for len(h.events) > 0 {
				e := h.events[0]
				h.events = h.events[1:]
				if e.Type != cm.EventRequest || h.State(e.ID) != cm.REQReceived {
					continue
				}
				if _, err := h.Accept(now, e.ID, serverEndpoint()); err != nil {
					t.Fatal(err)
				}
				h.drain()
				rep := roce.MAD(h.sent[len(h.sent)-1].MAD[:])
				h.Receive(now, toClient, mad(t, &roce.RTU{LocalCommID: rep.RemoteCommID(), RemoteCommID: rep.LocalCommID()}))
				done[rep.RemoteCommID()-1000] = true
				break
			}
			h.sent = nil
		}
		now += 4 * units.Second
	}
}

func TestNegotiation(t *testing.T) {
	h := passive(t, cm.Idle)
	h.Receive(0, toClient, request(t, func(r *roce.REQ) {
		r.InitiatorDepth, r.ResponderResources, r.RNRRetryCount, r.RetryCount, r.FlowControl = 8, 3, 2, 5, true
		r.Primary.LocalAckTimeout = 0
	}))
	e := h.event(cm.EventRequest)
	ep := serverEndpoint()
	ep.ResponderResources, ep.InitiatorDepth, ep.FlowControl, ep.SRQ, ep.RNRRetryCount = 4, 9, true, true, 1
	offer, err := h.Offer(e.ID, ep)
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Accept(0, e.ID, ep)
	if err != nil || p != offer {
		t.Fatalf("accepted with %+v, offered %+v, %v", p, offer, err)
	}
	if p.MaxDestRdAtomic != 4 || p.MaxRdAtomic != 3 || p.RNRRetryCount != 2 || p.RetryCount != 5 || !p.FlowControl || p.Timeout != 19 {
		t.Errorf("server %+v", p)
	}
	var r roce.REP
	m := h.oneMAD()
	if err := r.Decode(m); err != nil {
		t.Fatal(err)
	}
	if r.ResponderResources != 4 || r.InitiatorDepth != 3 || !r.FlowControl || !r.SRQ || r.RNRRetryCount != 1 || r.TargetAckDelay != 15 {
		t.Errorf("REP %+v", r)
	}

	h = active(t, cm.REQSent)
	h.Receive(0, toServer, reply(t, func(r *roce.REP) {
		r.ResponderResources, r.InitiatorDepth, r.TargetAckDelay, r.RNRRetryCount = 0, 200, 25, 1
	}))
	p = h.event(cm.EventReply).Parameters
	if p.MaxRdAtomic != 0 || p.MaxDestRdAtomic != 1 || p.Timeout != 25 || p.RNRRetryCount != 1 {
		t.Errorf("client %+v", p)
	}
}

func TestFirstPacketEstablishes(t *testing.T) {
	h := passive(t, cm.REPSent)
	if err := h.Established(0, ours); err != nil {
		t.Fatal(err)
	}
	h.event(cm.EventEstablished)
	h.Receive(0, toClient, mad(t, &roce.RTU{LocalCommID: theirs, RemoteCommID: ours}))
	h.noEvent()
	if h.Deadline() != units.Never {
		t.Errorf("the REP would still come again")
	}
	if err := h.Established(0, ours); !errors.Is(err, cm.ErrState) {
		t.Errorf("twice: %v", err)
	}
}

func TestBadCalls(t *testing.T) {
	h := active(t, cm.Established)
	for name, err := range map[string]error{
		"ready":       h.Ready(0, ours, nil),
		"reject":      h.Reject(0, ours, roce.RejConsumer, nil, nil),
		"established": h.Established(0, ours),
		"unknown ID":  h.Disconnect(0, 1, nil),
	} {
		if !errors.Is(err, cm.ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*cm.Request){
		"QPN":          func(r *cm.Request) { r.QPN = 1 },
		"PSN":          func(r *cm.Request) { r.StartingPSN = 1 << 24 },
		"RNR retries":  func(r *cm.Request) { r.RNRRetryCount = 8 },
		"retries":      func(r *cm.Request) { r.RetryCount = 8 },
		"private data": func(r *cm.Request) { r.Private = make([]byte, 93) },
		"MTU":          func(r *cm.Request) { r.PathMTU = 1000 },
		"path":         func(r *cm.Request) { r.Path.Remote = netip.IPv6Loopback() },
		"flow label":   func(r *cm.Request) { r.FlowLabel = 1 << 20 },
		"SL":           func(r *cm.Request) { r.SL = 16 },
	} {
		r := clientRequest()
		change(&r)
		if _, err := h.Connect(0, r); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
	if h.Connections() != 1 {
		t.Errorf("%d connections are left of those that failed", h.Connections()-1)
	}
	if err := h.Disconnect(0, ours, make([]byte, roce.DREQPrivateBytes+1)); err == nil || h.State(ours) != cm.Established {
		t.Errorf("disconnected with too much private data")
	}
	cfg := cm.DefaultConfig()
	for name, change := range map[string]func(*cm.Config){
		"Rand":           func(c *cm.Config) { c.Rand = nil },
		"AckDelay":       func(c *cm.Config) { c.AckDelay = 32 },
		"MaxRetries":     func(c *cm.Config) { c.MaxRetries = 16 },
		"MTU":            func(c *cm.Config) { c.MTU = 1500 },
		"MaxConnections": func(c *cm.Config) { c.MaxConnections = 0 },
		"short Rand":     func(c *cm.Config) { c.Rand = words() },
	} {
		c := cfg
		c.Rand = words(1, 2)
		change(&c)
		if _, err := cm.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestAbandon: Disconnect before there is a connection.
func TestAbandon(t *testing.T) {
	for _, c := range []struct {
		h       *host
		reason  roce.RejectReason
		message uint8
	}{
		{active(t, cm.REQSent), roce.RejTimeout, roce.AnswersNone},
		{active(t, cm.REPReceived), roce.RejConsumer, roce.AnswersREP},
		{passive(t, cm.REQReceived), roce.RejConsumer, roce.AnswersREQ},
	} {
		if err := c.h.Disconnect(0, ours, nil); err != nil {
			t.Fatal(err)
		}
		var r roce.REJ
		m := c.h.oneMAD()
		if err := r.Decode(m); err != nil || r.Reason != c.reason || r.Message != c.message {
			t.Errorf("%v: %+v", err, r)
		}
		c.h.noEvent()
		if err := c.h.Disconnect(0, ours, nil); err != nil {
			t.Errorf("again: %v", err)
		}
		c.h.noMAD()
	}
}

// Each setting out of its range is named, with what it takes.
func TestConfigRanges(t *testing.T) {
	for want, change := range map[string]func(*cm.Config){
		"":                                   func(*cm.Config) {},
		"cm: AckDelay is 32: choose 0 to 31": func(c *cm.Config) { c.AckDelay = 32 },
		"cm: LocalTimeout is 255: choose 0 to 31":                       func(c *cm.Config) { c.LocalTimeout = 255 },
		"cm: MaxRetries is 16: choose 0 to 15":                          func(c *cm.Config) { c.MaxRetries = 16 },
		"cm: MTU is 1000: choose 256, 512, 1024, 2048 or 4096":          func(c *cm.Config) { c.MTU = 1000 },
		"cm: MaxConnections is 0: choose 1 or more connections":         func(c *cm.Config) { c.MaxConnections = 0 },
		"cm: Rand is nil, expected crypto/rand.Reader outside of tests": func(c *cm.Config) { c.Rand = nil },
	} {
		c := cm.DefaultConfig()
		c.Rand = strings.NewReader("")
		change(&c)
		got := ""
		if err := c.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
