package simverbs_test

import (
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// A peer that is gone answers nothing: every expiry of the timer but the last sends
// the packet again.
func TestRepairs(t *testing.T) {
	a, b := pair(t, "repairs")
	if err := b.qp.Close(); err != nil {
		t.Fatal(err)
	}
	counted := a.qp.(verbs.RepairsQP)
	if got := counted.Repairs(); got != (verbs.Repairs{}) {
		t.Errorf("before a request: %+v", got)
	}
	var wc [1]verbs.WC
	err := verbs.Run(a.dev, func() error {
		if _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte{1}}}); err != nil {
			return err
		}
		_, err := verbs.Drain(a.dev, a.cq, wc[:], 10*time.Second)
		return err
	})
	retries := uint64(verbs.DefaultRC().RetryCnt)
	if got, want := counted.Repairs(), (verbs.Repairs{Retransmitted: retries, Timeouts: retries + 1}); wc[0].Status != ib.WCRetryExcErr || got != want {
		t.Errorf("status %v, %v: %+v, want %+v", wc[0].Status, err, got, want)
	}
	if wc[0].VendorErr != 0x81 {
		t.Errorf("vendor error %#x, expected a ConnectX's, 0x81", wc[0].VendorErr)
	}
}
