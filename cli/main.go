package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/internal/version"
	"github.com/sluice-rdma/sluice/verbs/metrics"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitMissed = 3
	// Of what a signal broke off it is 128 and the signal's number: 130 for SIGINT.
)

// usageError is a fault of the caller's: a flag, an argument, a scenario.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errMissed says that a limit which a scenario states was missed. What was missed
// has been shown.
var errMissed = errors.New("a limit that the scenario states was missed")

// Main is the command: it takes its arguments from os.Args and does not return. It
// exits with 0 if all is well, 1 if a run failed, 2 if it was called wrongly or a
// scenario is at fault, 3 if a limit that a scenario states was missed, and 128 and its number
// if SIGINT, SIGTERM or SIGHUP broke it off. A program calls it once, from main.
func Main() {
	level := slog.LevelWarn
	if debug, _ := strconv.ParseBool(os.Getenv("SLUICE_DEBUG")); debug {
		level = slog.LevelDebug
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	devices, stop, err := metrics.FromEnvironment()
	if err != nil {
		fmt.Fprintf(os.Stderr, "sluice: %v\n", err)
		os.Exit(exitUsage)
	}
	published = devices
	status := run(os.Args[1:], os.Stdout, os.Stderr)
	if err := stop(); err != nil {
		slog.Warn("metrics", "error", err)
	}
	os.Exit(status)
}

// published are the devices whose metrics `sluice exporter` finds if SLUICE_METRICS
// asks for that.
var published = metrics.NewDevices()

func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot(args)
	root.SetArgs(dashed(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if program := (programError{}); errors.As(err, &program) {
		return program.status
	}
	for line := range strings.Lines(err.Error()) {
		// There is nowhere to say that standard error can't be written.
		_, _ = fmt.Fprintf(stderr, "sluice: %s\n", strings.TrimSuffix(line, "\n"))
	}
	var usage usageError
	var broken interruption
	switch {
	case errors.As(err, &broken):
		return broken.status()
	case errors.Is(err, errMissed):
		return exitMissed
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// dashed makes _ and - alike in the names of flags.
func dashed(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if arg == "--" {
			copy(out[i:], args[i:])
			break
		}
		if strings.HasPrefix(arg, "--") {
			name, value, ok := strings.Cut(arg, "=")
			arg = strings.ReplaceAll(name, "_", "-")
			if ok {
				arg += "=" + value
			}
		}
		out[i] = arg
	}
	return out
}

func newRoot(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Congestion control and pacing for RDMA, on a model of NICs and fabric",
		Long: `Sluice runs scenarios: RDMA Writes, Reads and Sends, posted through the verbs
layer, paced by a rate engine, over modelled NICs and a modelled fabric.

The exit status is 0 if all is well, 1 if a command failed, 2 if it was called wrongly
or a scenario is at fault, 3 if a limit that was stated is missed, and 130 (SIGINT) or
143 (SIGTERM) if it was interrupted. A file that a command writes gets its name when it is whole; an
older file of that name stays until then.`,
		Example:       "  sluice run timely-table1\n  sluice run websearch --report websearch.html\n  sluice list",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(c, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.Version = version.Get().String()
	root.SetVersionTemplate(versionText(version.Get()))
	root.Flags().Bool("version", false, "print the version") // not -v, which is --verbose elsewhere
	root.AddCommand(newReflect())
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = knownCommand
	}
	root.AddCommand(newScenarioTopic(), newRun(args), newList(), newShow(), newPcap(args), newVersion(), newMan(), newPerf(args), newRping(), newDevices(), newCalibrate(args), newDoctor(args), newExporter(), newReport(args), newReplay(args), newReproduce(args), newP4(), newSwitch(args), newVirtual(), newFail(), newStorm(args), newSweep())
	root.AddCommand(hiddenCommands()...)
	addCompletion(root)
	return root
}
