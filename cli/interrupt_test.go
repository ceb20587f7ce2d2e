package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// await waits for a file that matches a pattern.
func await(t *testing.T, pattern string) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("there is no %s", pattern)
		case <-poll.C:
		}
	}
}

// A recording that a signal breaks off can be replayed as far as it goes. A hangup that was
// ignored from the start, as by nohup, breaks nothing off.
func TestPerfInterrupted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		ignored string // what the shell ignores
		signals []syscall.Signal
		status  int
	}{
		{"SIGINT", "", []syscall.Signal{syscall.SIGINT}, 130},
		{"SIGTERM", "", []syscall.Signal{syscall.SIGTERM}, 143},
		{"SIGHUP", "", []syscall.Signal{syscall.SIGHUP}, 129},
		{"SIGHUP ignored", "trap '' HUP; ", []syscall.Signal{syscall.SIGHUP, syscall.SIGINT}, 130},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.ignored == "" && slices.ContainsFunc(test.signals, func(s syscall.Signal) bool { return signal.Ignored(s) }) {
				t.Skipf("%s is ignored here, as under nohup, and so in all processes that this one starts", test.name)
			}
			dir := t.TempDir()
			sluice := filepath.Join(dir, "sluice") // by whose name TestMain is the command
			if err := os.Symlink(self, sluice); err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "sh", "-c", test.ignored+`exec "$0" perf write_bw --quiet --cc timely -D 1000000 --record signals.rec`, sluice)
			cmd.Dir, cmd.Stderr = dir, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, filepath.Join(dir, ".signals.rec*"))
			for _, s := range test.signals {
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			err := cmd.Wait()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != test.status || errs.String() != "sluice: interrupted\n" {
				t.Fatalf("%v, expected exit status %d: %s", err, test.status, &errs)
			}
			var out bytes.Buffer
			if status := run([]string{"replay", filepath.Join(dir, "signals.rec"), "--cc", "timely"}, &out, &out); status != exitOK || !strings.Contains(out.String(), "the recording breaks off here") {
				t.Errorf("replay exits with %d: %s", status, &out)
			}
		})
	}
}

// A capture without end is shown as far as it was read.
func TestPcapInterrupted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skipf("no named pipe can be made: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		pipe, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			ended <- err
			return
		}
		// The header of a capture of Ethernet frames, and frames without a byte.
		head := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
		head = append(head, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0)
		_, err = pipe.Write(append(head, make([]byte, 16<<13)...)) // more than a pipe holds: some is read
		sent := errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGINT))
		for err == nil {
			_, err = pipe.Write(make([]byte, 16))
		}
		_ = pipe.Close()
		ended <- sent
	}()
	var out, errs bytes.Buffer
	status := run([]string{"pcap", "--json", name}, &out, &errs)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if status != 130 || errs.String() != "sluice: "+name+": interrupted\n" || !strings.Contains(out.String(), `"interrupted": true`) {
		t.Errorf("status %d, expected 130: %s%s", status, &out, &errs)
	}
}
