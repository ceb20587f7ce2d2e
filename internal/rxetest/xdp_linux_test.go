package rxetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/internal/rxeguest"
)

// vethScript has functions for a pair of virtual interfaces in a guest, v0 and v1. The
// kernel's soft-RoCE of Linux 6.1 knows the first network namespace alone, so both are
// there when it has them: each end knows where the other is, and takes packets that come
// from an address of the same machine. Other programs have each end in a namespace of its
// own.
const vethScript = `
GODEBUG=cpu.pclmulqdq=off
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/applets
mkdir -p /var/run/netns
mac() { cat /sys/class/net/$1/address; }
setup() {
	set -e
	# The guest's clock does not wait for the host, whose files a program would be read
	# from as it runs.
	[ -e /tmp/sluice ] || cp /job/sluice /tmp/sluice
	ip link add v0 mtu $MTU type veth peer name v1 mtu $MTU
	m0=$(mac v0) m1=$(mac v1)
	for n in a b; do ip netns add $n; ip -n $n link set lo up; done
	for d in all default v0 v1; do echo 1 >/proc/sys/net/ipv4/conf/$d/accept_local; echo 0 >/proc/sys/net/ipv4/conf/$d/rp_filter; done
}
kernel() {
	set -e
	ip addr add 10.9.0.1/24 dev v0; ip addr add 10.9.0.2/24 dev v1
	ip link set v0 up; ip link set v1 up
	ip neigh replace 10.9.0.2 lladdr $(mac v1) dev v0 nud permanent
	ip neigh replace 10.9.0.1 lladdr $(mac v0) dev v1 nud permanent
	rdma link add rxa type rxe netdev v0; rdma link add rxb type rxe netdev v1
	until rdma link show rxa/1 | grep -q 'state ACTIVE' && rdma link show rxb/1 | grep -q 'state ACTIVE'; do sleep 0.1; done
	ga=$(basename $(grep -lx 0000:0000:0000:0000:0000:ffff:0a09:0001 /sys/class/infiniband/rxa/ports/1/gids/*))
	gb=$(basename $(grep -lx 0000:0000:0000:0000:0000:ffff:0a09:0002 /sys/class/infiniband/rxb/ports/1/gids/*))
	rm -f /tmp/server
	ib_$TEST -F -d rxb -x $gb $FLAGS >/tmp/server 2>&1 &
	until ss -Hltn sport = :18515 | grep -q .; do sleep 0.1; done
	ib_$TEST -F -d rxa -x $ga $FLAGS --report_gbits 127.0.0.1 || { cat /tmp/server; exit 1; }
	wait
	rdma link delete rxa; rdma link delete rxb
	ip addr flush dev v0; ip addr flush dev v1
}
soft() {
	set -e
	ip link set v0 netns a; ip link set v1 netns b
	ip -n a addr add 10.9.0.1/24 dev v0; ip -n b addr add 10.9.0.2/24 dev v1
	ip -n a link set v0 up; ip -n b link set v1 up
	rm -f /tmp/server
	ip netns exec b env GODEBUG=$GODEBUG /tmp/sluice perf $TEST -d "soft:v1?mode=$MODE" -e $FLAGS >/tmp/server 2>&1 &
	until grep -qs 'waiting for a client' /tmp/server; do sleep 0.1; done
	ip netns exec a env GODEBUG=$GODEBUG /tmp/sluice perf $TEST -d "soft:v0?mode=$MODE" -e $FLAGS 10.9.0.2 || { cat /tmp/server; exit 1; }
	wait
	ip -n a link set v0 netns 1; ip -n b link set v1 netns 1
}
`

// TestXDPBesideRXE runs one transfer over one pair of virtual interfaces in a guest, by
// the kernel's soft-RoCE with perftest and by each mode of Sluice's, in turns, and prints
// a table of their speeds, of which it asserts none: the guest's clock counts
// instructions. Both sides compute the ICRC by tables, as the guest's kernel has no more.
// SLUICE_RXE_ROUNDS has the number of turns.
func TestXDPBesideRXE(t *testing.T) {
	whole(t)
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("SLUICE_RXE_ROUNDS")); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "sluice"), "github.com/sluice-rdma/sluice/cmd/sluice")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the guest's C library is another
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	image, h := prepare(t)
	link, _ := h.NewWire(1500)
	at := boot(t, image, h, rxeguest.Options{Name: "guest", Link: link, Dir: dir, Memory: 1024, Counted: true})[0]
	check(t, os.WriteFile(filepath.Join(dir, "veth"), []byte(vethScript), 0o644))

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "test\tbytes\tMTU\trxe\txdp\tpacket\tudp")
	for _, c := range []struct {
		test      string
		size, n   int
		mtu, path int
	}{
		{"write_bw", 65536, 100, 1500, 1024},
		{"write_bw", 65536, 100, 2400, 2048},
		{"read_bw", 65536, 100, 1500, 1024},
		{"write_bw", 8, 5000, 1500, 1024},
	} {
		speeds := map[string][]float64{}
		name := fmt.Sprintf("%s of %d bytes, MTU %d", c.test, c.size, c.path)
		ok := t.Run(name, func(t *testing.T) {
			run := func(function, mode string) string {
				r, err := at.Run(pairContext(t), "sh", "-c", fmt.Sprintf("MTU=%d TEST=%s MODE=%s FLAGS='%s -m %d -s %d -n %d'; . /job/veth; %s", c.mtu, c.test, mode, patient, c.path, c.size, c.n, function))
				check(t, err)
				return r.Output
			}
			run("setup", "")
			defer run("for n in a b; do ip netns del $n; done; ip link del v0", "")
			row := regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d\s+%d\s+[0-9.]+\s+[0-9.]+\s+([0-9.]+)`, c.size, c.n))
			for range rounds {
				for _, mode := range []string{"rxe", "xdp", "packet", "udp"} {
					function := "soft"
					if mode == "rxe" {
						function = "kernel"
					}
					out := run(function, mode)
					m := row.FindStringSubmatch(out)
					if m == nil {
						t.Fatalf("%s: no row of %d messages of %d bytes in\n%s", mode, c.n, c.size, out)
					}
					v, err := strconv.ParseFloat(m[1], 64) // million messages a second
					check(t, err)
					if c.size >= c.path {
						v *= float64(c.size*8) / 1e3 // Gb/s
					}
					speeds[mode] = append(speeds[mode], v)
				}
			}
		})
		if !ok || len(speeds["udp"]) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d", c.test, c.size, c.path)
		for _, mode := range []string{"rxe", "xdp", "packet", "udp"} {
			v := speeds[mode]
			slices.Sort(v)
			_, _ = fmt.Fprintf(w, "\t%.4g", quantile.Of(v, 0.5))
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush()
	t.Logf("Gb/s, of 8 bytes million messages a second; medians of %d rounds\n%s", rounds, table.String())
}
