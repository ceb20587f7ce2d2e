// Command bpfgen compiles a package's eBPF program, for go generate. The objects are
// committed, and only one release of the compiler writes the same bytes: where that
// one is not installed bpfgen says so and leaves them alone.
//
//	go run ../../tools/bpfgen NAME SOURCE TYPE...
//
// NAME is what the identifiers of the package that it writes begin with, SOURCE the
// program, and TYPEs those of its types that Go is to have.
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
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "bpfgen: usage: bpfgen NAME SOURCE TYPE...")
		os.Exit(2)
	}
	name, source := os.Args[1], os.Args[2]
	if why := missing(); why != "" {
		fmt.Printf("bpfgen: %s: the committed objects of %s stay as they are\n", why, source)
		return
	}
	args := []string{"run", "github.com/cilium/ebpf/cmd/bpf2go", "-cc", clang, "-strip", strip}
	for _, t := range os.Args[3:] {
		args = append(args, "-type", t)
	}
	// -fno-ident and the prefix map of bpf2go keep names of machine and folder out.
	args = append(args, "-tags", "linux", "-cflags", "-O2 -g -Wall -Wextra -Werror -fno-ident -nostdinc", name, source)
	c := exec.Command("go", args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bpfgen:", err)
		os.Exit(1)
	}
}

// missing names what the pinned compiler lacks here; it is empty if nothing.
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
