package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/internal/infile"
)

const one = "scenarios: [quickstart]\nseeds: 2\nparameters: [{key: duration, values: [0.1ms]}]\n"

// firstCell is the plan's first cell.
func firstCell(f Folder, p *Planned) (first *Cell) {
	for c := range f.cells(&p.Plan, 0, 1) {
		first = c
	}
	return first
}

// TestMisfits: a result that is not whole, or another's, is not done: status names it, merge
// refuses it, and run replaces it.
func TestMisfits(t *testing.T) {
	f, p := planned(t, one)
	c := firstCell(f, p)
	name := fileOf(resultsDir, c.Hash)
	runAll(t, f, 1)
	whole, err := f.get(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string][]byte{
		"empty":            nil,
		"an empty object":  []byte("{}"),
		"truncated":        whole[:len(whole)/2],
		"cut by a byte":    whole[:len(whole)-2],
		"twice":            append(bytes.Clone(whole), whole...),
		"of another seed":  bytes.Replace(whole, []byte(`"seed": 1`), []byte(`"seed": 2`), 1),
		"of another":       bytes.Replace(whole, []byte(`"scenario": "quickstart"`), []byte(`"scenario": "other"`), 1),
		"of a version":     bytes.Replace(whole, []byte(`"version": `), []byte(`"version": 1`), 1),
		"without a system": []byte(`{"version":2,"results":[{"scenario":"quickstart","seed":1,"systems":[null]}]}`),
		"of nothing":       []byte(`{"version":2,"results":[null]}`),
		"of objects":       []byte(`{"version":2,"results":[` + strings.Repeat("{},", 1<<20) + `{}]}`),
	} {
		if err := f.put(name, text); err != nil {
			t.Fatal(err)
		}
		s, err := f.Status()
		if err != nil || s.Done != 1 || s.Missing != 1 || s.Misfit != 1 || s.Array != "0" || !strings.Contains(s.Misfits[0], c.Hash) {
			t.Errorf("%s: status %+v, %v", what, s, err)
		}
		for _, partial := range []bool{false, true} {
			if _, err := Merge(f, partial, func(*Row) error { return nil }, nil); !errors.As(err, new(*Misfit)) {
				t.Errorf("%s: merged, %v", what, err)
			}
		}
		if has, err := f.Has(c); has || err != nil {
			t.Errorf("%s: has %v, %v", what, has, err)
		}
		if done := runAll(t, f, 1); done.Ran != 1 || done.Before != 1 || done.Failed != 0 {
			t.Errorf("%s: run %+v", what, done)
		}
		if again, err := f.get(name); err != nil || !bytes.Equal(again, whole) {
			t.Errorf("%s: the result was not made again: %v", what, err)
		}
	}
}

// TestNamesThatCellsHave: paths are made of what cells.jsonl says, so it may say nothing else
// than what a plan does.
func TestNamesThatCellsHave(t *testing.T) {
	f, p := planned(t, one)
	c := firstCell(f, p)
	lines, err := f.get(cellsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct{ is, was string }{
		{"../../../x", c.Hash},
		{"/etc/passwd", c.Hash},
		{"..", c.Hash},
		{"", c.Hash},
		{strings.ToUpper(c.Hash[:31]) + "G", c.Hash},
		{c.Hash + "00", c.Hash},
		{"../sweep.json", c.Text},
		{"../../../../etc/passwd", c.Text},
		{strings.Repeat("..", 8) + ".yaml", c.Text},
	} {
		if err := f.put(cellsFile, bytes.Replace(lines, []byte(`"`+bad.was+`"`), []byte(`"`+bad.is+`"`), 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), f, Options{Tasks: Tasks{0, 1}}); err == nil || !strings.Contains(err.Error(), "cells.jsonl:1: is no cell") {
			t.Errorf("%q is taken: %v", bad.is, err)
		}
		if _, err := f.Status(); err == nil {
			t.Errorf("%q is taken by status", bad.is)
		}
	}
	if all, err := os.ReadDir(f.path("")); err != nil || len(all) != 3 { // the plan, cells, scenarios
		t.Errorf("%v, %v", all, err)
	}
	if left, err := os.ReadDir(filepath.Dir(f.path(""))); err != nil || len(left) > 1 {
		t.Errorf("something stands beside the folder: %v, %v", left, err)
	}
}

// hostile is a folder at a server, which is given up after a tenth of a second.
func hostile(t *testing.T, serve http.HandlerFunc) Folder {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "here"} {
		t.Setenv(name, value)
	}
	f, err := Open("s3://bkt/x", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := f.store.(*objects) //nolint:forcetypeassert // it was opened as one
	o.patience, o.notice = 100*time.Millisecond, 10*time.Millisecond
	return f
}

func listing(w http.ResponseWriter, next string, keys ...string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>", next)
	for _, key := range keys {
		fmt.Fprintf(w, "<Contents><Key>%s</Key><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>", key)
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// TestHostileServers: whatever a server does, each request to it ends, within memory that is
// bounded.
func TestHostileServers(t *testing.T) {
	until := func(r *http.Request) { <-r.Context().Done() } // the client gives up
	pages := new(atomic.Int64)
	for name, serve := range map[string]http.HandlerFunc{
		"never answers": func(_ http.ResponseWriter, r *http.Request) { until(r) },
		"closes at once": func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		},
		"closes within the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("ETag", `"1"`)
			_, _ = w.Write([]byte("{"))
			panic(http.ErrAbortHandler)
		},
		"stalls within the body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			until(r)
		},
		"has a body without end": func(w http.ResponseWriter, r *http.Request) {
			block := bytes.Repeat([]byte(" "), 1<<16)
			for r.Context().Err() == nil {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		},
		"fails always":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"answers with no XML":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<<<")) },
		"lists one page always": func(w http.ResponseWriter, _ *http.Request) { listing(w, "next", "x/results/ab/ab.json") },
		"lists empty pages":     func(w http.ResponseWriter, _ *http.Request) { listing(w, fmt.Sprint(pages.Add(1))) },
		"lists names without end": func(w http.ResponseWriter, _ *http.Request) {
			n := pages.Add(1)
			var keys []string
			for i := range 1000 {
				keys = append(keys, fmt.Sprintf("x/results/%d.json", 1000*n+int64(i)))
			}
			listing(w, fmt.Sprint(n), keys...)
		},
		"redirects to itself": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := hostile(t, serve)
			used := infile.Allocated(func() {
				if _, err := f.get(planFile); err == nil && !strings.HasPrefix(name, "lists") && name != "answers with no XML" {
					t.Error("a file came")
				}
				if _, err := f.list(resultsDir, 5000); err == nil {
					t.Error("a list came")
				}
				if _, err := f.Plan(); err == nil {
					t.Error("a plan came")
				}
			})
			if used > infile.Budget {
				t.Errorf("%v were allocated", used)
			}
		})
	}
}

// TestWaiting: who waits for a server is told what for.
func TestWaiting(t *testing.T) {
	f := hostile(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	said := make(chan string, 10)
	f = f.Waiting(func(what string) { said <- what })
	if _, err := f.Plan(); err == nil || !strings.Contains(err.Error(), "the server does not answer") {
		t.Errorf("got %v", err)
	}
	if what := <-said; what != "s3://bkt/x/sweep.json" {
		t.Errorf("waiting for %q", what)
	}
}
