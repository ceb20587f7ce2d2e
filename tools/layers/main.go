package main

import (
	"fmt"
	"os"
)

func main() {
	findings, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "layers:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

func run(args []string) (findings []string, err error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("expected one of api, check, docs and hot, got %q", args)
	}
	root := os.DirFS(".")
	layers, err := read(root)
	if err != nil {
		return nil, err
	}
	switch args[0] {
	case "check":
		findings, err = check(root, layers)
		if err == nil && len(findings) == 0 {
			fmt.Println("layers: ok")
		}
		return findings, err
	case "docs":
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				return nil, err
			}
			text, err = fill(text, layers)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", page, err)
			}
			if err := os.WriteFile(page, text, 0o644); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case "api":
		return nil, writeSurfaces(root)
	case "hot":
		packages, err := packages(root)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			if _, l := layers.row(p.path); l != nil && l.Hot {
				fmt.Println("./" + p.path)
			}
		}
		return nil, nil
	}
	return nil, fmt.Errorf("expected one of api, check, docs and hot, got %q", args)
}
