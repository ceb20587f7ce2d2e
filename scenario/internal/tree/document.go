package tree

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/internal/field"
)

// Document is a scenario as it is read: where each key was written, and what is wrong
// so far. What is found wrong after decoding can so still be pointed at.
type Document struct {
	// Errs holds the errors, in the order in which they were found.
	Errs Errors

	// Notes names what was read otherwise than one may think, in the order of
	// reading.
	Notes []string

	file Pos // where the whole begins
	at   map[string]Pos
}

// NewDocument returns a document of which nothing has been read; errors call it file.
func NewDocument(file string) *Document {
	return &Document{file: Pos{File: file, Line: 1}, at: map[string]Pos{}}
}

// Fail notes that the value at path is wrong.
func (d *Document) Fail(path, format string, args ...any) {
	d.fail(d.Pos(path), path, fmt.Sprintf(format, args...))
}

// FailAt notes what is wrong at a place of its own, such as a line of another file, by the
// key that it has there.
func (d *Document) FailAt(pos Pos, key, msg string) { d.fail(pos, key, msg) }

// Note notes how something at a place was read.
func (d *Document) Note(pos Pos, msg string) {
	if note := pos.String() + ": " + msg; !slices.Contains(d.Notes, note) {
		d.Notes = append(d.Notes, note)
	}
}

func (d *Document) fail(pos Pos, key, msg string) {
	d.Errs = append(d.Errs, &Error{Pos: pos, Key: key, Msg: msg})
}

// Pos returns where path was written, or what contains it.
func (d *Document) Pos(path string) Pos {
	for path != "" {
		if p, ok := d.at[path]; ok {
			return p
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return d.file
}

// Given reports whether the document says anything about path itself.
func (d *Document) Given(path string) bool {
	_, ok := d.at[path]
	return ok && path != ""
}

// Decode fills what pointer points to from a tree, strictly: a key that it does not have
// is an error. path is where the tree stands.
func (d *Document) Decode(n *Node, path string, pointer any) {
	(&decoder{Document: d}).decode(n, path, reflect.ValueOf(pointer).Elem())
}

// Check notes each setting of *config, the mapping at path, that is out of its range, by the tags
// of its fields (package field). It returns how many errors there were before.
func (d *Document) Check(path string, config any) (before int) {
	before = len(d.Errs)
	for _, f := range field.Faults(config) {
		if at := Join(path, f.Key); f.Missing && !d.Given(at) {
			d.Fail(at, "it is missing: %s", f.Want)
		} else {
			d.Fail(at, "%s", f.Fault())
		}
	}
	return before
}

// Want reports whether a node is of a kind, and fails if not.
func (d *Document) Want(n *Node, path string, kind Kind) bool {
	if n.Kind != kind {
		d.Fail(path, "expected %v, got %v", kind, n.Kind)
		return false
	}
	return true
}

// Join returns the path of a key of the mapping at path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
