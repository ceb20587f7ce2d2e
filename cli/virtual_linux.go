package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/cli/internal/control"
	"github.com/sluice-rdma/sluice/cli/internal/namespace"
	"github.com/sluice-rdma/sluice/cli/internal/preloaded"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

func virtualModels() []string { return virtual.Models() }

func runVirtual(ctx context.Context, f *virtualFlags, backends [][]string, args []string) error {
	if _, err := virtual.ModelOf(f.nic); err != nil {
		return usageError{fmt.Errorf("--nic: %w", err)}
	}
	library, err := virtualLibrary()
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	if err := preloaded.Check(path, library); err != nil {
		return err
	}
	h, devices, err := serveVirtual(f.nic, backends)
	if err != nil {
		return err
	}
	release, err := startGuard(h.Dir())
	if err != nil {
		return errors.Join(err, h.Close())
	}
	defer release()
	environ, end := os.Environ(), h.Close
	if f.control != "" {
		if f.control, err = filepath.Abs(f.control); err != nil {
			return errors.Join(err, h.Close())
		}
		s, err := control.Listen(f.control, devices)
		if err != nil {
			return errors.Join(fmt.Errorf("--control: %w", err), h.Close())
		}
		end = func() error { return errors.Join(s.Close(), h.Close()) }
		environ = append(environ, controlVariable+"="+f.control)
	}
	cmd := exec.Command(path, args[1:]...) // not of ctx: the program's own signals end it
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = h.Environ(environ, library)
	if f.namespace {
		namespace.Enter(cmd, []string{namespaceCommand}, h.Dir(), h.Paths())
	}
	status, err := preloaded.Run(ctx, cmd)
	if f.namespace {
		err = namespace.Refused(err)
	}
	if err = errors.Join(err, end()); err == nil && status != 0 {
		err = programError{status}
	}
	return err
}

// namespaceCommand is the command that sluice virtual --namespace runs in the namespace.
const namespaceCommand = "in-namespace"

// hiddenCommands returns the commands by which this program runs itself.
func hiddenCommands() []*cobra.Command {
	return []*cobra.Command{newGuard(), {
		Use:                namespaceCommand,
		Short:              "Mount what sluice virtual --namespace shows, and become the program",
		Example:            "  sluice in-namespace DIR 1 /sys/class/infiniband /bin/ls ls /sys/class/infiniband",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return namespace.Exec(args) },
	}}
}

// serveVirtual opens the devices: for each the first of its back ends that is free. Those it
// returns by the devices' names.
func serveVirtual(nic string, names [][]string) (h *virtual.Host, backends map[string]verbs.Device, err error) {
	var devices []*virtual.Device
	backends = map[string]verbs.Device{}
	defer func() {
		if err != nil {
			for _, d := range devices {
				err = errors.Join(err, d.Close())
			}
		}
	}()
	for i, alternatives := range names {
		var backend verbs.Device
		for _, name := range alternatives {
			if backend, err = verbs.Open(name); !errors.Is(err, verbs.ErrBusy) {
				break
			}
		}
		if err != nil {
			return nil, nil, err
		}
		name := fmt.Sprintf("mlx5_%d", i)
		d, err := virtual.Open(virtual.Config{Model: nic, Name: name, Backend: backend})
		if err != nil {
			return nil, nil, errors.Join(err, backend.Close())
		}
		devices, backends[name] = append(devices, d), backend
	}
	h, err = virtual.Serve(devices...)
	return h, backends, err
}

// virtualLibrary finds libsluice-virtual.so: named by SLUICE_VIRTUAL_LIB, or where
// `make build` and packages put it.
func virtualLibrary() (string, error) {
	const name = "libsluice-virtual.so"
	if named := os.Getenv("SLUICE_VIRTUAL_LIB"); named != "" {
		path, err := filepath.Abs(named)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("SLUICE_VIRTUAL_LIB: %w", err)
		}
		return path, loadable(path)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(self); err == nil {
		self = resolved
	}
	dir := filepath.Dir(self)
	places := []string{filepath.Join(dir, "lib"), filepath.Join(dir, "..", "lib")}
	if more, err := filepath.Glob(filepath.Join(dir, "..", "lib", "*-linux-gnu", "sluice")); err == nil {
		places = append(places, more...)
	}
	for _, place := range places {
		path := filepath.Join(place, name)
		if _, err := os.Stat(path); err == nil {
			return path, loadable(path)
		}
	}
	return "", fmt.Errorf("%s is neither in %s nor in %s: build it with make libsluice-virtual, or name it in SLUICE_VIRTUAL_LIB", name, places[0], places[1])
}

// loadable refuses a path that LD_PRELOAD can't have.
func loadable(path string) error {
	if strings.ContainsAny(path, ": \t\n") {
		return fmt.Errorf("%q: LD_PRELOAD takes no path with a colon or white space: name a copy in SLUICE_VIRTUAL_LIB", path)
	}
	return nil
}
