package metrics

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// answering makes dir/name.sock answer every request with h.
func answering(t *testing.T, dir, name string, h http.Handler) (path string) {
	t.Helper()
	path = filepath.Join(dir, name+".sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return path
}

func forged(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "forged 1\n") }

// A directory that another user made holds whatever that user wants scraped.
func TestAnothersDirectoryIsNotRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := t.TempDir()
	answering(t, dir, "1", http.HandlerFunc(forged))
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	families, err := NewProcesses(dir, quiet).Gather()
	if err == nil || !strings.Contains(err.Error(), dir+" belongs to user 12345") || len(families) > 0 {
		t.Errorf("%v, %v", families, err)
	}
	if all := written(t, NewProcesses(dir, quiet, 12345)); !slices.Contains(all, `forged{pid="1"} 1`) {
		t.Errorf("the directory of a user who was named is not read: %q", all)
	}
}

// A reply without end costs no more than what a reply may have, and holds up no
// other process's.
func TestAnEndlessReply(t *testing.T) {
	dir := t.TempDir()
	var sent atomic.Int64
	answering(t, dir, "1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		line := []byte(strings.Repeat("a 1\n", 8192))
		for {
			n, err := w.Write(line)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	answering(t, dir, "2", http.HandlerFunc(forged))
	all := written(t, NewProcesses(dir, quiet))
	if !slices.Contains(all, `forged{pid="2"} 1`) {
		t.Errorf("%q", all)
	}
	const buffers = 8 << 20 // of the socket and of net/http
	if n := sent.Load(); n > 32<<20+buffers {
		t.Errorf("%d bytes of a reply without end were read", n)
	}
}

// What lies in the directory and is no socket is left alone.
func TestOnlySocketsAreCleanedUp(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notes.sock")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewProcesses(dir, quiet).Gather(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a file that is no socket was removed: %v", err)
	}
}

// A socket in a directory that everybody may write to, or that was put in its place,
// is believed by who listens behind it.
func TestAnothersSocketIsNotRead(t *testing.T) {
	if path := os.Getenv("FORGE_AT"); path != "" { // the other user's process
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("listening\n")
		_ = http.Serve(l, http.HandlerFunc(forged)) // until it is killed
		return
	}
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("only root can start a process as another user, and Linux tells of it")
	}
	dir, err := os.MkdirTemp("", "sluice") // a TempDir lies in one of root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self := filepath.Join(dir, "test")
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(self, program, 0o755)
	}
	if err := errors.Join(err, os.Chmod(self, 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
	other.Dir = dir
	other.Env = append(os.Environ(), "FORGE_AT="+filepath.Join(dir, "1.sock"))
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
		t.Fatalf("%q, %v", line, err)
	}

	all := written(t, NewProcesses(dir, quiet))
	if slices.Contains(all, `forged{pid="1"} 1`) || !slices.Contains(all, `sluice_process_up{pid="1"} 0`) {
		t.Errorf("%q", all)
	}
	all = written(t, NewProcesses(dir, quiet, 12345))
	if !slices.Contains(all, `forged{pid="1"} 1`) || !slices.Contains(all, `sluice_process_up{pid="1"} 1`) {
		t.Errorf("a user who was named is not believed: %q", all)
	}
	if err := os.Chmod(dir, 0o2770); err != nil {
		t.Fatal(err)
	}
	if all = written(t, NewProcesses(dir, quiet)); !slices.Contains(all, `forged{pid="1"} 1`) {
		t.Errorf("whom the directory's group lets in is not believed: %q", all)
	}
}
