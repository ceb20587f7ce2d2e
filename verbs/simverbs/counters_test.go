package simverbs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// What a queue pair counted stays with the device when it is reset and when it is destroyed.
func TestCounters(t *testing.T) {
	a, b := pair(t, "counters")
	da, db := a.dev.(*simverbs.Device), b.dev.(*simverbs.Device)
	mr, err := a.pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = verbs.Run(da, func() error {
		if _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 8)}, RemoteAddr: 1, RKey: 0x1234}}); err != nil {
			return err
		}
		_, err := verbs.Drain(da, a.cq, make([]verbs.WC, 1), time.Second)
		return err
	})
	if !errors.Is(err, ib.WCRemAccessErr) {
		t.Fatal(err)
	}
	check := func(when string) {
		for name, want := range map[string]uint64{"req_remote_access_errors": 1, "local_ack_timeout_err": 0, "roce_adp_retrans": 0, "sent_pkts": 1} {
			if got, ok := da.Counters()[name]; !ok || got != want {
				t.Errorf("%s: %s is %d (%v), expected %d", when, name, got, ok, want)
			}
		}
		if got := db.Counters()["resp_remote_access_errors"]; got != 1 {
			t.Errorf("%s: resp_remote_access_errors is %d, expected 1", when, got)
		}
	}
	check("after the request")
	for _, q := range []verbs.QP{a.qp, b.qp} {
		if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	check("after a reset")
	if err := errors.Join(a.qp.Close(), b.qp.Close()); err != nil {
		t.Fatal(err)
	}
	check("at the end")
}
