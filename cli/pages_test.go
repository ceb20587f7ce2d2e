package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPages looks for each flag that a page gives to sluice, and for its command.
func TestPages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/engines/*.md", "../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	root := newRoot(nil)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	anyFlag := map[string]bool{}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.InitDefaultVersionFlag()
		for _, line := range strings.Split(c.Flags().FlagUsages()+c.PersistentFlags().FlagUsages(), "\n") {
			for _, m := range longFlag.FindAllString(line, -1) {
				anyFlag[m] = true
			}
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(root)
	stated := 0
	for _, page := range pages {
		if filepath.Base(page) == "CHANGELOG.md" { // of what was
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls(string(text)) {
			stated += checkCall(t, page, root, call)
		}
		for _, m := range loneFlag.FindAllStringSubmatch(string(text), -1) {
			if !anyFlag[strings.ReplaceAll(m[1], "_", "-")] && !others[m[1]] {
				t.Errorf("%s: no command of sluice has %s", page, m[1])
			}
		}
	}
	if stated < 60 {
		t.Errorf("only %d flags were found: the pages are read wrongly", stated)
	}
}

// others are flags of other tools, which pages name without them.
var others = map[string]bool{"--mem": true, "--privileged": true, "--run_infinitely": true, "--use_old_post_send": true}

var (
	longFlag = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
	loneFlag = regexp.MustCompile("`(--[a-z][a-z0-9_-]*)[ =`]")
	span     = regexp.MustCompile("`((?:[A-Z_0-9]+=\\S+ |sudo |bin/)*sluice [^`]+)`")
	prompt   = regexp.MustCompile(`^(?:\$ )?(?:[A-Z_0-9]+=\S+ |sudo |time |bin/|\./)*sluice `)
)

// calls are the calls of sluice in a page: of blocks of code, and of spans.
func calls(text string) (found []string) {
	inBlock, going := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock, going = !inBlock, ""
		case inBlock:
			line, more := strings.CutSuffix(line, "\\")
			if going += line; !more {
				if prompt.MatchString(going) {
					found = append(found, going)
				}
				going = ""
			}
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				found = append(found, m[1])
			}
		}
	}
	return found
}

// checkCall returns how many flags a call has, all of which its command must.
func checkCall(t *testing.T, page string, root *cobra.Command, call string) (flags int) {
	_, rest, _ := strings.Cut(call, "sluice ")
	cmd := root
	for _, w := range strings.Fields(rest) {
		if strings.HasPrefix(w, "[") || strings.ContainsAny(w, "|;&<>") || w == "--" || strings.HasPrefix(w, "#") {
			break
		}
		if name, ok := strings.CutPrefix(w, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			name = strings.TrimRight(strings.ReplaceAll(name, "_", "-"), ".,;)'\"")
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			if cmd.Flag(name) == nil {
				t.Errorf("%s: %q has no --%s (in %q)", page, cmd.CommandPath(), name, call)
			}
			flags++
			continue
		}
		if strings.HasPrefix(w, "-") && len(w) > 1 {
			cmd.InitDefaultHelpFlag()
			if f := cmd.Flags().ShorthandLookup(w[1:2]); f == nil && cmd.InheritedFlags().ShorthandLookup(w[1:2]) == nil {
				t.Errorf("%s: %q has no %s (in %q)", page, cmd.CommandPath(), w[:2], call)
			}
			flags++
			continue
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() == w || sub.HasAlias(w) {
				cmd = sub
			}
		}
	}
	if cmd == root && flags == 0 && len(strings.Fields(rest)) > 0 {
		if first := strings.Fields(rest)[0]; regexp.MustCompile(`^[a-z]+$`).MatchString(first) {
			t.Errorf("%s: sluice has no command %s (in %q)", page, first, call)
		}
	}
	return flags
}
