package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Server and client over the user-space endpoint, on the loopback.
func TestPutAndGet(t *testing.T) {
	// Addresses of its own, for the tests of other packages.
	ends := []string{"soft:127.0.75.1", "soft:127.0.75.2"}
	dev, err := verbs.Open(ends[0])
	if err != nil {
		t.Skipf("no device %s here: %v", ends[0], err)
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	out := new(strings.Builder)
	if err := run([]string{"-d", ends[0], "-client-device", ends[1], "-n", "30", "try"}, out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "30 keys put and got, ") {
		t.Error(out)
	}
}

// A client that loses its connection at any of a put's requests puts and gets by a new one if it may, and else says
// so. A lock that it took or gave back before stays so.
func TestReconnect(t *testing.T) {
	s, err := newServer("soft:127.0.75.3", -1)
	if err != nil {
		t.Skipf("no device here: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(l) }()
	outages := 0
	ends := settings{device: "soft:127.0.75.4", engine: "timely", server: l.Addr().String(), gid: -1, reconnect: time.Minute, outage: func(time.Duration) { outages++ }}
	lose := func(c *client, after int) {
		f := verbs.CallFailure{Call: verbs.FailCompletion, QP: c.qp.Num(), After: uint64(after), Status: ib.WCRetryExcErr}
		if err := verbs.Bottom(c.dev).(verbs.CallFailer).FailCall(f); err != nil {
			t.Fatal(err)
		}
	}
	c, err := dial(ends)
	if err != nil {
		t.Fatal(err)
	}
	for after := range 4 { // lock, read, write, unlock
		key := fmt.Sprint("key ", after)
		lose(c, after)
		if err := c.put(key, []byte{byte(after)}); err != nil {
			t.Errorf("request %d lost: %v", after, err)
		}
		if got, err := c.get(key); err != nil || !bytes.Equal(got, []byte{byte(after)}) {
			t.Errorf("request %d lost: got %x, %v", after, got, err)
		}
		if held, err := c.swap(place(key, 0), 0, 0); err != nil || held != 0 {
			t.Errorf("request %d lost: the slot is locked by %#x, %v", after, held, err)
		}
	}
	if outages != 4 || c.lost != 4 {
		t.Errorf("%d outages and %d new connections, expected 4", outages, c.lost)
	}
	c.ends.reconnect = 0
	lose(c, 0)
	if err := c.put("key", nil); !errors.Is(err, ib.WCRetryExcErr) {
		t.Errorf("without reconnecting: %v", err)
	}
	if err := errors.Join(c.close(), l.Close(), <-served, s.close()); err != nil {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"put", "key"}, {"-reconnect", "-1s", "get", "x"}, {"-d", "soft:no-such-if0", "try"}, {"-cc", "reno", "-server", "127.0.0.1:1", "get", "x"}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// A record reads back as it was written; one of which a part is another's is torn.
func TestRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringN(1, 60, mostKey).Draw(t, "key")
		value := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "value")
		b := make([]byte, slotBytes-lockBytes)
		n, err := encode(b, key, value)
		if err != nil {
			t.Fatal(err)
		}
		gotKey, gotValue, err := decode(b)
		if err != nil || gotKey != key || !bytes.Equal(gotValue, value) {
			t.Fatalf("%q = %x came back as %q = %x, %v", key, value, gotKey, gotValue, err)
		}
		b[rapid.IntRange(0, n-1).Draw(t, "where")] ^= byte(rapid.IntRange(1, 255).Draw(t, "what"))
		if _, _, err := decode(b); !errors.Is(err, errTorn) {
			t.Fatalf("a changed record: %v", err)
		}
	})
	if _, _, err := decode(make([]byte, slotBytes-lockBytes)); err != nil {
		t.Errorf("an empty slot: %v", err)
	}
	for _, c := range []struct {
		key   string
		value int
	}{{"", 1}, {strings.Repeat("k", mostKey+1), 1}, {"k", mostValue + 1}} {
		if _, err := encode(make([]byte, slotBytes), c.key, make([]byte, c.value)); err == nil {
			t.Errorf("a key of %d bytes and a value of %d were taken", len(c.key), c.value)
		}
	}
}
