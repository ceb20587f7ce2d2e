package virtual_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// TestSimulatedCM has programs on two hosts connect by rdma_cm, twice with the same outputs and the same packets.
func TestSimulatedCM(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	const fio = "fio --thread --ioengine=rdma --name=t --verb=write --port=9000 --bs=64k --size=256k --iodepth=4 "
	for _, c := range []struct {
		name, server, client string
		prints               []string // one in the output of each
		long                 bool
	}{
		{"rping", "rping -s -v -C 3", "rping -c -v -a h0 -C 3", []string{"rdma-ping-0: ABCDE", "rdma-ping-2: CDEFG"}, false},
		{"rping over IPv6", "rping -s -a :: -v -C 2", "rping -c -v -a fd00::a00:1 -C 2", []string{"rdma-ping-0: ABCDE", "rdma-ping-1: BCDE"}, false},
		{"ucmatose", "ucmatose", "ucmatose -s h0", []string{"return status 0", "return status 0"}, false},
		{"udaddy", "udaddy", "udaddy -s h0", []string{"return status 0", "return status 0"}, false},
		{"udaddy over IPv6", "udaddy -b ::", "udaddy -s fd00::a00:1", []string{"return status 0", "return status 0"}, false},
		{"qperf", "qperf", "qperf -cm 1 -n 100 h0 rc_bw quit", []string{"", "bw  ="}, false},
		{"perftest", "ib_send_lat -R -F -n 20", "ib_send_lat -R -F -n 20 h0", []string{"rdma_cm QPs\t : ON", "rdma_cm QPs\t : ON"}, true},
		{"libfabric", "fi_pingpong -p verbs -e msg -S 4096", "fi_pingpong -p verbs -e msg -S 4096 h0", []string{"4k", "4k"}, false},
		{"fio", fio + "--rw=read", fio + "--rw=write --hostname=h0", []string{"err= 0", "err= 0"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skipf("-short: some seconds")
			}
			var outs, packets [2][]string
			for i := range outs {
				s := newSimulated(t, 2)
				outs[i] = s.run(c.server, c.client)
				packets[i] = s.packets
			}
			if d := cmp.Diff(outs[0], outs[1]); d != "" {
				t.Errorf("two runs print differently:\n%s", d)
			}
			if d := cmp.Diff(packets[0], packets[1]); d != "" {
				t.Errorf("two runs send differently:\n%s", d)
			}
			for i, want := range c.prints {
				if !strings.Contains(outs[0][i], want) {
					t.Errorf("host %d printed no %q:\n%s", i, want, outs[0][i])
				}
			}
		})
	}
}

// TestSimulatedCMLost has a network lose a request for a connection, and the answer to the one after that: each is sent again
// after rdma_cm's time, of simulated time.
func TestSimulatedCMLost(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	s := newSimulatedUntil(t, 2, 0,
		fabric.Failure{Link: "h1->tor0", To: 2 * units.Millisecond, Loss: 1},
		fabric.Failure{Link: "h0->tor0", To: 7 * units.Second, Loss: 1})
	out := s.run("rping -s -C 1", "rping -c -v -a h0 -C 1")
	if want := "rdma-ping-0: ABCDE"; !strings.Contains(out[1], want) {
		t.Errorf("the client printed no %q:\n%s", want, out[1])
	}
	var requests []string
	for _, p := range s.packets {
		const tid, request = 16, "0010" // behind the first part of a datagram's header
		if _, rest, ok := strings.Cut(p, "1>0 1>1 0107020300000000"); ok && strings.HasPrefix(rest[tid:], request) {
			at, _, _ := strings.Cut(p, " ")
			requests = append(requests, at)
		}
	}
	if len(requests) != 3 || !strings.HasPrefix(requests[0], "1.0") || !strings.HasPrefix(requests[1], "6.4") {
		t.Errorf("requests were sent at %v, expected three: at 1 ms, after 6.4 s, and so much later again", requests)
	}
}
