package stats

import (
	"runtime"

	"github.com/sluice-rdma/sluice/internal/version"
)

// Here returns the environment of this program.
func Here() Environment {
	return Environment{Identity: version.Get(), CPUs: runtime.NumCPU()}
}

// Environment is the machine and the program that ran.
type Environment struct {
	version.Identity // the program; documents of before have less of it

	CPUs int `json:"cpus"`
}
