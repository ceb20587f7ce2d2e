package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/internal/outfile"
)

// What a folder has: the plan and its cells, scenarios by a hash of their text, results
// by the cells' hashes, and what went wrong with cells that failed.
const (
	planFile     = "sweep.json"
	cellsFile    = "cells.jsonl"
	scenariosDir = "scenarios/"
	resultsDir   = "results/"
	failedDir    = "failed/"
)

// Folder is where a sweep is kept, on a file system that all machines share.
type Folder struct{ dir string }

// Dir is the folder of that name.
func Dir(name string) Folder { return Folder{name} }

func (f Folder) String() string { return f.dir }

func (f Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// get returns a file, and an error that is fs.ErrNotExist where there is none.
func (f Folder) get(name string) ([]byte, error) { return os.ReadFile(f.path(name)) }

// put makes a file, or replaces it, whole or not at all.
func (f Folder) put(name string, text []byte) error {
	path := f.path(name)
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

// remove removes a file, if it is there.
func (f Folder) remove(name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// made lists the hashes below a directory, with when each was made.
func (f Folder) made(dir string) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	err := filepath.WalkDir(f.path(dir), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the directory itself, or a temporary file that has its name now
		}
		hash, whole := strings.CutSuffix(filepath.Base(path), ".json")
		if err != nil || d.IsDir() || !whole || strings.HasPrefix(hash, ".") {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			out[hash] = info.ModTime()
		}
		return err
	})
	return out, err
}

// fileOf is the file of a hash below a directory: no directory gets too many.
func fileOf(dir, hash string) string { return dir + hash[:2] + "/" + hash + ".json" }

// Plan reads the folder's plan.
func (f Folder) Plan() (*Plan, error) {
	text, err := f.get(planFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: make a plan there by sluice sweep plan", f, planFile)
	}
	if err != nil {
		return nil, err
	}
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%s: %w: make the plan anew", f.path(planFile), err)
	}
	if p.Version != FormatVersion || p.Chunk < 1 || p.Cells < 1 {
		return nil, fmt.Errorf("%s: version %d, chunk %d, %d cells: it is of another program: make the plan anew", f.path(planFile), p.Version, p.Chunk, p.Cells)
	}
	return &p, nil
}

// cells are the plan's cells from an index on, up to before another, in order.
func (f Folder) cells(p *Plan, from, to int) iter.Seq2[*Cell, error] {
	return func(yield func(*Cell, error) bool) {
		text, err := f.get(cellsFile)
		if err != nil {
			yield(nil, err)
			return
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<24)
		n := 0
		for ; lines.Scan(); n++ {
			if n < from || n >= to {
				continue
			}
			var c Cell
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil || c.Index != n || len(c.Hash) < 2 {
				yield(nil, fmt.Errorf("%s:%d: is no cell: make the plan anew", f.path(cellsFile), n+1))
				return
			}
			if !yield(&c, nil) {
				return
			}
		}
		switch {
		case lines.Err() != nil:
			yield(nil, lines.Err())
		case n != p.Cells:
			yield(nil, fmt.Errorf("%s: has %d cells, and the plan %d: make the plan anew", f.path(cellsFile), n, p.Cells))
		}
	}
}
