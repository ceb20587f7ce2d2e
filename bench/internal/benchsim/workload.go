package main

import (
	"fmt"
	"path/filepath"

	"github.com/sluice-rdma/sluice/scenario"
)

// options are a run's settings beside its workload.
type options struct {
	Engine string
	MTU    int
	File   string // a connection matrix instead of the workload's flows
	// Workers run the network in windows; 0 runs it undivided, by the engine.
	Workers int
}

// load makes the scenario of a workload. The thresholds of PFC are htsim's of 160 and 200
// packets.
func load(name string, opt options) (*scenario.Scenario, error) {
	frame := opt.MTU + 62
	sets := []string{
		fmt.Sprintf("systems=[{engine: %s}]", opt.Engine), fmt.Sprint("nic.mtu=", opt.MTU),
		fmt.Sprintf("fabric.pfc.xoff=%dB", 200*frame), fmt.Sprintf("fabric.pfc.xon=%dB", 160*frame),
	}
	if opt.File != "" {
		path, err := filepath.Abs(opt.File)
		if err != nil {
			return nil, err
		}
		sets = append(sets, fmt.Sprintf("workloads=[{kind: trace, format: htsim, file: %q}]", path))
	}
	return scenario.Load(name, sets...)
}
