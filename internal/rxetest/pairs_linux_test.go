package rxetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/internal/rxeguest"
)

// A pair is two programs that meet: one is a tool in the guest, over the kernel's
// soft-RoCE, the other is the command sluice on the host side, over Sluice's own.
//
// In the commands HOST4, HOST6, GUEST4 and GUEST6 are addresses, GID4 and GID6
// indexes of the guest's GIDs. SOFT is Sluice's device on the interface that the
// guest is behind, and PACKET the same with packet sockets in place of UDP ones.
type pair struct {
	name           string
	server, client string  // a command that begins with sluice runs on the host side
	want           string  // regular expression; must match the client's output
	wantServer     bool    // and the server's
	loss           float64 // percent, each way
}

// perftest returns the two pairs of a test of perftest's: Sluice is the client in
// one, the server in the other. The flags are for both ends; those of host, which
// may be none, are for Sluice.
func perftest(name, test, flags, row string, loss float64, host ...string) []pair {
	gid, ipv6 := "-x GID4", ""
	if strings.Contains(name, "IPv6") {
		gid, ipv6 = "-x GID6", "--ipv6"
	}
	flags = patient + " " + flags
	tool := fmt.Sprintf("ib_%s -F %s %s", test, gid, flags)
	ours := fmt.Sprintf("sluice perf %s -d SOFT %s %s %s", test, ipv6, flags, strings.Join(host, " "))
	// Whose memory is read learns nothing of latencies.
	both := test != "read_lat" && test != "atomic_lat"
	return []pair{
		{"ib_" + test + " to sluice perf, " + name, ours, tool + " HOST4", row, both, loss},
		{"sluice perf to ib_" + test + ", " + name, tool, ours + " GUEST4", row, both, loss},
	}
}

// rping returns the two pairs of a game of rping's.
func rping(name, flags string, loss float64) []pair {
	v := "4"
	if strings.Contains(name, "IPv6") {
		v = "6"
	}
	flags += " -v -V -C 10"
	const want = "ping data: rdma-ping-9"
	return []pair{
		{"rping to sluice rping, " + name, "sluice rping -s -d SOFT -a HOST" + v + " " + flags, "rping -c -a HOST" + v + " " + flags, want, true, loss},
		{"sluice rping to rping, " + name, "rping -s -a GUEST" + v + " " + flags, "sluice rping -c -d SOFT -a GUEST" + v + " " + flags, want, true, loss},
	}
}

// pairs are all that TestSluice runs.
func pairs() []pair {
	var all []pair
	add := func(p []pair) { all = append(all, p...) }
	for _, ip := range []string{"IPv4", "IPv6"} {
		add(rping(ip, "", 0))
		add(perftest(ip, "write_bw", "-s 65536 -n 100", " 65536 +100 ", 0))
		add(perftest(ip, "read_bw", "-s 65536 -n 100", " 65536 +100 ", 0))
		add(perftest(ip, "send_bw", "-s 65536 -n 100", " 65536 +100 ", 0))
		add(perftest(ip+", UC", "write_bw", "-c UC -s 65536 -n 100", " 65536 +100 ", 0))
		add(perftest(ip+", UC", "send_bw", "-c UC -s 4096 -n 100", " 4096 +100 ", 0))
		add(perftest(ip+", UD", "send_bw", "-c UD -s 1024 -n 100", " 1024 +100 ", 0))
		add(perftest(ip, "atomic_bw", "-n 100", " 8 +100 ", 0))
	}
	add(perftest("compare and swap", "atomic_bw", "-A CMP_AND_SWAP -n 100", " 8 +100 ", 0))
	for _, test := range []string{"write_lat", "read_lat", "send_lat", "atomic_lat"} {
		add(perftest("IPv4", test, "-n 100", " [28] +100 ", 0))
	}
	add(perftest("by time", "write_lat", "-D 2", " 2 +[1-9][0-9]* ", 0))
	for _, mtu := range []string{"256", "512", "1024", "2048", "4096"} {
		for _, test := range []string{"write_bw", "read_bw", "send_bw"} {
			// 10001 is no multiple of anything.
			add(perftest("MTU "+mtu, test, "-m "+mtu+" -s 10001 -n 20", " 10001 +20 ", 0))
		}
	}
	for _, ip := range []string{"IPv4", "IPv6"} {
		add(perftest(ip+", packet sockets", "write_bw", "-s 65536 -n 100", " 65536 +100 ", 0, "-d PACKET"))
		add(perftest(ip+", packet sockets", "read_bw", "-s 65536 -n 100", " 65536 +100 ", 0, "-d PACKET"))
		add(perftest(ip+", packet sockets", "send_bw", "-s 65536 -n 100", " 65536 +100 ", 0, "-d PACKET"))
	}
	for _, test := range []string{"write_bw", "read_bw", "send_bw"} {
		add(perftest("rdma_cm", test, "-R -s 65536 -n 100", " 65536 +100 ", 0))
		add(perftest("4 queue pairs", test, "-q 4 -s 16384 -n 50", " 16384 +200 ", 0))
	}
	add(perftest("both ways", "write_bw", "-b -s 65536 -n 100", " 65536 +100 ", 0))
	add(perftest("both ways", "send_bw", "-b -s 65536 -n 100", " 65536 +100 ", 0))
	for _, test := range []string{"write_bw", "read_bw"} {
		// The client alone has something to pace.
		add(perftest("paced by TIMELY", test, "-s 65536 -n 100", " 65536 +100 ", 0, "--cc timely")[1:])
	}
	const lossy = "1 percent loss each way"
	add(rping(lossy, "-S 4096", 1))
	for _, test := range []string{"write_bw", "read_bw", "send_bw"} {
		add(perftest(lossy, test, "-s 65536 -n 50", " 65536 +50 ", 1))
	}
	add(perftest(lossy, "atomic_bw", "-n 200", " 8 +200 ", 1))
	return all
}

// TestSluice runs every pair.
func TestSluice(t *testing.T) {
	whole(t)
	m := newMeeting(t)
	m.boot(t, rxeguest.Options{})
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) { m.run(t, p) })
	}
	if m.loss == 0 {
		return // the lossy pairs were not asked for
	}
	t.Run("frames were lost each way", func(t *testing.T) {
		for _, dev := range []string{"eth0", "ifb-in"} {
			r, err := m.at.Run(pairContext(t), "tc", "-s", "qdisc", "show", "dev", dev)
			check(t, err)
			if !regexp.MustCompile(`netem.*loss 1%\s+Sent .*dropped [1-9]`).MatchString(r.Output) {
				t.Errorf("no losses: %s", r.Output)
			}
		}
	})
}

// buildSluice builds the command from this checkout.
func buildSluice(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sluice")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/sluice-rdma/sluice/cmd/sluice")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// A meeting is the place where pairs meet.
type meeting struct {
	image       *rxeguest.Image
	h           *rxeguest.Host
	at          *rxeguest.Guest
	sluice      string         // the binary
	host, guest []netip.Prefix // an IPv4 and an IPv6 address of each
	gids        [2]int         // in the guest, of these
	loss        float64        // that is set now
}

// newMeeting returns a meeting that lacks its guest, or skips the test.
func newMeeting(t *testing.T) *meeting {
	t.Helper()
	image, h := prepare(t)
	return &meeting{
		image: image, h: h, sluice: buildSluice(t),
		host:  prefixes("192.0.2.1/24", "2001:db8::1/64"),
		guest: prefixes("192.0.2.2/24", "2001:db8::2/64"),
	}
}

// boot starts the guest behind a tap device, with these options besides.
func (m *meeting) boot(t *testing.T, o rxeguest.Options) {
	t.Helper()
	link, err := m.h.NewTap(t.Context(), "tap0", 4200, m.host...)
	skipUnavailable(t, err)
	o.Name, o.Link, o.Addrs = "guest", link, m.guest
	m.at = boot(t, m.image, m.h, o)[0]
}

// run runs a pair.
func (m *meeting) run(t *testing.T, p pair) {
	ctx := pairContext(t)
	if p.loss != m.loss {
		check(t, m.at.SetLoss(ctx, p.loss))
		m.loss = p.loss
	}
	server := m.start(t, ctx, p.server)
	// Whatever happens, nobody stays to meet the next pair.
	defer server.kill()
	if err := server.ready(ctx); err != nil {
		t.Fatalf("server %s is not ready: %v\n%s", p.server, err, server.output())
	}
	client := m.start(t, ctx, p.client)
	defer client.kill()
	for _, end := range []process{client, server} {
		if err := end.wait(ctx); err != nil {
			t.Fatalf("%v\n--- server: %s\n%s\n--- client: %s\n%s", err, p.server, server.output(), p.client, client.output())
		}
	}
	for _, end := range []process{client, server} {
		if end == server && !p.wantServer {
			continue
		}
		if !regexp.MustCompile(p.want).MatchString(end.output()) {
			t.Errorf("no %q in the output of %s\n--- server: %s\n%s\n--- client: %s\n%s",
				p.want, end.name(), p.server, server.output(), p.client, client.output())
		}
	}
}

// A process runs in the guest or on the host side.
type process interface {
	name() string
	ready(context.Context) error // waits until a client may come
	wait(context.Context) error
	output() string
	kill()
}

func (m *meeting) start(t *testing.T, ctx context.Context, command string) process {
	t.Helper()
	if m.gids == [2]int{} {
		for i, a := range m.guest {
			var err error
			m.gids[i], err = m.at.GIDIndex(ctx, a.Addr())
			check(t, err)
		}
	}
	argv := strings.Fields(strings.NewReplacer(
		"HOST4", m.host[0].Addr().String(), "HOST6", m.host[1].Addr().String(),
		"GUEST4", m.guest[0].Addr().String(), "GUEST6", m.guest[1].Addr().String(),
		"GID4", strconv.Itoa(m.gids[0]), "GID6", strconv.Itoa(m.gids[1]), "SOFT", "soft:tap0", "PACKET", "soft:tap0?mode=packet",
	).Replace(command))
	if argv[0] != "sluice" {
		p, err := m.at.Start(argv...)
		check(t, err)
		return guestProcess{p, m.at, argv[0], slices.Contains(argv, "rping") || slices.Contains(argv, "-R")}
	}
	p := &hostProcess{argv: argv, cmd: m.h.Command(ctx, m.sluice, argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	check(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p
}

type guestProcess struct {
	p       *rxeguest.Process
	at      *rxeguest.Guest
	program string
	rdmaCM  bool // listens by rdma_cm, not by TCP
}

func (p guestProcess) name() string { return "the guest's " + p.program }

func (p guestProcess) ready(ctx context.Context) error {
	condition := perftestListens
	if p.rdmaCM {
		condition = rpingListens
	}
	return p.at.Await(ctx, condition)
}

func (p guestProcess) wait(ctx context.Context) error {
	_, err := p.p.Wait(ctx)
	if exit := (*rxeguest.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%s: exit status %d", p.name(), exit.Status)
	}
	return err
}

func (p guestProcess) output() string { return p.p.Output() }

func (p guestProcess) kill() {
	_ = p.p.Signal("KILL") // fails only when the guest is gone, and the process with it
}

type hostProcess struct {
	argv []string
	cmd  *exec.Cmd
	out  buffer
	done chan struct{}
	err  error // valid when done is closed
}

func (p *hostProcess) name() string { return strings.Join(p.argv[:2], " ") }

func (p *hostProcess) ready(ctx context.Context) error {
	for !strings.Contains(p.output(), "waiting for a client") {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.done:
			return fmt.Errorf("it has ended: %w", p.err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (p *hostProcess) wait(context.Context) error {
	<-p.done // the command knows the context
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name(), p.err)
	}
	return nil
}

func (p *hostProcess) output() string { return p.out.String() }

func (p *hostProcess) kill() {
	_ = p.cmd.Cancel() // fails when the process has ended
	<-p.done
}

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*buffer)(nil)

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
