package cc

import "github.com/sluice-rdma/sluice/units"

// Restarted is an Engine that a NIC with slow restart (mlx5's roce_slow_restart_en) slows down when its transport has
// gone back for a loss, in place of OnLoss and OnTimeout.
type Restarted interface {
	Engine
	// SlowRestart reports whether it has lowered the rate.
	SlowRestart(now units.Time) (c Control, lowered bool)
}

// CNPSpaced is a configuration that has the least time between two congestion notification packets itself.
type CNPSpaced interface {
	CNPInterval() units.Time
}
