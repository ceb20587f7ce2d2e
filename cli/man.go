package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan prints the manual page, which packages install. It is hidden: the help has
// the same.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man",
		Short:   "Print the manual page sluice(1)",
		Long:    "Print the manual page of all commands, as man takes it.",
		Hidden:  true,
		Example: "  sluice man > sluice.1    # man ./sluice.1",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := io.WriteString(c.OutOrStdout(), manPage(c.Root()))
			return err
		},
	}
}

// What the commands do not say of themselves.
const (
	manStatus = `.SH EXIT STATUS
.TP
.B 0
All went well.
.TP
.B 1
A run failed.
.TP
.B 2
The command was called wrongly, or a scenario is at fault.
.TP
.B 3
A limit that the scenario or the call states was missed.
`
	manEnvironment = `.SH ENVIRONMENT
.TP
.B SLUICE_DEBUG
.B 1
adds to the warnings on standard error what helps to look for a fault.
.TP
.B SLUICE_METRICS
.B 1
lets the process publish the queue pairs that it paces, for
.BR "sluice exporter" .
.TP
.B SLUICE_RUN
The directory where processes publish. It is
.I $XDG_RUNTIME_DIR/sluice
unless this says otherwise, and where that is not set either,
.I /run/sluice
for root and
.I /tmp/sluice-UID
for others.
`
	manSeeAlso = `.SH SEE ALSO
.BR sluice (3),
.BR libsluice-preload (7),
.BR ib_write_bw (1),
.BR rping (1)
`
)

// manPage is the page of a command and all below it, without a date: the same
// commands give the same bytes.
func manPage(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".\\\" Written by sluice man; do not edit.\n.TH %s 1 \"\" Sluice \"User Commands\"\n", strings.ToUpper(root.Name()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", root.Name(), roff(lowerFirst(root.Short)))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I COMMAND\n.RI [ FLAGS ]\n.RI [ ARGUMENTS ]\n", root.Name())
	b.WriteString(".SH DESCRIPTION\n")
	manText(&b, root.Long)
	b.WriteString(".PP\nBelow are the commands. In the names of flags, \\- and _ are alike. \"sluice help scenario\" lists the keys of a scenario file.\n")
	b.WriteString(".SH COMMANDS\n")
	manCommands(&b, root)
	b.WriteString(manStatus + manEnvironment + ".SH EXAMPLES\n")
	manExample(&b, root.Example)
	b.WriteString(manSeeAlso)
	return b.String()
}

func manCommands(b *strings.Builder, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		switch {
		case !c.IsAvailableCommand() || c.Name() == "help" || c.Name() == "completion":
			continue
		case c.Runnable() && !c.HasSubCommands():
			fmt.Fprintf(b, ".SS %s\n%s.\n", roff(c.CommandPath()+strings.TrimPrefix(c.Use, c.Name())), roff(c.Short))
			if c.Long != "" {
				b.WriteString(".PP\n")
				manText(b, c.Long)
			}
			c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { manFlag(b, f) })
			if c.Example != "" {
				b.WriteString(".PP\nExamples:\n")
				manExample(b, c.Example)
			}
		}
		manCommands(b, c)
	}
	if !parent.HasParent() {
		b.WriteString(".SS sluice completion bash|zsh|fish\nPrint what makes that shell complete the commands, flags, scenarios, engines, devices and keys.\n")
	}
}

func manFlag(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden || f.Name == "help" {
		return
	}
	b.WriteString(".TP\n.B ")
	if f.Shorthand != "" {
		fmt.Fprintf(b, "\\-%s, ", f.Shorthand)
	}
	b.WriteString(roff("--" + f.Name))
	name, usage := pflag.UnquoteUsage(f)
	if name != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(name))
	}
	b.WriteString("\n" + roff(usage))
	switch f.DefValue {
	case "", "[]", "0", "0s", "false": // as in the help, these go without saying
	default:
		fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
	}
	b.WriteString("\n")
}

// manText writes paragraphs. Lines that begin with a blank stay as they are.
func manText(b *strings.Builder, text string) {
	verbatim := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if is := strings.HasPrefix(line, " "); line != "" && is != verbatim {
			b.WriteString(map[bool]string{true: ".PP\n.nf\n", false: ".fi\n"}[is])
			verbatim = is
		}
		if line == "" {
			line = ".PP"
			if verbatim {
				line = ""
			}
			b.WriteString(line + "\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

func manExample(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".PP\n.nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	b.WriteString(".fi\n")
}

// roff writes a line of text so that nothing in it is a command of roff's.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
