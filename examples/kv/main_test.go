package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

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

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"put", "key"}, {"-d", "soft:no-such-if0", "try"}, {"-cc", "reno", "-server", "127.0.0.1:1", "get", "x"}} {
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
