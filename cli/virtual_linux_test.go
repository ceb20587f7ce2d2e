package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// virtualLib builds libsluice-virtual.so as make does.
func virtualLib(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: %v", tool, err)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("make", "-s", "-C", "..", "libsluice-virtual", "LIB="+dir).CombinedOutput(); err != nil {
		t.Fatalf("make libsluice-virtual: %v\n%s", err, out)
	}
	return filepath.Join(dir, "libsluice-virtual.so")
}

// TestVirtualScripts runs sluice virtual and programs under it.
func TestVirtualScripts(t *testing.T) {
	lib := virtualLib(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/virtual",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			e.Setenv("SLUICE_VIRTUAL_LIB", lib)
			// A program that is linked statically: a Go program without cgo.
			build := exec.Command("go", "build", "-o", filepath.Join(e.WorkDir, "static"), "./testdata/virtual/static")
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			_, err := build.Output()
			return err
		},
	})
}

// TestVirtualNamespace has programs that no library is preloaded into see the devices in
// /sys and /dev, beside what is there.
func TestVirtualNamespace(t *testing.T) {
	lib := virtualLib(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sluice := filepath.Join(t.TempDir(), "sluice")
	if err := os.Symlink(self, sluice); err != nil {
		t.Fatal(err)
	}
	const look = `unset LD_PRELOAD
cat /sys/class/infiniband/mlx5_1/hca_type; ls /dev/infiniband; test -c /dev/null && echo null; ls -d /sys/class/net/lo
grep CapEff /proc/self/status; exit 7`
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), sluice, "virtual", "--namespace", "-n", "2", "--", "sh", "-c", look)
	cmd.Env = append(os.Environ(), "SLUICE_VIRTUAL_LIB="+lib, "TMPDIR="+tmp)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), "run without --namespace") {
		t.Skipf("no mount namespace: %s", stderr.String())
	}
	want := "MT4125\nrdma_cm\nuverbs0\nuverbs1\nnull\n/sys/class/net/lo\nCapEff:\t"
	if !strings.HasPrefix(string(out), want) || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v; the program printed\n%s%swant\n%s", err, out, stderr.String(), want)
	}
	if os.Geteuid() != 0 && !strings.HasSuffix(string(out), "\t0000000000000000\n") {
		t.Errorf("the program has capabilities: %s", out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestVirtualForwardsSignals ends a program by a signal to the command, which ends as
// the program does.
func TestVirtualForwardsSignals(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lib := virtualLib(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			if signal.Ignored(s) {
				t.Skipf("%v is ignored here, as under nohup, and so in all processes that this one starts", s)
			}
			// The test's own process is the command, by the name that TestMain knows.
			dir := t.TempDir()
			if err := os.Symlink(self, filepath.Join(dir, "sluice")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "sluice"), "virtual", "--", "sh", "-c",
				`trap 'echo caught; exit 9' TERM HUP USR1 INT; echo ready; while :; do read line; done`)
			cmd.Env = append(os.Environ(), "SLUICE_VIRTUAL_LIB="+lib)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
			in, err1 := cmd.StdinPipe()
			out, err2 := cmd.StdoutPipe()
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			defer in.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			if !lines.Scan() || lines.Text() != "ready" {
				t.Fatalf("the program printed %q, %v", lines.Text(), lines.Err())
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if !lines.Scan() || lines.Text() != "caught" {
				t.Errorf("the program printed %q, %v, expected that it caught %v", lines.Text(), lines.Err(), s)
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
				t.Errorf("the command ended with %v, expected status 9", err)
			}
		})
	}
}

// sluiceCommand is the test's own program as sluice, with its temporary files in tmp.
func sluiceCommand(t *testing.T, tmp string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sluice := filepath.Join(t.TempDir(), "sluice")
	if err := os.Symlink(self, sluice); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), sluice, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// until waits for a condition; what says what is so while it waits.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(end) {
			t.Fatalf("after a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // nobody signals it: the processes are not ours
	}
}

func ended(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(state), ") Z ")
}

// TestKilled kills commands that run programs by SIGKILL, which they can't handle: what they ran
// ends, with its children that are in sessions of their own, and nothing stays in the
// temporary directory. Without the guard, the next start clears up.
func TestKilled(t *testing.T) {
	lib := virtualLib(t)
	const program = `setsid sleep 1000 & echo $! $$; sleep 1000`
	scene := filepath.Join(t.TempDir(), "scene.yaml")
	const text = "duration: 5s\ntopology: {kind: star, hosts: 2}\nsystems: [{engine: none}]\n" +
		"programs:\n  - {host: h0, run: [sh, -c, 'while :; do :; done']}\n"
	if err := os.WriteFile(scene, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(t *testing.T, tmp string, args ...string) (*exec.Cmd, *bufio.Scanner) {
		cmd := sluiceCommand(t, tmp, args...)
		cmd.Env = append(cmd.Env, "SLUICE_VIRTUAL_LIB="+lib)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewScanner(out)
	}
	// guards are the guards of a directory's users.
	guards := func(tmp string) (pids []int) {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range all {
			line, _ := os.ReadFile(path)
			if strings.HasPrefix(string(line), "sluice\x00guard\x00"+tmp) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				pids = append(pids, pid)
			}
		}
		return pids
	}
	empty := func(tmp string) bool {
		left, err := os.ReadDir(tmp)
		return err == nil && len(left) == 0
	}

	t.Run("virtual", func(t *testing.T) {
		tmp := t.TempDir()
		cmd, out := start(t, tmp, "virtual", "--", "sh", "-c", program)
		var child, shell int
		if !out.Scan() {
			t.Fatal(out.Err())
		}
		if _, err := fmt.Sscan(out.Text(), &child, &shell); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Kill()
		until(t, "the programs run", func() bool { return ended(child) && ended(shell) })
		until(t, "files are left in "+tmp, func() bool { return empty(tmp) })
		_ = cmd.Wait()
	})
	t.Run("virtual and its guard", func(t *testing.T) {
		tmp := t.TempDir()
		cmd, out := start(t, tmp, "virtual", "--", "sh", "-c", program)
		var child, shell int
		if !out.Scan() {
			t.Fatal(out.Err())
		}
		if _, err := fmt.Sscan(out.Text(), &child, &shell); err != nil {
			t.Fatal(err)
		}
		until(t, "no guard", func() bool { return len(guards(tmp)) == 1 })
		_ = syscall.Kill(guards(tmp)[0], syscall.SIGKILL)
		_ = cmd.Process.Kill()
		until(t, "the program runs", func() bool { return ended(shell) })
		_ = cmd.Wait()
		next, _ := start(t, tmp, "virtual", "--", "true")
		if err := next.Wait(); err != nil {
			t.Error(err)
		}
		until(t, "the next start left the program's child", func() bool { return ended(child) })
		until(t, "files are left in "+tmp, func() bool { return empty(tmp) })
	})
	t.Run("run", func(t *testing.T) {
		if runtime.GOARCH != "amd64" {
			t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
		}
		tmp := t.TempDir()
		cmd, _ := start(t, tmp, "run", "-q", scene)
		// programs are those whose environment names a directory of this run.
		programs := func() (n int) {
			all, _ := filepath.Glob("/proc/[0-9]*/environ")
			for _, path := range all {
				environ, _ := os.ReadFile(path)
				if strings.Contains(string(environ), "SLUICE_TURNS="+tmp) {
					n++
				}
			}
			return n
		}
		until(t, "no program", func() bool { return programs() == 1 && len(guards(tmp)) == 1 })
		_ = cmd.Process.Kill()
		until(t, "the program runs", func() bool { return programs() == 0 })
		until(t, "files are left in "+tmp, func() bool { return empty(tmp) })
		_ = cmd.Wait()
	})
}
