//go:build linux

package virtual

import (
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
)

// turn is the attendant of a context in simulated time: the scheduler says when the program
// has come to a waiting point, and the back end when there are completions. Whoever calls
// it has the simulation.
type turn struct {
	sim     *Simulation
	context *context
	engine  *mlx5.Engine
}

func (t *turn) start(e *mlx5.Engine) {
	t.engine = e
	t.sim.add(t)
}

// wake has the context looked at after the present event, or at the program's next waiting
// point.
func (t *turn) wake() { t.sim.due = true }

func (t *turn) onMapped(uint64, uint64) {}

func (t *turn) onFreed(uint64) {}

func (t *turn) stop() { t.sim.remove(t) }

// look has the engine do what there is to do.
func (t *turn) look() {
	for t.engine.Scan() {
	}
}
