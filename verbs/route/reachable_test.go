package route

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
)

// TestReachable holds which answers of the kernel say that packets can't leave.
func TestReachable(t *testing.T) {
	no := func(e syscall.Errno) error { return fmt.Errorf("the route: %w", e) }
	for _, c := range []struct {
		name string
		way  Way
		err  error // of the kernel
		want error
		away bool // the source is no address here
	}{
		{"a route", Way{}, nil, nil, false},
		{"none", Way{}, no(syscall.ENETUNREACH), syscall.ENETUNREACH, false},
		{"prohibited", Way{}, no(syscall.EACCES), syscall.EACCES, false},
		{"a blackhole", Way{}, no(syscall.EINVAL), syscall.EINVAL, false},
		{"unreachable", Way{}, no(syscall.EHOSTUNREACH), syscall.EHOSTUNREACH, false},
		{"a broadcast", Way{ToMany: true}, nil, syscall.ENETUNREACH, false},
		{"another namespace", Way{}, no(syscall.ENETUNREACH), nil, true},
		{"no netlink", Way{}, no(syscall.EPERM), nil, false},
		{"another system", Way{}, verbs.ErrNotSupported, nil, false},
	} {
		err := reachable(addr("10.9.2.1"), addr("10.9.2.2"), "", func(peer, _ netip.Addr, _ string) (Way, error) {
			if peer == addr("10.9.2.1") {
				return Way{Itself: !c.away}, nil
			}
			return c.way, c.err
		})
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestNoHostsAddress holds that addresses that no host has are refused on every device.
func TestNoHostsAddress(t *testing.T) {
	dev, err := verbs.Open("sim:lab/h0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dev.Close() }() // nothing of it is used
	for _, a := range []string{"0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:255.255.255.255", "::ffff:239.1.2.3"} {
		if err := Reachable(dev, 1, netip.Addr{}, addr(a)); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v", a, err)
		}
	}
	if err := Reachable(dev, 1, netip.Addr{}, addr("192.0.2.1")); err != nil {
		t.Error(err)
	}
}
