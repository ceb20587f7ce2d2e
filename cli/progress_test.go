package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := progressFrom(&b, func() time.Time { return now })
	p.Show(0.1, "early")
	if b.Len() > 0 {
		t.Errorf("after no time it says %q", b.String())
	}
	now = now.Add(30 * time.Second)
	p.Show(0.248, "demo: TIMELY (1 of 2)")
	p.Show(0.249, "too soon after the last")
	now = now.Add(time.Second)
	p.Show(0.5, "short")
	p.Clear()
	p.Clear()
	want := "\r[24.8%] demo: TIMELY (1 of 2) [eta 01m:31s]" +
		"\r[50.0%] short [eta 00m:31s]                " +
		"\r                           \r"
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var none *progressLine
	none.Show(0.5, "nobody")
	none.Clear()
	if got := eta(3*time.Hour, 0.5); got != " [eta 03h:00m:00s]" {
		t.Errorf("half of six hours is %q", got)
	}

	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if newProgress(file) != nil {
		t.Error("a file passes for a terminal")
	}
}
