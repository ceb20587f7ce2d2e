package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/internal/rundir"
)

// guardCommand is the command by which this program runs itself to outlive itself.
const guardCommand = "guard"

// guardName is the guard's name among processes, so that who kills sluice by name does not kill it, too.
const guardName = "rundir-guard"

// startGuard starts a process that does what this one can't if it is killed: it ends the
// programs that belong to directories, and removes these (rundir.Await). release, after the
// directories' own removal, returns when it has ended.
func startGuard(dirs ...string) (release func(), err error) {
	cmd := exec.Command("/proc/self/exe", append([]string{guardCommand}, dirs...)...)
	cmd.Args[0] = "sluice" // by which tests' own programs know that they are this command
	cmd.Env = []string{}   // it is not to belong to the directories
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to this one's group, and of its terminal, are not for it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = cmd.Wait() }, nil // how it ended changes nothing
}

func newGuard() *cobra.Command {
	return &cobra.Command{
		Use:     guardCommand + " DIR...",
		Short:   "Wait for this program's end, and clear up after it if it was killed",
		Example: "  sluice guard /tmp/sluice-virtual-123",
		Hidden:  true,
		RunE: func(_ *cobra.Command, dirs []string) error {
			signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
			_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0)
			var errs []error
			for _, dir := range dirs {
				errs = append(errs, rundir.Await(dir))
			}
			return errors.Join(errs...)
		},
	}
}
