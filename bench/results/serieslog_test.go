package results

import (
	"os"
	"path/filepath"
	"testing"
)

// Files of a directory that is a file are refused.
func TestSeriesLogErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateSeriesLog(file); err == nil {
		t.Error("no error")
	}
	if err := (&SeriesLog{dir: file, files: map[string]*seriesFile{}}).Write(&SeriesRow{Kind: "rate"}); err == nil {
		t.Error("no error of a row")
	}
}
