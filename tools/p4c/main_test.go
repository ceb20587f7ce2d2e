package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// compiler writes a shell script that stands for a compiler: it says its version, or
// does the rest.
func compiler(t *testing.T, dir, name, version, rest string) {
	t.Helper()
	text := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo " + name + "; echo 'Version " + version + " (SHA: 0)'; exit; fi\n" + rest
	write(t, filepath.Join(dir, name), text, 0o700)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// What p4c-barefoot writes for a program, as its schemas have it.
const logs = `for o; do :; done
while [ "$1" != -o ]; do shift; done
mkdir -p $2/pipe/logs
cat > $2/pipe/program.bfa <<END
version:
  target: Tofino
stage 0 ingress:
  exact_match Ingress.forward 0:
    size: 4096
stage 0 egress:
  dependency: action
stage 1 egress:
  dependency: match
  hash_action tbl_a 1:
    always_run: true
  gateway cond 2:
stage 3 egress:
  ternary_match Egress.role 0:
deparser egress:
  pov: [ B0 ]
END
cat > $2/pipe/logs/resources.json <<END
{"resources": {"mau": {"nStages": 12, "mau_stages": [
 {"rams": {"nRows": 8, "srams": [{"row": 1}, {"row": 2}]}, "tcams": {"tcams": []}, "hash_bits": {"nBits": 52, "bits": [{}, {}, {}]},
  "hash_distribution_units": {"units": [{}]}, "meter_alus": {"meters": []}},
 {"rams": {"srams": [{"row": 1}]}, "tcams": {"tcams": [{}]}, "hash_bits": {"bits": []},
  "hash_distribution_units": {"units": []}, "meter_alus": {"meters": [{"row": 1, "usages": [{}]}]}}]}}}
END
cat > $2/pipe/logs/phv.json <<END
{"resources": [{"group_type": "mau", "bit_width": 8, "num_containers": 64}, {"group_type": "mau", "bit_width": 32, "num_containers": 64},
  {"group_type": "tagalong", "bit_width": 8, "num_containers": 32}, {"group_type": "deparser", "bit_width": 8, "num_containers": 64}],
 "containers": [{"bit_width": 8, "container_type": "normal"}, {"bit_width": 32, "container_type": "normal"}, {"bit_width": 8, "container_type": "tagalong"}]}
END
`

func setUp(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skipf("compilers of this test are shell scripts: %v", err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.p4", "a_tna.p4"} {
		write(t, filepath.Join("p4", name), "", 0o600)
	}
	return t.TempDir()
}

func TestTables(t *testing.T) {
	dir := setUp(t)
	include := filepath.Join(dir, "share", "p4include")
	write(t, filepath.Join(include, "core.p4"), "", 0o600)
	write(t, filepath.Join(include, "tofino", "t2na.p4"), "", 0o600)
	compiler(t, filepath.Join(dir, "backends"), "p4test", "1.2.5.16", `[ "$1 $2 $3 $4" = "-I `+include+`/tofino -I `+include+`" ] || { echo "error: includes $*"; exit 1; }`)
	compiler(t, filepath.Join(dir, "bin"), "p4c-barefoot", "9.13.4", logs)
	tools, err := findTools(dir)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, p := range []string{"p4/a.p4", "p4/a_tna.p4"} {
		for _, j := range jobs(p) {
			if tool, ok := tools[j.compiler]; ok {
				rows = append(rows, tool.compile(context.Background(), j, p, filepath.Join(t.TempDir(), "out")))
			}
		}
	}
	var b strings.Builder
	if err := report(&b, tools, rows); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"Compilers: p4test 1.2.5.16, no p4c-bm2-ss, p4c-barefoot 9.13.4.\n",
		"| `a.p4` | p4test | v1model | compiles |\n| `a_tna.p4` | p4test | Tofino 1 | compiles |\n| `a_tna.p4` | p4test | Tofino 2 | compiles |\n| `a_tna.p4` | p4c-barefoot | Tofino 1 | compiles |\n",
		"| `a_tna.p4` | Tofino 1 | 1 of 12 | 2 of 12 | 3 | 1 | 3 | 1 | 1 | 40 of 2560 bits |\n| `a_tna.p4` | Tofino 2 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nhas no\n%s", b.String(), want)
		}
	}
}

func TestFaults(t *testing.T) {
	dir := setUp(t)
	run := func(args ...string) string {
		err := run(context.Background(), args)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, args := range [][]string{nil, {""}} {
		if got := run(args...); !strings.Contains(got, "make p4c P4C=DIR") {
			t.Errorf("without a directory: %q", got)
		}
	}
	if got := run(dir); !strings.HasSuffix(got, "has none of p4test, p4c-bm2-ss, p4c-barefoot") {
		t.Errorf("an empty directory: %q", got)
	}
	compiler(t, dir, "p4test", "1.2.5", `echo "a.p4(3): [--Werror=type-error] error: no|thing"; exit 1`)
	compiler(t, dir, "p4c-barefoot", "9.13.4", "exit 0")
	tools, err := findTools(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"p4test": "a.p4(3): [--Werror=type-error] error: no|thing", "p4c-barefoot": "the compiler wrote no bfa"} {
		j := jobs("a_tna.p4")[0]
		j.compiler, j.args = name, nil
		if r := tools[name].compile(context.Background(), j, "p4/a_tna.p4", filepath.Join(t.TempDir(), "out")); r.fault != want {
			t.Errorf("%s: %q, expected %q", name, r.fault, want)
		}
	}
	if got := run(dir); got != "5 of 5 did not compile" {
		t.Errorf("all refused: %q", got)
	}
}
