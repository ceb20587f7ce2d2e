package nictrace_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/internal/nictrace"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// vcdVariable is a variable as readVCD finds it.
type vcdVariable struct {
	kind  string
	width int
	// Values from instants on, the first at the beginning of the dump.
	at []units.Time
	v  []int64
}

// sum adds f of the value over each span of it between two instants.
func (v *vcdVariable) sum(from, to units.Time, f func(value int64, from, to units.Time) int64) (total int64) {
	for i, x := range v.v {
		end := to
		if i+1 < len(v.at) {
			end = min(v.at[i+1], to)
		}
		if begin := max(v.at[i], from); begin < end {
			total += f(x, begin, end)
		}
	}
	return total
}

func (v *vcdVariable) area(from, to units.Time) int64 {
	return v.sum(from, to, func(x int64, from, to units.Time) int64 { return x * int64(to-from) })
}

var (
	vcdIdentifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_$]*$`)
	vcdCodeForm   = regexp.MustCompile(`^[!-~]+$`)
)

// identifier is a name as the dump has it.
func identifier(name string) string {
	return regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(name, "_")
}

// readVCD reads a dump as strictly as IEEE 1364-2005 clause 18 writes it: declarations,
// then values and times that only go up; every variable has a value at the beginning, and
// each change changes it.
func readVCD(text string) (all map[string]*vcdVariable, from, to units.Time, err error) {
	head, body, ok := strings.Cut(text, "$enddefinitions $end\n")
	if !ok {
		return nil, 0, 0, errors.New("no $enddefinitions")
	}
	all, byCode := map[string]*vcdVariable{}, map[string]*vcdVariable{}
	var scope []string
	seen := map[string]bool{}
	timescale := ""
	words := strings.Fields(head)
	for len(words) > 0 {
		end := slices.Index(words, "$end")
		if end < 1 {
			return nil, 0, 0, fmt.Errorf("%q does not end", words[0])
		}
		arg := words[1:end]
		switch words[0] {
		case "$version", "$comment", "$date":
		case "$timescale":
			timescale = strings.Join(arg, "")
		case "$scope":
			if len(arg) != 2 || arg[0] != "module" || !vcdIdentifier.MatchString(arg[1]) {
				return nil, 0, 0, fmt.Errorf("scope %q", arg)
			}
			scope = append(scope, arg[1])
			if name := strings.Join(scope, "."); seen[name] {
				return nil, 0, 0, fmt.Errorf("scope %s comes twice", name)
			} else {
				seen[name] = true
			}
		case "$upscope":
			if len(arg) != 0 || len(scope) == 0 {
				return nil, 0, 0, fmt.Errorf("upscope of %q", scope)
			}
			scope = scope[:len(scope)-1]
		case "$var":
			if len(arg) != 4 || !slices.Contains([]string{"wire", "reg", "integer"}, arg[0]) || !vcdCodeForm.MatchString(arg[2]) || !vcdIdentifier.MatchString(arg[3]) {
				return nil, 0, 0, fmt.Errorf("var %q", arg)
			}
			width, err := strconv.Atoi(arg[1])
			name := strings.Join(append(slices.Clone(scope), arg[3]), ".")
			if err != nil || width < 1 || all[name] != nil || byCode[arg[2]] != nil {
				return nil, 0, 0, fmt.Errorf("var %q in %q", arg, scope)
			}
			v := &vcdVariable{kind: arg[0], width: width}
			all[name], byCode[arg[2]] = v, v
		default:
			return nil, 0, 0, fmt.Errorf("%q", words[0])
		}
		words = words[end+1:]
	}
	if len(scope) > 0 || timescale != "1ps" {
		return nil, 0, 0, fmt.Errorf("scope %q open, time in %q", scope, timescale)
	}
	now, initial := units.Time(-1), false
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		bad := func(what string) error { return fmt.Errorf("line %d of the values, %q: %s", i+1, line, what) }
		var bitsOf, code string
		switch {
		case line == "":
			return nil, 0, 0, bad("nothing")
		case line[0] == '#':
			at, err := strconv.ParseInt(line[1:], 10, 64)
			if err != nil || units.Time(at) <= now {
				return nil, 0, 0, bad("time does not go up")
			}
			if now < 0 {
				from = units.Time(at)
			}
			now = units.Time(at)
			continue
		case line == "$dumpvars" && now >= 0 && i == 1, line == "$end" && initial:
			initial = line[1] == 'd'
			if !initial {
				for name, v := range all {
					if len(v.v) != 1 {
						return nil, 0, 0, bad(name + " has no value at the beginning")
					}
				}
			}
			continue
		case line[0] == 'b':
			bitsOf, code, _ = strings.Cut(line[1:], " ")
		default:
			bitsOf, code = line[:1], line[1:]
		}
		v := byCode[code]
		if v == nil || (line[0] == 'b') != (v.width > 1) || len(bitsOf) > v.width {
			return nil, 0, 0, bad("no such variable, or too wide")
		}
		x, err := strconv.ParseInt(bitsOf, 2, 64)
		if err != nil {
			return nil, 0, 0, bad("no binary number")
		}
		if !initial && v.v[len(v.v)-1] == x {
			return nil, 0, 0, bad("no change")
		}
		v.at, v.v = append(v.at, now), append(v.v, x)
	}
	return all, from, now, nil
}

// vcdOf runs a scenario and returns its dump.
func vcdOf(t *testing.T, f nictrace.Filter, name string, sets ...string) (map[string]*vcdVariable, units.Time, units.Time, *results.Result) {
	t.Helper()
	var b bytes.Buffer
	dump := nictrace.NewVCD(&b, f)
	r := runWith(t, bench.Options{NICVCD: dump}, name, sets...)
	if err := dump.Close(); err != nil {
		t.Fatal(err)
	}
	all, from, to, err := readVCD(b.String())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	changes := 0
	for _, v := range all {
		changes += len(v.v) - 1
	}
	if changes != dump.Changes() {
		t.Errorf("%s: %d changes, and %d are said to be", name, changes, dump.Changes())
	}
	return all, from, to, r
}

// What the dump of a whole run shows of a stage is its account: cycles at work, those
// stalled by reason; of a queue, what it held.
func TestVCDIsTheAccount(t *testing.T) {
	stalls := nicmodel.Stalls()
	for _, c := range []struct {
		name string
		sets []string
	}{
		{"nic-small-writes", []string{"warmup=0", "duration=60us"}},
		{"nic-small-writes", []string{"warmup=0", "duration=60us", "nic.preset=connectib", "topology={kind: star, hosts: 2, host_rate: 40Gbps}"}},
		{"quickstart", []string{"measure.nic=all", "warmup=0", "systems=[{name: a b, engine: none}, {name: a.b, engine: poseidon}]", "workloads[0].flows=[{src: h0, dst: h1, size: 100KB}]"}},
		{"quickstart", []string{"measure.nic=all", "fabric.buffer=200KiB", "topology={kind: star, hosts: 3, host_rate: 25Gbps}", "workloads[0].flows=[{src: h0, dst: h1, size: 1MB}, {src: h2, dst: h1, size: 1MB}]", "systems=[{engine: none}]"}},
	} {
		all, from, to, r := vcdOf(t, nictrace.Filter{To: units.Second}, c.name, c.sets...)
		if from != 0 {
			t.Errorf("%s: begins at %v", c.name, from)
		}
		shown := 0
		for k, sys := range r.Systems {
			system := identifier(sys.Name)
			if k > 0 {
				system += "_2" // the names come to the same
			}
			for _, u := range sys.NICs {
				in := system + "." + u.NIC + "."
				for _, s := range u.Stages {
					clock := nicmodel.Clock(s.ClockHz)
					cycles := func(of int64) func(int64, units.Time, units.Time) int64 {
						return func(x int64, from, to units.Time) int64 {
							n := clock.CycleAfter(to) - clock.CycleAfter(from)
							switch {
							case of == 0:
								return x * n
							case of == x:
								return n
							}
							return 0
						}
					}
					busy := all[in+s.Stage+".busy"]
					if busy == nil {
						t.Fatalf("%s: no %s of %s", c.name, s.Stage, in)
					}
					// PCIe may have taken work in for later.
					last := to + units.Second
					if strings.HasPrefix(s.Stage, "pcie_") {
						last = units.Time(s.Elapsed)
					}
					if got := busy.sum(0, last, cycles(0)); got != s.Busy {
						t.Errorf("%s: %s%s: %d cycles at work in the dump, %d in the account", c.name, in, s.Stage, got, s.Busy)
					}
					stall := all[in+s.Stage+".stall"]
					if stall == nil {
						if len(s.Stalled) > 0 {
							t.Errorf("%s: %s%s has no stall, and was stalled: %v", c.name, in, s.Stage, s.Stalled)
						}
						continue
					}
					for _, why := range stalls[1:] {
						if got := stall.sum(0, to+units.Second, cycles(int64(why))); got != s.Stalled[why.String()] {
							t.Errorf("%s: %s%s: %d cycles stalled by %v in the dump, %d in the account", c.name, in, s.Stage, got, why, s.Stalled[why.String()])
						}
					}
					shown++
				}
				end := units.Time(math.Round(float64(sys.SimS) * 1e12))
				for _, q := range u.Queues {
					v := all[in+"queues."+identifier(q.Queue)]
					// What a packet takes that comes at the instant at which another leaves is in the account's most
					// alone.
					most := slices.Max(v.v)
					if got := float64(v.area(0, end)) / float64(end); math.Abs(got-float64(q.Mean)) > 1e-9+1e-9*got || most > int64(q.Most) || most < int64(q.Most)-1 {
						t.Errorf("%s: %s%s: %.6f on average in the dump, %.6f in the account; most %d and %d", c.name, in, q.Queue, got, float64(q.Mean), most, q.Most)
					}
				}
			}
		}
		if shown == 0 {
			t.Errorf("%s: nothing stalled", c.name)
		}
	}
}

// The dump of a window is that part of the whole one, of the NICs and queue pairs that
// are asked for.
func TestVCDWindow(t *testing.T) {
	const name = "nic-small-writes"
	sets := []string{"warmup=0", "duration=60us", "workloads[0].connections=4"}
	of := []nictrace.QueuePair{{Host: "h0", QPN: 0x20}}
	whole, _, _, _ := vcdOf(t, nictrace.Filter{To: units.Second, Of: of}, name, sets...)
	begin, end := 20*units.Microsecond, 33*units.Microsecond
	part, from, to, with := vcdOf(t, nictrace.Filter{From: begin, To: end, Of: of}, name, sets...)
	if from != begin || to != end {
		t.Errorf("from %v to %v", from, to)
	}
	pairs := 0
	for key, v := range part {
		if strings.HasPrefix(key, "none.h1") {
			t.Errorf("%s is shown", key)
		}
		if strings.HasPrefix(key, "none.h0.qp_0x20.") && slices.Max(v.v) > 0 {
			pairs++
		}
		w := whole[key]
		if w == nil {
			t.Fatalf("%s is in a part and not in the whole", key)
		}
		if got, want := v.area(from, to), w.area(begin, end); got != want {
			t.Errorf("%s: %d in the part, %d in the whole", key, got, want)
		}
		if last := v.at[len(v.at)-1]; last > end {
			t.Errorf("%s changes at %v", key, last)
		}
	}
	if pairs < 8 {
		t.Errorf("the queue pair is in %d places", pairs)
	}
	without := runWith(t, bench.Options{}, name, sets...)
	if a, b := with.Systems[0], without.Systems[0]; a.Bytes != b.Bytes || a.Events != b.Events {
		t.Errorf("dumped: %d bytes, %d events; not dumped: %d and %d", a.Bytes, a.Events, b.Bytes, b.Events)
	}
}

func TestVCDOfAFullDisk(t *testing.T) {
	dump := nictrace.NewVCD(failingWriter{}, nictrace.Filter{To: units.Second})
	runWith(t, bench.Options{NICVCD: dump}, "nic-small-writes", "duration=110us")
	if err := dump.Close(); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	_, err := bench.Run(builtin(t, "quickstart", "nic.model=reduced"), bench.Options{NICVCD: nictrace.NewVCD(failingWriter{}, nictrace.Filter{To: 1})})
	if err == nil || !strings.Contains(err.Error(), "set nic.model to staged") {
		t.Errorf("reduced NICs: %v", err)
	}
}
