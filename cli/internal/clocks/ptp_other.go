//go:build !linux

package clocks

import (
	"errors"

	"github.com/sluice-rdma/sluice/units"
)

// system is empty: PTP clocks are reached on Linux alone.
type system struct{}

var kernel system

func (system) openPTP(string, func() units.Time) (*Source, error) {
	return nil, errors.New("PTP hardware clocks require Linux")
}
