package libsluice_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// installed is a program that says which library it runs with.
const installed = `#include <sluice.h>
#include <stdio.h>
int main(void) { puts(sluice_version()); return 0; }
`

// TestInstall installs the library as a person would, builds a program as
// docs/c-api.md has it, and runs it as make says, or as it is where make says that it
// is found.
func TestInstall(t *testing.T) {
	_, lib := build(t)
	t.Run("elsewhere", func(t *testing.T) {
		dir := t.TempDir()
		out := run(t, exec.Command("make", "-s", "-C", "..", "install-libsluice", "IBVERBS=yes", "LIB="+lib, "PREFIX="+dir+"/usr"))
		var env []string
		for _, name := range []string{"LD_LIBRARY_PATH", "PKG_CONFIG_PATH"} {
			m := regexp.MustCompile(`(?m)^    (` + name + `=\S+)$`).FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("make does not say which %s is wanted:\n%s", name, out)
			}
			env = append(env, m[1])
		}
		cmd := exec.Command("sh", "-ec", `cat >app.c && gcc -o app app.c $(pkg-config --cflags --libs sluice) && ./app`)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), env...), strings.NewReader(installed)
		if out := run(t, cmd); !strings.HasPrefix(out, "0.") {
			t.Error(out)
		}
	})
	t.Run("usr/local", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root installs there")
		}
		// The machine's own /usr/local and /etc stay as they are.
		dir := t.TempDir()
		enter := exec.Command("unshare", "-m", "sh", "-ec", `
			cp -a /etc etc
			mkdir lib include share
			mount --bind etc /etc
			for d in lib include share; do mount --bind $d /usr/local/$d; done
			exec sh -e script`)
		enter.Dir = dir
		if out, err := exec.Command("unshare", "-m", "mount", "--bind", dir, dir).CombinedOutput(); err != nil {
			t.Skipf("no mount namespace of its own: %v: %s", err, out)
		}
		top, err := filepath.Abs("..")
		if err != nil {
			t.Fatal(err)
		}
		script := "make -s -C " + top + " -o libsluice install-libsluice IBVERBS=yes LIB=" + lib + `
			gcc -o app app.c $(pkg-config --cflags --libs sluice)
			./app
			ldd app`
		for name, text := range map[string]string{"app.c": installed, "script": script} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out := run(t, enter)
		if !strings.Contains(out, "where programs find it\n0.") || !strings.Contains(out, "/usr/local/lib/libsluice.so.0") {
			t.Error(out)
		}
	})
}
