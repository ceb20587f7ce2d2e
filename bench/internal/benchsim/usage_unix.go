//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// cpu returns the CPU time of this process in seconds.
func cpu() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return seconds(&u)
}

func seconds(u *syscall.Rusage) float64 {
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peakMiB returns the most memory of this process that was resident.
func peakMiB() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return mib(&u)
}

func mib(u *syscall.Rusage) float64 {
	if runtime.GOOS == "darwin" {
		return float64(u.Maxrss) / (1 << 20)
	}
	return float64(u.Maxrss) / (1 << 10)
}

// htsimTries is how often htsim may fail: a run of its HPCC does not come to its end
// now and then, by an assertion of its own.
const htsimTries = 5

var flowSize = regexp.MustCompile(`\bsize (\d+)`)

// runHTSim runs htsim on the same flows. Its hops are ours: both carry the same
// packets over paths of the same length.
func runHTSim(dir string, opt options, ours *result) (*result, error) {
	// It reads its log back at its end, and stops short where it can't.
	tmp, err := os.MkdirTemp("", "benchsim")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	log := filepath.Join(tmp, "log")
	// It writes files of its own where it runs.
	file, err := filepath.Abs(opt.File)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	common := []string{"-nodes", fmt.Sprint(ours.Hosts), "-tm", file, "-linkspeed", "100000", "-mtu", fmt.Sprint(opt.MTU), "-q", "60000", "-end", "60000", "-o", log}
	program := map[string]string{"none": "htsim_roce", "hpcc": "htsim_hpcc", "swift": "htsim_swift"}[opt.Engine]
	switch program {
	case "":
		return nil, fmt.Errorf("it has nothing to compare with engine %s", opt.Engine)
	case "htsim_swift":
		// It takes the size of all flows from its command line, in packets.
		text, err := os.ReadFile(opt.File)
		if err != nil {
			return nil, err
		}
		size := flowSize.FindSubmatch(text)
		if size == nil {
			return nil, fmt.Errorf("%s has no flow with a size", opt.File)
		}
		bytes, err := strconv.Atoi(string(size[1]))
		if err != nil {
			return nil, err
		}
		common = append(common, "-cwnd", "15", "-tsample", "1000000", "-flowsize", strconv.Itoa((bytes+opt.MTU-1)/opt.MTU))
	default:
		common = append(common, "-strat", "ecmp_host", //nolint:misspell // htsim's spelling
			"-paths", "1", "-pfc_thresholds", "160", "200")
	}
	var c *exec.Cmd
	var start time.Time
	for try := 1; ; try++ {
		c = exec.Command(filepath.Join(dir, program), common...)
		c.Dir = tmp
		start = time.Now()
		err := c.Run()
		if err == nil {
			break
		}
		if try == htsimTries {
			return nil, fmt.Errorf("%s, %d times: %w", c, try, err)
		}
		fmt.Fprintf(os.Stderr, "benchsim: %s ended with %v: once more\n", program, err)
	}
	r := &result{Workload: ours.Workload, Engine: program[len("htsim_"):], Hosts: ours.Hosts, Flows: ours.Flows, Hops: ours.Hops, WallS: time.Since(start).Seconds()}
	if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.CPUS, r.MiB = seconds(u), mib(u)
	}
	return r, nil
}
