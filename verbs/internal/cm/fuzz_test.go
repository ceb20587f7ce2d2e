package cm_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// FuzzReceive gives a device with connections in every state what anybody may
// send. Nothing may panic, the connections must stay few, and time must be able to
// end all of them. (Run it with -fuzzminimizetime 1x: maps make its coverage
// unsteady, which minimising takes for news.)
func FuzzReceive(f *testing.F) {
	for _, m := range captured(f) {
		f.Add(m, uint32(ours))
	}
	f.Add(mad(f, &roce.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: roce.AnswersREP, ServiceTimeout: 31}), uint32(ours))
	f.Add(mad(f, &roce.REJ{LocalCommID: theirs, Reason: roce.RejTimeout, InfoLength: 127}), uint32(0))
	states := []cm.State{cm.REQSent, cm.REPReceived, cm.REQReceived, cm.REPSent, cm.Established, cm.DREQSent, cm.TimeWait}
	f.Fuzz(func(t *testing.T, in []byte, id uint32) {
		for _, s := range states {
			for _, role := range []func(testing.TB, cm.State) *host{active, passive} {
				if (s == cm.REQSent || s == cm.REPReceived) && role(t, cm.Idle).Listening(service) ||
					(s == cm.REQReceived || s == cm.REPSent) && !role(t, cm.Idle).Listening(service) {
					continue
				}
				h := role(t, s)
				path := toServer
				if h.Listening(service) {
					path = toClient
				}
				h.Receive(1, path, in)
				if len(in) == roce.MADBytes {
					// Once more for a connection that there may be.
					b := bytes.Clone(in)
					binary.BigEndian.PutUint32(b[28:], id)
					h.Receive(2, path, b)
					h.Receive(3, path, b)
				}
				for range 100 {
					h.drain()
					for _, e := range h.events {
						switch e.Type {
						case cm.EventRequest:
							if _, err := h.Accept(4, e.ID, serverEndpoint()); err != nil && h.State(e.ID) == cm.REQReceived {
								t.Fatal(err)
							}
						case cm.EventReply:
							_ = h.Ready(4, e.ID, nil)
						}
					}
					h.events = nil
					if h.Deadline() == units.Never {
						break
					}
					h.Expire(h.Deadline())
				}
				if h.Deadline() != units.Never || h.Connections() > 2 {
					t.Fatalf("%d connections, deadline %v", h.Connections(), h.Deadline())
				}
			}
		}
	})
}
