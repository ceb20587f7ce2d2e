package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"runtime/metrics"
	"testing"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// section is the header of a pcapng section, little endian.
func section() []byte {
	return words(magicSection, 28, orderMagic, 1, 0xffffffff, 0xffffffff, 28)
}

func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// zeros is a file of which head is the beginning and zeros, compressed to next to
// nothing, the rest.
func zeros(t *testing.T, head []byte, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(head); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for ; n > 0; n -= len(block) {
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Small files that stand for large frames, blocks or tables are refused at the first of
// them.
func TestLimits(t *testing.T) {
	const huge = 0xf0000000
	interfaces := section()
	for range 2 * maxInterfaces {
		interfaces = append(interfaces, words(blockInterface, 20, 1, 0, 20)...)
	}
	for name, file := range map[string][]byte{
		"pcap frame":       zeros(t, words(magicMicroseconds, 4<<16|2, 0, 0, 0xffffffff, 1, 0, 0, huge, huge), 64<<20),
		"pcapng frame":     zeros(t, append(append(section(), words(blockInterface, 20, 1, 0, 20)...), words(6, huge, 0, 0, 0, huge-32, huge-32)...), 64<<20),
		"pcapng block":     zeros(t, append(section(), words(0xbad, huge)...), 64<<20),
		"pcapng, no block": append(section(), words(6, 8, 8)...),
		"interfaces":       interfaces,
	} {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			r, err := NewReader(bytes.NewReader(file))
			for err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotCapture) || errors.Is(err, io.EOF) {
				t.Errorf("%v", err)
			}
			if got := allocated() - before; got > 8<<20 {
				t.Errorf("%d MiB were allocated for a file of %d KiB", got>>20, len(file)>>10)
			}
		})
	}
}

// allocated is the number of bytes this process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A file that unpacks to more than a capture's would is refused before it takes seconds.
func TestUnpacking(t *testing.T) {
	for name, c := range map[string]struct {
		head []byte
		n    int
		good bool
	}{
		"empty frames":        {words(magicMicroseconds, 4<<16|2, 0, 0, 0xffffffff, 1), 1 << 28, false},
		"frames of zeros":     {words(magicMicroseconds, 4<<16|2, 0, 0, 0xffffffff, 1, 0, 0, 1<<17, 1<<17), 1 << 28, false},
		"a few frames":        {words(magicMicroseconds, 4<<16|2, 0, 0, 0xffffffff, 1), 1 << 20, true},
		"blocks without ends": {section(), 1 << 28, false},
	} {
		file := zeros(t, c.head, c.n)
		infile.Within(t, func() {
			r, err := NewReader(bytes.NewReader(file))
			n := 0
			for ; err == nil; n++ {
				_, err = r.Next()
			}
			if good := errors.Is(err, io.EOF); good != c.good {
				t.Errorf("%s: after %d frames: %v", name, n, err)
			}
		})
	}
}
