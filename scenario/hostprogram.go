package scenario

import (
	"fmt"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/units"
)

// HostProgram is an unmodified RDMA program that a host runs in simulated time
// ([virtual-nic.md](virtual-nic.md#simulated-time)). Its device `mlx5_0` is the host's NIC.
// A scenario has programs or workloads. The run ends with the last program, or when
// `duration` is over.
type HostProgram struct {
	// The host that it runs on. Programs reach it by this name, and by its address:
	// 10.0.0.1 is the first host's.
	Host string `yaml:"host" eg:"h0" req:"yes"`
	// The program and its arguments. A name without a slash is looked for as a shell does.
	Run []string `yaml:"run" eg:"[ib_write_bw, -d, mlx5_0]" req:"yes"`
	// When it starts.
	Start units.Time `yaml:"start" eg:"10us"`

	// At is the index of Host.
	At int `yaml:"-"`
}

// checkPrograms completes and checks the programs of hosts.
func (s *Scenario) checkPrograms(d *tree.Document) {
	if len(s.Workloads) > 0 {
		d.Fail("programs", "there are workloads, too: give one of the two")
	}
	for i, p := range s.Programs {
		path := fmt.Sprintf("programs[%d]", i)
		var err error
		switch p.At, err = s.graph.Host(p.Host); {
		case p.Host == "":
			d.Fail(path+".host", "it is missing: name a host, such as %s", s.graph.HostName(0))
		case err != nil:
			d.Fail(path+".host", "%v", err)
		}
		if len(p.Run) == 0 || p.Run[0] == "" {
			d.Fail(path+".run", "it is missing: give a program and its arguments, such as [ib_write_bw, -d, mlx5_0]")
		}
		if p.Start < 0 || p.Start >= s.Duration {
			d.Fail(path+".start", "is %v: choose a time from 0 to below the duration, %v", p.Start, s.Duration)
		}
	}
}

// checkForPrograms refuses systems that programs can't run on.
func (sys *System) checkForPrograms(d *tree.Document, path string, at func(string) string) {
	switch {
	case sys.Reduced():
		d.Fail(at("nic.model"), "programs drive the stages of a NIC, which reduced ones do not have: set nic.model to staged")
	case sys.Engine != engineNone && !sys.Offload():
		d.Fail(path+".engine", "%s runs in the host's shim, and programs post to the NIC: set nic.mode to offload, or take engine none", sys.Engine)
	}
	if !virtualModels[sys.NIC.Preset] {
		d.Fail(at("nic.preset"), "is %s: programs have an emulated cx5, cx6dx or cx7; choose one of these", sys.NIC.Preset)
	}
	for i := range sys.Fabric.Failures {
		if f := &sys.Fabric.Failures[i]; f.PostSend != 0 || f.PollCQ != 0 {
			d.Fail(at(fmt.Sprintf("fabric.failures[%d]", i)), "programs post and poll by libmlx5, which makes its errors itself from what the device does: give status, dies, or qp alone")
		}
	}
}

// engineNone is no congestion control.
const engineNone = "none"

// virtualModels are the presets that programs see as adapters.
var virtualModels = map[string]bool{"cx5": true, "cx6dx": true, "cx7": true}
