package ccore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/ctest"
)

// cores are objects of sluice_core.c by the options that they were compiled with, in a folder of their own.
var cores = struct {
	dir  string
	made map[string]string
}{made: map[string]string{}}

func TestMain(m *testing.M) {
	code := m.Run()
	if cores.dir != "" {
		_ = os.RemoveAll(cores.dir) // temporary
	}
	os.Exit(code)
}

// core compiles sluice_core.c, once for all tests that link it with the same options.
func core(t testing.TB, options ...string) string {
	t.Helper()
	key := strings.Join(options, " ")
	if cores.made[key] == "" {
		if cores.dir == "" {
			var err error
			if cores.dir, err = os.MkdirTemp("", "sluice-core"); err != nil {
				t.Fatal(err)
			}
		}
		object := filepath.Join(cores.dir, fmt.Sprint(len(cores.made), ".o"))
		ctest.Compile(t, append(options, "-c", "-o", object, "src/sluice_core.c")...)
		cores.made[key] = object
	}
	return cores.made[key]
}

// Each way of compiling takes all of the code without a warning.
func TestItCompilesWithoutWarnings(t *testing.T) {
	for _, options := range [][]string{
		{"-O0"}, {"-O2"}, {"-O3", "-march=native"}, {"-Os", "-DSLUICE_PORTABLE"}, {"-std=gnu17", "-O2"},
		{"-O2", "-ffreestanding", "-nostdlib"}, {"-O3", "-march=native", "-ffreestanding", "-nostdlib", "-DSLUICE_PORTABLE"},
	} {
		ctest.Compile(t, append(options, "-c", "-o", filepath.Join(t.TempDir(), "core.o"), "src/sluice_core.c")...)
	}
}

// Without a C library, only what a compiler counts on everywhere is missing.
func TestFreestandingNeedsNoLibrary(t *testing.T) {
	nm, err := exec.LookPath("nm")
	if err != nil {
		t.Skipf("there is no nm to list symbols: %v", err)
	}
	for _, portable := range []string{"-DSLUICE_PORTABLE", "-USLUICE_PORTABLE"} {
		object := filepath.Join(t.TempDir(), "core.o")
		ctest.Compile(t, "-O2", "-ffreestanding", "-nostdlib", portable, "-c", "-o", object, "src/sluice_core.c")
		out, err := exec.Command(nm, "-u", object).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(out)) {
			switch field {
			case "U", "memcpy", "memmove", "memset":
			default:
				t.Errorf("the symbol %s is undefined", field)
			}
		}
	}
}

// The library that make builds has no thread, needs nothing but the C library's memory
// functions, and exports sluice_ alone.
func TestTheLibraryIsSmallAndNeedsNothing(t *testing.T) {
	ctest.Compiler(t)
	for _, tool := range []string{"make", "nm", "ar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s: %v", tool, err)
		}
	}
	ctest.Track(t, "src")
	dir := t.TempDir()
	cmd := exec.Command("make", "-C", "../../..", "libsluice-core", "LIB="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	library := filepath.Join(dir, "libsluice-core.so.0")
	out, err := exec.Command("nm", "-D", library).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name, _, _ := strings.Cut(fields[len(fields)-1], "@")
		switch kind := fields[len(fields)-2]; kind {
		case "U":
			if name != "memcpy" && name != "memmove" && name != "memset" && name != "__stack_chk_fail" {
				t.Errorf("the library needs %s", name)
			}
		case "w": // of the compiler's start files, called if they are there
		default:
			if !strings.HasPrefix(name, "sluice_") {
				t.Errorf("the library has the symbol %s", name)
			}
		}
	}
	info, err := os.Stat(library)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 256<<10 {
		t.Errorf("the library has %d bytes", info.Size())
	}
	// A program by each of the two.
	for _, with := range [][]string{{filepath.Join(dir, "libsluice-core.a")}, {library, "-Wl,-rpath," + dir}} {
		program := filepath.Join(dir, "pace")
		if err := os.WriteFile(filepath.Join(dir, "engines.h"), []byte(list()), 0o644); err != nil {
			t.Fatal(err)
		}
		ctest.Compile(t, append([]string{"-O2", "-Isrc", "-I" + dir, "-o", program, "testdata/pace.c"}, with...)...)
		if out, err := exec.Command(program, "timely", "10", "1000", "fork").CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", with, err, out)
		}
	}
}

// The header is C++ too.
func TestTheHeaderIsForCPlusPlus(t *testing.T) {
	cxx, err := exec.LookPath("c++")
	if err != nil {
		t.Skipf("there is no C++ compiler: %v", err)
	}
	source := filepath.Join(t.TempDir(), "program.cc")
	if err := os.WriteFile(source, []byte("#include \"sluice_core.h\"\nint main() { sluice_engine e = {}; return (int)e.kind; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cxx, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-Isrc", "-fsyntax-only", source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
