package infile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sluice-rdma/sluice/units"
)

// The sizes up to which files are read.
const (
	// MaxText is of what people write: scenarios, programs, settings, fault schedules.
	MaxText = 4 * units.MiB
	// MaxDocument is of what programs write: results, reports, lists of cells.
	MaxDocument = units.GiB
	// MaxRecord is of one task's result in a store.
	MaxRecord = 64 * units.MiB
)

// TooLarge is the error for what goes beyond a limit of size.
type TooLarge struct {
	Name string // what was read; may be empty
	Most units.Bytes
}

func (e *TooLarge) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("it has more than %v, which is the most that is read", e.Most)
	}
	return fmt.Sprintf("%s has more than %v, which is the most that is read", e.Name, e.Most)
}

// Read reads a whole file of up to most bytes. Pipes and standard input, as /dev/stdin, are
// read to the limit, too.
func Read(name string, most units.Bytes) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	size := units.Bytes(0)
	if info, err := f.Stat(); err == nil {
		if info.IsDir() {
			return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
		}
		size = units.Bytes(info.Size())
	}
	if size > most {
		return nil, &TooLarge{name, most}
	}
	text, err := readAll(f, size, most)
	if large := (*TooLarge)(nil); errors.As(err, &large) {
		large.Name = name
	}
	return text, err
}

// All reads r to its end, up to most bytes. Its TooLarge has no name.
func All(r io.Reader, most units.Bytes) ([]byte, error) { return readAll(r, 0, most) }

// readAll reads to the end. size is how much to expect, which may be wrong.
func readAll(r io.Reader, size, most units.Bytes) ([]byte, error) {
	text := make([]byte, 0, min(size, most)+512)
	for {
		n, err := r.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case units.Bytes(len(text)) > most:
			return nil, &TooLarge{"", most}
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		case len(text) == cap(text):
			text = append(text, 0)[:len(text)]
		}
	}
}

// Head reads up to most bytes of an open file, from its beginning, and says how many it has.
func Head(f *os.File, most units.Bytes) (text []byte, size units.Bytes, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err = io.ReadAll(io.NewSectionReader(f, 0, int64(most)))
	return text, max(units.Bytes(info.Size()), units.Bytes(len(text))), err
}
