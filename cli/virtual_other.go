//go:build !linux

package cli

import (
	"context"
	"errors"
)

func virtualModels() []string { return []string{"Linux only"} }

func runVirtual(context.Context, string, [][]string, []string) error {
	return errors.New("sluice virtual requires Linux")
}
