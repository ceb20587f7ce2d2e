package ownnet

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

func init() { Enter() }

// In it there is the loopback, which is up, and no other interface; what tests start is in it too.
func TestEnter(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("no right to a network namespace")
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if up := i.Flags&net.FlagUp != 0; up != (i.Name == "lo") {
			t.Errorf("%s is up: %v", i.Name, up)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestSame$", "-test.v")
	cmd.Env = append(os.Environ(), "OWNNET_PARENT="+own)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// A port that is taken outside is free here, and the other way round.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := exec.Command(self, "-test.run", "^TestListens$")
	other.Env = []string{"OWNNET_ADDRESS=" + l.Addr().String()} // without inside: it has one of its own
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSame is a process that TestEnter starts.
func TestSame(t *testing.T) {
	parent := os.Getenv("OWNNET_PARENT")
	if parent == "" {
		t.Skip("TestEnter starts it")
	}
	if own, err := os.Readlink("/proc/self/ns/net"); err != nil || own != parent {
		t.Errorf("%s, %v: expected its parent's, %s", own, err, parent)
	}
}

// TestListens is a process that TestEnter starts.
func TestListens(t *testing.T) {
	address := os.Getenv("OWNNET_ADDRESS")
	if address == "" {
		t.Skip("TestEnter starts it")
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
