package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

// A scrape that is under way when the exporter is told to stop is answered.
func TestServeEndsWithItsRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			stop()
			<-ctx.Done()
			_, _ = io.WriteString(w, "whole")
		}))
	}()
	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "whole" {
		t.Errorf("%q, %v", body, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A path that no handler can be registered for is refused, and not a panic.
func TestMetricsPath(t *testing.T) {
	for p, good := range map[string]bool{
		"/metrics": true, "/": true, "/a/b.txt": true,
		"": false, "metrics": false, "//x": false, "/x/": false, "/../x": false, "/{x": false, "/{x}": false, "/{$}": false,
		"/a b": false, "/a?b": false, "/a%20b": false,
	} {
		if err := checkMetricsPath(p); (err == nil) != good {
			t.Errorf("%q: %v", p, err)
		}
		if good {
			http.NewServeMux().Handle("GET "+p, http.NotFoundHandler()) // it panics of a bad one
		}
	}
}
