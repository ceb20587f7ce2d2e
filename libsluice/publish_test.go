package libsluice_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/metrics"
)

// publisher is testdata/publish.c, as an unmodified program and as one with sluice.h.
var publisher struct {
	once sync.Once
	err  error
}

// A published process is a program of testdata/publish.c.
type published struct {
	*exec.Cmd
	pid   int
	in    io.WriteCloser
	lines *bufio.Reader
	said  *bytes.Buffer
}

// publishing starts a program, and returns it when it has said that it is ready.
func publishing(t *testing.T, dir string, preload bool, env []string, kind string) *published {
	t.Helper()
	binary := "publish-api"
	if preload {
		binary = "publish"
	}
	return publishingAs(t, dir, binary, preload, env, kind)
}

func publishingAs(t *testing.T, dir, binary string, preload bool, env []string, kind string) *published {
	t.Helper()
	where, lib := build(t)
	publisher.once.Do(func() {
		strict := []string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Iinclude", "testdata/publish.c"}
		publisher.err = command("gcc", append(strict, "-o", filepath.Join(where, "publish"), "-libverbs", "-lpthread")...)
		if publisher.err == nil {
			publisher.err = command("gcc", append(strict, "-DSLUICE_API", "-o", filepath.Join(where, "publish-api"), "-L"+lib, "-lsluice", "-libverbs", "-lpthread")...)
		}
	})
	if publisher.err != nil {
		t.Fatal(publisher.err)
	}
	env = slices.Concat([]string{"SLUICE_METRICS=1", "SLUICE_RUN=" + dir, "FAKEVERBS_DEVICES=fake0,fake1", "FAKEVERBS_PROFILE=connectx"}, env)
	p := &published{Cmd: program(t, preload, env, binary, kind), said: &bytes.Buffer{}}
	p.Stderr = p.said
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.lines = in, bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	p.pid = p.awaits(t, "ready")
	return p
}

// awaits reads lines up to one of a kind, and returns its PID.
func (p *published) awaits(t *testing.T, what string) int {
	t.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("before %q: %v\n%s", what, err, p.said)
		}
		if rest, ok := strings.CutPrefix(line, what+" "); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
}

// ends has the program end as it likes.
func (p *published) ends(t *testing.T) {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.said)
	}
}

// kills ends a program as nothing can stop.
func (p *published) kills(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
}

// runDir is a directory whose name fits into a socket's.
func runDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// gather returns the metrics that `sluice exporter` reads from the directory, by name and
// labels.
func gather(t *testing.T, dir string) (values map[string]float64, families map[string]*dto.MetricFamily) {
	t.Helper()
	all, err := metrics.NewProcesses(dir, slog.New(slog.DiscardHandler)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	values, families = map[string]float64{}, map[string]*dto.MetricFamily{}
	for _, f := range all {
		families[f.GetName()] = f
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			name := f.GetName()
			for _, k := range slices.Sorted(maps.Keys(labels)) {
				name += fmt.Sprintf(" %s=%s", k, labels[k])
			}
			switch {
			case m.Gauge != nil:
				values[name] = m.Gauge.GetValue()
			case m.Counter != nil:
				values[name] = m.Counter.GetValue()
			case m.Histogram != nil:
				values[name+" count"] = float64(m.Histogram.GetSampleCount())
				values[name+" sum"] = m.Histogram.GetSampleSum()
			}
		}
	}
	return values, families
}

// matching are the values whose names match.
func matching(values map[string]float64, expression string) []float64 {
	re := regexp.MustCompile("^" + expression + "$")
	var out []float64
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if re.MatchString(name) {
			out = append(out, values[name])
		}
	}
	return out
}

// bothWays runs f with sluice.h and under the preload library.
func bothWays(t *testing.T, f func(t *testing.T, preload bool)) {
	for name, preload := range map[string]bool{"sluice.h": false, "preload": true} {
		t.Run(name, func(t *testing.T) { f(t, preload) })
	}
}

// TestCProgramPublishes scrapes a C program, and looks at what it did.
func TestCProgramPublishes(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		dir := filepath.Join(runDir(t), "below", "run") // is made
		p := publishing(t, dir, preload, []string{"TEST_ENGINE=timely", "SLUICE_CC=timely", "SLUICE_SEGMENT=4KiB"}, "worked")
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the directory: %v, %v, expected mode 0700", info.Mode(), err)
		}
		if info, err := os.Stat(filepath.Join(dir, fmt.Sprint(p.pid, ".sock"))); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("the socket: %v, expected mode 0660", err)
		}
		values, families := gather(t, dir)
		qp := fmt.Sprintf(`device=ibv:fake0 pid=%d qpn=0x[0-9a-f]{6}`, p.pid)
		for _, c := range []struct {
			name string
			want []float64 // sorted
		}{
			{fmt.Sprintf("sluice_process_up pid=%d", p.pid), []float64{1}},
			{fmt.Sprintf(`sluice_qp_info device=ibv:fake0 engine=timely pid=%d qpn=0x[0-9a-f]{6} state=RTS`, p.pid), []float64{1, 1}},
			{"sluice_qp_messages_total " + qp, []float64{0, 20}},
			{"sluice_qp_failed_total " + qp, []float64{0, 0}},
			{"sluice_qp_segments_total " + qp, []float64{0, 500}},
			{"sluice_qp_segment_bytes_total " + qp, []float64{0, 2e6}},
			{"sluice_qp_outstanding_bytes " + qp, []float64{0, 0}},
			{"sluice_qp_rtt_seconds " + qp + " count", []float64{0, 500}},
		} {
			got := matching(values, c.name)
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, expected %v", c.name, got, c.want)
			}
		}
		for _, name := range []string{"sluice_qp_rate_bps", "sluice_qp_rate_floor_bps", "sluice_qp_rate_ceiling_bps"} {
			if got := matching(values, name+" "+qp); len(got) != 2 || got[0] <= 0 || got[1] <= 0 {
				t.Errorf("%s: %v, expected two rates", name, got)
			}
		}
		if sum := slices.Max(append(matching(values, "sluice_qp_rtt_seconds "+qp+" sum"), 0)); sum <= 0 || sum > 60 {
			t.Errorf("round trips of %v s in all", sum)
		}
		if f := families["sluice_qp_cuts_total"]; f == nil {
			t.Error("no cuts are counted")
		}
		p.ends(t)
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("the program has left %v, %v", left, err)
		}
	})
}

// A program without the variable, or with no paced queue pair, publishes nothing and has no
// thread for it.
func TestCProgramPublishesNothingUnasked(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		for _, c := range []struct{ value, kind string }{{"0", "worked"}, {"", "worked"}, {"1", "idle"}} {
			dir := filepath.Join(runDir(t), "run")
			p := publishing(t, dir, preload, []string{"SLUICE_METRICS=" + c.value}, c.kind)
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("SLUICE_METRICS=%s %s: there is a directory", c.value, c.kind)
			}
			tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", p.pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range tasks {
				if name, _ := os.ReadFile(task); strings.HasPrefix(string(name), "sluice-metrics") {
					t.Errorf("SLUICE_METRICS=%s %s: there is a thread", c.value, c.kind)
				}
			}
			p.ends(t)
		}
	})
}

// A value that is neither makes queue pairs fail, as other settings that are wrong do.
func TestPublishValueIsChecked(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		binary := map[bool]string{false: "hooks-api", true: "hooks"}[preload]
		out, err := program(t, preload, []string{"SLUICE_METRICS=maybe"}, binary, "list").CombinedOutput()
		if err == nil || preload && !strings.Contains(string(out), "sluice: SLUICE_METRICS=maybe: set it to 1 or 0") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// Two contexts of one device have labels of their own, which stay as the other goes.
func TestCProgramsDevicesOfOneName(t *testing.T) {
	dir := runDir(t)
	p := publishing(t, dir, false, nil, "twice")
	values, _ := gather(t, dir)
	for _, device := range []string{"ibv:fake0", "ibv:fake0#2"} {
		if got := matching(values, fmt.Sprintf(`sluice_qp_messages_total device=%s pid=%d qpn=\w+`, device, p.pid)); len(got) != 2 || got[0]+got[1] != 20 {
			t.Errorf("%s: %v", device, got)
		}
		if got := matching(values, fmt.Sprintf(`sluice_calibration_trusted device=%s pid=%d reason=.*`, device, p.pid)); len(got) != 1 {
			t.Errorf("%s: calibrations %v", device, got)
		}
	}
	p.ends(t)
}

// Several processes publish in one directory; one that was killed goes with the next scrape.
func TestCProgramKilled(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		dir := runDir(t)
		a, b := publishing(t, dir, preload, nil, "worked"), publishing(t, dir, preload, nil, "worked")
		values, _ := gather(t, dir)
		for _, p := range []*published{a, b} {
			if values[fmt.Sprintf("sluice_process_up pid=%d", p.pid)] != 1 {
				t.Errorf("%d does not answer: %v", p.pid, values)
			}
		}
		a.kills(t)
		path := filepath.Join(dir, fmt.Sprint(a.pid, ".sock"))
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a process that was killed has removed its socket: %v", err)
		}
		values, _ = gather(t, dir)
		if up, ok := values[fmt.Sprintf("sluice_process_up pid=%d", a.pid)]; ok || values[fmt.Sprintf("sluice_process_up pid=%d", b.pid)] != 1 {
			t.Errorf("after the kill: up %v, %v", up, values)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket of the process that was killed is still there")
		}
		b.ends(t)
	})
}

// A child has nothing of its parent's socket, and publishes what it makes itself.
func TestCProgramForks(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		dir := runDir(t)
		p := publishing(t, dir, preload, nil, "forks")
		child, parent := p.pid, p.Process.Pid
		defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
		values, _ := gather(t, dir)
		for pid, device := range map[int]string{parent: "ibv:fake0", child: "ibv:fake1"} {
			if got := matching(values, fmt.Sprintf(`sluice_qp_messages_total device=.* pid=%d qpn=\w+`, pid)); len(got) != 2 {
				t.Errorf("%d has %d queue pairs, expected its own two", pid, len(got))
			}
			if got := matching(values, fmt.Sprintf(`sluice_qp_messages_total device=%s pid=%d qpn=\w+`, device, pid)); len(got) != 2 {
				t.Errorf("%d has %d queue pairs of %s, expected two", pid, len(got), device)
			}
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = p.Process.Wait() // the child has the pipes still
		values, _ = gather(t, dir)
		if up, ok := values[fmt.Sprintf("sluice_process_up pid=%d", parent)]; ok || values[fmt.Sprintf("sluice_process_up pid=%d", child)] != 1 {
			t.Errorf("after the parent's end: up %v, %v", up, values)
		}
	})
}

// A process that executes another program is that program: it publishes anew under its PID, or
// is gone.
func TestCProgramExecs(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		dir := runDir(t)
		p := publishing(t, dir, preload, nil, "execs")
		values, _ := gather(t, dir)
		if got := matching(values, fmt.Sprintf(`sluice_qp_messages_total device=ibv:fake0 pid=%d qpn=\w+`, p.Process.Pid)); len(got) != 2 {
			t.Errorf("after exec: %v", values)
		}
		p.ends(t)
		p = publishing(t, dir, preload, nil, "execs another")
		if _, err := io.WriteString(p.in, "echoed 1\n"); err != nil {
			t.Fatal(err)
		}
		p.awaits(t, "echoed") // by cat
		if values, _ = gather(t, dir); len(values) > 0 {
			t.Errorf("after exec of a program that publishes nothing: %v", values)
		}
		p.ends(t)
	})
}

// Who closes all descriptors, and opens others under their numbers, is read on.
func TestCProgramClosesDescriptors(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		dir := runDir(t)
		p := publishing(t, dir, preload, nil, "closes")
		for range 3 {
			values, _ := gather(t, dir)
			if got := matching(values, fmt.Sprintf(`sluice_qp_messages_total device=ibv:fake0 pid=%d qpn=\w+`, p.pid)); len(got) != 2 {
				t.Errorf("%v", values)
			}
		}
		p.ends(t)
	})
}

// Scrapers that close early, say nothing, talk nonsense or never read cost other scrapes and the
// program nothing.
func TestCProgramBadScrapers(t *testing.T) {
	dir := runDir(t)
	p := publishing(t, dir, false, nil, "worked")
	path := filepath.Join(dir, fmt.Sprint(p.pid, ".sock"))
	dial := func() net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	request := "GET /metrics HTTP/1.1\r\nHost: process\r\n\r\n"
	for range 50 { // gone before the answer
		c := dial()
		_, _ = io.WriteString(c, request)
		_ = c.Close()
	}
	for _, text := range []string{"", "GET", strings.Repeat("x", 100_000), "POST / HTTP/1.1\r\n\r\n", request} {
		for range 12 { // more than are served at once
			c := dial()
			defer func() { _ = c.Close() }()
			go func() { _, _ = io.WriteString(c, text) }()
		}
	}
	for range 20 {
		values, _ := gather(t, dir)
		if up := values[fmt.Sprintf("sluice_process_up pid=%d", p.pid)]; up != 1 {
			t.Fatalf("the process does not answer: %v", values)
		}
	}
	p.ends(t)
}

// Scrapes under load take nothing from the program, and counters only rise.
func TestCProgramScrapedWhileBusy(t *testing.T) {
	bothWays(t, func(t *testing.T, preload bool) {
		dir := runDir(t)
		p := publishing(t, dir, preload, nil, "busy")
		var before float64
		for range 50 {
			values, _ := gather(t, dir)
			got := append(matching(values, fmt.Sprintf(`sluice_qp_messages_total device=ibv:fake0 pid=%d qpn=\w+`, p.pid)), 0)
			if now := slices.Max(got); now < 20 || now < before {
				t.Fatalf("%v requests after %v", now, before)
			} else {
				before = now
			}
		}
		p.kills(t)
	})
}

// whole builds testdata/publish.c with the library's sources in it, once.
func whole(t *testing.T, binary string, flags ...string) error {
	dir, _ := build(t)
	path := filepath.Join(dir, binary)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	sources, err := filepath.Glob("src/*.c")
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"-std=gnu11", "-O1", "-w", "-I.", "-Iinclude", "-fno-math-errno", "-fwrapv", "-ffp-contract=off", "-DSLUICE_API", "-o", path, "testdata/publish.c"},
		sources, []string{"internal/ccore/src/sluice_core.c"}, flags, []string{"-libverbs", "-ldl", "-lpthread", "-lm"})
	return command("gcc", args...)
}

// Scrapes while queue pairs are made, used and destroyed by threads, under the compiler's
// detectors of races and of wrong memory.
func TestCProgramUnderSanitizers(t *testing.T) {
	for _, sanitizer := range []string{"thread", "address,undefined"} {
		t.Run(sanitizer, func(t *testing.T) {
			binary := "publish-" + sanitizer
			if err := whole(t, binary, "-g", "-fsanitize="+sanitizer, "-fno-sanitize-recover=undefined"); err != nil {
				t.Skipf("no such sanitizer: %v", err)
			}
			run := runDir(t)
			p := publishingAs(t, run, binary, false, []string{"TEST_RATE=2000000000", "ASAN_OPTIONS=detect_leaks=0"}, "makers")
			stop, stopped := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				defer func() { stopped <- n }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					all, err := metrics.NewProcesses(run, slog.New(slog.DiscardHandler)).Gather()
					if err != nil {
						t.Error(err)
						return
					}
					for _, f := range all {
						if f.GetName() == "sluice_process_up" && f.Metric[0].GetGauge().GetValue() == 1 {
							n++
						}
					}
				}
			}()
			p.awaits(t, "done")
			close(stop)
			if n := <-stopped; n == 0 {
				t.Error("it was never scraped")
			}
			p.ends(t)
		})
	}
}

// What can't be published is said once, and queue pairs are paced all the same.
func TestCProgramCannotPublish(t *testing.T) {
	file := filepath.Join(runDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, want string }{
		{"a file", file, "file exists|not a directory"},
		{"a name that is too long", filepath.Join(runDir(t), strings.Repeat("d", 120)), "file name too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := publishing(t, c.dir, false, nil, "worked")
			p.ends(t)
			if n := len(regexp.MustCompile("(?mi)^sluice: SLUICE_METRICS: nothing is published: .*("+c.want+")").FindAllString(p.said.String(), -1)); n != 1 {
				t.Errorf("said %d times: %s", n, p.said)
			}
		})
	}
	t.Run("another's directory", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give a directory to another user and become a third")
		}
		dir := runDir(t)
		p := publishing(t, dir, false, nil, "worked") // root's
		p.ends(t)
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		p = publishing(t, dir, false, nil, "worked")
		p.ends(t)
		if !strings.Contains(p.said.String(), dir+" belongs to user 12345") {
			t.Errorf("%s", p.said)
		}
	})
	t.Run("served already", func(t *testing.T) {
		dir := runDir(t)
		cmd := program(t, false, []string{"SLUICE_METRICS=1", "SLUICE_RUN=" + dir}, "/bin/sh", "-c", `read line; exec "$@"`, "sh", filepath.Join(built.dir, "hooks-api"), "list")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(dir, fmt.Sprint(cmd.Process.Pid, ".sock")))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		_, _ = io.WriteString(in, "go\n")
		if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "is served already") {
			t.Errorf("%v: %s", err, said.String())
		}
		if _, err := os.Stat(l.Addr().String()); err != nil {
			t.Errorf("the other's socket is gone: %v", err)
		}
	})
}

// A set-user-ID program makes no directory or socket where who starts it says.
func TestSetUserIDPublishesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a program another user's")
	}
	const user = 12345
	where := runDir(t) // a TempDir lies in one of root's alone
	fake, _ := build(t)
	// The loader does not take $ORIGIN for such a program.
	if err := whole(t, "publish-whole", "-Wl,-rpath,"+fake); err != nil {
		t.Fatal(err)
	}
	binary, dir := filepath.Join(fake, "publish-whole"), filepath.Join(where, "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{binary, dir} {
		if err := os.Chown(name, user, user); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o755, 0o755 | os.ModeSetuid} {
		if err := errors.Join(os.Chmod(where, 0o755), os.Chmod(fake, 0o755), os.Chmod(binary, mode)); err != nil {
			t.Fatal(err)
		}
		cmd := program(t, false, []string{"SLUICE_METRICS=1", "SLUICE_RUN=" + dir, "FAKEVERBS_DEVICES=fake0"}, binary, "worked")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if mode&os.ModeSetuid == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if !strings.HasPrefix(line, "ready ") {
			t.Errorf("%v: %q, %v", mode, line, err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if mode&os.ModeSetuid != 0 && !strings.Contains(string(status), fmt.Sprintf("Uid:\t0\t%d\t", user)) {
			t.Skip("the file system of temporary files knows no set-user-ID programs")
		}
		entries, err := os.ReadDir(dir)
		if err != nil || (len(entries) > 0) != (mode&os.ModeSetuid == 0) {
			t.Errorf("%v: it made %v, %v", mode, entries, err)
		}
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// TestMetricsAreGos compares names, types, help texts and buckets with package metrics',
// and each engine's variables with Go's.
func TestMetricsAreGos(t *testing.T) {
	source, err := os.ReadFile("../verbs/metrics/shim.go")
	if err != nil {
		t.Fatal(err)
	}
	help := map[string]string{}
	for _, m := range regexp.MustCompile(`describe\("(\w+)", "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		help["sluice_"+m[1]] = m[2]
	}
	bound := func(name string) int {
		n, err := strconv.Atoi(regexp.MustCompile(name + `\s+= (\d+)`).FindStringSubmatch(string(source))[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var bounds []float64
	for i := bound("firstBound"); i <= bound("lastBound"); i += 2 {
		bounds = append(bounds, (units.Time(4+i&3+1) << (16 + i>>2)).Seconds())
	}
	for _, name := range []string{"timely", "swift", "fast", "dcqcn", "retcp", "theta-powertcp"} {
		t.Run(name, func(t *testing.T) {
			dir := runDir(t)
			p := publishing(t, dir, false, []string{"TEST_ENGINE=" + name}, "worked")
			values, families := gather(t, dir)
			for family, f := range families {
				want := help[family]
				if family == "sluice_process_up" {
					continue
				}
				if f.GetHelp() != want {
					t.Errorf("%s: help %q, expected %q", family, f.GetHelp(), want)
				}
				counter := strings.HasSuffix(family, "_total")
				if typ := f.GetType(); counter != (typ == dto.MetricType_COUNTER) || family == "sluice_qp_rtt_seconds" != (typ == dto.MetricType_HISTOGRAM) {
					t.Errorf("%s is a %v", family, typ)
				}
			}
			var got []float64
			for _, b := range families["sluice_qp_rtt_seconds"].GetMetric()[0].GetHistogram().GetBucket() {
				got = append(got, b.GetUpperBound())
			}
			if !slices.Equal(got[:len(got)-1], bounds) {
				t.Errorf("buckets %v, expected %v", got, bounds)
			}
			var want []string
			scheme, err := cc.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			e, err := scheme.New(scheme.DefaultConfig(), cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1024})
			if err != nil {
				t.Fatal(err)
			}
			if i, ok := e.(cc.Inspector); ok {
				i.Inspect(func(name string, _ float64) { want = append(want, name) })
			}
			_, bounded := e.(cc.Bounded)
			if _, ok := families["sluice_qp_rate_floor_bps"]; ok != bounded {
				t.Errorf("bounds: %v, expected %v", ok, bounded)
			}
			for _, variable := range want {
				if got := matching(values, fmt.Sprintf(`sluice_qp_engine device=ibv:fake0 pid=%d qpn=\w+ variable=%s`, p.pid, variable)); len(got) != 2 {
					t.Errorf("%s: %v", variable, got)
				}
			}
			if got := len(families["sluice_qp_engine"].GetMetric()); got != 2*len(want) {
				t.Errorf("%d variables, expected 2 times %v", got, want)
			}
			p.ends(t)
		})
	}
}

// TestPerftestPublishes scrapes an unmodified ib_write_bw, its server and its client, with
// `sluice exporter`.
func TestPerftestPublishes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the preload library is for Linux")
	}
	perftest, err := exec.LookPath("ib_write_bw")
	if err != nil {
		t.Skipf("perftest is not installed: %v", err)
	}
	sluice, _ := sluiceCommand(t)
	dir, _ := build(t)
	where := runDir(t)
	script := filepath.Join(dir, "published.sh")
	// The client is refused until the server listens.
	text := "#!/bin/sh\n" +
		perftest + ` -d mlx5_0 -F -D 600 >"$0.out" 2>&1 &
for try in $(seq 600); do
	kill -0 $! || { cat "$0.out"; exit 1; }
	` + perftest + ` -d mlx5_0 -F -D 600 127.0.0.1 && wait $! && exit
	sleep 0.1
done
exit 1
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := virtual(t, true, []string{"SLUICE_CC=timely", "SLUICE_METRICS=1", "SLUICE_RUN=" + where}, "published.sh")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen []byte
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) { //nolint:forbidigo // nobody says that ib_write_bw sends
		out, err := exec.CommandContext(t.Context(), sluice, "exporter", "--once", "--run-dir", where).Output()
		if err != nil {
			t.Errorf("exporter: %v", err)
			break
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(out))
		if err != nil {
			t.Errorf("exporter: %v\n%s", err, out)
			break
		}
		seen = out
		busy := 0
		for _, m := range families["sluice_qp_segments_total"].GetMetric() {
			if m.GetCounter().GetValue() > 0 {
				busy++
			}
		}
		if busy > 0 && len(families["sluice_process_up"].GetMetric()) == 2 && len(families["sluice_qp_info"].GetMetric()) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("ib_write_bw and its server are not both published:\n%s", out)
			break
		}
	}
	if t.Failed() {
		t.Logf("%s", said.String())
	} else if !regexp.MustCompile(`sluice_qp_info\{device="ibv:mlx5_0",engine="timely",pid="\d+",qpn="0x[0-9a-f]+",state="RTS"\} 1`).Match(seen) {
		t.Errorf("%s", seen)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // by the signal
}
