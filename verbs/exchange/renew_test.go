package exchange

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// renewing returns two ends over TCP that have agreed on renewals.
func renewing(t *testing.T) (client, server *Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	client, server = New(a, true, 10*time.Second), New(b, false, 10*time.Second)
	both(t, client.Renew, server.Renew)
	return client, server
}

// both runs what two ends do at once.
func both(t *testing.T, a, b func() error) {
	t.Helper()
	done := make(chan error)
	go func() { done <- a() }()
	if err := errors.Join(b(), <-done); err != nil {
		t.Fatal(err)
	}
}

// One end asks for new connections while the other waits in a barrier, looks now and then, or asks
// as well. The barriers after that are those of both.
func TestRenew(t *testing.T) {
	client, server := renewing(t)
	dest := Dest{GID: netip.MustParseAddr("192.0.2.1")}
	barrier := func(c *Conn) func() error {
		return func() error { _, err := c.Swap(dest); return err }
	}
	waits := func(c *Conn) func() error {
		return func() error {
			if err := barrier(c)(); !errors.Is(err, ErrRenewal) {
				return errors.Join(err, errors.New("the barrier is no renewal"))
			}
			return c.Renew()
		}
	}
	looks := func(c *Conn) func() error {
		return func() error {
			for {
				if asked, err := c.Asked(); err != nil || asked {
					return errors.Join(err, c.Renew())
				}
			}
		}
	}
	for name, do := range map[string][2]func() error{
		"the client waits":  {waits(client), server.Renew},
		"the server waits":  {client.Renew, waits(server)},
		"the client looks":  {looks(client), server.Renew},
		"the server looks":  {client.Renew, looks(server)},
		"both ask":          {client.Renew, server.Renew},
		"nobody does again": {barrier(client), barrier(server)},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, do[0], do[1])
			both(t, barrier(client), barrier(server))
		})
	}
	// A barrier that one end sees coming is the next that it enters, or void after a renewal.
	entered := make(chan error, 1)
	go func() { entered <- barrier(client)() }()
	for server.ahead == nil {
		if asked, err := server.Asked(); asked || err != nil {
			t.Fatal(asked, err)
		}
	}
	if err := errors.Join(barrier(server)(), <-entered); err != nil {
		t.Fatal(err)
	}
	go func() { entered <- waits(client)() }()
	for server.ahead == nil {
		if asked, err := server.Asked(); asked || err != nil {
			t.Fatal(asked, err)
		}
	}
	if err := errors.Join(server.Renew(), <-entered); err != nil {
		t.Fatal(err)
	}
	counts := make(chan uint64, 1)
	go func() { n, _ := client.SwapCount(7); counts <- n }()
	if n, err := server.SwapCount(9); n != 7 || err != nil || <-counts != 9 {
		t.Errorf("count %d, %v", n, err)
	}
}
