package reproduce

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// job is one system of a scenario with one seed: what is run and kept by itself.
// Several rows may want the same.
type job struct {
	scenario string
	sets     []string
	system   string
	seed     uint64
	key      string  // what the file that keeps the result is called, but for the program
	seconds  float64 // about how long it takes
}

// plan is the jobs of rows, each once, and which of them each row wants.
type plan struct {
	rows  []*Row
	quick bool
	jobs  []*job
	of    map[*Row][]want
}

// want is a job as a row knows it.
type want struct {
	run  string
	seed uint64
	job  *job
}

// newPlan resolves the scenarios of rows. Seeds are numbered from 1.
func newPlan(rows []*Row, quick bool) (*plan, error) {
	p := &plan{quick: quick, of: map[*Row][]want{}}
	byKey := map[string]*job{}
	for _, row := range rows {
		if quick && row.Quick == nil {
			continue
		}
		p.rows = append(p.rows, row)
		for i := range row.Runs {
			if err := p.add(row, &row.Runs[i], byKey); err != nil {
				return nil, fmt.Errorf("row %s: %w", row.ID, err)
			}
		}
		seconds := row.Seconds
		if quick {
			seconds = row.Quick.Seconds
		}
		// How a row's time is spread over its jobs is unknown; evenly will do.
		for _, w := range p.of[row] {
			w.job.seconds = max(w.job.seconds, seconds/float64(len(p.of[row])))
		}
	}
	return p, nil
}

// add adds the jobs of a run of a row; byKey has those that there are.
func (p *plan) add(row *Row, run *Run, byKey map[string]*job) error {
	sets := row.sets(run, p.quick)
	s, err := scenario.Load(run.Scenario, sets...)
	if err != nil {
		return err
	}
	for _, name := range run.Only {
		if !slices.ContainsFunc(s.Systems, func(sys *scenario.System) bool { return sys.Name == name }) {
			return fmt.Errorf("scenario %s has no system %q", run.Scenario, name)
		}
	}
	for _, sys := range s.Systems {
		if len(run.Only) > 0 && !slices.Contains(run.Only, sys.Name) {
			continue
		}
		text, err := essence(s, sys)
		if err != nil {
			return err
		}
		for seed := uint64(1); seed <= uint64(row.seeds(p.quick)); seed++ {
			j := &job{scenario: run.Scenario, sets: sets, system: sys.Name, seed: seed}
			j.key = j.name(text)
			if byKey[j.key] == nil {
				byKey[j.key] = j
				p.jobs = append(p.jobs, j)
			}
			p.of[row] = append(p.of[row], want{run.Name, seed, byKey[j.key]})
		}
	}
	return nil
}

// alone returns a scenario with one of its systems.
func alone(s *scenario.Scenario, sys *scenario.System) *scenario.Scenario {
	one := *s
	one.Systems = []*scenario.System{sys}
	return &one
}

// essence is the text of all of a scenario that its figures depend on.
func essence(s *scenario.Scenario, sys *scenario.System) ([]byte, error) {
	one := alone(s, sys)
	one.Name, one.Description, one.Source, one.Expect, one.Seed = "", "", "", nil, 0
	return one.YAML()
}

// name is what a job's result is kept as: readable, and with a hash of the text that
// tells variants apart.
func (j *job) name(text []byte) string {
	sum := sha256.Sum256(text)
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '_'
	}, j.system)
	return fmt.Sprintf("%s-%s-seed%d", plain, hex.EncodeToString(sum[:])[:16], j.seed)
}

// run runs the job.
func (j *job) run(progress func(float64)) (*results.Result, error) {
	s, err := scenario.Load(j.scenario, j.sets...)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.Systems, func(sys *scenario.System) bool { return sys.Name == j.system })
	return bench.Run(alone(s, s.Systems[i]), bench.Options{Seed: &j.seed, Workers: 1, Progress: func(done float64, _ string) { progress(done) }})
}

func (j *job) String() string {
	var sets string
	if len(j.sets) > 0 {
		sets = " " + strings.Join(j.sets, " ")
	}
	return fmt.Sprintf("%s%s, %s, seed %d", j.scenario, sets, j.system, j.seed)
}
