package ownnet

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// inside is the variable that says that a process is in one. Tests that keep variables of ours from what they start
// leave it.
const inside = "OWN_TEST_NETWORK"

// Enter executes the program anew in a network namespace that has the loopback alone, once: what it starts stays there. It is
// for an init function of tests, which runs on the main thread; a namespace is a thread's, and execution leaves no other.
// Without the right to a namespace, as an ordinary user, it returns, and so it does in a command that a test has made of its
// program under another name.
func Enter() {
	if os.Getenv(inside) != "" || !strings.HasSuffix(os.Args[0], ".test") {
		return
	}
	self, err := os.Executable()
	if err != nil || unix.Unshare(unix.CLONE_NEWNET) != nil {
		return
	}
	if err := loopback(); err != nil {
		fmt.Fprintln(os.Stderr, "ownnet: the loopback of a new network namespace:", err)
		os.Exit(1)
	}
	err = unix.Exec(self, os.Args, append(os.Environ(), inside+"=own"))
	fmt.Fprintln(os.Stderr, "ownnet: execute the tests again:", err)
	os.Exit(1)
}

// loopback sets the loopback up.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
