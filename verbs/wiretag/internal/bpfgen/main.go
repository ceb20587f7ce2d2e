// Bpfgen compiles the eBPF program of package wiretag, for go generate. The
// objects are committed, and only one release of the compiler writes the same
// bytes: where that one is not installed bpfgen says so and leaves them alone.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The compiler and its strip, as Debian 12 has them (packages clang-14 and llvm-14).
const (
	release = "14.0.6"
	clang   = "clang-14"
	strip   = "llvm-strip-14"
)

func main() {
	if why := missing(); why != "" {
		fmt.Printf("bpfgen: %s: the committed objects of verbs/wiretag stay as they are\n", why)
		return
	}
	// -fno-ident and the prefix map of bpf2go keep names of machine and folder out.
	c := exec.Command("go", "run", "github.com/cilium/ebpf/cmd/bpf2go",
		"-cc", clang, "-strip", strip, "-type", "event", "-type", "flow", "-type", "conn", "-type", "probe", "-tags", "linux",
		"-cflags", "-O2 -g -Wall -Wextra -Werror -fno-ident -nostdinc",
		"tagger", "bpf/wiretag.c")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bpfgen:", err)
		os.Exit(1)
	}
}

// missing says what the pinned compiler lacks here; it is empty if nothing.
func missing() string {
	for _, tool := range []string{clang, strip} {
		out, err := exec.Command(tool, "--version").Output()
		if err != nil {
			return fmt.Sprintf("%s %s is not installed", tool, release)
		}
		if !strings.Contains(string(out), release) {
			first, _, _ := strings.Cut(string(out), "\n")
			return fmt.Sprintf("%s is not release %s but %q", tool, release, first)
		}
	}
	return ""
}
