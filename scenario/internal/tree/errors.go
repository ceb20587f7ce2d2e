package tree

import (
	"fmt"
	"strings"
)

// Pos is the place where something was written: a line of a file, or an override.
type Pos struct {
	File string
	Line int
	Set  string // the override's text, "nic.mtu=4096"; empty for a file
}

func (p Pos) String() string {
	switch {
	case p.Set != "":
		return "--set " + p.Set
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is the error of one key of a scenario.
type Error struct {
	Pos Pos
	Key string // such as "systems[0].config.t_low"; empty for the whole
	Msg string // what is wrong, and the mend
}

func (e *Error) Error() string {
	if e.Key == "" {
		return e.Pos.String() + ": " + e.Msg
	}
	return e.Pos.String() + ": " + e.Key + ": " + e.Msg
}

// Errors is all that is wrong with a scenario, at least one thing, in the order
// in which it was found.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}
