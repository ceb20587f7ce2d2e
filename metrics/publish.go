package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"
)

// Directory is where processes publish: $SLUICE_RUN, else sluice below
// $XDG_RUNTIME_DIR, else /run/sluice for root and sluice-UID in the directory for
// temporary files for others.
func Directory() string {
	if dir := os.Getenv("SLUICE_RUN"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "sluice")
	}
	if os.Geteuid() == 0 {
		return "/run/sluice"
	}
	return filepath.Join(os.TempDir(), "sluice-"+strconv.Itoa(os.Getuid()))
}

// Publish serves what g gathers on a socket of the local machine, DIR/PID.sock,
// where `sluice exporter` finds it; dir is made if it is not there, for its owner
// alone. The socket goes away with stop; that of a process that was killed is
// removed by whoever looks for it next.
func Publish(g prometheus.Gatherer, dir string) (stop func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("metrics: %w: name another directory with SLUICE_RUN", err)
	}
	if err := trusted(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	server := &http.Server{
		Handler:           promhttp.HandlerFor(g, promhttp.HandlerOpts{}),
		ReadHeaderTimeout: scrapeTimeout,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return func() error {
		err := errors.Join(os.Remove(path), server.Close())
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// trusted refuses a directory of another user's, who could answer in this
// process's name.
func trusted(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return fmt.Errorf("metrics: %s belongs to user %d: remove it, or name another directory with SLUICE_RUN", dir, owner)
	}
	return nil
}

// listen makes the socket under another name and renames it: whoever looks
// between bind and listen would take it for that of a process that was killed.
func listen(path string) (net.Listener, error) {
	early := path + ".new"
	if err := os.Remove(early); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	// To connect is to write. Who may enter the directory is the directory's to say.
	if err := errors.Join(os.Chmod(early, 0o660), os.Rename(early, path)); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(early))
	}
	return l, nil
}

// scrapeTimeout bounds the collection of one process, well below Prometheus'
// usual ten seconds for a whole scrape.
const scrapeTimeout = 2 * time.Second

// Processes is a prometheus.Gatherer of what the processes of a directory
// publish, with the label pid added to every metric.
type Processes struct {
	dir string
	log *slog.Logger
}

// NewProcesses returns the gatherer. A process that does not answer within two
// seconds is left out and logged.
func NewProcesses(dir string, log *slog.Logger) *Processes { return &Processes{dir: dir, log: log} }

// Gather implements prometheus.Gatherer.
func (p *Processes) Gather() ([]*dto.MetricFamily, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".sock" {
			paths = append(paths, filepath.Join(p.dir, e.Name()))
		}
	}
	type answer struct {
		families map[string]*dto.MetricFamily
		pid      string
	}
	answers := make(chan answer)
	for _, path := range paths {
		go func() {
			families, err := scrape(path)
			if err != nil {
				p.log.Warn("a process did not answer", "socket", path, "error", err)
			}
			answers <- answer{families, strings.TrimSuffix(filepath.Base(path), ".sock")}
		}()
	}
	merged := map[string]*dto.MetricFamily{}
	for range paths {
		a := <-answers
		for name, f := range a.families {
			for _, m := range f.Metric {
				m.Label = append(m.Label, &dto.LabelPair{Name: proto.String("pid"), Value: proto.String(a.pid)})
			}
			known := merged[name]
			switch {
			case known == nil:
				merged[name] = f
			case known.GetType() == f.GetType():
				known.Metric = append(known.Metric, f.Metric...)
			default: // another version of the library
				p.log.Warn("a metric has another type than in other processes", "metric", name, "pid", a.pid)
			}
		}
	}
	out := make([]*dto.MetricFamily, 0, len(merged))
	for _, f := range merged {
		out = append(out, f)
	}
	return out, nil
}

// scrape reads one process's metrics. The socket of a process that is gone is
// removed and no error.
func scrape(path string) (map[string]*dto.MetricFamily, error) {
	client := http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	resp, err := client.Get("http://process/metrics")
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) { // nobody listens any more
			return nil, os.Remove(path)
		}
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}
