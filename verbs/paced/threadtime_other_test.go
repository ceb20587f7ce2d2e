//go:build !linux

package paced_test

import "time"

// threadTime is not known here.
func threadTime() time.Duration { return 0 }
