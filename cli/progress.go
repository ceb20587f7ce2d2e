package cli

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress shows on a terminal how far a run is: "[24.8%] websearch: TIMELY (1 of
// 3) [eta 01m:31s]", on a line that it overwrites. It says nothing in the first
// two seconds. The zero value and nil say nothing at all.
type progressLine struct {
	w     io.Writer
	now   func() time.Time
	start time.Time
	last  time.Time
	width int
}

// progressAfter is the time for which a run stays silent, progressEvery the period at
// which the line changes.
const (
	progressAfter = 2 * time.Second
	progressEvery = 200 * time.Millisecond
)

// NewProgress returns a Progress that writes to f if it is a terminal.
func newProgress(f *os.File) *progressLine {
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return progressFrom(f, time.Now)
}

func progressFrom(w io.Writer, now func() time.Time) *progressLine {
	return &progressLine{w: w, now: now, start: now()}
}

// Show says that a share of the whole, 0 to 1, is done, and what is running.
func (p *progressLine) Show(done float64, what string) {
	if p == nil || p.w == nil {
		return
	}
	now := p.now()
	if now.Sub(p.start) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	line := fmt.Sprintf("[%4.1f%%] %s%s", done*100, what, eta(now.Sub(p.start), done))
	// Errors are left alone: who can't read the progress still wants the run.
	_, _ = fmt.Fprintf(p.w, "\r%-*s", p.width, line)
	p.width = len(line)
}

// Clear removes the line, so that something else can be written.
func (p *progressLine) Clear() {
	if p == nil || p.width == 0 {
		return
	}
	_, _ = fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
	p.width = 0
}

func eta(elapsed time.Duration, done float64) string {
	if !(done > 0.001) {
		return ""
	}
	left := time.Duration(float64(elapsed) * (1 - min(done, 1)) / done).Round(time.Second)
	if left >= time.Hour {
		return fmt.Sprintf(" [eta %02dh:%02dm:%02ds]", left/time.Hour, left/time.Minute%60, left/time.Second%60)
	}
	return fmt.Sprintf(" [eta %02dm:%02ds]", left/time.Minute, left/time.Second%60)
}
