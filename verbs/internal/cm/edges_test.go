package cm_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// A datagram between addresses of two families, or from none, is not looked at.
func TestPathsThatCantBe(t *testing.T) {
	h := passive(t, cm.Idle)
	for i, p := range []cm.Path{
		{Local: serverAddr, Remote: netip.IPv6Loopback()}, {Local: serverAddr}, {Remote: clientAddr}, {Local: netip.IPv6Loopback(), Remote: clientAddr},
	} {
		h.Receive(0, p, request(t, nil))
		h.noMAD()
		h.noEvent()
		if got := h.Counters; got.WrongSource != uint64(i+1) || got.Received != [roce.NumAttributes]uint64{} {
			t.Errorf("%v: %+v", p, got)
		}
	}
	mapped := cm.Path{Local: netip.AddrFrom16(serverAddr.As16()), Remote: netip.AddrFrom16(clientAddr.As16()).WithZone("eth0")}
	h.Receive(0, mapped, request(t, nil))
	if e := h.event(cm.EventRequest); e.Parameters.Path != toClient {
		t.Errorf("mapped addresses give the path %v", e.Parameters.Path)
	}
}

// A REP that names a queue pair that none can be is as if it had not come.
func TestReplyFromAQueuePairOfTheManagement(t *testing.T) {
	h := active(t, cm.REQSent)
	due := h.Deadline()
	for qpn := range uint32(2) {
		h.Receive(0, toServer, reply(t, func(r *roce.REP) { r.LocalQPN = qpn }))
		h.noMAD()
		h.noEvent()
		if h.State(ours) != cm.REQSent || h.Deadline() != due || h.Counters.BadField != uint64(qpn+1) {
			t.Errorf("queue pair %d: in %v, %+v", qpn, h.State(ours), h.Counters)
		}
	}
	h.Receive(0, toServer, reply(t, func(r *roce.REP) { r.LocalQPN = 2 }))
	h.event(cm.EventReply)
}

// A REP from a queue pair that an older connection still has says that the peer has lost that
// one: the new one is rejected as stale, the old one released (IBA 12.9.8.3.1).
func TestReplyForAQueuePairInUse(t *testing.T) {
	h := active(t, cm.Established)
	r := clientRequest()
	r.QPN = 0x17
	id, err := h.Connect(0, r)
	if err != nil || id == ours {
		t.Fatal(id, err)
	}
	h.oneMAD()
	h.Receive(1, toServer, reply(t, func(r *roce.REP) { r.LocalCommID, r.RemoteCommID = theirs+1, id }))
	h.drain()
	if len(h.sent) != 2 || len(h.events) != 2 || h.Counters.Stale != 1 {
		t.Fatalf("%d datagrams, events %+v, %+v", len(h.sent), h.events, h.Counters)
	}
	var rej roce.REJ
	if err := rej.Decode(h.sent[0].MAD[:]); err != nil || rej.Reason != roce.RejStaleConnection || rej.Message != roce.AnswersREP || rej.LocalCommID != id || rej.RemoteCommID != theirs+1 {
		t.Errorf("%v, %+v", err, rej)
	}
	var dreq roce.DREQ
	if err := dreq.Decode(h.sent[1].MAD[:]); err != nil || dreq.LocalCommID != ours || dreq.RemoteCommID != theirs {
		t.Errorf("%v, %+v", err, dreq)
	}
	h.sent = nil
	if e := h.event(cm.EventRejected); e.ID != id || e.Reason != roce.RejStaleConnection || h.State(id) != cm.TimeWait {
		t.Errorf("%+v, in %v", e, h.State(id))
	}
	if e := h.event(cm.EventDisconnected); e.ID != ours || e.Reason != roce.RejStaleConnection || h.State(ours) != cm.DREQSent {
		t.Errorf("%+v, in %v", e, h.State(ours))
	}
}

// A service ID is one listener's; who asks for one of nobody's is told so.
func TestListeners(t *testing.T) {
	h := passive(t, cm.Idle)
	if err := h.Listen(service, 1); !errors.Is(err, cm.ErrInUse) || !h.Listening(service) || h.Listening(service+1) {
		t.Errorf("a second listener: %v", err)
	}
	h.Unlisten(service)
	if h.Listening(service) {
		t.Error("it still listens")
	}
	h.Receive(0, toClient, request(t, nil))
	var r roce.REJ
	m := h.oneMAD()
	if err := r.Decode(m); err != nil || r.Reason != roce.RejInvalidServiceID || h.Counters.NoListener != 1 || h.Connections() != 0 {
		t.Errorf("%v, %+v, %+v", err, r, h.Counters)
	}
	if err := h.Listen(service, -1); err != nil {
		t.Errorf("again: %v", err)
	}
	h.Receive(0, toClient, request(t, nil))
	h.event(cm.EventRequest)
}

// What does not fit into its message is refused, and leaves the connection as it was.
func TestTooMuchPrivateData(t *testing.T) {
	too := func(n int) []byte { return make([]byte, n+1) }
	for _, c := range []struct {
		name string
		h    *host
		call func(h *host, private []byte) error
		most int
	}{
		{"ready", active(t, cm.REPReceived), func(h *host, b []byte) error { return h.Ready(0, ours, b) }, roce.RTUPrivateBytes},
		{"reject", passive(t, cm.REQReceived), func(h *host, b []byte) error { return h.Reject(0, ours, roce.RejConsumer, nil, b) }, roce.REJPrivateBytes},
		{"reject, information", active(t, cm.REPReceived), func(h *host, b []byte) error { return h.Reject(0, ours, roce.RejConsumer, b, nil) }, roce.REJInfoBytes},
		{"accept", passive(t, cm.REQReceived), func(h *host, b []byte) error {
			e := serverEndpoint()
			e.Private = b
			_, err := h.Accept(0, ours, e)
			return err
		}, roce.REPPrivateBytes},
		{"disconnect", active(t, cm.Established), func(h *host, b []byte) error { return h.Disconnect(0, ours, b) }, roce.DREQPrivateBytes},
	} {
		state, due := c.h.State(ours), c.h.Deadline()
		if err := c.call(c.h, too(c.most)); err == nil || c.h.State(ours) != state || c.h.Deadline() != due {
			t.Errorf("%s: %v, in %v instead of %v", c.name, err, c.h.State(ours), state)
		}
		c.h.noMAD()
		if err := c.call(c.h, too(c.most-1)); err != nil || c.h.State(ours) == state {
			t.Errorf("%s: as much as fits: %v", c.name, err)
		}
		c.h.oneMAD()
	}
}

// Calls for what is not there, or can't be accepted, say so.
func TestCallsThatDoNotFit(t *testing.T) {
	h := passive(t, cm.REQReceived)
	for name, change := range map[string]func(*cm.Endpoint){
		"queue pair 1":  func(e *cm.Endpoint) { e.QPN = 1 },
		"25 bits":       func(e *cm.Endpoint) { e.QPN = 1 << 24 },
		"PSN":           func(e *cm.Endpoint) { e.StartingPSN = 1 << 24 },
		"8 RNR retries": func(e *cm.Endpoint) { e.RNRRetryCount = 8 },
	} {
		e := serverEndpoint()
		change(&e)
		if _, err := h.Accept(0, ours, e); err == nil || h.State(ours) != cm.REQReceived {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := serverEndpoint()
	_, offered := h.Offer(1, e)
	_, accepted := h.Accept(0, 1, e)
	_, sent := passive(t, cm.REPSent).Offer(ours, e)
	for name, err := range map[string]error{"offer": offered, "accept": accepted, "hold": h.Hold(0, 1), "offer when sent": sent} {
		if !errors.Is(err, cm.ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.noMAD()
	e.QPN, e.StartingPSN, e.RNRRetryCount = 1<<24-1, 1<<24-1, 7
	if _, err := h.Accept(0, ours, e); err != nil {
		t.Errorf("the largest: %v", err)
	}
}

// Numbers that are 0, or another connection's, are drawn again; without a source there is no
// connection.
func TestIDsAreNobodyElses(t *testing.T) {
	h := newHost(t, clientGUID, func(c *cm.Config) { c.Rand = words(0x100, 0, 5, 5, 0, 6) })
	for _, want := range []uint32{5, 6} {
		if id, err := h.Connect(0, clientRequest()); err != nil || id != want {
			t.Errorf("%d, %v, want %d", id, err, want)
		}
	}
	if _, err := h.Connect(0, clientRequest()); err == nil || h.Connections() != 2 {
		t.Errorf("%d connections, %v", h.Connections(), err)
	}
	if _, err := h.LookUp(0, cm.LookUp{Path: toServer}); err == nil || h.Connections() != 2 {
		t.Errorf("%d connections, %v", h.Connections(), err)
	}
}

// Requests that the application holds have their place for a second, whoever sent them: what
// comes in between is dropped, and an honest peer sends it again.
func TestHeldRequests(t *testing.T) {
	const most, certain = 1024, units.Second
	h := newHost(t, serverGUID, func(c *cm.Config) { c.Rand = seeded(1) })
	if err := h.Listen(service, 8); err != nil {
		t.Fatal(err)
	}
	hold := func(now units.Time, i uint32) (id uint32, err error) {
		t.Helper()
		h.flood(now, toClient, 1000+i, 1)
		id = h.requested()
		return id, h.Hold(now, id)
	}
	first := uint32(0)
	for i := range uint32(most) {
		id, err := hold(0, i)
		if err == nil {
			err = h.Hold(0, id) // once more: it has its place
		}
		if err != nil {
			t.Fatal(i, err)
		}
		if first == 0 {
			first = id
		}
	}
	h.drain()
	h.events = nil
	before := h.Counters.Backlog
	for _, now := range []units.Time{0, certain - 1} {
		id, err := hold(now, most)
		if !errors.Is(err, cm.ErrFull) || h.State(id) != cm.Idle || h.State(first) != cm.REQReceived || h.Connections() != most {
			t.Errorf("at %v: %v, the new one is %v, the first %v, %d connections", now, err, h.State(id), h.State(first), h.Connections())
		}
		h.drain()
		if len(h.events) != 1 || h.events[0].Type != cm.EventTimeWaitExit || h.events[0].ID != id {
			t.Errorf("at %v: events %+v", now, h.events)
		}
		h.events = nil
	}
	h.flood(certain-1, toClient, 5000, 1)
	id := h.requested()
	if _, err := h.Accept(certain-1, id, serverEndpoint()); !errors.Is(err, cm.ErrFull) {
		t.Errorf("accepted: %v", err)
	}
	h.drain()
	h.events, h.sent = nil, nil
	id, err := hold(certain, most)
	if err != nil || h.State(id) != cm.REQReceived || h.State(first) != cm.Idle || h.Connections() != most {
		t.Errorf("after a second: %v, the new one is %v, the first %v, %d connections", err, h.State(id), h.State(first), h.Connections())
	}
	if got := h.Counters.Backlog - before; got != 4 {
		t.Errorf("%d are counted as dropped, want 4", got)
	}
}

// A request that the application leaves alone is dropped when the peer was told that it would
// be, and each duplicate gives it as long again.
func TestRequestsThatWait(t *testing.T) {
	const patience = 4096 * units.Nanosecond << 20 // 4.3 s
	h := newHost(t, serverGUID, func(c *cm.Config) { c.Rand, c.ServiceTimeout = words(0x100, ours), 20 })
	if err := h.Listen(service, 1); err != nil {
		t.Fatal(err)
	}
	h.Receive(0, toClient, request(t, nil))
	h.event(cm.EventRequest)
	h.Receive(units.Second, toClient, request(t, nil))
	var r roce.MRA
	m := h.oneMAD()
	if err := r.Decode(m); err != nil || r.ServiceTimeout != 20 || r.Message != roce.AnswersREQ || r.LocalCommID != ours || r.RemoteCommID != theirs {
		t.Errorf("%v, %+v", err, r)
	}
	h.Expire(patience + units.Second - 1)
	h.noEvent()
	h.Expire(patience + units.Second)
	h.event(cm.EventUnreachable)
	h.event(cm.EventTimeWaitExit)
	h.noMAD()
}

// A message with a connection's IDs from another address is counted, and does nothing.
func TestOtherAddresses(t *testing.T) {
	stranger := cm.Path{Local: serverAddr, Remote: netip.MustParseAddr("10.77.0.9")}
	for _, state := range []cm.State{cm.REPSent, cm.Established, cm.DREQSent} {
		for name, m := range map[string]putter{
			"RTU":  &roce.RTU{LocalCommID: theirs, RemoteCommID: ours},
			"MRA":  &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREP, ServiceTimeout: 20},
			"REJ":  &roce.REJ{LocalCommID: theirs, RemoteCommID: ours, Reason: roce.RejConsumer},
			"DREQ": &roce.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: 0x16},
			"DREP": &roce.DREP{LocalCommID: theirs, RemoteCommID: ours},
		} {
			h := passive(t, state)
			due := h.Deadline()
			h.Receive(1, stranger, mad(t, m))
			h.noMAD()
			h.noEvent()
			if h.State(ours) != state || h.Deadline() != due || h.Counters.WrongSource != 1 {
				t.Errorf("%s in %v: now %v, %+v", name, state, h.State(ours), h.Counters)
			}
		}
	}
}

// Each message counts as what it is to the state of its connection: news, which counts as
// nothing, a duplicate, one for no connection, one that the state has no use for, or one with a
// field that can't be.
func TestWhatMessagesCountAs(t *testing.T) {
	const news, duplicate, unmatched, wrongState, badField = "news", "duplicate", "unmatched", "wrong state", "bad field"
	type states = map[cm.State]string
	ends := []cm.State{cm.Idle, cm.REQSent, cm.REPReceived, cm.REQReceived, cm.REPSent, cm.Established, cm.DREQSent, cm.TimeWait}
	for name, c := range map[string]struct {
		msg             func(t *testing.T) []byte
		active, passive states // wrong state, if not said otherwise; unmatched in Idle
	}{
		"RTU": {func(t *testing.T) []byte { return mad(t, &roce.RTU{LocalCommID: theirs, RemoteCommID: ours}) },
			states{}, states{cm.REPSent: news, cm.Established: duplicate, cm.DREQSent: duplicate, cm.TimeWait: duplicate}},
		"REP": {func(t *testing.T) []byte { return reply(t, nil) },
			states{cm.REQSent: news, cm.REPReceived: duplicate, cm.Established: duplicate, cm.TimeWait: unmatched}, states{}},
		"DREQ": {func(t *testing.T) []byte {
			return mad(t, &roce.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: 0x16})
		},
			states{cm.Established: news, cm.DREQSent: news, cm.TimeWait: duplicate},
			states{cm.REQReceived: badField, cm.REPSent: news, cm.Established: news, cm.DREQSent: news, cm.TimeWait: duplicate}},
		"DREP": {func(t *testing.T) []byte { return mad(t, &roce.DREP{LocalCommID: theirs, RemoteCommID: ours}) },
			states{cm.DREQSent: news, cm.TimeWait: duplicate}, states{cm.DREQSent: news, cm.TimeWait: duplicate}},
		"MRA of a REQ": {func(t *testing.T) []byte {
			return mad(t, &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREQ, ServiceTimeout: 20})
		}, states{cm.REQSent: news}, states{}},
		"MRA of a REP": {func(t *testing.T) []byte {
			return mad(t, &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREP, ServiceTimeout: 20})
		}, states{}, states{cm.REPSent: news}},
		"REJ": {func(t *testing.T) []byte {
			return mad(t, &roce.REJ{LocalCommID: theirs, RemoteCommID: ours, Reason: roce.RejConsumer})
		},
			states{cm.REQSent: news, cm.REPReceived: news, cm.Established: news, cm.DREQSent: news},
			states{cm.REQReceived: news, cm.REPSent: news, cm.Established: news, cm.DREQSent: news}},
	} {
		for _, state := range ends {
			for _, side := range []struct {
				name string
				make func(testing.TB, cm.State) *host
				path cm.Path
				want states
				not  []cm.State
			}{
				{"active", active, toServer, c.active, []cm.State{cm.REQReceived, cm.REPSent}},
				{"passive", passive, toClient, c.passive, []cm.State{cm.REQSent, cm.REPReceived}},
			} {
				if state == side.not[0] || state == side.not[1] {
					continue
				}
				want := side.want[state]
				switch {
				case state == cm.Idle:
					want = unmatched
				case want == "":
					want = wrongState
				}
				h := side.make(t, state)
				before := h.Counters
				h.Receive(units.Second, side.path, c.msg(t))
				got := map[string]uint64{
					duplicate: h.Counters.Duplicates - before.Duplicates, unmatched: h.Counters.Unmatched - before.Unmatched,
					wrongState: h.Counters.WrongState - before.WrongState, badField: h.Counters.BadField - before.BadField,
				}
				for as, n := range got {
					if (as == want) != (n == 1) || n > 1 {
						t.Errorf("%s, %s in %v: counts %v, want %s", name, side.name, state, got, want)
						break
					}
				}
			}
		}
	}
}

// A REQ that names a connection that there is, and one that uses its ID or its queue pair anew,
// count as what they are.
func TestWhatRequestsCountAs(t *testing.T) {
	for _, state := range []cm.State{cm.Idle, cm.REQReceived, cm.REPSent, cm.Established, cm.DREQSent, cm.TimeWait} {
		there := state != cm.Idle
		live := there && state != cm.TimeWait
		for name, c := range map[string]struct {
			change           func(*roce.REQ)
			duplicate, stale bool
		}{
			"the same":           {nil, there, false},
			"another queue pair": {func(r *roce.REQ) { r.LocalQPN++ }, there, false},
			"another number":     {func(r *roce.REQ) { r.StartingPSN++ }, there, false},
			"another ID":         {func(r *roce.REQ) { r.LocalCommID++ }, false, live},
			"another of both":    {func(r *roce.REQ) { r.LocalCommID, r.LocalQPN = r.LocalCommID+1, r.LocalQPN+1 }, false, false},
		} {
			h := passive(t, state)
			before := h.Counters
			h.Receive(units.Second, toClient, request(t, c.change))
			for what, n := range map[string]struct {
				got  uint64
				want bool
			}{
				"duplicates": {h.Counters.Duplicates - before.Duplicates, c.duplicate}, "stale": {h.Counters.Stale - before.Stale, c.stale},
			} {
				if (n.got == 1) != n.want || n.got > 1 {
					t.Errorf("%s in %v: %s by %d, want %v", name, state, what, int64(n.got), n.want)
				}
			}
		}
	}
}

// A message of a connection that names a question is counted, and does nothing.
func TestConnectionsMessagesForAQuestion(t *testing.T) {
	for name, m := range map[string]func(id uint32) putter{
		"REP":  func(id uint32) putter { return &roce.REP{LocalCommID: 9, RemoteCommID: id, LocalQPN: 5} },
		"RTU":  func(id uint32) putter { return &roce.RTU{LocalCommID: 9, RemoteCommID: id} },
		"MRA":  func(id uint32) putter { return &roce.MRA{LocalCommID: 9, RemoteCommID: id, ServiceTimeout: 20} },
		"REJ":  func(id uint32) putter { return &roce.REJ{LocalCommID: 9, RemoteCommID: id, Reason: roce.RejConsumer} },
		"DREQ": func(id uint32) putter { return &roce.DREQ{LocalCommID: 9, RemoteCommID: id} },
		"DREP": func(id uint32) putter { return &roce.DREP{LocalCommID: 9, RemoteCommID: id} },
	} {
		h, id := asker(t)
		h.oneMAD()
		due := h.Deadline()
		h.Receive(1, toServer, mad(t, m(id)))
		h.noMAD()
		h.noEvent()
		if h.State(id) != cm.LookUpSent || h.Deadline() != due || h.Counters.WrongState != 1 || h.Counters.Duplicates != 0 {
			t.Errorf("%s: in %v, %+v", name, h.State(id), h.Counters)
		}
	}
}

// Questions for who serves a service ID are bound as requests are.
func TestLookUpBounds(t *testing.T) {
	h, _ := asker(t)
	h.oneMAD()
	for name, l := range map[string]cm.LookUp{
		"path":         {Path: cm.Path{Local: clientAddr, Remote: netip.IPv6Loopback()}},
		"private data": {Path: toServer, Private: make([]byte, roce.SIDRREQPrivateBytes+1)},
	} {
		if _, err := h.LookUp(0, l); err == nil || h.Connections() != 1 {
			t.Errorf("%s: %v, %d connections", name, err, h.Connections())
		}
		h.noMAD()
	}

	client, _ := asker(t)
	req := client.oneMAD()
	server := newHost(t, serverGUID, func(c *cm.Config) { c.Rand, c.MaxConnections = words(7, 0x66, 0x67), 1 })
	if err := server.Listen(udpService, 2); err != nil {
		t.Fatal(err)
	}
	other := func(n byte) []byte {
		b := append([]byte(nil), req...)
		b[27] += n // the request ID
		return b
	}
	server.Receive(0, toClient, req)
	id := server.event(cm.EventLookUp).ID
	if due, want := server.Deadline(), 4096*units.Nanosecond<<24; due != want {
		t.Errorf("it waits until %v, want %v", due, want)
	}
	server.Receive(0, toClient, other(1))
	server.noEvent()
	server.noMAD()
	if server.Counters.TableFull != 1 || server.Connections() != 1 {
		t.Errorf("%d connections, %+v", server.Connections(), server.Counters)
	}
	if err := server.Answer(0, id, cm.Answer{Private: make([]byte, roce.SIDRREPPrivateBytes+1)}); err == nil || server.State(id) != cm.LookUpReceived {
		t.Errorf("%v, in %v", err, server.State(id))
	}
	server.noMAD()
	if err := server.Answer(0, id, cm.Answer{}); err != nil {
		t.Error(err)
	}

	// A queue of one: another source's question finds no room, the same source's takes it.
	server = newHost(t, serverGUID, func(c *cm.Config) { c.Rand = words(7, 0x66, 0x67, 0x68) })
	if err := server.Listen(udpService, 1); err != nil {
		t.Fatal(err)
	}
	server.Receive(0, toClient, req)
	server.event(cm.EventLookUp)
	server.Receive(0, cm.Path{Local: serverAddr, Remote: netip.MustParseAddr("10.77.0.9")}, req)
	server.noEvent()
	if server.Counters.Backlog != 1 || server.Connections() != 1 {
		t.Errorf("%d connections, %+v", server.Connections(), server.Counters)
	}
	server.Receive(0, toClient, other(1))
	if server.drain(); server.Counters.Backlog != 2 || server.Connections() != 1 || len(server.events) != 3 {
		t.Errorf("%d connections, events %+v, %+v", server.Connections(), server.events, server.Counters)
	}
	server.Expire(server.Deadline() - 1)
	if server.Connections() != 1 {
		t.Error("the question has gone before its time")
	}
	server.Expire(server.Deadline())
	if server.Connections() != 0 {
		t.Error("the question is still there")
	}
}
