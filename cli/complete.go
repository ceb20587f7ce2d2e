package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/bench/reproduce"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/verbs"
)

// addCompletion teaches the shell what arguments and flags of the commands take
// (`sluice completion SHELL`). A flag of one name takes the same wherever it is,
// but for those named with their command.
func addCompletion(root *cobra.Command) {
	args := map[string]cobra.CompletionFunc{
		"sluice run":       completeScenarios,
		"sluice show":      firstOnly(completeScenarios),
		"sluice perf":      firstOnly(among(testNames)),
		"sluice reproduce": among(rowNames),
		"sluice report":    completeFiles(".json"),
		"sluice pcap":      firstOnly(completeFiles(".pcap", ".pcapng", ".gz")),
		"sluice p4 check":  completePrograms,
		"sluice p4 test":   completePrograms,
		"sluice p4 run":    firstOnly(completePrograms),
	}
	flags := map[string]cobra.CompletionFunc{
		"ib-dev":            completeDevices,
		"peer":              completeDevices,
		"cc":                among(hostEngines),
		"cc-set":            completeSettings,
		"set":               completeSet,
		"sluice replay cc":  commas(hostEngines),
		"sluice replay set": completeSettings,
		"program":           completePrograms,
		"target":            fixed(p4.Targets()...),
		"source":            fixed("nic", "ptp", "wire", "host", "any"),
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if f := args[c.CommandPath()]; f != nil {
			c.ValidArgsFunction = f
		}
		c.Flags().VisitAll(func(flag *pflag.Flag) {
			f := flags[c.CommandPath()+" "+flag.Name]
			if f == nil {
				f = flags[flag.Name]
			}
			if f == nil {
				return
			}
			if err := c.RegisterFlagCompletionFunc(flag.Name, f); err != nil {
				panic(err) // the flag is there, and has none yet
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// among completes with names that are not there yet.
func among(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		left := slices.DeleteFunc(slices.Clone(names()), func(n string) bool { return slices.Contains(args, n) })
		return startingWith(left, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

func fixed(names ...string) cobra.CompletionFunc { return among(func() []string { return names }) }

// commas completes the last of several names with commas between.
func commas(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var all []string
		for _, n := range names() {
			if !slices.Contains(strings.Split(before, ","), n) {
				all = append(all, before+n)
			}
		}
		return startingWith(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// firstOnly completes the first argument alone.
func firstOnly(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, typed)
	}
}

func startingWith(all []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) })
}

func testNames() []string {
	var names []string
	for _, t := range perf.Tests() {
		names = append(names, t.String())
	}
	return names
}

func rowNames() []string {
	var names []string
	for _, r := range reproduce.Rows() {
		names = append(names, r.ID)
	}
	return names
}

func schemeNames() []string {
	var names []string
	for _, s := range cc.Schemes() {
		names = append(names, s.Name)
	}
	return names
}

// completeDevices names what can be opened now, as sluice devices does. A provider
// that can't tell has none.
func completeDevices(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, _ := verbs.Devices()
	return startingWith(names, typed), cobra.ShellCompDirectiveNoFileComp
}

func completeScenarios(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return filesAnd(slices.Concat(scenario.Builtins(), scenario.Speeds(), scenario.Reproductions()), ".yaml", ".yml")(c, args, typed)
}

func completePrograms(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return filesAnd(p4.Names(), ".p4", ".stf")(c, args, typed)
}

func completeFiles(ends ...string) cobra.CompletionFunc { return filesAnd(nil, ends...) }

// filesAnd completes with names, files that end so, and directories on the way to
// such. (A shell that completes files by itself does so only where there are no
// names.)
func filesAnd(names []string, ends ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all := startingWith(names, typed)
		dir, start := filepath.Split(typed)
		where := dir
		if where == "" {
			where = "."
		}
		entries, _ := os.ReadDir(where) // none if it is no directory
		onward := false
		for _, e := range entries {
			name := e.Name()
			if !strings.HasPrefix(name, start) || strings.HasPrefix(name, ".") && start == "" {
				continue
			}
			if info, err := os.Stat(filepath.Join(where, name)); err == nil && info.IsDir() {
				all, onward = append(all, dir+name+"/"), true
			} else if slices.Contains(ends, filepath.Ext(name)) {
				all = append(all, dir+name)
			}
		}
		slices.Sort(all)
		all = slices.DeleteFunc(slices.Compact(all), func(n string) bool { return slices.Contains(args, n) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if onward && len(all) == 1 {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return all, directive
	}
}

// completeSettings completes a KEY= of the engines that --cc names.
func completeSettings(c *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var engines []string
	if many, err := c.Flags().GetStringSlice("cc"); err == nil {
		engines = many
	} else if one, err := c.Flags().GetString("cc"); err == nil {
		engines = []string{one}
	}
	var all []string
	for _, name := range engines {
		scheme, err := cc.Lookup(name)
		if err != nil {
			continue
		}
		for _, k := range scenario.EngineSchema(scheme).Keys {
			all = append(all, k.Name+"=")
		}
	}
	slices.Sort(all)
	return startingWith(slices.Compact(all), typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSet completes a KEY=VALUE of a scenario step by step, as completion of
// files goes by directories: "ni", "nic.", "nic.preset=". Items of lists have the
// names that the first scenario of the command line gives them, or [0].
func completeSet(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const onward = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	var s *scenario.Scenario
	if len(args) > 0 {
		s, _ = scenario.Load(args[0]) // what is at fault with it, the command says
	}
	if key, _, ok := strings.Cut(typed, "="); ok {
		var all []string
		for _, v := range setValues(key) {
			all = append(all, key+"="+v)
		}
		return startingWith(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
	above := typed[:strings.LastIndex(typed, ".")+1]
	sections := setSections(s, strings.TrimSuffix(above, "."))
	var all []string
	for i := range sections {
		for _, k := range sections[i].Keys {
			all = append(all, nextSteps(s, above, &k)...)
		}
	}
	slices.Sort(all)
	return startingWith(slices.Compact(all), typed), onward
}

// item is an item of a list in the path of a key.
var item = regexp.MustCompile(`\[([^\]]*)\]`)

// overridden are the keys that a system may have otherwise than the scenario.
var overridden = []string{"fabric", "nic", "shim", "host", "verbs"}

// setSections returns the sections of the schema at a path, such as that of
// "systems[TIMELY].config".
func setSections(s *scenario.Scenario, path string) []scenario.Section {
	schema := item.ReplaceAllString(path, "[]")
	var found []scenario.Section
	if schema == "systems[].config" {
		for _, e := range enginesAt(s, path) {
			found = append(found, scenario.EngineSchema(e))
		}
		return found
	}
	// What a system overrides stands where it does at the top.
	if schema == "systems[].override" {
		top := scenario.Schema()[0]
		top.Keys = slices.DeleteFunc(top.Keys, func(k scenario.Key) bool { return !slices.Contains(overridden, k.Name) })
		return []scenario.Section{top}
	}
	schema = strings.TrimPrefix(schema, "systems[].override.")
	for _, section := range scenario.Schema() {
		if matches(section.Path, schema) {
			found = append(found, section)
		}
	}
	return found
}

// matches reports whether a path is that of a section, in which NAME is any word.
func matches(section, path string) bool {
	a, b := strings.Split(section, "."), strings.Split(path, ".")
	return slices.EqualFunc(a, b, func(x, y string) bool { return x == y || x == "NAME" && y != "" })
}

// enginesAt are the engines that the system of a path may have.
func enginesAt(s *scenario.Scenario, path string) []cc.Scheme {
	if s != nil {
		name := item.FindStringSubmatch(path)[1]
		for i, sys := range s.Systems {
			if name == sys.Name || name == strconv.Itoa(i) {
				return []cc.Scheme{sys.Scheme}
			}
		}
	}
	return cc.Schemes()
}

// nextSteps returns the continuations of a --set with a key.
func nextSteps(s *scenario.Scenario, above string, k *scenario.Key) []string {
	at := above + k.Name
	switch {
	case at == "systems" && s != nil:
		var all []string
		for _, sys := range s.Systems {
			all = append(all, at+"["+sys.Name+"].")
		}
		return all
	case k.Value == "list of mappings":
		return []string{at + "[0]."}
	case k.Value == "mapping" || k.Value == "mappings by name":
		return []string{at + "."}
	}
	return []string{at + "="}
}

// setValues are the values of a key that has few.
func setValues(key string) []string {
	switch item.ReplaceAllString(key, "[]") {
	case "nic.preset":
		return nicmodel.Presets()
	case "systems[].engine":
		return schemeNames()
	case "systems[].use":
		return scenario.PaperSystems()
	}
	above, name := "", key
	if i := strings.LastIndex(key, "."); i >= 0 {
		above, name = key[:i], key[i+1:]
	}
	for _, section := range setSections(nil, above) {
		for _, k := range section.Keys {
			if k.Name == name && k.Value == "true or false" {
				return []string{"true", "false"}
			}
		}
	}
	return nil
}
