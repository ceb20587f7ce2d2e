package rxeguest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGuest boots one guest and puts the harness to the test.
func TestGuest(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: boots a guest, which takes ten seconds")
	}
	image, err := Prepare(t.Context(), "", t.Logf)
	if unavailable := (*UnavailableError)(nil); errors.As(err, &unavailable) && os.Getenv("SLUICE_RXE_REQUIRED") == "" {
		t.Skipf("no guest here: %v", err)
	}
	check(t, err)
	h, err := image.NewHost(t.Context())
	if unavailable := (*UnavailableError)(nil); errors.As(err, &unavailable) && os.Getenv("SLUICE_RXE_REQUIRED") == "" {
		t.Skipf("no guest here: %v", err)
	}
	check(t, err)
	defer func() { check(t, h.Close()) }()
	// A tap device takes more rights than guests do.
	link, noTap := h.NewTap(t.Context(), "tap0", 1500, netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("2001:db8::2/64"))
	if noTap != nil {
		link, _ = h.NewWire(1500)
	}
	shared, root, capture := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "a,b.pcap")
	check(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
	addr4, addr6 := netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")
	g, err := image.Boot(t.Context(), h, Options{
		Name: "alpha", Link: link, Dir: shared, Root: root, Capture: capture,
		Addrs: []netip.Prefix{addr4, addr6},
	})
	check(t, err)
	// The last subtest takes the guest down.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	t.Run("arguments and output", func(t *testing.T) {
		r, err := g.Run(ctx, "printf", "<%s>", "a b", "it's", `"$HOME" \ *`, "", "two\nlines")
		check(t, err)
		if want := "<a b><it's><\"$HOME\" \\ *><><two\nlines>"; r.Output != want || r.Status != 0 {
			t.Errorf("%q, status %d, want %q", r.Output, r.Status, want)
		}
	})
	t.Run("exit status", func(t *testing.T) {
		r, err := g.Run(ctx, "sh", "-c", "echo out; echo err >&2; exit 7")
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Status != 7 || r.Status != 7 || r.Output != "out\nerr\n" {
			t.Errorf("%+v, %v, want status 7 and both outputs", r, err)
		}
		if _, err := g.Run(ctx, "no-such-program"); !errors.As(err, &exit) || exit.Status != 127 {
			t.Errorf("no-such-program: %v, want status 127", err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		// A child as well: the whole group must go.
		_, err := g.Run(soon, "sh", "-c", "echo begun; sleep 1234 & sleep 1234")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "begun") {
			t.Errorf("%v, want the deadline's error with the output so far", err)
		}
		check(t, g.Await(ctx, "! pgrep -f 'sleep 1234'"))
	})
	t.Run("background and signals", func(t *testing.T) {
		p, err := g.Start("sh", "-c", "trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done")
		check(t, err)
		for p.Output() != "up\n" {
			select {
			case <-p.Done():
				t.Fatalf("ended early: %s", p.Output())
			case <-ctx.Done():
				t.Fatal("no output in time")
			case <-time.After(20 * time.Millisecond):
			}
		}
		check(t, p.Signal("TERM"))
		r, _ := p.Wait(ctx)
		if r.Status != 3 {
			t.Errorf("status %d, want 3", r.Status)
		}
		check(t, p.Signal("KILL"))
	})
	t.Run("many at once", func(t *testing.T) {
		var all []*Process
		for i := range 20 {
			p, err := g.Start("sh", "-c", fmt.Sprintf("sleep 0.%d; exit %d", i%5, i))
			check(t, err)
			all = append(all, p)
		}
		for i, p := range all {
			if r, _ := p.Wait(ctx); r.Status != i {
				t.Errorf("job %d ended with %d", i, r.Status)
			}
		}
	})
	t.Run("folders", func(t *testing.T) {
		check(t, os.WriteFile(filepath.Join(shared, "in"), []byte("from the host"), 0o644))
		_, err := g.Run(ctx, "sh", "-c", "cat /job/in /etc/hostname >/job/out && ! touch /host/x && [ -e /host/proc/self ]")
		check(t, err)
		if b, err := os.ReadFile(filepath.Join(shared, "out")); string(b) != "from the hostalpha\n" {
			t.Errorf("/job/out holds %q, %v", b, err)
		}
	})
	t.Run("device", func(t *testing.T) {
		r, err := g.Run(ctx, "ibv_devinfo", "-d", "rxe0")
		check(t, err)
		if !strings.Contains(r.Output, "PORT_ACTIVE") || !strings.Contains(r.Output, "active_mtu:\t\t1024") {
			t.Errorf("not an active port with the MTU that fits 1500 bytes:\n%s", r.Output)
		}
		seen := make(map[int]bool)
		for _, a := range []netip.Prefix{addr4, addr6} {
			i, err := g.GIDIndex(ctx, a.Addr())
			check(t, err)
			seen[i] = true
		}
		if len(seen) != 2 {
			t.Errorf("two addresses share a GID: %v", seen)
		}
		if i, err := g.GIDIndex(ctx, netip.MustParseAddr("192.0.2.77")); err == nil {
			t.Errorf("an address that eth0 has not has GID %d", i)
		}
	})
	t.Run("loss", func(t *testing.T) {
		for _, c := range []struct {
			percent float64
			netem   int // qdiscs
		}{{1.5, 2}, {20, 2}, {0, 0}} {
			check(t, g.SetLoss(ctx, c.percent))
			// With no loss the one of ifb-in stays, and nothing is led there.
			r, err := g.Run(ctx, "sh", "-c", "tc qdisc show dev eth0; tc filter show dev eth0 ingress | grep -q ifb-in && tc qdisc show dev ifb-in; true")
			check(t, err)
			if n := strings.Count(r.Output, fmt.Sprintf("loss %g%%", c.percent)); n != c.netem {
				t.Errorf("after SetLoss(%g):\n%s", c.percent, r.Output)
			}
		}
	})
	t.Run("host side", func(t *testing.T) {
		out, err := h.Command(ctx, "sh", "-c", "cat /proc/net/dev; for d in /sys/class/net/*; do echo ${d##*/}:; done; pwd >&2; exit 5").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 5 {
			t.Errorf("%v, want status 5", err)
		}
		for line := range strings.Lines(string(out)) {
			name, _, device := strings.Cut(strings.TrimSpace(line), ":") // not those of the heading
			if device && name != "lo" && name != "tap0" {
				t.Errorf("the host side has a device %s", name)
			}
		}
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if err := h.Command(soon, "sh", "-c", "sleep 4321 & sleep 4321").Run(); err == nil {
			t.Error("a command outlives its context")
		}
	})
	t.Run("tap", func(t *testing.T) {
		if noTap != nil {
			t.Skipf("%v", noTap)
		}
		// Full frames: 1500 less the headers of IP and ICMP.
		_, err := g.Run(ctx, "sh", "-c", "ping -c 2 -i 0.2 -s 1472 192.0.2.2 && ping -6 -c 2 -i 0.2 -s 1452 2001:db8::2")
		check(t, err)
		b, err := os.ReadFile(h.Proc() + "/net/dev")
		check(t, err)
		if !strings.Contains(string(b), "tap0:") {
			t.Errorf("the host side has no tap0:\n%s", b)
		}
	})
	t.Run("capture", func(t *testing.T) {
		if info, err := os.Stat(capture); err != nil || info.Size() < 24 {
			t.Errorf("no capture: %v, %v", info, err)
		}
	})
	t.Run("crash", func(t *testing.T) {
		_, err := g.Run(ctx, "sh", "-c", "echo c >/proc/sysrq-trigger; sleep 60")
		if err == nil || !strings.Contains(err.Error(), "Kernel panic") {
			t.Errorf("%v, want an error with the console", err)
		}
		check(t, g.Close())
		if _, err := g.Run(ctx, "true"); err == nil {
			t.Error("a closed guest runs commands")
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
