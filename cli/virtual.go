package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/units"
)

// virtualFlags holds the flags of sluice virtual.
type virtualFlags struct {
	nic      string
	link     string
	backends []string
	number   int
	// namespace has /sys and /dev show the devices, too.
	namespace bool
	control   string
}

const maxVirtual = 16

func newVirtual() *cobra.Command {
	var f virtualFlags
	cmd := &cobra.Command{
		Use:   "virtual [flags] -- PROGRAM [ARGUMENT...]",
		Short: "Run a program that has a ConnectX where there is none",
		Long: `Run a program, and what it starts, with devices mlx5_0, mlx5_1, ... of an emulated
ConnectX. Programs are unmodified, and so are libibverbs, libmlx5 and librdmacm: the
preloaded libsluice-virtual.so passes their calls to this process, which sends RoCEv2
packets by a soft: device. No privilege and no kernel module is needed.
The exit status is the program's, 128 and the signal's number if a signal ended it.

Without -d the devices are at addresses of the loopback, 127.0.0.1 on. docs/virtual-nic.md
says what runs and what does not: programs that are linked statically or change their
user as they start can't have a library preloaded.`,
		Example: `  sluice virtual -- ibv_devinfo -v
  sluice virtual --nic cx7 -d soft:eth0 -- ib_write_bw -R server1
  sluice virtual --link 10Gbps,delay=5us,loss=0.1% -- sh -c 'ib_send_bw & sleep 1; ib_send_bw localhost'
  sluice virtual -n 2 -- ibv_devices
  sluice virtual --control fail.sock -- ./server`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("no program: write %s -- PROGRAM", c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			names, err := f.names()
			if err != nil {
				return usageError{err}
			}
			return f.run(c.Context(), names, args)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.SetInterspersed(false) // what follows the program's name is the program's
	flags.StringVar(&f.nic, "nic", "cx6dx", "adapter to emulate, a `NAME`: "+strings.Join(virtualModels(), ", "))
	flags.StringVar(&f.link, "link", "", "a `RATE[,delay=TIME][,loss=PERCENT][,seed=N]` that packets are sent at (default as fast as they go)")
	flags.StringArrayVarP(&f.backends, "dev", "d", nil, "send by this `soft:INTERFACE` or soft:ADDRESS; once for each device")
	flags.BoolVar(&f.namespace, "namespace", false, "show the devices in /sys and /dev to programs that look there by system calls of their own; needs user namespaces, or root")
	flags.StringVar(&f.control, "control", "", "take requests of sluice fail at this `SOCKET`, which is made; programs have its path as "+controlVariable)
	flags.IntVarP(&f.number, "number", "n", 1, "have this `NUMBER` of devices, at most 16; without -d only")
	return cmd
}

// names returns the back end of each device. Those of the loopback, which are chosen
// here, are alternatives: whoever finds one taken takes the next.
func (f *virtualFlags) names() ([][]string, error) {
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	switch {
	case f.number < 1 || f.number > maxVirtual:
		return nil, fmt.Errorf("-n %d, expected 1 to %d", f.number, maxVirtual)
	case len(f.backends) > maxVirtual:
		return nil, fmt.Errorf("%d devices, expected %d at most", len(f.backends), maxVirtual)
	case len(f.backends) > 0 && f.number != 1:
		return nil, errors.New("-n goes without -d: give -d once for each device")
	}
	var names [][]string
	for _, name := range f.backends {
		rest, soft := strings.CutPrefix(name, "soft:")
		if !soft || rest == "" {
			return nil, fmt.Errorf("-d %q, expected a soft: device, such as soft:eth0 or soft:127.0.0.2", name)
		}
		names = append(names, []string{withOptions(name, options)})
	}
	if len(names) > 0 {
		return names, nil
	}
	for i := range f.number {
		var addresses []string
		for host := i + 1; host <= 250; host += f.number {
			addresses = append(addresses, withOptions(fmt.Sprintf("soft:127.0.0.%d", host), options))
		}
		names = append(names, addresses)
	}
	return names, nil
}

func withOptions(name, options string) string {
	switch {
	case options == "":
		return name
	case strings.Contains(name, "?"):
		return name + "&" + options
	}
	return name + "?" + options
}

// options are those of a soft: device that make the link.
func (f *virtualFlags) options() (string, error) {
	if f.link == "" {
		return "", nil
	}
	parts := strings.Split(f.link, ",")
	var rate units.Rate
	if err := rate.UnmarshalText([]byte(parts[0])); err != nil {
		return "", fmt.Errorf("--link: %w", err)
	}
	options := []string{"shape=" + url.QueryEscape(parts[0])}
	for _, part := range parts[1:] {
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || value == "":
			return "", fmt.Errorf("--link: %q, expected RATE,delay=TIME,loss=PERCENT,seed=N", part)
		case key != "delay" && key != "loss" && key != "seed":
			return "", fmt.Errorf("--link: unknown key %q, expected delay, loss or seed", key)
		}
		options = append(options, key+"="+url.QueryEscape(value))
	}
	return strings.Join(options, "&"), nil
}

// programError is the status of a program that failed: the program has said why itself.
type programError struct{ status int }

func (p programError) Error() string { return fmt.Sprintf("exit status %d", p.status) }

func (f *virtualFlags) run(ctx context.Context, names [][]string, args []string) error {
	return runVirtual(ctx, f, names, args)
}
