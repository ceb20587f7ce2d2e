package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Job files stand in the folder beside the plan, or in the working directory where the
// folder is an object store's: engines read files. Each runs `sluice sweep run`, which
// finds its task in the engine's own variable.

// Engine runs an array of tasks.
type Engine struct {
	// Name is that of sluice sweep plan's flag; File is the job file's, in the folder.
	Name, File string
	// Submit is the command that takes it.
	Submit string
	// MaxTasks is the engine's default limit of an array.
	MaxTasks int
	text     func(j *job) string
}

// Engines returns the engines for which job files are written.
func Engines() []Engine {
	return []Engine{
		{"slurm", "slurm.sbatch", "sbatch", 1000, slurm}, // MaxArraySize is 1001
		{"k8s", "job.yaml", "kubectl apply -f", 100_000, kubernetes},
		{"sge", "sge.sh", "qsub", 75_000, gridEngine}, // max_aj_tasks
		{"pbs", "pbs.sh", "qsub", 10_000, pbs},        // max_array_size
	}
}

// job holds the inputs of a job file.
type job struct {
	name  string
	where []string // the command's last arguments: the folder, absolute or an object store's, and its options
	last  int      // index of the last task
	mib   int64
	JobOptions
}

// JobOptions are the inputs of a job file beside the plan.
type JobOptions struct {
	// Image, Claim and Secret are Kubernetes': the container image that has sluice; the
	// volume claim that has the folder, at its root; and for an object store the Secret,
	// if any, whose keys are the variables of its credentials.
	Image, Claim, Secret string
}

// WriteJob writes an engine's job file, into the folder or, beside an object store, into
// the working directory, and returns its path.
func WriteJob(f Folder, p *Planned, e Engine, o JobOptions) (string, error) {
	tasks := (p.Cells-1)/p.Chunk + 1
	if tasks > e.MaxTasks {
		return "", fmt.Errorf("%d tasks are more than %s takes in an array, %d: give --chunk %d or more", tasks, e.Name, e.MaxTasks, (p.Cells-1)/e.MaxTasks+1)
	}
	j := &job{
		name: jobName(p.Name), last: tasks - 1, JobOptions: o,
		mib: max(256, 2*p.Sum.MemoryBytes>>20), // the estimate is the least
	}
	files := f.store
	if remote, ok := f.store.(*objects); ok {
		files = directory(".")
		if remote.endpoint != "" {
			j.where = append(j.where, "--endpoint", remote.endpoint)
		}
		j.where = append(j.where, f.name)
	} else {
		dir, err := filepath.Abs(f.name)
		if err != nil {
			return "", err
		}
		j.where = []string{dir}
	}
	if e.Name == "k8s" {
		if err := o.check(isObjects(f.name)); err != nil {
			return "", err
		}
	}
	return files.path(e.File), files.put(e.File, []byte(e.text(j)))
}

// check checks Kubernetes' requirements.
func (o *JobOptions) check(remote bool) error {
	switch {
	case o.Image == "":
		return errors.New("--k8s needs --image, a container image that has sluice")
	case !remote && o.Claim == "":
		return errors.New("--k8s needs --claim, the volume claim that has the folder at its root; or a folder in an object store, s3://BUCKET/PREFIX")
	case remote && o.Claim != "":
		return errors.New("--claim is of a directory, and the folder is in an object store: leave it out, and give --secret where the pods need credentials")
	case !remote && o.Secret != "":
		return errors.New("--secret is of an object store, and the folder is a directory: leave it out")
	}
	return nil
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

// shell is the command of a task for a shell.
func (j *job) shell() string {
	command := "sluice sweep run --quiet"
	for _, word := range j.where {
		command += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return command
}

func slurm(j *job) string {
	return fmt.Sprintf(`#!/bin/sh
#SBATCH --job-name=%s
#SBATCH --array=0-%d
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=%dM
#SBATCH --requeue
#SBATCH --output=/dev/null
exec %s
`, j.name, j.last, j.mib, j.shell())
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
exec %s
`, j.name, j.last+1, j.mib, j.shell())
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
exec %s
`, j.name[:min(len(j.name), 15)], array, j.mib, j.shell())
}

func kubernetes(j *job) string {
	var files, volumes string
	where := j.where
	if j.Claim != "" {
		where = []string{"/sweep"}
		files = "\n          volumeMounts:\n            - {name: sweep, mountPath: /sweep}"
		volumes = fmt.Sprintf("\n      volumes:\n        - name: sweep\n          persistentVolumeClaim: {claimName: %s}", j.Claim)
	}
	if j.Secret != "" {
		files = fmt.Sprintf("\n          envFrom:\n            - secretRef: {name: %s}", j.Secret)
	}
	var words []string
	for _, word := range where {
		words = append(words, strconv.Quote(word))
	}
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
          command: [sluice, sweep, run, --quiet, %[5]s]
          resources:
            requests: {cpu: "1", memory: %[6]dMi}
            limits: {cpu: "1"}%[7]s%[8]s
`, j.name, j.last+1, min(j.last+1, 100), j.Image, strings.Join(words, ", "), j.mib, files, volumes)
}
