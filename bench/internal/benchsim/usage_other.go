//go:build !unix

package main

import "errors"

// Without getrusage there is nothing to measure with.
func cpu() float64 { return 0 }

func peakMiB() float64 { return 0 }

func runHTSim(string, options, *result) (*result, error) {
	return nil, errors.New("not supported on this system")
}
