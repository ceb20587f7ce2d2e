// Command write takes all measurements of package nicvalidate and writes the page. With -out
// it keeps them as a sweep's results (package bench/sweep), so that tasks of an array may
// share the work, and one that was done is not done again.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rdma/sluice/bench/internal/nicvalidate"
	"github.com/sluice-rdma/sluice/bench/sweep"
	"github.com/sluice-rdma/sluice/internal/outfile"
)

// options are the flags; those of a folder are as in sluice storm.
type options struct {
	page, first    string
	out, endpoint  string
	chunk, workers int
	index          string
	status         bool
}

func main() {
	var o options
	flag.StringVar(&o.page, "o", "", "page whose section to write, with nic-validation.md, its plot and its data beside it; standard output without")
	flag.StringVar(&o.first, "first", "", "file to append the first figures of new blind rows to")
	flag.StringVar(&o.out, "out", "", "keep figures in a directory, or s3://BUCKET/PREFIX, and take only missing ones")
	flag.StringVar(&o.endpoint, "endpoint", "", "URL of the object store, where -out is s3://BUCKET/PREFIX")
	flag.IntVar(&o.chunk, "chunk", 20, "figures a task of an array, with -out")
	flag.StringVar(&o.index, "index", "auto", "with -out, which tasks to run: auto, that of the environment, or all where there is none; K; or A-B")
	flag.BoolVar(&o.status, "status", false, "with -out, take nothing, and say what is missing")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "cores to use")
	flag.Parse()
	tasks, err := nicvalidate.Tasks()
	if err == nil {
		err = run(&o, tasks, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "validate-nic:", err)
		os.Exit(1)
	}
}

// run takes the figures that are not there, and writes the page if none is missing.
func run(o *options, tasks []nicvalidate.Task, w io.Writer) error {
	switch {
	case o.chunk < 1 || o.workers < 1:
		return fmt.Errorf("-chunk %d, -workers %d: give at least 1", o.chunk, o.workers)
	case o.out == "" && (o.status || o.index != "auto" || o.endpoint != ""):
		return errors.New("-status, -index and -endpoint go with -out: name the folder")
	}
	take := func(i int) ([]byte, error) { return tasks[i].Run() }
	if o.out != "" {
		folder, err := sweep.Open(o.out, o.endpoint)
		if err != nil {
			return err
		}
		chosen, err := sweep.ParseTasks(o.index, &sweep.Plan{Cells: len(tasks), Chunk: o.chunk})
		if err != nil {
			return err
		}
		take = func(i int) ([]byte, error) {
			return folder.Once("validate-nic "+tasks[i].Name, tasks[i].Check, func() ([]byte, error) {
				if k := i / o.chunk; o.status || k < chosen.First || k > chosen.Last {
					return nil, nil
				}
				return tasks[i].Run()
			})
		}
	}
	figures := make([][]byte, len(tasks))
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(o.workers)
	for i := range tasks {
		group.Go(func() (err error) {
			if ctx.Err() == nil {
				figures[i], err = take(i)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if missing := missingTasks(figures, o.chunk); missing != "" {
		_, err := fmt.Fprintf(w, "missing: --array=%s\n", missing)
		return err
	}
	return write(o, figures, w)
}

// missingTasks lists the tasks of an array that have not given all their figures.
func missingTasks(figures [][]byte, chunk int) string {
	var missing []int
	for i, f := range figures {
		if k := i / chunk; f == nil && (len(missing) == 0 || missing[len(missing)-1] != k) {
			missing = append(missing, k)
		}
	}
	return sweep.ArraySpec(missing)
}

func write(o *options, figures [][]byte, w io.Writer) error {
	results, clock, err := nicvalidate.Gather(figures)
	if err != nil {
		return err
	}
	if o.first != "" {
		if err := appendFirst(o.first, results); err != nil {
			return err
		}
	}
	var page strings.Builder
	if err := nicvalidate.Markdown(&page, results, clock); err != nil {
		return err
	}
	if o.page == "" {
		_, err := io.WriteString(w, page.String())
		return err
	}
	for name, text := range nicvalidate.Files() {
		var b bytes.Buffer
		if err := text(&b, results); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(o.page), name), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return outfile.WriteSection(o.page, nicvalidate.Section, page.String())
}

func appendFirst(name string, results []nicvalidate.Result) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = nicvalidate.WriteFirst(f, results)
	return errors.Join(err, f.Close())
}
