package libsluice_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// failer is testdata/fail.c, as an unmodified program and as one with sluice.h.
var failer struct {
	once sync.Once
	err  error
}

func failing(t *testing.T) {
	t.Helper()
	dir, lib := build(t)
	failer.once.Do(func() {
		strict := []string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Iinclude", "testdata/fail.c"}
		failer.err = command("gcc", append(strict, "-o", filepath.Join(dir, "fail"), "-libverbs", "-lpthread")...)
		if failer.err == nil {
			failer.err = command("gcc", append(strict, "-DSLUICE_API", "-o", filepath.Join(dir, "fail-api"), "-L"+lib, "-lsluice", "-libverbs", "-lpthread")...)
		}
	})
	if failer.err != nil {
		t.Fatal(failer.err)
	}
}

// Programs get the errno, or the status with its byte, that SLUICE_FAIL asks for, once and where it
// says; after a completion that fails the queue pair is in ERR and all behind is flushed, until it is reset.
func TestChosenFailures(t *testing.T) {
	failing(t)
	done := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, " %d:0/0", i)
		}
		return b.String()
	}
	flushed := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, " %d:5/0xf9", i)
		}
		return b.String()
	}
	const rts, err, after = "\nstate 3\n", "\nstate 6\n", " 50:0/0\n"
	post := func(n int, e syscall.Errno) string { return fmt.Sprintf(" post %d=%d", n, int(e)) }
	poll := func(e syscall.Errno) string { return fmt.Sprintf(" poll=%d", int(e)) }
	for _, c := range []struct{ name, way, fail, want string }{
		{"nothing", "list", "", done(0, 9) + rts + after},
		{"a post", "single", "post_send:ENOMEM@4", done(0, 2) + post(3, syscall.ENOMEM) + done(4, 9) + rts + after},
		{"the first post", "single", "post_send:EIO", post(0, syscall.EIO) + done(1, 9) + rts + after},
		{"a post of a list", "list", "post_send:ENOMEM@3", post(2, syscall.ENOMEM) + done(0, 1) + done(5, 9) + rts + after},
		{"a post by ibv_wr_complete, which takes nothing", "wr", "post_send:ENOMEM@3", post(0, syscall.ENOMEM) + done(5, 9) + rts + after},
		{"two posts", "single", "post_send:ENOMEM@2,post_send:EINVAL@2", done(0, 0) + post(1, syscall.ENOMEM) + post(2, syscall.EINVAL) + done(3, 9) + rts + after},
		{"a poll", "single", "poll_cq:EIO@4", done(0, 2) + poll(syscall.EIO) + done(3, 9) + rts + after},
		{"the first poll", "list", "poll_cq:EBUSY", poll(syscall.EBUSY) + done(0, 9) + rts + after},
		{"the first poll of an extended queue", "ex", "poll_cq:EBUSY", poll(syscall.EBUSY) + done(0, 9) + rts + after},
		{"a completion", "single", "completion:RETRY_EXC_ERR@4", done(0, 2) + " 3:12/0x81" + flushed(4, 9) + err + after},
		{"a completion of many", "list", "completion:REM_ACCESS_ERR@4", done(0, 2) + " 3:10/0x88" + flushed(4, 9) + err + after},
		{"a completion's byte", "wr", "completion:REM_OP_ERR:0x1f", " 0:11/0x1f" + flushed(1, 9) + err + after},
		{"a status whose byte is not known", "ex", "completion:GENERAL_ERR@10", done(0, 8) + " 9:21/0" + err + after},
		{"of the second queue pair", "list", "completion:GENERAL_ERR/2,post_send:EIO/2,poll_cq:EIO/2", done(0, 9) + rts + after},
		{"of the first by its number", "list", "poll_cq:EIO@11/1 completion:GENERAL_ERR@11/1", done(0, 9) + rts + poll(syscall.EIO) + " 50:21/0\n"},
	} {
		for name, mode := range map[string]struct {
			binary  string
			preload bool
			env     []string
		}{
			"preload":             {"fail", true, []string{"SLUICE_SEGMENT=4KiB"}},
			"preload, no engine":  {"fail", true, []string{"SLUICE_CC=none"}},
			"preload, timestamps": {"fail", true, []string{"FAKEVERBS_PROFILE=connectx", "SLUICE_RATE=5Gbps"}},
			"sluice.h":            {"fail-api", false, nil},
		} {
			if c.way == "ex" && !mode.preload {
				continue // an extended queue is polled for sends by the preload library alone
			}
			t.Run(c.name+"/"+name, func(t *testing.T) {
				cmd := program(t, mode.preload, append(mode.env, "SLUICE_FAIL="+c.fail), mode.binary, c.way)
				if got := run(t, cmd); got != c.want {
					t.Errorf("SLUICE_FAIL=%s:\n%s, expected\n%s", c.fail, got, c.want)
				}
			})
		}
	}
}

// What can't be read is an error that says what is wrong, and no queue pair is made.
func TestChosenFailuresRefused(t *testing.T) {
	failing(t)
	for fail, want := range map[string]string{
		"post_recv:ENOMEM":                 "is nothing that fails: choose post_send, poll_cq or completion",
		"post_send":                        `"" is no errno that a call fails with here: choose one of`,
		"post_send:ENOSUCH":                `"ENOSUCH" is no errno that a call fails with here: choose one of`,
		"completion:ENOMEM":                `"ENOMEM" is no status of an error: choose one of`,
		"completion:SUCCESS":               `"SUCCESS" is no status of an error: choose one of`,
		"post_send:ENOMEM:0x81":            "a call has no syndrome",
		"completion:GENERAL_ERR:256":       "expected a syndrome of 1 to 255",
		"completion:GENERAL_ERR@0":         "expected a number from 1 on behind the @",
		"completion:GENERAL_ERR@-1":        "expected a number from 1 on behind the @",
		"completion:GENERAL_ERR@1/":        "expected the number of a queue pair behind the /",
		"completion:GENERAL_ERR/1@1":       `"@1" is too much`,
		strings.Repeat("poll_cq:EIO ", 17): "there are more than 16 failures",
		strings.Repeat("x", 200):           "is too long",
	} {
		out, err := program(t, true, []string{"SLUICE_FAIL=" + fail}, "fail", "list").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "sluice: SLUICE_FAIL: ") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s, expected %q", fail, err, out, want)
		}
	}
}
