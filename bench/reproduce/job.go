package reproduce

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/bench/sweep"
	"github.com/sluice-rdma/sluice/scenario"
)

// job is one system of a scenario with one seed: what is run and kept by itself.
// Several rows may want the same.
type job struct {
	scenario string
	sets     []string
	system   string
	seed     uint64
	key      string  // tells it from others, whatever program runs it
	seconds  float64 // about how long it takes

	resolved *scenario.Scenario
	of       *scenario.System
	cell     *sweep.Cell // once it is planned
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
		if quick && row.quick == nil {
			continue
		}
		p.rows = append(p.rows, row)
		for i := range row.runs {
			if err := p.add(row, &row.runs[i], byKey); err != nil {
				return nil, fmt.Errorf("row %s: %w", row.ID, err)
			}
		}
		seconds := row.seconds
		if quick {
			seconds = row.quick.Seconds
		}
		// How a row's time is spread over its jobs is unknown; evenly will do.
		for _, w := range p.of[row] {
			w.job.seconds = max(w.job.seconds, seconds/float64(len(p.of[row])))
		}
	}
	return p, nil
}

// add adds the jobs of a run of a row; byKey has the existing ones.
func (p *plan) add(row *Row, run *rowRun, byKey map[string]*job) error {
	sets := row.sets(run, p.quick)
	s, err := scenario.Load(run.scenario, sets...)
	if err != nil {
		return err
	}
	// Of two rows that want the same run, neither names it.
	resolved := *s
	resolved.Name, resolved.Description, resolved.Source = "papers", "", ""
	for _, name := range run.only {
		if !slices.ContainsFunc(s.Systems, func(sys *scenario.System) bool { return sys.Name == name }) {
			return fmt.Errorf("scenario %s has no system %q", run.scenario, name)
		}
	}
	for _, sys := range s.Systems {
		if len(run.only) > 0 && !slices.Contains(run.only, sys.Name) {
			continue
		}
		text, err := essence(s, sys)
		if err != nil {
			return err
		}
		for seed := uint64(1); seed <= uint64(row.seeds(p.quick)); seed++ {
			j := &job{scenario: run.scenario, sets: sets, system: sys.Name, seed: seed, resolved: &resolved, of: sys}
			j.key = j.name(text)
			if byKey[j.key] == nil {
				byKey[j.key] = j
				p.jobs = append(p.jobs, j)
			}
			p.of[row] = append(p.of[row], want{run.name, seed, byKey[j.key]})
		}
	}
	return nil
}

// parameters are what a sweep's table says of the job.
func (j *job) parameters() map[string]string {
	of := map[string]string{experiment: j.scenario}
	for _, set := range j.sets {
		key, value, _ := strings.Cut(set, "=")
		of[key] = value
	}
	return of
}

// experiment is the parameter that has a job's scenario.
const experiment = "experiment"

// list plans the jobs as cells of a folder, the long ones first, so that cores idle little
// at the end.
func (p *plan) list(f sweep.Folder) (*sweep.Planned, []*sweep.Cell, error) {
	jobs := longestFirst(p.jobs)
	names := map[string]bool{}
	for _, j := range jobs {
		for name := range j.parameters() {
			names[name] = true
		}
	}
	planner, err := sweep.NewPlanner(f, sweep.Plan{Name: "papers", Chunk: 1, Parameters: slices.Sorted(maps.Keys(names)), Series: true})
	if err != nil {
		return nil, nil, err
	}
	var cells []*sweep.Cell
	for _, j := range jobs {
		one, err := planner.Add(j.resolved, j.of, []uint64{j.seed}, j.parameters())
		if err != nil {
			return nil, nil, err
		}
		j.cell = one[0]
		cells = append(cells, one...)
	}
	planned, err := planner.Finish()
	return planned, cells, err
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

// name is readable, and has a hash of the text that tells variants apart.
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
