package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// interrupter interrupts the program when it says that it can be.
type interrupter struct {
	bytes.Buffer
	done bool
}

func (w *interrupter) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if !w.done && strings.Contains(w.String(), "end with ctrl-c\n") {
		w.done = true
		err = errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGINT))
	}
	return n, err
}

// closedPipe takes one line.
type closedPipe struct{ lines int }

func (w *closedPipe) Write(b []byte) (int, error) {
	if w.lines++; w.lines > 1 {
		return 0, syscall.EPIPE
	}
	return len(b), nil
}

// A switch between two interfaces runs until it is interrupted, or for as long as it
// was told, and sums up.
func TestSwitchEnds(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	own, err := netns.New()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		_ = was.Close()
		t.Skipf("no network namespaces here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(netns.Set(was), was.Close()); err != nil {
			t.Error(err)
		}
	}()
	defer func() { _ = own.Close() }()
	for _, name := range []string{"a", "b"} {
		pair := netlink.NewVeth(netlink.NewLinkAttrs())
		pair.Name, pair.PeerName = name, name+"end"
		if err := netlink.LinkAdd(pair); errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("no virtual interfaces here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{name, name + "end"} {
			l, err := netlink.LinkByName(end)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	program := []string{"--program", "../p4/csig_mpd.p4"}
	for name, args := range map[string][]string{"bridge": nil, "program": program} {
		var out interrupter
		var failed bytes.Buffer
		args = append([]string{"switch", "--port", "a", "--port", "b:rate=1Gbps"}, args...)
		if status := run(args, &out, &failed); status != exitOK || !out.done {
			t.Errorf("%s: status %d, %s", name, status, failed.String())
		}
		for _, want := range []string{"2 ports, ", "rx packets", "\n     b"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: there is no %q in\n%s", name, want, out.String())
			}
		}
		var lines bytes.Buffer
		args = append(args, "--json", "--duration", "200ms", "--stats-interval", "50ms")
		if status := run(args, &lines, &failed); status != exitOK {
			t.Errorf("%s: status %d, %s", name, status, failed.String())
		}
		final := 0
		d := json.NewDecoder(&lines)
		for d.More() {
			var doc switchDocument
			if err := d.Decode(&doc); err != nil {
				t.Fatal(err)
			}
			if doc.Final {
				final++
			}
			if len(doc.Ports) != 2 || doc.Ports[1].RateGbps != 1 {
				t.Errorf("%s: %+v", name, doc)
			}
		}
		if final != 1 {
			t.Errorf("%s: %d documents are final", name, final)
		}
	}
	// Nobody reads: it ends, and has ended when its sockets are closed.
	var failed bytes.Buffer
	if status := run([]string{"switch", "--port", "a", "--port", "b", "--json", "--stats-interval", "10ms"}, &closedPipe{}, &failed); status != exitFailed || !strings.Contains(failed.String(), "counters can't be written") {
		t.Errorf("nobody reads: status %d, %s", status, failed.String())
	}
	stacks := make([]byte, 1<<20)
	if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("(*Switch).Run")) {
		t.Error("the switch runs on without sockets")
	}
}
