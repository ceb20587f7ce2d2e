package docs

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oneMore is a task of CONTRIBUTING.md's section "Adding one more", done with a toy.
type oneMore struct {
	edits map[string][]change // by file
	new   map[string]string   // files
	// generated is what go generate makes of that, where the program needs it.
	generated map[string][]change
}

// change is a piece of a file and what comes to stand there.
type change struct{ from, to string }

var changelog = []change{{"## [Unreleased]\n", "## [Unreleased]\n\n- A toy.\n"}}

// oneMores are by the words in bold with which their paragraphs begin.
var oneMores = map[string]oneMore{
	"A rate engine": {
		new: map[string]string{
			"cc/toy/toy.go": strings.NewReplacer("steady", "toy", `whatever happens"`, `whatever hops report", Telemetry: telemetry.PerHop`,
				`	"github.com/sluice-rdma/sluice/units"`, `	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"`).Replace(outside["steady/steady.go"]),
			"docs/engines/toy.md": "# toy\n",
		},
		edits: map[string][]change{
			"docs/engines/README.md":             {{"| [`none`](none.md)", "| [`toy`](toy.md) | `cc/toy` | nothing | a rate | pacing | a record a hop (INT) |\n| [`none`](none.md)"}},
			"libsluice/internal/ccore/core.yaml": {{"\nout:\n", "\nout:\n  toy: a toy\n"}},
			"CHANGELOG.md":                       changelog,
		},
		generated: map[string][]change{"cc/all/engines.go": {{"import (\n", "import (\n\t_ \"github.com/sluice-rdma/sluice/cc/toy\"\n"}}},
	},
	"A NIC preset": {
		edits: map[string][]change{
			"nicmodel/internal/config/presets.go": {{"\t\"cx6\": cx6,\n", `	"cx6": cx6,
	"toynic": func() Config {
		c := cx6()
		c.PCIe.Rate = 8 * units.Gbps
		return c
	},
`}},
			"nicmodel/internal/presettable/sources.go": {{"the products' pages; ", "the products' pages; `toynic`: nobody's; "}},
			"CHANGELOG.md": changelog,
		},
	},
	"A per-hop INT format": {
		edits: map[string][]change{
			"telemetry/forms.go": {
				{"INT64 INTForm = iota\n", "INT64 INTForm = iota\n\tToy\n"},
				{"var intLayouts = [...]intLayout{\n", `var intLayouts = [...]intLayout{
	Toy: {
		name: "toyint", shim: 8, record: 16, most: 5,
		kind: field(58, 6), is: 3, reflected: field(56, 1), count: field(0, 8), counts: 16, port: field(32, 16),
		queue: field(112, 16), tx: field(92, 20), rate: field(48, 8), time: field(8, 40),
		timeUnit: units.Nanosecond, txUnit: 128, queueUnit: CellBytes,
	},
`},
			},
			"telemetry/int_test.go": {{"rows := []struct {\n", `toy := struct{ shim, first, second, turnedBack string }{
		"0c 00 12b7 000000 02", "abcd 54321 0000000 00 02 0000123456 00", "0001 00100 0000000 00 00 0000123457 00", "0d 00 12b7 000000 02",
	}
	rows := []struct {
`}, {`"45 04 12b7"},
`, `"45 04 12b7"},
		{Toy, toy.shim + toy.first + toy.second, toy.turnedBack},
`}},
			"CHANGELOG.md": changelog,
		},
	},
	"A key for queues": {
		edits: map[string][]change{
			"sim/fabric/config.go": {{"type Queue struct {\n", "type Queue struct {\n" +
				"\t// The most that a queue may hold.\n\tMost units.Bytes `yaml:\"most\" eg:\"40KiB\" range:\"[1KiB,1GiB]\" zero:\"no bound\"`\n"}},
			"sim/fabric/buffer.go": {
				{"type class struct {\n", "type class struct {\n\tmost int64\n"},
				{"\t\tc.alpha = int64", "\t\tc.most = int64(k.Most)\n\t\tc.alpha = int64"},
				{"\tif size > unused ||", "\tif c.most > 0 && int64(q.bytes)+size > c.most || size > unused ||"},
			},
			"CHANGELOG.md": changelog,
		},
	},
}

const oneMoreScenario = `description: Toys.
duration: 2ms
warmup: 500us
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
nic: {mode: offload}
fabric: {pfc: {enabled: false}}
systems:
  - {name: engine, engine: toy, config: {rate: 3Gbps}}
  - {name: engine of the form, engine: toy, config: {rate: 3Gbps}, override: {fabric: {telemetry: {form: csig-wide, per_hop: toyint, clock: tofino2}}}}
  - {name: steered, engine: hpcc, override: {fabric: {telemetry: {form: csig-wide, per_hop: toyint, clock: tofino2}}}}
  - {name: card, engine: none, override: {nic: {preset: toynic}}}
  - {name: free, engine: none}
  - {name: bound, engine: none, override: {fabric: {most: 20KiB}}}
workloads:
  - {kind: incast, receiver: h1, senders: 2, size: unlimited}
`

// TestOneMore does tasks of CONTRIBUTING.md with toys, in an overlay of the tree, and runs the
// command with all of them. Each edits the files that its list names, three at most.
func TestOneMore(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: the command is built anew, which takes over ten seconds")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("the command is built by the go command: %v", err)
	}
	root := root(t)
	dir := t.TempDir()
	lists := editLists(t, root)
	replace, texts := map[string]string{}, map[string]string{}
	put := func(file, text string) {
		texts[file] = text
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "+"))
		if err := os.WriteFile(to, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	edit := func(file string, changes []change) {
		text, ok := texts[file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		for _, c := range changes {
			if !strings.Contains(text, c.from) {
				t.Fatalf("%s lacks %q, where a toy goes", file, c.from)
			}
			text = strings.Replace(text, c.from, c.to, 1)
		}
		put(file, text)
	}
	for name, task := range oneMores {
		list := lists[name]
		if len(list) == 0 || len(list) > 3 {
			t.Errorf("CONTRIBUTING.md has %d files to edit for %q, expected 1 to 3: %v", len(list), name, list)
		}
		if files := slices.Sorted(maps.Keys(task.edits)); !slices.Equal(files, slices.Sorted(slices.Values(list))) {
			t.Errorf("%q edits %v, and CONTRIBUTING.md has %v", name, files, list)
		}
		for file, changes := range task.edits {
			edit(file, changes)
		}
		for file, changes := range task.generated {
			edit(file, changes)
		}
		for file, text := range task.new {
			put(file, text)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return file
	}
	by, scenario := "-overlay="+in("overlay.json", overlay), in("toys.yaml", []byte(oneMoreScenario))
	cwd := root
	run := func(want string, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = cwd
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if all := string(out) + stderr.String(); (err != nil) != (want != "") || !strings.Contains(all, want) {
			t.Fatalf("%s %s: %v, expected %q\n%s", name, strings.Join(args, " "), err, want, all)
		}
		return string(out)
	}
	run("", "go", "test", by, "-short", "-run", "TestForms$|TestINTBytes|TestValidateINTFormat", "./telemetry")
	mine := filepath.Join(dir, "sluice")
	run("", "go", "build", by, "-buildvcs=false", "-o", mine, "./cmd/sluice")
	for _, folder := range []string{"docs", "nicmodel"} { // what go generate ./nicmodel works in
		if err := os.Mkdir(filepath.Join(dir, folder), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "nic.md"))
	if err != nil {
		t.Fatal(err)
	}
	at := in(filepath.Join("docs", "nic.md"), page)
	generator := filepath.Join(dir, "presettable")
	run("", "go", "build", by, "-buildvcs=false", "-o", generator, "./nicmodel/internal/presettable")
	cwd = filepath.Join(dir, "nicmodel")
	run("", generator)
	cwd = root
	if page, err := os.ReadFile(at); err != nil || !strings.Contains(string(page), "| `cx7` | `toynic` |") || !strings.Contains(string(page), "`toynic`: nobody's") {
		t.Errorf("docs/nic.md has no column of toynic: %v", err)
	}
	names := strings.Fields(run("", mine, "list"))
	for _, name := range []string{"toy", "toynic"} {
		if !slices.Contains(names, name) {
			t.Errorf("list does not have %s: %v", name, names)
		}
	}
	run("expected int or toyint", mine, "run", scenario, "--set", "fabric.telemetry.per_hop=none")
	run("fabric.most: is 1B: choose", mine, "run", scenario, "--set", "fabric.most=1B")

	type system struct {
		Name  string  `json:"name"`
		Gbps  float64 `json:"goodput_gbps"`
		Wire  float64 `json:"wire_gbps"`
		Queue float64 `json:"queue_max_bytes"`
	}
	var printed struct {
		Results []struct {
			Systems []system `json:"systems"`
		} `json:"results"`
	}
	text := run("", mine, "run", scenario, "--quiet", "--json", "-")
	if err := json.Unmarshal([]byte(text), &printed); err != nil || len(printed.Results) != 1 {
		t.Fatalf("%v in\n%s", err, text)
	}
	got := map[string]system{}
	for _, s := range printed.Results[0].Systems {
		got[s.Name] = s
	}
	for name, want := range map[string][2]float64{"engine": {5.5, 6.5}, "engine of the form": {5.5, 6.5}, "steered": {15, 25}, "card": {5, 8}} {
		if v := got[name].Gbps; v < want[0] || v > want[1] {
			t.Errorf("%s: %v Gbps, expected %v to %v", name, v, want[0], want[1])
		}
	}
	if short, long := got["engine"].Wire, got["engine of the form"].Wire; long <= short {
		t.Errorf("records twice as long take %v Gbps of the wire, and the others %v", long, short)
	}
	if free, bound := got["free"].Queue, got["bound"].Queue; free <= 20<<10 || bound > 20<<10 || bound == 0 {
		t.Errorf("the queue reaches %v bytes, and %v where 20 KiB are its most", free, bound)
	}
}

// editLists has the files that CONTRIBUTING.md lists for each task of "Adding one more".
func editLists(t *testing.T, root string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Adding one more\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no section \"Adding one more\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	lists := map[string][]string{}
	bold, item := regexp.MustCompile(`^\*\*([^*]+)\*\*`), regexp.MustCompile("^- `([^`]+)`")
	name := ""
	for line := range strings.Lines(section) {
		if m := bold.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if m := item.FindStringSubmatch(line); m != nil {
			lists[name] = append(lists[name], m[1])
		}
	}
	if len(lists) < len(oneMores) {
		t.Fatalf("CONTRIBUTING.md lists the files of %d tasks", len(lists))
	}
	return lists
}
