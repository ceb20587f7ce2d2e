package sweep

import (
	"fmt"
	"io"
	"time"
)

// Print writes what was planned for a reader: dir as it was named, and the commands that
// submit the job files that were written.
func (p *Planned) Print(w io.Writer, dir string, submit []string) error {
	tasks := (p.Cells-1)/p.Chunk + 1
	text := fmt.Sprintf("%s: %d cells, of %d texts of scenarios; %d left out", p.Name, p.Cells, p.Scenarios, p.Excluded)
	if p.Shared > 0 {
		text += fmt.Sprintf("; %d share the result of another", p.Shared)
	}
	text += fmt.Sprintf("\nabout %.3g packet-hops in all, %d MiB of memory or more a cell\n", p.Sum.PacketHops, p.Sum.MemoryBytes>>20+1)
	if tasks == p.Cells {
		text += fmt.Sprintf("an array has the tasks 0-%d\n", tasks-1)
	} else {
		text += fmt.Sprintf("an array has the tasks 0-%d, of %d cells each\n", tasks-1, p.Chunk)
	}
	if len(submit) == 0 {
		submit = []string{"sluice sweep run " + dir}
	}
	for _, command := range submit {
		text += "  " + command + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// Print writes the status for a reader.
func (s *Status) Print(w io.Writer) error {
	p := s.Plan
	text := fmt.Sprintf("%s: %d of %d cells done (%.1f %%), %d failed, %d missing\n", p.Name, s.Done, p.Cells, 100*float64(s.Done)/float64(p.Cells), s.Failed, s.Missing)
	if s.SecondsLeft > 0 {
		text += fmt.Sprintf("%.3g cells/s from the first result to the last; at that pace %v are left\n", s.CellsPerSecond, time.Duration(s.SecondsLeft*float64(time.Second)).Round(time.Second))
	}
	for _, f := range s.Failures {
		text += fmt.Sprintf("cell %d on %s: %s\n", f.Index, f.Host, f.Error)
	}
	if more := s.Failed - len(s.Failures); more > 0 {
		text += fmt.Sprintf("and %d more that failed\n", more)
	}
	for _, why := range s.Misfits {
		text += why + "\n"
	}
	if more := s.Misfit - len(s.Misfits); more > 0 {
		text += fmt.Sprintf("and %d more results that are not what they should be\n", more)
	}
	if s.Array != "" {
		text += "--array=" + s.Array + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
