package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/sweep"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/verbs/storm"
)

// stormFolder is where what many seeds gave is kept, for tasks of an array to share.
type stormFolder struct {
	name, endpoint string
	chunk          int
	index          string
	status         bool
}

func (f *stormFolder) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.name, "out", "", "keep what seeds gave in a `DIR`, or s3://BUCKET/PREFIX, and run only those that are not there")
	flags.StringVar(&f.endpoint, "endpoint", "", "`URL` of the object store, where --out is s3://BUCKET/PREFIX (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, Amazon's)")
	flags.IntVar(&f.chunk, "chunk", 1000, "`NUMBER` of seeds a task of an array, with --out")
	flags.StringVar(&f.index, "index", "auto", "with --out, which `TASKS` to run: auto, that of the environment, or all where there is none; K; or A-B")
	flags.BoolVar(&f.status, "status", false, "with --out, run nothing, and say what is there")
}

// check looks at flags that mean something with --out alone, or nothing with it.
func (f *stormFolder) check(c *cobra.Command, o *stormOptions) error {
	if f.name == "" {
		for _, flag := range []string{"endpoint", "chunk", "index", "status"} {
			if c.Flags().Changed(flag) {
				return fmt.Errorf("--%s goes with --out: name the folder", flag)
			}
		}
		return nil
	}
	switch {
	case o.faults != "":
		return errors.New("--faults with --out: a file of faults is for one seed")
	case o.capture != "":
		return errors.New("--write with --out: run the seed that failed by itself, with --seed")
	case f.chunk < 1:
		return fmt.Errorf("--chunk %d: give at least 1", f.chunk)
	case o.seeds > maxKeptSeeds:
		return fmt.Errorf("--seeds %d: with --out up to %d", o.seeds, maxKeptSeeds)
	}
	return nil
}

// maxKeptSeeds keeps the number of tasks within what arrays count.
const maxKeptSeeds = 1_000_000_000

// sum adds the results of tasks to d: the folder's, and, unless only the status is asked
// for, those of the others, which run runs. It ends early when ctx does.
func (f *stormFolder) sum(ctx context.Context, d *stormDocument, c storm.Config, seeds uint64, run func(c storm.Config, n uint64) (*stormDocument, error)) error {
	folder, err := sweep.Open(f.name, f.endpoint)
	if err != nil {
		return usageError{err}
	}
	folder = folder.Waiting(sayWaiting(os.Stderr))
	tasks, err := sweep.ParseTasks(f.index, &sweep.Plan{Cells: int(seeds), Chunk: f.chunk})
	if err != nil {
		return usageError{err}
	}
	d.Folder = f.name
	var missing []int
	for k := tasks.First; k <= tasks.Last; k++ {
		begin := uint64(k) * uint64(f.chunk)
		n := min(uint64(f.chunk), seeds-begin)
		task := c
		task.Seed += begin
		one, err := f.task(folder, &task, n, func() (*stormDocument, error) {
			if f.status || ctx.Err() != nil {
				return nil, nil
			}
			return run(task, n)
		})
		switch {
		case errors.As(err, new(*sweep.Misfit)):
			d.Misfits = append(d.Misfits, err.Error())
			missing = append(missing, k)
		case err != nil:
			return err
		case one == nil:
			missing = append(missing, k)
		default:
			d.add(one)
		}
	}
	d.Missing = sweep.ArraySpec(missing)
	return nil
}

// task returns what a task gave; if the folder does not have it, what run gives, which it
// then has. One that was interrupted is nil, and not kept.
func (f *stormFolder) task(folder sweep.Folder, c *storm.Config, n uint64, run func() (*stormDocument, error)) (*stormDocument, error) {
	essence := fmt.Sprintf("storm %s shim %q processes %d span %v grace %v seeds %d from %d", c.Provider, c.Shim, c.Processes, c.Span, c.Grace, n, c.Seed)
	var d *stormDocument
	check := func(text []byte) error {
		d = new(stormDocument)
		if err := infile.JSON(text, d); err != nil {
			return err
		}
		return d.of(c, n)
	}
	text, err := folder.Once(essence, check, func() ([]byte, error) {
		var err error
		if d, err = run(); err != nil || d == nil || d.Interrupted {
			return nil, err
		}
		return json.Marshal(d)
	})
	if err != nil || text == nil {
		return nil, err
	}
	return d, nil
}

// of says why a document that was read is not what n seeds of a configuration gave.
func (d *stormDocument) of(c *storm.Config, n uint64) error {
	switch {
	case d.Version != 1:
		return fmt.Errorf("it has version %d, expected 1", d.Version)
	case d.Provider != c.Provider || d.Shim != c.Shim || d.Processes != c.Processes || d.FirstSeed != c.Seed:
		return fmt.Errorf("it is of %s, shim %q, %d processes, seed %d on, expected %s, shim %q, %d processes, seed %d on",
			d.Provider, d.Shim, d.Processes, d.FirstSeed, c.Provider, c.Shim, c.Processes, c.Seed)
	case d.Interrupted || d.Folder != "" || d.Missing != "" || d.Failures != nil:
		return errors.New("it is not of one task that came to its end")
	case !(d.Seconds > 0) || d.Seconds > maxStormSeconds:
		return fmt.Errorf("it took %v s, expected more than 0", d.Seconds)
	case max(d.Requests, d.Failed, d.Packets)/maxStormCount > n:
		return fmt.Errorf("it counts %d requests, %d failed ones and %d packets, which %d seeds can't have", d.Requests, d.Failed, d.Packets, n)
	case d.Failure == nil && d.Seeds != n:
		return fmt.Errorf("it has %d seeds, expected %d", d.Seeds, n)
	case d.Failure != nil && (d.Seeds > n || d.Failure.Seed < c.Seed || d.Failure.Seed-c.Seed >= n || d.Failure.What == ""):
		return fmt.Errorf("it has %d seeds and the failure of seed %d, expected %d seeds from %d on", d.Seeds, d.Failure.Seed, n, c.Seed)
	}
	return nil
}

// What no task has: seconds, and packets or requests a seed.
const (
	maxStormSeconds = 1e9
	maxStormCount   = 1e9
)

// add adds what a task gave to the sum of several.
func (d *stormDocument) add(one *stormDocument) {
	d.Seeds += one.Seeds
	d.Requests += one.Requests
	d.Failed += one.Failed
	d.Packets += one.Packets
	d.Seconds += one.Seconds
	d.SeedsPerSec = float64(d.Seeds) / d.Seconds
	if one.Failure != nil {
		d.Failures = append(d.Failures, one.Failure)
	}
}
