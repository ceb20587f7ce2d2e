package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/version"
)

// Bounds of what strangers can have the exporter do at once.
const (
	mostScrapes     = 8  // in flight; further ones are answered 503
	mostConnections = 64 // of each address
	readTimeout     = 5 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute // above the usual intervals of scrapes
	endTimeout      = 5 * time.Second
)

// healthPath answers as long as the exporter runs.
const healthPath = "/healthz"

// registerSelf has r tell of this program, its runtime and its process. Labels of
// sluice_build_info are those of github.com/prometheus/common/version.
func registerSelf(r prometheus.Registerer) {
	id := version.Get()
	revision := cmp.Or(id.Commit, "unknown")
	if id.Modified {
		revision += "-modified"
	}
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_build_info",
			Help: "A metric with a constant '1' value labeled by version, revision and goversion from which sluice was built.",
			ConstLabels: prometheus.Labels{
				"version": id.Sluice, "revision": revision, "goversion": id.Go, "goos": id.OS, "goarch": id.Arch,
			},
		}, func() float64 { return 1 }),
	)
}

// exporterHandler serves what own and processes gather at the path where, whether the
// exporter runs at /healthz, and a page with both links at the root.
func exporterHandler(own *prometheus.Registry, processes prometheus.Gatherer, where string, log *slog.Logger) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle("GET "+where, scrapeHandler(own, processes, newScrapeLog(log)))
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	if where == "/" {
		return mux, nil
	}
	page, err := web.NewLandingPage(web.LandingConfig{
		Name: "Sluice exporter", Description: "RDMA devices and paced queue pairs, for Prometheus", Version: version.Get().String(),
		Links: []web.LandingLinks{
			{Address: where, Text: "Metrics"},
			{Address: healthPath, Text: "Health", Description: "answers as long as the exporter runs"},
		},
		Profiling: "false",
	})
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /{$}", page)
	return mux, nil
}

// scrapeHandler serves what own and processes gather.
func scrapeHandler(own *prometheus.Registry, processes prometheus.Gatherer, log promhttp.Logger) http.Handler {
	return promhttp.InstrumentMetricHandler(own, promhttp.HandlerFor(prometheus.Gatherers{own, processes}, promhttp.HandlerOpts{
		ErrorLog: log, ErrorHandling: promhttp.ContinueOnError, Registry: own, MaxRequestsInFlight: mostScrapes,
	}))
}

// serve answers requests at every listener until ctx ends, and finishes those at hand.
// config is a file of --web.config.file, or empty.
func serve(ctx context.Context, listeners []net.Listener, h http.Handler, config string) error {
	servers := make([]*http.Server, len(listeners))
	done := make(chan error, len(listeners))
	for i, l := range listeners {
		// A server a listener: web.Serve sets its server's handler and TLS.
		servers[i] = &http.Server{
			Handler:           h,
			ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
			ConnState: newConnLimit(mostConnections).changed,
		}
		go func() {
			done <- web.Serve(l, servers[i], &web.FlagConfig{WebConfigFile: &config}, slog.Default())
		}()
	}
	var failed error
	select {
	case failed = <-done:
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	for _, s := range servers {
		failed = errors.Join(failed, s.Shutdown(ending))
	}
	return failed
}

// schemeOf says how a file of --web.config.file has pages served.
func schemeOf(config string) (string, error) {
	if config == "" {
		return "http", nil
	}
	text, err := infile.Read(config, infile.MaxText)
	if err != nil {
		return "", err
	}
	var c struct {
		TLS map[string]any `yaml:"tls_server_config"`
	}
	if err := infile.YAML(text, &c); err != nil {
		return "", err
	}
	if len(c.TLS) > 0 {
		return "https", nil
	}
	return "http", nil
}
