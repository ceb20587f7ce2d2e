package rxeguest

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"
)

// neededBy returns what an ELF program or library loads: the names of its shared
// libraries and the path of its interpreter, which is empty for a library.
func neededBy(file io.ReaderAt) (libs []string, interpreter string, err error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, "", err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, "", err
			}
			interpreter = string(bytes.TrimRight(b, "\x00"))
		}
	}
	libs, err = f.ImportedLibraries()
	if errors.Is(err, elf.ErrNoSymbols) { // a static program
		err = nil
	}
	return libs, interpreter, err
}

// moduleDepends returns the names of the modules that a kernel module needs
// loaded before it, from its .modinfo section.
func moduleDepends(file io.ReaderAt) ([]string, error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no .modinfo section: not a kernel module")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if v, ok := strings.CutPrefix(string(field), "depends="); ok && v != "" {
			return strings.Split(v, ","), nil
		}
	}
	return nil, nil
}

// loadOrder returns the wanted modules and all that they depend on, each after
// what it depends on.
func loadOrder(wanted []string, depends func(module string) ([]string, error)) ([]string, error) {
	const (
		visiting = 1 + iota
		done
	)
	state := make(map[string]int)
	var order []string
	var visit func(name string) error
	visit = func(name string) error {
		switch state[name] {
		case done:
			return nil
		case visiting:
			return fmt.Errorf("module %s depends on itself", name)
		}
		state[name] = visiting
		before, err := depends(name)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		for _, m := range before {
			if err := visit(m); err != nil {
				return err
			}
		}
		state[name] = done
		order = append(order, name)
		return nil
	}
	for _, m := range wanted {
		if err := visit(m); err != nil {
			return nil, err
		}
	}
	return order, nil
}
