package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A scrapeLog is where promhttp says what went wrong with a scrape. Where a client leaves before
// it has all, that is a message for each metric that is left: of messages that begin
// alike there is one each interval, with the number of those that were left out.
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

// scrapeLogInterval is for how long what was said is not said again.
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
