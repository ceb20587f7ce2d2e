package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"
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

// Folder is where a sweep is kept, so that all machines see it: a directory of a file
// system, or objects of an object store.
type Folder struct {
	name string
	store
}

// store keeps files by names with slashes. Its functions may be called concurrently, by
// processes too.
type store interface {
	// get returns a file, and an error that is fs.ErrNotExist where there is none.
	get(name string) ([]byte, error)
	has(name string) (bool, error)
	// put makes a file, or replaces it, whole or not at all.
	put(name string, text []byte) error
	// add makes a file, whole or not at all. One that is there has the same text.
	add(name string, text []byte) error
	// remove removes a file, if it is there.
	remove(name string) error
	// list lists the files below a directory, by the last part of their names, with when
	// each was made.
	list(dir string) (map[string]time.Time, error)
	// path is what a reader calls a file.
	path(name string) string
}

// Dir is the directory of that name.
func Dir(name string) Folder { return Folder{name, directory(name)} }

// Open is the folder that a user names: a directory, or s3://BUCKET/PREFIX in an object
// store, at an endpoint (http or https, HOST[:PORT]; empty: by the variables
// AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL, and Amazon's without them). Credentials and
// region are those of Amazon's tools. It may be called before there is anything.
func Open(name, endpoint string) (Folder, error) {
	if !isObjects(name) {
		if endpoint != "" {
			return Folder{}, fmt.Errorf("an endpoint, and %s is a directory: an object store's folder is s3://BUCKET/PREFIX", name)
		}
		return Dir(name), nil
	}
	o, err := openObjects(name, endpoint)
	return Folder{name, o}, err
}

func (f Folder) String() string { return f.name }

// made lists the hashes below a directory, with when each was made.
func (f Folder) made(dir string) (map[string]time.Time, error) {
	files, err := f.list(dir)
	out := make(map[string]time.Time, len(files))
	for name, at := range files {
		if hash, whole := strings.CutSuffix(name, ".json"); whole {
			out[hash] = at
		}
	}
	return out, err
}

// fileOf is the file of a hash below a directory: no directory gets too many.
func fileOf(dir, hash string) string { return dir + hash[:2] + "/" + hash + ".json" }

// Has reports whether a cell has a result.
func (f Folder) Has(c *Cell) (bool, error) { return f.has(fileOf(resultsDir, c.Hash)) }

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
