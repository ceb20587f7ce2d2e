package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// leaves is a client that is gone.
type leaves struct{ *httptest.ResponseRecorder }

func (leaves) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestClientLeaves has clients that leave early make one line a minute, which counts the rest.
func TestClientLeaves(t *testing.T) {
	var out bytes.Buffer
	l := newScrapeLog(slog.New(slog.NewTextHandler(&out, nil)))
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	own := prometheus.NewRegistry()
	registerSelf(own)
	h := scrapeHandler(own, prometheus.Gatherers{}, l)
	scrape := func() {
		h.ServeHTTP(leaves{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
	scrape()
	scrape()
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "broken pipe") {
		t.Errorf("%d lines for two clients that left:\n%s", n, &out)
	}
	out.Reset()
	now = now.Add(scrapeLogInterval)
	scrape()
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), " similar=") {
		t.Errorf("%d lines after the interval:\n%s", n, &out)
	}
	out.Reset()
	l.Println("error gathering metrics:", "another kind")
	if !strings.Contains(out.String(), "another kind") {
		t.Errorf("another kind of message was left out: %s", &out)
	}
}
