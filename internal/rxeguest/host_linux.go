package rxeguest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Host is the near end of the wire: a network namespace with a loopback device and the
// links that it is given, a PID namespace, and a mount namespace, which has the file
// systems of the system except /sys, which is that of this network. It is safe for
// concurrent use.
type Host struct {
	im     *Image
	dir    string // for sockets
	holder *exec.Cmd
	alive  io.Closer // the holder's standard input
	enter  []string  // the start of a command line that runs inside

	mu    sync.Mutex
	links int
}

// NewHost makes a host side. The caller closes it. As root the namespaces are
// plain ones; other users get a user namespace around them.
func (im *Image) NewHost(ctx context.Context) (*Host, error) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, &UnavailableError{Reason: "nsenter is missing (package util-linux)", Err: err}
	}
	// When the first process of a PID namespace ends, the kernel kills all others in
	// it. This one ends with its standard input, which the kernel closes when the
	// process that made it dies. It must not be tied to a context.
	holder := exec.Command("cat")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	enter := []string{nsenter, "--net", "--mount", "--pid", "--root", "--wd"}
	if os.Geteuid() != 0 {
		enter = append(enter, "--user", "--preserve-credentials")
		holder.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		holder.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		holder.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	alive, err := holder.StdinPipe()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-rxe-")
	if err != nil {
		return nil, err
	}
	if err := holder.Start(); err != nil {
		_ = alive.Close()
		_ = os.RemoveAll(dir)
		return nil, &UnavailableError{
			Reason: "no namespaces for network and processes (a container needs --privileged; an ordinary user, unprivileged user namespaces)",
			Err:    err,
		}
	}
	h := &Host{
		im: im, dir: dir, holder: holder, alive: alive,
		enter: append(enter, "--target", strconv.Itoa(holder.Process.Pid), "--"),
	}
	err = h.ip(ctx, "link set lo up")
	if err == nil {
		// /sys/class/net is to list the host side's devices, here alone.
		err = h.run(ctx, "sh", "-c", "{ mount --make-private /sys || mount --make-private /; } && mount -t sysfs sysfs /sys")
	}
	if err != nil {
		return nil, errors.Join(&UnavailableError{
			Reason: "the namespaces can't be configured (Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run as root)",
			Err:    err,
		}, h.Close())
	}
	return h, nil
}

// Close kills everything that runs inside and removes the namespaces, and with
// them all links.
func (h *Host) Close() error {
	_ = h.alive.Close()
	err := h.holder.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	// Killed is how it ends, so its status says nothing.
	_ = h.holder.Wait()
	return errors.Join(err, os.RemoveAll(h.dir))
}

// Command returns a command that will run on the host side, in the folder that was
// the current one when the host side was made. When ctx ends, it is killed with all
// that it started.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	argv := append(append(slices.Clone(h.enter), name), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Proc returns a folder whose files net/tcp, net/udp and so on describe the host
// side's network.
func (h *Host) Proc() string { return fmt.Sprintf("/proc/%d", h.holder.Process.Pid) }

// ip runs iproute2's ip on the host side.
func (h *Host) ip(ctx context.Context, args string) error {
	if err := h.run(ctx, append(h.im.program("ip"), strings.Fields(args)...)...); err != nil {
		return fmt.Errorf("ip %s: %w", args, err)
	}
	return nil
}

// run runs a command on the host side; its output goes into the error.
func (h *Host) run(ctx context.Context, argv ...string) error {
	out, err := h.Command(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// A Link is one guest's attachment to the wire.
type Link struct {
	netdev string // QEMU's -netdev, without an id
	mac    string
	mtu    int
}

// macs numbers the links of all hosts of this process.
var macs struct {
	sync.Mutex
	n int
}

func (h *Host) newLink(netdev string, mtu int) Link {
	macs.Lock()
	defer macs.Unlock()
	macs.n++
	return Link{netdev: netdev, mtu: mtu, mac: fmt.Sprintf("52:54:00:00:%02x:%02x", macs.n>>8&0xff, macs.n&0xff)}
}

// NewTap adds a tap device to the host side, with these addresses, for one guest.
// The mtu is that of both ends. Frames pass as they are on a real wire: nothing is
// offloaded, checksums are filled in.
func (h *Host) NewTap(ctx context.Context, name string, mtu int, addrs ...netip.Prefix) (Link, error) {
	if err := h.ip(ctx, "tuntap add mode tap dev "+name); err != nil {
		return Link{}, &UnavailableError{Reason: "no tap device (/dev/net/tun must exist and be writable)", Err: err}
	}
	// An emulated guest drains its queue slowly; a burst must not overflow it.
	cmds := []string{fmt.Sprintf("link set %s mtu %d txqueuelen 20000", name, mtu)}
	for _, a := range addrs {
		cmds = append(cmds, "addr add "+addrArgs(a)+" dev "+name)
	}
	for _, c := range append(cmds, fmt.Sprintf("link set %s up", name)) {
		if err := h.ip(ctx, c); err != nil {
			return Link{}, err
		}
	}
	return h.newLink("tap,script=no,downscript=no,vnet_hdr=off,ifname="+name, mtu), nil
}

// NewWire returns the two ends of a wire between two guests.
func (h *Host) NewWire(mtu int) (a, b Link) {
	h.mu.Lock()
	h.links++
	n := h.links
	h.mu.Unlock()
	end := func(i int) string { return quoteOption(filepath.Join(h.dir, fmt.Sprintf("wire%d.%d", n, i))) }
	netdev := "dgram,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s"
	return h.newLink(fmt.Sprintf(netdev, end(0), end(1)), mtu), h.newLink(fmt.Sprintf(netdev, end(1), end(0)), mtu)
}

// addrArgs is an address as ip takes it. Nobody else is on the wire, so IPv6
// needs no search for duplicates, which takes a second.
func addrArgs(a netip.Prefix) string {
	if a.Addr().Is6() {
		return a.String() + " nodad"
	}
	return a.String()
}

// quoteOption makes text a value in an option of QEMU's, where a comma is doubled.
func quoteOption(s string) string { return strings.ReplaceAll(s, ",", ",,") }
