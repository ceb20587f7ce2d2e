package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/bench/sweep"
	"github.com/sluice-rdma/sluice/internal/racedetector"
)

// TestSweepJobs runs what the job files start, once for each index of their arrays, with
// the variable of the engine: each task runs its own cells alone, and all of them together
// give the table of a run without an engine.
func TestSweepJobs(t *testing.T) {
	if racedetector.On {
		t.Skip("tests of bench/sweep run the same goroutines under the race detector")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh, by which job files run")
	}
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(exe, filepath.Join(bin, "sluice")); err != nil {
		t.Fatal(err)
	}
	run := func(environ []string, name string, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(name, args...)
		if name == "sluice" {
			cmd.Path, cmd.Err = filepath.Join(bin, name), nil
		}
		cmd.Env = slices.Concat(os.Environ(), []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, environ)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v %s %v: %v\n%s", environ, name, args, err, out)
		}
		return out
	}
	table := func(folder string) []byte {
		t.Helper()
		run(nil, "sluice", "sweep", "merge", folder, "-o", folder+".csv")
		text, err := os.ReadFile(folder + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	spec := filepath.Join(dir, "sweep.yaml")
	if err := os.WriteFile(spec, []byte("scenarios: [quickstart]\nseeds: 5\nchunk: 2\nparameters: [{key: duration, values: [0.1ms]}]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	here := filepath.Join(dir, "here")
	run(nil, "sluice", "sweep", "plan", spec, "-o", here)
	run(nil, "sluice", "sweep", "run", here)
	want := table(here)

	for _, c := range []struct {
		engine, file, variable string
		first                  int
		array                  string // in the file
	}{
		{"slurm", "slurm.sbatch", "SLURM_ARRAY_TASK_ID", 0, "#SBATCH --array=0-2\n"},
		{"k8s", "job.yaml", "JOB_COMPLETION_INDEX", 0, "  completions: 3\n"},
		{"sge", "sge.sh", "SGE_TASK_ID", 1, "#$ -t 1-3\n"},
		{"pbs", "pbs.sh", "PBS_ARRAY_INDEX", 0, "#PBS -J 0-2\n"},
	} {
		t.Run(c.engine, func(t *testing.T) {
			folder := filepath.Join(dir, "it's "+c.engine) // a name that a shell would take apart
			args := []string{"sweep", "plan", spec, "-o", folder, "--" + c.engine}
			if c.engine == "k8s" {
				args = append(args, "--image", "i", "--claim", "c")
			}
			run(nil, "sluice", args...)
			file := filepath.Join(folder, c.file)
			text, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(text, []byte(c.array)) {
				t.Fatalf("%v, no %q in\n%s", err, c.array, text)
			}
			command := []string{"sh", file}
			if c.engine == "k8s" {
				command = podCommand(t, text)
				for i, word := range command {
					if word == "/sweep" { // where the pod has the folder
						command[i] = folder
					}
				}
			}
			for task := range 3 {
				run([]string{fmt.Sprintf("%s=%d", c.variable, c.first+task)}, command[0], command[1:]...)
				st, err := sweep.Dir(folder).Status()
				if err != nil || st.Done != min(2*(task+1), 5) || st.Array != []string{"1-2", "2", ""}[task] {
					t.Fatalf("after task %d: %+v, %v", task, st, err)
				}
			}
			if !bytes.Equal(table(folder), want) {
				t.Error("the merged table differs")
			}
		})
	}
}

// podCommand is the command of a Job's pods.
func podCommand(t *testing.T, manifest []byte) []string {
	t.Helper()
	var job struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Command []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal(manifest, &job); err != nil || len(job.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return job.Spec.Template.Spec.Containers[0].Command
}

// TestSweepJobsOnS3: where the folder is in an object store, job files are in the working
// directory, and their tasks know the endpoint.
func TestSweepJobsOnS3(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("AWS_ENDPOINT_URL", "http://store:9000")
	f, err := sweep.Open("s3://b/it's", "")
	if err != nil {
		t.Fatal(err)
	}
	p := &sweep.Planned{Plan: sweep.Plan{Name: "n", Cells: 3, Chunk: 1}}
	o := sweep.JobOptions{Image: "i", Secret: "keys"}
	for _, e := range sweep.Engines() {
		path, err := sweep.WriteJob(f, p, e, o)
		if err != nil || path != e.File {
			t.Fatal(path, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == "k8s" {
			if got, want := podCommand(t, text), strings.Fields("sluice sweep run --quiet --endpoint http://store:9000 s3://b/it's"); !slices.Equal(got, want) || !bytes.Contains(text, []byte("secretRef: {name: keys}\n")) || bytes.Contains(text, []byte("olume")) {
				t.Errorf("%q in\n%s", got, text)
			}
		} else if want := `exec sluice sweep run --quiet '--endpoint' 'http://store:9000' 's3://b/it'\''s'` + "\n"; !bytes.HasSuffix(text, []byte(want)) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, c := range []struct {
		folder  string
		options sweep.JobOptions
		want    string
	}{
		{"s3://b/x", sweep.JobOptions{}, "needs --image"},
		{"s3://b/x", sweep.JobOptions{Image: "i", Claim: "c"}, "--claim is of a directory"},
		{"d", sweep.JobOptions{Image: "i"}, "needs --claim"},
		{"d", sweep.JobOptions{Image: "i", Claim: "c", Secret: "s"}, "--secret is of an object store"},
	} {
		f, err := sweep.Open(c.folder, "")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(sweep.Engines(), func(e sweep.Engine) bool { return e.Name == "k8s" })
		if _, err := sweep.WriteJob(f, p, sweep.Engines()[i], c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, expected %s", c, err, c.want)
		}
	}
}
