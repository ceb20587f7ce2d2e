package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-rdma/sluice/internal/markdown"
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
	t := markdown.NewTable(&b, "program", "compiler", "for", "")
	failed := 0
	for _, r := range rows {
		said := "compiles"
		if r.fault != "" {
			failed++
			said = r.fault
		}
		t.Row(markdown.Code(r.program), r.compiler, r.chip, said)
	}
	t = nil
	for _, r := range rows {
		if r.compiler != "p4c-barefoot" || r.fault != "" {
			continue
		}
		if t == nil {
			b.WriteString("\n")
			t = markdown.NewTable(&b, "program", "chip", "stages, ingress", "stages, egress", "SRAM", "TCAM", "hash bits", "hash distribution units", "stateful ALUs", "PHV")
		}
		u := r.took
		t.Row(markdown.Code(r.program), r.chip, outOf(u.stages["ingress"], u.stagesOf), outOf(u.stages["egress"], u.stagesOf),
			u.srams, u.tcams, u.hashBits, u.hashUnits, u.statefulALUs, outOf(u.phvBits, u.phvOf)+" bits")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d did not compile", failed, len(rows))
	}
	return nil
}

func outOf(used, of int) string { return fmt.Sprintf("%d of %d", used, of) }
