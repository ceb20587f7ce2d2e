package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "p4c:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("no directory with p4test, p4c-bm2-ss or p4c-barefoot is given: make p4c P4C=DIR")
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	tools, err := findTools(dir)
	if err != nil {
		return err
	}
	programs, err := filepath.Glob(filepath.Join("p4", "*.p4"))
	if err != nil || len(programs) == 0 {
		return fmt.Errorf("there are no programs p4/*.p4 here: run it where Sluice's source is")
	}
	temp, err := os.MkdirTemp("", "p4c")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // it holds nothing that is wanted
	var rows []row
	for _, p := range programs {
		for _, j := range jobs(p) {
			t, ok := tools[j.compiler]
			if !ok {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s %s %s\n", j.compiler, j.chip, p)
			rows = append(rows, t.compile(ctx, j, p, filepath.Join(temp, fmt.Sprint(len(rows)))))
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return report(os.Stdout, tools, rows)
}
