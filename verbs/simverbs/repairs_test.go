package simverbs_test

import (
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// A peer that is gone answers nothing: every expiry of the timer but the last sends
// the packet again. A ConnectX-6 Dx begins with 4 us << 10, twice, and doubles it to << 14, 131 ms in all. Its own
// timer, 67.1 ms, runs out five times more before the end at seven times that.
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
	if p := verbs.DefaultRC(); p.Timeout != 14 || p.RetryCnt != 7 {
		t.Fatalf("timeout %d and %d retries: the figures are of 14 and 7", p.Timeout, p.RetryCnt)
	}
	if got, want := counted.Repairs(), (verbs.Repairs{Retransmitted: 11, AdpRetrans: 6, Timeouts: 6}); wc[0].Status != ib.WCRetryExcErr || got != want {
		t.Errorf("status %v, %v: %+v, want %+v", wc[0].Status, err, got, want)
	}
	if wc[0].VendorErr != 0x81 {
		t.Errorf("vendor error %#x, expected a ConnectX's, 0x81", wc[0].VendorErr)
	}
}
