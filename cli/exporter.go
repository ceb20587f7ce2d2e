package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/metrics"
)

// exporterPort is none that another known exporter has.
const exporterPort = 9861

func newExporter() *cobra.Command {
	var listen, where, dir string
	var once bool
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Tell Prometheus about RDMA devices and paced queue pairs",
		Long: `Serve the counters of the kernel's RDMA devices, and what the processes of this
machine publish about the queue pairs that they pace: those that run with
SLUICE_METRICS=1, or call metrics.Publish. docs/observability.md lists the names.`,
		Example: "  sluice exporter\n  sluice exporter --web.listen-address 127.0.0.1:9861\n  sluice exporter --once",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log := slog.Default()
			own := prometheus.NewRegistry()
			own.MustRegister(metrics.NewKernel(log))
			all := prometheus.Gatherers{own, metrics.NewProcesses(dir, log)}
			if once {
				return writeMetrics(c.OutOrStdout(), all)
			}
			if err := checkMetricsPath(where); err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
			if err != nil {
				return usageError{fmt.Errorf("--web.listen-address %s: %w", listen, err)}
			}
			if _, err := fmt.Fprintf(c.OutOrStdout(), "metrics are at http://%s%s\n", l.Addr(), where); err != nil {
				return errors.Join(err, l.Close())
			}
			mux := http.NewServeMux()
			mux.Handle("GET "+where, promhttp.HandlerFor(all, promhttp.HandlerOpts{
				ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
			}))
			return serve(ctx, l, mux)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "web.listen-address", fmt.Sprintf(":%d", exporterPort), "`ADDRESS` and port to serve on")
	f.StringVar(&where, "web.telemetry-path", "/metrics", "`PATH` of the metrics")
	f.StringVar(&dir, "run-dir", metrics.Directory(), "`DIRECTORY` where processes publish")
	f.BoolVar(&once, "once", false, "print the metrics once and exit")
	return cmd
}

// checkMetricsPath refuses what http.ServeMux does not take for one plain path.
func checkMetricsPath(p string) error {
	if p == "" || p[0] != '/' || path.Clean(p) != p || strings.ContainsAny(p, "{}?#% \t") {
		return fmt.Errorf("--web.telemetry-path %q: it begins with a slash and is plain, as /metrics", p)
	}
	return nil
}

// serve answers requests until ctx ends, and finishes those at hand.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	const patience = 5 * time.Second
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return server.Shutdown(ending)
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
