package rxetest

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/rxeguest"
)

// patient is the flag of perftest's that sets the acknowledgement timeout, here to
// half a second. A guest's processor may stand still for longer than the seven
// retries of the default take.
const patient = "-u 17"

// What a server in a guest has done when its client may start.
const (
	perftestListens = "ss -Hltn sport = :18515 | grep -q ."
	rpingListens    = "rdma resource show cm_id | grep -q LISTEN"
)

// TestBetweenGuests runs the tools between two kernels, with nothing of Sluice's:
// what fails here is not Sluice's doing. In the commands GID4 and GID6 are
// the indexes of the guest's own GIDs, SERVER4 and SERVER6 the server's addresses.
// perftest 4.5 sets up its connections over IPv4 whatever the GID is.
func TestBetweenGuests(t *testing.T) {
	whole(t)
	image, h := prepare(t)
	var (
		names = []string{"alpha", "beta"}
		addr4 = prefixes("192.0.2.1/24", "192.0.2.2/24")
		addr6 = prefixes("2001:db8::1/64", "2001:db8::2/64")
		a, b  = h.NewWire(4200)
		guest = boot(t, image, h,
			rxeguest.Options{Name: names[0], Link: a, Addrs: []netip.Prefix{addr4[0], addr6[0]}},
			rxeguest.Options{Name: names[1], Link: b, Addrs: []netip.Prefix{addr4[1], addr6[1]}})
	)
	for _, pair := range []struct {
		name           string
		loss           float64
		server, client string
		ready          string
		want           string // a regular expression on a line of both outputs
	}{
		{"rping, IPv4", 0, "rping -s -a SERVER4 -C 5 -v", "rping -c -a SERVER4 -C 5 -v", rpingListens, "ping data: rdma-ping-4"},
		{"rping, IPv6", 0, "rping -s -a SERVER6 -C 5 -v", "rping -c -a SERVER6 -C 5 -v", rpingListens, "ping data: rdma-ping-4"},
		{"ib_write_bw, IPv4", 0, "ib_write_bw -F " + patient + " -x GID4 -s 65536 -n 100", "", perftestListens, " 65536 +100 "},
		{"ib_write_bw, IPv6", 0, "ib_write_bw -F " + patient + " -x GID6 -s 65536 -n 100", "", perftestListens, " 65536 +100 "},
		{"ib_write_bw, 1 percent loss", 1, "ib_write_bw -F " + patient + " -x GID4 -s 65536 -n 100", "", perftestListens, " 65536 +100 "},
		{"ib_read_bw", 0, "ib_read_bw -F " + patient + " -x GID4 -s 65536 -n 100", "", perftestListens, " 65536 +100 "},
		{"ib_send_bw", 0, "ib_send_bw -F " + patient + " -x GID4 -s 65536 -n 100", "", perftestListens, " 65536 +100 "},
		{"ib_send_bw, UD", 0, "ib_send_bw -c UD -F " + patient + " -x GID4 -s 1024 -n 100", "", perftestListens, " 1024 +100 "},
		{"ib_atomic_bw", 0, "ib_atomic_bw -F " + patient + " -x GID4 -n 100", "", perftestListens, " 8 +100 "},
	} {
		t.Run(pair.name, func(t *testing.T) {
			ctx := pairContext(t)
			if pair.client == "" {
				pair.client = pair.server + " SERVER4"
			}
			command := func(side int, text string) []string {
				gid := func(addr netip.Addr) string {
					i, err := guest[side].GIDIndex(ctx, addr)
					check(t, err)
					return strconv.Itoa(i)
				}
				return strings.Fields(strings.NewReplacer(
					"GID4", gid(addr4[side].Addr()), "GID6", gid(addr6[side].Addr()),
					"SERVER4", addr4[0].Addr().String(), "SERVER6", addr6[0].Addr().String(),
				).Replace(text))
			}
			if pair.loss > 0 {
				check(t, guest[0].SetLoss(ctx, pair.loss))
				defer func() { check(t, guest[0].SetLoss(t.Context(), 0)) }()
			}
			server, err := guest[0].Start(command(0, pair.server)...)
			check(t, err)
			defer func() { _ = server.Signal("KILL") }()
			check(t, guest[0].Await(ctx, pair.ready))
			atClient, err := guest[1].Run(ctx, command(1, pair.client)...)
			if err != nil {
				t.Fatalf("%v\nthe server so far: %s", err, server.Output())
			}
			atServer, err := server.Wait(ctx)
			if err != nil {
				t.Fatalf("%v\nthe client: %s", err, atClient.Output)
			}
			for side, output := range []string{atServer.Output, atClient.Output} {
				if !regexp.MustCompile(pair.want).MatchString(output) {
					t.Errorf("%s: no line with %q in\n%s", names[side], pair.want, output)
				}
			}
		})
	}
}
