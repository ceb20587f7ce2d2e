package rxeguest

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestCPIO(t *testing.T) {
	var b bytes.Buffer
	c := &cpioWriter{w: &b}
	c.dir("etc")
	c.file("etc/motd", 0o644, []byte("hello"))
	c.symlink("bin", "etc")
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	header := func(ino, mode, links, size, name string) string {
		zero := "00000000"
		return "070701" + ino + mode + zero + zero + links + zero + size + strings.Repeat(zero, 4) + name + zero
	}
	// Header and name are filled to a multiple of four, as is the data: 110+4,
	// 110+9, 5, 110+4, 3, 110+11.
	want := header("00000000", "000041ED", "00000002", "00000000", "00000004") + "etc\x00" + zeros(2) +
		header("00000001", "000081A4", "00000001", "00000005", "00000009") + "etc/motd\x00" + zeros(1) + "hello" + zeros(3) +
		header("00000002", "0000A1FF", "00000001", "00000003", "00000004") + "bin\x00" + zeros(2) + "etc" + zeros(1) +
		header("00000000", "00000000", "00000001", "00000000", "0000000B") + "TRAILER!!!\x00" + zeros(3)
	want += zeros(512 - len(want)%512)
	if got := b.String(); got != want {
		t.Errorf("archive\n got %q\nwant %q", got, want)
	}
}

func TestCPIOKeepsFirstError(t *testing.T) {
	full := errors.New("full")
	w := &failingWriter{room: 150, err: full}
	c := &cpioWriter{w: w}
	c.file("a", 0o644, make([]byte, 100))
	w.room = 1 << 20
	c.file("b", 0o644, nil)
	if err := c.close(); !errors.Is(err, full) {
		t.Errorf("close: %v, want %v", err, full)
	}
}

type failingWriter struct {
	room int
	err  error
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if len(b) > w.room {
		return 0, w.err
	}
	w.room -= len(b)
	return len(b), nil
}
