package sweep

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Job files stand in the folder beside the plan. Each runs `sluice sweep run`, which
// finds its task in the engine's own variable.

// Engine is what runs an array of tasks.
type Engine struct {
	// Name is that of sluice sweep plan's flag; File is the job file's, in the folder.
	Name, File string
	// Submit is the command that takes it.
	Submit string
	// MaxTasks is what the engine takes in an array by default.
	MaxTasks int
	text     func(j *job) string
}

// Engines are those that job files are written for.
func Engines() []Engine {
	return []Engine{
		{"slurm", "slurm.sbatch", "sbatch", 1000, slurm}, // MaxArraySize is 1001
		{"k8s", "job.yaml", "kubectl apply -f", 100_000, kubernetes},
		{"sge", "sge.sh", "qsub", 75_000, gridEngine}, // max_aj_tasks
		{"pbs", "pbs.sh", "qsub", 10_000, pbs},        // max_array_size
	}
}

// job is what a job file needs to know.
type job struct {
	name  string
	dir   string // absolute
	last  int    // index of the last task
	mib   int64
	image string
	claim string
}

// JobOptions are what a job file needs beside the plan.
type JobOptions struct {
	// Image and Claim are Kubernetes': the container image that has sluice, and the
	// volume claim that has the folder, at its root.
	Image, Claim string
}

// WriteJob writes an engine's job file and returns its path.
func WriteJob(f Folder, p *Planned, e Engine, o JobOptions) (string, error) {
	tasks := (p.Cells-1)/p.Chunk + 1
	if tasks > e.MaxTasks {
		return "", fmt.Errorf("%d tasks are more than %s takes in an array, %d: give --chunk %d or more", tasks, e.Name, e.MaxTasks, (p.Cells-1)/e.MaxTasks+1)
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return "", err
	}
	if e.Name == "k8s" && (o.Image == "" || o.Claim == "") {
		return "", fmt.Errorf("--k8s needs --image, a container image that has sluice, and --claim, the volume claim that has the folder at its root")
	}
	j := &job{
		name: jobName(p.Name), dir: dir, last: tasks - 1, image: o.Image, claim: o.Claim,
		mib: max(256, 2*p.Sum.MemoryBytes>>20), // the estimate is the least
	}
	return f.path(e.File), f.put(e.File, []byte(e.text(j)))
}

// jobName makes a name that all engines take: RFC 1123's labels, 52 characters at most.
func jobName(name string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return "sweep-" + strings.Trim(out[:min(len(out), 46)], "-")
}

// quoted is a word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func slurm(j *job) string {
	return fmt.Sprintf(`#!/bin/sh
#SBATCH --job-name=%s
#SBATCH --array=0-%d
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=%dM
#SBATCH --requeue
#SBATCH --output=/dev/null
exec sluice sweep run --quiet %s
`, j.name, j.last, j.mib, quoted(j.dir))
}

func gridEngine(j *job) string {
	return fmt.Sprintf(`#!/bin/sh
#$ -N %s
#$ -t 1-%d
#$ -S /bin/sh
#$ -r y
#$ -o /dev/null
#$ -j y
#$ -l h_vmem=%dM
exec sluice sweep run --quiet %s
`, j.name, j.last+1, j.mib, quoted(j.dir))
}

func pbs(j *job) string {
	array := fmt.Sprintf("#PBS -J 0-%d\n", j.last)
	if j.last == 0 {
		array = "" // an array of one is refused
	}
	return fmt.Sprintf(`#!/bin/sh
#PBS -N %s
%s#PBS -r y
#PBS -l select=1:ncpus=1:mem=%dmb
exec sluice sweep run --quiet %s
`, j.name[:min(len(j.name), 15)], array, j.mib, quoted(j.dir))
}

func kubernetes(j *job) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: %s
spec:
  completionMode: Indexed
  completions: %d
  parallelism: %d
  backoffLimitPerIndex: 3
  maxFailedIndexes: %[2]d
  podFailurePolicy:
    rules:
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: sluice
          image: %[4]s
          command: [sluice, sweep, run, --quiet, /sweep]
          resources:
            requests: {cpu: "1", memory: %[5]dMi}
            limits: {cpu: "1"}
          volumeMounts:
            - {name: sweep, mountPath: /sweep}
      volumes:
        - name: sweep
          persistentVolumeClaim: {claimName: %[6]s}
`, j.name, j.last+1, min(j.last+1, 100), j.image, j.mib, j.claim)
}
