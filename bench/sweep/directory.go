package sweep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/outfile"
)

// directory is a store in a file system that all machines share.
type directory string

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

func (d directory) get(name string) ([]byte, error) {
	return infile.Read(d.path(name), mostOf(name))
}

func (d directory) has(name string) (bool, error) {
	_, err := os.Stat(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d directory) put(name string, text []byte) error {
	path := d.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	file, err := outfile.Create(path)
	if err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		file.Abort()
		return err
	}
	return file.Commit()
}

// add replaces what another process made meanwhile: of one hash, it is the same.
func (d directory) add(name string, text []byte) error { return d.put(name, text) }

func (d directory) remove(name string) error {
	if err := os.Remove(d.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d directory) list(dir string, most int) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	err := filepath.WalkDir(d.path(dir), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the directory itself, or a temporary file that has its name now
		}
		name := filepath.Base(path)
		if err != nil || e.IsDir() || strings.HasPrefix(name, ".") {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			out[name] = info.ModTime()
		}
		if len(out) > most {
			return tooManyFiles(d.path(dir), most)
		}
		return err
	})
	return out, err
}
