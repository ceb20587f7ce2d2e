package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/bench/sweep"
)

// slurm is a cluster of one node on this machine, of Debian's slurmctld and slurmd.
type slurm struct {
	t       *testing.T
	dir     string
	node    string
	slurmd  *exec.Cmd
	environ []string
}

// newSlurm skips the test where there is no Slurm.
func newSlurm(t *testing.T, bin string) *slurm {
	t.Helper()
	for _, program := range []string{"slurmctld", "slurmd", "sbatch", "squeue"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s: install Debian's slurmctld, slurmd, slurm-client and slurm-wlm-basic-plugins", program)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &slurm{t: t, dir: t.TempDir()}
	s.node, _, _ = strings.Cut(host, ".")
	ports := freePorts(t, 2)
	conf := fmt.Sprintf(`ClusterName=sweep
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmdPort=%[3]d
AuthType=auth/none
CredType=cred/none
SlurmUser=%[4]s
SlurmdUser=%[4]s
StateSaveLocation=%[5]s/state
SlurmdSpoolDir=%[5]s/spool
SlurmctldPidFile=%[5]s/slurmctld.pid
SlurmdPidFile=%[5]s/slurmd.pid
SlurmctldLogFile=%[5]s/slurmctld.log
SlurmdLogFile=%[5]s/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=%[6]d RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=%[1]s Default=YES MaxTime=INFINITE State=UP
`, s.node, ports[0], ports[1], me.Username, s.dir, 1)
	for _, d := range []string{"state", "spool"} {
		if err := os.Mkdir(filepath.Join(s.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(s.dir, "slurm.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	s.environ = append(os.Environ(), "SLURM_CONF="+file, "PATH="+bin+":"+os.Getenv("PATH"))
	s.daemon("slurmctld", "-D", "-f", file)
	s.start()
	s.await("the node is up", func() bool {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.slurmd.Process.Pid)); err != nil || bytes.Contains(state, []byte(") Z ")) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "slurmd.log"))
			t.Skipf("slurmd does not run here:\n%s", log)
		}
		out, err := s.command("sinfo", "--noheader", "--format=%T").CombinedOutput()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
	return s
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (s *slurm) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = s.environ, s.dir
	return cmd
}

// daemon runs until it is killed, at the end of the test at the latest.
func (s *slurm) daemon(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := s.command(name, args...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been killed before
		_ = cmd.Wait()
	})
	return cmd
}

func (s *slurm) start() {
	s.slurmd = s.daemon("slurmd", "-D", "-f", filepath.Join(s.dir, "slurm.conf"), "-N", s.node)
}

func (s *slurm) await(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(4 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // until a cluster of real time is so far
		if time.Now().After(end) {
			queue, _ := s.command("squeue").CombinedOutput()
			nodes, _ := s.command("sinfo", "--list-reasons").CombinedOutput()
			log, _ := os.ReadFile(filepath.Join(s.dir, "slurmctld.log"))
			s.t.Fatalf("after 4 minutes it is not so that %s:\n%s%s%s", what, queue, nodes, log[max(0, len(log)-4000):])
		}
	}
}

// done waits until no task is left.
func (s *slurm) done() {
	s.t.Helper()
	s.await("the queue is empty", func() bool {
		out, err := s.command("squeue", "--noheader").CombinedOutput()
		return err == nil && len(out) == 0
	})
}

// TestSweepOnSlurm runs a sweep as an array, with a cell that fails, and slurmd killed and
// started again in the middle. What status says is missing is submitted again, and the
// merged table has the bytes of a run without Slurm.
func TestSweepOnSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and a cluster takes half a minute")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(exe, filepath.Join(bin, "sluice")); err != nil {
		t.Fatal(err)
	}
	s := newSlurm(t, bin)
	spec := filepath.Join(dir, "sweep.yaml")
	if err := os.WriteFile(spec, []byte("scenarios: [quickstart]\nseeds: 4\nparameters: [{key: duration, values: [0.1ms, 0.2ms, 0.3ms, 0.4ms, 0.5ms]}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sluice := func(args ...string) string {
		t.Helper()
		out, err := s.command("sluice", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("sluice %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	table := func(folder string) []byte {
		t.Helper()
		file := folder + ".csv"
		sluice("sweep", "merge", folder, "-o", file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	status := func(folder string) *sweep.Status {
		t.Helper()
		var st sweep.Status
		if err := json.Unmarshal([]byte(sluice("sweep", "status", folder, "--json")), &st); err != nil {
			t.Fatal(err)
		}
		return &st
	}
	here, there := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	sluice("sweep", "plan", spec, "-o", here)
	sluice("sweep", "run", here)

	sluice("sweep", "plan", spec, "-o", there, "--slurm", "--chunk", "2")
	texts, err := filepath.Glob(filepath.Join(there, "scenarios", "*.yaml"))
	if err != nil || len(texts) != 5 {
		t.Fatal(texts, err)
	}
	good, err := os.ReadFile(texts[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(texts[0], bytes.Replace(good, []byte("mtu: "), []byte("mtu: 1"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	batch := filepath.Join(there, "slurm.sbatch")
	submit := func(args ...string) {
		t.Helper()
		if out, err := s.command("sbatch", append(args, batch)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	submit()
	s.await("some cells have results", func() bool { return status(there).Done >= 4 })
	if err := s.slurmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.slurmd.Wait() // it was killed
	s.start()
	s.done()
	st := status(there)
	t.Logf("after the first array: %d of 20 done, %d failed, %d missing: --array=%s", st.Done, st.Failed, st.Missing, st.Array)
	if st.Failed != 4 || !strings.Contains(st.Failures[0].Error, "mtu") {
		t.Errorf("%+v", st)
	}
	if err := os.WriteFile(texts[0], good, 0o644); err != nil {
		t.Fatal(err)
	}
	submit("--array=" + st.Array)
	s.done()
	if st := status(there); st.Done != 20 {
		t.Fatalf("%+v", st)
	}
	if !bytes.Equal(table(here), table(there)) {
		t.Error("the merged tables differ")
	}
}
