package reproduce

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rdma/sluice/bench/results"
)

// fingerprint tells whether a run gave the same as another: it hashes counts and means that hardly
// any change of what is simulated leaves alone. How many events that took is not in it, nor is
// anything that a faster simulator or another page would change.
func fingerprint(s *results.System) string {
	text := fmt.Sprintln(s.PacketHops, s.SimS, s.Bytes, s.FlowsStarted, s.FlowsDone, s.RTTSamples, s.RTTAvgUs, s.FCTAvgUs,
		s.Retransmissions, s.Timeouts, s.Drops, s.ECNMarks, s.PauseFrames, s.QueueMaxBytes, s.QueueAvgBytes)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// Verify makes a share of a report's runs again, and returns how many that were and which of them
// gave something else. The same seed takes the same runs. Progress is called before each run, if it
// is not nil.
func Verify(ctx context.Context, r *Report, share float64, seed uint64, progress func(done float64, what string)) (ran int, differ []string, err error) {
	var rows []*Row
	for _, row := range Rows() {
		if r.row(row.ID) != nil {
			rows = append(rows, row)
		}
	}
	p, err := newPlan(rows, r.Quick)
	if err != nil {
		return 0, nil, err
	}
	if err := r.plannedAs(p); err != nil {
		return 0, nil, err
	}
	draw := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample
	jobs := slices.DeleteFunc(p.jobs, func(*job) bool { return draw.Float64() >= share })
	var all, past float64
	for _, j := range jobs {
		all += j.seconds
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			return ran, differ, context.Cause(ctx)
		}
		same, err := r.verify(j, func(done float64) {
			if progress != nil {
				progress((past+done*j.seconds)/all, j.String())
			}
		})
		if err != nil {
			return ran, differ, err
		}
		ran++
		past += j.seconds
		if !same {
			differ = append(differ, j.String())
		}
	}
	return ran, differ, nil
}

// verify makes a run again, and says whether it gave the same.
func (r *Report) verify(j *job, progress func(float64)) (bool, error) {
	result, err := j.run(progress)
	if err != nil {
		return false, fmt.Errorf("%v: %w", j, err)
	}
	return fingerprint(result.Systems[0]) == r.Fingerprints[j.key], nil
}

// plannedAs says which run of a plan the report does not have, or which it has that the plan
// does not: then rows or scenarios are not what they were.
func (r *Report) plannedAs(p *plan) error {
	if len(r.Fingerprints) == 0 {
		return errors.New("the report has no fingerprints of its runs: make it anew with this program")
	}
	for _, j := range p.jobs {
		if r.Fingerprints[j.key] == "" {
			return fmt.Errorf("the report has no run %v (%s): its rows or scenarios are not those of this program", j, j.key)
		}
	}
	if extra := len(r.Fingerprints) - len(p.jobs); extra > 0 {
		return fmt.Errorf("the report has %d runs that this program's rows do not want", extra)
	}
	return nil
}
