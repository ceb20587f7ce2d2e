package cm_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// A peer's queue pair whose connection has ended may connect again, though this side
// still answers late messages of the old one.
func TestSameQueuePairAgain(t *testing.T) {
	h := passive(t, cm.TimeWait)
	h.Receive(0, toClient, request(t, func(r *roce.REQ) { r.LocalCommID++ }))
	h.event(cm.EventRequest)
	h.noMAD() // nothing contradicts it
	if n := h.Counters.Stale; n != 0 {
		t.Errorf("%d requests for queue pairs that old connections have", n)
	}
}
