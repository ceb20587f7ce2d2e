package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/scenario"
)

// formatVersion is the version of a folder's files. It changes when a field changes its
// meaning or goes.
const formatVersion = 1

// Plan is a sweep as its folder has it in sweep.json; the cells are beside it.
type Plan struct {
	Version int    `json:"version"` // formatVersion
	Name    string `json:"name"`
	// Program is the program that planned the cells, and alone may run them.
	Program    string   `json:"program"`
	Cells      int      `json:"cells"`
	Chunk      int      `json:"chunk"`      // cells a task of an array
	Parameters []string `json:"parameters"` // their names, in the order of columns
	// Series says that results have what was measured over time, too.
	Series bool `json:"series,omitempty"`
}

// Cell is one system of a scenario with its parameters and seed: a line of cells.jsonl.
type Cell struct {
	Index int `json:"index"`
	// Hash is of all that the result depends on: the program, the scenario with every
	// default written out, the system and the seed. Cells of one hash share a result.
	Hash     string `json:"hash"`
	Scenario string `json:"scenario"` // its name
	// Text is the file of the folder's scenarios/ that has the scenario.
	Text       string            `json:"text"`
	System     string            `json:"system"`
	Seed       uint64            `json:"seed"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Estimate   Estimate          `json:"estimate"`
}

// Estimate is a cell's likely cost.
type Estimate struct {
	// PacketHops is about the number of times a packet crosses a link, acknowledgements included: by
	// what the flows have to send and the rate of the hosts' links.
	PacketHops  float64 `json:"packet_hops"`
	MemoryBytes int64   `json:"memory_bytes"` // at least
}

func (c *Cell) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cell %d (%s, %s, seed %d", c.Index, c.Scenario, c.System, c.Seed)
	for _, key := range sortedKeys(c.Parameters) {
		fmt.Fprintf(&b, ", %s=%s", key, c.Parameters[key])
	}
	return b.String() + ")"
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Planned is Make's result.
type Planned struct {
	Plan
	Scenarios int // that differ in their text
	Excluded  int // combinations left out
	Shared    int // cells whose result another cell has, too
	Sum       Estimate
}

// Make resolves all cells of a sweep and writes the plan into a folder. Each
// combination's scenario is read and checked; the error of one that is at fault names
// the combination. A folder that has a plan gets the new one in its place, and results
// of cells that are in both stay.
func Make(f Folder, s *Spec, progress func(done float64)) (*Planned, error) {
	axes, err := s.axes()
	if err != nil {
		return nil, err
	}
	combinations := 1
	for _, a := range axes {
		combinations *= len(a.values)
		if combinations > maxCells {
			return nil, fmt.Errorf("more than %d combinations of parameters: leave some out, or take several sweeps", maxCells)
		}
	}
	m, err := NewPlanner(f, Plan{Name: s.Name, Chunk: s.Chunk, Parameters: names(axes)})
	if err != nil {
		return nil, err
	}
	excluded := 0
	for i, name := range s.Scenarios {
		if strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
			if !filepath.IsAbs(name) {
				name = filepath.Join(s.dir, name)
			}
			if !strings.ContainsAny(name, `/\`) {
				name = "./" + name
			}
		}
		for n := range combinations {
			if progress != nil {
				progress((float64(i) + float64(n)/float64(combinations)) / float64(len(s.Scenarios)))
			}
			without, err := m.combination(s, name, axes, n)
			if err != nil {
				return nil, err
			}
			excluded += without
		}
	}
	if excluded > 0 && m.out.Cells == 0 {
		return nil, fmt.Errorf("there is no cell: exclude leaves all of %d out", excluded)
	}
	m.out.Excluded = excluded
	return m.Finish()
}

// Planner lists cells in a folder one by one. It belongs to one goroutine.
type Planner struct {
	program string
	folder  Folder
	hashes  map[string]bool
	texts   map[string]bool
	cells   bytes.Buffer
	lines   *json.Encoder
	out     Planned

	// Of the scenario that the last cells were of.
	scenario *scenario.Scenario
	text     string // its file
	estimate Estimate
}

// NewPlanner begins a plan, whose name, chunk, parameters and series are p's.
func NewPlanner(f Folder, p Plan) (*Planner, error) {
	m := &Planner{program: thisProgram(), hashes: map[string]bool{}, texts: map[string]bool{}, folder: f}
	if m.program == "" {
		return nil, fmt.Errorf("the program can't be told from others: its own file can't be read")
	}
	m.out.Plan = p
	m.out.Version, m.out.Program = formatVersion, m.program
	m.lines = json.NewEncoder(&m.cells)
	m.lines.SetEscapeHTML(false)
	return m, nil
}

// Add adds a cell for each seed, of a system of a scenario, and returns them. The scenario
// must not be changed between calls; parameters are what tells the cells from others.
func (m *Planner) Add(s *scenario.Scenario, sys *scenario.System, seeds []uint64, parameters map[string]string) ([]*Cell, error) {
	if len(s.Programs) > 0 {
		return nil, fmt.Errorf("hosts run programs, which a sweep's cells can't: run it by sluice run")
	}
	if len(seeds) == 0 {
		return nil, nil
	}
	if m.scenario != s {
		if err := m.keep(s, seeds[0]); err != nil {
			return nil, err
		}
	}
	essence, err := essence(s, sys)
	if err != nil {
		return nil, err
	}
	var cells []*Cell
	for _, seed := range seeds {
		c := &Cell{
			Index: m.out.Cells, Hash: m.out.hash(essence, seed), Scenario: s.Name, Text: m.text, System: sys.Name, Seed: seed,
			Parameters: parameters, Estimate: m.estimate,
		}
		if err := m.add(c); err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// Finish writes the plan. A folder that has one gets the new one in its place, and results
// of cells that are in both stay.
func (m *Planner) Finish() (*Planned, error) {
	// The plan comes last: a folder with one is whole.
	if err := m.folder.put(cellsFile, m.cells.Bytes()); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(&m.out.Plan, "", "  ")
	if err != nil {
		return nil, err
	}
	return &m.out, m.folder.put(planFile, append(text, '\n'))
}

// combination adds the cells of a scenario with the n-th combination of parameters, and
// returns how many were left out.
func (m *Planner) combination(spec *Spec, name string, axes []axis, n int) (excluded int, err error) {
	var sets []string
	parameters := map[string]string{}
	at := n
	for i := len(axes) - 1; i >= 0; i-- {
		a := &axes[i]
		values := a.values[at%len(a.values)]
		at /= len(a.values)
		for j, key := range a.keys {
			sets = append(sets, key+"="+values[j])
			parameters[a.names[j]] = values[j]
		}
	}
	slices.Reverse(sets)
	of := strings.Join(append([]string{name}, sets...), " ")
	s, err := scenario.Load(name, sets...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", of, err)
	}
	for _, want := range spec.Systems {
		if !slices.ContainsFunc(s.Systems, func(sys *scenario.System) bool { return sys.Name == want }) {
			return 0, fmt.Errorf("scenario %s has no system %q", name, want)
		}
	}
	for _, sys := range s.Systems {
		if len(spec.Systems) > 0 && !slices.Contains(spec.Systems, sys.Name) {
			continue
		}
		seeds := slices.Clone(spec.Seeds)
		if seeds == nil {
			seeds = Seeds{s.Seed}
		}
		all := len(seeds)
		seeds = slices.DeleteFunc(seeds, func(seed uint64) bool {
			has := map[string]string{"scenario": s.Name, "system": sys.Name, "seed": fmt.Sprint(seed)}
			for k, v := range parameters {
				has[k] = v
			}
			return spec.excluded(has)
		})
		excluded += all - len(seeds)
		if _, err := m.Add(s, sys, seeds, parameters); err != nil {
			return excluded, fmt.Errorf("%s: %w", of, err)
		}
	}
	return excluded, nil
}

func (m *Planner) add(c *Cell) error {
	if m.out.Cells == maxCells {
		return fmt.Errorf("more than %d cells: leave some out, or take several sweeps", maxCells)
	}
	m.out.Cells++
	if m.hashes[c.Hash] {
		m.out.Shared++
	} else {
		m.out.Sum.PacketHops += c.Estimate.PacketHops
	}
	m.hashes[c.Hash] = true
	m.out.Sum.MemoryBytes = max(m.out.Sum.MemoryBytes, c.Estimate.MemoryBytes)
	return m.lines.Encode(c)
}

// keep writes a scenario's text, and estimates its cells.
func (m *Planner) keep(s *scenario.Scenario, seed uint64) error {
	text, err := s.YAML()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	m.scenario, m.text, m.estimate = s, hex.EncodeToString(sum[:8])+".yaml", estimate(s, seed)
	if m.texts[m.text] {
		return nil
	}
	m.texts[m.text] = true
	m.out.Scenarios++
	if has, err := m.folder.has(scenariosDir + m.text); has || err != nil {
		return err // the name is a hash of the text
	}
	return m.folder.put(scenariosDir+m.text, text)
}

// alone returns a scenario with one of its systems.
func alone(s *scenario.Scenario, sys *scenario.System) *scenario.Scenario {
	one := *s
	one.Systems = []*scenario.System{sys}
	one.Expect = nil // limits may be of several systems
	return &one
}

// essence is the text of all of a scenario that a system's figures depend on, but for the
// seed.
func essence(s *scenario.Scenario, sys *scenario.System) ([]byte, error) {
	one := alone(s, sys)
	one.Description, one.Source, one.Seed = "", "", 0
	return one.YAML()
}

// hash returns 128 bits, in hexadecimal, of all that a cell's result depends on.
func (p *Plan) hash(essence []byte, seed uint64) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n%v\n%s", p.Program, seed, p.Series, essence)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
