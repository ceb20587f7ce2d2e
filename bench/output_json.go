package bench

import (
	"encoding/json"
	"io"
	"runtime"
	"time"

	"github.com/sluice-rdma/sluice/internal/version"
)

// NewDocument begins a document: start is when the program began, arguments its
// command line without the program's name.
func NewDocument(start time.Time, arguments []string) *Document {
	return &Document{
		Version:     FormatVersion,
		StartTime:   start.UTC().Format(time.RFC3339),
		Arguments:   arguments,
		Environment: Here(),
		Results:     []*Result{},
	}
}

// Here returns the environment of this program.
func Here() Environment {
	return Environment{Identity: version.Get(), CPUs: runtime.NumCPU()}
}

// WriteJSON writes a document, indented. The same results give the same bytes.
func WriteJSON(w io.Writer, d *Document) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) (*Document, error) {
	var d Document
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return nil, err
	}
	return &d, nil
}
