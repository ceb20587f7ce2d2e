package libsluice_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// variables are what the preload library takes from the environment, SLUICE_ and the key in
// capitals, and but for the last four from the file of SLUICE_CONFIG. A key that paced.Config has
// too has its range there, and what a 0 stands for by paced.DefaultConfig. In default and help,
// <WORD> is set as code. Checks go in this order, paced.Config's.
type variables struct {
	CC             string         `yaml:"cc" default:"<timely>; <none> if a rate is set" help:"rate engine; <none> for segments without congestion control"`
	CCConfig       string         `yaml:"cc_config" default:"the paper's" help:"the engine's settings: <t_low: 60us, t_high: 400us>"`
	Rate           units.Rate     `yaml:"rate" range:"(0,)" zero:"the line rate" help:"upper bound of the rate of each queue pair or, with groups, each group: <10Gbps>. Without an engine, the pace"`
	Segment        units.Bytes    `yaml:"segment" help:"into which Writes and Reads are cut"`
	MaxOutstanding units.Bytes    `yaml:"max_outstanding" default:"[follows the link](shim.md#parameters)" help:"bytes of a queue pair, and of a group, with the NIC, at least a segment"`
	LineRate       units.Rate     `yaml:"line_rate" help:"of the port"`
	BaseRTT        units.Time     `yaml:"base_rtt" help:"round trip of the idle network"`
	NICRate        units.Rate     `yaml:"nic_rate" help:"the NIC's own limiter, or where RC queue pairs have none the path's static rate, rounded up; below the line rate"`
	CalibrateEvery units.Time     `yaml:"calibrate_every" help:"the longest time between readings of the NIC's clock"`
	Batch          int            `yaml:"batch" help:"segments in one post"`
	ProgressThread bool           `yaml:"progress_thread" help:"a thread that sends what is due; always there once a CQ with a channel is armed"`
	Bypass         bool           `yaml:"bypass" help:"spares TIMELY the round trips of segments that found no queue, at line rate ([what that saves](shim.md#cost))"`
	Group          paced.Grouping `yaml:"group" default:"<none>" help:"queue pairs that share one engine, and so one rate and window: those of one destination, path or port ([groups](shim.md#groups))"`
	Devices        string         `yaml:"devices" default:"all" help:"names with wildcards: <mlx5_0,rxe*>; a list in the file"`
	Stats          bool           `yaml:"stats" help:"print statistics to standard error as the program ends"`
	Metrics        bool           `yaml:"metrics" help:"publish queue pairs to [<sluice exporter>](observability.md#c-programs), in the directory <SLUICE_RUN>"`
	Debug          bool           `yaml:"debug" help:"log to standard error"`
	Fail           string         `yaml:"fail" default:"nothing" help:"calls and completions that [fail](#failures), to test the program: <post_send:ENOMEM@100>"`
	Config         string         `yaml:"config" help:"a YAML file; the environment wins"`
	Disable        bool           `yaml:"disable" help:"do nothing"`
	Library        string         `yaml:"library" help:"the path of <libsluice.so.0>"`
}

// variable is one of them as C has it.
type variable struct {
	field.Setting
	usual reflect.Value // what a 0 is replaced by; the zero Value for none
	tag   reflect.StructTag
	where string // below struct sl_environment; empty for what settings.c reads by its name
}

func describeVariables(t *testing.T) []variable {
	t.Helper()
	own, err := field.Describe(reflect.TypeFor[variables]())
	if err != nil {
		t.Fatal(err)
	}
	shim, err := field.Describe(reflect.TypeFor[paced.Config]())
	if err != nil {
		t.Fatal(err)
	}
	var all []variable
	for i := range own {
		v := variable{Setting: own[i], tag: reflect.TypeFor[variables]().Field(i).Tag}
		same := func(s field.Setting) bool { return s.Key == v.Key }
		if k := slices.IndexFunc(shim, same); k >= 0 {
			v.Setting = shim[k]
			if usual := reflect.ValueOf(paced.DefaultConfig()).FieldByName(v.Field); !usual.IsZero() {
				v.usual = usual
				v.Want = v.inC(v.Want)
			}
		}
		switch {
		case v.Type.Kind() == reflect.String || v.Key == "disable":
		case slices.Contains([]string{"debug", "stats", "metrics"}, v.Key):
			v.where = v.Key
		default:
			v.where = "settings." + v.Key
		}
		all = append(all, v)
	}
	return all
}

// inC is what Go says of the variable as C says it, where a 0 always is the default.
func (v *variable) inC(text string) string {
	if v.usual.IsValid() && v.Zero != "" {
		return strings.ReplaceAll(text, ", or 0 for "+v.Zero, fmt.Sprintf(", or 0 for %v", v.usual))
	}
	return text
}

// row is the variable's of the table in docs/preload.md.
func (v *variable) row() string {
	code := strings.NewReplacer("<", "`", ">", "`")
	key, takes, usual := "`"+v.Key+"`", v.Takes, code.Replace(v.tag.Get("default"))
	if slices.Contains([]string{"fail", "config", "disable", "library"}, v.Key) {
		key = ""
	}
	if v.Zero != "" {
		takes, _, _ = strings.Cut(takes, ", or 0 for ")
	}
	switch {
	case v.Type.Kind() == reflect.Bool:
		takes, usual = "1 or 0", "0"
	case v.usual.IsValid():
		usual = fmt.Sprintf("`%v`", v.usual)
	case usual == "":
		usual = v.Zero
	}
	row := fmt.Sprintf("| `SLUICE_%s` | %s | %s | %s | %s |\n", strings.ToUpper(v.Key), key, takes, usual, code.Replace(v.tag.Get("help")))
	return strings.ReplaceAll(row, "|  ", "| ")
}

// TestVariablesPage compares the table of docs/preload.md with the variables, and looks for each
// in the manual page.
func TestVariablesPage(t *testing.T) {
	const page, head = "../docs/preload.md", "| variable | file | values | default | |\n|---|---|---|---|---|\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	man, err := os.ReadFile("man/libsluice-preload.7")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no table with this head:\n%s", page, head)
	}
	_, after, _ := strings.Cut(rest, "\n\n")
	var rows strings.Builder
	for _, v := range describeVariables(t) {
		rows.WriteString(v.row())
		if name := "SLUICE_" + strings.ToUpper(v.Key); !strings.Contains(string(man), name) {
			t.Errorf("the manual page does not name %s", name)
		}
	}
	want := before + head + rows.String() + "\n" + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is not what the variables say: run go generate ./libsluice. Its table would be:\n%s", page, rows.String())
	}
}

// settingsBy is what Go makes of texts of variables that package paced has.
func settingsBy(all []variable, texts map[string]string) string {
	c, rate := paced.DefaultConfig(), units.Rate(0)
	for _, v := range all {
		text, given := texts[v.Key]
		if !given || v.where == "" {
			continue
		}
		to := reflect.ValueOf(&c).Elem().FieldByName(v.Field)
		if v.Key == "rate" {
			to = reflect.ValueOf(&rate).Elem()
		}
		was := to.Interface()
		switch err := parseInto(to, text); {
		case err != nil:
			return "error"
		case to.IsZero() && v.usual.IsValid():
			to.Set(reflect.ValueOf(was))
		}
	}
	if rate < 0 {
		return fmt.Sprintf("error: paced: rate is %v: choose a positive rate, or 0 for the line rate", rate)
	}
	if err := c.Validate(); err != nil {
		text := err.Error()
		for _, v := range all {
			if strings.HasPrefix(text, "paced: "+v.Key+" ") {
				text = v.inC(text)
			}
		}
		return "error: " + text
	}
	return fmt.Sprintf("rate=%d segment=%d batch=%d max_outstanding=%d line_rate=%d base_rtt=%d nic_rate=%d calibrate_every=%d group=%d",
		rate, c.Segment, c.Batch, c.MaxOutstanding, c.LineRate, c.BaseRTT, c.NICRate, c.CalibrateEvery, c.Group)
}

func parseInto(to reflect.Value, text string) error {
	if u, ok := to.Addr().Interface().(interface{ UnmarshalText([]byte) error }); ok {
		return u.UnmarshalText([]byte(text))
	}
	var n int64
	var rest string
	if k, _ := fmt.Sscanf(text, "%d%s", &n, &rest); k != 1 {
		return fmt.Errorf("%q is no number", text)
	}
	to.SetInt(n)
	return nil
}

// TestSettings gives the preload library and package paced the same settings: what one refuses
// the other does, in the same words, and what they take they read as the same.
func TestSettings(t *testing.T) {
	program := settings(t)
	all := describeVariables(t)
	values := []string{"0", "1", "-1", "257", "4KiB", "16KiB", "1MiB", "100", "never", "x", "-3us", "5us", "70s", "1.5", "10Gbps", "-1Gbps", "1e30s"}
	var ranged []variable
	for _, v := range all {
		if v.Want != "" {
			ranged = append(ranged, v)
		}
	}
	rng := seeded()
	var lines, want []string
	add := func(texts map[string]string) {
		line := ""
		for _, v := range ranged {
			if text, ok := texts[v.Key]; ok {
				line = strings.TrimPrefix(line+"|"+v.Key+"="+text, "|")
			}
		}
		lines, want = append(lines, line), append(want, settingsBy(all, texts))
	}
	for _, v := range ranged {
		for _, text := range slices.Concat(values, edges(&v.Setting)) {
			add(map[string]string{v.Key: text})
		}
	}
	for range 3000 {
		texts := map[string]string{}
		for _, i := range rng.Perm(len(ranged))[:1+rng.IntN(3)] {
			some := slices.Concat(values, edges(&ranged[i].Setting))
			texts[ranged[i].Key] = some[rng.IntN(len(some))]
		}
		add(texts)
	}
	taken, refused := 0, 0
	for i, got := range answers(t, program, lines, "environment") {
		same := strings.Contains(got, want[i]+" ")
		switch {
		case want[i] == "error": // of a text, each by its reader's words
			same = strings.HasPrefix(got, "error: SLUICE_")
		case strings.HasPrefix(want[i], "error"):
			same = got == want[i]
			refused++
		default:
			taken++
		}
		if !same {
			t.Errorf("%s\n C: %s\nGo: %s", lines[i], got, want[i])
		}
	}
	if taken < len(lines)/20 || refused < len(lines)/20 {
		t.Errorf("of %d settings %d are taken, and %d refused for their range: the test says little", len(lines), taken, refused)
	}
}
