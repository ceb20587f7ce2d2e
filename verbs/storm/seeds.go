package storm

import (
	"context"
	"slices"
	"sync"
)

// Tally is what many runs came to.
type Tally struct {
	Seeds    uint64 // that ran
	Requests uint64 // that completed with success
	Failed   uint64 // that completed with an error
	Packets  uint64
	UnderWay []uint64 // seeds of which the runs were under way as ctx ended, in order
}

// Seeds runs n seeds from c.Seed on, up to workers at a time, until one fails or ctx is done.
// It returns the failed run, nil if none failed, of the lowest seed that did. progress,
// if not nil, is called after each run, with the lock that the runs share.
func Seeds(ctx context.Context, c Config, n uint64, workers int, progress func(Tally)) (Tally, *Result, error) {
	var mu sync.Mutex
	var tally Tally
	var failed *Result
	var wrong error
	next, end := c.Seed, c.Seed+n
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil || wrong != nil || next == end || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var all sync.WaitGroup
	for range max(1, workers) {
		all.Go(func() {
			c := c
			for {
				var ok bool
				if c.Seed, ok = take(); !ok {
					return
				}
				r, err := Run(ctx, c)
				mu.Lock()
				switch {
				case err != nil && ctx.Err() != nil:
					tally.UnderWay = append(tally.UnderWay, c.Seed)
				case err != nil:
					wrong = err
				default:
					tally.Seeds++
					tally.Requests += r.Requests
					tally.Failed += r.Failed
					tally.Packets += r.Packets
					if r.Failure != "" && (failed == nil || r.Seed < failed.Seed) {
						failed = r
					}
					if progress != nil {
						progress(tally)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(tally.UnderWay)
	return tally, failed, wrong
}
