package sweep

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/spelling"
)

// Spec is a sweep's file: the cells are all combinations of scenarios, parameters,
// systems and seeds, except excluded ones.
type Spec struct {
	// Name is the sweep's name in tables and jobs; the default is the file's name
	// without its ending.
	Name string `yaml:"name"`
	// Scenarios are built-in ones by their names, or files, relative to the sweep's.
	Scenarios []string `yaml:"scenarios"`
	// Systems are those of each scenario to run; the default is all.
	Systems []string `yaml:"systems"`
	// Seeds are the seeds of each combination; the default is the scenario's own.
	Seeds Seeds `yaml:"seeds"`
	// Parameters are the differences between cells. The last one changes fastest.
	Parameters []Parameter `yaml:"parameters"`
	// Exclude leaves out the cells that have all values of one of these, by the names
	// of parameters and by scenario, system and seed. A value may be a list: any of them.
	Exclude []map[string]any `yaml:"exclude"`
	// Chunk is the number of cells a task of an array runs, at least 1.
	Chunk int `yaml:"chunk"`

	dir string // of the file
}

// Seeds are given as a number, for 1 up to it, or as a list.
type Seeds []uint64

// UnmarshalYAML takes a number or a list.
func (s *Seeds) UnmarshalYAML(text []byte) error {
	var n uint64
	if err := yaml.Unmarshal(text, &n); err == nil {
		if n < 1 || n > maxCells {
			return fmt.Errorf("seeds: is %d: choose 1 to %d, or list the seeds", n, maxCells)
		}
		for i := range n {
			*s = append(*s, i+1)
		}
		return nil
	}
	var list []uint64
	if err := yaml.Unmarshal(text, &list); err != nil || len(list) == 0 {
		return fmt.Errorf("seeds: expected a number of seeds, or a list of them, got %s", strings.TrimSpace(string(text)))
	}
	*s = list
	return nil
}

// Parameter is a key of the scenario and its values, in one of five forms.
type Parameter struct {
	// Key is a key of `sluice run --set`: nic.mtu, systems[TIMELY].config.t_low.
	Key string `yaml:"key"`
	// Name is the column's in the merged table; the default is the key.
	Name   string  `yaml:"name"`
	Values []any   `yaml:"values"`
	Range  *Range  `yaml:"range"`
	Log    *Log    `yaml:"log"`
	Random *Random `yaml:"random"`
	// Zip are parameters that go together: the first values of all, then the second.
	Zip []Parameter `yaml:"zip"`
}

// Range is from, from + step and so on, up to and including to.
type Range struct {
	From quantity `yaml:"from"`
	To   quantity `yaml:"to"`
	Step quantity `yaml:"step"`
}

// Log is count values from from to to, each the same multiple of the one before it, to
// four significant digits.
type Log struct {
	From    quantity `yaml:"from"`
	To      quantity `yaml:"to"`
	Count   int      `yaml:"count"`
	Integer bool     `yaml:"integer"` // values are rounded to whole numbers
}

// Random is count values between from and to, drawn evenly, or evenly on a logarithmic
// scale, to four significant digits. The same seed draws the same.
type Random struct {
	From    quantity `yaml:"from"`
	To      quantity `yaml:"to"`
	Count   int      `yaml:"count"`
	Seed    uint64   `yaml:"seed"`
	Log     bool     `yaml:"log"`
	Integer bool     `yaml:"integer"`
}

// quantity is a number and what stands behind it: 10us, 0.5, 100Gbps.
type quantity struct {
	number float64
	unit   string
	set    bool
}

// UnmarshalYAML takes a number or a text that begins with one.
func (q *quantity) UnmarshalYAML(text []byte) error {
	s := strings.Trim(strings.TrimSpace(string(text)), `"'`)
	end := 0
	for end < len(s) && strings.ContainsRune("+-.0123456789", rune(s[end])) {
		end++
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') && end+1 < len(s) && strings.ContainsRune("+-0123456789", rune(s[end+1])) {
		for end++; end < len(s) && strings.ContainsRune("+-0123456789", rune(s[end])); end++ {
		}
	}
	x, err := strconv.ParseFloat(s[:end], 64)
	if err != nil || math.IsInf(x, 0) {
		return fmt.Errorf("expected a number, with its unit if it has one, got %q", s)
	}
	*q = quantity{x, s[end:], true}
	return nil
}

// maxCells bounds a sweep: what lists and merges it holds a few bytes for each.
const maxCells = 10_000_000

// ReadSpec reads a sweep's file. Errors name the file, and the line where there is one.
func ReadSpec(file string) (*Spec, error) {
	text, err := infile.Read(file, infile.MaxText)
	if err != nil {
		return nil, err
	}
	return parseSpec(file, text)
}

// parseSpec is ReadSpec for a text. Scenario files are relative to the file's folder.
func parseSpec(file string, text []byte) (*Spec, error) {
	s := &Spec{Name: strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".yml"), Chunk: 1, dir: filepath.Dir(file)}
	if err := infile.YAML(text, s, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// OfRuns returns the sweep of scenarios, named as sluice run takes them, each with the
// given overrides and seeds seeds from first on.
func OfRuns(scenarios, sets []string, first uint64, seeds int) (*Spec, error) {
	s := &Spec{Name: strings.Join(scenarios, ", "), Scenarios: scenarios, Chunk: 1}
	for _, set := range sets {
		key, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, fmt.Errorf("--set %s: expected KEY=VALUE", set)
		}
		s.Parameters = append(s.Parameters, Parameter{Key: key, Values: []any{value}})
	}
	for i := range seeds {
		s.Seeds = append(s.Seeds, first+uint64(i)) //nolint:gosec // not negative
	}
	return s, s.check()
}

func (s *Spec) check() error {
	switch {
	case len(s.Scenarios) == 0:
		return fmt.Errorf("scenarios: is empty: name a built-in scenario or a file")
	case s.Chunk < 1:
		return fmt.Errorf("chunk: is %d: choose at least 1", s.Chunk)
	case s.Name == "":
		return fmt.Errorf("name: is empty: name the sweep or leave the key out")
	}
	if x, twice := repeated(s.Scenarios); twice {
		return fmt.Errorf("scenarios: %s stands there twice: leave one out", x)
	}
	if x, twice := repeated(s.Systems); twice {
		return fmt.Errorf("systems: %s stands there twice: leave one out", x)
	}
	if x, twice := repeated(s.Seeds); twice {
		return fmt.Errorf("seeds: %d stands there twice: leave one out", x)
	}
	axes, err := s.axes()
	if err != nil {
		return err
	}
	names := names(axes)
	if x, twice := repeated(names); twice {
		return fmt.Errorf("parameters: two are called %s: give one another name", x)
	}
	for i, x := range names {
		if slices.Contains(columns, x) {
			return fmt.Errorf("parameters[%d]: %s is a column of its own: give the parameter another name", i, x)
		}
	}
	known := append([]string{"scenario", "system", "seed"}, names...)
	for i, e := range s.Exclude {
		if len(e) == 0 {
			return fmt.Errorf("exclude[%d]: is empty, and would leave out all: give what a cell must have", i)
		}
		for key := range e {
			if !slices.Contains(known, key) {
				hint := "take one of " + strings.Join(known, ", ")
				if near := spelling.Nearest(key, known); near != "" {
					hint = fmt.Sprintf("is %q meant?", near)
				}
				return fmt.Errorf("exclude[%d]: there is no parameter %q: %s", i, key, hint)
			}
		}
	}
	return nil
}

func repeated[T comparable](list []T) (x T, twice bool) {
	seen := map[T]bool{}
	for _, x := range list {
		if seen[x] {
			return x, true
		}
		seen[x] = true
	}
	return x, false
}

// axis is parameters that change together; values[i] has the i-th of each.
type axis struct {
	keys, names []string
	values      [][]string
}

func names(axes []axis) []string {
	var out []string
	for _, a := range axes {
		out = append(out, a.names...)
	}
	return out
}

// axes are the parameters with their values written out.
func (s *Spec) axes() ([]axis, error) {
	var out []axis
	for i := range s.Parameters {
		a, err := s.Parameters[i].axis()
		if err != nil {
			return nil, fmt.Errorf("parameters[%d]%w", i, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// axis returns errors that begin with the key below the parameter, or a colon.
func (p *Parameter) axis() (axis, error) {
	if p.Zip == nil {
		values, err := p.list()
		if err != nil {
			return axis{}, err
		}
		a := axis{keys: []string{p.Key}, names: []string{p.name()}}
		for _, v := range values {
			a.values = append(a.values, []string{v})
		}
		return a, nil
	}
	if p.Key != "" || p.Name != "" || p.forms() > 0 {
		return axis{}, fmt.Errorf(": zip has parameters with keys and values of their own: leave the other keys out")
	}
	var a axis
	for i := range p.Zip {
		z := &p.Zip[i]
		if z.Zip != nil {
			return axis{}, fmt.Errorf(".zip[%d]: a zip within a zip: put its parameters beside the others", i)
		}
		values, err := z.list()
		if err != nil {
			return axis{}, fmt.Errorf(".zip[%d]%w", i, err)
		}
		if i == 0 {
			a.values = make([][]string, len(values))
		}
		if len(values) != len(a.values) {
			return axis{}, fmt.Errorf(".zip[%d]: has %d values, the first has %d: give all as many", i, len(values), len(a.values))
		}
		a.keys, a.names = append(a.keys, z.Key), append(a.names, z.name())
		for j, v := range values {
			a.values[j] = append(a.values[j], v)
		}
	}
	if len(a.keys) == 0 {
		return axis{}, fmt.Errorf(".zip: is empty: give parameters that go together")
	}
	return a, nil
}

func (p *Parameter) name() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Key
}

// forms is the number of ways in which the parameter's values are given.
func (p *Parameter) forms() int {
	n := 0
	for _, has := range []bool{p.Values != nil, p.Range != nil, p.Log != nil, p.Random != nil} {
		if has {
			n++
		}
	}
	return n
}

// list is the parameter's values as --set takes them.
func (p *Parameter) list() ([]string, error) {
	switch {
	case p.Key == "":
		return nil, fmt.Errorf(": has no key: say what of the scenario changes, as for sluice run --set")
	case p.forms() != 1:
		return nil, fmt.Errorf(": has %d ways of giving values: take one of values, range, log and random", p.forms())
	}
	var out []string
	var err error
	switch {
	case p.Range != nil:
		out, err = p.Range.list()
	case p.Log != nil:
		out, err = p.Log.list()
	case p.Random != nil:
		out, err = p.Random.list()
	default:
		for _, v := range p.Values {
			text, err := valueText(v)
			if err != nil {
				return nil, fmt.Errorf(".values: %w", err)
			}
			out = append(out, text)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf(": has no values: give some")
	}
	if x, twice := repeated(out); twice && p.Random == nil {
		return nil, fmt.Errorf(": has %s twice: leave one out", x)
	}
	return out, nil
}

// valueText writes a value as it stands behind the = of --set: lists and mappings as JSON,
// which is YAML too.
func valueText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", fmt.Errorf("a value is empty: write null as a text if that is meant")
	case string:
		return v, nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case []any, map[string]any:
		text, err := json.Marshal(v)
		return string(text), err
	}
	return fmt.Sprint(v), nil
}

func sameUnit(key string, all ...quantity) error {
	for _, q := range all {
		if !q.set {
			return fmt.Errorf(".%s: from, to or what else it needs is missing", key)
		}
		if q.unit != all[0].unit {
			return fmt.Errorf(".%s: has values with the units %q and %q: write all with one", key, all[0].unit, q.unit)
		}
	}
	return nil
}

func (r *Range) list() ([]string, error) {
	if err := sameUnit("range", r.From, r.To, r.Step); err != nil {
		return nil, err
	}
	n := (r.To.number - r.From.number) / r.Step.number
	if !(n >= 0) || n > maxCells {
		return nil, fmt.Errorf(".range: from %v in steps of %v does not come to %v: choose another step", r.From, r.Step, r.To)
	}
	var out []string
	for i := range int(math.Floor(n+1e-9)) + 1 {
		// 12 digits, so that 0.1 + 2 * 0.1 is 0.3.
		out = append(out, quantity{r.From.number + float64(float64(i)*r.Step.number), r.From.unit, true}.text(12))
	}
	return out, nil
}

func (l *Log) list() ([]string, error) {
	if err := sameUnit("log", l.From, l.To); err != nil {
		return nil, err
	}
	if l.Count < 2 || l.Count > maxCells || !(l.From.number > 0) || !(l.To.number > 0) {
		return nil, fmt.Errorf(".log: expected from and to above 0 and a count of at least 2, got %v, %v and %d", l.From, l.To, l.Count)
	}
	var out []string
	for i := range l.Count {
		x := l.From.number * math.Pow(l.To.number/l.From.number, float64(i)/float64(l.Count-1))
		out = append(out, rounded(x, l.From.unit, l.Integer))
	}
	return slices.Compact(out), nil // whole numbers may repeat
}

func (r *Random) list() ([]string, error) {
	if err := sameUnit("random", r.From, r.To); err != nil {
		return nil, err
	}
	if r.Count < 1 || r.Count > maxCells || r.To.number < r.From.number || r.Log && !(r.From.number > 0) {
		return nil, fmt.Errorf(".random: expected from at most to, above 0 if log, and a count of at least 1, got %v, %v and %d", r.From, r.To, r.Count)
	}
	draw := rand.New(rand.NewPCG(r.Seed, 0)) //nolint:gosec // parameters of an experiment
	var out []string
	for range r.Count {
		x := r.From.number + float64((r.To.number-r.From.number)*draw.Float64())
		if r.Log {
			x = r.From.number * math.Pow(r.To.number/r.From.number, (x-r.From.number)/(r.To.number-r.From.number))
		}
		out = append(out, rounded(x, r.From.unit, r.Integer))
	}
	return out, nil
}

func rounded(x float64, unit string, integer bool) string {
	if integer {
		return quantity{math.Round(x), unit, true}.text(-1)
	}
	return quantity{x, unit, true}.text(4)
}

// text writes the quantity with the given number of significant digits, without an
// exponent.
func (q quantity) text(digits int) string {
	short, err := strconv.ParseFloat(strconv.FormatFloat(q.number, 'g', digits, 64), 64)
	if err != nil {
		short = q.number
	}
	return strconv.FormatFloat(short, 'f', -1, 64) + q.unit
}

func (q quantity) String() string { return q.text(-1) }

// excluded reports whether a cell is left out.
func (s *Spec) excluded(has map[string]string) bool {
	return slices.ContainsFunc(s.Exclude, func(e map[string]any) bool {
		for key, want := range e {
			list, ok := want.([]any)
			if !ok {
				list = []any{want}
			}
			if !slices.ContainsFunc(list, func(v any) bool {
				text, err := valueText(v)
				return err == nil && text == has[key]
			}) {
				return false
			}
		}
		return true
	})
}
