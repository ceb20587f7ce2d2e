package main

import (
	"fmt"
	"io"
	"strings"
)

// report prints the tables, and fails if a program does not compile.
func report(w io.Writer, tools map[string]tool, rows []row) error {
	var b strings.Builder
	var have []string
	for _, c := range compilers {
		if t, ok := tools[c]; ok {
			have = append(have, c+" "+t.version)
		} else {
			have = append(have, "no "+c)
		}
	}
	fmt.Fprintf(&b, "Compilers: %s.\n\n", strings.Join(have, ", "))
	b.WriteString("| program | compiler | for | |\n|---|---|---|---|\n")
	failed := 0
	for _, r := range rows {
		said := "compiles"
		if r.fault != "" {
			failed++
			said = strings.ReplaceAll(r.fault, "|", `\|`)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.program, r.compiler, r.chip, said)
	}
	head := "\n| program | chip | stages, ingress | stages, egress | SRAM | TCAM | hash bits | hash distribution units | stateful ALUs | PHV |\n|---|---|---|---|---|---|---|---|---|---|\n"
	for _, r := range rows {
		if r.compiler != "p4c-barefoot" || r.fault != "" {
			continue
		}
		b.WriteString(head)
		head = ""
		u := r.took
		fmt.Fprintf(&b, "| `%s` | %s | %d of %d | %d of %d | %d | %d | %d | %d | %d | %d of %d bits |\n", r.program, r.chip,
			u.stages["ingress"], u.stagesOf, u.stages["egress"], u.stagesOf, u.srams, u.tcams, u.hashBits, u.hashUnits, u.statefulALUs, u.phvBits, u.phvOf)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d did not compile", failed, len(rows))
	}
	return nil
}
