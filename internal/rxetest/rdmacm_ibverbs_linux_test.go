package rxetest

import (
	"context"
	"strings"
	"testing"
)

// ibvCMPairs are the pairs of TestIBVerbs whose connections are made by rdma_cm: in
// the guest by librdmacm and the kernel, on the host side by Sluice's own. What runs in
// the guest against itself has the kernel's at both ends.
func ibvCMPairs() []pair {
	var all []pair
	for _, v := range []string{"4", "6"} {
		const flags = " -v -V -C 10"
		const want = "ping data: rdma-ping-9"
		ibv := func(role string) string { return "/job/sluice rping " + role + flags + " -d ibv:rxe0" }
		all = append(all,
			pair{"rping, ibv to soft, IPv" + v, "sluice rping -s -d SOFT -a HOST" + v + flags, ibv("-c -a HOST" + v), want, true, 0},
			pair{"rping, soft to ibv, IPv" + v, ibv("-s -a GUEST" + v), "sluice rping -c -d SOFT -a GUEST" + v + flags, want, true, 0},
			pair{"rping, ibv to rping, IPv" + v, "rping -s -a GUEST" + v + flags, ibv("-c -a GUEST" + v), want, true, 0},
			pair{"rping, rping to ibv, IPv" + v, ibv("-s"), "rping -c -a GUEST" + v + flags, want, true, 0},
		)
	}
	const flags = patient + " -R -s 65536 -n 100"
	const row = " 65536 +100 "
	return append(all,
		pair{"rping, ibv paced by TIMELY to soft", "sluice rping -s -d SOFT -a HOST4 -v -C 10", "/job/sluice rping -c -a HOST4 -v -V -C 10 -d ibv:rxe0 --cc timely", "ping data: rdma-ping-9", true, 0},
		pair{"write_bw -R, ibv to soft", "sluice perf write_bw -d SOFT " + flags, "/job/sluice perf write_bw -d ibv:rxe0 -x GID4 " + flags + " HOST4", row, true, 0},
		pair{"write_bw -R, soft to ibv", "/job/sluice perf write_bw -d ibv:rxe0 -x GID4 " + flags, "sluice perf write_bw -d SOFT " + flags + " GUEST4", row, true, 0},
	)
}

// connectByLibrdmacm runs the tests of verbs/ibverbs/librdmacm in the guest, whose
// device then connects to itself.
func connectByLibrdmacm(t *testing.T, m *meeting) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*pairTime)
	defer cancel()
	r, err := m.at.Run(ctx, "/job/librdmacmtest", "-test.v", "-device", "ibv:rxe0", "-address", m.guest[0].Addr().String())
	t.Log(r.Output)
	check(t, err)
	if !strings.Contains(r.Output, "--- PASS: TestConnectTalkDisconnect") {
		t.Error("it tested nothing")
	}
}
