package reproduce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// reportVersion is the version of the JSON that Report.Write writes. It changes when
// a field changes its meaning or goes.
const reportVersion = 1

// Report is the outcome of rows.
type Report struct {
	Version   int      `json:"version"`
	Program   string   `json:"program"`
	StartTime string   `json:"start_time"` // RFC 3339, UTC
	Arguments []string `json:"arguments"`
	Quick     bool     `json:"quick"`  // in small
	WallS     float64  `json:"wall_s"` // elapsed seconds of this call
	Cores     int      `json:"cores"`  // runs at a time
	Runs      int      `json:"runs"`   // of the simulator
	// RunsReused is how many of them were kept from an earlier call.
	RunsReused int `json:"runs_reused"`
	// MemoryMiB is what the program had of the system at the end of this call, which
	// is the most it ever had.
	MemoryMiB int `json:"memory_mib"`
	// Interrupted says that a signal broke the call off, and Missing which rows have no
	// result for that, or for a failure.
	Interrupted bool     `json:"interrupted,omitempty"`
	Missing     []string `json:"missing,omitempty"`

	Listed  int `json:"listed"`  // rows of the papers' list
	Defined int `json:"defined"` // of those, that can be run

	Rows []*rowResult `json:"rows"`

	// Fingerprints are of what each run gave, by the name that it is kept under. Any later
	// program can hold its own runs against them (Verify).
	Fingerprints map[string]string `json:"fingerprints,omitempty"`
}

// status is the outcome of a row.
type status string

// What a row can be.
const (
	met       status = "met"
	missed    status = "missed"
	uncounted status = "reported" // not counted
)

// rowResult is the outcome of a row, with its figures.
type rowResult struct {
	ID      string        `json:"id"`
	Beside  string        `json:"beside,omitempty"` // the row that it counts with
	Paper   string        `json:"paper"`
	Source  string        `json:"source"`
	Kind    kind          `json:"kind"`
	What    string        `json:"what,omitempty"`
	Scaling string        `json:"scaling,omitempty"`
	Note    string        `json:"note,omitempty"`
	Status  status        `json:"status"`
	Seeds   int           `json:"seeds"`
	Checks  []checkResult `json:"checks"`
	Figures []figure      `json:"figures"`

	charts []chart
}

// checkResult is the outcome of a check.
type checkResult struct {
	Text  string  `json:"text"`
	Paper rounded `json:"paper"` // null: the paper gives no number
	Ours  rounded `json:"ours"`  // mean of all seeds; null for an order
	Low   rounded `json:"low"`   // 95 percent interval; null with one seed
	High  rounded `json:"high"`
	Met   bool    `json:"met"`
	// Counts is false for what is shown only.
	Counts bool   `json:"counts"`
	Why    string `json:"why"`
}

// figure is what was measured, the mean of all seeds.
type figure struct {
	Name  string  `json:"name"`
	Paper rounded `json:"paper"`
	Ours  rounded `json:"ours"`
	Low   rounded `json:"low"`
	High  rounded `json:"high"`
}

// rounded has five significant digits; NaN is null in JSON.
type rounded float64

var none = rounded(math.NaN())

// MarshalJSON implements json.Marshaler.
func (n rounded) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
		// Rounded first, so that no exponent stands where plain digits do.
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
		if err != nil {
			return nil, err
		}
		return json.Marshal(rounded)
	}
	return []byte("null"), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *rounded) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = none
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	*n = rounded(v)
	return err
}

func (n rounded) String() string { return short(float64(n)) }

// there reports whether n is a number.
func (n rounded) there() bool { return !math.IsNaN(float64(n)) }

// Write writes the report as JSON.
func (r *Report) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// ReadReport reads what Write wrote. It has no charts.
func ReadReport(in io.Reader) (*Report, error) {
	text, err := infile.All(in, infile.MaxRecord)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := infile.JSON(text, &r); err != nil {
		return nil, fmt.Errorf("this is no report of sluice reproduce: %w", err)
	}
	switch {
	case r.Version == 0 || r.Rows == nil:
		return nil, errors.New("this is no report of sluice reproduce: write one with sluice reproduce --json FILE")
	case r.Version != reportVersion:
		return nil, fmt.Errorf("the report has version %d, and this program reads %d: use the one that wrote it", r.Version, reportVersion)
	}
	for i, row := range r.Rows {
		if row == nil || row.ID == "" {
			return nil, fmt.Errorf("row %d of the report has no id", i+1)
		}
	}
	return &r, nil
}

// Missed returns the ids of the rows that were missed.
func (r *Report) Missed() []string {
	var ids []string
	for _, row := range r.Rows {
		if row.Status == missed {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// count is how many rows of a kind there are, and how many were met: Artefact of them
// in the set-up of the paper's public code alone.
type count struct {
	Kind                kind
	Rows, Met, Artefact int
}

// counts are those of the kinds that have rows; reports are never met. A row and the one
// beside it are one, and met if either is.
func (r *Report) counts() []count {
	var out []count
	for _, kind := range []kind{kindValue, kindRatio, kindOrder, kindReport} {
		c := count{Kind: kind}
		for _, row := range r.Rows {
			if row.Kind != kind || row.Beside != "" && r.row(row.Beside) != nil {
				continue
			}
			c.Rows++
			switch {
			case row.Status == met:
				c.Met++
			case r.metBeside(row.ID):
				c.Met++
				c.Artefact++
			}
		}
		if c.Rows > 0 {
			out = append(out, c)
		}
	}
	return out
}

// metBeside reports whether a row is met in the set-up of the paper's public code.
func (r *Report) metBeside(id string) bool {
	return slices.ContainsFunc(r.Rows, func(row *rowResult) bool { return row.Beside == id && row.Status == met })
}
