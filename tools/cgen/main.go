package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cgen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("expected SPEC.yaml and a directory, got %q", args)
	}
	files, err := fromSpec(args[0])
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(args[1], name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fromSpec generates what a file asks for, of the module that it is in.
func fromSpec(file string) (map[string]string, error) {
	spec, err := readSpec(file)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	root, module, err := findModule(dir)
	if err != nil {
		return nil, err
	}
	return generate(newProgram(root, module), spec)
}
