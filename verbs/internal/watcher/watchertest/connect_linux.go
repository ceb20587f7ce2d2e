package watchertest

import (
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// End is a connected queue pair with a region of memory.
type End struct {
	dev verbs.Device
	pd  verbs.PD
	CQ  verbs.CQ
	QP  verbs.QP
	MR  verbs.MR
}

// Lasting is an acknowledgement timeout of 4 s, which no machine is late by.
const Lasting = 20

// Connect makes a connection of two devices, until the test ends, when they are closed.
// gid picks their addresses; the first sends from psn on.
func Connect(t testing.TB, devs [2]verbs.Device, gid int, psn uint32, timeout uint8) (e [2]End) {
	t.Helper()
	for i, d := range devs {
		x := &e[i]
		x.dev = d
		var err error
		x.pd, err = d.AllocPD()
		must(t, err)
		x.CQ, err = d.CreateCQ(verbs.CQInitAttr{CQE: 1024, Timestamps: d.Attr().CoreClockHz > 0})
		must(t, err)
		x.QP, err = x.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: x.CQ, RecvCQ: x.CQ, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must(t, err)
		x.MR, err = x.pd.RegMR(make([]byte, 1<<20), ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead|ib.AccessRemoteAtomic)
		must(t, err)
	}
	Join(t, &e, gid, psn, timeout)
	t.Cleanup(func() {
		for i := range e {
			x := &e[i]
			must(t, errors.Join(x.QP.Close(), x.MR.Close(), x.CQ.Close(), x.pd.Close(), x.dev.Close()))
		}
	})
	return e
}

// Join connects fresh queue pairs.
func Join(t testing.TB, e *[2]End, gid int, psn uint32, timeout uint8) {
	t.Helper()
	var at [2]verbs.Endpoint
	for i, first := range []uint32{psn, 0} {
		a, err := e[i].dev.GID(1, gid)
		must(t, err)
		at[i] = verbs.Endpoint{GID: a, QPN: e[i].QP.Num(), PSN: first}
	}
	p := verbs.DefaultRC()
	p.Timeout = timeout
	for i := range e {
		must(t, verbs.ConnectRC(e[i].QP, at[i], at[1-i], p))
	}
}
