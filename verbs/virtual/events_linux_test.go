package virtual_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// lineBuffered has a program write each line at once, as to a terminal.
func lineBuffered(t *testing.T, environ []string) []string {
	t.Helper()
	for _, pattern := range []string{"/usr/libexec/coreutils/libstdbuf.so", "/usr/lib/*/coreutils/libstdbuf.so"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return append(environ, "LD_PRELOAD="+found[0], "_STDBUF_O=L")
		}
	}
	t.Skip("libstdbuf.so is missing")
	return nil
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is missing: %v", p, err)
		}
	}
}

// watchEvents starts ibv_asyncwatch, and returns a function that waits for a line with
// each of some texts, in this order.
func watchEvents(t *testing.T, env []string) (cmd *exec.Cmd, next func(texts ...string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a line that never comes
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, "ibv_asyncwatch")
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	next = func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !lines.Scan() || !strings.Contains(lines.Text(), text) {
				t.Fatalf("ibv_asyncwatch: %q, %v; expected %q", lines.Text(), lines.Err(), text)
			}
		}
	}
	next("async event FD")
	return cmd, next
}

// user is testdata/removed.c: a program that uses a device until that is gone.
type user struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func newUser(t *testing.T, file, completions string, env []string) *user {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a call that never ends
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, file, completions)
	cmd.Env, cmd.Stderr = env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u := &user{t, cmd, in, bufio.NewReader(out)}
	if line, err := u.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return u
}

// ends has the program go on, and waits for what it says.
func (u *user) ends() {
	u.t.Helper()
	_, _ = io.WriteString(u.in, "\n")
	said, _ := io.ReadAll(u.out)
	if err := u.cmd.Wait(); err != nil {
		u.t.Errorf("a program whose device is gone: %v\n%s", err, said)
	}
}

// Programs over a device learn what its interface does, and verbs and sysfs say the same.
func TestInterfaceEvents(t *testing.T) {
	needs(t, "ibv_asyncwatch", "ibv_devinfo")
	lib := virtualLibrary(t)
	ns := watchertest.Namespace(t)
	in := func(f func() error) {
		t.Helper()
		var err error
		if watchertest.In(t, ns, func() { err = f() }); err != nil {
			t.Fatal(err)
		}
	}
	with := func(name string, f func(netlink.Link) error) {
		t.Helper()
		in(func() error {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return f(l)
		})
	}
	address := func(text string, f func(netlink.Link, *netlink.Addr) error) {
		t.Helper()
		with("v0", func(l netlink.Link) error {
			a, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			return f(l, a)
		})
	}
	var soft verbs.Device
	in(func() (err error) {
		v := netlink.NewVeth(netlink.NewLinkAttrs())
		v.Name, v.PeerName = "v0", "v1"
		if err := netlink.LinkAdd(v); err != nil {
			t.Skipf("no virtual interfaces here: %v", err)
		}
		watchertest.Host(t, "v1")
		watchertest.Host(t, "v0", netip.MustParsePrefix("10.51.0.1/24"))
		soft, err = verbs.Open("soft:v0")
		return err
	})
	for {
		if p, err := soft.Port(1); err != nil {
			t.Fatal(err)
		} else if p.State == verbs.PortActive {
			break
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel tells the device of the carrier some time
	}
	for {
		if _, err := soft.AsyncEvent(t.Context(), 0); err != nil {
			break
		}
	}
	d, err := virtual.Open(virtual.Config{Model: "cx6dx", Name: "mlx5_0", Backend: soft})
	if err != nil {
		t.Fatal(err)
	}
	h, err := virtual.Serve(d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	env := h.Environ(os.Environ(), lib)
	_, next := watchEvents(t, h.Environ(lineBuffered(t, os.Environ()), lib))

	// gids are as sysfs has them; ibv_devinfo shows no empty ones.
	check := func(what string, active bool, gids ...string) {
		t.Helper()
		state := map[bool][2]string{true: {"PORT_ACTIVE", "4: ACTIVE"}, false: {"PORT_DOWN", "1: DOWN"}}[active]
		out, err := exec.CommandContext(t.Context(), "env", append(env, "ibv_devinfo", "-v")...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), state[0]) {
			t.Errorf("%s: ibv_devinfo: %v, expected %s:\n%s", what, err, state[0], out)
		}
		port := h.Dir() + "/sys/class/infiniband/mlx5_0/ports/1/"
		if b, err := os.ReadFile(port + "state"); err != nil || string(b) != state[1]+"\n" {
			t.Errorf("%s: sysfs: %q, %v; expected %q", what, b, err, state[1])
		}
		for i, gid := range gids {
			b, err := os.ReadFile(fmt.Sprint(port, "gids/", i))
			want := netip.MustParseAddr(gid).As16()
			if got := strings.ReplaceAll(strings.TrimSpace(string(b)), ":", ""); err != nil || got != fmt.Sprintf("%x", want) {
				t.Errorf("%s: GID %d is %q, %v; expected %s", what, i, b, err, gid)
			}
			if shown := strings.Contains(string(out), fmt.Sprintf("GID[%3d]", i)); shown != (gid != "::") {
				t.Errorf("%s: ibv_devinfo shows GID %d, %s: %v\n%s", what, i, gid, shown, out)
			}
		}
	}
	check("at first", true, "10.51.0.1")
	with("v0", netlink.LinkSetDown)
	next("IBV_EVENT_PORT_ERR (10), port 1")
	check("down", false, "10.51.0.1")
	with("v0", netlink.LinkSetUp)
	next("IBV_EVENT_PORT_ACTIVE (9), port 1")
	check("up", true, "10.51.0.1")
	with("v1", netlink.LinkSetDown)
	next("IBV_EVENT_PORT_ERR")
	check("no carrier", false, "10.51.0.1")
	with("v1", netlink.LinkSetUp)
	next("IBV_EVENT_PORT_ACTIVE")
	address("10.51.0.2/24", netlink.AddrAdd)
	next("IBV_EVENT_GID_CHANGE (18), port 1")
	check("an address more", true, "10.51.0.1", "10.51.0.2")
	address("10.51.0.1/24", netlink.AddrDel) // takes its secondary addresses with it
	next("IBV_EVENT_GID_CHANGE")
	address("10.51.1.3/24", netlink.AddrAdd)
	next("IBV_EVENT_GID_CHANGE")
	with("v0", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 600) })
	for {
		if out, _ := exec.CommandContext(t.Context(), "env", append(env, "ibv_devinfo")...).CombinedOutput(); strings.Contains(string(out), "active_mtu:\t\t512") {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the MTU stays")
		}
	}
	user := newUser(t, compiled(t, "removed"), "flush", env)
	with("v0", netlink.LinkDel)
	user.ends()
	next("IBV_EVENT_PORT_ERR", "IBV_EVENT_GID_CHANGE", "IBV_EVENT_DEVICE_FATAL (8), port 0")
	if b, err := os.ReadFile(h.Dir() + "/sys/class/infiniband/mlx5_0/ports/1/state"); err != nil || string(b) != "1: DOWN\n" {
		t.Errorf("gone: sysfs: %q, %v", b, err)
	}
	// The device is no more, for programs that come now.
	if out, err := exec.CommandContext(t.Context(), "env", append(env, "ibv_devinfo")...).CombinedOutput(); err == nil {
		t.Errorf("gone: ibv_devinfo opened it:\n%s", out)
	}
}

// serverEnv has TestMain's program serve a device until it is killed.
const serverEnv = "SLUICE_TEST_VIRTUAL_SERVER"

// TestServerOfTest is the process that TestServerKilled kills.
func TestServerOfTest(t *testing.T) {
	lib := os.Getenv(serverEnv)
	if lib == "" {
		t.Skipf("%s is not set: a part of TestServerKilled", serverEnv)
	}
	h, _ := devices(t, 1, virtual.Config{})
	for _, v := range h.Environ(nil, lib) {
		fmt.Println("environment", v)
	}
	fmt.Println("environment")
	select {} // until it is killed
}

// When the device's process ends, programs get IBV_EVENT_DEVICE_FATAL and errors:
// programs that wait for events are told.
func TestServerKilled(t *testing.T) {
	needs(t, "ibv_asyncwatch")
	lib := virtualLibrary(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), self, "-test.run=^TestServerOfTest$", "-test.v")
	server.Env, server.Stderr = append(os.Environ(), serverEnv+"="+lib), os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }()
	env := lineBuffered(t, os.Environ())
	own := env[:0:0]
	var dir string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		v, ok := strings.CutPrefix(lines.Text(), "environment")
		if !ok {
			continue
		}
		if v == "" {
			break
		}
		v = strings.TrimSpace(v)
		if list, ok := strings.CutPrefix(v, "LD_PRELOAD="); ok {
			v = "LD_PRELOAD=" + list + ":" + strings.TrimPrefix(env[len(env)-2], "LD_PRELOAD=")
		}
		if d, ok := strings.CutPrefix(v, "SLUICE_VIRTUAL="); ok {
			dir = d
		}
		own = append(own, v)
	}
	if dir == "" {
		t.Fatal("the server did not start")
	}
	defer os.RemoveAll(dir)
	user := newUser(t, compiled(t, "removed"), "nothing", append(os.Environ(), own...))
	env = append(env, own...)
	watch, next := watchEvents(t, env)
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	user.ends()
	next("IBV_EVENT_DEVICE_FATAL (8), port 0")
	if err := watch.Wait(); err == nil || watch.ProcessState.ExitCode() != 1 {
		t.Errorf("ibv_asyncwatch ended with %v: it ends with 1 after an error", err)
	}
}
