package scenario

import "github.com/sluice-rdma/sluice/scenario/internal/tree"

// What is wrong with a scenario.
type (
	// Errors is all that is wrong, at least one thing, in the order in which it was
	// found.
	Errors = tree.Errors
	// Error is the error of one key.
	Error = tree.Error
	// Pos is the place where a key was written.
	Pos = tree.Pos
)
