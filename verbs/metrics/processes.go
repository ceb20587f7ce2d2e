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
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"
)

const (
	// scrapeTimeout bounds the collection of one process, well below Prometheus'
	// usual ten seconds for a whole scrape.
	scrapeTimeout = 2 * time.Second
	// maxReply bounds what one process may answer: some 6,000 queue pairs.
	maxReply = 32 << 20
)

// Processes is a prometheus.Gatherer of what the processes of a directory
// publish, with the label pid added to every metric, and of sluice_process_up{pid}:
// 1 if the process answered, else 0.
type Processes struct {
	dir   string
	users []int
	log   *slog.Logger
}

// NewProcesses returns the gatherer. Directory and processes have to be root's, the
// own user's, or one of users, by number; processes may also be anyone's of the directory's
// group, where that may write there and others may not. A process that does not answer within two
// seconds, or with more than 32 MiB, is left out and logged.
func NewProcesses(dir string, log *slog.Logger, users ...int) *Processes {
	return &Processes{dir: dir, users: users, log: log}
}

// Check says why nothing can be gathered: the directory is not there
// (fs.ErrNotExist), which is no error of Gather's since processes make it, or it is
// another user's (*OwnerError).
func (p *Processes) Check() error { return checkOwner(p.dir, p.users...) }

// Gather implements prometheus.Gatherer.
func (p *Processes) Gather() ([]*dto.MetricFamily, error) {
	if err := p.Check(); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 && filepath.Ext(e.Name()) == ".sock" {
			paths = append(paths, filepath.Join(p.dir, e.Name()))
		}
	}
	type answer struct {
		families map[string]*dto.MetricFamily
		pid      string
		err      error
	}
	answers := make(chan answer)
	for _, path := range paths {
		go func() {
			families, err := p.scrape(path)
			answers <- answer{families, strings.TrimSuffix(filepath.Base(path), ".sock"), err}
		}()
	}
	up := &dto.MetricFamily{
		Name: proto.String("sluice_process_up"), Help: proto.String("1 if the process answered, else 0."), Type: dto.MetricType_GAUGE.Enum(),
	}
	merged := map[string]*dto.MetricFamily{}
	for range paths {
		a := <-answers
		if errors.Is(a.err, errGone) {
			continue
		}
		answered := 1.0
		if a.err != nil {
			p.log.Warn("a process is left out", "pid", a.pid, "error", a.err)
			answered = 0
		}
		up.Metric = append(up.Metric, &dto.Metric{
			Label: []*dto.LabelPair{{Name: proto.String("pid"), Value: proto.String(a.pid)}}, Gauge: &dto.Gauge{Value: &answered},
		})
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
	out := make([]*dto.MetricFamily, 0, len(merged)+1)
	if len(up.Metric) > 0 {
		out = append(out, up)
	}
	for _, f := range merged {
		out = append(out, f)
	}
	return out, nil
}

// groups says whether whoever made the directory lets its group publish there, and
// nobody else.
func (p *Processes) groups() bool {
	info, err := os.Stat(p.dir)
	return err == nil && info.Mode().Perm()&0o022 == 0o020
}

// errGone says that a socket's process is gone.
var errGone = errors.New("the process is gone")

// scrape reads one process's metrics. It removes the socket of a process that is
// gone.
func (p *Processes) scrape(path string) (map[string]*dto.MetricFamily, error) {
	client := http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", path)
			if err != nil {
				return nil, err
			}
			if uid, err := listener(c.(*net.UnixConn)); err != nil {
				return nil, errors.Join(err, c.Close())
			} else if !believed(uid, p.users) && !p.groups() {
				return nil, errors.Join(&OwnerError{Path: path, UID: uid}, c.Close())
			}
			return c, nil
		},
	}}
	resp, err := client.Get("http://process/metrics")
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) { // nobody listens any more
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("its process is gone: %w", err)
			}
			return nil, errGone
		}
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	switch {
	case len(text) > maxReply:
		return nil, fmt.Errorf("its reply is longer than %d MiB", maxReply>>20)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}
