package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os/signal"
	"os/user"
	"path"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/verbs/metrics"
)

// exporterPort is none that another known exporter has.
const exporterPort = 9861

func newExporter() *cobra.Command {
	var listen []string
	var where, config, dir, owner string
	var once bool
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve metrics of RDMA devices and paced queue pairs to Prometheus",
		Long: `Serve the counters of the kernel's RDMA devices, PFC pauses and discards of the
network interfaces below them, and the paced queue pairs of processes on this machine
that run with SLUICE_METRICS=1 or call metrics.Publish. docs/observability.md lists the
names.

--web.config.file is as for Prometheus' own exporters: TLS, client certificates,
basic authentication (https://prometheus.io/docs/prometheus/latest/configuration/https/).`,
		Example: "  sluice exporter\n  sluice exporter --web.listen-address 127.0.0.1:9861 --web.config.file web.yaml\n  sluice exporter --once",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log := slog.Default()
			processes, err := processesOf(dir, owner, c.Flags().Changed("run-dir"), log)
			if err != nil {
				return usageError{err}
			}
			own := prometheus.NewRegistry()
			own.MustRegister(metrics.NewKernel(log))
			if stats, end, err := nicStats(); err != nil {
				log.Warn("no PFC pauses and discards", "error", err)
			} else {
				defer end()
				own.MustRegister(metrics.NewNetdevs(stats, log))
			}
			registerSelf(own)
			if once {
				return writeMetrics(c.OutOrStdout(), prometheus.Gatherers{own, processes})
			}
			if err := checkMetricsPath(where); err != nil {
				return usageError{err}
			}
			scheme, err := webScheme(config)
			if err != nil {
				return usageError{fmt.Errorf("--web.config.file %s: %w", config, err)}
			}
			ctx, stop := signal.NotifyContext(c.Context(), endings()...)
			defer stop()
			listeners, err := listenAll(ctx, listen)
			if err != nil {
				return usageError{err}
			}
			for _, l := range listeners {
				if _, err := fmt.Fprintf(c.OutOrStdout(), "metrics are at %s://%s%s\n", scheme, l.Addr(), where); err != nil {
					return errors.Join(err, closeAll(listeners))
				}
			}
			h, err := exporterHandler(own, processes, where, log)
			if err != nil {
				return errors.Join(err, closeAll(listeners))
			}
			return serve(ctx, listeners, h, config)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&listen, "web.listen-address", []string{fmt.Sprintf(":%d", exporterPort)}, "`ADDRESS` and port to serve on; may be given several times")
	f.StringVar(&where, "web.telemetry-path", "/metrics", "`PATH` of the metrics")
	f.StringVar(&config, "web.config.file", "", "`FILE` with TLS and authentication, as Prometheus' own exporters have it")
	f.StringVar(&dir, "run-dir", metrics.Directory(), "`DIRECTORY` where processes publish")
	f.StringVar(&owner, "run-dir.owner", "", "`USER` who owns that directory and runs the processes, if neither root nor the exporter's user")
	f.BoolVar(&once, "once", false, "print the metrics once and exit")
	return cmd
}

// processesOf returns the gatherer of what dir's processes publish. That the
// directory is not there yet is an error if the user named it: the usual one is made by
// the first process that publishes.
func processesOf(dir, owner string, named bool, log *slog.Logger) (*metrics.Processes, error) {
	var users []int
	if owner != "" {
		uid, err := userID(owner)
		if err != nil {
			return nil, fmt.Errorf("--run-dir.owner %s: %w", owner, err)
		}
		users = append(users, uid)
	}
	p := metrics.NewProcesses(dir, log, users...)
	err := p.Check()
	var foreign *metrics.OwnerError
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && named:
		return nil, fmt.Errorf("--run-dir %s: no such directory: make it (mkdir -m 700 %s) and have processes publish there (SLUICE_RUN=%s), or leave the flag out", dir, dir, dir)
	case errors.Is(err, fs.ErrNotExist):
		log.Warn("no process has published yet: the first that runs with SLUICE_METRICS=1 makes the directory", "directory", dir)
	case errors.As(err, &foreign):
		return nil, fmt.Errorf("--run-dir %w, who could forge metrics: run the exporter as that user, or trust it with --run-dir.owner %d", foreign, foreign.UID)
	default:
		return nil, fmt.Errorf("--run-dir: %w", err)
	}
	return p, nil
}

// userID is the number of a user who is given by name or number.
func userID(s string) (int, error) {
	if uid, err := strconv.ParseUint(s, 10, 32); err == nil {
		return int(uid), nil
	}
	u, err := user.Lookup(s)
	if err != nil {
		return 0, errors.New("no such user")
	}
	return strconv.Atoi(u.Uid)
}

// checkMetricsPath refuses what http.ServeMux does not take for one plain path, and
// the exporter's other page.
func checkMetricsPath(p string) error {
	if p == "" || p[0] != '/' || path.Clean(p) != p || strings.ContainsAny(p, "{}?#% \t") {
		return fmt.Errorf("--web.telemetry-path %q: it begins with a slash and is plain, as /metrics", p)
	}
	if p == healthPath {
		return fmt.Errorf("--web.telemetry-path %s: that path says whether the exporter runs: choose another, such as /metrics", p)
	}
	return nil
}

// webScheme checks a file of --web.config.file and says how it has pages served.
func webScheme(config string) (string, error) {
	if err := web.Validate(config); err != nil {
		return "", err
	}
	return schemeOf(config)
}

// listenAll listens at every address.
func listenAll(ctx context.Context, addresses []string) (all []net.Listener, err error) {
	for _, a := range addresses {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", a)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--web.listen-address %s: %w", a, err), closeAll(all))
		}
		all = append(all, l)
	}
	return all, nil
}

func closeAll(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// writeMetrics writes what g gathers as text.
func writeMetrics(w io.Writer, g prometheus.Gatherer) error {
	families, err := g.Gather()
	for _, f := range families {
		if _, failed := expfmt.MetricFamilyToText(w, f); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}
