//go:build linux

package preloaded

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxScripts is the number of nested interpreters of scripts that the kernel follows.
const maxScripts = 5

// Check returns an error with the reason if library would not be loaded into the
// program at path: it is linked statically, gains privileges as it starts, or is for
// another machine. Of a script the interpreter counts.
func Check(path, library string) error {
	for range maxScripts {
		if err := privileged(path); err != nil {
			return err
		}
		interpreter, err := script(path)
		if err != nil {
			return err
		}
		if interpreter == "" {
			return loads(path, library)
		}
		path = interpreter
	}
	return fmt.Errorf("%s: too many interpreters", path)
}

// script returns the interpreter of a script, "" of another file. `#!/usr/bin/env NAME`
// is a script of NAME.
func script(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	line, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	rest, ok := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return "", nil
	}
	if len(words) == 2 && strings.HasSuffix(words[0], "/env") && !strings.HasPrefix(words[1], "-") {
		return exec.LookPath(words[1])
	}
	return words[0], nil
}

// privileged refuses programs for which the loader ignores LD_PRELOAD.
func privileged(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	refuse := func(what string) error {
		return fmt.Errorf("%s %s: no library can be preloaded into it; run a copy that is not so", path, what)
	}
	if st.Mode&syscall.S_ISUID != 0 && int(st.Uid) != os.Getuid() {
		return refuse("is set-user-ID")
	}
	if st.Mode&syscall.S_ISGID != 0 && int(st.Gid) != os.Getgid() {
		return refuse("is set-group-ID")
	}
	if n, err := unix.Getxattr(path, "security.capability", nil); err == nil && n > 0 && os.Getuid() != 0 {
		return refuse("has file capabilities")
	}
	return nil
}

// loads refuses programs whose loader would not load the library.
func loads(path, library string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: no program: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	lib, err := elf.Open(library)
	if err != nil {
		return fmt.Errorf("%s: no library: %w", library, err)
	}
	defer lib.Close() //nolint:errcheck // it was only read
	if f.Class != lib.Class || f.Machine != lib.Machine {
		return fmt.Errorf("%s is for %v (%v), %s for %v (%v): it can't be preloaded", path, f.Machine, f.Class, library, lib.Machine, lib.Class)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil
		}
	}
	return fmt.Errorf("%s is linked statically: no library can be preloaded into it, and none would see what it does", path)
}
