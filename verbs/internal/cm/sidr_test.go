package cm_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

const udpService = 0x0000000001111c06 // UDP port 7174

func asker(t *testing.T) (h *host, id uint32) {
	t.Helper()
	h = newHost(t, clientGUID, func(c *cm.Config) { c.Rand, c.MaxRetries = words(2, 0x55), 2 })
	id, err := h.LookUp(0, cm.LookUp{Path: toServer, ServiceID: udpService, Private: []byte("who")})
	if err != nil || id != 0x55 {
		t.Fatal(id, err)
	}
	return h, id
}

// A question, its answer, and both again for what may have been lost.
func TestLookUp(t *testing.T) {
	client, id := asker(t)
	req := client.oneMAD()
	server := newHost(t, serverGUID, func(c *cm.Config) { c.Rand = words(7, 0x66) })
	if err := server.Listen(udpService, 1); err != nil {
		t.Fatal(err)
	}
	server.Receive(0, toClient, req)
	e := server.event(cm.EventLookUp)
	if e.ServiceID != udpService || !bytes.HasPrefix(e.Private, []byte("who")) || e.Parameters.Path != toClient {
		t.Errorf("event %+v", e)
	}
	server.Receive(1, toClient, req)
	server.noMAD() // the application has not decided
	server.noEvent()
	if err := server.Hold(1, e.ID); err != nil {
		t.Fatal(err)
	}
	if err := server.Answer(2, e.ID, cm.Answer{QPN: 0x77, QKey: 5, Private: []byte("me")}); err != nil {
		t.Fatal(err)
	}
	rep := server.oneMAD()
	if err := server.Answer(2, e.ID, cm.Answer{}); !errors.Is(err, cm.ErrState) {
		t.Errorf("a second answer: %v", err)
	}
	server.Receive(3, toClient, req)
	sameMAD(t, "second SIDR_REP", server.oneMAD(), rep, true)

	client.Receive(4, cm.Path{Local: clientAddr, Remote: clientAddr}, rep)
	client.noEvent() // from another address
	other := bytes.Clone(rep)
	other[15] ^= 1
	client.Receive(4, toServer, other)
	client.noEvent() // to another question
	client.Receive(4, toServer, rep)
	found := client.event(cm.EventFound)
	if a := found.Answer; found.ID != id || a.Status != roce.SIDRSuccess || a.QPN != 0x77 || a.QKey != 5 || !bytes.HasPrefix(found.Private, []byte("me")) {
		t.Errorf("event %+v", found)
	}
	client.event(cm.EventTimeWaitExit)
	client.Receive(5, toServer, rep)
	client.noEvent()
	if client.Connections() != 0 || client.Deadline() != units.Never || client.Counters.WrongSource != 2 || client.Counters.Unmatched != 1 {
		t.Errorf("%d left, deadline %v, counters %+v", client.Connections(), client.Deadline(), client.Counters)
	}
	server.Expire(server.Deadline())
	server.event(cm.EventTimeWaitExit)
	if server.Connections() != 0 {
		t.Error("the answer is kept for ever")
	}
}

func TestLookUpWithoutAnswer(t *testing.T) {
	h, _ := asker(t)
	first := h.oneMAD()
	for range 2 {
		h.Expire(h.Deadline())
		sameMAD(t, "repeated SIDR_REQ", h.oneMAD(), first, true)
	}
	h.noEvent()
	h.Expire(h.Deadline())
	h.event(cm.EventUnreachable)
	h.event(cm.EventTimeWaitExit)
	h.noMAD()
	if h.Connections() != 0 {
		t.Error("it is not forgotten")
	}
}

// Whoever does not want to know any more hears nothing; whoever does not answer, rejects.
func TestLookUpEnds(t *testing.T) {
	client, id := asker(t)
	req := client.oneMAD()
	if err := client.Disconnect(1, id, nil); err != nil {
		t.Fatal(err)
	}
	client.noMAD()
	client.event(cm.EventTimeWaitExit)
	client.noEvent()

	server := newHost(t, serverGUID, func(c *cm.Config) { c.Rand = words(7, 0x66, 0x67, 0x68) })
	status := func() roce.SIDRStatus {
		t.Helper()
		var r roce.SIDRREP
		if err := r.Decode(server.oneMAD()); err != nil || r.RequestID != 0x55 || r.ServiceID != udpService {
			t.Fatal(err, r)
		}
		return r.Status
	}
	server.Receive(0, toClient, req)
	if s := status(); s != roce.SIDRUnsupported {
		t.Errorf("without a listener: %v", s)
	}
	if err := server.Listen(udpService, 1); err != nil {
		t.Fatal(err)
	}
	server.Receive(1, toClient, req)
	first := server.event(cm.EventLookUp)
	if err := server.Disconnect(2, first.ID, nil); err != nil {
		t.Fatal(err)
	}
	if s := status(); s != roce.SIDRReject {
		t.Errorf("destroyed: %v", s)
	}
	server.Expire(server.Deadline())
	server.event(cm.EventTimeWaitExit)

	// The backlog is one: the older question goes, and an honest peer asks again.
	server.Receive(3, toClient, req)
	held := server.event(cm.EventLookUp)
	another := bytes.Clone(req)
	another[27]++ // its request ID
	server.Receive(4, toClient, another)
	if e := server.event(cm.EventUnreachable); e.ID != held.ID {
		t.Errorf("event of %#x, want %#x", e.ID, held.ID)
	}
	server.event(cm.EventTimeWaitExit)
	server.event(cm.EventLookUp)
	server.noMAD()
}
