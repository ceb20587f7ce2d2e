package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/scenario"
)

func main() {
	if err := command(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "benchsim:", err)
		os.Exit(1)
	}
}

func command(args []string, out io.Writer) error {
	var opt options
	flags := flag.NewFlagSet("benchsim", flag.ContinueOnError)
	names := flags.String("workloads", "incast10x10,incast255,perm128,perm1024,perm8192,websearch256", "comma-separated")
	flags.StringVar(&opt.Engine, "engine", "none", "rate engine")
	flags.IntVar(&opt.MTU, "mtu", 1000, "payload bytes of a packet")
	flags.StringVar(&opt.File, "flows", "", "connection matrix `FILE` of htsim's in place of the flows of the one workload named")
	flags.IntVar(&opt.Workers, "workers", 1, "workers that run the network divided; 0 does not divide it")
	rounds := flags.Int("rounds", 1, "runs of each workload; the median by CPU time is shown")
	htsim := flags.String("htsim", "", "directory of htsim's datacenter programs, to run in turns (with -flows)")
	profile := flags.String("cpuprofile", "", "write a CPU profile to this file")
	one := flags.String("one", "", "run this workload in this process and print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *one != "" {
		if err := known(*one); err != nil {
			return err
		}
		r, err := run(*one, opt, *profile)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	list := strings.Split(*names, ",")
	if (opt.File != "" || *htsim != "") && (len(list) != 1 || opt.File == "") {
		return errors.New("-flows and -htsim go with one workload: name it with -workloads, and the file with -flows")
	}
	fmt.Fprintf(out, "%-14s %-8s %6s %10s %10s %6s %7s %7s %6s %6s\n", "workload", "engine", "hosts", "hops", "events", "ev/hop", "CPU s", "wall s", "MiB", "Mhop/s")
	for _, name := range list {
		if err := known(name); err != nil {
			return err
		}
		var ours, theirs []*result
		for range max(*rounds, 1) {
			r, err := child(name, opt)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			ours = append(ours, r)
			if *htsim != "" {
				t, err := runHTSim(*htsim, opt, r)
				if err != nil {
					return fmt.Errorf("htsim, %s: %w", name, err)
				}
				theirs = append(theirs, t)
			}
		}
		show(out, median(ours))
		if len(theirs) > 0 {
			show(out, median(theirs))
			fmt.Fprintf(out, "%-14s %.2f times htsim\n", name, median(theirs).CPUS/median(ours).CPUS)
		}
	}
	return nil
}

func known(name string) error {
	if !slices.Contains(scenario.Speeds(), name) {
		return fmt.Errorf("unknown workload %q, expected one of %s", name, strings.Join(scenario.Speeds(), ", "))
	}
	return nil
}

func median(rs []*result) *result {
	rs = slices.Clone(rs)
	slices.SortFunc(rs, func(a, b *result) int {
		if a.CPUS < b.CPUS {
			return -1
		}
		return 1
	})
	return quantile.Of(rs, 0.5)
}

func show(out io.Writer, r *result) {
	perHop := 0.0
	if r.Hops > 0 {
		perHop = float64(r.Events) / float64(r.Hops)
	}
	fmt.Fprintf(out, "%-14s %-8s %6d %10d %10d %6.2f %7.2f %7.2f %6.0f %6.2f\n", r.Workload, r.Engine, r.Hosts, r.Hops, r.Events, perHop, r.CPUS, r.WallS, r.MiB, float64(r.Hops)/r.CPUS/1e6)
	if r.Dropped > 0 {
		fmt.Fprintf(out, "%-14s %d packets dropped\n", "", r.Dropped)
	}
}

// child runs a workload in a process of its own, so that its memory is its own.
func child(name string, opt options) (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-one", name, "-engine", opt.Engine, "-mtu", fmt.Sprint(opt.MTU), "-flows", opt.File, "-workers", fmt.Sprint(opt.Workers))
	c.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", max(1, opt.Workers)))
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		return nil, err
	}
	r := &result{}
	return r, json.Unmarshal(text, r)
}
