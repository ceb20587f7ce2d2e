package reproduce

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-rdma/sluice/bench"
)

// store keeps results in a directory: each as sluice run --json writes it, with the
// program that made it as the version.
type store struct {
	dir     string
	program string
	// foreign also takes what other programs made.
	foreign bool
}

// get returns a result that is kept, nil if there is none of this program.
func (s *store) get(key string) (*bench.Result, error) {
	d, err := bench.LoadJSON(filepath.Join(s.dir, key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: remove the file to have it made again", err)
	case len(d.Results) != 1 || len(d.Results[0].Systems) != 1:
		return nil, fmt.Errorf("%s holds no result of one system: remove the file to have it made again", filepath.Join(s.dir, key))
	case d.Environment.Sluice != s.program && !s.foreign:
		return nil, nil
	}
	return d.Results[0], nil
}

// has reports whether get would return a result.
func (s *store) has(key string) (bool, error) {
	r, err := s.get(key)
	return r != nil, err
}

// put keeps a result: whole or not at all.
func (s *store) put(key string, d *bench.Document) error {
	d.Environment.Sluice = s.program
	f, err := os.CreateTemp(s.dir, key+".*.part")
	if err != nil {
		return err
	}
	err = errors.Join(bench.WriteJSON(f, d), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, key))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
