package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// A recording that an interrupt breaks off can be replayed as far as it goes.
func TestPerfInterrupted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = []string{"sluice", "perf", "write_bw", "--quiet", "--cc", "timely", "-D", "1000000", "--record", "signals.rec"}
	cmd.Dir, cmd.Stderr = dir, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, filepath.Join(dir, ".signals.rec*"))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 130 || errs.String() != "sluice: interrupted\n" {
		t.Fatalf("%v, expected exit status 130: %s", err, &errs)
	}
	var out bytes.Buffer
	if status := run([]string{"replay", filepath.Join(dir, "signals.rec"), "--cc", "timely"}, &out, &out); status != exitOK || !strings.Contains(out.String(), "the recording breaks off here") {
		t.Errorf("replay exits with %d: %s", status, &out)
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
