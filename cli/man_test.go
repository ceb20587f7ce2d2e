package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The page has every command with every flag, and no text is taken for a macro.
func TestManPage(t *testing.T) {
	root := newRoot(nil)
	page := manPage(root)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if !c.IsAvailableCommand() || c.HasSubCommands() || c.Name() == "help" || !c.HasParent() {
			return
		}
		title := ".SS " + roff(c.CommandPath())
		_, text, ok := strings.Cut(page, title)
		if !ok {
			t.Errorf("there is no %q", title)
			return
		}
		text, _, _ = strings.Cut(text, "\n.S")
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(text, roff("--"+f.Name)) {
				t.Errorf("%s: there is no --%s in %s", title, f.Name, text)
			}
		})
	}
	walk(root)

	macros := []string{".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".B", ".BR", ".RI", ".I", `.\"`}
	for line := range strings.Lines(page) {
		if word := strings.Fields(line + " x")[0]; strings.HasPrefix(line, ".") && !slices.Contains(macros, word) || strings.HasPrefix(line, "'") {
			t.Errorf("no macro: %q", line)
		}
	}
	if date := regexp.MustCompile(`20\d\d-\d\d`).FindString(strings.Split(page, "\n")[1]); date != "" {
		t.Errorf("the page is dated %s: it has to be the same each time", date)
	}
}

func TestManText(t *testing.T) {
	for text, want := range map[string]string{
		"a-b\n.c\n'd":           "a\\-b\n\\&.c\n\\&'d\n",
		`C:\x`:                  "C:\\ex\n",
		"one\n\ntwo":            "one\n.PP\ntwo\n",
		"see:\n\n  a\n\n  b\nc": "see:\n.PP\n.PP\n.nf\n  a\n\n  b\n.fi\nc\n",
	} {
		var b strings.Builder
		manText(&b, text)
		if got := b.String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
