package sweep

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/units"
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

// Folder keeps a sweep where all machines see it: a directory of a file
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
	// each was made. More than most are an error.
	list(dir string, most int) (map[string]time.Time, error)
	// path returns a reader's name for a file.
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

// Waiting returns the folder with say, which is told what an object store has not answered
// for two seconds. It may be called concurrently.
func (f Folder) Waiting(say func(what string)) Folder {
	if o, ok := f.store.(*objects); ok {
		told := *o
		told.waiting = say
		f.store = &told
	}
	return f
}

// mostOf is up to how many bytes a file of the folder is read.
func mostOf(name string) units.Bytes {
	switch {
	case name == cellsFile:
		return 4 * units.GiB // of maxCells
	case name == planFile, strings.HasPrefix(name, failedDir), strings.HasPrefix(name, scenariosDir):
		return infile.MaxText
	}
	return infile.MaxRecord
}

func tooManyFiles(dir string, most int) error {
	return fmt.Errorf("%s has more than %d files, far more than the plan has cells: plan in another folder", dir, most)
}

// made lists the hashes below a directory, with when each was made. There may be results of
// earlier plans.
func (f Folder) made(dir string, p *Plan) (map[string]time.Time, error) {
	files, err := f.list(dir, 10*p.Cells+100_000)
	out := make(map[string]time.Time, len(files))
	for name, at := range files {
		if hash, whole := strings.CutSuffix(name, ".json"); whole {
			out[hash] = at
		}
	}
	return out, err
}

// isHash reports whether a text that was read is a hash of that number of hexadecimal
// digits: a path is made of it.
func isHash(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}

// fileOf is the file of a hash below a directory: no directory gets too many.
func fileOf(dir, hash string) string { return dir + hash[:2] + "/" + hash + ".json" }

// Has reports whether a cell has a result that is its own and whole.
func (f Folder) Has(c *Cell) (bool, error) {
	s, err := f.Result(c)
	if errors.As(err, new(*Misfit)) {
		return false, nil
	}
	return s != nil, err
}

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
	if err := infile.JSON(text, &p); err != nil {
		return nil, fmt.Errorf("%s: %w: make the plan anew", f.path(planFile), err)
	}
	if p.Version != formatVersion || p.Chunk < 1 || p.Cells < 1 || p.Cells > maxCells {
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
			if err := infile.JSON(lines.Bytes(), &c); err != nil || c.Index != n || !c.named() {
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

// named reports whether the files that a cell names can be the folder's: cells are read.
func (c *Cell) named() bool {
	text, yaml := strings.CutSuffix(c.Text, ".yaml")
	return isHash(c.Hash, 32) && yaml && isHash(text, 16)
}
