package capture

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
)

// How much a compressed capture may stand for, so that a small file is read or refused in
// seconds. Captures of zeros in frames of 4 KiB are some 165 times as long as their file, and
// take 25 bytes of it a frame.
const (
	mostExpansion = 300      // bytes for each of the file's
	freeBytes     = 64 << 20 // that no file is too short for
	freeFrames    = 1 << 20
)

// unpacker unpacks a gzipped capture as far as its length allows.
type unpacker struct {
	file     counter // as it is read by
	unzipped *gzip.Reader
	bytes    int64
}

// counter counts what is read.
type counter struct {
	in    io.Reader
	bytes int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.bytes += int64(n)
	return n, err
}

func newUnpacker(in io.Reader) (*unpacker, error) {
	u := &unpacker{file: counter{in: in}}
	var err error
	u.unzipped, err = gzip.NewReader(bufio.NewReader(&u.file))
	return u, err
}

// Read implements io.Reader.
func (u *unpacker) Read(b []byte) (int, error) {
	n, err := u.unzipped.Read(b)
	if u.bytes += int64(n); u.bytes > freeBytes+mostExpansion*u.file.bytes {
		return 0, fmt.Errorf("it unpacks to more than %d times its length: unpack it with gunzip first, if it is right", mostExpansion)
	}
	return n, err
}

// frames is the number of frames the file may have so far.
func (u *unpacker) frames() int64 { return freeFrames + u.file.bytes }
