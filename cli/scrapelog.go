package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A scrapeLog takes promhttp's messages about a failed scrape. When a client leaves early, there
// is a message for each remaining metric: of messages that begin alike it writes one each
// interval, with the number of omitted ones.
type scrapeLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	said map[string]*repeated // by how they begin
}

type repeated struct {
	at   time.Time
	left int // left out since then
}

// scrapeLogInterval is the time for which a message is not repeated.
const scrapeLogInterval = time.Minute

func newScrapeLog(log *slog.Logger) *scrapeLog {
	return &scrapeLog{log: log, now: time.Now, said: map[string]*repeated{}}
}

// Println implements promhttp.Logger, which begins each kind of message with a text of its own.
func (l *scrapeLog) Println(v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, now := fmt.Sprint(v[:min(len(v), 1)]...), l.now()
	r := l.said[kind]
	if r != nil && now.Sub(r.at) < scrapeLogInterval {
		r.left++
		return
	}
	var args []any
	if r != nil && r.left > 0 {
		args = append(args, "similar", r.left)
	}
	l.said[kind] = &repeated{at: now}
	l.log.Error(strings.TrimSuffix(fmt.Sprintln(v...), "\n"), args...)
}
