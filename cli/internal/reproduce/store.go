package reproduce

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/outfile"
)

// store keeps results in a directory: each as sluice run --json writes it, with the
// program that made it as the version, and in a file of that program's own, so that
// several versions can share a directory.
type store struct {
	dir     string
	program string
	// foreign also takes what other programs made.
	foreign bool
}

// DirError says that finished runs can't be kept in a directory.
type DirError struct{ error }

// Unwrap is for errors.Is.
func (e DirError) Unwrap() error { return e.error }

// open makes the directory if need be, and sees that files can be made there: a run
// takes too long to find out after it.
func (s *store) open() error {
	err := os.MkdirAll(s.dir, 0o777)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(s.dir, "*.part"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return DirError{fmt.Errorf("finished runs can't be kept: %w", err)}
	}
	return nil
}

// file is where this program keeps the result of a job.
func (s *store) file(key string) string {
	sum := sha256.Sum256([]byte(s.program))
	return filepath.Join(s.dir, key+"-"+hex.EncodeToString(sum[:])[:8]+".json")
}

// get returns a result that is kept, nil if there is none of this program, or, if
// foreign, of any.
func (s *store) get(key string) (*results.Result, error) {
	names := []string{s.file(key)}
	if s.foreign {
		others, err := fs.Glob(os.DirFS(s.dir), key+"-*.json") // the directory is no pattern
		if err != nil {
			return nil, err
		}
		for _, name := range others {
			names = append(names, filepath.Join(s.dir, name))
		}
	}
	for _, name := range names {
		d, err := results.LoadJSON(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("%w: remove the file to have it made again", err)
		case len(d.Results) != 1 || len(d.Results[0].Systems) != 1:
			return nil, fmt.Errorf("%s holds no result of one system: remove the file to have it made again", name)
		case d.Environment.Sluice == s.program || s.foreign:
			return d.Results[0], nil
		}
	}
	return nil, nil
}

// has reports whether get would return a result.
func (s *store) has(key string) (bool, error) {
	r, err := s.get(key)
	return r != nil, err
}

// put keeps a result: whole or not at all.
func (s *store) put(key string, d *results.Document) error {
	d.Environment.Sluice = s.program
	return outfile.Write(s.file(key), func(w io.Writer) error { return results.WriteJSON(w, d) })
}
